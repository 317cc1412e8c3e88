//! Transactions that wait for a block.
//!
//! A transaction that the pool accepted is committed, or the pool can say what became of it ([`Pool::fate`]): it is
//! never dropped without a record. Time and accounts come in as input; the pool itself reads nothing.
//!
//! Within a sender, nonces come in order. Between senders the higher tip goes first, then whoever came first. When the
//! pool is full a newcomer must pay more than what it would push out, else it is refused: where every fee is
//! zero, as on most private networks, what was accepted stays.
//!
//! What no block can take as things are is dormant: what waits for a nonce before it, and all of a sender that can no longer
//! pay for its next one. It costs its sender nothing, so it has a share of the pool of its own and makes room for anything
//! else, those first whose sender has most of it.

mod draw;
mod fate;
mod queue;
mod refusal;
#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::sync::Arc;

use alloy_consensus::Transaction as _;
use alloy_eips::Encodable2718 as _;
use alloy_primitives::map::{AddressMap, B256Map, Entry};
use alloy_primitives::{Address, B256, Bytes, U256};
use tally_evm::Recovered;
use tally_state::Account;

pub use draw::Draw;
pub use fate::{Fate, Fates};
use queue::Queue;
pub use refusal::Refusal;

/// What the pool may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Transactions in all.
    pub transactions: usize,
    /// Bytes of all transactions in their network encoding.
    pub bytes: usize,
    /// Transactions of one sender.
    pub sender: usize,
    /// Transactions of one sender beyond a gap in its nonces.
    pub gapped: usize,
    /// Dormant transactions in all.
    pub dormant: usize,
    /// Bytes of one transaction, as other clients limit it.
    pub transaction_bytes: usize,
    /// How long one may be dormant, in milliseconds.
    pub gap_ms: u64,
    /// By how many percent a replacement must raise both fees; on networks without fees any replacement
    /// is refused, since nothing tells which is wanted.
    pub price_bump: u32,
    /// The least gas price, in wei.
    pub min_gas_price: u128,
    /// Whether legacy transactions without a chain id are refused (EIP-155): another chain's can be sent here too.
    pub replay_protection: bool,
    /// For how long a transaction is refused after which no validators could be told, in milliseconds. The contract
    /// may be another by then.
    pub unfit_ms: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            transactions: 50_000,
            bytes: 64 << 20,
            sender: 10_000,
            gapped: 200,
            dormant: 5_000,
            transaction_bytes: 128 << 10,
            gap_ms: 3 * 3_600_000,
            price_bump: 10,
            min_gas_price: 0,
            replay_protection: true,
            unfit_ms: 600_000,
        }
    }
}

/// What the next block allows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Conditions {
    /// Per unit of gas, in wei; zero before London and on networks without fees.
    pub base_fee: u128,
    /// Gas of a block.
    pub gas_limit: u64,
}

/// A transaction in the pool.
#[derive(Debug)]
pub struct Pooled {
    transaction: Recovered,
    arrival: u64,
    arrived_ms: u64,
    bytes: usize,
    cost: U256,
}

impl Pooled {
    /// The transaction and who sent it.
    pub fn transaction(&self) -> &Recovered {
        &self.transaction
    }

    /// Place in the order of arrival.
    pub fn arrival(&self) -> u64 {
        self.arrival
    }

    /// When it arrived, in milliseconds since 1970.
    pub fn arrived_ms(&self) -> u64 {
        self.arrived_ms
    }

    /// The most it can take from its sender: gas limit times fee, value, blobs; in wei.
    pub fn cost(&self) -> U256 {
        self.cost
    }

    /// The transaction as it is sent.
    pub fn encode(&self) -> Bytes {
        tally_evm::transaction::encode(self.transaction.transaction())
    }

    fn hash(&self) -> B256 {
        self.transaction.hash()
    }

