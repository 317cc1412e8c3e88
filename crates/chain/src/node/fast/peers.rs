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
const TIMEOUT: Duration = Duration::from_secs(15);
/// Requests under way with one peer.
const UNDER_WAY: usize = 8;
/// How long a peer is left alone that gave no answer.
const REST: Duration = Duration::from_secs(2);
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
    resting: AddressMap<Instant>,
    /// They sent what is wrong, and are asked no more.
    liars: AddressSet,
    /// They do not have the state that is being taken.
    without_state: AddressSet,
    complained: Option<Instant>,
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
        known.resting.retain(|_, since| since.elapsed() < REST);
        let of_use = |peer: &Address| !known.liars.contains(peer);
        let mut able = 0;
        let mut without = 0;
        let mut best: Option<(usize, Address)> = None;
        for (peer, _) in heads.iter().filter(|(peer, head)| head.number >= number && of_use(peer)) {
            able += 1;
            if matches!(has, Has::State(_)) && known.without_state.contains(peer) {
                without += 1;
                continue;
            }
            let under_way = known.under_way.get(peer).copied().unwrap_or(0);
            let is_free = under_way < UNDER_WAY && !known.resting.contains_key(peer);
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
            self.node.failed("taking what a peer sent", error);
            if let Some(network) = self.node.network() {
                network.report(&peer, weight);
            }
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

    fn rest(&self, peer: Address) {
        lock(&self.known).resting.insert(peer, Instant::now());
    }
}
