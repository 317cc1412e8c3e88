//! Takes transactions from peers and offers new ones to them.
//!
//! What this node's users submit goes to every peer in full. What came from a peer is offered to the others by hash,
//! and they ask for it if it has not reached them some other way after a moment.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use alloy_consensus::Transaction as _;
use alloy_primitives::map::{AddressMap, B256Map};
use alloy_primitives::{Address, B256, Bytes, keccak256};
use tally_evm::recover_all;
use tally_evm::transaction::decode;

use super::post::blame;
use super::{Node, gather, lock, now_ms};
use crate::protocol::{self, GET_TRANSACTIONS, HASHES, HASHES_COUNT, Hashes, TRANSACTIONS, Transactions};

/// How long new transactions gather before they are sent on.
const GATHER: Duration = Duration::from_millis(10);
/// How long an offered transaction may come in full by itself.
const PATIENCE: Duration = Duration::from_millis(300);
/// How long an answer may take.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Bytes of one message of transactions.
const MESSAGE_BYTES: usize = 512 << 10;
/// How often it is looked whether a transaction of this node's users waits for long.
const LOOK: Duration = Duration::from_secs(1);
/// The longest time after which such a transaction is offered again: the waits double up to it.
const SELDOM_MS: u64 = 32_000;
/// The most hashes of offered transactions that are remembered.
const WANTED: usize = 65_536;

/// What this thread is told.
pub(super) enum Told {
    /// One of this node's users submitted a transaction.
    Own { encoded: Bytes },
    /// A peer sent transactions.
    Transactions { from: Address, payload: Bytes },
    /// A peer offers transactions.
    Hashes { from: Address, payload: Bytes },
    /// A peer is there.
    Connected(Address),
    /// A peer is gone.
    Disconnected(Address),
    /// The node stops.
    Stop,
}

struct Gossip {
    node: Node,
    own: Vec<Bytes>,
    own_bytes: usize,
    /// New here, and who sent it.
    fresh: Vec<(B256, Address)>,
    wanted: B256Map<(Address, Instant)>,
    fetch: Sender<(Address, Vec<B256>)>,
}

