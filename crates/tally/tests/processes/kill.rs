//! SIGKILL at random moments under load: what was acknowledged stands, nothing is applied twice, the balances are
//! those of a model, and an audit of the files alone finds nothing.
//!
//! `TALLY_KILLS` sets how often (default 50), `TALLY_SEED` which run. The clients' choices and the moments follow
//! from the seed; what the processes make of it does not, which is the point.

use super::support::{Network, Running};
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tally::client::Client;
use tally::connection::{account_number, now};
use tally::wire::{OutcomeView, Status};
use tally_crypto::{Hash, SigningKey};
use tally_ledger::transaction::{Kind, Terms};
use tally_ledger::{AccountId, AccountNumber, Amount, AssetId, Transaction, TransactionBatch, Uetr};
use tally_settlement::audit::{AuditOptions, audit};
use tally_settlement::path;

const OPENING: i64 = 100_000;
const BANKS: [&str; 2] = ["ALPHDEFF", "BETAFRPP"];
const CUSTOMERS: usize = 4;
const CLIENTS: usize = 4;
/// The largest batch of one request.
const BATCH: u64 = 16;

/// SplitMix64.
#[derive(Clone)]
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }
}

fn plan() -> String {
    let mut plan = String::from(
        r#"
participant = [
    { bic = "TSCBDEFF", name = "O=Central Bank,C=DE", kind = "central-bank" },
    { bic = "ALPHDEFF", name = "O=Alpha,C=DE", kind = "bank", reserves = { EUR = "5000.00" } },
    { bic = "BETAFRPP", name = "O=Beta,C=FR", kind = "bank", reserves = { EUR = "5000.00" } },
]
asset = [{ code = "EUR", exponent = 2, settled_at = "TSCBDEFF" }]
"#,
    );
    for bic in BANKS {
        for customer in 0..CUSTOMERS {
            plan.push_str(&format!(
                "[[account]]\ninstitution = \"{bic}\"\nalias = \"{bic}-{customer}\"\ncurrency = \"EUR\"\nopening = \"1000.00\"\n"
            ));
        }
    }
    plan
}

/// A customer: account and key.
struct Customer {
    account: AccountId,
    key: SigningKey,
}

/// A payment that a client sent, and what it was told.
#[derive(Clone)]
struct Sent {
    transaction: Transaction,
    from: usize,
    to: usize,
    amount: i64,
    told: Option<Told>,
}

/// A final outcome.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Told {
    sequence: u64,
    settled: bool,
}

fn told(outcome: &OutcomeView) -> Option<Told> {
    let sequence = outcome.sequence?;
    Some(Told { sequence, settled: outcome.status == Status::Settled })
}

struct World {
    network: tally_ledger::Network,
    customers: Vec<Customer>,
    sent: Mutex<HashMap<Uetr, Sent>>,
    acknowledged: AtomicU64,
}

