//! Snapshots taken while updaters run on between any two blocks, each at a pace of its own. Pages are a
//! few accounts long here, so that small partitions have many.

use super::*;
use crate::message::ApprovalBatch;
use crate::message::{AcceptedBatch, SequenceBatch, Source};
use crate::stage::{Scheduler, Sequencer};
use std::collections::BTreeMap;
use std::sync::Mutex;
use tally_crypto::Signature;
use tally_crypto::{Hash, SigningKey};
use tally_ledger::order::AccountAction;
use tally_ledger::transaction::{Kind, Leg, Terms};
use tally_ledger::{
    AccountOrder, Asset, AssetId, AssetKind, Participant, ParticipantId, SignaturePolicy, Transaction,
    TransactionBatch, Uetr,
};
use tally_sim::Rng;

const NETWORK: NetworkId = NetworkId([5; 32]);
const EUR: AssetId = AssetId(0);

fn network() -> Arc<Network> {
    let participant = |number: u8| Participant {
        bic: format!("BANK{number}"),
        name: String::new(),
        key: SigningKey::from_seed([number; 32]).public_key(),
        settlement_floors: Vec::new(),
    };
    let asset = Asset {
        code: "EUR".into(),
        kind: AssetKind::Currency,
        exponent: 2,
        settled_at: ParticipantId(0),
        largest_payment: Amount(1 << 50),
    };
    Arc::new(Network {
        id: NETWORK,
        participants: (0..3).map(participant).collect(),
        assets: vec![asset],
        signatures: SignaturePolicy::InstitutionsOnly,
        longest_validity_ms: 100_000,
    })
}

enum Entry {
    Accepted(Source, Arc<AcceptedBatch>),
    Sequenced(SequenceBatch),
}

/// A network without approvers: whatever is accepted is decided by chance.
struct Driver {
    rng: Rng,
    network: Arc<Network>,
    scheduler: Scheduler,
    sequencer: Sequencer,
    truth: Replay,
    log: Vec<Entry>,
    updaters: Vec<SharedState<Updater>>,
    /// How many records of the log each updater has read.
    read: Vec<usize>,
    number: u64,
}

impl Driver {
    fn new(seed: u64) -> Self {
        let network = network();
        let updaters = (0u16..3).map(|participant| {
            let partition = Partition::new(&network, ParticipantId(participant));
            Arc::new(Mutex::new(Updater::new(partition.accounts, partition.aliases, 0)))
        });
        let key = SigningKey::from_seed([0; 32]);
        Self {
            rng: Rng::new(seed),
            scheduler: Scheduler::new(Arc::clone(&network), 0, 0, 10, [1, 2]),
            sequencer: Sequencer::new(NETWORK, key, 0, Frontier::new(), Timestamp(0)),
            truth: Replay::new(Arc::clone(&network)),
            log: Vec::new(),
            updaters: updaters.collect(),
            read: vec![0; 3],
            number: 0,
            network,
        }
    }

    fn step(&mut self) {
        match self.rng.below(8) {
            0..=1 => self.accept(),
            2..=3 => self.sequence(),
            _ => {
                let at = self.rng.index(3);
                self.read(at);
            }
        }
    }

    fn transaction(&mut self) -> Transaction {
        self.number += 1;
        let mut uetr = [0; 16];
        uetr[..8].copy_from_slice(&self.number.to_le_bytes());
        let expiry = Timestamp(90_000);
        let terms = Terms { network: NETWORK, uetr: Uetr(uetr), expiry, details: Hash::ZERO, seed: uetr };
        let bank = ParticipantId(u16::try_from(self.rng.index(3)).unwrap());
        let customers = self.truth.partitions[bank.index()].accounts.customers();
        if customers < 2 || self.rng.chance(1, 4) {
            let action = match self.rng.below(8) {
                0 if customers > 0 => AccountAction::Freeze,
                1 if customers > 0 => AccountAction::Release,
                2 if customers > 0 => AccountAction::Close,
                3 if customers > 0 => AccountAction::SetFloor(Amount(-(self.number as i64))),
                4 if customers > 0 => AccountAction::SetFloor(Amount::ZERO),
                _ => {
                    let count = u32::try_from(self.rng.between(1, 6)).unwrap();
                    AccountAction::Open {
                        count,
                        asset: EUR,
                        owner: SigningKey::from_seed([self.rng.index(4).to_le_bytes()[0]; 32]).public_key(),
                        floor: Amount(if self.rng.chance(1, 3) { -7 } else { 0 }),
                        alias: if count == 1 { format!("alias {}", self.number) } else { String::new() },
                    }
                }
            };
            let number = match &action {
                AccountAction::Open { .. } => AccountNumber(customers),
                _ => self.account(bank),
            };
            return Transaction::account(&terms, AccountOrder { participant: bank, number, action });
        }
        let other = ParticipantId(u16::try_from(self.rng.index(3)).unwrap());
        let mut legs = Vec::new();
        let sign = if self.rng.chance(1, 2) { 1 } else { -1 };
        for (participant, sign) in [(bank, sign), (other, 1)] {
            let amount = Amount(sign * i64::try_from(self.rng.between(1, 50)).unwrap());
            let account = if self.truth.partitions[participant.index()].accounts.customers() == 0 {
                AccountNumber::own(EUR)
            } else {
                self.account(participant)
            };
            legs.push(Leg { participant, asset: EUR, account, amount });
        }
        legs.push(Leg {
            participant: ParticipantId(0),
            asset: EUR,
            account: AccountNumber::settlement(EUR, bank),
            amount: Amount(3),
        });
        Transaction::new(Kind::Transfer, &terms, legs)
    }

