//! A member: its replica on a thread, its links, its requests; from start to orderly end.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

use alloy_primitives::Address;
use tally_consensus::Keys;
use tally_contracts::{Name, StateRef, TransactionId};
use tally_identity::tls::Tls;
use tally_identity::{Identity, NodeKeys};
use tally_notary::{
    Answer, Client, Cluster, Consumptions, FileStorage, Host, Identity as MemberIdentity, Judge, Request,
    TransactionForm,
};
use tokio::runtime::Handle;
use tokio::sync::watch;

use super::asker::{self, Asker, Decision};
use super::custody;
use super::error::ClusterError;
use super::frame::Limits;
use super::intake::Intake;
use super::links::{LinkParts, Links};
use super::meters::{ClusterFigures, Counts};
use super::section::ClusterSection;
use super::transport;
use crate::desk::{full_text, lock};

/// How long links may take to end.
const FAREWELL: Duration = Duration::from_secs(5);

/// What a node is a member with.
pub struct ClusterParts<'a> {
    /// Where this member and the others are.
    pub section: &'a ClusterSection,
    /// Who this node is; its notary service signs answers.
    pub identity: &'a Identity,
    /// The node's certificates.
    pub tls: Tls,
    /// The folder with the voting key, in which a mark of its use is kept: that of the identity.
    pub keys: &'a Path,
    /// The passphrase of the keys.
    pub passphrase: &'a [u8],
    /// The folder of what the member must not lose: a folder of its own in the node's data.
    pub storage: PathBuf,
    /// The members, as the network's parameters name them.
    pub cluster: Arc<Cluster>,
    /// Judges the evidence of requests.
    pub judge: Box<dyn Judge>,
    /// Where links and requests are served.
    pub runtime: Handle,
}

/// A running member of a clustered notary. It ends when dropped; [`ClusterMember::stop`] ends it in
/// order. What it signed and decided is durable in any case.
pub struct ClusterMember {
    asker: Asker,
    links: Arc<Links>,
    intake: Arc<Intake>,
    consumptions: Consumptions,
    address: SocketAddr,
    failure: Arc<Mutex<Option<String>>>,
    stop: watch::Sender<bool>,
    host: Option<JoinHandle<()>>,
    /// Is closed once every task has ended.
    ended: Mutex<mpsc::Receiver<()>>,
}

impl std::fmt::Debug for ClusterMember {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClusterMember").field("address", &self.address).finish_non_exhaustive()
    }
}

/// Notes how the host ended, also when it panicked: the node is then not ready.
struct End {
    failure: Arc<Mutex<Option<String>>>,
    intake: Arc<Intake>,
    told: Option<String>,
}

impl Drop for End {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.told = Some("the thread of the clustered notary panicked".to_owned());
        }
        if let Some(why) = self.told.take() {
            tracing::error!(error = why, "this node is no longer a member of the clustered notary");
            *lock(&self.failure) = Some(why);
        }
        self.intake.end();
    }
}