pub(super) fn run(node: Node, told: Receiver<Told>) {
    let (fetch, to_fetch) = channel();
    let fetching = node.clone();
    node.spawn("fetch", to_fetch, |_, asked| run_fetch(fetching, asked));
    let mut gossip =
        Gossip { node, own: Vec::new(), own_bytes: 0, fresh: Vec::new(), wanted: B256Map::default(), fetch };
    let mut pace = Pace::from(Instant::now());
    loop {
        match told.recv_timeout(pace.next().saturating_duration_since(Instant::now())) {
            Ok(first) => {
                if !gossip.take(gather(first, &told, 1_024)) {
                    return;
                }
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        let now = Instant::now();
        if pace.is_time_to_send(now, gossip.gathered()) {
            gossip.send();
        }
        if pace.is_time_to_ask(now) {
            gossip.ask();
        }
        if pace.is_time_to_look(now) {
            gossip.offer_again();
        }
    }
}

/// When what is gathered is sent, and when what did not come is asked for.
#[derive(Debug)]
struct Pace {
    /// Counted from the first of what is gathered: however much follows it, it does not wait for longer.
    send_at: Option<Instant>,
    ask_at: Instant,
    look_at: Instant,
}

/// What is there to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Gathered {
    Nothing,
    Something,
    /// Enough for a message.
    Full,
}

impl Pace {
    fn from(begin: Instant) -> Self {
        Self { send_at: None, ask_at: begin + PATIENCE, look_at: begin + LOOK }
    }

    fn next(&self) -> Instant {
        let regular = self.ask_at.min(self.look_at);
        self.send_at.map_or(regular, |at| at.min(regular))
    }

    fn is_time_to_send(&mut self, now: Instant, gathered: Gathered) -> bool {
        let send = match (gathered, self.send_at) {
            (Gathered::Nothing, _) => false,
            (Gathered::Something, None) => {
                self.send_at = Some(now + GATHER);
                false
            }
            (Gathered::Something, Some(at)) => at <= now,
            (Gathered::Full, _) => true,
        };
        if send {
            self.send_at = None;
        }
        send
    }

    fn is_time_to_ask(&mut self, now: Instant) -> bool {
        let ask = self.ask_at <= now;
        if ask {
            self.ask_at = now + PATIENCE / 3;
        }
        ask
    }

    fn is_time_to_look(&mut self, now: Instant) -> bool {
        let look = self.look_at <= now;
        if look {
            self.look_at = now + LOOK;
        }
        look
    }
}

/// Whether a transaction that has waited for so long is due to be offered again since it was last looked at: after 2, 4, 8,
/// 16 and 32 seconds, then every 32.
fn is_due_again(waited_ms: u64) -> bool {
    let look_ms = u64::try_from(LOOK.as_millis()).unwrap_or(u64::MAX);
    let before_ms = waited_ms.saturating_sub(look_ms);
    let passed = |ms: u64| before_ms < ms && ms <= waited_ms;
    if waited_ms < 2 * SELDOM_MS {
        [2_000, 4_000, 8_000, 16_000, SELDOM_MS].into_iter().any(passed)
    } else {
        before_ms / SELDOM_MS < waited_ms / SELDOM_MS
    }
}

/// Asks peers for transactions and waits for their answers.
fn run_fetch(node: Node, asked: Receiver<(Address, Vec<B256>)>) {
    while let Ok((peer, hashes)) = asked.recv() {
        let Some(network) = node.network() else { return };
        let request = protocol::encode(&Hashes { hashes });
        if let Ok(payload) = network.request(&peer, GET_TRANSACTIONS, request, TIMEOUT).wait() {
            node.shared.received.enter(payload.len(), || node.is_stopping());
            let _ = node.shared.gossip.send(Told::Transactions { from: peer, payload: payload.into() });
        }
    }
}

impl Gossip {
    fn is_known(&self, hash: &B256) -> bool {
        let pool = self.node.pool();
        pool.get(hash).is_some() || pool.fate(hash).is_some()
    }

    fn offered(&mut self, from: Address, payload: &Bytes) {
        let offered: Hashes = match protocol::decode("hashes", payload) {
            Ok(offered) => offered,
            Err(error) => return blame(&self.node, from, &error),
        };
        for hash in offered.hashes.into_iter().take(HASHES_COUNT) {
            if self.wanted.len() < WANTED && !self.is_known(&hash) {
                self.wanted.entry(hash).or_insert_with(|| (from, Instant::now()));
            }
        }
    }

    /// Whether to go on.
    fn take(&mut self, all: Vec<Told>) -> bool {
        let mut received = Vec::new();
        for told in all {
            match told {
                Told::Own { encoded } => {
                    self.own_bytes += encoded.len();
                    self.own.push(encoded);
                }
                Told::Transactions { from, payload } => {
                    self.node.shared.received.leave(payload.len());
                    received.push((from, payload));
                }
                Told::Hashes { from, payload } => self.offered(from, &payload),
                Told::Connected(peer) => self.introduce(peer),
                Told::Disconnected(peer) => self.wanted.retain(|_, (from, _)| *from != peer),
                Told::Stop => return false,
            }
        }
        self.receive(received);
        true
    }

    fn gathered(&self) -> Gathered {
        if self.own_bytes >= MESSAGE_BYTES || self.fresh.len() >= HASHES_COUNT {
            Gathered::Full
        } else if self.own.is_empty() && self.fresh.is_empty() {
            Gathered::Nothing
        } else {
            Gathered::Something
        }
    }

    fn receive(&mut self, received: Vec<(Address, Bytes)>) {
        let mut senders = Vec::new();
        let mut transactions = Vec::new();
        for (from, payload) in received {
            let message: Transactions = match protocol::decode("transactions", &payload) {
                Ok(message) => message,
                Err(error) => {
                    blame(&self.node, from, &error);
                    continue;
                }
            };
            for encoded in message.transactions {
                let hash = keccak256(&encoded);
                self.wanted.remove(&hash);
                if self.is_known(&hash) {
                    continue;
                }
                match decode(&encoded) {
                    Ok(transaction) => {
                        senders.push(from);
                        transactions.push(transaction);
                    }
                    Err(error) => {
                        blame(&self.node, from, &error);
                        break;
                    }
                }
            }
        }
        let recovered = recover_all(transactions, self.node.shared.threads);
        for (recovered, from) in recovered.into_iter().zip(senders) {
            match recovered {
                // What is refused here may be right for the peer, whose head is another.
                Ok(transaction) => {
                    if let Ok(added) = self.node.accept(transaction) {
                        self.fresh.push((added.transaction().hash(), from));
                    }
                }
                Err(error) => blame(&self.node, from, &error),
            }
        }
    }

    /// Tells peers of what is new.
    fn send(&mut self) {
        let own = std::mem::take(&mut self.own);
        self.own_bytes = 0;
        let fresh = std::mem::take(&mut self.fresh);
        let Some(network) = self.node.network() else { return };
        let mut message = Transactions::default();
        let mut bytes = 0;
        let flush = |message: &mut Transactions| {
            if !message.transactions.is_empty() {
                // A peer whose queue is full hears of them from others, or when it connects again.
                network.broadcast(TRANSACTIONS, &protocol::encode(message));
                message.transactions.clear();
            }
        };
        for encoded in own {
            if bytes + encoded.len() > MESSAGE_BYTES {
                flush(&mut message);
                bytes = 0;
            }
            bytes += encoded.len();
            message.transactions.push(encoded);
        }
        flush(&mut message);
        if fresh.is_empty() {
            return;
        }
        for peer in network.peers() {
            let hashes: Vec<B256> =
                fresh.iter().filter(|(_, from)| *from != peer.peer).map(|(hash, _)| *hash).collect();
            for hashes in hashes.chunks(HASHES_COUNT) {
                let _ =
                    network.send(&peer.peer, HASHES, protocol::encode(&Hashes { hashes: hashes.to_vec() }));
            }
        }
    }

    /// Asks for what was offered and has not come.
    fn ask(&mut self) {
        let mut ripe: AddressMap<Vec<B256>> = AddressMap::default();
        let late: Vec<B256> = self
            .wanted
            .iter()
            .filter(|(_, (_, since))| since.elapsed() >= PATIENCE)
            .map(|(hash, _)| *hash)
            .collect();
        for hash in late {
            if let Some((from, _)) = self.wanted.remove(&hash)
                && !self.is_known(&hash)
            {
                ripe.entry(from).or_default().push(hash);
            }
        }
        for (peer, hashes) in ripe {
            for hashes in hashes.chunks(HASHES_COUNT) {
                let _ = self.fetch.send((peer, hashes.to_vec()));
            }
        }
    }

    /// Offers peers what this node's own users submitted and what still waits after a while. A peer that could not take it
    /// then, because transactions of its sender were missing before it or there was no room, knows nothing of it.
    fn offer_again(&self) {
        let Some(network) = self.node.network() else { return };
        let now_ms = now_ms();
        let mut waiting: Vec<(u64, B256)> = {
            let kept = lock(&self.node.shared.kept);
            let pool = self.node.pool();
            let waits = kept.iter().filter_map(|hash| pool.get(hash));
            waits
                .filter(|pooled| is_due_again(now_ms.saturating_sub(pooled.arrived_ms())))
                .map(|pooled| (pooled.transaction().nonce(), pooled.transaction().hash()))
                .collect()
        };
        // Those that others wait for come first.
        waiting.sort_unstable();
        for part in waiting.chunks(HASHES_COUNT) {
            let hashes = part.iter().map(|(_, hash)| *hash).collect();
            network.broadcast(HASHES, &protocol::encode(&Hashes { hashes }));
        }
    }

    /// Offers a peer that has connected what waits here.
    fn introduce(&self, peer: Address) {
        let Some(network) = self.node.network() else { return };
        let hashes: Vec<B256> = self.node.pool().hashes().take(4 * HASHES_COUNT).collect();
        for hashes in hashes.chunks(HASHES_COUNT) {
            let _ = network.send(&peer, HASHES, protocol::encode(&Hashes { hashes: hashes.to_vec() }));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_of_what_is_gathered_waits_a_moment_only_however_much_follows() {
        let begin = Instant::now();
        let at = |ms| begin + Duration::from_millis(ms);
        let mut pace = Pace::from(begin);
        assert!(!pace.is_time_to_send(at(0), Gathered::Nothing));
        assert_eq!(pace.next(), begin + PATIENCE);
        let sent: Vec<u64> =
            (1..=25).filter(|ms| pace.is_time_to_send(at(*ms), Gathered::Something)).collect();
        assert_eq!(sent, [11, 22], "one comes each millisecond");
        assert_eq!(pace.next(), at(23) + GATHER);
        assert!(pace.is_time_to_send(at(26), Gathered::Full));
        assert_eq!(pace.send_at, None);
    }

    #[test]
    fn what_waits_is_offered_again_less_and_less_often() {
        let seconds: Vec<u64> = (0..=140).filter(|second| is_due_again(second * 1_000 + 17)).collect();
        assert_eq!(seconds, [2, 4, 8, 16, 32, 64, 96, 128]);
    }

    #[test]
    fn what_did_not_come_is_asked_for_although_other_things_come_all_the_time() {
        let begin = Instant::now();
        let mut pace = Pace::from(begin);
        let asked = (0..=900).filter(|ms| pace.is_time_to_ask(begin + Duration::from_millis(*ms)));
        assert_eq!(asked.collect::<Vec<_>>(), [300, 400, 500, 600, 700, 800, 900]);
    }
}
