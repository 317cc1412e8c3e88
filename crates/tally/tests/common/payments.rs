//! Customers who pay each other, what they were told, and a model of what must follow.

use std::collections::{BTreeMap, HashMap};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use tally::client::Client;
use tally::connection::now;
use tally::layout::Layout;
use tally_crypto::{Hash, SigningKey};
use tally_gateway::account_name::account_number;
use tally_gateway::wire::{OutcomeView, Status};
use tally_ledger::transaction::{Kind, Terms};
use tally_ledger::{AccountId, AccountNumber, Amount, AssetId, Transaction, TransactionBatch, Uetr};
use tally_settlement::path;

pub(crate) const OPENING: i64 = 100_000;
pub(crate) const BANKS: [&str; 2] = ["ALPHDEFF", "BETAFRPP"];
pub(crate) const CUSTOMERS: usize = 4;
/// The largest batch of one request.
const BATCH: u64 = 16;

/// SplitMix64.
#[derive(Clone)]
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }
}

pub(crate) fn plan() -> String {
    plan_of(CUSTOMERS)
}

/// A network of two banks with so many customers each. A bank's reserves are more than its customers have.
pub(crate) fn plan_of(customers: usize) -> String {
    plan_among(&BANKS, customers)
}

/// A network of those banks, which settle at a central bank.
pub(crate) fn plan_among(banks: &[&str], customers: usize) -> String {
    let mut plan = String::from(
        "participant = [\n{ bic = \"TSCBDEFF\", name = \"O=Central Bank,C=DE\", kind = \"central-bank\" },\n",
    );
    for bic in banks {
        plan.push_str(&format!(
            "{{ bic = \"{bic}\", name = \"O={bic},C={}\", kind = \"bank\", reserves = {{ EUR = \"50000.00\" }} }},\n",
            &bic[4..6]
        ));
    }
    plan.push_str("]\nasset = [{ code = \"EUR\", exponent = 2, settled_at = \"TSCBDEFF\" }]\n");
    for bic in banks {
        for customer in 0..customers {
            plan.push_str(&format!(
                "[[account]]\ninstitution = \"{bic}\"\nalias = \"{bic}-{customer}\"\ncurrency = \"EUR\"\nopening = \"1000.00\"\n"
            ));
        }
    }
    plan
}

/// A customer: account and key.
pub(crate) struct Customer {
    pub(crate) account: AccountId,
    pub(crate) key: SigningKey,
}

/// A payment that a client sent, and what it was told.
#[derive(Clone)]
pub(crate) struct Sent {
    pub(crate) transaction: Transaction,
    pub(crate) from: usize,
    pub(crate) to: usize,
    pub(crate) amount: i64,
    pub(crate) told: Option<Told>,
}

/// A final outcome.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Told {
    pub(crate) sequence: u64,
    pub(crate) settled: bool,
}

pub(crate) fn told(outcome: &OutcomeView) -> Option<Told> {
    let sequence = outcome.sequence?;
    Some(Told { sequence, settled: outcome.status == Status::Settled })
}

pub(crate) struct World {
    pub(crate) network: tally_ledger::Network,
    pub(crate) customers: Vec<Customer>,
    /// Customers pay within their group; how many groups there are.
    pub(crate) groups: usize,
    pub(crate) sent: Mutex<HashMap<Uetr, Sent>>,
    pub(crate) acknowledged: AtomicU64,
}

impl World {
    /// The customers of [`plan`]'s network in that directory.
    pub(crate) fn new(layout: &Layout) -> Self {
        Self::of(layout, CUSTOMERS, 1)
    }

    /// The customers of the network of [`plan_of`] so many, in so many groups.
    pub(crate) fn of(layout: &Layout, each: usize, groups: usize) -> Self {
        Self::among(layout, &BANKS, each, groups)
    }

    /// The customers of the network of [`plan_among`] those banks.
    pub(crate) fn among(layout: &Layout, banks: &[&str], each: usize, groups: usize) -> Self {
        let configuration = tally::configuration::Configuration::read(layout, &[]).unwrap();
        let network = configuration.network().unwrap();
        let passphrase = tally::passphrase::of_network(layout, None).unwrap();
        let mut customers = Vec::new();
        for bic in banks {
            for customer in 0..each {
                let name = format!("{bic}-{customer}");
                let key = tally::keys::read(&layout.customer_keys(), &name, &passphrase).unwrap();
                let (participant, _) = network.participant(bic).unwrap();
                let number = account_number(&network, &customer.to_string()).unwrap();
                assert_eq!(number, AccountNumber(customer as u32));
                customers.push(Customer { account: AccountId { participant, number }, key });
            }
        }
        Self { network, customers, groups, sent: Mutex::default(), acknowledged: AtomicU64::new(0) }
    }

