//! Compares this node's clock and forks with those of its peers: a clock that is wrong keeps a validator's blocks from being
//! taken, and a genesis file without a fork shows when the fork comes, if nobody says so before.

use alloy_eips::eip2124::ForkHash;
use alloy_primitives::Address;
use alloy_primitives::map::AddressMap;
use tally_evm::schedule::ForkStart;

use super::post::blame;
use super::{Node, Notice, lock, now_ms};
use crate::chain::Chain;
use crate::protocol::{self, STANDING, Standing};

/// By how much clocks may differ, in milliseconds: a message may be under way for that long, and a validator is within the
/// time of a round.
const CLOCK_MS: u64 = 3_000;
/// The first version of the protocol that has [`STANDING`].
const VERSION: u16 = 2;

/// What a peer said of itself, against this node.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Compared {
    /// By how much its clock is ahead, in milliseconds.
    ahead_ms: i64,
    forks_differ: bool,
}

/// Of the peers that are connected.
pub(super) type Standings = AddressMap<Compared>;

/// Says to a peer, or to all, where this node stands.
pub(super) fn tell(node: &Node, only: Option<Address>) {
    let Some(network) = node.network() else { return };
    let head = node.chain().head();
    let header = &head.sealed().header;
    let (fork_hash, fork_next) = *current(&checkpoints(node.chain()), header.number, header.timestamp);
    let message = protocol::encode(&Standing { clock_ms: now_ms(), fork_hash, fork_next });
    for peer in network.peers() {
        if peer.version >= VERSION && only.is_none_or(|only| only == peer.peer) {
            // A peer that is gone is told when it is back.
            let _ = network.send(&peer.peer, STANDING, message.clone());
        }
    }
}

/// A peer said where it stands.
pub(super) fn take(node: &Node, peer: Address, payload: &[u8]) {
    let said: Standing = match protocol::decode("standing", payload) {
        Ok(said) => said,
        Err(error) => return blame(node, peer, &error),
    };
    let ahead = i128::from(said.clock_ms) - i128::from(now_ms());
    let ahead_ms = i64::try_from(ahead).unwrap_or(if ahead < 0 { i64::MIN } else { i64::MAX });
    let known = checkpoints(node.chain());
    // A peer may be behind or ahead by some forks, if they are the same ones.
    let forks_differ = !known.iter().any(|(_, id)| *id == (said.fork_hash, said.fork_next));
    let now = Compared { ahead_ms, forks_differ };
    let before = lock(&node.shared.standings).insert(peer, now).unwrap_or_default();
    // It is said once, not twice a minute.
    if now.is_off() && !before.is_off() {
        node.notice(Notice::Clock { peer, ahead_ms });
    }
    if now.forks_differ && !before.forks_differ {
        node.notice(Notice::Forks { peer });
    }
}

pub(super) fn forget(node: &Node, peer: &Address) {
    lock(&node.shared.standings).remove(peer);
}

impl Compared {
    fn is_off(&self) -> bool {
        self.ahead_ms.unsigned_abs() > CLOCK_MS
    }
}

/// Where a fork begins, as EIP-2124 counts: blocks first, then times.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Start {
    Block(u64),
    Time(u64),
}

/// For genesis and each fork after it: where it begins, and the identifier from there on, which is the checksum and the
/// beginning of the next one.
fn checkpoints(chain: &Chain) -> Vec<(Start, (u32, u64))> {
    let genesis_time = chain.genesis().timestamp;
    let mut starts: Vec<Start> = chain
        .schedule()
        .list()
        .into_iter()
        .filter_map(|(_, start)| match start {
            ForkStart::Block(block) => (block > 0).then_some(Start::Block(block)),
            ForkStart::Time(time) => (time > genesis_time).then_some(Start::Time(time)),
        })
        .collect();
    starts.sort_unstable();
    starts.dedup();
    let number = |start: &Start| match start {
        Start::Block(number) | Start::Time(number) => *number,
    };
    let mut hash = ForkHash::from(chain.genesis_hash());
    let mut all = Vec::with_capacity(starts.len() + 1);
    for at in std::iter::once(None).chain(starts.iter().map(Some)) {
        if let Some(at) = at {
            hash += number(at);
        }
        let next = starts.get(all.len()).map_or(0, number);
        all.push((at.copied().unwrap_or(Start::Block(0)), (u32::from_be_bytes(hash.0), next)));
    }
    all
}

/// The identifier at a block.
fn current(checkpoints: &[(Start, (u32, u64))], block: u64, time_s: u64) -> &(u32, u64) {
    let passed = checkpoints.iter().rev().find(|(start, _)| match start {
        Start::Block(first) => *first <= block,
        Start::Time(first) => *first <= time_s,
    });
    &passed.or(checkpoints.first()).expect("genesis is always there").1
}

/// The middle one of the numbers.
fn median(mut numbers: Vec<i64>) -> i64 {
    numbers.sort_unstable();
    numbers.get(numbers.len() / 2).copied().unwrap_or(0)
}

impl Node {
    /// By how much the clocks of most peers are ahead of this node's, in milliseconds: the median of theirs and its own, so
    /// that those who lie do not move it while they are the fewer. `None` as long as it is of no concern.
    pub fn clock_is_behind_ms(&self) -> Option<i64> {
        let behind = self.clock_skew_ms();
        (behind.unsigned_abs() > CLOCK_MS).then_some(behind)
    }

    /// As [`Node::clock_is_behind_ms`], of concern or not.
    pub fn clock_skew_ms(&self) -> i64 {
        let standings = lock(&self.shared.standings);
        median(standings.values().map(|compared| compared.ahead_ms).chain([0]).collect())
    }

    /// How many peers have other forks than this node's genesis file, and how many have said which they have.
    pub fn peers_with_other_forks(&self) -> (usize, usize) {
        let standings = lock(&self.shared.standings);
        (standings.values().filter(|compared| compared.forks_differ).count(), standings.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Options;
    use tally_evm::Genesis;
    use tally_state::Database;

    fn chain(cancun: u64) -> Chain {
        let genesis = serde_json::json!({
            "config": { "chainId": 5, "berlinBlock": 0, "londonBlock": 7, "shanghaiTime": 0,
                "cancunTime": cancun, "terminalTotalDifficulty": 0 },
            "gasLimit": "0x1c9c380", "difficulty": "0x0", "timestamp": "0x0",
        });
        Chain::open(Database::in_memory(), Genesis::from_value(&genesis).unwrap(), Options::default())
            .unwrap()
    }

    #[test]
    fn an_identifier_tells_the_forks_up_to_a_block_and_the_next_one() {
        let all = checkpoints(&chain(100));
        let nexts: Vec<u64> = all.iter().map(|(_, (_, next))| *next).collect();
        assert_eq!(nexts, [7, 100, 0]);
        assert_eq!(current(&all, 0, 0).1, 7);
        assert_eq!(current(&all, 7, 0).1, 100);
        assert_eq!(current(&all, 8, 100).1, 0);
        let others = checkpoints(&chain(200));
        assert_eq!(all[1].1.0, others[1].1.0, "the same so far");
        assert_ne!(all[1].1, others[1].1, "and another fork to come");
    }

    #[test]
    fn a_few_liars_do_not_move_the_middle() {
        assert_eq!(median(vec![0, i64::MAX, 20, -15]), 20);
        assert_eq!(median(vec![0, 30_000, 30_010, i64::MIN, 30_020]), 30_000);
        assert_eq!(median(vec![0]), 0);
    }
}
