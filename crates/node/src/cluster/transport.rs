//! What the replica says, on its way to other members and to this node's own requests.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use alloy_primitives::Address;
use tally_contracts::TransactionId;
use tally_notary::{Client, Fault, Rejection, SignedAnswer, Transport};

use super::asker::{Asker, Heard, Word};
use super::frame;
use super::links::Links;

/// A member's faults are logged at intervals of this: it could fill the disk with them.
const LOG_EVERY: Duration = Duration::from_secs(10);

/// The way out of the replica. None of it blocks.
pub(super) struct Ways {
    links: Arc<Links>,
    asker: Asker,
    /// When each member's faults were logged, and how many have come since.
    logged: BTreeMap<Address, (Instant, u64)>,
}

impl Ways {
    pub(super) fn new(links: Arc<Links>, asker: Asker) -> Self {
        Self { links, asker, logged: BTreeMap::new() }
    }
}

impl Transport for Ways {
    fn send(&mut self, to: Address, bytes: Vec<u8>) {
        if let Some(peer) = self.links.peer(to) {
            peer.line.send(frame::message(&bytes));
        }
    }

    fn answer(&mut self, to: &Client, answer: &SignedAnswer) {
        let conversation = to.conversation;
        if to.name == self.links.me {
            self.asker.own(Heard { from: self.links.own, conversation, word: Word::Answer(*answer) });
        } else if let Some(peer) = self.links.named(&to.name) {
            peer.line.send(frame::answer(conversation, answer));
        }
    }

    fn reject(&mut self, to: &Client, transaction: TransactionId, reason: &Rejection) {
        let conversation = to.conversation;
        if to.name == self.links.me {
            let word = Word::Rejection { transaction, reason: reason.clone() };
            self.asker.own(Heard { from: self.links.own, conversation, word });
        } else if let Some(peer) = self.links.named(&to.name) {
            peer.line.send(frame::rejection(conversation, transaction, reason));
        }
    }

    fn blame(&mut self, member: Address, fault: &Fault) {
        self.links.figures.blames.fetch_add(1, Relaxed);
        let Some(peer) = self.links.peer(member) else { return };
        if matches!(fault, Fault::Unreadable) {
            peer.bar();
        }
        let now = Instant::now();
        let (at, since) = self.logged.entry(member).or_insert((now - LOG_EVERY, 0));
        *since += 1;
        if now.duration_since(*at) >= LOG_EVERY {
            tracing::warn!(
                member = %peer.name,
                faults = *since,
                "a member of the cluster did what none that is right does: {fault}"
            );
            (*at, *since) = (now, 0);
        }
    }

    fn cannot_sign(&mut self, height: u64, round: u32) {
        tracing::error!(height, round, "the voting key did not sign");
    }

    fn progress(&mut self, height: u64, waiting: usize) {
        self.links.figures.height.store(height, Relaxed);
        self.links.figures.waiting.store(waiting, Relaxed);
    }
}
