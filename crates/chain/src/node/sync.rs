//! Fetches blocks that others have and this node has not, and executes each of them (full sync).

use std::cmp::Reverse;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant};

use alloy_primitives::map::AddressMap;
use alloy_primitives::{Address, B256, Bytes};
use tally_evm::Block;
use tally_peers::{Pending, RequestError};

use super::post::{UNREADABLE, blame};
use super::{Node, gather, lock};
use crate::branch::{Branch, Candidate};
use crate::chain::Prepared;
use crate::error::ImportError;
use crate::protocol::{self, Blocks, GET_BLOCKS, Head, Range};
use crate::sealed::Seals;

/// How long an answer may take.
const TIMEOUT: Duration = Duration::from_secs(15);
/// How long news may wait while an answer is awaited.
const PIECE: Duration = Duration::from_millis(20);
/// How long a peer is not asked again that gave nothing of what it said that it had, at least.
const LEAST_REST: Duration = Duration::from_secs(1);
/// Peers whose worth is remembered; beyond that all of it is forgotten.
const WORTHS: usize = 1_024;
/// Milliseconds for a block that are as good as none.
const QUICK_MS: u64 = 16;
/// Blocks asked for at once.
const COUNT: u64 = 256;
/// Blocks that are prepared ahead of the one that is executed.
const AHEAD: usize = 8;
/// Bytes of blocks that are committed together.
const TOGETHER_BYTES: u64 = 2 << 20;
/// Blocks that are committed together.
const TOGETHER: usize = 64;
/// How long the next block alone may come by itself, from consensus or from who proposed it, before it is asked for.
const GRACE: Duration = Duration::from_millis(500);
/// How long this thread waits for news before it looks around.
const IDLE: Duration = Duration::from_millis(250);
/// The longest rest after a fault of the store.
const LONGEST_REST: Duration = Duration::from_secs(2);
/// An invalid block: consensus never agrees on one, so whoever sends it means harm.
pub(super) const INVALID: u32 = 60;

/// What this thread is told.
pub(super) enum Told {
    /// A peer's newest block.
    Head { peer: Address, head: Head },
    /// A peer's newest block, whole.
    Block { peer: Address, payload: Bytes },
    /// Consensus knows that blocks are missing; the peer is zero when any will do.
    Need { height: u64, peer: Address },
    /// A peer is gone.
    Disconnected(Address),
    /// The node stops.
    Stop,
}

/// Newest blocks of peers, as they say.
pub(super) type Heads = AddressMap<Head>;

/// The height that peers have reached. As many as may lie among the validators may say more: a single peer makes nobody
/// behind, unless there is no other.
pub(super) fn reached(node: &Node) -> u64 {
    let head = node.chain().head();
    let faulty = head.branch.validators.as_ref().map_or(0, |known| known.set.faulty());
    let liars = lock(&node.shared.liars);
    let heads = lock(&node.shared.heads);
    let said = heads.iter().filter(|(peer, _)| !liars.contains(*peer)).map(|(_, head)| head.number);
    beyond_lies(said.collect(), faulty)
}

/// The highest number that more than `faulty` say, or the lowest when there are no more; 0 when nobody says any.
fn beyond_lies(mut said: Vec<u64>, faulty: usize) -> u64 {
    said.sort_unstable_by(|a, b| b.cmp(a));
    said.get(faulty).or(said.last()).copied().unwrap_or(0)
}

/// What a peer's answers were worth.
#[derive(Debug, Default)]
struct Worth {
    /// Milliseconds of waiting for a block, the last answers counting most; 0 while nothing is known.
    cost_ms: u64,
    /// It gave nothing of what it said that it had, and is not asked before this.
    rests_until: Option<Instant>,
}

impl Worth {
    fn rests(&self) -> bool {
        self.rests_until.is_some_and(|until| Instant::now() < until)
    }

    /// How dear its blocks are, by powers of two, so that two that are as good take no turns.
    fn dearness(&self) -> u32 {
        (self.cost_ms / QUICK_MS).checked_ilog2().map_or(0, |power| power + 1)
    }
}

struct Sync {
    node: Node,
    /// By peer. What a peer says of its head decides whether it can be asked, and what it gave whether it is: one that boasts
    /// and gives little, or nothing, is asked after all others.
    worth: AddressMap<Worth>,
    /// Since when the next block alone is missing.
    missing_since: Option<(u64, Instant)>,
    /// Consensus asks for blocks up to here at once.
    needed: u64,
    /// How long to rest after the next fault of the store.
    rest: Duration,
}

