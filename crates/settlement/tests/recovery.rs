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
use tally_settlement::audit::{AuditError, AuditOptions, audit};
use tally_settlement::engine::{Answer, Desk, EngineError, EngineOptions, Outcome, Pending, assemble};
use tally_settlement::path;
use tally_settlement::proof::Wanted;
use tally_settlement::replay::ReplayError;
use tally_settlement::runtime::Stage;

const NETWORK: NetworkId = NetworkId([3; 32]);
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
        id: NETWORK,
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
        Self::of(directory, network(), now).unwrap()
    }

    /// A process of that network on whatever journal lies there.
    fn of(directory: &Path, network: Network, now: Timestamp) -> Result<Self, EngineError> {
        let mut options = EngineOptions::new(directory.to_owned(), network, vec![key()]);
        options.schedulers = 1;
        options.journal.segment_bytes = 1 << 16;
        let (log, report) = FileLog::open(directory.join("journal"), options.journal.clone()).unwrap();
        let log = Arc::new(log);
        let assembly = assemble(&options, &log, report, now)?;
        Ok(Self { stages: assembly.stages, desk: assembly.desk, log })
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
    Terms { network: NETWORK, uetr, expiry, details: Hash::ZERO, seed: [reference; 16] }
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
    transaction.sign(&NETWORK, &key());
    transaction
}

fn issue(reference: u8, now: Timestamp, amount: i64) -> Transaction {
    let to = AccountId { participant: BANK, number: AccountNumber(0) };
    let mut transaction =
        Transaction::new(Kind::Issue, &terms(reference, now), path::issue(to, EUR, Amount(amount)));
    transaction.sign(&NETWORK, &key());
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
    assert_eq!(told.answer.id, second.id(&NETWORK));
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
    assert_eq!(process.desk.status(Wanted::Uetr(old.header.uetr)).unwrap().unwrap().outcome, outcome);
    drop(process);
    let process = Process::start(directory.path(), START.plus_ms(4 * VALIDITY_MS));
    assert_eq!(process.desk.status(Wanted::Uetr(old.header.uetr)).unwrap().unwrap().outcome, outcome);
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

/// A copy of a directory that is in use, or a disk that lost the journal's end, has snapshots of later than its journal: what
/// the journal does not remember would be paid a second time.
#[test]
fn a_journal_that_is_older_than_its_snapshots_is_not_taken() {
    let directory = tempfile::tempdir().unwrap();
    let (journal, old) = (directory.path().join("journal"), directory.path().join("old"));
    let copy = |from: &Path, to: &Path| {
        if to.exists() {
            std::fs::remove_dir_all(to).unwrap();
        }
        std::fs::create_dir(to).unwrap();
        for file in std::fs::read_dir(from).unwrap() {
            let file = file.unwrap();
            std::fs::copy(file.path(), to.join(file.file_name())).unwrap();
        }
    };
    let mut process = opened(directory.path());
    process.made(START, &issue(1, START, 5));
    drop(process);
    copy(&journal, &old);
    let mut process = Process::start(directory.path(), START);
    process.made(START, &issue(2, START, 7));
    process.desk.save().unwrap();
    drop(process);
    let newer = directory.path().join("newer");
    copy(&journal, &newer);

    copy(&old, &journal);
    let refused = Process::of(directory.path(), network(), START).err();
    let is_behind = matches!(
        refused,
        Some(EngineError::Replay(ReplayError::JournalBehind { what: "the sequence", saved: 3, journal: 2 }))
    );
    assert!(is_behind, "{refused:?}");
    // A journal that went on from there for itself is of another history, though it is as long.
    let beside = tempfile::tempdir().unwrap();
    copy(&old, &beside.path().join("journal"));
    let mut process = Process::start(beside.path(), START);
    process.made(START, &issue(3, START, 9));
    drop(process);
    copy(&beside.path().join("journal"), &journal);
    let refused = Process::of(directory.path(), network(), START).err();
    let is_other = matches!(refused, Some(EngineError::Replay(ReplayError::OtherHistory { size: 3 })));
    assert!(is_other, "{refused:?}");
    // With its own journal it goes on, and an old snapshot beside a newer journal is as good.
    copy(&newer, &journal);
    assert_eq!(Process::start(directory.path(), START).balance(), Amount(12));
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

/// Headers have four bytes of the network's id, in which two networks may be alike; heads of the log have all of it.
#[test]
fn the_journal_of_a_namesake_is_not_taken_for_its_own() {
    let directory = tempfile::tempdir().unwrap();
    let mut process = opened(directory.path());
    process.made(START, &issue(1, START, 5));
    drop(process);
    for byte in [4, 17, 31] {
        let mut namesake = network();
        namesake.id.0[byte] ^= 1;
        assert_eq!(namesake.id.tag(), NETWORK.tag());
        let refused = Process::of(directory.path(), namesake.clone(), START).err();
        assert!(
            matches!(refused, Some(EngineError::Replay(ReplayError::ForeignHead { size: 2 }))),
            "{refused:?}"
        );
        let audited = audit(directory.path(), &Arc::new(namesake), AuditOptions { signatures: false });
        // Its ids are others, so that no root over decisions is theirs.
        assert!(matches!(audited, Err(AuditError::NotInOrder { .. })), "{audited:?}");
    }
    assert_eq!(Process::start(directory.path(), START).balance(), Amount(5));
}
