//! A network of shards over a cluster in memory: run in any order, ended at any turn, opened twice.

use super::*;
use crate::audit::{Audit, AuditOptions, AuditReport, audit_entries};
use crate::engine::{Engine, EngineError, EngineOptions, Outcome};
use crate::message::{Intake, Message as _, Source};
use crate::path;
use crate::runtime::shell::SharedState;
use crate::stage::Updater;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;
use tally_crypto::{Hash, SigningKey};
use tally_ledger::order::AccountAction;
use tally_ledger::transaction::{Leg, Signer, Terms};
use tally_ledger::{
    AccountId, AccountNumber, AccountOrder, Amount, Asset, AssetId, AssetKind, Kind, Network, NetworkId,
    Participant, ParticipantId, Refusal, SignaturePolicy, Timestamp, Transaction, TransactionBatch, Uetr,
};
use tally_log::FileLog;
use tally_log::cluster::MemoryCluster;
use tally_sim::Rng;

mod evidence_of_lies;

const NETWORK: NetworkId = NetworkId([9; 32]);
const EUR: AssetId = AssetId(0);
const START: Timestamp = Timestamp(1_700_000_000_000);
const BANKS: u16 = 3;
const ACCOUNTS: u32 = 4;

fn key(number: u16) -> SigningKey {
    SigningKey::from_seed([u8::try_from(number + 1).unwrap(); 32])
}

fn network() -> Arc<Network> {
    let participant = |number: u16| Participant {
        bic: format!("BANK{number}DEFF"),
        name: String::new(),
        key: key(number).public_key(),
        settlement_floors: Vec::new(),
    };
    let asset = Asset {
        code: "EUR".into(),
        kind: AssetKind::Currency,
        exponent: 2,
        settled_at: ParticipantId(0),
        largest_payment: Amount(1 << 40),
    };
    Arc::new(Network {
        id: NETWORK,
        participants: (0..=BANKS).map(participant).collect(),
        assets: vec![asset],
        signatures: SignaturePolicy::InstitutionsOnly,
        longest_validity_ms: 600_000,
    })
}

fn layout() -> Layout {
    let participants = network().participants.iter().map(|p| p.bic.clone()).collect();
    Layout { prefix: "test".into(), participants, schedulers: 2, assemblers: 2, gateways: 1 }
}

fn cluster() -> MemoryCluster {
    MemoryCluster::new(layout().topics().into_iter().map(|topic| (topic.name, topic.partitions)))
}

struct World {
    cluster: MemoryCluster,
    network: Arc<Network>,
    layout: Layout,
    rng: Rng,
    now: Timestamp,
    /// By role and shard; zombies are those that were replaced and do not know yet.
    shards: BTreeMap<(Role, u16), Shard>,
    updaters: BTreeMap<u16, SharedState<Updater>>,
    zombies: Vec<Shard>,
    gateway: Gateway,
    references: u64,
    /// What was submitted, by origin, until the scheduler answers.
    submitted: HashMap<u64, Vec<Uetr>>,
    accepted: HashMap<(Source, u32), Uetr>,
    /// The sequence as it was heard.
    decided: HashMap<(Source, u32), u16>,
    outcomes: HashMap<Uetr, u16>,
    /// Payments whose outcome nobody was told yet.
    payments: HashMap<Uetr, Payment>,
    /// What each account has for certain by what was told, whatever becomes of the payments under way.
    certain: HashMap<AccountId, i64>,
    /// How many of each bank's accounts pay and are paid.
    busy: u32,
    /// Whether the cluster shows everything late, so that payments expire.
    is_late: bool,
    sent: u64,
    restarts: u64,
}

struct Payment {
    from: AccountId,
    to: AccountId,
    amount: i64,
    /// Whether the payer has had the money for certain since it was sent.
    covered: bool,
    /// Whether it is valid for longer than anybody is away.
    is_long: bool,
}

