//! A network whose stages a test runs by hand, so that it can end at any moment: what simulated networks
//! once found, step by step.

#![expect(clippy::unwrap_used, reason = "helpers of tests may panic as tests do")]

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tally_crypto::{Hash, SigningKey};
use tally_ledger::order::AccountAction;
use tally_ledger::transaction::Terms;
use tally_ledger::{
    AccountId, AccountNumber, AccountOrder, Amount, Asset, AssetId, AssetKind, Kind, Network, NetworkId,
    Participant, ParticipantId, SignaturePolicy, Timestamp, Transaction, Uetr,
};
use tally_log::{FileLog, Log};
use tally_settlement::audit::{AuditOptions, audit};
use tally_settlement::engine::{Answer, Desk, EngineOptions, Outcome, Pending, assemble};
use tally_settlement::path;
use tally_settlement::runtime::Stage;

const EUR: AssetId = AssetId(0);
const BANK: ParticipantId = ParticipantId(0);
const START: Timestamp = Timestamp(1_750_000_000_000);
const VALIDITY_MS: u64 = 60_000;

fn key() -> SigningKey {
    SigningKey::from_seed([1; 32])
}

fn network() -> Network {
    let participant = Participant {
        bic: "BANKDEFF".into(),
        name: String::new(),
        key: key().public_key(),
        settlement_floors: Vec::new(),
    };
    let asset = Asset {
        code: "EUR".into(),
        kind: AssetKind::Currency,
        exponent: 2,
        settled_at: BANK,
        largest_payment: Amount(1_000_000),
    };
    Network {
        id: NetworkId(3),
        participants: vec![participant],
        assets: vec![asset],
        signatures: SignaturePolicy::InstitutionsOnly,
        longest_validity_ms: VALIDITY_MS,
    }
}

/// A process whose stages take a step when a test says so. Dropping it loses what was not synced.
struct Process {
    stages: Vec<Box<dyn Stage>>,
    desk: Desk,
    log: Arc<FileLog>,
}

impl Process {
    fn start(directory: &Path, now: Timestamp) -> Self {
        let mut options = EngineOptions::new(directory.to_owned(), network(), vec![key()]);
        options.schedulers = 1;
        options.journal.segment_bytes = 1 << 16;
        let (log, report) = FileLog::open(directory.join("journal"), options.journal.clone()).unwrap();
        let log = Arc::new(log);
        let assembly = assemble(&options, &log, report, now).unwrap();
        Self { stages: assembly.stages, desk: assembly.desk, log }
    }

    /// All stages but those run, until none has anything to do.
    fn run_without(&mut self, now: Timestamp, not: &[&str]) {
        let mut progress = true;
        while std::mem::take(&mut progress) {
            for stage in &mut self.stages {
                if !not.contains(&stage.name().as_str()) {
                    progress |= stage.poll(now).unwrap();
                }
            }
        }
    }

    /// Everything comes to rest and is durable.
    fn settle(&mut self, now: Timestamp) {
        self.run_without(now, &[]);
        self.log.sync().unwrap();
        self.run_without(now, &[]);
        assert!(self.desk.is_drained());
    }

    fn send(&self, transaction: &Transaction) -> Pending {
        self.desk.submit(vec![transaction.clone()]).unwrap()
    }

    fn outcome(&self, pending: &Pending) -> Outcome {
        let mut answers: Vec<Answer> = self.desk.wait(pending, Duration::ZERO);
        answers.remove(0).outcome
    }

    fn made(&mut self, now: Timestamp, transaction: &Transaction) -> Outcome {
        let pending = self.send(transaction);
        self.settle(now);
        let outcome = self.outcome(&pending);
        assert!(matches!(outcome, Outcome::Final(finality) if finality.verdict.is_ok()), "{outcome:?}");
        outcome
    }

    fn balance(&self) -> Amount {
        self.desk.account(AccountId { participant: BANK, number: AccountNumber(0) }).unwrap().balance
    }
}

fn terms(reference: u8, now: Timestamp) -> Terms {
    let uetr = Uetr([reference; 16]);
    let expiry = now.plus_ms(VALIDITY_MS - 10_000);
    Terms { network: NetworkId(3), uetr, expiry, details: Hash::ZERO, seed: [reference; 16] }
}

fn opening(now: Timestamp) -> Transaction {
    let action = AccountAction::Open {
        count: 1,
        asset: EUR,
        owner: key().public_key(),
        floor: Amount::ZERO,
        alias: String::new(),
    };
    let order = AccountOrder { participant: BANK, number: AccountNumber(0), action };
    let mut transaction = Transaction::account(&terms(200, now), order);
    transaction.sign(&key());
    transaction
}

