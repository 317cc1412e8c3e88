//! Settlement workloads: a network for a benchmark, its accounts, and batches of payments.

use std::path::Path;
use std::time::{Duration, Instant};
use tally_crypto::{Hash, SigningKey};
use tally_ledger::batch::{Hashed, Hasher};
use tally_ledger::order::{AccountAction, MAX_RANGE};
use tally_ledger::transaction::{Header, Leg, MAX_LEGS, Signer, Terms};
use tally_ledger::{
    AccountId, AccountNumber, AccountOrder, Amount, Asset, AssetId, AssetKind, Kind, Network, NetworkId,
    Participant, ParticipantId, SignaturePolicy, Timestamp, Transaction, TransactionBatch, Uetr,
};
use tally_settlement::engine::{Engine, EngineError, EngineOptions, Outcome};
use tally_settlement::path;
use tally_sim::Rng;

const EUR: AssetId = AssetId(0);
const CENTRAL: ParticipantId = ParticipantId(0);

/// Between whose customers payments go.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mix {
    /// Two legs in one institution.
    Inside,
    /// Four legs over three institutions: payer's, payee's, central bank.
    Between,
    /// So many of 100 between institutions, the others inside one.
    Mixed(u8),
}

impl Mix {
    /// How many legs a payment has on average.
    pub fn legs(self) -> f64 {
        match self {
            Self::Inside => 2.0,
            Self::Between => 4.0,
            Self::Mixed(between) => 2.0 + 2.0 * f64::from(between) / 100.0,
        }
    }
}

/// What a workload is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Workload {
    /// Between whose customers payments go.
    pub mix: Mix,
    /// Customers' accounts at each of the two banks.
    pub accounts: u32,
    /// Keys of distinct payers, each the owner of one account at each bank; none: payments are unsigned,
    /// as in the published experiment.
    pub payers: u32,
    /// How long a payment is valid: so long its reference is remembered.
    pub validity: Duration,
    /// Makes the same payments again.
    pub seed: u64,
    /// Among how many banks payments inside an institution are spread: 1, only the first has any, or more. There are as many
    /// banks, and two at least.
    pub spread: u16,
}

/// The most banks of a workload's network.
pub const MAX_BANKS: u16 = 24;

/// A network set up for a workload.
pub struct Setup {
    /// The network, running.
    pub engine: Engine,
    /// The institutions' keys.
    pub keys: Vec<SigningKey>,
    /// How long setting up took.
    pub took: Duration,
}

