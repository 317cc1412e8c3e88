//! A running node: the chain joined with its pool, its peers and, if its key is a validator's, consensus.
//!
//! | thread | what it does |
//! | --- | --- |
//! | `post` | hands what peers send to whoever it is for |
//! | `driver` | feeds the round engine and carries out its effects, one after the other |
//! | `workshop` | builds and validates blocks, so that votes are never kept waiting |
//! | `gossip` | takes transactions from peers, offers new ones to them |
//! | `keeper` | makes the transactions of this node's own users durable, many at a time |
//! | `sync` | fetches blocks that others have and this node has not |
//! | `fast` | takes blocks and a state without executing anything, once, where the node is far behind |
//! | `serve` | answers peers that ask for what is in the store |

mod driver;
mod fast;
mod gate;
mod gossip;
mod keeper;
mod post;
mod serve;
mod standing;
mod submit;
mod sync;
mod workshop;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use alloy_primitives::map::{AddressSet, B256Map, B256Set};
use alloy_primitives::{Address, B256};
use tally_consensus::{Config as EngineConfig, Keys, Proposals, Status};
use tally_evm::{Block, Recovered};
use tally_peers::{Events, Network, Permissions};
use tally_state::{Durability, Table};
use tokio::sync::broadcast;

use crate::blocks::FullBlock;
use crate::branch::Candidate;
use crate::chain::{Chain, Head};
use crate::error::{ChainError, ImportError};
use crate::pool::{Conditions, Fate, Limits, Pool};
use crate::protocol;

pub use fast::{Distances, Progress, Sync};
pub use submit::SubmitError;

/// Messages of consensus that wait for the engine, in bytes: a few large blocks.
const PACKET_BYTES: usize = 96 << 20;
/// Transactions of peers that wait to be looked at, in bytes.
const RECEIVED_BYTES: usize = 16 << 20;

/// How a node takes part.
pub struct Options {
    /// Bounds of the pool.
    pub pool: Limits,
    /// The round engine's options; unused where nobody seals.
    pub engine: EngineConfig,
    /// The validator's key; `None` for a node that only follows.
    pub keys: Option<Arc<dyn Keys>>,
    /// Which accounts may send transactions.
    pub permissions: Permissions,
    /// Where the gas limit of this node's blocks moves; `None` leaves it as it is.
    pub target_gas_limit: Option<u64>,
    /// Threads that recover keys when a block comes whose transactions are not known.
    pub threads: usize,
    /// How a node that is far behind comes to the chain.
    pub sync: Sync,
}

/// What is not seen as it happens, for people and metrics.
#[derive(Clone, Debug)]
pub enum Notice {
    /// The engine has something against a peer.
    Misbehaviour {
        /// The peer.
        peer: Address,
        /// What it did.
        what: String,
    },
    /// A transaction was left out of a block and dropped: after it nobody could have sealed another.
    LeftOut {
        /// The transaction.
        transaction: B256,
        /// Its sender.
        sender: Address,
        /// What the contract that names the validators did.
        reason: String,
    },
    /// The clock of a peer differs from this node's by more than messages take.
    Clock {
        /// The peer.
        peer: Address,
        /// By how much the peer's is ahead, in milliseconds.
        ahead_ms: i64,
    },
    /// A peer has other forks in its genesis file than this node, in the past or to come.
    Forks {
        /// The peer.
        peer: Address,
    },
    /// Something failed, and is tried again.
    Failure {
        /// What was being done.
        doing: &'static str,
        /// Why it failed.
        reason: String,
    },
}

/// A node. Cheap to clone; the threads end with [`Node::stop`].
#[derive(Clone)]
pub struct Node {
    shared: Arc<Shared>,
}

/// A node for those who only look at it now and then: it keeps nothing of the node open.
#[derive(Clone)]
pub struct WeakNode {
    shared: Weak<Shared>,
}

impl WeakNode {
    /// The node, while it runs.
    #[must_use]
    pub fn upgrade(&self) -> Option<Node> {
        let node = Node { shared: self.shared.upgrade()? };
        (!node.is_stopping()).then_some(node)
    }