fn issue(reference: u8, now: Timestamp, amount: i64) -> Transaction {
    let to = AccountId { participant: BANK, number: AccountNumber(0) };
    let mut transaction =
        Transaction::new(Kind::Issue, &terms(reference, now), path::issue(to, EUR, Amount(amount)));
    transaction.sign(&key());
    transaction
}

/// A network with one empty account.
fn opened(directory: &Path) -> Process {
    let mut process = Process::start(directory, START);
    process.made(START, &opening(START));
    process
}

fn audited(directory: &Path) {
    audit(directory, &Arc::new(network()), AuditOptions { signatures: true }).unwrap();
}

#[test]
fn nobody_is_told_of_a_first_use_that_a_crash_could_take_back() {
    let directory = tempfile::tempdir().unwrap();
    let mut process = opened(directory.path());
    let (first, second) = (issue(1, START, 5), issue(1, START, 7));
    process.send(&first);
    process.run_without(START, &[]);
    let pending = process.send(&second);
    process.run_without(START, &[]);
    assert_eq!(process.outcome(&pending), Outcome::Pending, "the first is not durable");
    drop(process);
    // The crash took it back: the reference is free.
    let mut process = Process::start(directory.path(), START);
    process.made(START, &second);
    let pending = process.send(&first);
    process.settle(START);
    let Outcome::Duplicate { first: Some(told) } = process.outcome(&pending) else { panic!("now it is") };
    assert_eq!(told.id, second.id());
    assert_eq!(process.balance(), Amount(7));
    drop(process);
    audited(directory.path());
}

#[test]
fn an_outcome_that_nobody_remembers_is_found_in_the_journal() {
    let directory = tempfile::tempdir().unwrap();
    let mut process = opened(directory.path());
    let old = issue(1, START, 5);
    let outcome = process.made(START, &old);
    for later in 1..4 {
        let now = START.plus_ms(later * VALIDITY_MS);
        process.made(now, &issue(1 + u8::try_from(later).unwrap(), now, 1));
    }
    assert_eq!(process.desk.status(old.header.uetr).unwrap().unwrap().outcome, outcome);
    drop(process);
    let process = Process::start(directory.path(), START.plus_ms(4 * VALIDITY_MS));
    assert_eq!(process.desk.status(old.header.uetr).unwrap().unwrap().outcome, outcome);
}

#[test]
fn a_snapshot_leaves_out_no_batch_that_the_clerk_has_not_heard_of() {
    let directory = tempfile::tempdir().unwrap();
    let mut process = Process::start(directory.path(), START);
    process.send(&opening(START));
    process.run_without(START, &["clerk"]);
    process.log.sync().unwrap();
    process.desk.save().unwrap();
    drop(process);
    let mut process = Process::start(directory.path(), START);
    process.settle(START);
    assert_eq!(process.desk.sequenced(), 1);
    // Nor one that is accepted and nothing more.
    process.send(&issue(1, START, 5));
    process.run_without(START, &["clerk", "sequencer"]);
    process.log.sync().unwrap();
    process.desk.save().unwrap();
    drop(process);
    let mut process = Process::start(directory.path(), START);
    process.settle(START);
    assert_eq!(process.balance(), Amount(5));
    drop(process);
    audited(directory.path());
}

#[test]
fn a_clock_that_was_ahead_for_a_while_frees_no_reference() {
    let directory = tempfile::tempdir().unwrap();
    let mut process = opened(directory.path());
    let payment = issue(1, START, 5);
    let outcome = process.made(START, &payment);
    drop(process);
    // Its clock is wrong; it accepts nothing, saves its balances and ends.
    let wrong = START.plus_ms(10 * VALIDITY_MS);
    let mut process = Process::start(directory.path(), wrong);
    process.settle(wrong);
    process.desk.save().unwrap();
    drop(process);
    let now = START.plus_ms(1_000);
    let mut process = Process::start(directory.path(), now);
    let pending = process.send(&payment);
    process.settle(now);
    assert_eq!(process.outcome(&pending), outcome, "it was paid, and is not paid again");
    assert_eq!(process.balance(), Amount(5));
    drop(process);
    audited(directory.path());
}

#[test]
fn the_tree_head_is_shown_after_every_start() {
    let directory = tempfile::tempdir().unwrap();
    let process = opened(directory.path());
    let head = process.desk.tree_head();
    assert!(head.is_some());
    process.desk.save().unwrap();
    drop(process);
    assert_eq!(Process::start(directory.path(), START).desk.tree_head(), head);
}