    fn account(&mut self, participant: ParticipantId) -> AccountNumber {
        let customers = self.truth.partitions[participant.index()].accounts.customers();
        AccountNumber(u32::try_from(self.rng.below(u64::from(customers))).unwrap())
    }

    fn accept(&mut self) {
        let mut batch = TransactionBatch::default();
        for _ in 0..self.rng.between(1, 5) {
            let transaction = self.transaction();
            assert!(batch.push(&transaction));
        }
        let number = self.log.iter().filter(|entry| matches!(entry, Entry::Accepted(..))).count() as u64;
        let source = Source::new(0, number);
        let accepted = Arc::new(AcceptedBatch { accepted_at: Timestamp(1), batch });
        for proposals in self.scheduler.propose_again(source, &accepted.batch, |_| true).proposals {
            let mut updater = self.updaters[proposals.participant.index()].lock().unwrap();
            let approved = ApprovalBatch {
                source,
                source_len: proposals.source_len,
                participant: proposals.participant,
                indices: proposals.indices.clone(),
                ids: vec![Hash::ZERO; proposals.len()],
                verdicts: vec![0; proposals.len()],
                leaves: Vec::new(),
                signature: Signature::from_bytes([0; 64]),
            };
            updater.propose(Arc::new(proposals));
            updater.answer(&Arc::new(approved));
        }
        self.truth.accept(source, Arc::clone(&accepted));
        self.log.push(Entry::Accepted(source, accepted));
    }

    fn sequence(&mut self) {
        let open: Vec<Source> = self.truth.undecided.keys().copied().collect();
        if open.is_empty() {
            return;
        }
        let source = open[self.rng.index(open.len())];
        let undecided = &self.truth.undecided[&source];
        let count = u32::try_from(undecided.accepted.batch.len()).unwrap();
        let mut decisions = crate::message::DecisionBatch { source, ..Default::default() };
        let mut opened: BTreeMap<u16, u32> = BTreeMap::new();
        // What this record has moved so far: no account goes below zero.
        let mut moved: BTreeMap<(u16, u32), i64> = BTreeMap::new();
        for index in 0..count {
            if undecided.is_decided(index) || self.rng.chance(1, 4) {
                continue;
            }
            let fits = undecided.order(index).is_none_or(|order| match order.action {
                AccountAction::Open { count, .. } => {
                    let accounts = &self.truth.partitions[order.participant.index()].accounts;
                    let next = opened.entry(order.participant.0).or_insert(accounts.customers());
                    let fits = order.number.0 == *next;
                    *next += if fits { count } else { 0 };
                    fits
                }
                _ => true,
            });
            decisions.indices.push(index);
            decisions.ids.push(Hash::ZERO);
            let covered = undecided.legs(index).iter().all(|leg| {
                let accounts = &self.truth.partitions[leg.participant.index()].accounts;
                let before = moved.get(&(leg.participant.0, leg.account.0)).copied().unwrap_or(0);
                let balance = accounts.get(leg.account).unwrap().balance + before;
                !leg.amount.is_debit() || balance + leg.amount.0 >= 0
            });
            let made = fits && covered && (undecided.order(index).is_some() || self.rng.chance(3, 4));
            for leg in undecided.legs(index).iter().filter(|_| made) {
                *moved.entry((leg.participant.0, leg.account.0)).or_default() += leg.amount.0;
            }
            decisions.verdicts.push(if made { 0 } else { 24 });
        }
        if decisions.indices.is_empty() {
            return;
        }
        let now = Timestamp(self.log.len() as u64);
        let batch = self.sequencer.step(now, &decisions);
        self.truth.sequence(&batch, |_, _, _, _, _| Ok(())).unwrap();
        self.log.push(Entry::Sequenced(batch));
    }

