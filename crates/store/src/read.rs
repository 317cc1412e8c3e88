//! What a store answers.

use crate::write::{Mark, NewFlow, QueueKey, SessionKey, Unresolved};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use tally_contracts::{Name, State, StateRef, Summary, Timestamp, TransactionId};

/// A flow that has not ended, with all it needs to go on.
#[derive(Debug, Clone, PartialEq)]
pub struct SavedFlow {
    /// How it began.
    pub flow: NewFlow,
    /// Whether it goes on by itself.
    pub mark: Mark,
    /// Units and their entries, in order.
    pub steps: Vec<(u64, Vec<u8>)>,
    /// Messages, by session and number.
    pub arrivals: Vec<SavedArrival>,
}

/// A message that waits for a flow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SavedArrival {
    /// The session.
    pub session: SessionKey,
    /// Place in the session.
    pub number: u64,
    /// The message.
    pub message: Vec<u8>,
}

/// A flow, running or ended.
#[derive(Debug, Clone, PartialEq)]
pub struct FlowRow {
    /// How it began.
    pub flow: NewFlow,
    /// Where it stands.
    pub status: FlowStatus,
}

/// Where a flow stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FlowStatus {
    /// It has not ended.
    Unfinished(Mark),
    /// It has ended.
    Ended {
        /// What came out.
        outcome: Vec<u8>,
        /// When.
        at: Timestamp,
    },
}

/// Which flows to list; newest first.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct FlowQuery {
    /// Flows of this name only.
    pub name: Option<String>,
    /// Flows that have ended, or that have not.
    pub ended: Option<bool>,
    /// Where the page before ended.
    pub cursor: Option<String>,
    /// How many at most: 1 to 1000, 100 when it is 0.
    pub page_size: u32,
}

/// Some flows.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct FlowPage {
    /// The flows, newest first.
    pub flows: Vec<FlowRow>,
    /// The cursor of the next page, if there may be one. A page with a cursor may be short or empty: a
    /// search ends after a number of rows, found or not.
    pub next: Option<String>,
}

/// How far each queue has come.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Queues {
    /// The name of our own outbound queues, chosen when the database was made.
    pub own: QueueKey,
    /// Our queue to each peer.
    pub outbound: BTreeMap<Name, Outbound>,
    /// What we hold of each peer's queues.
    pub inbound: BTreeMap<(Name, QueueKey), u64>,
    /// The database was restored from a backup, and the node has not recovered what happened since: all of the above may
    /// be behind what peers know.
    pub restored: Option<Restored>,
}

/// The mark that restoring a backup leaves; see [`Write::Recovered`](crate::Write::Recovered).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Restored {
    /// When the backup was taken.
    pub taken: Timestamp,
    /// When it was restored.
    pub at: Timestamp,
}

/// Which database this is among all that the node ran on, and what is known of those of its peers.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Past {
    /// Where this database stands, as the node encodes it; `None` before the node ran on it.
    pub standing: Option<Vec<u8>>,
    /// Why the node has to be recovered, if it has.
    pub recovery: Option<String>,
    /// The standing that each peer told last, as the peer encodes it.
    pub acquaintances: BTreeMap<Name, Vec<u8>>,
    /// The names of our queues that were set anew; others are called [`Queues::own`].
    pub queues: BTreeMap<Name, QueueKey>,
}

/// How far the queue to a peer has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Outbound {
    /// Number of the last message.
    pub sent: u64,
    /// Up to which message the peer holds them.
    pub acknowledged: u64,
}

/// Who consumed a state, in a notary's memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Consumption {
    /// The transaction.
    pub by: TransactionId,
    /// Who asked.
    pub requester: Name,
    /// When.
    pub at: Timestamp,
}