impl World {
    fn transaction(&self, random: &mut Random) -> Sent {
        let from = random.below(self.customers.len() as u64) as usize;
        let to = (from + 1 + random.below(self.customers.len() as u64 - 1) as usize) % self.customers.len();
        // Now and then more than anybody has.
        let amount = if random.below(8) == 0 { 10_000_000 } else { 1 + random.below(20_000) as i64 };
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
            expiry: now().plus_ms(3_600_000),
            details: Hash::ZERO,
            seed,
        };
        let mut transaction = Transaction::new(Kind::Transfer, &terms, legs);
        transaction.sign(&payer.key);
        Sent { transaction, from, to, amount, told: None }
    }

    /// Sends batches until told to stop or until the network is gone.
    fn load(&self, client: &Client, mut random: Random, stop: &AtomicBool) {
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

    fn remember(&self, sent: &[Sent]) {
        let mut all = self.sent.lock().unwrap();
        all.extend(sent.iter().map(|sent| (sent.transaction.header.uetr, sent.clone())));
    }

    fn acknowledge(&self, uetr: &Uetr, outcome: &OutcomeView) {
        assert_ne!(outcome.status, Status::Pending, "{outcome:?}");
        let told = told(outcome).unwrap_or_else(|| panic!("a payment in order is decided: {outcome:?}"));
        let mut all = self.sent.lock().unwrap();
        let known = all.get_mut(uetr).unwrap().told.replace(told);
        assert!(known.is_none_or(|known| known == told), "{uetr}: {known:?} became {told:?}");
    }

    /// After a restart: what clients were not told is found out; some of it, and some of what they were told, is
    /// sent once more. All that was told stands.
    fn settle_accounts(&self, client: &Client, random: &mut Random, round: &Round) {
        let (mut unknown, mut known) = (Vec::new(), Vec::new());
        for (uetr, sent) in self.sent.lock().unwrap().iter() {
            match sent.told {
                None => unknown.push(*uetr),
                Some(told) => known.push((*uetr, told)),
            }
        }
        unknown.sort();
        known.sort_by_key(|(_, told)| told.sequence);
        // Everything of this round, and some of what is older.
        let older = known.partition_point(|(_, told)| told.sequence < round.first_sequence);
        let mut checked: Vec<_> = known[older..].to_vec();
        checked.extend((0..round.samples.min(older)).map(|_| known[random.below(older as u64) as usize]));
        for (uetr, told_before) in &checked {
            let found = client.status(&uetr.to_string()).unwrap();
            assert_eq!(told(&found), Some(*told_before), "{uetr} was acknowledged otherwise");
        }
        let again: Vec<Uetr> = unknown
            .iter()
            .copied()
            .filter(|_| random.below(2) == 0)
            .chain(checked.iter().take(16).map(|(uetr, _)| *uetr))
            .collect();
        if !again.is_empty() {
            let all = self.sent.lock().unwrap();
            let batch = batch(again.iter().map(|uetr| &all[uetr].transaction));
            drop(all);
            for (uetr, outcome) in again.iter().zip(client.submit(&batch).unwrap().outcomes) {
                self.acknowledge(uetr, &outcome);
            }
        }
        for uetr in unknown.iter().filter(|uetr| !again.contains(uetr)) {
            match decided(client, uetr) {
                Some(outcome) => self.acknowledge(uetr, &outcome),
                // It never arrived, and nobody will send it again.
                None => drop(self.sent.lock().unwrap().remove(uetr)),
            }
        }
    }

    /// Replays what was settled, in its order, and compares with what the network says.
    fn compare(&self, client: &Client) {
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

/// What is checked after one kill.
struct Round {
    first_sequence: u64,
    samples: usize,
}

fn batch<'a>(transactions: impl Iterator<Item = &'a Transaction>) -> TransactionBatch {
    let mut batch = TransactionBatch::default();
    for transaction in transactions {
        assert!(batch.push(transaction));
    }
    batch
}

/// The outcome of a transaction that may have arrived; waits while it is under way.
fn decided(client: &Client, uetr: &Uetr) -> Option<OutcomeView> {
    loop {
        match client.status(&uetr.to_string()) {
            Ok(outcome) if outcome.status == Status::Pending => std::thread::yield_now(),
            Ok(outcome) => return Some(outcome),
            Err(error) => {
                let refused = error.downcast_ref::<tally::client::Refused>();
                assert_eq!(refused.map(|refused| refused.status), Some(404), "{error:#}");
                return None;
            }
        }
    }
}

/// Kills the network after so many more acknowledgements and a moment.
fn kill_under_load(world: &Arc<World>, running: Running<'_>, random: &mut Random) {
    let client = running.client();
    let stop = Arc::new(AtomicBool::new(false));
    let enough = world.acknowledged.load(Ordering::Relaxed) + random.below(600);
    let clients: Vec<_> = (0..CLIENTS)
        .map(|_| {
            let (world, client, stop) = (Arc::clone(world), client.clone(), Arc::clone(&stop));
            let random = Random(random.next());
            std::thread::spawn(move || world.load(&client, random, &stop))
        })
        .collect();
    while world.acknowledged.load(Ordering::Relaxed) < enough && !clients.iter().any(|c| c.is_finished()) {
        std::thread::yield_now();
    }
    let moment = Instant::now() + Duration::from_micros(random.below(8_000));
    while Instant::now() < moment {
        std::hint::spin_loop();
    }
    running.kill();
    stop.store(true, Ordering::Relaxed);
    for client in clients {
        client.join().unwrap();
    }
}

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().map_or(default, |text| text.parse().unwrap())
}