impl World {
    fn new(seed: u64) -> Self {
        Self::on(cluster(), seed, START)
    }

    fn on(cluster: MemoryCluster, seed: u64, now: Timestamp) -> Self {
        let (network, layout) = (network(), layout());
        let gateway = Gateway::open(&cluster, &layout, 0, first_origin(), &Stop::default()).unwrap();
        let mut world = Self {
            cluster,
            network,
            layout,
            rng: Rng::new(seed),
            now,
            shards: BTreeMap::new(),
            updaters: BTreeMap::new(),
            zombies: Vec::new(),
            gateway,
            references: 0,
            submitted: HashMap::new(),
            accepted: HashMap::new(),
            decided: HashMap::new(),
            outcomes: HashMap::new(),
            payments: HashMap::new(),
            certain: HashMap::new(),
            busy: ACCOUNTS,
            is_late: false,
            sent: 0,
            restarts: 0,
        };
        for (role, shard) in world.all() {
            world.open(role, shard);
        }
        world
    }

    fn all(&self) -> Vec<(Role, u16)> {
        let participants = 0..=BANKS;
        let mut all = vec![(Role::Sequencer, 0)];
        all.extend((0..self.layout.schedulers).map(|shard| (Role::Scheduler, shard)));
        all.extend((0..self.layout.assemblers).map(|shard| (Role::Assembler, shard)));
        all.extend(participants.clone().map(|shard| (Role::Approver, shard)));
        all.extend(participants.map(|shard| (Role::Updater, shard)));
        all
    }

    fn open(&mut self, role: Role, number: u16) {
        let (cluster, layout, network) = (&self.cluster, &self.layout, &self.network);
        let (now, stop) = (self.now, Stop::default());
        let shard = match role {
            Role::Scheduler => {
                schedule::open(cluster, layout, network, number, (1 << 20, [1, 2]), now, &stop)
            }
            Role::Approver => approve::open(cluster, layout, network, number, key(number), now, &stop),
            Role::Assembler => assemble::open(cluster, layout, network, number, now, &stop),
            Role::Sequencer => sequence::open(cluster, layout, NETWORK, key(0), now, &stop),
            Role::Updater => {
                let opened = update::open(cluster, layout, network, number, (key(number), 3_000), now, &stop);
                opened.map(|(shard, state)| {
                    self.updaters.insert(number, state);
                    shard
                })
            }
            Role::Gateway => unreachable!("it is no shard"),
        };
        if let Some(old) = self.shards.insert((role, number), shard.unwrap()) {
            self.restarts += 1;
            if self.rng.chance(1, 2) {
                self.zombies.push(old);
            }
        }
    }

    /// One turn of something.
    fn step(&mut self) {
        self.now = self.now.plus_ms(self.rng.below(20));
        let all = self.all();
        let at = usize::try_from(self.rng.below(all.len() as u64)).unwrap();
        let chosen = all[at];
        self.shards.get_mut(&chosen).unwrap().turn(self.now).unwrap();
        if self.rng.chance(1, 4) && !self.zombies.is_empty() {
            let at = usize::try_from(self.rng.below(self.zombies.len() as u64)).unwrap();
            if let Err(error) = self.zombies[at].turn(self.now) {
                assert!(error.is_fenced(), "{error:?}");
                self.zombies.remove(at);
            }
        }
        self.hear();
    }