impl ClusterMember {
    /// Starts the member; when this returns it listens, and the replica has read its storage. That
    /// takes time with the number of batches, and blocks.
    ///
    /// # Errors
    /// [`ClusterError`]; each says what to do.
    pub fn start(parts: ClusterParts<'_>) -> Result<Self, ClusterError> {
        let ClusterParts { section, identity, tls, keys, passphrase, storage, cluster, judge, runtime } =
            parts;
        let me = identity.name().clone();
        section.validate()?;
        section.check_members(&cluster, &me)?;
        let member = cluster.members().iter().find(|member| member.name == me);
        let member = member.ok_or_else(|| ClusterError::NoMember(me.clone()))?;
        let service = identity.notary_key().filter(|key| key.public_key() == member.key);
        let service = service.ok_or_else(|| ClusterError::OtherService(me.clone()))?.clone();
        let voter = NodeKeys::voter(keys, passphrase)?.ok_or(ClusterError::NoVoter)?;
        let own = voter.address();
        if own != member.address() {
            return Err(ClusterError::OtherVoter(me));
        }
        custody::claim(keys, &storage, own)?;
        let storage = FileStorage::open(&storage)?;

        let config = section.config();
        let (stop, stopped) = watch::channel(false);
        let (alive, ended) = mpsc::channel();
        let (asker, questions) = Asker::new(&config);
        let voters = cluster.members().iter().map(tally_notary::Member::address);
        let most = config.message_bytes().saturating_mul(2);
        let intake = Arc::new(Intake::new(voters, most));
        let links = Arc::new(Links::new(LinkParts {
            cluster: Arc::clone(&cluster),
            me: me.clone(),
            own,
            sockets: section
                .members
                .iter()
                .map(|(name, address)| (name.clone(), address.to_string()))
                .collect(),
            limits: Limits::of(&config),
            line_bytes: most,
            times: section.times(),
            tls,
            intake: Arc::clone(&intake),
            asker: asker.clone(),
            figures: Arc::new(Counts::default()),
            stop: stopped.clone(),
            alive,
        }));

        let signing = Arc::clone(&cluster);
        let sign = Box::new(move |answer: Answer| TransactionForm.sign(&signing, &service, answer));
        let replica = MemberIdentity { cluster: Arc::clone(&cluster), keys: Arc::new(voter), sign };
        let ways = transport::Ways::new(Arc::clone(&links), asker.clone());
        let host = Host::open(replica, config, judge, storage, ways)?;
        let consumptions = host.consumptions();

        let address = section.listen;
        let listener = {
            let _within = runtime.enter();
            let bind = || {
                let listener = std::net::TcpListener::bind(address)?;
                listener.set_nonblocking(true)?;
                tokio::net::TcpListener::from_std(listener)
            };
            bind().map_err(|source| ClusterError::Listen { address, source })?
        };
        let address = listener.local_addr().map_err(|source| ClusterError::Listen { address, source })?;

        let failure = Arc::<Mutex<Option<String>>>::default();
        let thread = {
            let (failure, intake, inbox) = (Arc::clone(&failure), Arc::clone(&intake), intake.inbox());
            std::thread::Builder::new().name("cluster".to_owned()).spawn(move || {
                let mut end = End { failure, intake, told: None };
                if let Err(error) = host.run(inbox) {
                    end.told = Some(full_text(&error));
                }
            })
        };
        let host = thread.map_err(ClusterError::Thread)?;
        let lines: BTreeMap<Address, _> =
            links.peers().map(|peer| (peer.voter, Arc::clone(&peer.line))).collect();
        let blamed = Arc::clone(&links);
        let ways = asker::Ways {
            cluster,
            me: Client { name: me.clone(), conversation: 0 },
            own,
            intake: Arc::clone(&intake),
            lines,
            blame: Box::new(move |member| blamed.answered_falsely(member)),
            times: section.times(),
        };
        {
            let _within = runtime.enter();
            links.start(listener);
            tokio::spawn(asker::run(questions, ways, stopped));
        }
        tracing::info!(member = %me, %address, others = links.peers().count(), "the node is a member of a clustered notary");
        Ok(Self {
            asker,
            links,
            intake,
            consumptions,
            address,
            failure,
            stop,
            host: Some(host),
            ended: Mutex::new(ended),
        })
    }

    /// Where it listens for the other members.
    #[must_use]
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// The name of this member.
    #[must_use]
    pub fn name(&self) -> &Name {
        &self.links.me
    }

    /// Asks the cluster for a commit, as a client of it: brings the request to all members, this
    /// one with them, until the answers say what became of it or `decide_ms` have passed.
    ///
    /// `request.commit.requester` has to be this node. An equal request that is under way is joined.
    /// `asker` is who asked this node for it, and has a share of the room for requests under way.
    /// `then` is called once, whatever happens, on a thread of the runtime, or at once on that of
    /// the caller when there is no room; it has to be quick. Never blocks.
    pub fn submit(&self, asker: &Name, request: Request, then: impl FnOnce(Decision) + Send + 'static) {
        self.asker.submit(asker, request, Box::new(then));
    }

    /// By which transactions these states are consumed, as far as this member has seen: more than `f` members that say
    /// the same are right.
    #[must_use]
    pub fn consumers(&self, states: &[StateRef]) -> Vec<Option<TransactionId>> {
        self.consumptions.consumers(states)
    }

    /// Why the member ended although it was not told to: it signs nothing more, and a person has to
    /// look. Requests of this node are still brought to the other members.
    #[must_use]
    pub fn failure(&self) -> Option<String> {
        lock(&self.failure).clone()
    }

    /// How it stands.
    #[must_use]
    pub fn figures(&self) -> ClusterFigures {
        let counts = &self.links.figures;
        ClusterFigures {
            height: counts.height.load(Relaxed),
            waiting_requests: counts.waiting.load(Relaxed),
            requests_under_way: self.asker.under_way(),
            connected_members: self.links.peers().filter(|peer| peer.line.is_connected()).count(),
            other_members: self.links.peers().count(),
            blames: counts.blames.load(Relaxed),
            faulty_links: counts.faulty_links.load(Relaxed),
            strangers: counts.strangers.load(Relaxed),
            dropped_frames: self.links.peers().map(|peer| peer.line.dropped()).sum(),
            failed: lock(&self.failure).is_some(),
        }
    }

    /// Ends the member: the replica first, then its links. Requests under way end as
    /// [`Undecided::Stopping`](super::Undecided::Stopping). Blocks until all has ended, a few
    /// seconds at most; not on a thread of the runtime.
    pub fn stop(mut self) {
        self.end();
    }

    fn end(&mut self) {
        self.intake.end();
        if let Some(host) = self.host.take()
            && host.join().is_err()
        {
            tracing::error!("the thread of the clustered notary panicked");
        }
        self.stop.send_replace(true);
        self.links.close();
        // Nothing is ever sent: this waits for the last task to end, and let go of the listener.
        let _ = lock(&self.ended).recv_timeout(FAREWELL);
    }
}

impl Drop for ClusterMember {
    fn drop(&mut self) {
        self.end();
    }
}
