//! States that peers take from this node.
//!
//! A peer takes a state in many requests, over which it must hold still while the chain goes on. So it is held as it was
//! when it was first asked for: a snapshot of the tables, with the blocks since undone. That keeps files from being freed
//! and takes memory, so few are held, and none that nobody has asked for in a while.

use std::time::{Duration, Instant};

use alloy_primitives::B256;
use tally_state::{Error as StateError, Ranges};

use crate::chain::BlockId;
use crate::error::ChainError;
use crate::node::Node;

/// States that are held at the same time.
const MOST: usize = 2;
/// How long a state is held that nobody asks for.
const IDLE: Duration = Duration::from_secs(60);
/// How long a state is held at most: files that the chain has replaced since stay on the disk meanwhile.
const LONGEST: Duration = Duration::from_secs(3_600);

/// How long no further state is looked for after one could not be held: finding that out takes work.
const PAUSE: Duration = Duration::from_secs(1);

#[derive(Default)]
pub(super) struct States {
    held: Vec<Held>,
    refused: Option<Instant>,
}

struct Held {
    ranges: Ranges,
    since: Instant,
    used: Instant,
}

impl States {
    /// The state after a block of the chain, with this root; `None` when the chain has no such block, its state is no
    /// longer kept, or too many others are being taken.
    pub(super) fn get(
        &mut self,
        node: &Node,
        number: u64,
        root: B256,
    ) -> Result<Option<&Ranges>, ChainError> {
        self.tidy();
        let found = self.held.iter().position(|held| held.ranges.root() == root);
        let at = match found {
            Some(at) => at,
            None if self.held.len() >= MOST || self.refused.is_some_and(|at| at.elapsed() < PAUSE) => {
                return Ok(None);
            }
            None => {
                let reader = node.chain().reader();
                let header = reader.header(BlockId::Number(number))?;
                if header.is_none_or(|sealed| sealed.header.state_root != root) {
                    return Ok(None);
                }
                let ranges = match reader.state(number).and_then(|view| Ok(view.ranges()?)) {
                    Ok(ranges) => ranges,
                    Err(ChainError::State(StateError::NotKept { .. } | StateError::TooLongAgo { .. })) => {
                        self.refused = Some(Instant::now());
                        return Ok(None);
                    }
                    Err(error) => return Err(error),
                };
                let now = Instant::now();
                self.held.push(Held { ranges, since: now, used: now });
                self.held.len() - 1
            }
        };
        Ok(self.held.get_mut(at).map(|held| {
            held.used = Instant::now();
            &held.ranges
        }))
    }

    /// Lets go of what nobody asks for any more.
    pub(super) fn tidy(&mut self) {
        self.held.retain(|held| held.used.elapsed() < IDLE && held.since.elapsed() < LONGEST);
    }
}
