//! Requests that wait to be ordered, with a share for each that brings them.

use std::collections::{BTreeMap, HashMap, VecDeque};

use alloy_primitives::Address;
use tally_contracts::Name;
use tally_crypto::Hash;

use crate::Request;

/// How many connections may wait for one request.
const WAITING: usize = 16;

/// Somebody who waits for an answer.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Client {
    /// Who it is, as its connection has proven.
    pub name: Name,
    /// Which of its conversations; the host's to choose and to understand.
    pub conversation: u64,
}

/// Who brought a request here.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Source {
    Client(Name),
    Member(Address),
}

/// What each source may have waiting here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Share {
    pub(crate) requests: usize,
    pub(crate) bytes: usize,
}

struct Entry {
    request: Request,
    source: Source,
    /// Its number in its source's order: an id may come again after it was removed.
    number: u64,
    bytes: usize,
    since_ms: u64,
    waiting: Vec<Client>,
}

#[derive(Default)]
struct Queue {
    order: VecDeque<(u64, Hash)>,
    requests: usize,
    bytes: usize,
}

#[derive(Default)]
pub(crate) struct Pool {
    entries: HashMap<Hash, Entry>,
    queues: BTreeMap<Source, Queue>,
    numbers: u64,
}

impl Pool {
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Adds a client to those that wait for a request; whether the request is here.
    pub(crate) fn wait(&mut self, id: &Hash, client: &Client) -> bool {
        let Some(entry) = self.entries.get_mut(id) else { return false };
        if !entry.waiting.contains(client) {
            if entry.waiting.len() == WAITING {
                entry.waiting.remove(0);
            }
            entry.waiting.push(client.clone());
        }
        true
    }

    /// Takes a request if its source has room for it; whether it is here now.
    pub(crate) fn add(
        &mut self,
        id: Hash,
        request: Request,
        bytes: usize,
        source: Source,
        share: Share,
        now_ms: u64,
    ) -> bool {
        if self.entries.contains_key(&id) {
            return true;
        }
        let queue = self.queues.entry(source.clone()).or_default();
        if queue.requests >= share.requests || queue.bytes.saturating_add(bytes) > share.bytes {
            return false;
        }
        queue.requests += 1;
        queue.bytes += bytes;
        self.numbers += 1;
        queue.order.push_back((self.numbers, id));
        let entry =
            Entry { request, source, number: self.numbers, bytes, since_ms: now_ms, waiting: Vec::new() };
        self.entries.insert(id, entry);
        true
    }

    /// Takes a request out; those that wait for it.
    pub(crate) fn remove(&mut self, id: &Hash) -> Vec<Client> {
        let Some(entry) = self.entries.remove(id) else { return Vec::new() };
        if let Some(queue) = self.queues.get_mut(&entry.source) {
            queue.requests -= 1;
            queue.bytes -= entry.bytes;
            // Ids of requests that are gone stay in the order until there are as many again.
            if queue.requests == 0 {
                self.queues.remove(&entry.source);
            } else if queue.order.len() > 2 * queue.requests + 16 {
                let entries = &self.entries;
                queue
                    .order
                    .retain(|(number, id)| entries.get(id).is_some_and(|entry| entry.number == *number));
            }
        }
        entry.waiting
    }

    /// Requests in turn from each source, each source's in the order in which they came, as many as
    /// fit.
    pub(crate) fn choose(&self, requests: usize, bytes: usize) -> Vec<Request> {
        self.in_turn(requests, bytes, |_| true)
    }

    /// Requests that have waited since `before_ms` or longer, chosen as by [`Self::choose`].
    pub(crate) fn overdue(&self, before_ms: u64, requests: usize, bytes: usize) -> Vec<Request> {
        self.in_turn(requests, bytes, |entry| entry.since_ms <= before_ms)
    }

    fn in_turn(&self, requests: usize, bytes: usize, wanted: impl Fn(&Entry) -> bool) -> Vec<Request> {
        let mut queues: Vec<_> = self.queues.values().map(|queue| queue.order.iter()).collect();
        let (mut chosen, mut size) = (Vec::new(), 0_usize);
        while !queues.is_empty() {
            queues.retain_mut(|queue| {
                let next = queue.by_ref().find_map(|(number, id)| {
                    self.entries.get(id).filter(|entry| entry.number == *number && wanted(entry))
                });
                let Some(entry) = next else { return false };
                if chosen.len() >= requests || size.saturating_add(entry.bytes) > bytes {
                    return false;
                }
                size += entry.bytes;
                chosen.push(entry.request.clone());
                true
            });
        }
        chosen
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Commit;
    use tally_contracts::TransactionId;

    fn name(n: u8) -> Name {
        Name::new(&format!("Bank {n}"), "Zurich", "CH").unwrap()
    }

    fn request(n: u8) -> Request {
        let commit = Commit {
            inputs: Vec::new(),
            references: Vec::new(),
            transaction: TransactionId::from_bytes([n; 32]),
            time_window: None,
            requester: name(0),
        };
        Request { commit, evidence: Vec::new() }
    }

    #[test]
    fn who_fills_its_share_leaves_others_theirs_and_has_it_back_once_it_is_ordered() {
        let share = Share { requests: 3, bytes: 1_000 };
        let mut pool = Pool::default();
        let add = |pool: &mut Pool, n: u8, bank| {
            pool.add(request(n).id(), request(n), 100, Source::Client(name(bank)), share, 0)
        };
        assert_eq!([1, 2, 3, 4].map(|n| add(&mut pool, n, 1)), [true, true, true, false]);
        assert!(add(&mut pool, 3, 1), "it is here already");
        assert!(add(&mut pool, 5, 2));
        let chosen: Vec<Request> = pool.choose(2, 1_000);
        assert_eq!(chosen, [request(1), request(5)], "in turn");
        pool.remove(&request(1).id());
        assert!(add(&mut pool, 4, 1));
        assert!(!add(&mut pool, 6, 1));
        [3, 4, 2, 5].iter().for_each(|n| drop(pool.remove(&request(*n).id())));
        assert!(pool.is_empty() && pool.queues.is_empty());
    }

    #[test]
    fn many_requests_leave_no_trace() {
        let mut pool = Pool::default();
        let share = Share { requests: 300, bytes: 1_000 };
        assert!(pool.add(request(0).id(), request(0), 1, Source::Client(name(1)), share, 0));
        for turn in 0..10 {
            for n in 1..=250 {
                assert!(pool.add(request(n).id(), request(n), 1, Source::Client(name(1)), share, turn));
            }
            (1..=250).for_each(|n| drop(pool.remove(&request(n).id())));
        }
        assert!(pool.queues[&Source::Client(name(1))].order.len() <= 18);
        assert_eq!(pool.overdue(0, 9, 9), [request(0)]);
    }
}
