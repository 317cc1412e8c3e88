//! `tally stage ROLE --network DIR`. The directory has network.toml, genesis.toml, cluster.toml, and the keys that the stage signs
//! with.

use super::network_run::{institution_key, write_run_file};
use super::{Ended, print};
use crate::configuration::Configuration;
use crate::connection::{ConnectionArguments, RunFile};
use crate::layout::Layout as Directory;
use crate::passphrase;
use crate::stages::{self, ClusterConfiguration, GatewayWork, Stage, Telemetry, Work};
use anyhow::{Context, ensure};
use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use tally_crypto::SigningKey;
use tally_ledger::ParticipantId;
use tally_log::cluster::Cluster;
use tally_ops::shutdown::Shutdown;
use tally_settlement::process::{Layout, Role};

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
    /// Takes payments over HTTP and tells their outcomes
    Gateway(GatewayArguments),
}

/// Arguments of a gateway.
#[derive(Debug, clap::Args)]
pub(super) struct GatewayArguments {
    /// Where to answer clients; port 0 takes a free one [default: network.toml's http.listen]
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: Option<SocketAddr>,
    #[command(flatten)]
    stage: Arguments,
}

/// Arguments of every stage.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// The BIC of a participant for whom an approver or updater works, or about whose accounts a gateway answers; may be repeated. If not given: all but those that
    /// cluster.toml's [principals] names, who run their own
    #[arg(long, value_name = "BIC")]
    participant: Vec<String>,
    /// Where /health, /ready and /metrics are served; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:0")]
    metrics: SocketAddr,
    /// A setting in place of cluster.toml's, such as kafka.brokers=["127.0.0.1:9092"], or of network.toml's [http] and
    /// [messages]; may be repeated
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
            Self::Gateway(arguments) => return arguments.run(connection),
        };
        arguments.run(role, connection)
    }
}

/// For whom a stage works, with their keys where it signs.
type ParticipantKeys = BTreeMap<ParticipantId, Option<SigningKey>>;

/// What a process reads first.
struct Read {
    network: Configuration,
    configuration: ClusterConfiguration,
    layout: Layout,
}

impl GatewayArguments {
    fn run(self, connection: &ConnectionArguments) -> anyhow::Result<Ended> {
        let shutdown = Shutdown::install()?;
        let directory = connection.directory()?;
        let Read { network, configuration, layout } = self.stage.read(&directory)?;
        let listen = self.listen.unwrap_or(network.http.listen);
        ensure!(
            listen.ip().is_loopback(),
            "{listen} is not on loopback: the network is reached from this machine only, without TLS"
        );
        let listener = TcpListener::bind(listen).with_context(|| format!("cannot listen on {listen}"))?;
        let address = listener.local_addr().context("cannot tell where it listens")?;

        let cluster = configuration.cluster()?;
        if self.stage.participant.is_empty() {
            stages::check(&cluster, &stages::plans(&configuration, &layout))?;
        }
        let telemetry = Arc::new(Telemetry::new(Role::Gateway)?);
        let metrics = stages::serve(self.stage.metrics, Arc::clone(&telemetry))?;
        let participants = layout
            .everybody()
            .zip(&layout.participants)
            .filter(|(_, bic)| self.stage.participant.is_empty() || self.stage.participant.contains(bic))
            .map(|(participant, _)| participant)
            .collect();
        let run = RunFile { pid: std::process::id(), address };
        write_run_file(&directory.run_file(), &run)?;
        print::line(&format!(
            "gateway of network {} runs; listens on http://{address}; metrics on http://{metrics}",
            network.network.id
        ));
        let work = GatewayWork {
            network: Arc::new(network.network()?),
            layout,
            configuration: network,
            participants,
        };
        let cluster: Arc<dyn Cluster> = Arc::new(cluster);
        let ended = stages::run_gateway(&work, &cluster, &listener, &telemetry, &shutdown);
        // Another gateway may have written it since.
        if RunFile::read(&directory).is_ok_and(|found| found == run) {
            let _ = std::fs::remove_file(directory.run_file());
        }
        ended?;
        print::line("stopped");
        Ok(Ended::Well)
    }
}

impl Arguments {
    fn run(self, role: Role, connection: &ConnectionArguments) -> anyhow::Result<Ended> {
        let shutdown = Shutdown::install()?;
        let directory = connection.directory()?;
        let Read { network, configuration, layout } = self.read(&directory)?;
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

    fn read(&self, directory: &Directory) -> anyhow::Result<Read> {
        let of_network = |setting: &&String| setting.starts_with("http.") || setting.starts_with("messages.");
        let (to_network, to_cluster): (Vec<_>, Vec<_>) = self.settings.iter().partition(of_network);
        let owned = |settings: Vec<&String>| -> Vec<String> { settings.into_iter().cloned().collect() };
        let network = Configuration::read(directory, &owned(to_network))?;
        let configuration = ClusterConfiguration::read(directory, &owned(to_cluster))?;
        let layout = configuration.layout(&network)?;
        for bic in &self.participant {
            ensure!(
                network.participants.iter().any(|participant| participant.bic == *bic),
                "--participant {bic}: the network has no such participant"
            );
        }
        Ok(Read { network, configuration, layout })
    }

    /// For whom the stage works, and the keys that it signs with.
    fn keys(
        &self,
        role: Role,
        directory: &Directory,
        (configuration, cluster): (&Configuration, &ClusterConfiguration),
        connection: &ConnectionArguments,
    ) -> anyhow::Result<(ParticipantKeys, Option<SigningKey>)> {
        ensure!(
            self.participant.is_empty() || matches!(role, Role::Approver | Role::Updater),
            "--participant is for approvers and updaters: a {} works for everybody",
            role.name()
        );
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
