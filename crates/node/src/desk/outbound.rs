//! The queues to peers: numbers given out, and how much waits.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use tally_contracts::{Name, Timestamp};
use tally_messaging::QueueId;

#[derive(Default)]
struct Queue {
    /// The number given out last.
    sent: u64,
    durable: u64,
    acknowledged: u64,
    /// Bytes of messages above `acknowledged` that this process has sent; what was there before counts as nothing.
    bytes: u64,
    sizes: BTreeMap<u64, u64>,
    /// Since when the peer has taken nothing, while something that this process sent waits for it.
    waits_since: Option<Timestamp>,
    /// Its name, if it was set anew; otherwise it is called like the database's life.
    name: Option<QueueId>,
}

/// How long a peer takes nothing until it counts as silent: many times what one that works needs.
const SILENCE: Duration = Duration::from_secs(1);

/// What is known of the queues to peers.
#[derive(Default)]
pub(crate) struct Outbound {
    queues: HashMap<Name, Queue>,
    /// Acknowledged and not yet written.
    acknowledged: BTreeMap<Name, u64>,
    life: Option<QueueId>,
}

impl Outbound {
    pub(crate) fn restore(&mut self, peer: Name, sent: u64, acknowledged: u64) {
        let queue = self.queues.entry(peer).or_default();
        (queue.sent, queue.durable, queue.acknowledged) = (sent, sent, acknowledged);
    }

    /// The name of all queues that were not set anew: the database's life. What was sent before is forgotten.
    pub(crate) fn renew(&mut self, life: QueueId) {
        self.queues.clear();
        self.acknowledged.clear();
        self.life = Some(life);
    }

    /// The queue to a peer begins anew.
    pub(crate) fn anew(&mut self, peer: &Name, name: QueueId) {
        self.queues.insert(peer.clone(), Queue { name: Some(name), ..Queue::default() });
        self.acknowledged.remove(peer);
    }

    /// The queue to a peer has this name, as the store remembers.
    pub(crate) fn name_anew(&mut self, peer: &Name, name: QueueId) {
        self.queues.entry(peer.clone()).or_default().name = Some(name);
    }

    /// The name of the queue to a peer.
    pub(crate) fn name(&self, peer: &Name) -> QueueId {
        let anew = self.queues.get(peer).and_then(|queue| queue.name);
        anew.or(self.life).unwrap_or(QueueId([0; 16]))
    }

    /// The database's life.
    pub(crate) fn life(&self) -> QueueId {
        self.life.unwrap_or(QueueId([0; 16]))
    }

    /// The number of the next message to a peer.
    pub(crate) fn number(&mut self, peer: &Name, bytes: usize, now: Timestamp) -> u64 {
        if !self.queues.contains_key(peer) {
            self.queues.insert(peer.clone(), Queue::default());
        }
        let queue = self.queues.get_mut(peer).expect("it was inserted");
        queue.sent += 1;
        queue.bytes += bytes as u64;
        queue.waits_since.get_or_insert(now);
        queue.sizes.insert(queue.sent, bytes as u64);
        queue.sent
    }

    /// A peer has everything up to a number; `true` when that is news.
    pub(crate) fn acknowledged(&mut self, peer: &Name, up_to: u64, now: Timestamp) -> bool {
        let Some(queue) = self.queues.get_mut(peer) else { return false };
        let up_to = up_to.min(queue.sent);
        if up_to <= queue.acknowledged {
            return false;
        }
        queue.acknowledged = up_to;
        queue.waits_since = (up_to < queue.sent).then_some(now);
        let kept = queue.sizes.split_off(&(up_to + 1));
        let freed: u64 = std::mem::replace(&mut queue.sizes, kept).into_values().sum();
        queue.bytes -= freed;
        self.acknowledged.insert(peer.clone(), up_to);
        true
    }

    pub(crate) fn take_acknowledged(&mut self) -> BTreeMap<Name, u64> {
        std::mem::take(&mut self.acknowledged)
    }

    /// Whether a peer has taken nothing for a while of what waits for it.
    pub(crate) fn is_silent(&self, peer: &Name, now: Timestamp) -> bool {
        let since = self.queues.get(peer).and_then(|queue| queue.waits_since);
        since.is_some_and(|since| now.since(since) >= SILENCE)
    }

    /// Bytes that wait for a peer.
    pub(crate) fn waiting_bytes(&self, peer: &Name) -> u64 {
        self.queues.get(peer).map_or(0, |queue| queue.bytes)
    }

    /// Messages that wait, for each peer.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = (&Name, u64)> {
        self.queues.iter().map(|(peer, queue)| (peer, queue.sent - queue.acknowledged))
    }

    /// The last number that is durable.
    pub(crate) fn last(&self, peer: &Name) -> u64 {
        self.queues.get(peer).map_or(0, |queue| queue.durable)
    }

    /// A message is durable.
    pub(crate) fn durable(&mut self, peer: &Name, number: u64) {
        if let Some(queue) = self.queues.get_mut(peer) {
            queue.durable = queue.durable.max(number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_is_silent_that_takes_nothing_of_what_waits_until_it_takes_something() {
        let peer = Name::new("Peer", "London", "GB").expect("a name");
        let at = Timestamp::from_millis;
        let mut outbound = Outbound::default();
        outbound.restore(peer.clone(), 7, 3);
        assert!(!outbound.is_silent(&peer, at(9_000)), "nothing was sent since the start");
        assert_eq!(outbound.number(&peer, 10, at(9_000)), 8);
        assert_eq!(outbound.number(&peer, 10, at(9_900)), 9);
        assert!(!outbound.is_silent(&peer, at(9_999)));
        assert!(outbound.is_silent(&peer, at(10_000)));
        assert!(outbound.acknowledged(&peer, 8, at(10_000)));
        assert!(!outbound.is_silent(&peer, at(10_500)));
        assert!(outbound.is_silent(&peer, at(11_000)));
        assert!(outbound.acknowledged(&peer, 9, at(11_000)));
        assert!(!outbound.is_silent(&peer, at(99_000)), "nothing waits");
    }
}
