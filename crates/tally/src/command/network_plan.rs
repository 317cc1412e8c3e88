//! `tally network plan DIR --rate N`

use super::{Ended, print};
use crate::configuration::Configuration;
use crate::layout::Layout as Directory;
use crate::stages::WitnessesSection;
use anyhow::{Context, bail, ensure};
use std::path::PathBuf;
use tally_bench::table::{self, Align, Table};
use tally_settlement::process::Layout;

/// Arguments of `tally network plan`.
#[derive(Debug, clap::Args)]
pub(super) struct Plan {
    /// Directory of the network
    directory: PathBuf,
    /// Transactions a second that the network has to take
    #[arg(long, value_name = "N")]
    rate: u64,
    /// Of a hundred transactions, how many are between two institutions; the others stay inside one
    #[arg(long, value_name = "PERCENT", default_value_t = 50, value_parser = clap::value_parser!(u64).range(0..=100))]
    between: u64,
    /// Transactions a second that one core of the machines takes as a scheduler, without payers' signatures
    #[arg(long, value_name = "N", default_value_t = 500_000)]
    scheduler: u64,
    /// The same with a payer's signature each
    #[arg(long, value_name = "N", default_value_t = 60_000)]
    signed_scheduler: u64,
    /// Proposals a second that one core answers
    #[arg(long, value_name = "N", default_value_t = 700_000)]
    approver: u64,
    /// Answers a second that one core joins
    #[arg(long, value_name = "N", default_value_t = 2_000_000)]
    assembler: u64,
    /// Decisions a second that one core orders
    #[arg(long, value_name = "N", default_value_t = 4_000_000)]
    sequencer: u64,
    /// Proposals a second that one core applies
    #[arg(long, value_name = "N", default_value_t = 1_500_000)]
    updater: u64,
    /// Bytes a second that one broker takes from producers
    #[arg(long, value_name = "N", default_value_t = 200_000_000)]
    broker_bytes: u64,
    /// Of what an instance could take, how many of a hundred are planned with
    #[arg(long, value_name = "PERCENT", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=100))]
    utilisation: u64,
    /// On how many brokers every record lies
    #[arg(long, value_name = "N", default_value_t = 3)]
    replicas: u64,
    /// How many schedulers there are to be, in place of as many as the rate wants: a network that moves from its files keeps
    /// the number that it has, while their references are remembered
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=63))]
    schedulers: Option<u16>,
    /// How many institutions besides the operator have to cosign the log, as witnesses, before a gateway tells an outcome, and
    /// in every proof; 0 for none
    #[arg(long, value_name = "K", default_value_t = 0)]
    witnesses: u8,
    /// Write cluster.toml into the directory, which must not have one
    #[arg(long)]
    write: bool,
    /// A broker for cluster.toml, as host:port; may be repeated
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:9092")]
    broker: Vec<String>,
}

/// Bytes of a payment without signatures in each topic, by how it is between institutions: inside one it has two legs,
/// between two four legs, and three institutions are asked.
struct Hop {
    topic: &'static str,
    inside: u64,
    between: u64,
    /// How many stages read it.
    readers: u64,
}

const HOPS: [Hop; 6] = [
    Hop { topic: "transactions", inside: 112, between: 144, readers: 1 },
    Hop { topic: "accepted", inside: 112, between: 144, readers: 0 },
    Hop { topic: "proposals", inside: 135, between: 597, readers: 2 },
    Hop { topic: "approvals", inside: 49, between: 147, readers: 2 },
    Hop { topic: "consents", inside: 0, between: 50, readers: 2 },
    Hop { topic: "decisions", inside: 38, between: 38, readers: 1 },
];
/// A payer's key and signature.
const SIGNATURE: u64 = 96;

struct Instances {
    stage: &'static str,
    load: u64,
    of_one: u64,
    instances: u64,
}

impl Plan {
    pub(super) fn run(self) -> anyhow::Result<Ended> {
        ensure!(self.rate > 0, "--rate must not be 0");
        let rates = [
            self.scheduler,
            self.signed_scheduler,
            self.approver,
            self.assembler,
            self.sequencer,
            self.updater,
            self.broker_bytes,
        ];
        ensure!(rates.iter().all(|rate| *rate > 0), "what one core or broker takes must not be 0");
        ensure!((1..=9).contains(&self.replicas), "--replicas must be from 1 to 9");
        let directory = Directory::new(&self.directory);
        let configuration = Configuration::read(&directory, &[])?;
        let witnesses =
            WitnessesSection { required: self.witnesses }.checked(configuration.participants.len())?;
        let signed = configuration.network.signatures == tally_ledger::SignaturePolicy::Required;
        let stages = self.stages(signed, configuration.participants.len() as u64);
        let mut table = Table::new(&[
            ("stage", Align::Left),
            ("load /s", Align::Right),
            ("one core /s", Align::Right),
            ("instances", Align::Right),
        ]);
        for stage in &stages {
            table.row([
                stage.stage.to_owned(),
                table::count(stage.load),
                table::count(stage.of_one),
                stage.instances.to_string(),
            ]);
        }
        print::line(table.render(table::styled()).trim_end_matches('\n'));
        let wanted = self.schedulers.map_or(stages[0].instances, u64::from);
        let (schedulers, assemblers) = (wanted, stages[2].instances);
        let fits = |count: u64| u16::try_from(count).ok().filter(|count| *count <= 63);
        let (Some(schedulers), Some(assemblers)) = (fits(schedulers), fits(assemblers)) else {
            bail!(
                "this rate wants {schedulers} schedulers and {assemblers} assemblers, and a layout has at most 63 of each"
            );
        };
        self.print_traffic(signed);
        let layout = Layout {
            prefix: String::new(),
            participants: configuration.participants.iter().map(|of| of.bic.clone()).collect(),
            schedulers,
            assemblers,
            gateways: schedulers.max(2),
        };
        let topics = layout.topics();
        let partitions: u32 = topics.iter().map(|topic| u32::from(topic.partitions)).sum();
        print::line(&format!(
            "layout: {schedulers} schedulers, {assemblers} assemblers, {} gateways, {} participants: {} topics, {partitions} \
             partitions",
            layout.gateways,
            layout.participants.len(),
            topics.len()
        ));
        print::line(&format!(
            "witnesses: {witnesses} of {} institutions besides the operator have to cosign what gateways tell and proofs show",
            layout.participants.len().saturating_sub(1)
        ));
        if self.write {
            self.write(&directory, &layout, witnesses)?;
        }
        Ok(Ended::Well)
    }

