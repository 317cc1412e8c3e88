//! How a member that was away learns what was decided.

use alloy_primitives::{Address, Bytes};
use tally_consensus::{Block, Bodies, Expectation, Input as RoundInput, Protocol, ValidatorsFrom};

use super::{Effect, Fault, Replica, Step, Timer};
use crate::message::Message;

/// The least time between two answers to one member, in milliseconds: asking costs less than
/// answering.
const SERVE_EVERY_MS: u64 = 20;
/// After how many milliseconds more is asked for: later than the other may answer again.
const FETCH_AFTER_MS: u64 = 25;

impl Replica {
    /// Asks a member for the batches after the last one here.
    pub(super) fn fetch(&self, step: &mut Step<'_>, peer: Address) {
        if peer != self.me && self.cluster.voters().contains(peer) {
            let bytes = Message::Fetch { from: self.tip.height.saturating_add(1) }.to_bytes();
            step.out.push(Effect::Send { to: peer, bytes });
        }
    }

    /// Sends batches to a member, if there are any that it lacks and it was not sent some just now.
    pub(super) fn serve(&mut self, step: &mut Step<'_>, to: Address, from: u64) {
        let last = self.served.get(&to).copied();
        // A clock that was set back holds nothing up.
        let soon = last.is_some_and(|at| (at..at.saturating_add(SERVE_EVERY_MS)).contains(&step.now_ms));
        if from == 0 || from > self.tip.height || to == self.me || soon {
            return;
        }
        self.served.insert(to, step.now_ms);
        step.out.push(Effect::SendBatches { to, from });
    }

    /// Asks the next member for batches, and brings requests that wait for long to all others. So
    /// one request that reached one member that is right reaches all, and what was lost on the way
    /// is asked for again.
    pub(super) fn poll(&mut self, step: &mut Step<'_>) {
        let others: Vec<Address> = self.cluster.others(self.me).collect();
        self.turn = self.turn.wrapping_add(1) % others.len().max(1);
        if let Some(&peer) = others.get(self.turn) {
            self.fetch(step, peer);
        }
        let before_ms = step.now_ms.saturating_sub(self.config.forward_after_ms);
        let overdue = self.pool.overdue(before_ms, self.config.batch_requests, self.config.batch_bytes);
        if !overdue.is_empty() {
            let bytes = Message::Forward(overdue).to_bytes();
            for to in others {
                step.out.push(Effect::Send { to, bytes: bytes.clone() });
            }
        }
        step.out.push(Effect::SetTimer { timer: Timer::Poll, after_ms: self.config.poll_ms });
    }

    /// Takes batches that another member says were decided. Nothing is believed but the seals of a
    /// quorum.
    pub(super) fn take_batches(&mut self, step: &mut Step<'_>, from: Address, batches: Vec<Vec<u8>>) {
        let before = self.tip.height;
        for bytes in batches {
            let Ok(block) = Block::decode(Protocol::QBFT, Bytes::from(bytes)) else {
                step.out.push(Effect::Blame { member: from, fault: Fault::Batches });
                break;
            };
            if block.number() <= self.tip.height {
                continue;
            }
            if !self.is_sealed(&block) {
                step.out.push(Effect::Blame { member: from, fault: Fault::Batches });
                break;
            }
            if !self.decided(step, &block) {
                return;
            }
        }
        if self.tip.height > before {
            step.out.push(Effect::SetTimer { timer: Timer::Fetch(from), after_ms: FETCH_AFTER_MS });
            let head = self.head();
            self.drive(step, RoundInput::Head(head));
        }
    }

    /// Whether a quorum has sealed this very block as the one after the last.
    fn is_sealed(&self, block: &Block) -> bool {
        let expectation = Expectation {
            protocol: Protocol::QBFT,
            validators: self.cluster.voters(),
            named: ValidatorsFrom::Contract,
            earliest_s: self.tip.timestamp_s,
        };
        block.number() == self.tip.height.saturating_add(1)
            && block.parent() == self.tip.hash
            && Bodies::OneString.check(block).is_ok()
            && expectation.check(block.header(), block.extra()).is_ok()
            && expectation.check_seals(block.header(), block.extra(), &*self.keys).is_ok()
    }
}