    /// An updater goes on to the next record of the sequence.
    fn read(&mut self, at: usize) {
        while let Some(entry) = self.log.get(self.read[at]) {
            self.read[at] += 1;
            if let Entry::Sequenced(batch) = entry {
                return self.updaters[at].lock().unwrap().apply(batch).unwrap();
            }
        }
    }

    /// Where a snapshot that is begun now has to begin: as the clerk tells.
    fn origin(&mut self) -> Origin {
        let everybody = self.updaters.iter().map(|updater| updater.lock().unwrap().applied()).min().unwrap();
        let mut seen = Replay::new(Arc::clone(&self.network));
        for entry in &self.log {
            match entry {
                Entry::Accepted(source, accepted) => seen.accept(*source, Arc::clone(accepted)),
                Entry::Sequenced(batch) if batch.first < everybody => {
                    seen.sequence(batch, |_, _, _, _, _| Ok(())).unwrap();
                }
                Entry::Sequenced(_) => {}
            }
        }
        let ticket = |source: &Source| {
            let is_it = |entry: &Entry| matches!(entry, Entry::Accepted(of, _) if of == source);
            self.log.iter().position(is_it).unwrap() as u64 + 1
        };
        let oldest = seen.undecided.keys().map(ticket).min().unwrap_or(self.log.len() as u64 + 1);
        // It may be older: the clerk follows batches for as long as their references are remembered.
        let recover_from = if self.rng.chance(1, 2) { self.rng.between(1, oldest) } else { oldest };
        Origin { recover_from: Ticket(recover_from), next: seen.next, tree: seen.tree, clock: seen.clock }
    }
}

/// A file beside which the network runs on.
struct Busy<'a> {
    bytes: Vec<u8>,
    driver: &'a mut Driver,
}

impl Write for Busy<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.bytes.extend_from_slice(bytes);
        for _ in 0..self.driver.rng.below(12) {
            self.driver.step();
        }
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Everything that is known of a partition, the numbering of keys aside.
fn shown(partition: &Partition) -> Vec<String> {
    let accounts = &partition.accounts;
    let mut all: Vec<String> = accounts
        .iter()
        .map(|(number, account)| {
            let floor = accounts.floor(number, account);
            let owner = (!number.is_institution()).then(|| accounts.owner(account));
            let Account { balance, asset, .. } = account;
            format!("{number:?} {balance} {asset:?} {:?} {floor:?} {owner:?}", account.status())
        })
        .collect();
    all.extend(partition.aliases.iter().map(|(alias, number)| format!("{alias}: {number:?}")));
    all
}

#[test]
fn a_snapshot_of_a_busy_network_and_the_log_come_to_the_truth() {
    let directory = tempfile::tempdir().unwrap();
    let mut pages = 0;
    for seed in 0..300 {
        let mut driver = Driver::new(seed);
        for _ in 0..driver.rng.between(0, 400) {
            driver.step();
        }
        let origin = driver.origin();
        let updaters = driver.updaters.clone();
        let mut busy = Busy { bytes: Vec::new(), driver: &mut driver };
        capture(NETWORK, &origin, &updaters, &mut busy).unwrap();
        let path = directory.path().join("it.snapshot");
        std::fs::write(&path, &busy.bytes).unwrap();
        for _ in 0..driver.rng.below(30) {
            driver.step();
        }
        let (mut replay, from) = load(&path, &driver.network).unwrap();
        assert_eq!(from, origin.recover_from);
        pages += replay.partitions.iter().map(|partition| partition.pages.len()).max().unwrap();
        for entry in &driver.log[usize::try_from(from.0).unwrap() - 1..] {
            match entry {
                Entry::Accepted(source, accepted) => replay.accept(*source, Arc::clone(accepted)),
                Entry::Sequenced(batch) => replay
                    .sequence(batch, |_, _, _, _, _| Ok(()))
                    .unwrap_or_else(|error| panic!("seed {seed}: {error}")),
            }
        }
        let truth = &driver.truth;
        assert_eq!((replay.next, replay.tree.root()), (truth.next, truth.tree.root()), "seed {seed}");
        for (restored, wanted) in replay.partitions.iter().zip(&truth.partitions) {
            for (restored, wanted) in shown(restored).iter().zip(shown(wanted)) {
                assert_eq!(*restored, wanted, "seed {seed}");
            }
            assert_eq!(shown(restored).len(), shown(wanted).len(), "seed {seed}");
        }
        let left = |replay: &Replay| -> Vec<_> {
            replay.undecided.iter().map(|(source, undecided)| (*source, undecided.left())).collect()
        };
        assert_eq!(left(&replay), left(truth), "seed {seed}");
    }
    assert!(pages > 1_000, "only {pages} pages");
}