/// A state of the vault.
#[derive(Debug, Clone, PartialEq)]
pub struct VaultState {
    /// Which state.
    pub reference: StateRef,
    /// The state.
    pub state: State,
    /// What its contract said of it when it was recorded.
    pub summary: Summary,
    /// When its transaction was recorded.
    pub recorded: Timestamp,
    /// Who consumed it and when that was recorded.
    pub consumed: Option<(TransactionId, Timestamp)>,
    /// Why it is not spent although no recorded transaction consumed it.
    pub aside: Option<Aside>,
}

/// Why a state is left out when coins are chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Aside {
    /// It can be consumed only together with another output of its transaction, which its maker chose.
    Encumbered,
    /// Its notary says that a transaction which is not recorded here has consumed it.
    Lost {
        /// That transaction.
        by: TransactionId,
    },
}

impl Aside {
    /// How a state stands when it is recorded.
    pub fn of(state: &State) -> Option<Self> {
        state.encumbrance.map(|_| Self::Encumbered)
    }
}

/// Some states.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct StatePage {
    /// The states, sorted.
    pub states: Vec<VaultState>,
    /// The cursor of the next page, if there may be one. A page with a cursor may be short or empty: a
    /// search ends after a number of states, found or not, so that each page takes a bounded time.
    pub next: Option<String>,
}

/// A coin that can be spent.
#[derive(Debug, Clone, PartialEq)]
pub struct Coin {
    /// Where [`coins`](crate::Store::coins) goes on after this coin.
    pub cursor: CoinCursor,
    /// Which state.
    pub reference: StateRef,
    /// How much, in the asset's smallest units.
    pub quantity: u64,
    /// The state.
    pub state: State,
}

/// A place among the coins of an asset and owner, in the order of recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct CoinCursor(pub(crate) i64);

impl CoinCursor {
    /// The place with this number, for a store that is not one of this crate's; what the numbers mean is its own affair.
    pub const fn new(place: i64) -> Self {
        Self(place)
    }

    /// The number of the place.
    pub const fn place(self) -> i64 {
        self.0
    }
}

/// A party that has not confirmed a final transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Undelivered {
    /// Who lacks it.
    pub party: Name,
    /// The transaction.
    pub transaction: TransactionId,
    /// When it was tried first.
    pub first_tried: Timestamp,
    /// When it was tried last.
    pub last_tried: Timestamp,
    /// When it is to be tried again.
    pub due: Timestamp,
    /// What came of it last.
    pub reason: String,
}

/// Which undelivered transactions to list, by party and transaction. A field that is absent does not restrict.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct UndeliveredQuery {
    /// Of this transaction.
    pub transaction: Option<TransactionId>,
    /// Those after this one.
    pub after: Option<(Name, TransactionId)>,
    /// Those that are to be tried again by then.
    pub due_by: Option<Timestamp>,
    /// At most so many.
    pub limit: usize,
}

/// A transaction whose fate is not known yet, and since when.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnresolvedRow {
    /// The transaction; `at` is when the notary was asked last.
    pub unresolved: Unresolved,
    /// When it was asked first.
    pub first_tried: Timestamp,
    /// When it is to be asked again.
    pub due: Timestamp,
}

/// How much is undelivered and unresolved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Outstanding {
    /// Confirmations that are missing.
    pub undelivered: u64,
    /// Transactions of unknown fate.
    pub unresolved: u64,
}

/// What a store has done since it was opened, for metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Usage {
    /// Batches applied.
    pub batches: u64,
    /// Batches that failed.
    pub failed_batches: u64,
    /// Writes in applied batches.
    pub writes: u64,
    /// Time spent in [`apply`](crate::Store::apply), in nanoseconds.
    pub apply_ns: u64,
    /// Reads.
    pub reads: u64,
    /// Time spent in reads, waiting for a connection included, in nanoseconds.
    pub read_ns: u64,
    /// Time that reads waited for a connection, in nanoseconds.
    pub wait_ns: u64,
    /// Connections for reads.
    pub readers: u32,
    /// Those in use now.
    pub readers_busy: u32,
}
