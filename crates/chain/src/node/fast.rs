//! Takes the chain without executing it, as far as its validators' seals prove it, and the state at a recent block with
//! its proof (fast sync). From there full sync goes on.
//!
//! 1. Blocks with receipts come in order; each header's seals are checked, and body and receipts against the header
//!    (`history`). They lie beyond the head, where nobody sees them.
//! 2. Some blocks below the newest one the state is taken in ranges, each proved against that block's state root
//!    (`state`), into tables of its own. Peers hold that state still for as long as it is asked for; where none has it
//!    any more, blocks are taken up to a newer one first.
//! 3. The state is put in the place of the old one and the block becomes the head, in one durable commit.
//!
//! All of it is durable in the order in which it was written, with how far it has come; a process that is killed goes on
//! where it was, and the chain is at its old head until the last step.

mod history;
mod peers;
mod progress;
mod segment;
mod state;
mod work;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tally_state::Import;

use self::peers::Peers;
use self::progress::Record;
use super::Node;
use crate::chain::Ahead;
use crate::error::ChainError;

/// How long this thread waits before it looks around again.
const IDLE: Duration = Duration::from_millis(100);
/// How long peers that are far ahead may take to appear after the first that is not.
const GRACE: Duration = Duration::from_secs(2);
/// How long it waits after something failed.
const PAUSE: Duration = Duration::from_secs(1);

/// How a node that is far behind comes to the chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sync {
    /// By executing every block.
    Full,
    /// By taking the state at a recent block with its proof, where seals prove the blocks.
    Fast(Distances),
}

/// Distances between blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Distances {
    /// A node that is fewer blocks behind executes them. One whose head is further from the first block does as well: its
    /// own past would be lost.
    pub lead: u64,
    /// How far below the newest block the state is taken. Sealed blocks are final, so that this only gives peers time to
    /// have the block; every block more is one that they undo to give the state.
    pub pivot: u64,
}

impl Default for Distances {
    fn default() -> Self {
        Self { lead: 256, pivot: 4 }
    }
}

/// How far a fast sync has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// The newest block that was taken.
    pub block: u64,
    /// Accounts that were taken since the process started.
    pub accounts: u64,
    /// Slots that were taken since the process started.
    pub slots: u64,
}

/// What other threads see of it.
pub(super) struct Fast {
    sync: Sync,
    /// Full sync waits for as long as this is so.
    is_deciding_or_running: AtomicBool,
    is_running: AtomicBool,
    block: AtomicU64,
    accounts: AtomicU64,
    slots: AtomicU64,
}

impl Fast {
    pub(super) fn new(sync: Sync) -> Self {
        Self {
            is_deciding_or_running: AtomicBool::new(sync != Sync::Full),
            sync,
            is_running: AtomicBool::new(false),
            block: AtomicU64::new(0),
            accounts: AtomicU64::new(0),
            slots: AtomicU64::new(0),
        }
    }

    /// Whether full sync is to wait.
    pub(super) fn holds_others(&self) -> bool {
        self.is_deciding_or_running.load(Ordering::Acquire)
    }

    pub(super) fn progress(&self) -> Option<Progress> {
        self.is_running.load(Ordering::Acquire).then(|| Progress {
            block: self.block.load(Ordering::Relaxed),
            accounts: self.accounts.load(Ordering::Relaxed),
            slots: self.slots.load(Ordering::Relaxed),
        })
    }
}

/// Why the work stopped before it was done.
enum Stop {
    /// The node stops.
    Stopping,
    /// No peer has the state any more.
    Gone,
    /// Nobody who is believed is far ahead.
    Near,
    /// The chain cannot be taken without executing it.
    Unproved(u64),
    /// Something failed here.
    Failed(ChainError),
}

impl<E: Into<ChainError>> From<E> for Stop {
    fn from(error: E) -> Self {
        Self::Failed(error.into())
    }
}

pub(super) fn run(node: Node, (): ()) {
    let distances = match node.shared.fast.sync {
        Sync::Full => return tidy(&node),
        Sync::Fast(distances) => distances,
    };
    let peers = Peers::new(node.clone());
    while decide(&node, &peers, distances) {
        node.shared.fast.is_running.store(true, Ordering::Release);
        let is_over = take(&node, &peers, distances);
        node.shared.fast.is_running.store(false, Ordering::Release);
        if is_over {
            break;
        }
    }
    if !node.is_stopping() {
        tidy(&node);
    }
    node.shared.fast.is_deciding_or_running.store(false, Ordering::Release);
}