    fn stages(&self, signed: bool, participants: u64) -> Vec<Instances> {
        let (inside, between) = (100 - self.between, self.between);
        let asked = self.rate.saturating_mul(inside + 3 * between) / 100;
        let central = self.rate.saturating_mul(between) / 100;
        let usable = |rate: u64| (rate.saturating_mul(self.utilisation) / 100).max(1);
        let stage = |stage, load: u64, of_one: u64| Instances {
            stage,
            load,
            of_one,
            instances: load.div_ceil(usable(of_one)).max(1),
        };
        let scheduler = if signed { self.signed_scheduler } else { self.scheduler };
        let mut stages = vec![
            stage("scheduler", self.rate, scheduler),
            stage("approver", asked, self.approver),
            stage("assembler", asked, self.assembler),
            stage("sequencer", self.rate, self.sequencer),
            stage("updater", asked, self.updater),
        ];
        // A participant's approver and updater are one shard each, so that more processes than participants stand by.
        for (at, of_one) in [(1, self.approver), (4, self.updater)] {
            stages[at].instances = stages[at].instances.min(participants);
            if central > usable(of_one) {
                let name = stages[at].stage;
                eprintln!(
                    "warning: the central bank's {name} alone is asked {} a second and takes {} at {} %: one \
                     participant's is not split",
                    table::count(central),
                    table::count(usable(of_one)),
                    self.utilisation
                );
            }
        }
        if stages[3].instances > 1 {
            eprintln!(
                "warning: one sequencer takes {} a second, and it is not split",
                table::count(self.sequencer)
            );
        }
        // One is active, one stands by.
        stages[3].instances = 2;
        stages
    }

    fn print_traffic(&self, signed: bool) {
        let mut table = Table::new(&[
            ("topic", Align::Left),
            ("bytes a transaction", Align::Right),
            ("MB/s written", Align::Right),
            ("MB/s read", Align::Right),
        ]);
        let mut written_total = 0;
        for hop in &HOPS {
            let carries_signature = matches!(hop.topic, "transactions" | "accepted");
            let signature = if signed && carries_signature { SIGNATURE } else { 0 };
            let bytes = (hop.inside * (100 - self.between) + hop.between * self.between) / 100 + signature;
            let written = bytes.saturating_mul(self.rate);
            written_total += written;
            table.row([
                hop.topic.to_owned(),
                bytes.to_string(),
                (written / 1_000_000).to_string(),
                (written.saturating_mul(hop.readers) / 1_000_000).to_string(),
            ]);
        }
        print::line(table.render(table::styled()).trim_end_matches('\n'));
        let usable = (self.broker_bytes * self.utilisation / 100).max(1);
        let brokers = written_total.saturating_mul(self.replicas).div_ceil(usable).max(self.replicas);
        print::line(&format!(
            "brokers: {brokers} for {} MB/s on {} of them each, at {} % of {} MB/s",
            written_total / 1_000_000,
            self.replicas,
            self.utilisation,
            self.broker_bytes / 1_000_000
        ));
    }

    fn write(&self, directory: &Directory, layout: &Layout, witnesses: u8) -> anyhow::Result<()> {
        let path = directory.cluster();
        ensure!(!path.exists(), "{} exists already", path.display());
        let brokers: Vec<String> = self.broker.iter().map(|broker| format!("{broker:?}")).collect();
        let in_sync = self.replicas / 2 + 1;
        let Layout { schedulers, assemblers, gateways, .. } = layout;
        let text = format!(
            "# How the network's stages are split over Kafka, and how it is reached. The layout is for the life of the\n\
             # network and the same for everybody; brokers and certificates are each process's own.\n\n\
             [layout]\nschedulers = {schedulers}\nassemblers = {assemblers}\ngateways = {gateways}\n\n\
             [topics]\nreplicas = {}\nin_sync = {in_sync}\n\n\
             # Institutions besides the operator that have to cosign the head of the log before a gateway tells an outcome.\n\
             # `tally network keys` writes the same number for those who check proofs.\n\
             [witnesses]\nrequired = {witnesses}\n\n\
             [kafka]\nbrokers = [{}]\n",
            self.replicas,
            brokers.join(", ")
        );
        std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
        print::line(&format!("wrote {}", path.display()));
        Ok(())
    }
}
