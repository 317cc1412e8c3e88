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
use tally_ledger::{Network, SignaturePolicy};
use tally_log::LogError;
use tally_settlement::audit::{Audit as Auditing, AuditError, AuditOptions, AuditReport, FINDINGS, bic};
use tally_settlement::journal::JournalError;
use tally_settlement::process::journal::Journal;
use tally_settlement::process::misconduct::{self, Misconduct};
use tally_settlement::process::partition;

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
    /// Audit the partition of this institution alone, from what it is shown
    #[arg(long, value_name = "BIC")]
    institution: Option<String>,
    /// Do not verify signatures again: take the journal's word for who signed
    #[arg(long)]
    no_signatures: bool,
    /// How many findings are shown; others are counted
    #[arg(long, value_name = "N", default_value_t = FINDINGS)]
    findings: usize,
    /// Print one JSON object in place of text
    #[arg(long)]
    json: bool,
}

impl Audit {
    pub(super) fn run(self) -> anyhow::Result<Ended> {
        let layout = Layout::new(&self.directory);
        let configuration = Configuration::read(&layout, &[])?;
        let network = Arc::new(configuration.network()?);
        let options = AuditOptions { signatures: !self.no_signatures };
        let earlier = configuration.earlier(&network)?;
        let auditing = Auditing::new(&network).options(options).earlier(earlier).findings(self.findings);
        let institution = match &self.institution {
            None => None,
            Some(bic) => {
                let found = network.participant(bic);
                Some(
                    found
                        .with_context(|| format!("--institution {bic}: the network has no such participant"))?
                        .0,
                )
            }
        };
        let began = Instant::now();
        let mut misconduct = None;
        let audited = match (self.log.as_deref(), institution) {
            (None | Some("file"), None) => auditing.directory(layout.root()),
            (None | Some("file"), Some(of)) => auditing.institution(of).directory(layout.root()),
            (Some("kafka"), of) => {
                let settings = ClusterConfiguration::read(&layout, &self.settings)?;
                let (cluster, topics) = (settings.cluster()?, settings.layout(&configuration)?);
                let read = match of {
                    None => misconduct::of_everybody(&cluster, &topics, &network),
                    Some(of) => misconduct::seen_by(&cluster, &topics, of),
                };
                misconduct = Some(read.context("cannot read what was set aside")?);
                match of {
                    None => {
                        let journal =
                            Journal::open(&cluster, &topics).context("cannot read the ledger's topics")?;
                        auditing.entries(journal)
                    }
                    Some(of) => {
                        let (beginning, own) = partition::open(&cluster, &topics, &network, of)
                            .context("cannot read what the institution may read")?;
                        auditing.shown(of, beginning, own)
                    }
                }
            }
            (Some(other), _) => bail!("--log {other}: a ledger lies in file or kafka"),
        };
        let misconduct = misconduct.as_deref();
        if self.json {
            return json(&audited, misconduct, &network);
        }
        match audited {
            Ok(report) => {
                let rate = report.accepted as f64 / began.elapsed().as_secs_f64();
                print::line(&facts(&report, &network, options, rate));
                print::line(books(&report, &network).trim_end_matches('\n'));
                set_aside(misconduct, &network);
                Ok(Ended::Well)
            }
            Err(error) if is_finding(&error) => {
                eprintln!("audit: the ledger of {} is not in order", layout.root().display());
                for line in error.to_string().lines() {
                    eprintln!("  {line}");
                }
                let mut cause = std::error::Error::source(&error);
                while let Some(error) = cause {
                    eprintln!("  because: {error}");
                    cause = error.source();
                }
                set_aside(misconduct, &network);
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
        AuditError::NotInOrder { .. } => true,
        AuditError::Journal(JournalError::Log(error)) | AuditError::Open { source: error, .. } => {
            in_log(error)
        }
        AuditError::Journal(_) => true,
    }
}

/// Who alone may append where records lie that do not count.
fn member<'a>(misconduct: &Misconduct, network: &'a Network) -> &'a str {
    misconduct.member.map_or("operator", |member| bic(network, member))
}

