//! Four members of a clustered notary in one process, each with its own certificates, sockets,
//! thread and folder; and a node of the same network that is no member.

pub(crate) mod wire;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use tally_consensus::Keys;
use tally_contracts::{Name, StateRef, TransactionId, encode};
use tally_crypto::hash;
use tally_crypto::keystore::ScryptCost;
use tally_identity::tls::Tls;
use tally_identity::{
    Identity, Manager, Network, NetworkMap, NodeKeys, NodeSpec, Reason, bootstrap, system_now,
};
use tally_node::{ClusterError, ClusterMember, ClusterParts, ClusterSection, Decision};
use tally_notary::{
    Cluster, Collector, Commit, Judge, Member, Outcome, Progress, Request, SignedAnswer, TransactionForm,
    Unfounded,
};
use tokio::runtime::Runtime;

/// The members.
pub(crate) const MEMBERS: usize = 4;
/// The node that is none.
pub(crate) const STRANGER: usize = MEMBERS;
/// After which a test has failed.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) fn name(index: usize) -> Name {
    let organisation = if index == STRANGER { "Bank".to_owned() } else { format!("Notary {index}") };
    format!("O={organisation}, L=London, C=GB").parse().expect("a name")
}

/// Evidence that makes a member's judge panic.
pub(crate) const PANIC: &[u8] = b"panic";

/// Finds a request good whose evidence is the hash of what it asks for.
struct HashJudge {
    /// Panics at such evidence.
    panics: bool,
}

impl Judge for HashJudge {
    fn judge(&self, request: &Request) -> Result<(), Unfounded> {
        assert!(!self.panics || request.evidence != PANIC, "as the test wants it");
        if request.evidence == hash(&encode(&request.commit)).as_bytes() {
            Ok(())
        } else {
            Err(Unfounded("another hash".to_owned()))
        }
    }
}

/// A request of a member: the transaction `number` consumes the state `state`.
pub(crate) fn request(of: usize, number: u8, state: u32) -> Request {
    let commit = Commit {
        inputs: vec![StateRef { transaction: TransactionId::from_bytes([9; 32]), index: state }],
        references: Vec::new(),
        transaction: TransactionId::from_bytes([number; 32]),
        time_window: None,
        requester: name(of),
    };
    Request { evidence: hash(&encode(&commit)).as_bytes().to_vec(), commit }
}

pub(crate) struct World {
    pub(crate) runtime: Runtime,
    _directory: tempfile::TempDir,
    network: Network,
    identities: Vec<Identity>,
    passphrases: Vec<String>,
    pub(crate) ports: Vec<u16>,
    pub(crate) cluster: Arc<Cluster>,
    pub(crate) members: Vec<Option<ClusterMember>>,
    /// Whether the judge of the first member panics at [`PANIC`].
    pub(crate) panics: bool,
}

