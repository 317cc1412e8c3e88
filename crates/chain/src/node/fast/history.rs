//! Blocks with their receipts, in order.

use std::collections::VecDeque;

use super::peers::{Asked, Has, Peers};
use super::{Distances, Stop, note};
use crate::chain::{Ahead, Unexecuted};
use crate::error::ImportError;
use crate::node::Node;
use crate::protocol::{GET_HISTORY, History, Past, RANGE_COUNT, RESPONSE_TARGET_BYTES, Range};

/// Requests under way.
const UNDER_WAY: usize = 4;
/// Blocks asked for at once, to begin with.
const COUNT: u64 = 64;

/// What a peer sent is wrong.
#[derive(Debug, thiserror::Error)]
enum Wrong {
    /// More than was asked for.
    #[error("{found} blocks came where {asked} were asked for")]
    TooMany { found: usize, asked: u64 },
    /// A block is not what it should be.
    #[error("block {number} is not one of the chain")]
    Block { number: u64, source: Box<ImportError> },
}

struct Window<'a> {
    node: &'a Node,
    peers: &'a Peers,
    under_way: VecDeque<(Range, Asked)>,
    /// The first block that was not asked for yet.
    next: u64,
    /// How many blocks make an answer.
    count: u64,
}

/// Takes blocks up to some below the newest that any peer has. Returns once there are none to take.
pub(super) fn take(node: &Node, peers: &Peers, ahead: &mut Ahead, distances: Distances) -> Result<(), Stop> {
    let next = ahead.number().saturating_add(1);
    let mut window = Window { node, peers, under_way: VecDeque::new(), next, count: COUNT };
    let outcome = window.run(ahead, distances);
    window.give_up();
    outcome
}

impl Window<'_> {
    fn run(&mut self, ahead: &mut Ahead, distances: Distances) -> Result<(), Stop> {
        let head = self.node.chain().head().number();
        loop {
            if self.node.is_stopping() {
                return Err(Stop::Stopping);
            }
            let highest = self.peers.highest();
            if !self.node.chain().is_told_by_headers(highest) {
                return Err(Stop::Unproved(highest));
            }
            let target = highest.saturating_sub(distances.pivot);
            if self.under_way.is_empty() && ahead.number() >= target {
                // Peers that were far ahead may be gone, or have turned out not to be.
                return if ahead.number() > head { Ok(()) } else { Err(Stop::Near) };
            }
            self.fill(target)?;
            let Some((range, asked)) = self.under_way.pop_front() else { continue };
            let answer = self.peers.answer::<History>(asked, "history");
            let Some((peer, History { blocks }, bytes)) = answer else {
                self.ask_again(range)?;
                continue;
            };
            if blocks.is_empty() {
                self.peers.lacks_blocks(peer);
                self.ask_again(range)?;
                continue;
            }
            let found = blocks.len() as u64;
            match self.check(ahead, range, &blocks) {
                Ok(taken) => {
                    self.peers.served(peer);
                    *ahead = taken;
                }
                Err(Outcome::Wrong(wrong)) => {
                    self.peers.lied(peer, &wrong);
                    self.ask_again(range)?;
                    continue;
                }
                Err(Outcome::Stop(stop)) => return Err(stop),
            }
            note(self.node, ahead);
            if found < range.count {
                self.count = found;
                let rest = Range { first: range.first + found, count: range.count - found };
                // Whoever was asked for what follows may have been chosen for the rest as well.
                if rest.first <= target {
                    self.ask_again(rest)?;
                }
            } else if bytes < RESPONSE_TARGET_BYTES / 2 {
                self.count = (self.count * 2).min(RANGE_COUNT);
            }
        }
    }

    fn fill(&mut self, target: u64) -> Result<(), Stop> {
        while self.under_way.len() < UNDER_WAY && self.next <= target {
            let range = Range { first: self.next, count: self.count.min(target - self.next + 1) };
            match self.ask(range) {
                Ok(asked) => self.under_way.push_back((range, asked)),
                // Whoever said that there were these blocks is gone; what is under way may come yet.
                Err(Stop::Gone) => return Ok(()),
                Err(stop) => return Err(stop),
            }
            self.next += range.count;
        }
        Ok(())
    }

    /// What comes next, before all that is under way.
    fn ask_again(&mut self, range: Range) -> Result<(), Stop> {
        let asked = match self.ask(range) {
            Ok(asked) => asked,
            // Whoever said that there were these blocks is gone: begin again behind what was taken.
            Err(Stop::Gone) => {
                self.give_up();
                self.next = range.first;
                return Ok(());
            }
            Err(stop) => return Err(stop),
        };
        self.under_way.push_front((range, asked));
        Ok(())
    }

    fn ask(&self, range: Range) -> Result<Asked, Stop> {
        let last = range.first + (range.count - 1);
        self.peers.ask(Has::Block(last), GET_HISTORY, &range, || {
            // Nobody can have it whom nobody says to have it.
            if self.peers.highest() < last { Err(Stop::Gone) } else { Ok(()) }
        })
    }

    fn give_up(&mut self) {
        for (_, asked) in self.under_way.drain(..) {
            self.peers.forget(asked);
        }
    }

    fn check(&self, ahead: &Ahead, range: Range, blocks: &[Past]) -> Result<Ahead, Outcome> {
        if blocks.len() as u64 > range.count {
            return Err(Outcome::Wrong(Wrong::TooMany { found: blocks.len(), asked: range.count }));
        }
        let chain = self.node.chain();
        let threads = self.node.shared.threads;
        let bodies = |(first, part): (u64, &[Past])| -> Result<Vec<Unexecuted>, Outcome> {
            (first..)
                .zip(part)
                .map(|(number, past)| {
                    chain.unexecuted(&past.block, &past.receipts).map_err(|error| Outcome::of(number, error))
                })
                .collect()
        };
        let size = blocks.len().div_ceil(threads).max(1);
        let checked: Result<Vec<Vec<Unexecuted>>, Outcome> = std::thread::scope(|scope| {
            let firsts = (range.first..).step_by(size);
            let parts: Vec<_> =
                firsts.zip(blocks.chunks(size)).map(|part| scope.spawn(move || bodies(part))).collect();
            parts
                .into_iter()
                .map(|part| part.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
                .collect()
        });
        let checked = checked?.into_iter().flatten().collect();
        chain.take(ahead, checked, threads).map_err(|error| Outcome::of(ahead.number() + 1, error))
    }
}

enum Outcome {
    Wrong(Wrong),
    Stop(Stop),
}

impl Outcome {
    fn of(number: u64, error: ImportError) -> Self {
        match error {
            ImportError::Chain(error) => Self::Stop(Stop::Failed(error)),
            ImportError::Invalid { number, .. } if number > 0 => {
                Self::Wrong(Wrong::Block { number, source: Box::new(error) })
            }
            error => Self::Wrong(Wrong::Block { number, source: Box::new(error) }),
        }
    }
}