    fn hear(&mut self) {
        while let Some(intake) = self.gateway.intake().unwrap() {
            let references = self.submitted.remove(&intake.origin).unwrap();
            assert_eq!(references.len(), intake.results.len());
            for (uetr, result) in references.into_iter().zip(&intake.results) {
                match result {
                    Intake::Accepted(index) => self.accepted_at((intake.source.unwrap(), *index), uetr),
                    Intake::Duplicate(source, index) => self.accepted_at((*source, *index), uetr),
                    // It is not sequenced, and nothing remembers it.
                    Intake::Refused(refusal) => {
                        assert_eq!(*refusal, Refusal::Expired);
                        self.sent -= 1;
                        self.told(uetr, refusal.number());
                    }
                }
            }
        }
        while let Some((_, batch)) = self.gateway.sequence().unwrap() {
            for (index, verdict) in batch.decisions() {
                let place = (batch.source, index);
                assert_eq!(self.decided.insert(place, verdict), None, "final once: {place:?} now {verdict}");
                if let Some(uetr) = self.accepted.get(&place).copied() {
                    self.decided(uetr, verdict);
                }
            }
        }
    }

    /// The scheduler's word may come before the sequencer's, or after it.
    fn accepted_at(&mut self, place: (Source, u32), uetr: Uetr) {
        self.accepted.insert(place, uetr);
        if let Some(verdict) = self.decided.get(&place).copied() {
            self.decided(uetr, verdict);
        }
    }

    fn decided(&mut self, uetr: Uetr, verdict: u16) {
        let known = self.outcomes.insert(uetr, verdict);
        assert!(known.is_none_or(|known| known == verdict), "{uetr}: {known:?} became {verdict}");
        self.told(uetr, verdict);
    }

    /// Payer and payee know what became of a payment.
    fn told(&mut self, uetr: Uetr, verdict: u16) {
        let Some(Payment { from, to, amount, covered, is_long }) = self.payments.remove(&uetr) else {
            return;
        };
        assert!(!is_long || verdict != Refusal::ApprovalTimeout.number(), "{uetr}: somebody stood still");
        assert!(
            !(covered && verdict == Refusal::InsufficientFunds.number()),
            "{uetr}: {from} had {amount}, and was told so before"
        );
        let gains = if verdict == 0 { to } else { from };
        *self.certain.get_mut(&gains).unwrap() += amount;
    }