/// What an interrupted fast sync has left is of no use to a node that executes every block.
fn tidy(node: &Node) {
    if let Err(error) = node.chain().state().abandon_import() {
        node.failed("removing an unfinished state", &error);
    }
}

/// Waits until it is clear whether this node is far behind.
fn decide(node: &Node, peers: &Peers, distances: Distances) -> bool {
    let mut heard: Option<Instant> = None;
    while !node.is_stopping() {
        let head = node.chain().head().number();
        if head >= node.chain().genesis().number.saturating_add(distances.lead) {
            return false;
        }
        let highest = peers.highest();
        if highest >= head.saturating_add(distances.lead) {
            return true;
        }
        if highest > head && heard.get_or_insert_with(Instant::now).elapsed() >= GRACE {
            return false;
        }
        std::thread::sleep(IDLE);
    }
    false
}

/// Until the state at a recent block is this node's, or it is clear that it cannot be; whether it is not to be tried again.
fn take(node: &Node, peers: &Peers, distances: Distances) -> bool {
    while !node.is_stopping() {
        match attempt(node, peers, distances) {
            Ok(()) | Err(Stop::Stopping) => return true,
            Err(Stop::Near) => return false,
            Err(Stop::Gone) => {
                // Blocks are taken up to a newer one, as soon as there is one.
                peers.ask_all_again();
                std::thread::sleep(PAUSE);
            }
            Err(Stop::Unproved(number)) => {
                node.notice(super::Notice::Failure {
                    doing: "syncing fast",
                    reason: format!(
                        "the headers up to block {number} do not tell their validators (no validators seal, or a \
                         contract names them); every block is executed instead"
                    ),
                });
                return true;
            }
            Err(Stop::Failed(error)) => {
                node.failed("syncing fast; it goes on", &error);
                std::thread::sleep(PAUSE);
            }
        }
    }
    true
}

fn attempt(node: &Node, peers: &Peers, distances: Distances) -> Result<(), Stop> {
    let chain = node.chain();
    let highest = peers.highest();
    if !chain.is_told_by_headers(highest) {
        return Err(Stop::Unproved(highest));
    }
    let record = Record::open(node)?;
    let mut ahead = chain.ahead()?;
    note(node, &ahead);
    let import = match resumed(node, &record, &ahead)? {
        Some(import) => import,
        None => {
            history::take(node, peers, &mut ahead, distances)?;
            let import = chain.state().import(ahead.sealed.header.state_root)?;
            record.begin(node, ahead.number())?;
            import
        }
    };
    match state::take(node, peers, &record, &import, &ahead) {
        Ok(()) => {}
        Err(Stop::Gone) => {
            chain.state().abandon_import()?;
            return Err(Stop::Gone);
        }
        Err(stop) => return Err(stop),
    }
    let number = ahead.number();
    match chain.adopt(number, import, |batch| record.clear(node, batch)) {
        Ok(head) => {
            node.adopted(&head);
            Ok(())
        }
        Err(crate::error::ImportError::Chain(error)) => {
            // Whatever was wrong with what was taken, it is of no use.
            chain.state().abandon_import()?;
            Err(Stop::Failed(error))
        }
        Err(error) => {
            chain.state().abandon_import()?;
            node.failed("syncing fast; the chain went on without it", &error);
            Ok(())
        }
    }
}

/// The import that was interrupted, if it is that of the newest block that was taken.
fn resumed(node: &Node, record: &Record, ahead: &Ahead) -> Result<Option<Import>, Stop> {
    let state = node.chain().state();
    let Some(import) = state.resume_import()? else { return Ok(None) };
    let fits = record.pivot(node)? == Some(ahead.number()) && import.root() == ahead.sealed.header.state_root;
    Ok(fits.then_some(import))
}

fn note(node: &Node, ahead: &Ahead) {
    node.shared.fast.block.store(ahead.number(), Ordering::Relaxed);
}