impl World {
    /// Nobody runs yet.
    pub(crate) fn new() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let now = system_now();
        let specs: Vec<NodeSpec> = (0..=STRANGER)
            .map(|index| NodeSpec {
                name: name(index),
                notary: (index != STRANGER).then_some(false),
                address: "127.0.0.1:1".parse().expect("an address"),
            })
            .collect();
        let network = bootstrap(directory.path(), &specs, now).expect("a network");
        let passphrases: Vec<String> = network
            .nodes
            .iter()
            .map(|node| {
                std::fs::read_to_string(&node.passphrase).expect("a passphrase").trim_end().to_owned()
            })
            .collect();
        let identities: Vec<Identity> = network
            .nodes
            .iter()
            .zip(&passphrases)
            .map(|(node, passphrase)| {
                let identity =
                    Identity::load(&node.identity, passphrase.as_bytes(), now).expect("an identity");
                // Revocation lists are in force from then on.
                NetworkMap::from_folder(&network.map, identity.trust(), now).expect("the network map");
                identity
            })
            .collect();
        let member = |index: usize| {
            let (node, passphrase) = (&network.nodes[index], passphrases[index].as_bytes());
            let voter = NodeKeys::create_voter(&node.identity, passphrase, ScryptCost::TRIVIAL);
            let service = identities[index].notary_party().expect("a notary service");
            Member {
                name: name(index),
                voter: voter.expect("a voting key").address().into(),
                key: service.key,
            }
        };
        let id = *identities[0].trust().network().hash();
        let cluster = Cluster::new(id, (0..MEMBERS).map(member).collect()).expect("a cluster");
        Self {
            runtime: tokio::runtime::Builder::new_multi_thread()
                .worker_threads(2)
                .enable_all()
                .build()
                .expect("a runtime"),
            _directory: directory,
            network,
            identities,
            passphrases,
            ports: tally_ops::ports::free(MEMBERS).expect("free ports"),
            cluster: Arc::new(cluster),
            members: (0..MEMBERS).map(|_| None).collect(),
            panics: false,
        }
    }

    /// With these members running.
    pub(crate) fn with(running: impl IntoIterator<Item = usize>) -> Self {
        let mut world = Self::new();
        running.into_iter().for_each(|index| world.start(index));
        world
    }

    pub(crate) fn tls(&self, index: usize) -> Tls {
        Tls::new(&self.identities[index]).expect("TLS")
    }

    /// Takes a node's certificates away, as another node sees it.
    pub(crate) fn revoke(&self, index: usize, seen_by: usize) {
        let (authority, now) = (&self.network.authority, system_now());
        let passphrase = std::fs::read_to_string(authority.join("passphrase")).expect("a passphrase");
        let manager = Manager::open(authority, passphrase.trim_end().as_bytes());
        let mut manager = manager.expect("the identity manager");
        manager.revoke(&name(index), Reason::KeyCompromise, now).expect("revoked");
        let list = manager.revocation_list(now, 86_400_000).expect("a list");
        let trust = self.identities[seen_by].trust();
        trust.install(&list, manager.certificate(), now).expect("a newer list");
    }

    pub(crate) fn storage(&self, index: usize) -> PathBuf {
        self.network.nodes[index].directory.join("data/cluster")
    }

    pub(crate) fn section(&self, index: usize) -> ClusterSection {
        let address = |index: usize| format!("127.0.0.1:{}", self.ports[index]);
        let others = (0..MEMBERS).filter(|other| *other != index);
        let members: BTreeMap<_, _> =
            others.map(|other| (name(other), address(other).parse().expect("an address"))).collect();
        let mut section = ClusterSection::new(address(index).parse().expect("an address"), members);
        (section.heartbeat_ms, section.silence_ms) = (500, 3_000);
        (section.poll_ms, section.ask_again_ms, section.decide_ms) = (300, 500, 30_000);
        section.reconnect_ms = 20;
        section
    }

    pub(crate) fn try_start(&mut self, index: usize) -> Result<(), ClusterError> {
        self.try_start_with(index, &self.section(index))
    }

    pub(crate) fn try_start_with(
        &mut self,
        index: usize,
        section: &ClusterSection,
    ) -> Result<(), ClusterError> {
        let member = ClusterMember::start(ClusterParts {
            section,
            identity: &self.identities[index],
            tls: self.tls(index),
            keys: &self.network.nodes[index].identity,
            passphrase: self.passphrases[index].as_bytes(),
            storage: self.storage(index),
            cluster: Arc::clone(&self.cluster),
            judge: Box::new(HashJudge { panics: self.panics && index == 0 }),
            runtime: self.runtime.handle().clone(),
        })?;
        self.members[index] = Some(member);
        Ok(())
    }

    pub(crate) fn start(&mut self, index: usize) {
        self.try_start(index).unwrap_or_else(|error| panic!("{error:?}"));
    }

    pub(crate) fn stop(&mut self, index: usize) {
        self.member(index);
        self.members[index].take().expect("it runs").stop();
    }

    pub(crate) fn member(&self, index: usize) -> &ClusterMember {
        self.members[index].as_ref().expect("it runs")
    }

    /// What will become of a request of the member `of`.
    pub(crate) fn submit(&self, of: usize, request: Request) -> Receiver<Decision> {
        let (sender, decision) = channel();
        let asker = request.commit.requester.clone();
        self.member(of).submit(&asker, request, move |decision| {
            let _ = sender.send(decision);
        });
        decision
    }

    /// What became of a request of the member `of`.
    pub(crate) fn decide(&self, of: usize, request: Request) -> Decision {
        self.submit(of, request).recv_timeout(PATIENCE).expect("a decision")
    }

    /// A request of the member `of` is committed.
    pub(crate) fn commits(&self, of: usize, number: u8, state: u32) {
        self.is_committed(&self.decide(of, request(of, number, state)), number);
    }

    pub(crate) fn is_committed(&self, decision: &Decision, number: u8) {
        let Decision::Committed(attestation) = decision else { panic!("{number}: {decision:?}") };
        assert_eq!(attestation.transaction, TransactionId::from_bytes([number; 32]));
        assert!(attestation.verify(&self.cluster, &TransactionForm));
    }

    /// A request of the member `of` is refused, which its answers prove.
    pub(crate) fn conflicts(&self, of: usize, number: u8, state: u32, consumed_by: u8) -> Vec<SignedAnswer> {
        let request = request(of, number, state);
        let (transaction, state) = (request.commit.transaction, request.commit.inputs[0]);
        let found = self.decide(of, request);
        let Decision::Refused { outcome, answers } = found else { panic!("{number}: {found:?}") };
        let consumed_by = TransactionId::from_bytes([consumed_by; 32]);
        assert_eq!(outcome, Outcome::Conflict { state, consumed_by });
        let mut collector = Collector::new(&self.cluster, transaction);
        let last = answers.iter().map(|answer| collector.take(answer, &TransactionForm)).last();
        assert_eq!(last, Some(Progress::Refused(outcome)));
        answers
    }

    /// Waits until something is so.
    pub(crate) fn until(&self, what: &str, is: impl Fn(&Self) -> bool) {
        let begun = Instant::now();
        while !is(self) {
            assert!(begun.elapsed() < PATIENCE, "waited too long for: {what}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Waits until a member has links to so many others.
    pub(crate) fn connected(&self, index: usize, others: usize) {
        self.until("links", |world| world.member(index).figures().connected_members == others);
    }
}