    /// Waits until nobody holds the node, so that its store is closed; whether that was within `patience`.
    #[must_use]
    pub fn wait_until_gone(&self, patience: Duration) -> bool {
        let start = Instant::now();
        while self.shared.strong_count() > 0 {
            if start.elapsed() > patience {
                return false;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        true
    }
}

struct Shared {
    chain: Chain,
    pool: Mutex<Pool>,
    network: Option<Network>,
    permissions: Permissions,
    keys: Option<Arc<dyn Keys>>,
    proposals: Mutex<Proposals>,
    status: Mutex<Status>,
    /// Newest blocks of peers, as they say.
    heads: Mutex<sync::Heads>,
    /// Connected peers that sent what is wrong: either sync asks them after all others.
    liars: Mutex<AddressSet>,
    /// Clocks and forks of peers, as they say.
    standings: Mutex<standing::Standings>,
    /// Transactions that are in the table of those kept for this node's users.
    kept: Mutex<B256Set>,
    pool_table: Table,
    consensus_table: Table,
    target_gas_limit: Option<u64>,
    threads: usize,
    stopping: AtomicBool,
    /// Bytes of messages of consensus that wait for the driver, and of transactions that wait for `gossip`.
    packets: gate::Gate,
    received: gate::Gate,
    driver: Sender<driver::Told>,
    gossip: Sender<gossip::Told>,
    keeper: Sender<keeper::Told>,
    sync: Sender<sync::Told>,
    serve: SyncSender<serve::Told>,
    fast: fast::Fast,
    pending: broadcast::Sender<B256>,
    notices: broadcast::Sender<Notice>,
    running: Mutex<Vec<JoinHandle<()>>>,
}

impl std::fmt::Debug for Node {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Node").field("chain", &self.shared.chain).finish_non_exhaustive()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Milliseconds since 1970 by this machine's clock.
fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

impl Node {
    /// Starts a node on a chain, with its sessions with peers if it has any.
    ///
    /// # Errors
    /// The store's, and a record of consensus that cannot be read: a validator does not sign without it.
    pub fn start(
        chain: Chain,
        network: Option<(Network, Events)>,
        options: Options,
    ) -> Result<Self, ChainError> {
        let pool_table = chain.table("pool")?;
        let consensus_table = chain.table("consensus")?;
        let (network, events) =
            network.map_or((None, None), |(network, events)| (Some(network), Some(events)));
        let (driver, to_driver) = channel();
        let (gossip, to_gossip) = channel();
        let (keeper, to_keeper) = channel();
        let (sync, to_sync) = channel();
        let (serve, to_serve) = sync_channel(serve::WAITING);
        let head = chain.head();
        let node = Self {
            shared: Arc::new(Shared {
                pool: Mutex::new(Pool::new(options.pool, conditions(&chain, &head))),
                network,
                permissions: options.permissions,
                keys: options.keys.clone(),
                proposals: Mutex::new(Proposals::default()),
                status: Mutex::default(),
                heads: Mutex::default(),
                liars: Mutex::default(),
                standings: Mutex::default(),
                kept: Mutex::default(),
                pool_table,
                consensus_table,
                target_gas_limit: options.target_gas_limit,
                threads: options.threads.max(1),
                stopping: AtomicBool::new(false),
                packets: gate::Gate::new(PACKET_BYTES),
                received: gate::Gate::new(RECEIVED_BYTES),
                driver,
                gossip,
                keeper,
                sync,
                serve,
                fast: fast::Fast::new(options.sync),
                pending: broadcast::channel(4_096).0,
                notices: broadcast::channel(256).0,
                running: Mutex::default(),
                chain,
            }),
        };
        node.take_up_kept()?;
        let engine = node.engine(options.engine)?;
        node.spawn("keeper", to_keeper, keeper::run);
        node.spawn("gossip", to_gossip, gossip::run);
        node.spawn("sync", to_sync, sync::run);
        node.spawn("serve", to_serve, serve::run);
        node.spawn("fast", (), fast::run);
        if let Some(engine) = engine {
            let (workshop, jobs) = channel();
            node.spawn("workshop", jobs, workshop::run);
            node.spawn("driver", to_driver, move |node, told| driver::run(node, told, engine, workshop));
        }
        if let Some(events) = events {
            node.spawn("post", events, post::run);
        }
        Ok(node)
    }

    fn spawn<T: Send + 'static>(&self, name: &str, what: T, run: impl FnOnce(Node, T) + Send + 'static) {
        let node = self.clone();
        let thread = std::thread::Builder::new()
            .name(name.into())
            .spawn(move || run(node, what))
            .expect("the system has room for a thread");
        lock(&self.shared.running).push(thread);
    }

    /// The chain.
    pub fn chain(&self) -> &Chain {
        &self.shared.chain
    }

    /// The peers; `None` for a node that runs alone.
    pub fn network(&self) -> Option<&Network> {
        self.shared.network.as_ref()
    }

    /// The pool, locked: for as short as can be.
    pub fn pool(&self) -> MutexGuard<'_, Pool> {
        lock(&self.shared.pool)
    }

    /// Where the round engine stands.
    pub fn consensus(&self) -> Status {
        *lock(&self.shared.status)
    }

    /// This node's address as a validator, if it has a key.
    pub fn validator(&self) -> Option<Address> {
        self.shared.keys.as_ref().map(|keys| keys.address())
    }

    /// The votes that this node wants cast.
    pub fn proposals(&self) -> MutexGuard<'_, Proposals> {
        lock(&self.shared.proposals)
    }