pub(super) fn run(node: Node, told: Receiver<Told>) {
    let mut sync = Sync { node, worth: AddressMap::default(), missing_since: None, needed: 0, rest: IDLE };
    loop {
        match told.recv_timeout(sync.patience()) {
            Ok(first) => {
                if !gather(first, &told, usize::MAX).into_iter().all(|told| sync.take(told)) {
                    return;
                }
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        if !sync.node.shared.fast.holds_others() {
            sync.catch_up(&told);
        }
        if sync.node.is_stopping() {
            return;
        }
    }
}

impl Sync {
    /// Whether to go on.
    fn take(&mut self, told: Told) -> bool {
        match told {
            Told::Head { peer, head } => self.has(peer, head),
            Told::Block { peer, payload } => {
                self.receive(peer, &payload);
                self.node.shared.received.leave(payload.len());
            }
            Told::Need { height, peer } => {
                self.needed = self.needed.max(height);
                if let Some(head) = lock(&self.node.shared.heads).get_mut(&peer) {
                    head.number = head.number.max(height);
                }
            }
            Told::Disconnected(peer) => {
                self.forget(peer);
                lock(&self.node.shared.liars).remove(&peer);
                if let Some(worth) = self.worth.get_mut(&peer) {
                    // It may have been away. How dear it is stays: coming back makes nobody quicker.
                    worth.rests_until = None;
                }
            }
            Told::Stop => return false,
        }
        true
    }

    /// A peer says that it has a block.
    fn has(&mut self, peer: Address, head: Head) {
        lock(&self.node.shared.heads).insert(peer, head);
    }

    /// A block that a validator proposed and now sends round.
    fn receive(&mut self, peer: Address, payload: &Bytes) {
        let block = match Block::decode(payload) {
            Ok(block) => block,
            Err(error) => return self.accuse(peer, UNREADABLE, &error),
        };
        let number = block.header.number;
        let chain = self.node.chain();
        let head = chain.head();
        let hash = match chain.hash(&block.header) {
            Ok(hash) => hash,
            Err(error) => return self.accuse(peer, UNREADABLE, &error),
        };
        let proposed = block.header.beneficiary == peer && self.is_validator(peer);
        // Where it does not belong on this node's head it says no more than that the peer has it.
        let fits = proposed && block.header.parent_hash == head.hash();
        if !fits || self.execute(peer, vec![(block, payload.len() as u64)]) {
            self.has(peer, Head { number, hash });
        }
    }

    /// How long to wait for news.
    fn patience(&self) -> Duration {
        let ripe = self.missing_since.map(|(_, since)| GRACE.saturating_sub(since.elapsed()));
        ripe.unwrap_or(IDLE).min(IDLE)
    }

    /// Whether there is something to fetch now: the next block alone is left to come by itself for a moment, where
    /// validators seal and this node takes part or is the peer of one.
    fn is_behind(&mut self, own: u64) -> bool {
        let highest = self.highest();
        if highest <= own {
            self.missing_since = None;
            return false;
        }
        if highest > own + 1 || self.needed > own || !self.is_sent_blocks() {
            return true;
        }
        match self.missing_since {
            Some((number, since)) if number == highest => since.elapsed() >= GRACE,
            _ => {
                self.missing_since = Some((highest, Instant::now()));
                false
            }
        }
    }

    /// Whether the next block comes without being asked for: to who takes part in consensus, and to peers of validators.
    fn is_sent_blocks(&self) -> bool {
        let takes_part = self.node.validator().is_some_and(|own| self.is_validator(own));
        takes_part || lock(&self.node.shared.heads).keys().any(|peer| self.is_validator(*peer))
    }

    fn is_validator(&self, address: Address) -> bool {
        let head = self.node.chain().head();
        head.branch.validators.as_ref().is_some_and(|validators| validators.set.contains(address))
    }

    fn rests(&self, peer: &Address) -> bool {
        self.worth.get(peer).is_some_and(Worth::rests)
    }

    /// The highest block that a peer says it has which can be asked now.
    fn highest(&self) -> u64 {
        let heads = lock(&self.node.shared.heads);
        let asked = heads.iter().filter(|(peer, _)| !self.rests(peer));
        asked.map(|(_, head)| head.number).max().unwrap_or(0)
    }

    /// Of the peers with a block above `own` one that has sent nothing wrong, if there is one, and of these the one whose
    /// blocks came quickest, or the highest of those of which that is not known.
    fn choose(&self, own: u64) -> Option<(Address, u64)> {
        let heads = lock(&self.node.shared.heads);
        let liars = lock(&self.node.shared.liars);
        heads
            .iter()
            .filter(|(peer, head)| head.number > own && !self.rests(peer))
            .max_by_key(|(peer, head)| {
                let dearness = self.worth.get(*peer).map_or(0, Worth::dearness);
                (!liars.contains(*peer), Reverse(dearness), head.number)
            })
            .map(|(peer, head)| (*peer, head.number))
    }

    /// A peer gave so many blocks that were missing, after so long.
    fn gave(&mut self, peer: Address, blocks: u64, waited: Duration) {
        if self.worth.len() >= WORTHS {
            self.worth.clear();
        }
        let worth = self.worth.entry(peer).or_default();
        if blocks == 0 {
            worth.rests_until = Some(Instant::now() + waited.clamp(LEAST_REST, TIMEOUT));
            return;
        }
        let waited_ms = u64::try_from(waited.as_millis()).unwrap_or(u64::MAX);
        worth.cost_ms = worth.cost_ms.midpoint(waited_ms / blocks);
        worth.rests_until = None;
    }

    /// Waits for an answer, and takes news meanwhile: a peer that does not answer holds up nothing else. `None` when the
    /// node stops.
    fn answer(
        &mut self,
        mut pending: Pending,
        told: &Receiver<Told>,
    ) -> Option<Result<bytes::Bytes, RequestError>> {
        loop {
            if let Some(answer) = pending.wait_for(PIECE) {
                return Some(answer);
            }
            if !self.take_all(told) {
                return None;
            }
        }
    }

    /// Takes the news that there are; whether to go on.
    fn take_all(&mut self, told: &Receiver<Told>) -> bool {
        while let Ok(news) = told.try_recv() {
            if !self.take(news) {
                self.node.shared.stopping.store(true, std::sync::atomic::Ordering::Release);
                return false;
            }
        }
        !self.node.is_stopping()
    }

    fn ask(&self, peer: Address, first: u64, until: u64) -> Option<Pending> {
        let count = until.checked_sub(first)?.saturating_add(1).min(COUNT);
        let request = protocol::encode(&Range { first, count });
        Some(self.node.network()?.request(&peer, GET_BLOCKS, request, TIMEOUT))
    }

    fn catch_up(&mut self, told: &Receiver<Told>) {
        let mut ahead: Option<(Address, u64, Pending)> = None;
        while !self.node.is_stopping() {
            let own = self.node.chain().head().number();
            if !self.is_behind(own) {
                return;
            }
            let Some((peer, until)) = self.choose(own) else { return };
            let pending = match ahead.take() {
                Some((of, first, pending)) if of == peer && first == own + 1 => Some(pending),
                _ => self.ask(peer, own + 1, until),
            };
            let Some(pending) = pending else { return };
            let asked = Instant::now();
            let Some(answer) = self.answer(pending, told) else { return };
            let waited = asked.elapsed();
            let blocks = match answer {
                Ok(payload) => match protocol::decode::<Blocks>("blocks", &payload) {
                    Ok(blocks) => blocks.blocks,
                    Err(error) => {
                        blame(&self.node, peer, &error);
                        self.forget(peer);
                        continue;
                    }
                },
                Err(error) => {
                    self.node.failed("fetching blocks", &error);
                    self.gave(peer, 0, waited);
                    continue;
                }
            };
            if blocks.is_empty() {
                // It does not have what it said it has.
                self.gave(peer, 0, waited);
                continue;
            }
            // The next blocks travel while these are executed.
            let next = own + 1 + blocks.len() as u64;
            ahead = self.ask(peer, next, until).map(|pending| (peer, next, pending));
            let Some(blocks) = self.read(peer, &blocks) else {
                ahead = None;
                continue;
            };
            if !self.execute(peer, blocks) {
                ahead = None;
            }
            self.gave(peer, self.node.chain().head().number().saturating_sub(own), waited);
            if !self.take_all(told) {
                return;
            }
        }
    }

    /// What a peer said of its head is no longer believed, until it says it again.
    fn forget(&self, peer: Address) {
        lock(&self.node.shared.heads).remove(&peer);
    }

    /// The blocks with their lengths in bytes, if all can be read.
    fn read(&mut self, peer: Address, blocks: &[Bytes]) -> Option<Vec<(Block, u64)>> {
        let mut read = Vec::with_capacity(blocks.len());
        for encoded in blocks {
            match Block::decode(encoded) {
                Ok(block) => read.push((block, encoded.len() as u64)),
                Err(error) => {
                    self.accuse(peer, UNREADABLE, &error);
                    return None;
                }
            }
        }
        Some(read)
    }

    /// Executes blocks that follow each other and this node's head; while one is executed, the senders of the next are
    /// found. Whether all went well.
    fn execute(&mut self, peer: Address, blocks: Vec<(Block, u64)>) -> bool {
        let node = self.node.clone();
        let branch = node.chain().head().branch.clone();
        // Some may have come another way since they were asked for.
        let missing = blocks.into_iter().filter(|(block, _)| block.header.number > branch.number());
        let missing: Vec<(Block, u64)> = missing.collect();
        std::thread::scope(|scope| {
            let (ready, prepared) = sync_channel(AHEAD);
            scope.spawn(move || {
                for (block, length) in missing {
                    let known = node.known(&block);
                    let find = |hash: &B256| known.get(hash).cloned();
                    let prepared = node.chain().prepare(block, length, &find, node.shared.threads);
                    // Nobody takes any more once a block was refused.
                    if ready.send(prepared).is_err() {
                        return;
                    }
                }
            });
            self.execute_prepared(peer, branch, prepared)
        })
    }

    fn execute_prepared(
        &mut self,
        peer: Address,
        mut branch: Branch,
        blocks: impl IntoIterator<Item = Result<Prepared, ImportError>>,
    ) -> bool {
        let mut candidates: Vec<Candidate> = Vec::new();
        let mut bytes = 0;
        let mut refused = false;
        for prepared in blocks {
            let chain = self.node.chain();
            match prepared.and_then(|prepared| chain.execute(&branch, prepared, Seals::Quorum)) {
                Ok(candidate) => {
                    branch = candidate.branch.clone();
                    bytes += candidate.block.sealed.size;
                    candidates.push(candidate);
                }
                Err(ImportError::Chain(error)) => {
                    self.fail("executing a block", &error);
                    return false;
                }
                Err(error) => {
                    // Another block of consensus may have been committed meanwhile.
                    if self.node.chain().head().number() < branch.number() + 1 {
                        self.accuse(peer, INVALID, &error);
                    }
                    // What came before it stays.
                    refused = true;
                    break;
                }
            }
            if bytes >= TOGETHER_BYTES || candidates.len() >= TOGETHER {
                if !self.commit(&mut candidates) {
                    return false;
                }
                // What is committed need not be carried along.
                branch = self.node.chain().head().branch.clone();
                bytes = 0;
            }
        }
        self.commit(&mut candidates) && !refused
    }

    /// Whether what there was to commit is part of the chain now.
    fn commit(&mut self, candidates: &mut Vec<Candidate>) -> bool {
        if candidates.is_empty() {
            return true;
        }
        match self.node.commit(&std::mem::take(candidates)) {
            Ok(_) => {
                self.rest = IDLE;
                true
            }
            // Consensus was faster.
            Err(ImportError::Final { .. }) => false,
            Err(error) => {
                self.fail("committing fetched blocks", &error);
                false
            }
        }
    }

    /// Says what failed here, and rests: a store that is full or broken stays so for a while.
    fn fail(&mut self, doing: &'static str, error: &dyn std::error::Error) {
        self.node.failed(doing, error);
        std::thread::sleep(self.rest);
        self.rest = (2 * self.rest).min(LONGEST_REST);
    }

    fn accuse(&mut self, peer: Address, weight: u32, error: &dyn std::error::Error) {
        self.node.accuse(peer, weight, "taking blocks from a peer", error);
        self.forget(peer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_that_lies_makes_nobody_behind() {
        let far = 1 << 40;
        assert_eq!(beyond_lies(vec![], 1), 0);
        assert_eq!(beyond_lies(vec![9], 1), 9, "there is no other to go by");
        assert_eq!(beyond_lies(vec![9, far], 1), 9);
        assert_eq!(beyond_lies(vec![10, far, 0, 10], 1), 10);
        assert_eq!(beyond_lies(vec![10, far, 11, far, 9, 10, 10], 2), 11);
        assert_eq!(beyond_lies(vec![7, 8], 0), 8);
    }

    #[test]
    fn what_a_peer_gave_decides_and_not_what_it_says() {
        let mut worth = Worth::default();
        assert!(!worth.rests() && worth.dearness() == 0);
        for (cost_ms, dearness) in [(0, 0), (15, 0), (16, 1), (31, 1), (32, 2), (15_000, 10)] {
            worth.cost_ms = cost_ms;
            assert_eq!(worth.dearness(), dearness, "{cost_ms} ms");
        }
        worth.rests_until = Some(Instant::now() + LEAST_REST);
        assert!(worth.rests());
    }
}
