//! `tally stage ROLE --network DIR`. The directory has network.toml, genesis.toml, cluster.toml, and the keys that the stage signs
//! with. An institution's own, as `tally network hand-over` makes it, has its key and its certificate and nobody else's.

use super::network_run::{institution_key, write_run_file};
use super::{Ended, print};
use crate::access;
use crate::configuration::Configuration;
use crate::connection::{ConnectionArguments, RunFile};
use crate::layout::Layout as Directory;
use crate::name;
use crate::passphrase;
use crate::references;
use crate::stages::{self, ClusterConfiguration, GatewayWork, Stage, Telemetry, Work};
use anyhow::Context;
use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use tally_crypto::SigningKey;
use tally_ledger::ParticipantId;
use tally_log::cluster::Cluster;
use tally_log::kafka::KafkaCluster;
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
    /// The BIC of a participant for whom an approver or updater works, or about whose accounts a gateway answers; may be
    /// repeated. If not given: all but those that cluster.toml's [principals] names, who run their own; in an institution's
    /// own directory that institution
    #[arg(long, value_name = "BIC", value_parser = name::bic_argument)]
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
        let participants =
            stages::works_for(Role::Gateway, &self.stage.participant, &configuration, &network)?;
        let listen = self.listen.unwrap_or(network.http.listen);
        let settings = network.gateway(directory.root())?;
        settings.may_listen(listen)?;
        let agreed = Arc::new(network.network()?);
        let gate = access::gate(&directory, &network, &agreed)?;
        let references = references::of_network(&directory, &network)?;
        let listener = TcpListener::bind(listen).with_context(|| format!("cannot listen on {listen}"))?;
        let address = listener.local_addr().context("cannot tell where it listens")?;

        let cluster = configuration.cluster()?;
        self.stage.check(&cluster, &configuration, &layout, &participants)?;
        let telemetry = Arc::new(Telemetry::new(Role::Gateway)?);
        let metrics = stages::serve(self.stage.metrics, Arc::clone(&telemetry))?;
        let run = RunFile { pid: std::process::id(), address, tls: settings.tls.is_some() };
        write_run_file(&directory.run_file(), &run)?;
        print::line(&format!(
            "gateway of network {} runs; listens on {}://{address}; metrics on http://{metrics}",
            network.network.id,
            settings.scheme()
        ));
        let witnesses = configuration.witnesses.required;
        let evidence = directory.evidence();
        let work = GatewayWork {
            network: agreed,
            layout,
            settings,
            gate,
            references,
            participants,
            witnesses,
            evidence,
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
        let works_for = stages::works_for(role, &self.participant, &configuration, &network)?;
        let (participants, operator) = keys(role, &directory, &works_for, &network, connection)?;

        let cluster = configuration.cluster()?;
        self.check(&cluster, &configuration, &layout, &works_for)?;
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
        let of_cluster =
            |setting: &&String| stages::is_section(setting.split('.').next().unwrap_or_default());
        let (to_cluster, to_network): (Vec<_>, Vec<_>) = self.settings.iter().partition(of_cluster);
        let owned = |settings: Vec<&String>| -> Vec<String> { settings.into_iter().cloned().collect() };
        let network = Configuration::read(directory, &owned(to_network))?;
        let configuration = ClusterConfiguration::read(directory, &owned(to_cluster))?;
        let layout = configuration.layout(&network)?;
        Ok(Read { network, configuration, layout })
    }

    /// That the topics are as they have to be: all of them, for the operator; whoever may not see every one asks for its own.
    fn check(
        &self,
        cluster: &KafkaCluster,
        configuration: &ClusterConfiguration,
        layout: &Layout,
        participants: &[ParticipantId],
    ) -> anyhow::Result<()> {
        if configuration.institution.is_none() && self.participant.is_empty() {
            return stages::check(cluster, &stages::plans(configuration, layout));
        }
        let names: Vec<_> = participants
            .iter()
            .map(|participant| layout.participants[participant.index()].as_str())
            .collect();
        let certificate = if configuration.kafka.tls.is_some() {
            "kafka.tls the certificate whose name has access to these topics by the operator's [principals] and \
             `tally network apply`"
        } else {
            "it names no certificate (kafka.tls): brokers that keep access lists let nobody in without one"
        };
        stages::reach(cluster, layout, participants.iter().copied()).with_context(|| {
            format!(
                "the topics of {} cannot be reached: in cluster.toml kafka.brokers must name the network's brokers, \
                 and {certificate}",
                names.join(", ")
            )
        })
    }
}

/// Those for whom the stage works, and the keys that it signs with.
fn keys(
    role: Role,
    directory: &Directory,
    works_for: &[ParticipantId],
    configuration: &Configuration,
    connection: &ConnectionArguments,
) -> anyhow::Result<(ParticipantKeys, Option<SigningKey>)> {
    // An updater cosigns heads of the log as its institution's witness.
    let signs = matches!(role, Role::Approver | Role::Sequencer | Role::Updater);
    let passphrase = if signs {
        let file = connection.passphrase_file.as_deref();
        Some(passphrase::of_network(directory, file).context("the stage signs, and needs its keys")?)
    } else {
        None
    };
    let key = |id: ParticipantId| -> anyhow::Result<Option<SigningKey>> {
        let Some(passphrase) = &passphrase else { return Ok(None) };
        let participant = &configuration.participants[id.index()];
        let keys = directory.institution_keys();
        institution_key(&keys, &participant.bic, &participant.key, passphrase).map(Some)
    };
    let operator = if role == Role::Sequencer { key(ParticipantId(0))? } else { None };
    let mut participants = BTreeMap::new();
    for id in works_for {
        let is_its_own = matches!(role, Role::Approver | Role::Updater);
        participants.insert(*id, if is_its_own { key(*id)? } else { None });
    }
    Ok((participants, operator))
}