    /// Hashes of transactions as they come into the pool.
    pub fn subscribe_pending(&self) -> broadcast::Receiver<B256> {
        self.shared.pending.subscribe()
    }

    /// What goes wrong and is dealt with.
    pub fn notices(&self) -> broadcast::Receiver<Notice> {
        self.shared.notices.subscribe()
    }

    /// The newest block that peers have, while this node is behind it; `None` when it is not. With `3f + 1` validators more
    /// than `f` peers have to say that they have it, or all when there are fewer: no single one makes a node behind.
    pub fn behind(&self) -> Option<u64> {
        let highest = sync::reached(self);
        (highest > self.shared.chain.head().number().saturating_add(1)).then_some(highest)
    }

    /// How far this node has come with taking the chain without executing it; `None` when it does not.
    pub fn fast_sync(&self) -> Option<Progress> {
        self.shared.fast.progress()
    }

    /// The same node, for who looks at it now and then.
    #[must_use]
    pub fn downgrade(&self) -> WeakNode {
        WeakNode { shared: Arc::downgrade(&self.shared) }
    }

    fn is_stopping(&self) -> bool {
        self.shared.stopping.load(Ordering::Acquire)
    }

    fn notice(&self, notice: Notice) {
        let _ = self.shared.notices.send(notice);
    }

    /// A peer sent what is wrong: that is said and counts against it, and both syncs ask it after all others.
    fn accuse(&self, peer: Address, weight: u32, doing: &'static str, error: &dyn std::error::Error) {
        self.failed(doing, error);
        lock(&self.shared.liars).insert(peer);
        if let Some(network) = self.network() {
            network.report(&peer, weight);
        }
    }

    fn failed(&self, doing: &'static str, error: &dyn std::error::Error) {
        let mut reason = error.to_string();
        let mut source = error.source();
        while let Some(cause) = source {
            reason.push_str(": ");
            reason.push_str(&cause.to_string());
            source = cause.source();
        }
        self.notice(Notice::Failure { doing, reason });
    }

    /// Makes candidates part of the chain and tells everybody: pool, peers, consensus.
    fn commit(&self, candidates: &[Candidate]) -> Result<Arc<Head>, ImportError> {
        let head = {
            // What the blocks hold need not be kept for users any more, from the same moment on.
            let mut kept = lock(&self.shared.kept);
            let gone: Vec<B256> = candidates
                .iter()
                .flat_map(|candidate| candidate.block.hashes())
                .filter(|hash| kept.contains(hash))
                .collect();
            let head = self.shared.chain.commit(candidates, Durability::Synced, |batch| {
                for hash in &gone {
                    batch.delete(self.shared.pool_table, hash);
                }
            })?;
            for hash in &gone {
                kept.remove(hash);
            }
            head
        };
        let conditions = conditions(&self.shared.chain, &head);
        let mut pool = self.pool();
        for candidate in candidates {
            let block = &candidate.block;
            let nonces = block.transactions.iter().map(|transaction| {
                use alloy_consensus::Transaction as _;
                (transaction.sender(), transaction.nonce().saturating_add(1))
            });
            // The last of a sender has its highest nonce.
            let nonces: alloy_primitives::map::AddressMap<u64> = nonces.collect();
            pool.committed(block.number(), block.hashes(), nonces, conditions);
        }
        drop(pool);
        self.announce(&head, candidates.last().map(|last| &*last.block));
        let _ = self.shared.driver.send(driver::Told::Head);
        Ok(head)
    }