    fn terms(&mut self, valid_ms: u64) -> Terms {
        self.references += 1;
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&self.references.to_le_bytes());
        bytes[15] = u8::try_from(self.references % 2).unwrap();
        let expiry = self.now.plus_ms(valid_ms);
        Terms { network: self.network.id, uetr: Uetr(bytes), expiry, details: Hash::ZERO, seed: bytes }
    }

    fn submit(&mut self, transactions: &[Transaction]) {
        for scheduler in 0..self.gateway.schedulers() {
            let mut batch = TransactionBatch::default();
            let mut references = Vec::new();
            for transaction in transactions {
                if self.gateway.route(&transaction.header.uetr) == scheduler {
                    assert!(batch.push(transaction));
                    references.push(transaction.header.uetr);
                }
            }
            if !references.is_empty() {
                self.sent += references.len() as u64;
                let origin = self.gateway.submit(scheduler, batch).unwrap();
                self.submitted.insert(origin, references);
            }
        }
        assert!(self.gateway.flush().unwrap());
    }

    fn signed(&mut self, kind: Kind, legs: Vec<Leg>, signer: u16) -> Transaction {
        // However late the cluster shows everything.
        let terms = self.terms(600_000);
        let mut transaction = Transaction::new(kind, &terms, legs);
        transaction.sign(&NETWORK, &key(signer));
        transaction
    }

    fn settle(&mut self) {
        for _ in 0..100_000 {
            if self.outcomes.len() as u64 == self.sent {
                return;
            }
            self.step();
        }
        panic!("{} of {} have an outcome", self.outcomes.len(), self.sent);
    }

    fn found(&mut self) {
        for bank in 1..=BANKS {
            let legs = path::issue_reserves(&self.network, ParticipantId(bank), EUR, Amount(100_000));
            let issue = self.signed(Kind::Issue, legs, 0);
            // However late the cluster shows everything.
            let terms = self.terms(600_000);
            let mut open = Transaction::account(&terms, opening(bank));
            open.sign(&NETWORK, &key(bank));
            self.submit(&[issue, open]);
        }
        self.settle();
        for bank in 1..=BANKS {
            let accounts: Vec<_> = (0..ACCOUNTS).map(|number| account(bank, number)).collect();
            let issues: Vec<_> = accounts
                .into_iter()
                .map(|to| {
                    self.certain.insert(to, 1_000);
                    self.signed(Kind::Issue, path::issue(to, EUR, Amount(1_000)), bank)
                })
                .collect();
            self.submit(&issues);
        }
        self.settle();
        assert!(self.outcomes.values().all(|verdict| *verdict == 0), "{:?}", self.outcomes);
    }

    fn pay(&mut self) {
        let count = 1 + self.rng.below(6);
        let mut payments = Vec::new();
        for _ in 0..count {
            let mut pick = || {
                let bank = 1 + u16::try_from(self.rng.below(u64::from(BANKS))).unwrap();
                account(bank, u32::try_from(self.rng.below(u64::from(self.busy))).unwrap())
            };
            let (from, to) = (pick(), pick());
            if from == to {
                continue;
            }
            let amount = Amount(1 + i64::try_from(self.rng.below(700)).unwrap());
            let valid_ms = if self.rng.chance(1, 10) { 300 } else { 50_000 };
            let terms = self.terms(valid_ms);
            let legs = path::payment(&self.network, from, to, EUR, amount);
            let funds = self.certain.get_mut(&from).unwrap();
            let covered = *funds >= amount.0;
            *funds -= amount.0;
            if !covered {
                // It may overtake those sent before, and take what they were sure of.
                let same = self.payments.values_mut().filter(|payment| payment.from == from);
                same.for_each(|payment| payment.covered = false);
            }
            self.payments.insert(
                terms.uetr,
                Payment { from, to, amount: amount.0, covered, is_long: valid_ms > 300 && !self.is_late },
            );
            payments.push(Transaction::new(Kind::Transfer, &terms, legs));
        }
        self.submit(&payments);
    }

    fn audit(&self) -> AuditReport {
        let journal = journal::Journal::open(&self.cluster, &self.layout).unwrap();
        audit_entries(journal, &self.network, AuditOptions { signatures: true }).unwrap()
    }

    /// The audit of one institution's partition from what that one may read.
    fn audit_of(&self, participant: ParticipantId) -> AuditReport {
        let opened = partition::open(&self.cluster, &self.layout, &self.network, participant);
        let (beginning, own) = opened.unwrap();
        Audit::new(&self.network).shown(participant, beginning, own).unwrap()
    }
}

impl World {
    /// The sequence number of the first transaction that was made, concerns the participant, and others as well.
    fn first_with_others(&self, number: u16) -> Option<u64> {
        let mut accepted = HashMap::new();
        for entry in journal::Journal::open(&self.cluster, &self.layout).unwrap() {
            match entry.unwrap().1 {
                crate::journal::Entry::Accepted(source, batch) => {
                    accepted.insert(source, batch);
                }
                crate::journal::Entry::Sequenced(_, batch) => {
                    for ((index, verdict), sequence) in batch.decisions().zip(batch.first..) {
                        let transaction = accepted[&batch.source].batch.transaction(index as usize).unwrap();
                        let concerned = transaction.participants();
                        if verdict == 0 && concerned.len() > 1 && concerned.contains(&ParticipantId(number)) {
                            return Some(sequence);
                        }
                    }
                }
            }
        }
        None
    }
}

/// The order that opens a bank's customers' accounts.
fn opening(bank: u16) -> AccountOrder {
    AccountOrder {
        participant: ParticipantId(bank),
        number: AccountNumber(0),
        action: AccountAction::Open {
            count: ACCOUNTS,
            asset: EUR,
            owner: key(9).public_key(),
            floor: Amount::ZERO,
            alias: String::new(),
        },
    }
}

fn account(bank: u16, number: u32) -> AccountId {
    AccountId { participant: ParticipantId(bank), number: AccountNumber(number) }
}

