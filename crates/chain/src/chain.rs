//! The chain: its head, its blocks, and what extends it.
//!
//! Blocks are executed over the state after their parent into [`Candidate`](crate::Candidate)s, of which any number may exist. One of
//! them is committed: blocks, receipts, indexes and state in one batch, durable before anybody is told. Where
//! validators seal, what is committed is final. Where work decides, or a beacon chain did, a branch that
//! overtakes the head takes its place.

mod ahead;
mod build;
mod commit;
mod execute;
mod open;
mod read;

use std::sync::{Arc, Mutex, PoisonError, RwLock};

use alloy_primitives::B256;
use tally_evm::execute::Codes;
use tally_evm::{Genesis, Schedule};
use tally_state::{Database, Snapshot, State};
use tokio::sync::broadcast;

use crate::blocks::{Blocks, FullBlock, SealedHeader};
use crate::branch::Branch;
use crate::recent::RecentBlocks;
use crate::sealed::Sealed;

pub use ahead::{Ahead, Unexecuted};
pub use build::{Attributes, Built, Reason, Skipped};
pub use commit::Commit;
pub use execute::Prepared;
pub use open::Options;
pub use read::{BlockId, Reader, created_by};

/// What happens on the chain, told after it is durable.
#[derive(Clone, Debug)]
pub enum Event {
    /// Blocks that were of the chain and no longer are, oldest first.
    Removed(Arc<Vec<Arc<FullBlock>>>),
    /// A new newest block.
    Head(Arc<FullBlock>),
}

/// The newest block, with a view of everything as of then. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Head {
    /// The block, and what the next one is built on.
    pub branch: Branch,
    /// The tables as of this block.
    pub snapshot: Snapshot,
}

impl Head {
    /// The header.
    pub fn sealed(&self) -> &Arc<SealedHeader> {
        &self.branch.sealed
    }

    /// The number.
    pub fn number(&self) -> u64 {
        self.branch.number()
    }

    /// The hash.
    pub fn hash(&self) -> B256 {
        self.branch.hash()
    }
}

/// A chain. Cheap to clone, shared between threads; one thread at a time extends it.
#[derive(Clone)]
pub struct Chain {
    shared: Arc<Shared>,
}

struct Shared {
    genesis: Genesis,
    genesis_hash: B256,
    schedule: Schedule,
    sealed: Option<Sealed>,
    database: Database,
    blocks: Blocks,
    state: State,
    codes: Codes,
    head: RwLock<Arc<Head>>,
    /// Held by whoever extends the chain.
    writer: Mutex<()>,
    recent: RecentBlocks,
    events: broadcast::Sender<Event>,
}

impl std::fmt::Debug for Chain {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Chain")
            .field("genesis", &self.shared.genesis_hash)
            .field("head", &self.head().number())
            .finish_non_exhaustive()
    }
}

impl Chain {
    /// The genesis file.
    pub fn genesis(&self) -> &Genesis {
        &self.shared.genesis
    }

    /// The hash of block 0.
    pub fn genesis_hash(&self) -> B256 {
        self.shared.genesis_hash
    }

    /// The forks.
    pub fn schedule(&self) -> &Schedule {
        &self.shared.schedule
    }

    /// EIP-155 identifier.
    pub fn chain_id(&self) -> u64 {
        self.shared.schedule.chain_id
    }

    /// The rules of known validators, where there are any.
    pub fn sealed(&self) -> Option<&Sealed> {
        self.shared.sealed.as_ref()
    }

    /// Codes that were analysed, for whoever runs code.
    pub fn codes(&self) -> &Codes {
        &self.shared.codes
    }

    /// The store, for tables beside those of the chain.
    pub fn database(&self) -> &Database {
        &self.shared.database
    }

    /// The newest block.
    pub fn head(&self) -> Arc<Head> {
        Arc::clone(&self.shared.head.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// What happens from now on. A receiver that falls more than 256 events behind loses the oldest and is told so.
    pub fn subscribe(&self) -> broadcast::Receiver<Event> {
        self.shared.events.subscribe()
    }

    /// The state, for whoever takes another one in.
    pub(crate) fn state(&self) -> &State {
        &self.shared.state
    }

    fn set_head(&self, head: Head) {
        *self.shared.head.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(head);
    }
}
