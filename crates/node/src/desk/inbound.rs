//! How far the messages of each peer have come: taken, settled, durable.

use std::collections::{BTreeSet, HashMap};

use tally_contracts::Name;
use tally_messaging::{Position, QueueId};

/// Bits of a ticket that hold the message's number.
const NUMBER_BITS: u32 = 44;

/// One peer's queue as seen by the receiver.
struct Tracker {
    peer: Name,
    queue: QueueId,
    /// The highest number handed to the engine.
    accepted: u64,
    /// All numbers up to this are in units that were submitted, or need none.
    settled: u64,
    /// Settled numbers above.
    ahead: BTreeSet<u64>,
    /// All numbers up to this are written.
    written: u64,
    /// All numbers up to this are durable.
    durable: u64,
    /// The queue is of no interest any more: the peer has set it anew.
    over: bool,
}

/// The receiver's memory of every queue. A message is settled when what came of it is on its way to the disk; the
/// peer is told once everything before it is durable as well.
#[derive(Default)]
pub(crate) struct Inbound {
    trackers: Vec<Tracker>,
    index: HashMap<(Name, QueueId), usize>,
    /// Trackers with something settled that is not written.
    dirty: BTreeSet<usize>,
    /// Trackers of queues that are over, to be used for others.
    free: Vec<usize>,
}

/// All messages of a queue up to a number are (or are to be) durable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Progress {
    pub(crate) peer: Name,
    pub(crate) queue: QueueId,
    pub(crate) up_to: u64,
}

impl Inbound {
    /// A queue as the store remembers it.
    pub(crate) fn restore(&mut self, peer: Name, queue: QueueId, durable: u64) {
        let index = self.tracker(&peer, queue);
        let tracker = &mut self.trackers[index];
        tracker.accepted = durable;
        tracker.settled = durable;
        tracker.written = durable;
        tracker.durable = durable;
    }

    fn tracker(&mut self, peer: &Name, queue: QueueId) -> usize {
        if let Some(index) = self.index.get(&(peer.clone(), queue)) {
            return *index;
        }
        let tracker = Tracker {
            peer: peer.clone(),
            queue,
            accepted: 0,
            settled: 0,
            ahead: BTreeSet::new(),
            written: 0,
            durable: 0,
            over: false,
        };
        let index = match self.free.pop() {
            Some(index) => {
                self.trackers[index] = tracker;
                index
            }
            None => {
                self.trackers.push(tracker);
                self.trackers.len() - 1
            }
        };
        self.index.insert((peer.clone(), queue), index);
        index
    }

    /// Of this peer's queues only this one is of interest from now on.
    pub(crate) fn only(&mut self, peer: &Name, queue: QueueId) {
        self.end(|tracker| tracker.peer == *peer && tracker.queue != queue);
    }

    /// Has the peer sent over another queue than this one?
    pub(crate) fn sends_over_another(&self, peer: &Name, queue: QueueId) -> bool {
        self.trackers.iter().any(|tracker| {
            !tracker.over && tracker.accepted > 0 && tracker.peer == *peer && tracker.queue != queue
        })
    }

    /// No queue is of interest any more.
    pub(crate) fn renew(&mut self) {
        self.end(|_| true);
    }

    fn end(&mut self, which: impl Fn(&Tracker) -> bool) {
        for (index, tracker) in self.trackers.iter_mut().enumerate() {
            if tracker.over || !which(tracker) {
                continue;
            }
            tracker.over = true;
            self.index.remove(&(tracker.peer.clone(), tracker.queue));
            self.dirty.remove(&index);
            // Messages that are not settled yet still have tickets with this place.
            if tracker.settled == tracker.accepted {
                self.free.push(index);
            }
        }
    }

    pub(crate) fn position(&self, peer: &Name, queue: QueueId) -> Position {
        self.index.get(&(peer.clone(), queue)).map_or(Position { accepted: 0, durable: 0 }, |index| {
            let tracker = &self.trackers[*index];
            Position { accepted: tracker.accepted, durable: tracker.durable }
        })
    }

    /// Takes the next message of a queue: its ticket, or `None` when its number is not the next.
    pub(crate) fn accept(&mut self, peer: &Name, queue: QueueId, number: u64) -> Option<u64> {
        let index = self.tracker(peer, queue);
        let tracker = &mut self.trackers[index];
        if number != tracker.accepted + 1 || number >> NUMBER_BITS != 0 {
            return None;
        }
        tracker.accepted = number;
        Some(((index as u64) << NUMBER_BITS) | number)
    }

    /// A message could not be taken after all; it is the one accepted last.
    pub(crate) fn give_back(&mut self, ticket: u64) {
        let (index, number) = split(ticket);
        let tracker = &mut self.trackers[index];
        assert_eq!(tracker.accepted, number, "the message accepted last is given back");
        tracker.accepted = number - 1;
    }

    /// What came of a message is on its way to the disk.
    pub(crate) fn settle(&mut self, ticket: u64) {
        let (index, number) = split(ticket);
        let tracker = &mut self.trackers[index];
        if number == tracker.settled + 1 {
            tracker.settled = number;
            while tracker.ahead.remove(&(tracker.settled + 1)) {
                tracker.settled += 1;
            }
            if !tracker.over {
                self.dirty.insert(index);
            } else if tracker.settled == tracker.accepted {
                self.free.push(index);
            }
        } else {
            tracker.ahead.insert(number);
        }
    }

    /// Queues with more settled than written, which the caller now writes.
    pub(crate) fn take_settled(&mut self, into: &mut Vec<Progress>) {
        for index in std::mem::take(&mut self.dirty) {
            let tracker = &mut self.trackers[index];
            if tracker.settled > tracker.written {
                tracker.written = tracker.settled;
                into.push(Progress {
                    peer: tracker.peer.clone(),
                    queue: tracker.queue,
                    up_to: tracker.settled,
                });
            }
        }
    }

    /// What was written is durable.
    pub(crate) fn durable(&mut self, progress: &Progress) {
        let Some(index) = self.index.get(&(progress.peer.clone(), progress.queue)) else { return };
        let tracker = &mut self.trackers[*index];
        tracker.durable = tracker.durable.max(progress.up_to);
    }
}

fn split(ticket: u64) -> (usize, u64) {
    let index = usize::try_from(ticket >> NUMBER_BITS).expect("a tracker's index");
    (index, ticket & ((1 << NUMBER_BITS) - 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_is_what_is_settled_without_a_gap() {
        let peer: Name = "O=Bank, L=London, C=GB".parse().expect("a name");
        let queue = QueueId([1; 16]);
        let mut inbound = Inbound::default();
        let tickets: Vec<_> = (1..=4).map(|n| inbound.accept(&peer, queue, n).expect("the next")).collect();
        assert_eq!(inbound.accept(&peer, queue, 4), None, "a repeat");
        assert_eq!(inbound.accept(&peer, queue, 6), None, "a gap");
        let mut progress = Vec::new();
        inbound.settle(tickets[1]);
        inbound.settle(tickets[2]);
        inbound.take_settled(&mut progress);
        assert_eq!(progress, []);
        inbound.settle(tickets[0]);
        inbound.take_settled(&mut progress);
        assert_eq!(progress, [Progress { peer: peer.clone(), queue, up_to: 3 }]);
        assert_eq!(inbound.position(&peer, queue), Position { accepted: 4, durable: 0 });
        inbound.durable(&progress[0]);
        assert_eq!(inbound.position(&peer, queue), Position { accepted: 4, durable: 3 });
        inbound.give_back(tickets[3]);
        assert!(inbound.accept(&peer, queue, 4).is_some());
    }
}
