//! Whom to ask, and what became of asking.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use alloy_primitives::Address;
use alloy_primitives::map::{AddressMap, AddressSet};
use alloy_rlp::{Decodable, Encodable};

use super::Stop;
use crate::node::post::UNREADABLE;
use crate::node::sync::INVALID;
use crate::node::{Node, Notice, lock};
use crate::protocol;

/// How long an answer may take.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Requests under way with one peer.
const UNDER_WAY: usize = 8;
/// How long a peer is left alone that gave no answer of use; twice as long each further time in a row.
const REST: Duration = Duration::from_secs(1);
/// And at most.
const LONGEST_REST: Duration = Duration::from_secs(600);
/// What a peer says of its newest block counts no longer while it rests after so many failures in a row.
const FAILURES: u32 = 3;
/// How long it is waited for a peer that can be asked, before it is looked around again.
const WAIT: Duration = Duration::from_millis(20);
/// How often it is said that nobody can be asked.
const COMPLAINT: Duration = Duration::from_secs(30);

/// The peers of a fast sync.
pub(super) struct Peers {
    node: Node,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    under_way: AddressMap<usize>,
    failures: AddressMap<Failures>,
    /// They sent what is wrong, and are asked no more.
    liars: AddressSet,
    /// They do not have the state that is being taken.
    without_state: AddressSet,
    complained: Option<Instant>,
}

/// Answers in a row that were of no use.
#[derive(Clone, Copy)]
struct Failures {
    count: u32,
    rests_until: Instant,
}

impl Known {
    fn rests(&self, peer: &Address) -> Option<u32> {
        self.failures
            .get(peer)
            .filter(|failures| failures.rests_until > Instant::now())
            .map(|failures| failures.count)
    }

    /// Whether to go by what a peer says that it has.
    fn is_believed(&self, peer: &Address) -> bool {
        !self.liars.contains(peer) && self.rests(peer).is_none_or(|failures| failures < FAILURES)
    }
}

/// What a peer has to have to be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Has {
    /// This block.
    Block(u64),
    /// The state after this block.
    State(u64),
}

/// A request that is under way.
pub(super) struct Asked {
    pub(super) peer: Address,
    pending: tally_peers::Pending,
}

impl Peers {
    pub(super) fn new(node: Node) -> Self {
        Self { node, known: Mutex::default() }
    }

    /// The highest block that any peer says it has that has not been found wrong.
    pub(super) fn highest(&self) -> u64 {
        let heads = lock(&self.node.shared.heads);
        let known = lock(&self.known);
        let believed = heads.iter().filter(|(peer, _)| known.is_believed(peer));
        believed.map(|(_, head)| head.number).max().unwrap_or(0)
    }

    /// Sends a request to one of the peers that have something, once there is one.
    ///
    /// # Errors
    /// [`Stop::Stopping`], [`Stop::Gone`] when there are peers and none of them has the state, and what `go_on` says.
    pub(super) fn ask(
        &self,
        has: Has,
        kind: u8,
        request: &impl Encodable,
        go_on: impl Fn() -> Result<(), Stop>,
    ) -> Result<Asked, Stop> {
        loop {
            if self.node.is_stopping() {
                return Err(Stop::Stopping);
            }
            go_on()?;
            if let Some(peer) = self.choose(has)? {
                let network = self.node.network().ok_or(Stop::Stopping)?;
                let pending = network.request(&peer, kind, protocol::encode(request), TIMEOUT);
                return Ok(Asked { peer, pending });
            }
            std::thread::sleep(WAIT);
        }
    }

    /// The peer with the fewest requests under way of those that can be asked now.
    fn choose(&self, has: Has) -> Result<Option<Address>, Stop> {
        let (Has::Block(number) | Has::State(number)) = has;
        let heads = lock(&self.node.shared.heads);
        let mut known = lock(&self.known);
        let mut able = 0;
        let mut without = 0;
        let mut best: Option<(usize, Address)> = None;
        for (peer, _) in heads.iter().filter(|(peer, head)| head.number >= number && known.is_believed(peer))
        {
            able += 1;
            if matches!(has, Has::State(_)) && known.without_state.contains(peer) {
                without += 1;
                continue;
            }
            let under_way = known.under_way.get(peer).copied().unwrap_or(0);
            let is_free = under_way < UNDER_WAY && known.rests(peer).is_none();
            if is_free && best.is_none_or(|(least, _)| under_way < least) {
                best = Some((under_way, *peer));
            }
        }
        if able > 0 && able == without {
            return Err(Stop::Gone);
        }
        if able == 0 && known.complained.is_none_or(|at| at.elapsed() >= COMPLAINT) {
            known.complained = Some(Instant::now());
            let reason =
                format!("no peer with block {number} can be asked; {} sent what is wrong", known.liars.len());
            self.node.notice(Notice::Failure { doing: "syncing fast; it waits", reason });
        }
        if let Some((_, peer)) = best {
            *known.under_way.entry(peer).or_default() += 1;
        }
        Ok(best.map(|(_, peer)| peer))
    }

    /// Waits for an answer; `None` when there is none of use.
    pub(super) fn answer<T: Decodable>(
        &self,
        asked: Asked,
        what: &'static str,
    ) -> Option<(Address, T, usize)> {
        let Asked { peer, pending } = asked;
        let answer = pending.wait();
        self.no_longer_under_way(peer);
        match answer {
            Ok(payload) => match protocol::decode::<T>(what, &payload) {
                Ok(message) => Some((peer, message, payload.len())),
                Err(error) => {
                    self.accuse(peer, UNREADABLE, &error);
                    None
                }
            },
            Err(error) => {
                self.node.failed("fetching from a peer", &error);
                self.rest(peer);
                None
            }
        }
    }

    /// A request is given up.
    pub(super) fn forget(&self, asked: Asked) {
        self.no_longer_under_way(asked.peer);
    }

    fn no_longer_under_way(&self, peer: Address) {
        let mut known = lock(&self.known);
        if let Some(under_way) = known.under_way.get_mut(&peer) {
            *under_way = under_way.saturating_sub(1);
        }
    }

    /// A peer sent what is wrong: it is asked no more.
    pub(super) fn lied(&self, peer: Address, error: &dyn std::error::Error) {
        self.accuse(peer, INVALID, error);
    }

    fn accuse(&self, peer: Address, weight: u32, error: &dyn std::error::Error) {
        if lock(&self.known).liars.insert(peer) {
            self.node.accuse(peer, weight, "taking what a peer sent", error);
        }
    }

    /// A peer does not have the blocks that it said it has.
    pub(super) fn lacks_blocks(&self, peer: Address) {
        lock(&self.node.shared.heads).remove(&peer);
        self.rest(peer);
    }

    /// A peer does not have the state.
    pub(super) fn lacks_state(&self, peer: Address) {
        lock(&self.known).without_state.insert(peer);
    }

    /// Another state is asked for from now on.
    pub(super) fn ask_all_again(&self) {
        lock(&self.known).without_state.clear();
    }

    /// A peer gave what was asked for.
    pub(super) fn served(&self, peer: Address) {
        lock(&self.known).failures.remove(&peer);
    }

    fn rest(&self, peer: Address) {
        let mut known = lock(&self.known);
        // What was under way when a peer failed fails as well, and is one failure.
        if known.rests(&peer).is_some() {
            return;
        }
        let before = known.failures.get(&peer).map_or(0, |failures| failures.count);
        let rest = REST.saturating_mul(1 << before.min(16)).min(LONGEST_REST);
        known.failures.insert(peer, Failures { count: before + 1, rests_until: Instant::now() + rest });
    }
}