    fn price(&self) -> Price {
        Price {
            fee: self.transaction.max_fee_per_gas(),
            tip: self
                .transaction
                .max_priority_fee_per_gas()
                .unwrap_or_else(|| self.transaction.max_fee_per_gas()),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Price {
    tip: u128,
    fee: u128,
}

impl Price {
    fn effective_tip(self, base_fee: u128) -> Option<u128> {
        self.fee.checked_sub(base_fee).map(|left| left.min(self.tip))
    }
}

/// How a transaction was accepted.
#[derive(Clone, Debug)]
pub struct Added {
    /// The transaction.
    pub transaction: Arc<Pooled>,
    /// Whether it could go into the next block as far as nonces tell.
    pub pending: bool,
    /// What it took the place of.
    pub replaced: Option<B256>,
}

/// A sender's place among those that could be pushed out: the least tip first, then whoever came last.
type Weakest = (Price, Reverse<u64>, Address);

/// A sender's place among those with dormant transactions: how many, and how late the first of them came. Who has most
/// makes room first, and among those with as many who has waited longest.
type Dormant = (usize, Reverse<u64>, Address);

/// The pool; see the module.
#[derive(Debug)]
pub struct Pool {
    limits: Limits,
    conditions: Conditions,
    hashes: B256Map<Arc<Pooled>>,
    senders: AddressMap<Queue>,
    /// The last transaction of each sender: pushing out any other would strand those after it.
    weakest: BTreeSet<Weakest>,
    dormant: BTreeSet<Dormant>,
    dormant_count: usize,
    bytes: usize,
    arrivals: u64,
    fates: Fates,
}

impl Pool {
    /// An empty pool.
    pub fn new(limits: Limits, conditions: Conditions) -> Self {
        Self {
            limits,
            conditions,
            hashes: B256Map::default(),
            senders: AddressMap::default(),
            weakest: BTreeSet::new(),
            dormant: BTreeSet::new(),
            dormant_count: 0,
            bytes: 0,
            arrivals: 0,
            fates: Fates::new(limits.transactions.saturating_mul(2).max(1_000)),
        }
    }

    /// What the pool may hold.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// What the next block allows.
    pub fn conditions(&self) -> Conditions {
        self.conditions
    }

    /// How many transactions there are.
    pub fn len(&self) -> usize {
        self.hashes.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.hashes.is_empty()
    }

    /// Bytes of all transactions in their network encoding.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Transactions that could go into a block, and those that wait for a nonce before them.
    pub fn status(&self) -> (usize, usize) {
        let pending = self.senders.values().map(|queue| queue.pending().count()).sum();
        (pending, self.hashes.len() - pending)
    }

    /// Dormant transactions of all senders; see the module.
    pub fn dormant(&self) -> usize {
        self.dormant_count
    }

    /// The transaction with this hash.
    pub fn get(&self, hash: &B256) -> Option<&Arc<Pooled>> {
        self.hashes.get(hash)
    }

    /// What became of a transaction that is no longer here; `None` when it never was, or long ago.
    pub fn fate(&self, hash: &B256) -> Option<&Fate> {
        self.fates.get(hash)
    }

    /// The nonce that the sender's next transaction must carry, were all that wait committed; `None` when nothing of
    /// the sender waits.
    pub fn next_nonce(&self, sender: &Address) -> Option<u64> {
        self.senders.get(sender).map(Queue::next_nonce)
    }

    /// Transactions of one sender in the order of nonces: those that could go into a block, and those that wait.
    pub fn of(&self, sender: &Address) -> (Vec<Arc<Pooled>>, Vec<Arc<Pooled>>) {
        self.senders.get(sender).map_or_else(Default::default, Queue::split)
    }

    /// Everyone who has a transaction here.
    pub fn senders(&self) -> impl Iterator<Item = Address> + '_ {
        self.senders.keys().copied()
    }

    /// Hashes of all transactions, in no order.
    pub fn hashes(&self) -> impl Iterator<Item = B256> + '_ {
        self.hashes.keys().copied()
    }

    /// Takes a transaction whose form and signature are right. `account` is its sender at the head, `now_ms` the time.
    ///
    /// # Errors
    /// Why it is not accepted; the pool is as it was.
    pub fn add(&mut self, transaction: Recovered, account: &Account, now_ms: u64) -> Result<Added, Refusal> {
        let pooled = self.admit(transaction, account, now_ms)?;
        let sender = pooled.transaction.sender();
        let nonce = pooled.transaction.nonce();
        let replaced = self.senders.get(&sender).and_then(|queue| queue.at(nonce)).cloned();
        match &replaced {
            Some(old) => self.must_outbid(old, &pooled)?,
            None => self.must_fit(&pooled, account)?,
        }
        self.must_cover(&pooled, account, replaced.as_deref())?;
        self.make_room(&pooled, account, replaced.as_deref())?;

        if let Some(old) = &replaced {
            self.remove(&old.hash(), Fate::Replaced { by: pooled.hash() });
        }
        let pooled = Arc::new(pooled);
        self.arrivals += 1;
        self.bytes += pooled.bytes;
        self.fates.forget(&pooled.hash());
        self.hashes.insert(pooled.hash(), Arc::clone(&pooled));
        self.change(sender, account.nonce, |queue| {
            queue.insert(Arc::clone(&pooled));
            queue.fund(account.balance);
        });
        let pending = self.senders.get(&sender).is_some_and(|queue| nonce < queue.next_nonce());
        Ok(Added { transaction: pooled, pending, replaced: replaced.map(|old| old.hash()) })
    }

    fn admit(&self, transaction: Recovered, account: &Account, now_ms: u64) -> Result<Pooled, Refusal> {
        if self.hashes.contains_key(&transaction.hash()) {
            return Err(Refusal::Known);
        }
        if self.limits.replay_protection && transaction.chain_id().is_none() {
            return Err(Refusal::Unprotected);
        }
        if let Some(Fate::NoValidators { reason, at_ms }) = self.fates.get(&transaction.hash()) {
            let again_ms = at_ms.saturating_add(self.limits.unfit_ms).saturating_sub(now_ms);
            if again_ms > 0 {
                return Err(Refusal::NoValidators { reason: reason.clone(), again_ms });
            }
        }
        let bytes = transaction.encode_2718_len();
        if bytes > self.limits.transaction_bytes {
            return Err(Refusal::TooLarge { bytes, limit: self.limits.transaction_bytes });
        }
        if transaction.gas_limit() > self.conditions.gas_limit {
            return Err(Refusal::GasLimit { gas: transaction.gas_limit(), limit: self.conditions.gas_limit });
        }
        let fee = transaction.max_fee_per_gas();
        if fee < self.limits.min_gas_price {
            return Err(Refusal::GasPrice { price: fee, least: self.limits.min_gas_price });
        }
        if transaction.nonce() < account.nonce {
            return Err(Refusal::NonceTooLow { nonce: transaction.nonce(), next: account.nonce });
        }
        if transaction.nonce() == u64::MAX {
            return Err(Refusal::NonceTooHigh);
        }
        let cost = cost(&transaction);
        if cost > account.balance {
            return Err(Refusal::Funds { balance: account.balance, cost });
        }
        Ok(Pooled { transaction, arrival: self.arrivals, arrived_ms: now_ms, bytes, cost })
    }

    fn must_outbid(&self, old: &Pooled, new: &Pooled) -> Result<(), Refusal> {
        let raised = |price: u128| -> Option<u128> {
            let bump = price.checked_mul(u128::from(self.limits.price_bump))?.div_ceil(100);
            // A bump of zero would let anyone replace for nothing.
            price.checked_add(bump.max(1))
        };
        let (old, new) = (old.price(), new.price());
        if raised(old.fee).is_some_and(|fee| new.fee >= fee)
            && raised(old.tip).is_some_and(|tip| new.tip >= tip)
        {
            Ok(())
        } else {
            Err(Refusal::Underpriced { fee: new.fee, waiting: old.fee, bump: self.limits.price_bump })
        }
    }

    fn must_fit(&self, new: &Pooled, account: &Account) -> Result<(), Refusal> {
        let nonce = new.transaction.nonce();
        let (held, next) = self
            .senders
            .get(&new.transaction.sender())
            .map_or((0, account.nonce), |queue| (queue.len(), queue.next_nonce()));
        if held >= self.limits.sender {
            return Err(Refusal::SenderFull { limit: self.limits.sender });
        }
        let gapped = self.senders.get(&new.transaction.sender()).map_or(0, Queue::gapped);
        if nonce > next && gapped >= self.limits.gapped {
            return Err(Refusal::TooManyGapped { nonce, next, limit: self.limits.gapped });
        }
        Ok(())
    }

    /// What waits of one sender may not cost more than it has, all together: what it cannot pay for costs it nothing.
    fn must_cover(&self, new: &Pooled, account: &Account, replaced: Option<&Pooled>) -> Result<(), Refusal> {
        let held = self.senders.get(&new.transaction.sender()).map_or(U256::ZERO, Queue::cost);
        let held = held.saturating_sub(replaced.map_or(U256::ZERO, |old| old.cost));
        if held.saturating_add(new.cost) > account.balance {
            return Err(Refusal::Overdraft { balance: account.balance, held, cost: new.cost });
        }
        Ok(())
    }

    /// Pushes out what is dormant, and then what pays less, where the pool is full. A newcomer that is dormant itself pushes
    /// out nothing but what senders have that have more of it.
    fn make_room(
        &mut self,
        new: &Pooled,
        account: &Account,
        replaced: Option<&Pooled>,
    ) -> Result<(), Refusal> {
        let freed = replaced.map_or(0, |old| old.bytes);
        let count = self.hashes.len() - usize::from(replaced.is_some());
        let sender = new.transaction.sender();
        let queue = self.senders.get(&sender);
        let next = queue.map_or(account.nonce, |queue| queue.next_nonce().max(account.nonce));
        let is_dormant = replaced.is_none() && new.transaction.nonce() > next;
        let own = queue.map_or(0, |queue| queue.dormant().count());
        let mut over = Over {
            count: (count + 1).saturating_sub(self.limits.transactions),
            bytes: (self.bytes - freed + new.bytes).saturating_sub(self.limits.bytes),
            dormant: if is_dormant {
                (self.dormant_count + 1).saturating_sub(self.limits.dormant)
            } else {
                0
            },
        };
        if over.is_nothing() {
            return Ok(());
        }
        let mut leaving: Vec<(B256, Fate)> = Vec::new();
        for (most, _, other) in self.dormant.iter().rev() {
            let Some(queue) = self.senders.get(other) else { continue };
            if over.is_nothing() || is_dormant && *most <= own {
                break;
            }
            // Of a newcomer's own, those before it must stay.
            if *other == sender {
                continue;
            }
            let may_leave = if is_dormant { most - own } else { *most };
            for pooled in queue.dormant().rev().take(may_leave) {
                if over.is_nothing() {
                    break;
                }
                over.leaves(pooled, true);
                leaving.push((pooled.hash(), Fate::GaveWay { to: new.hash() }));
            }
        }
        if over.dormant > 0 {
            return Err(Refusal::TooManyDormant { limit: self.limits.dormant });
        }
        for (price, _, weakest) in &self.weakest {
            if over.is_nothing() {
                break;
            }
            // Its own sender's last would leave a gap before it.
            if *price >= new.price() || *weakest == sender {
                continue;
            }
            if let Some(last) = self.senders.get(weakest).and_then(Queue::last)
                && !leaving.iter().any(|(hash, _)| *hash == last.hash())
            {
                over.leaves(last, false);
                leaving.push((last.hash(), Fate::PushedOut { by: new.hash() }));
            }
        }
        if !over.is_nothing() {
            return Err(Refusal::Full { transactions: self.hashes.len(), bytes: self.bytes });
        }
        for (hash, fate) in leaving {
            self.remove(&hash, fate);
        }
        Ok(())
    }

    /// Takes a transaction out, and keeps why.
    pub fn remove(&mut self, hash: &B256, fate: Fate) -> Option<Arc<Pooled>> {
        let pooled = self.hashes.remove(hash)?;
        let sender = pooled.transaction.sender();
        let nonce = pooled.transaction.nonce();
        self.bytes -= pooled.bytes;
        let state_nonce = self.senders.get(&sender).map_or(nonce, Queue::state_nonce);
        self.change(sender, state_nonce, |queue| queue.remove(nonce));
        self.fates.keep(*hash, fate);
        Some(pooled)
    }

    /// A block was committed: takes out what it holds and what it made impossible. `nonces` are the nonces afterwards of those
    /// that sent in it.
    pub fn committed(
        &mut self,
        number: u64,
        hashes: impl IntoIterator<Item = B256>,
        nonces: impl IntoIterator<Item = (Address, u64)>,
        conditions: Conditions,
    ) {
        self.conditions = conditions;
        for hash in hashes {
            self.remove(&hash, Fate::Committed { block: number });
        }
        for (sender, nonce) in nonces {
            let Some(queue) = self.senders.get(&sender) else { continue };
            for stale in queue.below(nonce) {
                self.remove(&stale, Fate::NonceUsed { block: number });
            }
            if self.senders.contains_key(&sender) {
                self.change(sender, nonce, |_| ());
            }
        }
    }

    /// What senders have at the head: all of one that cannot pay for its next transaction is dormant.
    pub fn fund(&mut self, balances: impl IntoIterator<Item = (Address, U256)>) {
        for (sender, balance) in balances {
            if let Some(queue) = self.senders.get(&sender) {
                self.change(sender, queue.state_nonce(), |queue| queue.fund(balance));
            }
        }
    }

    /// Lets go of what was dormant for too long, and gives how many those were.
    pub fn expire(&mut self, now_ms: u64) -> usize {
        let gap_ms = self.limits.gap_ms;
        let late: Vec<B256> = self
            .senders
            .values()
            .flat_map(Queue::dormant)
            .filter(|pooled| now_ms.saturating_sub(pooled.arrived_ms) > gap_ms)
            .map(|pooled| pooled.hash())
            .collect();
        for hash in &late {
            self.remove(hash, Fate::GapNeverFilled);
        }
        late.len()
    }

    /// Applies a change to a sender's queue and keeps its place among the weakest right.
    fn change(&mut self, sender: Address, state_nonce: u64, change: impl FnOnce(&mut Queue)) {
        let mut entry = match self.senders.entry(sender) {
            Entry::Occupied(entry) => entry,
            Entry::Vacant(entry) => entry.insert_entry(Queue::new(state_nonce)),
        };
        let queue = entry.get_mut();
        if let Some(last) = queue.last() {
            self.weakest.remove(&(last.price(), Reverse(last.arrival), sender));
        }
        let dormant = |queue: &Queue| -> Option<Dormant> {
            let first = queue.dormant().next()?;
            Some((queue.dormant().count(), Reverse(first.arrival), sender))
        };
        if let Some(before) = dormant(queue) {
            self.dormant.remove(&before);
            self.dormant_count -= before.0;
        }
        queue.advance(state_nonce);
        change(queue);
        if let Some(after) = dormant(queue) {
            self.dormant.insert(after);
            self.dormant_count += after.0;
        }
        match queue.last() {
            Some(last) => {
                self.weakest.insert((last.price(), Reverse(last.arrival), sender));
            }
            None => {
                entry.remove();
            }
        }
    }
}

/// By how much the pool would be too full.
struct Over {
    count: usize,
    bytes: usize,
    dormant: usize,
}

impl Over {
    fn is_nothing(&self) -> bool {
        self.count == 0 && self.bytes == 0 && self.dormant == 0
    }

    fn leaves(&mut self, pooled: &Pooled, is_dormant: bool) {
        self.count = self.count.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(pooled.bytes);
        self.dormant = self.dormant.saturating_sub(usize::from(is_dormant));
    }
}

fn cost(transaction: &Recovered) -> U256 {
    let gas = U256::from(transaction.gas_limit()).saturating_mul(U256::from(transaction.max_fee_per_gas()));
    let blobs = transaction.max_fee_per_blob_gas().map_or(U256::ZERO, |fee| {
        U256::from(transaction.blob_gas_used().unwrap_or(0)).saturating_mul(U256::from(fee))
    });
    gas.saturating_add(blobs).saturating_add(transaction.value())
}