/// A benchmark that cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum WorkloadError {
    /// The network failed.
    #[error("the network under test failed")]
    Engine(#[from] EngineError),
    /// A transaction of the set-up was refused.
    #[error("setting up: {0}")]
    Refused(String),
    /// Something did not come in time.
    #[error("{0} did not come in time")]
    TimedOut(&'static str),
}

fn institution_key(number: usize) -> SigningKey {
    let mut seed = [0x7a; 32];
    seed[..8].copy_from_slice(&(number as u64).to_le_bytes());
    SigningKey::from_seed(seed)
}

/// The network of every benchmark.
const NETWORK: NetworkId = NetworkId(*b"tallystick 2026 benchmark ledger");

/// The key of a payer.
pub fn payer_key(number: u32) -> SigningKey {
    let mut seed = [0x9b; 32];
    seed[..4].copy_from_slice(&number.to_le_bytes());
    SigningKey::from_seed(seed)
}

/// The network of a benchmark: a central bank and that many banks, at least two and at most [`MAX_BANKS`].
pub fn network(signed: bool, validity: Duration, banks: u16) -> (Network, Vec<SigningKey>) {
    let others = (b'C'..).take(usize::from(banks.clamp(2, MAX_BANKS)) - 2);
    let bics = ["BENCDEFF", "ONEBDEFF", "TWOBDEFF"].into_iter().map(String::from);
    let bics: Vec<_> = bics.chain(others.map(|letter| format!("{}BNKDEFF", char::from(letter)))).collect();
    let keys: Vec<_> = (0..bics.len()).map(institution_key).collect();
    let participant = |(bic, key): (String, &SigningKey)| Participant {
        name: format!("CN={bic},O=Benchmark,C=DE"),
        bic,
        key: key.public_key(),
        settlement_floors: Vec::new(),
    };
    let network = Network {
        id: NETWORK,
        participants: bics.into_iter().zip(&keys).map(participant).collect(),
        assets: vec![Asset {
            code: "EUR".into(),
            kind: AssetKind::Currency,
            exponent: 2,
            settled_at: CENTRAL,
            largest_payment: Amount::MAX_LEG,
        }],
        signatures: if signed { SignaturePolicy::Required } else { SignaturePolicy::InstitutionsOnly },
        longest_validity_ms: longest_validity_ms(validity),
    };
    (network, keys)
}

/// Long enough for the set-up, and for clocks that are not exactly together.
fn longest_validity_ms(validity: Duration) -> u64 {
    u64::try_from(validity.as_millis()).unwrap_or(u64::MAX).saturating_add(1_000).max(60_000)
}

/// What each customer's account holds at first, and each bank's settlement account for each of them.
pub const OPENING: i64 = 1_000_000_000;

impl Workload {
    /// Whether payments are signed by their payers.
    pub fn is_signed(&self) -> bool {
        self.payers > 0
    }

    /// Starts a network in `directory`, opens its accounts and issues money to them.
    ///
    /// # Errors
    /// When the network fails or refuses.
    pub fn set_up(
        &self,
        directory: &Path,
        tune: impl FnOnce(&mut EngineOptions),
    ) -> Result<Setup, WorkloadError> {
        let began = Instant::now();
        let (network, keys) = network(self.is_signed(), self.validity, self.spread);
        let mut options = EngineOptions::new(directory.to_owned(), network, keys.clone());
        tune(&mut options);
        let engine = Engine::open(options)?;
        self.opening(engine.network(), &keys, || engine.now(), &mut |transactions| {
            send_to_engine(&engine, transactions)
        })?;
        Ok(Setup { engine, keys, took: began.elapsed() })
    }

    /// Makes what opens the accounts and issues money to them, and gives it to `send` in parts that are each to be
    /// final before the next. All of it falls to the first scheduler.
    ///
    /// # Errors
    /// Those of `send`.
    pub fn opening(
        &self,
        network: &Network,
        keys: &[SigningKey],
        now: impl Fn() -> Timestamp,
        send: &mut dyn FnMut(Vec<Transaction>) -> Result<(), WorkloadError>,
    ) -> Result<(), WorkloadError> {
        let mut rng = Rng::new(self.seed ^ 0x5e70);
        let mut terms = || {
            let (mut uetr, mut seed) = ([0; 16], [0; 16]);
            rng.fill(&mut uetr);
            rng.fill(&mut seed);
            // All of the set-up goes through one scheduler, so that accounts are opened in order.
            uetr[15] = 0;
            Terms {
                network: network.id,
                uetr: Uetr(uetr),
                expiry: now().plus_ms(30_000),
                details: Hash::ZERO,
                seed,
            }
        };
        for bank in (1u16..).map(ParticipantId).take(keys.len() - 1) {
            let key = &keys[bank.index()];
            let mut orders = Vec::new();
            let mut next = 0;
            while next < self.accounts {
                let single = next < self.payers;
                let count = if single { 1 } else { (self.accounts - next).min(MAX_RANGE) };
                let owner = if single { payer_key(next).public_key() } else { key.public_key() };
                let action = AccountAction::Open {
                    count,
                    asset: EUR,
                    owner,
                    floor: Amount::ZERO,
                    alias: String::new(),
                };
                let order = AccountOrder { participant: bank, number: AccountNumber(next), action };
                let mut transaction = Transaction::account(&terms(), order);
                transaction.sign(&network.id, key);
                orders.push(transaction);
                next += count;
            }
            send(orders)?;
            let reserves = OPENING.saturating_mul(i64::from(self.accounts)).min(Amount::MAX_LEG.0);
            let legs = path::issue_reserves(network, bank, EUR, Amount(reserves));
            let mut issue = Transaction::new(Kind::Issue, &terms(), legs);
            issue.sign(&network.id, &keys[0]);
            send(vec![issue])?;
            let numbers: Vec<u32> = (0..self.accounts).collect();
            let mut issues = Vec::new();
            for chunk in numbers.chunks(MAX_LEGS - 1) {
                let leg =
                    |account, amount| Leg { participant: bank, asset: EUR, account, amount: Amount(amount) };
                let mut legs: Vec<Leg> = chunk.iter().map(|n| leg(AccountNumber(*n), OPENING)).collect();
                let total = OPENING * i64::try_from(chunk.len()).expect("a chunk is short");
                legs.push(leg(AccountNumber::issuance(EUR), -total));
                let mut issue = Transaction::new(Kind::Issue, &terms(), legs);
                issue.sign(&network.id, key);
                issues.push(issue);
                if issues.len() == 1 << 14 {
                    send(std::mem::take(&mut issues))?;
                }
            }
            send(issues)?;
        }
        Ok(())
    }
}

fn send_to_engine(engine: &Engine, transactions: Vec<Transaction>) -> Result<(), WorkloadError> {
    let pending = engine.submit(transactions)?;
    for answer in engine.wait(&pending, Duration::from_secs(120)) {
        match answer.outcome {
            Outcome::Final(finality) if finality.verdict.is_ok() => {}
            Outcome::Pending => return Err(WorkloadError::TimedOut("a transaction of the set-up")),
            other => return Err(WorkloadError::Refused(format!("{other:?}"))),
        }
    }
    Ok(())
}

/// Makes batches of payments.
pub struct Generator {
    workload: Workload,
    network: NetworkId,
    schedulers: usize,
    rng: Rng,
    keys: Vec<SigningKey>,
    hasher: Hasher,
    hashed: Hashed,
}

impl Generator {
    /// A generator for a network with that many schedulers.
    pub fn new(workload: &Workload, network: NetworkId, schedulers: usize) -> Self {
        let keys = (0..workload.payers).map(payer_key).collect();
        Self {
            rng: Rng::new(workload.seed),
            workload: workload.clone(),
            network,
            schedulers,
            keys,
            hasher: Hasher::new(&network),
            hashed: Hashed::default(),
        }
    }

    /// `count` payments whose references fall to `scheduler`, made at `now`; signed if the workload is.
    pub fn batch(&mut self, scheduler: usize, count: usize, now: Timestamp) -> TransactionBatch {
        let validity = u64::try_from(self.workload.validity.as_millis()).unwrap_or(u64::MAX);
        let expiry = now.plus_ms(validity);
        let mut batch = TransactionBatch {
            headers: Vec::with_capacity(count),
            seeds: Vec::with_capacity(count),
            legs: Vec::with_capacity(count * 4),
            signers: Vec::new(),
            orders: Vec::new(),
        };
        let payers = if self.workload.is_signed() { self.workload.payers } else { self.workload.accounts };
        let mut signing = Vec::new();
        for _ in 0..count {
            let between = match self.workload.mix {
                Mix::Inside => false,
                Mix::Between => true,
                Mix::Mixed(share) => self.rng.below(100) < u64::from(share),
            };
            let words: [u64; 6] = std::array::from_fn(|_| self.rng.next_u64());
            let below = |word: u64, limit: u32| (((word >> 32) * u64::from(limit)) >> 32) as u32;
            let (from, mut to) = (below(words[4], payers), below(words[5], self.workload.accounts));
            if to == from {
                to = (to + 1) % self.workload.accounts;
            }
            let amount = Amount(1 + (words[4] & 0xff) as i64);
            let mut uetr: [u8; 16] = bytemuck::cast([words[0], words[1]]);
            let at = usize::from(uetr[15]) / self.schedulers * self.schedulers + scheduler;
            uetr[15] =
                u8::try_from(at).unwrap_or_else(|_| u8::try_from(scheduler).expect("schedulers are few"));
            // Its upper half chose the payee.
            let inside = (((words[5] & 0xffff_ffff) * u64::from(self.workload.spread)) >> 32) as u16;
            let from_bank = ParticipantId(1 + if between { (words[5] & 1) as u16 } else { inside });
            let to_bank = if between { ParticipantId(3 - from_bank.0) } else { from_bank };
            let leg = |participant, account, amount| Leg { participant, asset: EUR, account, amount };
            let debit = Amount(-amount.0);
            batch.legs.push(leg(from_bank, AccountNumber(from), debit));
            if between {
                batch.legs.push(leg(CENTRAL, AccountNumber::settlement(EUR, from_bank), debit));
                batch.legs.push(leg(CENTRAL, AccountNumber::settlement(EUR, to_bank), amount));
            }
            batch.legs.push(leg(to_bank, AccountNumber(to), amount));
            batch.headers.push(Header {
                kind: Kind::Transfer.number(),
                legs: if between { 4 } else { 2 },
                participants: if between { 3 } else { 1 },
                signers: 0,
                network: self.network.tag(),
                expiry,
                uetr: Uetr(uetr),
                details: Hash::ZERO,
            });
            batch.seeds.push(bytemuck::cast([words[2], words[3]]));
            if self.workload.is_signed() {
                signing.push(from);
            }
        }
        if !signing.is_empty() {
            self.hasher.hash(&batch, &mut self.hashed);
            for ((from, id), header) in signing.iter().zip(&self.hashed.ids).zip(&mut batch.headers) {
                let key = &self.keys[*from as usize];
                batch.signers.push(Signer { key: key.public_key(), signature: key.sign(id.as_bytes()) });
                header.signers = 1;
            }
        }
        batch
    }
}

/// The account of a customer in a benchmark's network.
pub fn account(bank: u16, number: u32) -> AccountId {
    AccountId { participant: ParticipantId(bank), number: AccountNumber(number) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn payments_inside_are_spread_over_as_many_banks_as_wanted() {
        let validity = Duration::from_secs(60);
        for spread in [1, 4] {
            let (network, keys) = network(false, validity, spread);
            let banks = usize::from(spread.max(2));
            let bics: BTreeSet<_> = network.participants.iter().map(|one| one.bic.as_str()).collect();
            assert_eq!(
                (bics.len(), keys.len()),
                (1 + banks, 1 + banks),
                "each has a name and a key of its own"
            );
            assert!(bics.iter().all(|bic| bic.len() == 8), "{bics:?}");
            let workload = Workload { mix: Mix::Inside, accounts: 50, payers: 0, validity, seed: 1, spread };
            let batch = Generator::new(&workload, network.id, 1).batch(0, 1000, Timestamp(1));
            let mut payments = vec![0; banks + 1];
            for legs in batch.legs.chunks(2) {
                assert_eq!(legs[0].participant, legs[1].participant, "both legs are in one institution");
                payments[legs[0].participant.index()] += 1;
            }
            let (with, without) = payments[1..].split_at(usize::from(spread));
            assert!(with.iter().all(|count| *count > 700 / usize::from(spread)), "{payments:?}");
            assert!(payments[0] == 0 && without.iter().all(|count| *count == 0), "{payments:?}");
        }
    }
}
