//! The peers that this node keeps sessions with, and when to connect to them again.

use crate::enode::Enode;
use crate::key::NodeId;
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// When a peer that cannot be reached is tried again.
#[derive(Debug, Clone)]
pub struct Backoff {
    /// After the first failure; twice as long after each further one.
    pub first: Duration,
    /// At most. A validator that comes back is needed at once, so this is short.
    pub longest: Duration,
    /// A session that lasted this long makes earlier failures forgotten.
    pub stable: Duration,
}

impl Default for Backoff {
    fn default() -> Self {
        Self {
            first: Duration::from_millis(250),
            longest: Duration::from_secs(8),
            stable: Duration::from_secs(10),
        }
    }
}

impl Backoff {
    /// The time to wait after so many failures: between half of the full time and all of it, as
    /// `random` says, so that nodes that were cut off together do not come back together.
    fn wait(&self, failures: u32, random: u64) -> Duration {
        let doubled = 1_u32.checked_shl(failures.saturating_sub(1)).unwrap_or(u32::MAX);
        let full = self.first.saturating_mul(doubled).min(self.longest);
        let half = full / 2;
        let nanos = u64::try_from(half.as_nanos()).unwrap_or(u64::MAX);
        half + Duration::from_nanos(random % nanos.max(1))
    }
}

/// The known peers.
#[derive(Debug)]
pub(crate) struct Roster {
    backoff: Backoff,
    known: HashMap<NodeId, Known>,
}

#[derive(Debug)]
struct Known {
    enode: Enode,
    state: State,
    failures: u32,
    failure: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// To be tried from then on.
    Waiting(Instant),
    Dialling,
    Connected,
}

impl Roster {
    pub(crate) fn new(backoff: Backoff) -> Self {
        Self { backoff, known: HashMap::new() }
    }

    /// Adds a peer, to be tried at once; or gives a known one another address. Whether it is new.
    pub(crate) fn add(&mut self, enode: Enode, connected: bool, now: Instant) -> bool {
        let state = if connected { State::Connected } else { State::Waiting(now) };
        match self.known.get_mut(&enode.id) {
            Some(known) => {
                if known.enode != enode {
                    known.enode = enode;
                    known.failures = 0;
                    if let State::Waiting(at) = &mut known.state {
                        *at = now;
                    }
                }
                false
            }
            None => {
                self.known.insert(enode.id, Known { enode, state, failures: 0, failure: None });
                true
            }
        }
    }

    /// Removes a peer; whether it was known.
    pub(crate) fn remove(&mut self, id: &NodeId) -> bool {
        self.known.remove(id).is_some()
    }

    pub(crate) fn enode(&self, id: &NodeId) -> Option<&Enode> {
        self.known.get(id).map(|known| &known.enode)
    }

    pub(crate) fn contains(&self, id: &NodeId) -> bool {
        self.known.contains_key(id)
    }

    /// Each peer, whether there is a session, and why there is none.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (&Enode, bool, Option<&str>)> {
        let connected = |known: &Known| known.state == State::Connected;
        self.known.values().map(move |known| (&known.enode, connected(known), known.failure.as_deref()))
    }

    /// Tries every peer again at once for which there is no session.
    pub(crate) fn retry_all(&mut self, now: Instant) {
        for known in self.known.values_mut() {
            if let State::Waiting(at) = &mut known.state {
                *at = now;
                known.failures = 0;
            }
        }
    }

    /// The peers to connect to now; each is under way until [`Self::failed`] or [`Self::connected`].
    pub(crate) fn due(&mut self, now: Instant) -> Vec<Enode> {
        let mut due = Vec::new();
        for known in self.known.values_mut() {
            if matches!(known.state, State::Waiting(at) if at <= now) {
                known.state = State::Dialling;
                due.push(known.enode.clone());
            }
        }
        due
    }

    /// When [`Self::due`] gives something next.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        let waiting = self.known.values().filter_map(|known| match known.state {
            State::Waiting(at) => Some(at),
            State::Dialling | State::Connected => None,
        });
        waiting.min()
    }

    /// An attempt has failed, or the peer would not talk and is not to be tried for `not_before`.
    pub(crate) fn failed(
        &mut self,
        id: &NodeId,
        not_before: Duration,
        why: String,
        random: u64,
        now: Instant,
    ) {
        if let Some(known) = self.known.get_mut(id)
            && known.state == State::Dialling
        {
            known.failure = Some(why);
            known.failures = known.failures.saturating_add(1);
            known.state = State::Waiting(now + self.backoff.wait(known.failures, random).max(not_before));
        }
    }

    /// There is a session.
    pub(crate) fn connected(&mut self, id: &NodeId) {
        if let Some(known) = self.known.get_mut(id) {
            known.state = State::Connected;
            known.failure = None;
        }
    }

    /// A session has ended that lasted this long.
    pub(crate) fn disconnected(&mut self, id: &NodeId, lasted: Duration, random: u64, now: Instant) {
        if let Some(known) = self.known.get_mut(id) {
            known.failures = if lasted >= self.backoff.stable { 1 } else { known.failures.saturating_add(1) };
            known.state = State::Waiting(now + self.backoff.wait(known.failures, random));
        }
    }
}

#[cfg(test)]
mod tests;