#[test]
fn nothing_acknowledged_is_lost_however_often_the_process_is_killed() {
    let (kills, seed) = (number("TALLY_KILLS", 50), number("TALLY_SEED", 1));
    let mut random = Random(seed);
    let network = Network::of(&plan());
    let configuration = tally::configuration::Configuration::read(&network.layout(), &[]).unwrap();
    let ledger = configuration.network().unwrap();
    let passphrase = tally::passphrase::of_network(&network.layout(), None).unwrap();
    let mut customers = Vec::new();
    for bic in BANKS {
        for customer in 0..CUSTOMERS {
            let key = tally::keys::read(
                &network.layout().customer_keys(),
                &format!("{bic}-{customer}"),
                &passphrase,
            );
            let (participant, _) = ledger.participant(bic).unwrap();
            let number = account_number(&ledger, &customer.to_string()).unwrap();
            assert_eq!(number, AccountNumber(customer as u32));
            customers.push(Customer { account: AccountId { participant, number }, key: key.unwrap() });
        }
    }
    let world = Arc::new(World {
        network: ledger.clone(),
        customers,
        sent: Mutex::default(),
        acknowledged: AtomicU64::new(0),
    });
    let ledger = Arc::new(ledger);
    let mut first_sequence = 0;
    for kill in 0..kills {
        let mut running = network.start(&[]);
        if random.below(8) == 0 {
            // While it recovers, or just before or after.
            let moment = Instant::now() + Duration::from_micros(random.below(30_000));
            while Instant::now() < moment {
                std::hint::spin_loop();
            }
            running.kill();
            running = network.start(&[]);
        }
        assert!(running.listens(), "kill {kill} of seed {seed}: the network does not recover");
        let client = running.client();
        world.settle_accounts(&client, &mut random, &Round { first_sequence, samples: 50 });
        world.compare(&client);
        first_sequence = client.network().unwrap().sequence;
        kill_under_load(&world, running, &mut random);
        let report = audit(&network.directory, &ledger, AuditOptions { signatures: false });
        let report = report.unwrap_or_else(|finding| panic!("kill {kill} of seed {seed}: {finding:?}"));
        let acknowledged = world.sent.lock().unwrap().values().filter(|sent| sent.told.is_some()).count();
        assert!(report.sequenced >= acknowledged as u64, "kill {kill} of seed {seed}: decisions are missing");
    }
    let running = network.run();
    let client = running.client();
    world.settle_accounts(&client, &mut random, &Round { first_sequence: 0, samples: 0 });
    world.compare(&client);
    assert_eq!(running.stop().code, Some(0));
    let report = audit(&network.directory, &ledger, AuditOptions { signatures: true }).unwrap();
    let sent = world.sent.lock().unwrap();
    let settled = sent.values().filter(|sent| sent.told.is_some_and(|told| told.settled)).count();
    println!("{kills} kills: {} payments, {settled} settled, {} records", sent.len(), report.tree_size);
    assert_eq!(report.undecided, 0);
    assert!(sent.len() as u64 > kills, "there was load");
    // The opening, and what the clients sent: nothing else, and nothing twice.
    let opening = 2 + 2 * BANKS.len() as u64 * CUSTOMERS as u64;
    assert_eq!(report.sequenced, opening + sent.len() as u64);
}
