//! A node as a process: identity, network map, store, threads, sockets; from start to orderly end.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tally_contracts::{Contracts, Party, Timestamp};
use tally_flows::Rate;
use tally_identity::{
    Changes, Former, Identity, IdentityError, MapError, NetworkMap, NetworkParameters, Notary, NotaryKind,
    system_now, tls,
};
use tally_messaging::{Messaging, Node as MessagingNode, Settings as MessagingSettings};
use tally_ops::metrics::MetricError;
use tally_ops::shutdown::Shutdown;
use tally_rpc::{NetworkNotary, NetworkParty, NodeInfo, Server, UsersError};
use tally_store::StoreError;
use tokio::sync::oneshot;

use crate::acceptance::{AcceptError, Acceptance};
use crate::cluster::{ClusterError, ClusterMeters};
use crate::core::{Core, OpenError};
use crate::desk::{FormerSigningKey, Parts, full_text};
use crate::expiry::Expiries;
use crate::member::{Home, Member};
use crate::metrics::{ClientMeters, Meters};
use crate::peers::{Certificates, Desk, Mail, Map};
use crate::service::{About, Service};
use crate::settings::{FILE, Settings, SettingsError};
use crate::users::UsersFile;

/// How long a stopping node waits for a database that takes nothing.
const PATIENCE: Duration = Duration::from_secs(10);
/// How often the generation of the database is raised under load. A backup that is older than this is known to be old.
const BEAT: Duration = Duration::from_secs(5);
/// How often timers of flows are looked at.
const TICK: Duration = Duration::from_millis(5);
/// How often the users' file is looked at.
const USERS: Duration = Duration::from_secs(1);
/// How often the node looks for what it has to deliver again.
const DELIVERY: Duration = Duration::from_secs(1);