    /// How many payments there are, and how many of them were made.
    pub(crate) fn counts(&self) -> (usize, usize) {
        let sent = self.sent.lock().unwrap();
        let settled = sent.values().filter(|sent| sent.told.is_some_and(|told| told.settled)).count();
        (sent.len(), settled)
    }

    pub(crate) fn transaction(&self, random: &mut Random) -> Sent {
        let from = random.below(self.customers.len() as u64) as usize;
        let others = self.customers.len() / self.groups - 1;
        let step = self.groups * (1 + random.below(others as u64) as usize);
        let to = (from + step) % self.customers.len();
        // Now and then more than anybody has.
        let amount = if random.below(8) == 0 { 10_000_000 } else { 1 + random.below(20_000) as i64 };
        self.payment(random, (from, to), amount, 3_600_000)
    }

    /// A payment that may be decided for so long.
    pub(crate) fn payment(
        &self,
        random: &mut Random,
        (from, to): (usize, usize),
        amount: i64,
        valid_ms: u64,
    ) -> Sent {
        let (payer, payee) = (&self.customers[from], &self.customers[to]);
        let legs = path::payment(&self.network, payer.account, payee.account, AssetId(0), Amount(amount));
        let mut uetr = [0; 16];
        uetr[..8].copy_from_slice(&random.next().to_le_bytes());
        uetr[8..].copy_from_slice(&random.next().to_le_bytes());
        let mut seed = [0; 16];
        seed[..8].copy_from_slice(&random.next().to_le_bytes());
        let terms = Terms {
            network: self.network.id,
            uetr: Uetr(uetr),
            expiry: now().plus_ms(valid_ms),
            details: Hash::ZERO,
            seed,
        };
        let mut transaction = Transaction::new(Kind::Transfer, &terms, legs);
        transaction.sign(&self.network.id, &payer.key);
        Sent { transaction, from, to, amount, told: None }
    }

    /// Sends batches until told to stop or until the network is gone.
    pub(crate) fn load(&self, client: &Client, mut random: Random, stop: &AtomicBool) {
        while !stop.load(Ordering::Relaxed) {
            let sent: Vec<Sent> = (0..=random.below(BATCH)).map(|_| self.transaction(&mut random)).collect();
            let batch = batch(sent.iter().map(|sent| &sent.transaction));
            // Remembered before they are sent: what becomes of them is to be found out in any case.
            self.remember(&sent);
            let Ok(body) = client.submit(&batch) else { return };
            for (sent, outcome) in sent.iter().zip(&body.outcomes) {
                self.acknowledge(&sent.transaction.header.uetr, outcome);
            }
            self.acknowledged.fetch_add(sent.len() as u64, Ordering::Relaxed);
        }
    }

    pub(crate) fn remember(&self, sent: &[Sent]) {
        let mut all = self.sent.lock().unwrap();
        all.extend(sent.iter().map(|sent| (sent.transaction.header.uetr, sent.clone())));
    }

    pub(crate) fn acknowledge(&self, uetr: &Uetr, outcome: &OutcomeView) {
        if outcome.status == Status::Pending {
            return;
        }
        let told = told(outcome).unwrap_or_else(|| panic!("a payment in order is decided: {outcome:?}"));
        let mut all = self.sent.lock().unwrap();
        let known = all.get_mut(uetr).unwrap().told.replace(told);
        assert!(known.is_none_or(|known| known == told), "{uetr}: {known:?} became {told:?}");
    }

    /// Replays what was settled, in its order, and compares with what the network says.
    pub(crate) fn compare(&self, client: &Client) {
        let mut order: BTreeMap<u64, Sent> = BTreeMap::new();
        for sent in self.sent.lock().unwrap().values() {
            let told = sent.told.expect("everything is known by now");
            let before = order.insert(told.sequence, sent.clone());
            assert!(before.is_none(), "two payments have sequence number {}", told.sequence);
        }
        let mut balances = vec![OPENING; self.customers.len()];
        for (sequence, sent) in &order {
            if sent.told.is_some_and(|told| told.settled) {
                balances[sent.from] -= sent.amount;
                balances[sent.to] += sent.amount;
                assert!(balances[sent.from] >= 0, "an overdraft at sequence number {sequence}");
            }
        }
        for (customer, balance) in self.customers.iter().zip(&balances) {
            let bic = &self.network.participants[customer.account.participant.index()].bic;
            let body = client.account(bic, &customer.account.number.0.to_string()).unwrap();
            assert_eq!(body.minor_units, *balance, "{}", customer.account);
        }
    }
}

pub(crate) fn batch<'a>(transactions: impl Iterator<Item = &'a Transaction>) -> TransactionBatch {
    let mut batch = TransactionBatch::default();
    for transaction in transactions {
        assert!(batch.push(transaction));
    }
    batch
}
