//! Senders of transactions who go on whatever happens to nodes, and remember what they were told.

use super::client::{Client, Unanswered};
use super::support::{account, submit, transfer};
use alloy_primitives::{Address, B256};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;
use tally_sim::Rng;

/// Who receives what all of them send.
pub(crate) const PAYEE: Address = Address::repeat_byte(0x77);

/// Transactions that were sent, and what their sender was told.
#[derive(Debug, Default)]
pub(crate) struct Sent {
    /// A node gave its word for these.
    pub(crate) acknowledged: Vec<B256>,
    /// Of these, nobody answered, but another node knew them or had them in a block already.
    pub(crate) taken: Vec<B256>,
    /// Calls that nobody answered, by what the client saw; the transaction was sent again.
    pub(crate) lost: BTreeMap<String, u64>,
    /// Calls that were refused, in words; the transaction was sent again.
    pub(crate) refused: Vec<String>,
}

/// A sender for each of so many accounts.
pub(crate) struct Load {
    stop: Arc<AtomicBool>,
    acknowledged: Arc<AtomicU64>,
    senders: Vec<JoinHandle<Sent>>,
}

impl Load {
    /// Starts; each sends to any of the nodes, with a moment between.
    pub(crate) fn start(clients: &[Client], senders: u8, pause: Duration, rng: &mut Rng) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let acknowledged = Arc::new(AtomicU64::new(0));
        let senders = (0..senders)
            .map(|number| {
                let (clients, mut rng) = (clients.to_vec(), rng.fork());
                let (stop, acknowledged) = (Arc::clone(&stop), Arc::clone(&acknowledged));
                std::thread::spawn(move || send(number, &clients, pause, &mut rng, &stop, &acknowledged))
            })
            .collect();
        Self { stop, acknowledged, senders }
    }

    /// How many transactions a node has given its word for.
    pub(crate) fn acknowledged(&self) -> u64 {
        assert!(self.senders.iter().all(|sender| !sender.is_finished()), "a sender failed: see above");
        self.acknowledged.load(Ordering::Relaxed)
    }

    /// Ends, and says what was sent.
    pub(crate) fn stop(self) -> Sent {
        self.stop.store(true, Ordering::Relaxed);
        let mut all = Sent::default();
        for sender in self.senders {
            let sent = sender.join().unwrap();
            all.acknowledged.extend(sent.acknowledged);
            all.taken.extend(sent.taken);
            for (why, count) in sent.lost {
                *all.lost.entry(why).or_default() += count;
            }
            all.refused.extend(sent.refused);
        }
        all
    }
}

fn send(
    number: u8,
    clients: &[Client],
    pause: Duration,
    rng: &mut Rng,
    stop: &AtomicBool,
    acknowledged: &AtomicU64,
) -> Sent {
    let key = account(number);
    let mut sent = Sent::default();
    let mut nonce = 0;
    while !stop.load(Ordering::Relaxed) {
        let (hash, encoded) = transfer(&key, nonce, PAYEE);
        match submit(&clients[rng.index(clients.len())], hash, &encoded) {
            Ok(()) => {
                sent.acknowledged.push(hash);
                acknowledged.fetch_add(1, Ordering::Relaxed);
                nonce += 1;
            }
            Err(Unanswered::Refused { message, .. })
                if message.starts_with("already known") || message.starts_with("nonce too low") =>
            {
                sent.taken.push(hash);
                nonce += 1;
            }
            Err(Unanswered::Refused { code, message }) => sent.refused.push(format!("{message} ({code})")),
            Err(Unanswered::Lost(why)) => *sent.lost.entry(why).or_default() += 1,
        }
        std::thread::sleep(pause);
    }
    sent
}