/// Why a node cannot run.
#[derive(Debug, thiserror::Error)]
pub enum NodeError {
    /// Its configuration.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// A file that is not there or cannot be read.
    #[error("cannot read {}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
    /// Its keys or certificates.
    #[error("the node's identity in {} cannot be used", directory.display())]
    Identity {
        /// Where they are.
        directory: PathBuf,
        /// Why not.
        #[source]
        source: IdentityError,
    },
    /// The network map.
    #[error("the network map cannot be used")]
    Map(#[from] MapError),
    /// TLS.
    #[error("TLS cannot be set up with the node's certificates")]
    Tls(#[from] tokio_rustls::rustls::Error),
    /// The database.
    #[error("the node's database cannot be used")]
    Store(#[from] StoreError),
    /// What the database holds.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The users file.
    #[error(transparent)]
    Users(#[from] UsersError),
    /// The messaging listener.
    #[error("messaging cannot start")]
    Messaging(#[from] tally_messaging::StartError),
    /// The RPC listener.
    #[error("RPC cannot start")]
    Rpc(#[from] tally_rpc::ServerError),
    /// The listener of health and metrics.
    #[error("cannot listen for health and metrics on {address}")]
    Http {
        /// Where.
        address: SocketAddr,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
    /// The network's map does not know this node.
    #[error("the network map has no node `{0}`; publish its node info")]
    NotOnTheMap(tally_contracts::Name),
    /// The map has another key under this node's name.
    #[error("the network map has another key for `{0}`; publish the new node info")]
    OtherKey(tally_contracts::Name),
    /// `node.toml` has a section `[cluster]`, and the network names this node in no clustered notary.
    #[error(
        "`{0}` is configured as a member of a clustered notary, and the network's parameters name none with it"
    )]
    NoMember(tally_contracts::Name),
    /// The member of a clustered notary.
    #[error("the member of the clustered notary cannot start")]
    Cluster(#[from] ClusterError),
    /// A thread, a runtime or randomness that the system does not give.
    #[error("the system does not give what the node needs: {0}")]
    System(String),
    /// The database broke while the node ran.
    #[error("the node ended because its database refused a batch for good; nothing that was told is lost")]
    Broken(#[source] StoreError),
    /// The file of accepted parameters.
    #[error("the accepted parameters cannot be used")]
    Acceptance(#[from] AcceptError),
    /// A meter's name.
    #[error(transparent)]
    Metrics(#[from] MetricError),
}

/// Where a running node listens.
#[derive(Clone, Debug)]
pub struct Addresses {
    /// For other nodes.
    pub messaging: SocketAddr,
    /// For users.
    pub rpc: SocketAddr,
    /// For health and metrics.
    pub http: Option<SocketAddr>,
}

/// A node's process. [`Running::stop`] ends it in order; what was told is durable in any case.
pub struct Running {
    core: Arc<Core>,
    addresses: Addresses,
    messaging: Arc<Messaging>,
    runtime: tokio::runtime::Runtime,
    stop_serving: Option<oneshot::Sender<()>>,
    serving: tokio::task::JoinHandle<()>,
    stopping: Arc<AtomicBool>,
    flows: Vec<JoinHandle<()>>,
    clockwork: Vec<JoinHandle<()>>,
    committer: JoinHandle<Result<(), StoreError>>,
    member: Option<Arc<Member>>,
}

/// How many connections each listener takes, so that all together leave files for the database.
#[derive(Debug, PartialEq, Eq)]
struct Connections {
    peers: usize,
    handshakes: usize,
    clients: usize,
}

impl Connections {
    /// For a process that may have so many files open.
    fn of(files: usize) -> Self {
        let share = |of: usize, most: usize| (files / of).clamp(1, most);
        Self { peers: share(4, 4096), handshakes: share(16, 256), clients: share(4, 1024) }
    }
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

fn spawn<T: Send + 'static>(
    name: &str,
    body: impl FnOnce() -> T + Send + 'static,
) -> Result<JoinHandle<T>, NodeError> {
    std::thread::Builder::new()
        .name(name.to_owned())
        .spawn(body)
        .map_err(|error| NodeError::System(format!("a thread for {name}: {error}")))
}

impl Running {
    /// Starts the node of a directory; when this returns it serves. `failed` is requested when the node cannot go on.
    ///
    /// # Errors
    /// See [`NodeError`]; each says what to do.
    pub fn start(directory: &Path, settings: &Settings, failed: &Shutdown) -> Result<Self, NodeError> {
        Self::start_with(directory, settings, failed, tally_protocols::registry())
    }

    /// As [`start`](Self::start), with these flows in place of the shipped ones: a node of an institution that has flows of
    /// its own.
    ///
    /// # Errors
    /// As for [`start`](Self::start).
    pub fn start_with(
        directory: &Path,
        settings: &Settings,
        failed: &Shutdown,
        flows_installed: tally_flows::Registry,
    ) -> Result<Self, NodeError> {
        let began = Instant::now();
        let now = system_now();
        let identity_directory = directory.join(&settings.identity.directory);
        let passphrase_file = directory.join(&settings.identity.passphrase_file);
        let passphrase = std::fs::read_to_string(&passphrase_file)
            .map(zeroize::Zeroizing::new)
            .map_err(|source| NodeError::File { path: passphrase_file, source })?;
        let identity = Identity::load(&identity_directory, passphrase.trim_end().as_bytes(), now)
            .map_err(|source| NodeError::Identity { directory: identity_directory.clone(), source })?;
        let (map, changes) = open_map(directory, settings, &identity, now)?;
        tell(&changes);
        let map = Arc::new(map);
        match map.party(identity.name()) {
            None => return Err(NodeError::NotOnTheMap(identity.name().clone())),
            Some(party) if party != *identity.party() => {
                return Err(NodeError::OtherKey(identity.name().clone()));
            }
            Some(_) => {}
        }
        let mut users_file = UsersFile::new(directory.join(&settings.rpc.users_file));
        let users = users_file.read()?;
        if let tally_store::Database::Sqlite(options) = settings.database(directory)
            && let Some(parent) = options.path.parent()
        {
            std::fs::create_dir_all(parent)
                .map_err(|source| NodeError::File { path: parent.to_owned(), source })?;
        }
        let store = tally_store::open(&settings.database(directory))?;
        let mut entropy = [0; 32];
        getrandom::fill(&mut entropy).map_err(|error| NodeError::System(format!("randomness: {error}")))?;
        let rates = settings.oracle.parse(&directory.join(FILE))?;
        let parts = Parts {
            me: identity.party().clone(),
            key: identity.key().clone(),
            former: identity.former().iter().map(former_key).collect(),
            notary_key: identity.notary_key().cloned(),
            contracts: Arc::new(Contracts::shipped()),
            store,
            network: Arc::new(Map(map.clone())),
            clock: Arc::new(system_now),
            rates: Arc::new(move |base, quote| {
                let billionths = *rates.get(&(base.to_owned(), quote.to_owned()))?;
                Some(Rate { billionths, as_of: system_now() })
            }),
            entropy,
            queue_bytes: settings.messaging.queue_bytes,
            policy: settings.policy(&directory.join(FILE))?,
            patience: Duration::from_millis(settings.cash.wait_ms),
        };
        let limits = settings.flows.limits();
        let meters = Meters::new(tally_ops::metrics::Registry::new())?;
        let core = Arc::new(Core::open(parts, flows_installed, limits, meters)?);
        if let Some(restored) = core.restored() {
            tracing::warn!(
                taken_ms = restored.taken.as_millis(),
                restored_ms = restored.at.as_millis(),
                "the database was restored from a backup; what this node and its peers did since is not in it"
            );
        }
        let acceptance = Acceptance::open(
            directory.join("data/accepted-parameters.json"),
            map.clone(),
            settings.network.accept_extensions,
            core.meters().registry(),
        )?;
        let acceptance = Arc::new(acceptance);
        acceptance.look(|missing| core.engine().bar(missing))?;
        core.begin()?;
        let mail = Arc::new(Mail::default());
        core.join(mail.clone());

        let tls = tls::Tls::new(&identity)?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(settings.network_threads(cores()))
            .thread_name("network")
            .enable_all()
            .build()
            .map_err(|error| NodeError::System(format!("threads for the network: {error}")))?;
        let member = match &settings.cluster {
            None => {
                if map.notaries().iter().any(|notary| notary.kind.has_member(identity.name())) {
                    tracing::warn!(
                        "the network names this node as a member of a clustered notary; node.toml has no [cluster]"
                    );
                }
                None
            }
            Some(section) => {
                let home = Home {
                    directory,
                    keys: &identity_directory,
                    passphrase: passphrase.trim_end().as_bytes(),
                    identity: &identity,
                };
                let meters = ClusterMeters::new(core.meters().registry())?;
                let handle = runtime.handle().clone();
                let member = Arc::new(Member::start(section, &home, &map, tls.clone(), meters, handle)?);
                core.join_cluster(member.clone());
                Some(member)
            }
        };
        let parameters = map.parameters();
        let shares = Connections::of(tally_ops::descriptors::raise());
        let messaging = runtime.block_on(Messaging::start(
            MessagingSettings {
                listen: settings.messaging.listen,
                message_limit: usize::try_from(parameters.max_message_bytes).expect("32 bits"),
                connection_limit: shares.peers,
                handshake_limit: shares.handshakes,
                ..MessagingSettings::default()
            },
            MessagingNode {
                tls: Arc::new(Certificates(tls.clone())),
                directory: Arc::new(Map(map.clone())),
                inbox: Arc::new(Desk(core.clone())),
                outbox: Arc::new(Desk(core.clone())),
                acquaintance: Arc::new(Desk(core.clone())),
                random: Arc::new(jitter(entropy)),
            },
        ))?;
        let messaging = Arc::new(messaging);
        mail.connect(&messaging);

        let about = Arc::new(Told {
            core: core.clone(),
            map: map.clone(),
            started: now,
            acceptance: acceptance.clone(),
        });
        let service = Arc::new(Service::new(core.clone(), about));
        let mut rpc = tally_rpc::Settings::new(settings.rpc.listen);
        rpc.connections = shares.clients;
        rpc.strangers_per_address = rpc.strangers_per_address.min(shares.clients / 2);
        let server = runtime.block_on(Server::bind(rpc, tls.rpc_server(), users, service))?;
        let health = server.health();
        let admission = server.admission();
        let clients = ClientMeters::new(core.meters().registry(), server.figures())?;
        let ready = Arc::new(AtomicBool::new(false));
        let registry = core.meters().registry().clone();
        let expiries = Arc::new(Expiries::new(identity.clone(), map.clone(), registry));
        expiries.look(now)?;
        let http = match settings.http.listen {
            None => None,
            Some(address) => Some(
                runtime
                    .block_on(crate::http::serve(
                        address,
                        crate::http::Limits::default(),
                        core.clone(),
                        clients,
                        ready.clone(),
                        {
                            let expiries = expiries.clone();
                            let acceptance = acceptance.clone();
                            Arc::new(move || expiries.lines() + &acceptance.lines())
                        },
                        {
                            let acceptance = acceptance.clone();
                            Arc::new(move || acceptance.missing())
                        },
                    ))
                    .map_err(|source| NodeError::Http { address, source })?,
            ),
        };
        let addresses = Addresses { messaging: messaging.local_addr(), rpc: server.local_address(), http };

        let stopping = Arc::new(AtomicBool::new(false));
        let mut flows = Vec::new();
        for _ in 0..settings.flow_threads(cores()) {
            let core = core.clone();
            flows.push(spawn("flows", move || core.work())?);
        }
        let committer = {
            let core = core.clone();
            let failed = failed.clone();
            spawn("store", move || {
                let result = core.keep_committing(PATIENCE);
                if let Err(error) = &result {
                    tracing::error!(error = full_text(error), "the database refused a batch for good");
                    failed.request();
                }
                result
            })?
        };
        let clockwork = vec![
            {
                let (core, stopping) = (core.clone(), stopping.clone());
                spawn("clock", move || {
                    let mut beat = Instant::now() + BEAT;
                    while !stopping.load(Ordering::Relaxed) {
                        std::thread::park_timeout(TICK);
                        core.tick();
                        core.resume();
                        if Instant::now() >= beat {
                            beat = Instant::now() + BEAT;
                            core.beat();
                        }
                    }
                })?
            },
            {
                let stopping = stopping.clone();
                spawn("users", move || {
                    while !stopping.load(Ordering::Relaxed) {
                        std::thread::park_timeout(USERS);
                        users_file.refresh(&admission);
                    }
                })?
            },
            {
                let (core, stopping) = (core.clone(), stopping.clone());
                spawn("courier", move || {
                    while !stopping.load(Ordering::Relaxed) {
                        if let Err(error) = core.deliver_due() {
                            tracing::warn!(error = full_text(&error), "what is undelivered waits");
                        }
                        std::thread::park_timeout(DELIVERY);
                    }
                })?
            },
            {
                let (core, map, messaging, stopping) =
                    (core.clone(), map.clone(), messaging.clone(), stopping.clone());
                let every = Duration::from_millis(settings.network.refresh_ms.max(100));
                spawn("map", move || {
                    let mut due = Instant::now() + every;
                    while !stopping.load(Ordering::Relaxed) {
                        std::thread::park_timeout(due.saturating_duration_since(Instant::now()));
                        if Instant::now() < due {
                            continue;
                        }
                        due = Instant::now() + every;
                        refresh(&map, &messaging, &core);
                        if let Err(error) = acceptance.look(|missing| core.engine().bar(missing)) {
                            tracing::error!(error = full_text(&error), "no acceptance of parameters is kept");
                        }
                        if let Err(error) = expiries.look(system_now()) {
                            tracing::error!(%error, "what runs out is not measured");
                        }
                    }
                })?
            },
        ];

        let (stop_serving, stopped) = oneshot::channel();
        let serving = runtime.spawn(server.serve(async {
            let _ = stopped.await;
        }));
        // The notaries too: they know best whether another process has gone on from a copy of this database.
        let notaries = map.notaries().into_iter().flat_map(|notary| match notary.kind {
            NotaryKind::Clustered(members) => members.into_iter().map(|member| member.name).collect(),
            NotaryKind::NonValidating | NotaryKind::Validating => vec![notary.party.name],
        });
        for peer in core.unacknowledged().into_iter().chain(notaries).filter(|peer| peer != identity.name()) {
            messaging.connect(&peer);
        }
        runtime.block_on(health.set_serving(true));
        ready.store(true, Ordering::Relaxed);
        tracing::info!(
            node = %identity.name(),
            messaging = %addresses.messaging,
            rpc = %addresses.rpc,
            flows = core.engine().len(),
            took_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX),
            "the node serves"
        );
        Ok(Self {
            core,
            addresses,
            messaging,
            runtime,
            stop_serving: Some(stop_serving),
            serving,
            stopping,
            flows,
            clockwork,
            committer,
            member,
        })
    }

    /// Where it listens.
    pub fn addresses(&self) -> &Addresses {
        &self.addresses
    }

    /// The node itself.
    pub fn core(&self) -> &Arc<Core> {
        &self.core
    }

    /// Ends the node in order: no new work, what is under way is left where it is durable, what was promised is kept.
    ///
    /// # Errors
    /// The database took nothing any more; nothing that was told is lost.
    pub fn stop(mut self) -> Result<(), NodeError> {
        if let Some(stop) = self.stop_serving.take() {
            let _ = stop.send(());
        }
        if let Err(error) = self.runtime.block_on(&mut self.serving) {
            tracing::error!(%error, "the RPC server did not end in order");
        }
        self.stopping.store(true, Ordering::Relaxed);
        for thread in self.clockwork {
            thread.thread().unpark();
            join(thread);
        }
        self.core.stop();
        for thread in self.flows {
            join(thread);
        }
        if let Some(member) = &self.member {
            member.stop();
        }
        let committed = self.committer.join();
        self.runtime.block_on(self.messaging.shutdown());
        self.runtime.shutdown_timeout(Duration::from_secs(1));
        match committed {
            Ok(result) => result.map_err(NodeError::Broken),
            Err(_) => Err(NodeError::System("the thread that writes the database panicked".to_owned())),
        }
    }
}

fn join(thread: JoinHandle<()>) {
    if thread.join().is_err() {
        tracing::error!("a thread of the node panicked");
    }
}

fn open_map(
    directory: &Path,
    settings: &Settings,
    identity: &Identity,
    now: Timestamp,
) -> Result<(NetworkMap, Changes), NodeError> {
    Ok(match (&settings.network.folder, &settings.network.service) {
        (Some(folder), _) => NetworkMap::from_folder(&directory.join(folder), identity.trust(), now)?,
        (None, Some(service)) => {
            let cache = directory.join("data/network");
            match &settings.network.service_ca {
                Some(ca) => NetworkMap::from_service_over_tls(
                    service,
                    &directory.join(ca),
                    &cache,
                    identity.trust(),
                    now,
                )?,
                None => {
                    tracing::warn!(
                        service,
                        "the network map is asked without TLS: who stands between sees what this node asks for, and \
                         can withhold the answers, which are signed"
                    );
                    NetworkMap::from_service(service, &cache, identity.trust(), now)?
                }
            }
        }
        (None, None) => return Err(SettingsError::Network { file: directory.join(FILE) }.into()),
    })
}

fn tell(changes: &Changes) {
    for refused in &changes.refused {
        tracing::warn!(?refused, "a node info was left out");
    }
}

fn refresh(map: &NetworkMap, messaging: &Messaging, core: &Core) {
    match map.refresh(system_now()) {
        Ok(changes) => {
            tell(&changes);
            for name in changes.updated.iter().chain(&changes.added) {
                messaging.nudge(name);
            }
            for name in &changes.removed {
                messaging.disconnect(name);
            }
            if changes.revocations {
                messaging.renew();
            }
            core.review_members();
        }
        Err(error) => tracing::warn!(error = full_text(&error), "the network map was not read again"),
    }
    core.measure();
}

fn jitter(entropy: [u8; 32]) -> impl Fn() -> u64 + Send + Sync {
    let drawn = std::sync::atomic::AtomicU64::new(0);
    move || {
        let mut input = b"jitter".to_vec();
        input.extend_from_slice(&drawn.fetch_add(1, Ordering::Relaxed).to_le_bytes());
        let hash = tally_crypto::keyed(&entropy, &input);
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&hash.as_bytes()[..8]);
        u64::from_le_bytes(bytes)
    }
}

struct Told {
    core: Arc<Core>,
    map: Arc<NetworkMap>,
    started: Timestamp,
    acceptance: Arc<Acceptance>,
}

/// Parameters for a person.
fn in_words(parameters: &NetworkParameters) -> serde_json::Value {
    // With keys: under one name a notary with another key is another notary.
    let notary = |Notary { party, kind }: &Notary| {
        let members = kind.members().iter().map(|member| {
            serde_json::json!({
                "name": member.name.to_string(),
                "key": member.key.to_string(),
                "voter": member.voter.iter().fold("0x".to_owned(), |text, byte| format!("{text}{byte:02x}")),
            })
        });
        let mut shown = serde_json::json!({
            "name": party.name.to_string(),
            "key": party.key.to_string(),
            "validating": kind.is_validating(),
        });
        if kind.is_clustered() {
            shown["members"] = members.collect();
        }
        shown
    };
    let former =
        |party: &Party| serde_json::json!({ "name": party.name.to_string(), "key": party.key.to_string() });
    serde_json::json!({
        "epoch": parameters.epoch,
        "minimum_platform_version": parameters.minimum_platform_version,
        "notaries": parameters.notaries.iter().map(notary).collect::<Vec<_>>(),
        "former_notaries": parameters.former_notaries.iter().map(former).collect::<Vec<_>>(),
        "max_message_bytes": parameters.max_message_bytes,
        "max_transaction_bytes": parameters.max_transaction_bytes,
        "revocation_grace_ms": parameters.revocation_grace_ms,
        "modified_ms": parameters.modified.as_millis(),
        "in_force_from_ms": parameters.in_force_from.as_millis(),
    })
}

fn former_key(former: &Former) -> FormerSigningKey {
    FormerSigningKey { key: former.key.clone(), until: former.until }
}

/// What the notary sees; a clustered one sees what one sees that does not validate.
fn kind(validating: bool) -> tally_rpc::NotaryKind {
    if validating { tally_rpc::NotaryKind::Validating } else { tally_rpc::NotaryKind::NonValidating }
}

impl About for Told {
    fn node(&self) -> NodeInfo {
        let me = self.core.me();
        let addresses =
            self.map.info(&me.name).map(|info| info.addresses.iter().map(ToString::to_string).collect());
        NodeInfo {
            name: me.name.to_string(),
            key: me.key.to_string(),
            addresses: addresses.unwrap_or_default(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            notary: self
                .map
                .notaries()
                .iter()
                .find(|notary| notary.party.name == me.name || notary.kind.has_member(&me.name))
                .map(|notary| kind(notary.kind.is_validating())),
            started_at_ms: self.started.as_millis(),
            now_ms: system_now().as_millis(),
            unfinished_flows: self.core.engine().unfinished() as u64,
        }
    }

    fn network(&self) -> tally_rpc::NetworkMap {
        let snapshot = self.map.snapshot();
        let parameters = snapshot.parameters();
        tally_rpc::NetworkMap {
            parties: snapshot
                .nodes()
                .map(|info| NetworkParty {
                    name: info.party.name.to_string(),
                    key: info.party.key.to_string(),
                    addresses: info.addresses.iter().map(ToString::to_string).collect(),
                    serial: info.serial,
                })
                .collect(),
            notaries: parameters
                .notaries
                .iter()
                .map(|notary| NetworkNotary {
                    name: notary.party.name.to_string(),
                    key: notary.party.key.to_string(),
                    kind: kind(notary.kind.is_validating()),
                })
                .collect(),
            parameters_epoch: parameters.epoch,
            parameters: in_words(parameters),
        }
    }

    fn parameters(&self) -> tally_rpc::Parameters {
        let (in_force, announced) = self.acceptance.known();
        tally_rpc::Parameters {
            epoch: in_force.epoch,
            parameters: in_words(&in_force),
            announced: announced.map(|next| tally_rpc::AnnouncedParameters {
                epoch: next.epoch,
                in_force_from_ms: next.in_force_from.as_millis(),
                parameters: in_words(&next),
            }),
            accepted: self.acceptance.epochs(),
            missing: self.acceptance.missing(),
        }
    }

    fn accept_parameters(&self, epoch: u32, user: &str) -> Result<(), AcceptError> {
        self.acceptance.accept(epoch, user)?;
        self.acceptance.look(|missing| self.core.engine().bar(missing))?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_leave_files_for_the_database() {
        assert_eq!(Connections::of(1 << 20), Connections { peers: 4096, handshakes: 256, clients: 1024 });
        let few = Connections::of(1024);
        assert_eq!(few, Connections { peers: 256, handshakes: 64, clients: 256 });
        let http = crate::http::Limits::default().connections;
        // Twice as many for peers: one connection for each direction.
        assert!(2 * few.peers + few.handshakes + few.clients + http <= 1024 - 64);
    }
}
