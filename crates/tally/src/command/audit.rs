//! `tally audit DIR`

use super::{Ended, print};
use crate::configuration::Configuration;
use crate::layout::Layout;
use crate::stages::ClusterConfiguration;
use anyhow::{Context as _, bail};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;
use tally_bench::table::{self, Align, Table};
use tally_gateway::codec::to_hex;
use tally_ledger::Network;
use tally_log::LogError;
use tally_settlement::audit::{AuditError, AuditOptions, AuditReport, audit, audit_entries, bic};
use tally_settlement::journal::JournalError;
use tally_settlement::process::journal::Journal;

/// Arguments of `tally audit`.
#[derive(Debug, clap::Args)]
pub(super) struct Audit {
    /// Directory of the network; only network.toml, genesis.toml and the journal are read
    directory: PathBuf,
    /// Where the network's ledger lies: in the journal's files, or in Kafka's topics that cluster.toml names
    #[arg(long, id = "log", value_name = "file|kafka")]
    log: Option<String>,
    /// A setting in place of cluster.toml's; may be repeated
    #[arg(long = "set", value_name = "SECTION.KEY=VALUE")]
    settings: Vec<String>,
    /// Do not verify the payers' signatures again
    #[arg(long)]
    no_signatures: bool,
}

impl Audit {
    pub(super) fn run(self) -> anyhow::Result<Ended> {
        let layout = Layout::new(&self.directory);
        let configuration = Configuration::read(&layout, &[])?;
        let network = Arc::new(configuration.network()?);
        let options = AuditOptions { signatures: !self.no_signatures };
        let began = Instant::now();
        let audited = match self.log.as_deref() {
            None | Some("file") => audit(layout.root(), &network, options),
            Some("kafka") => {
                let settings = ClusterConfiguration::read(&layout, &self.settings)?;
                let journal = Journal::open(&settings.cluster()?, &settings.layout(&configuration)?)
                    .context("cannot read the ledger's topics")?;
                audit_entries(journal, &network, options)
            }
            Some(other) => bail!("--log {other}: a ledger lies in file or kafka"),
        };
        match audited {
            Ok(report) => {
                let rate = report.accepted as f64 / began.elapsed().as_secs_f64();
                print::line(&facts(&report, options, rate));
                print::line(books(&report, &network).trim_end_matches('\n'));
                Ok(Ended::Well)
            }
            Err(error) if is_finding(&error) => {
                eprintln!("audit: the ledger of {} is not in order", layout.root().display());
                eprintln!("  {error}");
                let mut cause = std::error::Error::source(&error);
                while let Some(error) = cause {
                    eprintln!("  because: {error}");
                    cause = error.source();
                }
                Ok(Ended::Refused)
            }
            Err(error) => bail!(error),
        }
    }
}

/// Whether something is wrong with what the journal says, and not with reading it.
fn is_finding(error: &AuditError) -> bool {
    let in_log = |error: &LogError| matches!(error, LogError::Corrupt { .. });
    match error {
        AuditError::Finding { .. } | AuditError::Books { .. } => true,
        AuditError::Journal(JournalError::Log(error)) | AuditError::Open { source: error, .. } => {
            in_log(error)
        }
        AuditError::Journal(_) => true,
    }
}

fn facts(report: &AuditReport, options: AuditOptions, rate: f64) -> String {
    let refused = report.sequenced - report.made;
    let mut facts = vec![
        ("accepted", format!("{} transactions", table::count(report.accepted))),
        (
            "decided",
            format!(
                "{}: {} made, {} refused",
                table::count(report.sequenced),
                table::count(report.made),
                table::count(refused)
            ),
        ),
        ("undecided", format!("{}; a network that starts decides them", table::count(report.undecided))),
        (
            "merkle log",
            format!("{} leaves, root {}", table::count(report.tree_size), to_hex(&report.tree_root)),
        ),
        ("signatures", if options.signatures { "all verified" } else { "payers' not verified" }.to_owned()),
        ("took", format!("{}, {}", table::duration(report.took), table::rate(rate))),
    ];
    if let Some(torn) = report.journal.as_ref().and_then(|journal| journal.truncated.as_ref()) {
        let text = format!(
            "{} bytes of a write that was interrupted, at byte {} of {}: not part of the journal",
            table::count(torn.bytes),
            torn.position,
            torn.segment
        );
        facts.push(("torn end", text));
    }
    table::facts(facts)
}

fn books(report: &AuditReport, network: &Network) -> String {
    let mut rows = Table::new(&[
        ("institution", Align::Left),
        ("asset", Align::Left),
        ("accounts", Align::Right),
        ("customers", Align::Right),
        ("own funds", Align::Right),
        ("held for others", Align::Right),
        ("issued", Align::Right),
    ]);
    for total in &report.totals {
        let Some(asset) = network.assets.get(total.asset.index()) else { continue };
        let amount = |minor_units| print::decimal(minor_units, asset.exponent);
        rows.row([
            bic(network, total.participant).to_owned(),
            asset.code.clone(),
            table::count(total.accounts),
            amount(total.customers),
            amount(total.own),
            amount(total.settlement),
            amount(total.issued),
        ]);
    }
    rows.render(table::styled())
}