fn run(seed: u64) {
    let mut world = World::new(seed);
    world.found();
    let kill = world.rng.below(40) + 5;
    for _ in 0..600 {
        if world.rng.chance(1, 6) {
            world.pay();
        }
        world.step();
        if world.rng.chance(1, kill) {
            let all = world.all();
            let (role, shard) = all[usize::try_from(world.rng.below(all.len() as u64)).unwrap()];
            world.open(role, shard);
        }
    }
    // What expires without an answer needs time to pass.
    for _ in 0..200 {
        world.now = world.now.plus_ms(50);
        world.step();
    }
    world.settle();
    let report = world.audit();
    assert_eq!((report.sequenced, report.undecided), (world.sent, 0), "seed {seed}");
    let collected = evidence::collect(&world.cluster, &world.layout, &world.network).unwrap();
    assert_eq!((&collected.findings[..], collected.faults.len()), (&[][..], 0), "seed {seed}: nobody lied");
    let made = world.outcomes.values().filter(|verdict| **verdict == 0).count() as u64;
    assert_eq!(report.made, made, "seed {seed}");
    // The updaters come to what the journal comes to.
    for _ in 0..10_000 {
        let behind = |state: &SharedState<Updater>| state.lock().unwrap().applied() < report.sequenced;
        if !world.updaters.values().any(behind) {
            break;
        }
        world.step();
    }
    for number in 0..=BANKS {
        let participant = ParticipantId(number);
        let state = world.updaters[&number].lock().unwrap();
        assert_eq!(state.applied(), report.sequenced, "seed {seed}: updater {number}");
        let totals = crate::audit::totals(state.accounts(), &world.network);
        let expected: Vec<_> =
            report.totals.iter().filter(|total| total.participant == participant).copied().collect();
        assert_eq!(totals, expected, "seed {seed}: books of {number}");
        drop(state);
        let alone = world.audit_of(participant);
        assert_eq!(alone.totals, expected, "seed {seed}: {number} alone");
        let covered = alone.coverage.unwrap();
        assert_eq!((covered.keys_from, covered.consents_from), (0, world.first_with_others(number)));
        assert_eq!((alone.sequenced, alone.tree_root), (report.sequenced, report.tree_root), "seed {seed}");
    }
}

