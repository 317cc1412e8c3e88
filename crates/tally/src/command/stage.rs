//! `tally stage ROLE --network DIR`

use super::network_run::institution_key;
use super::{Ended, print};
use crate::configuration::Configuration;
use crate::connection::ConnectionArguments;
use crate::layout::Layout as Directory;
use crate::passphrase;
use crate::stages::{self, ClusterConfiguration, Stage, Telemetry, Work};
use anyhow::{Context, ensure};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use tally_crypto::SigningKey;
use tally_ledger::ParticipantId;
use tally_log::cluster::Cluster;
use tally_ops::shutdown::Shutdown;
use tally_settlement::process::Role;

/// A stage of its own process: any number of processes of one stage share its work
#[derive(Debug, clap::Subcommand)]
pub(super) enum StageCommand {
    /// Accepts transactions and proposes them to the participants
    Scheduler(Arguments),
    /// Answers proposals for participants
    Approver(Arguments),
    /// Joins the answers and decides
    Assembler(Arguments),
    /// Orders the decisions: one process is active, others stand by
    Sequencer(Arguments),
    /// Applies the decisions to participants' balances
    Updater(Arguments),
}

/// Arguments of every stage.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// Directory of the network: network.toml, genesis.toml, cluster.toml, and the keys that the stage signs with
    #[arg(long, value_name = "DIR")]
    network: PathBuf,
    /// The BIC of a participant for whom an approver or updater works; may be repeated. If not given: all but those that
    /// cluster.toml's [principals] names, who run their own
    #[arg(long, value_name = "BIC")]
    participant: Vec<String>,
    /// Where /health, /ready and /metrics are served; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:0")]
    metrics: SocketAddr,
    /// A setting in place of cluster.toml's, such as kafka.brokers=["127.0.0.1:9092"]; may be repeated
    #[arg(long = "set", value_name = "SECTION.KEY=VALUE")]
    settings: Vec<String>,
}

impl StageCommand {
    pub(super) fn run(self, connection: &ConnectionArguments) -> anyhow::Result<Ended> {
        let (role, arguments) = match self {
            Self::Scheduler(arguments) => (Role::Scheduler, arguments),
            Self::Approver(arguments) => (Role::Approver, arguments),
            Self::Assembler(arguments) => (Role::Assembler, arguments),
            Self::Sequencer(arguments) => (Role::Sequencer, arguments),
            Self::Updater(arguments) => (Role::Updater, arguments),
        };
        arguments.run(role, connection)
    }
}

impl Arguments {
    fn run(self, role: Role, connection: &ConnectionArguments) -> anyhow::Result<Ended> {
        let shutdown = Shutdown::install()?;
        let directory = Directory::new(&self.network);
        let network = Configuration::read(&directory, &[])?;
        let configuration = ClusterConfiguration::read(&directory, &self.settings)?;
        let layout = configuration.layout(&network)?;
        let (participants, operator) = self.keys(role, &directory, (&network, &configuration), connection)?;

        let cluster = configuration.cluster()?;
        // A process that may not see every topic checks its own when it opens them.
        if self.participant.is_empty() {
            stages::check(&cluster, &stages::plans(&configuration, &layout))?;
        }
        let telemetry = Arc::new(Telemetry::new(role)?);
        let address = stages::serve(self.metrics, Arc::clone(&telemetry))?;
        print::line(&format!(
            "{} of network {} runs; metrics on http://{address}",
            role.name(),
            network.network.id
        ));

        let work = Work {
            role,
            network: Arc::new(network.network()?),
            layout,
            configuration,
            participants,
            operator,
        };
        let cluster: Arc<dyn Cluster> = Arc::new(cluster);
        Stage::join(work, cluster, telemetry)?.run(&shutdown)?;
        print::line("stopped");
        Ok(Ended::Well)
    }

    /// For whom the stage works, and the keys that it signs with.
    fn keys(
        &self,
        role: Role,
        directory: &Directory,
        (configuration, cluster): (&Configuration, &ClusterConfiguration),
        connection: &ConnectionArguments,
    ) -> anyhow::Result<(BTreeMap<ParticipantId, Option<SigningKey>>, Option<SigningKey>)> {
        ensure!(
            self.participant.is_empty() || matches!(role, Role::Approver | Role::Updater),
            "--participant is for approvers and updaters: a {} works for everybody",
            role.name()
        );
        for bic in &self.participant {
            ensure!(
                configuration.participants.iter().any(|participant| participant.bic == *bic),
                "--participant {bic}: the network has no such participant"
            );
        }
        let signs = matches!(role, Role::Approver | Role::Sequencer);
        let passphrase = if signs {
            let file = connection.passphrase_file.as_deref();
            Some(passphrase::of_network(directory, file).context("the stage signs, and needs its keys")?)
        } else {
            None
        };
        let key = |at: usize| -> anyhow::Result<Option<SigningKey>> {
            let Some(passphrase) = &passphrase else { return Ok(None) };
            let participant = &configuration.participants[at];
            let keys = directory.institution_keys();
            institution_key(&keys, &participant.bic, &participant.key, passphrase).map(Some)
        };
        let operator = if role == Role::Sequencer { key(0)? } else { None };
        let mut participants = BTreeMap::new();
        for (id, (at, participant)) in (0u16..).zip(configuration.participants.iter().enumerate()) {
            let mine = if self.participant.is_empty() {
                !cluster.principals.contains_key(&participant.bic)
            } else {
                self.participant.contains(&participant.bic)
            };
            if mine {
                let key = if role == Role::Approver { key(at)? } else { None };
                participants.insert(ParticipantId(id), key);
            }
        }
        Ok((participants, operator))
    }
}