    /// Tells everybody that the chain has another head, whose blocks were not executed here.
    fn adopted(&self, head: &Head) {
        use tally_state::Read as _;
        let conditions = conditions(&self.shared.chain, head);
        let mut pool = self.pool();
        let waiting: Vec<B256> = pool.hashes().collect();
        let senders: AddressSet = waiting
            .iter()
            .filter_map(|hash| pool.get(hash))
            .map(|pooled| pooled.transaction().sender())
            .collect();
        // An account that cannot be read now is looked at with its next transaction.
        let nonces = senders.into_iter().filter_map(|sender| {
            let account = head.branch.view.account(sender).ok().flatten()?;
            Some((sender, account.nonce))
        });
        pool.committed(head.number(), [], nonces, conditions);
        drop(pool);
        self.announce(head, None);
        let _ = self.shared.driver.send(driver::Told::Head);
    }

    /// Tells peers of the newest block. Whoever proposed it sends it whole to those that do not take part in consensus,
    /// which have seen nothing of it.
    fn announce(&self, head: &Head, newest: Option<&FullBlock>) {
        let Some(network) = self.network() else { return };
        let message = protocol::encode(&protocol::Head { number: head.number(), hash: head.hash() });
        let proposed = newest.filter(|block| self.validator() == Some(block.sealed.header.beneficiary));
        let (Some(block), Some(validators)) = (proposed, &head.branch.validators) else {
            network.broadcast(protocol::HEAD, &message);
            return;
        };
        let (mut taking_part, mut following) = (Vec::new(), Vec::new());
        for peer in network.peers() {
            if validators.set.contains(peer.peer) { &mut taking_part } else { &mut following }
                .push(peer.peer);
        }
        network.send_to_all(&taking_part, protocol::HEAD, &message);
        if !following.is_empty() {
            network.send_to_all(&following, protocol::BLOCK, &block.encode().into());
        }
    }

    /// Those of a block's transactions whose senders are known, because they wait in the pool.
    fn known(&self, block: &Block) -> B256Map<Recovered> {
        let pool = self.pool();
        block
            .body
            .transactions
            .iter()
            .filter_map(|transaction| {
                let hash = *transaction.tx_hash();
                Some((hash, pool.get(&hash)?.transaction().clone()))
            })
            .collect()
    }

    /// Takes a transaction out of the pool, and out of those kept for users.
    fn drop_transaction(&self, hash: B256, fate: Fate) {
        self.pool().remove(&hash, fate);
        let _ = self.shared.keeper.send(keeper::Told::Forget(hash));
    }

    /// Ends all threads; what was acknowledged is durable already.
    pub fn stop(&self) {
        self.shared.stopping.store(true, Ordering::Release);
        if let Some(network) = self.network() {
            network.stop_and_wait();
        }
        let _ = self.shared.driver.send(driver::Told::Stop);
        let _ = self.shared.gossip.send(gossip::Told::Stop);
        let _ = self.shared.keeper.send(keeper::Told::Stop);
        let _ = self.shared.sync.send(sync::Told::Stop);
        // A thread with a full queue sees that the node stops with its next request.
        let _ = self.shared.serve.try_send(serve::Told::Stop);
        let threads = std::mem::take(&mut *lock(&self.shared.running));
        for thread in threads {
            // A thread that panicked has said so.
            let _ = thread.join();
        }
    }
}

/// What the block after `head` allows.
fn conditions(chain: &Chain, head: &Head) -> Conditions {
    let header = &head.sealed().header;
    let base_fee = tally_evm::block::next_base_fee(chain.schedule(), header, header.timestamp);
    Conditions { base_fee: u128::from(base_fee.unwrap_or(0)), gas_limit: header.gas_limit }
}

/// Everything that waits, and then what comes within a moment, up to a number.
fn gather<T>(first: T, more: &Receiver<T>, most: usize) -> Vec<T> {
    let mut all = vec![first];
    while all.len() < most
        && let Ok(next) = more.try_recv()
    {
        all.push(next);
    }
    all
}