#[test]
fn keeps_its_promises_whatever_is_ended_or_opened_twice() {
    let seeds: u64 = std::env::var("SEEDS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(200);
    for seed in 0..seeds {
        run(seed);
    }
}

/// The decision of a payment and the next payment come to an approver on different ways, the decision later now and then.
#[test]
fn what_was_told_can_be_spent() {
    let mut covered = 0;
    let mut refused = 0;
    for seed in 0..8 {
        let cluster = cluster();
        cluster.lag(seed);
        let mut world = World::on(cluster, seed, START);
        world.found();
        world.busy = 1;
        world.is_late = true;
        for _ in 0..6_000 {
            if world.payments.len() < 4 {
                world.pay();
                covered += world.payments.values().filter(|payment| payment.covered).count();
            }
            world.step();
        }
        world.settle();
        let no_funds = |verdict: &&u16| **verdict == Refusal::InsufficientFunds.number();
        refused += world.outcomes.values().filter(no_funds).count();
    }
    assert!(covered > 100 && refused > 20, "{covered} were sure, {refused} refused");
}

/// An assembler that lies decides for a payment that the payer's bank refused. Neither the bank of the payee nor the one that
/// keeps the reserves takes its word.
#[test]
fn nobody_takes_the_operators_word_for_what_another_agreed_to() {
    let mut world = World::new(5);
    world.found();
    let balances = |world: &World| -> Vec<Vec<i64>> {
        let of = |state: &SharedState<Updater>| {
            state.lock().unwrap().accounts().iter().map(|(_, account)| account.balance).collect()
        };
        world.updaters.values().map(of).collect()
    };
    let turn = |world: &mut World, which: &dyn Fn(Role, u16) -> bool| {
        world.now = world.now.plus_ms(5);
        for (role, number) in world.all() {
            if which(role, number) {
                world.shards.get_mut(&(role, number)).unwrap().turn(world.now).unwrap();
            }
        }
    };
    for _ in 0..100 {
        turn(&mut world, &|_, _| true);
    }
    let before = balances(&world);
    let legs = path::payment(&world.network, account(1, 0), account(2, 0), EUR, Amount(5_000));
    let payment = Transaction::new(Kind::Transfer, &world.terms(50_000), legs);
    world.submit(&[payment]);
    for _ in 0..100 {
        turn(&mut world, &|role, _| role != Role::Sequencer);
    }
    let mut lies = 0;
    for assembler in 0..world.layout.assemblers {
        let decisions = world.layout.decisions(assembler);
        for record in world.cluster.peek(&decisions, tally_log::Offset(0)) {
            let mut decided = crate::message::DecisionBatch::decode(&record.payload).unwrap();
            if decided.verdicts == [Refusal::InsufficientFunds.number()] {
                decided.verdicts = vec![0];
                let mut bytes = Vec::new();
                decided.encode(&mut bytes);
                assert!(world.cluster.alter(&decisions, record.offset, bytes.into()));
                lies += 1;
            }
        }
    }
    assert_eq!(lies, 1);
    // The payer's bank has the proof that the operator lies, and stops.
    let payers = |role, number| number == 1 && matches!(role, Role::Approver | Role::Updater);
    for _ in 0..2_000 {
        turn(&mut world, &|role, number| !payers(role, number));
    }
    let applied: Vec<u64> = world.updaters.values().map(|state| state.lock().unwrap().applied()).collect();
    let [keeper, payer, payee, other] = applied[..] else { panic!("{applied:?}") };
    assert!(keeper == payer && payee == payer && other == payer + 1, "{applied:?}: whom it concerns waits");
    assert_eq!(balances(&world), before, "nothing moved");
    for role in [Role::Approver, Role::Updater] {
        let refused = world.shards.get_mut(&(role, 1)).unwrap().turn(world.now).unwrap_err();
        assert!(format!("{refused:?}").contains("NotApproved"), "{refused:?}");
    }
    // What was never there cannot be spent: the payee's bank lets nobody have it.
    let legs = path::payment(&world.network, account(2, 0), account(2, 1), EUR, Amount(1_001));
    let spent = Transaction::new(Kind::Transfer, &world.terms(50_000), legs);
    let uetr = spent.header.uetr;
    world.submit(&[spent]);
    for _ in 0..200 {
        turn(&mut world, &|role, number| !payers(role, number));
        world.hear();
    }
    assert_eq!(world.outcomes.get(&uetr), None, "it says nothing while it cannot know");
    // Opened again, they stand where they stood.
    for role in [Role::Approver, Role::Updater] {
        world.open(role, 2);
    }
    for _ in 0..200 {
        turn(&mut world, &|role, number| !payers(role, number));
    }
    assert_eq!(balances(&world), before);
}

#[test]
fn every_signer_is_somebody() {
    // Signatures are part of what travels: one that does not verify is refused, and nothing else happens.
    let mut world = World::new(1);
    world.found();
    let terms = world.terms(50_000);
    let legs = path::payment(&world.network, account(1, 0), account(2, 0), EUR, Amount(1));
    let mut payment = Transaction::new(Kind::Transfer, &terms, legs);
    payment.signers.push(Signer { key: key(3).public_key(), signature: key(3).sign(b"something else") });
    payment.header.signers = 1;
    let mut batch = TransactionBatch::default();
    assert!(batch.push(&payment));
    let scheduler = world.gateway.route(&payment.header.uetr);
    world.gateway.submit(scheduler, batch).unwrap();
    assert!(world.gateway.flush().unwrap());
    for _ in 0..200 {
        let shard = u16::try_from(scheduler).unwrap();
        world.shards.get_mut(&(Role::Scheduler, shard)).unwrap().turn(world.now).unwrap();
    }
    let intake = world.gateway.intake().unwrap().unwrap();
    assert_eq!(intake.results, [Intake::Refused(Refusal::WrongSignature)]);
}

#[test]
fn answers_to_an_earlier_process_of_a_gateway_are_not_those_to_the_next() {
    // The answer to the first submission comes once the gateway has been opened again, whatever its clock says now.
    let mut world = World::new(1);
    let empty = || TransactionBatch::default();
    let earlier = world.gateway.submit(0, empty()).unwrap();
    assert!(world.gateway.flush().unwrap());
    world.gateway =
        Gateway::open(&world.cluster, &world.layout, 0, first_origin(), &Stop::default()).unwrap();
    let own: Vec<u64> = (0..100).map(|_| world.gateway.submit(0, empty()).unwrap()).collect();
    for _ in 0..200 {
        world.shards.get_mut(&(Role::Scheduler, 0)).unwrap().turn(world.now).unwrap();
    }
    let intake = world.gateway.intake().unwrap().unwrap();
    assert_eq!(intake.origin, earlier);
    assert!(!own.contains(&intake.origin));
}

#[test]
fn a_network_goes_on_where_its_files_end() {
    let directory = tempfile::tempdir().unwrap();
    let keys = (0..=BANKS).map(key).collect();
    let options = EngineOptions::new(directory.path().to_owned(), (*network()).clone(), keys);
    let engine = Engine::open(options).unwrap();
    let (bank, start) = (ParticipantId(1), engine.now());
    let terms = |number: u8| {
        let expiry = start.plus_ms(40_000);
        Terms { network: NETWORK, uetr: Uetr([number; 16]), expiry, details: Hash::ZERO, seed: [number; 16] }
    };
    let reserves = path::issue_reserves(&network(), bank, EUR, Amount(5_000));
    let mut issue = Transaction::new(Kind::Issue, &terms(1), reserves);
    issue.sign(&NETWORK, &key(0));
    let mut open = Transaction::account(&terms(2), opening(1));
    open.sign(&NETWORK, &key(1));
    let mut fill = Transaction::new(Kind::Issue, &terms(3), path::issue(account(1, 0), EUR, Amount(1_000)));
    fill.sign(&NETWORK, &key(1));
    for transaction in [&issue, &open, &fill] {
        let pending = engine.submit(vec![transaction.clone()]).unwrap();
        let answers = engine.wait(&pending, Duration::from_secs(20));
        assert!(
            matches!(answers[0].outcome, Outcome::Final(finality) if finality.verdict.is_ok()),
            "{answers:?}"
        );
    }
    engine.stop(Duration::from_secs(20)).unwrap();

    let (log, _) = FileLog::open(directory.path().join("journal"), tally_log::Options::default()).unwrap();
    let cluster = cluster();
    assert!(!found::is_founded(&cluster, &layout()).unwrap());
    let founded = found::found(&cluster, &layout(), &network(), &log, start).unwrap();
    assert_eq!(founded, found::Founded { accepted: 3, sequenced: 3 });
    assert!(found::is_founded(&cluster, &layout()).unwrap());
    let again = found::found(&cluster, &layout(), &network(), &log, start);
    assert!(matches!(again, Err(found::FoundError::Unfinished { .. })), "{again:?}");

    // Whether a layout fits follows from the references, and not from which schedulers took something.
    let with = |schedulers: u16| {
        found::prepare(&Layout { schedulers, ..layout() }, &network(), &log, start).map(drop)
    };
    let fault = with(1).unwrap_err();
    assert!(matches!(fault, found::FoundError::Schedulers { found: 2, planned: 1 }), "{fault}");
    let fault = with(3).unwrap_err();
    // The references 2 and 3 fell to the first and second scheduler, and would fall to the third and first of three.
    let expected =
        matches!(fault, found::FoundError::References { references: 2, planned: 3, wait_ms: 42_000 });
    assert!(expected, "{fault}");
    let later = start.plus_ms(42_000);
    found::prepare(&Layout { schedulers: 3, ..layout() }, &network(), &log, later).unwrap();

    // What was there is there, references are remembered, and the order goes on.
    let mut world = World::on(cluster, 3, start);
    let legs = path::payment(&network(), account(1, 0), account(1, 1), EUR, Amount(400));
    let payment = Transaction::new(Kind::Transfer, &terms(4), legs);
    world.submit(&[payment, fill.clone()]);
    for _ in 0..3_000 {
        world.step();
    }
    assert_eq!(world.outcomes, HashMap::from([(Uetr([4; 16]), 0)]));
    assert_eq!(world.accepted.len(), 2, "the one sent again is the one of before");
    let report = world.audit();
    assert_eq!((report.accepted, report.sequenced, report.made), (4, 4, 4));
    let books = world.updaters[&1].lock().unwrap();
    assert_eq!(books.accounts().get(AccountNumber(1)).unwrap().balance, 400);
    drop(books);
    // What was decided in the files was never proposed here: an institution's audit begins with what it saved then.
    let alone = world.audit_of(bank);
    let covered = alone.coverage.unwrap();
    assert!(covered.keys_from == 3 && (3..=4).contains(&covered.accounts_from), "{covered:?}");
    assert_eq!((alone.sequenced, alone.made), (4, 1));
    let own = report.totals.iter().filter(|total| total.participant == bank).copied();
    assert_eq!(alone.totals, own.collect::<Vec<_>>());
}

#[test]
fn a_network_in_files_keeps_its_schedulers_though_not_each_of_them_took_something() {
    let directory = tempfile::tempdir().unwrap();
    let with = |schedulers: usize| {
        let keys = (0..=BANKS).map(key).collect();
        let options = EngineOptions::new(directory.path().to_owned(), (*network()).clone(), keys);
        EngineOptions { schedulers, ..options }
    };
    let engine = Engine::open(with(2)).unwrap();
    let start = engine.now();
    let terms = |number: u8| {
        let expiry = start.plus_ms(40_000);
        Terms { network: NETWORK, uetr: Uetr([number; 16]), expiry, details: Hash::ZERO, seed: [number; 16] }
    };
    // All of it falls to the second of two.
    let reserves = path::issue_reserves(&network(), ParticipantId(1), EUR, Amount(5_000));
    let mut issue = Transaction::new(Kind::Issue, &terms(3), reserves);
    issue.sign(&NETWORK, &key(0));
    let pending = engine.submit(vec![issue]).unwrap();
    let answers = engine.wait(&pending, Duration::from_secs(20));
    assert!(matches!(answers[0].outcome, Outcome::Final(_)), "{answers:?}");
    engine.stop(Duration::from_secs(20)).unwrap();

    // One scheduler has no place for what the second took; of three another would be asked for the reference.
    for schedulers in [1, 3] {
        let fault = Engine::open(with(schedulers)).map(drop).unwrap_err();
        assert!(matches!(fault, EngineError::Options(_)), "{schedulers}: {fault}");
    }
    let (log, _) = FileLog::open(directory.path().join("journal"), tally_log::Options::default()).unwrap();
    let alone = Layout { schedulers: 1, ..layout() };
    let fault = found::prepare(&alone, &network(), &log, start).map(drop).unwrap_err();
    assert!(matches!(fault, found::FoundError::Schedulers { found: 2, planned: 1 }), "{fault}");
    found::prepare(&layout(), &network(), &log, start).unwrap();
    drop(log);
    Engine::open(with(2)).unwrap().stop(Duration::from_secs(20)).unwrap();
}
