//! Makes transactions durable that this node's own users submitted, many with one write, and forgets them when they
//! are in a block or can never be.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use alloy_consensus::Transaction as _;
use alloy_primitives::{Address, B256, Bytes, U256};
use tally_evm::transaction::decode;
use tally_evm::{Recovered, recover_all};
use tally_state::{Batch, Durability, Read, StoreError};

use super::{Node, gather, lock, now_ms};
use crate::error::ChainError;
use crate::pool::Refusal;

/// The most that is written at once.
const MOST: usize = 4_096;
/// How long there is at least from one write to the next: under load what comes meanwhile shares it.
const GATHER: Duration = Duration::from_millis(2);
/// How often transactions are looked through that wait for a nonce.
const EXPIRY: Duration = Duration::from_secs(30);

/// What the keeper is told.
pub(super) enum Told {
    /// Keep a transaction, and say when it is durable.
    Keep { hash: B256, encoded: Bytes, done: Sender<Result<(), StoreError>> },
    /// A transaction is not in the pool any more.
    Forget(B256),
    /// The node stops.
    Stop,
}

pub(super) fn run(node: Node, told: Receiver<Told>) {
    let mut expired = Instant::now();
    let mut written = None;
    loop {
        match told.recv_timeout(EXPIRY) {
            Ok(first) => {
                if let Some(left) = written.and_then(|at: Instant| GATHER.checked_sub(at.elapsed())) {
                    std::thread::sleep(left);
                }
                let all = gather(first, &told, MOST);
                let stop = all.iter().any(|told| matches!(told, Told::Stop));
                keep(&node, all);
                written = Some(Instant::now());
                if stop {
                    return;
                }
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        if expired.elapsed() >= EXPIRY {
            expired = Instant::now();
            expire(&node);
            super::standing::tell(&node, None);
        }
    }
}

fn keep(node: &Node, all: Vec<Told>) {
    let shared = &node.shared;
    let mut batch = Batch::new();
    let mut waiting = Vec::new();
    let result = {
        let mut kept = lock(&shared.kept);
        for told in all {
            match told {
                Told::Keep { hash, encoded, done } => {
                    batch.put(shared.pool_table, hash, &encoded);
                    kept.insert(hash);
                    waiting.push((hash, done));
                }
                Told::Forget(hash) => {
                    if kept.remove(&hash) {
                        batch.delete(shared.pool_table, hash);
                    }
                }
                Told::Stop => {}
            }
        }
        let durability = if waiting.is_empty() { Durability::Buffered } else { Durability::Synced };
        let result =
            if batch.is_empty() { Ok(()) } else { shared.chain.database().commit(batch, durability) };
        if result.is_err() {
            for (hash, _) in &waiting {
                kept.remove(hash);
            }
        }
        result
    };
    if let Err(error) = &result {
        node.failed("keeping transactions", error);
    }
    for (_, done) in waiting {
        // Whoever waited may have gone.
        let _ = done.send(result.clone());
    }
}

fn expire(node: &Node) {
    // The accounts are read without the pool's lock.
    let senders: Vec<Address> = node.pool().senders().collect();
    let head = node.shared.chain.head();
    // An account that cannot be read now is looked at the next time.
    let balances: Vec<(Address, U256)> = senders
        .into_iter()
        .filter_map(|sender| {
            let account = head.branch.view.account(sender).ok()?;
            Some((sender, account.unwrap_or_default().balance))
        })
        .collect();
    {
        let mut pool = node.pool();
        pool.fund(balances);
        pool.expire(now_ms());
    }
    // What expired is no longer of use to keep; what the pool had no room for when the node started is tried again.
    let (gone, outside) = {
        let kept = lock(&node.shared.kept);
        let pool = node.pool();
        let absent = kept.iter().filter(|hash| pool.get(hash).is_none()).copied();
        absent.partition::<Vec<B256>, _>(|hash| pool.fate(hash).is_some())
    };
    if !gone.is_empty() {
        keep(node, gone.into_iter().map(Told::Forget).collect());
    }
    if !outside.is_empty()
        && let Err(error) = node.take_up_kept()
    {
        node.failed("taking up transactions that were kept", &error);
    }
}

impl Node {
    /// Puts the transactions that are kept back into the pool, as far as they are not there. One for which there is no place,
    /// because others of its sender are missing before it for one, stays kept and is tried again.
    pub(super) fn take_up_kept(&self) -> Result<(), ChainError> {
        let shared = &self.shared;
        let mut found = Vec::new();
        let mut batch = Batch::new();
        let snapshot = shared.chain.database().snapshot();
        for entry in snapshot.prefix(shared.pool_table, &[]) {
            let (key, value) = entry?;
            if self.pool().get(&B256::left_padding_from(&key)).is_some() {
                continue;
            }
            match decode(&value) {
                Ok(transaction) => found.push(transaction),
                Err(_) => batch.delete(shared.pool_table, key),
            }
        }
        let mut recovered: Vec<Recovered> =
            recover_all(found, shared.threads).into_iter().filter_map(Result::ok).collect();
        recovered.sort_by_key(|transaction| transaction.nonce());
        // A block is committed under the same lock: what it holds has a used nonce then, or is taken out afterwards.
        let mut kept = lock(&shared.kept);
        let head = shared.chain.head();
        let mut pool = self.pool();
        for transaction in recovered {
            let hash = transaction.hash();
            let account = head.branch.view.account(transaction.sender())?.unwrap_or_default();
            match pool.add(transaction, &account, now_ms()) {
                // Its nonce is used, by itself or by another: no block takes it any more.
                Err(Refusal::NonceTooLow { .. }) => {
                    kept.remove(&hash);
                    batch.delete(shared.pool_table, hash);
                }
                _ => {
                    kept.insert(hash);
                }
            }
        }
        drop((pool, kept));
        if !batch.is_empty() {
            shared.chain.database().commit(batch, Durability::Synced)?;
        }
        Ok(())
    }
}