/// Lists what members appended that does not count. It is beside the ledger, and no finding about it.
fn set_aside(misconduct: Option<&[Misconduct]>, network: &Network) {
    let Some(misconduct) = misconduct else { return };
    if misconduct.is_empty() {
        print::line("no record was set aside");
        return;
    }
    let mut rows = Table::new(&[
        ("set aside of", Align::Left),
        ("topic", Align::Left),
        ("partition", Align::Right),
        ("fault", Align::Left),
        ("records", Align::Right),
        ("first offset", Align::Right),
    ]);
    for row in misconduct {
        rows.row([
            member(row, network).to_owned(),
            row.partition.topic.clone(),
            row.partition.number.to_string(),
            row.fault.name().to_owned(),
            table::count(row.records),
            row.first.to_string(),
        ]);
    }
    print::line(rows.render(table::styled()).trim_end_matches('\n'));
}

/// The audit as one JSON object; it ends as the text does.
fn json(
    audited: &Result<AuditReport, AuditError>,
    misconduct: Option<&[Misconduct]>,
    network: &Network,
) -> anyhow::Result<Ended> {
    let row = |row: &Misconduct| {
        serde_json::json!({
            "member": member(row, network), "topic": row.partition.topic, "partition": row.partition.number,
            "fault": row.fault.name(), "records": row.records, "first_offset": row.first,
        })
    };
    let set_aside = misconduct.map(|misconduct| misconduct.iter().map(row).collect::<Vec<_>>());
    let (ledger, ended) = match audited {
        Ok(report) => {
            let ledger = serde_json::json!({
                "in_order": true, "accepted": report.accepted, "decided": report.sequenced, "made": report.made,
                "undecided": report.undecided, "late": report.late, "tree_size": report.tree_size,
                "tree_root": to_hex(&report.tree_root),
            });
            (ledger, Ended::Well)
        }
        Err(error) if is_finding(error) => {
            let findings: Vec<_> = error.to_string().lines().map(str::to_owned).collect();
            (serde_json::json!({ "in_order": false, "findings": findings }), Ended::Refused)
        }
        Err(error) => bail!("the ledger cannot be audited: {error}"),
    };
    print::line(&serde_json::json!({ "ledger": ledger, "set_aside": set_aside }).to_string());
    Ok(ended)
}

fn facts(report: &AuditReport, network: &Network, options: AuditOptions, rate: f64) -> String {
    let refused = report.sequenced.saturating_sub(report.made);
    let (sequenced, made) = (table::count(report.sequenced), table::count(report.made));
    let decided = match report.institution {
        None => format!("{sequenced}: {made} made, {} refused", table::count(refused)),
        Some(of) => format!("{sequenced}: {made} made that concern {}", bic(network, of)),
    };
    let policy = match network.signatures {
        SignaturePolicy::Required => "every debit's owner, issuers and institutions",
        SignaturePolicy::InstitutionsOnly => {
            "issuers and institutions; the genesis lets transfers go unsigned"
        }
    };
    let verified = if options.signatures { "all verified" } else { "institutions' and payers' not verified" };
    let mut facts = vec![
        ("accepted", format!("{} transactions", table::count(report.accepted))),
        ("decided", decided),
        ("undecided", format!("{}; a network that starts decides them", table::count(report.undecided))),
        (
            "merkle log",
            format!("{} leaves, root {}", table::count(report.tree_size), to_hex(&report.tree_root)),
        ),
        ("signatures", format!("{policy}: {verified}")),
        ("took", format!("{}, {}", table::duration(report.took), table::rate(rate))),
    ];
    if let Some(covered) = report.coverage {
        let text = match (covered.keys_from, covered.accounts_from) {
            (0, _) => "everything: the proposals go back to the first decision".to_owned(),
            (keys, accounts) => format!(
                "keys from sequence number {} on, where the proposals at hand begin; balances, floors and freezes from {} on, \
                 where the institution saved its accounts. What is before that is not checked",
                table::count(keys),
                table::count(accounts)
            ),
        };
        facts.push(("covered", text));
        let text = match covered.consents_from {
            Some(from) => format!(
                "the others' signatures under what concerns them, from sequence number {} on",
                table::count(from)
            ),
            None => "none is at hand: who else agreed was not checked".to_owned(),
        };
        facts.push(("consents", text));
    }
    if report.late > 0 {
        let text = format!(
            "{} made more than 2 s after their expiry: a stage stood still",
            table::count(report.late)
        );
        facts.push(("late", text));
    }
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
