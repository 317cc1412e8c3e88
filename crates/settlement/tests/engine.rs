//! A whole network in one process, used as its clients use it.

#![expect(clippy::unwrap_used, reason = "helpers of tests may panic as tests do")]

use std::time::Duration;
use tally_crypto::{Hash, SigningKey};
use tally_ledger::order::AccountAction;
use tally_ledger::transaction::{Leg, Terms};
use tally_ledger::{
    AccountId, AccountNumber, AccountOrder, AccountStatus, Amount, Asset, AssetId, AssetKind, Kind, Network,
    NetworkId, Participant, ParticipantId, Refusal, SignaturePolicy, Timestamp, Transaction, Uetr,
};
use tally_settlement::audit::{AuditOptions, audit};
use tally_settlement::engine::{Answer, Engine, EngineOptions, Outcome};
use tally_settlement::path;
use tally_settlement::proof::Wanted;
use tally_settlement::statement::Movements;

const NETWORK: NetworkId = NetworkId([77; 32]);
const EUR: AssetId = AssetId(0);
const USD: AssetId = AssetId(1);
const CENTRAL: ParticipantId = ParticipantId(0);
const A: ParticipantId = ParticipantId(1);
const B: ParticipantId = ParticipantId(2);
const WAIT: Duration = Duration::from_secs(20);

fn key(number: u8) -> SigningKey {
    SigningKey::from_seed([number; 32])
}

fn network() -> Network {
    let participant = |bic: &str, number: u8| Participant {
        bic: bic.into(),
        name: format!("CN={bic}"),
        key: key(number).public_key(),
        settlement_floors: Vec::new(),
    };
    let asset = |code: &str| Asset {
        code: code.into(),
        kind: AssetKind::Currency,
        exponent: 2,
        settled_at: CENTRAL,
        largest_payment: Amount(1_000_000),
    };
    Network {
        id: NETWORK,
        participants: vec![
            participant("CENTDEFF", 1),
            participant("ALPHDEFF", 2),
            participant("BETAFRPP", 3),
        ],
        assets: vec![asset("EUR"), asset("USD")],
        signatures: SignaturePolicy::Required,
        longest_validity_ms: 3_600_000,
    }
}

struct Bench {
    engine: Engine,
    directory: tempfile::TempDir,
    references: u8,
}

fn options(directory: &tempfile::TempDir) -> EngineOptions {
    let keys = vec![key(1), key(2), key(3)];
    let mut options = EngineOptions::new(directory.path().to_owned(), network(), keys);
    options.journal.segment_bytes = 1 << 20;
    options.snapshot_every = None;
    options
}

impl Bench {
    /// A network with two customers at each bank; each account holds 100.00 of its asset.
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let engine = Engine::open(options(&directory)).unwrap();
        let mut bench = Self { engine, directory, references: 0 };
        for bank in [A, B] {
            for asset in [EUR, USD] {
                let reserves = path::issue_reserves(bench.engine.network(), bank, asset, Amount(50_000));
                bench.made(Kind::Issue, reserves, &[&key(1)]);
            }
        }
        for (bank, signer) in [(A, 2), (B, 3)] {
            for (number, asset) in [(0, EUR), (1, EUR), (2, USD)] {
                bench.open(bank, number, asset, &format!("{}-{number}", bank.0));
                let to = AccountId { participant: bank, number: AccountNumber(number) };
                bench.made(Kind::Issue, path::issue(to, asset, Amount(10_000)), &[&key(signer)]);
            }
        }
        bench
    }

    fn restart(self) -> Self {
        self.restart_with(|_| ())
    }

    fn restart_with(self, change: impl FnOnce(&mut EngineOptions)) -> Self {
        let Self { engine, directory, references } = self;
        engine.stop(WAIT).unwrap();
        let mut options = options(&directory);
        change(&mut options);
        Self { engine: Engine::open(options).unwrap(), directory, references }
    }

    /// Lets time pass.
    fn wait_until(&self, time: Timestamp) {
        while self.engine.now() < time {
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Ends without draining or saving, as a crash would.
    fn crash(self) -> Self {
        let Self { engine, directory, references } = self;
        drop(engine);
        let engine = Engine::open(options(&directory)).unwrap();
        Self { engine, directory, references }
    }

    fn terms(&mut self) -> Terms {
        self.references += 1;
        Terms {
            network: self.engine.network().id,
            uetr: Uetr([self.references; 16]),
            expiry: Timestamp(self.engine.now().0 + 60_000),
            details: Hash::ZERO,
            seed: [self.references; 16],
        }
    }

    fn draft(&mut self, kind: Kind, legs: Vec<Leg>, signers: &[&SigningKey]) -> Transaction {
        let mut transaction = Transaction::new(kind, &self.terms(), legs);
        signers.iter().for_each(|key| transaction.sign(&NETWORK, key));
        transaction
    }

    fn send(&self, transaction: Transaction) -> Outcome {
        let pending = self.engine.submit(vec![transaction]).unwrap();
        let mut answers: Vec<Answer> = self.engine.wait(&pending, WAIT);
        answers.remove(0).outcome
    }

    fn verdict(&self, transaction: Transaction) -> Result<(), Refusal> {
        match self.send(transaction) {
            Outcome::Final(finality) => finality.verdict,
            Outcome::Refused(refusal) => Err(refusal),
            other => panic!("{other:?}"),
        }
    }

    fn try_to(&mut self, kind: Kind, legs: Vec<Leg>, signers: &[&SigningKey]) -> Result<(), Refusal> {
        let transaction = self.draft(kind, legs, signers);
        self.verdict(transaction)
    }

    fn made(&mut self, kind: Kind, legs: Vec<Leg>, signers: &[&SigningKey]) {
        assert_eq!(self.try_to(kind, legs, signers), Ok(()));
    }

    fn order(
        &mut self,
        participant: ParticipantId,
        number: u32,
        action: AccountAction,
        signer: u8,
    ) -> Result<(), Refusal> {
        let order = AccountOrder { participant, number: AccountNumber(number), action };
        let mut transaction = Transaction::account(&self.terms(), order);
        transaction.sign(&NETWORK, &key(signer));
        self.verdict(transaction)
    }

    fn open(&mut self, bank: ParticipantId, number: u32, asset: AssetId, alias: &str) {
        let action = AccountAction::Open {
            count: 1,
            asset,
            owner: customer(bank, number).public_key(),
            floor: Amount::ZERO,
            alias: alias.into(),
        };
        assert_eq!(self.order(bank, number, action, u8::try_from(bank.0).unwrap() + 1), Ok(()));
    }

    fn balance(&self, bank: ParticipantId, number: AccountNumber) -> i64 {
        self.engine.account(AccountId { participant: bank, number }).unwrap().balance.0
    }

    fn pay(
        &mut self,
        from: (ParticipantId, u32),
        to: (ParticipantId, u32),
        amount: i64,
    ) -> Result<(), Refusal> {
        let id = |(participant, number)| AccountId { participant, number: AccountNumber(number) };
        let legs = path::payment(self.engine.network(), id(from), id(to), EUR, Amount(amount));
        self.try_to(Kind::Transfer, legs, &[&customer(from.0, from.1)])
    }

    fn audit(&self) {
        let network = std::sync::Arc::new(network());
        let report = audit(self.directory.path(), &network, AuditOptions { signatures: true }).unwrap();
        assert_eq!(report.undecided, 0);
        assert_eq!(report.totals, self.engine.totals());
    }
}

fn customer(bank: ParticipantId, number: u32) -> SigningKey {
    key(u8::try_from(bank.0).unwrap() * 10 + u8::try_from(number).unwrap() + 100)
}

#[test]
fn payments_inside_and_between_institutions_are_final_and_audited() {
    let mut bench = Bench::new();
    assert_eq!(bench.pay((A, 0), (A, 1), 2_500), Ok(()));
    assert_eq!(bench.pay((A, 0), (B, 0), 1_500), Ok(()));
    assert_eq!(bench.balance(A, AccountNumber(0)), 6_000);
    assert_eq!(bench.balance(A, AccountNumber(1)), 12_500);
    assert_eq!(bench.balance(B, AccountNumber(0)), 11_500);
    assert_eq!(bench.balance(CENTRAL, AccountNumber::settlement(EUR, A)), 48_500);
    assert_eq!(bench.balance(CENTRAL, AccountNumber::settlement(EUR, B)), 51_500);
    assert_eq!(bench.engine.account_by_alias(B, "2-1").unwrap().number, AccountNumber(1));
    bench.audit();
    let mut bench = bench.restart();
    assert_eq!(bench.balance(B, AccountNumber(0)), 11_500);
    assert_eq!(bench.pay((B, 0), (A, 0), 1), Ok(()));
    bench.audit();
    let bench = bench.crash();
    assert_eq!(bench.balance(A, AccountNumber(0)), 6_001);
    assert_eq!(
        bench
            .engine
            .statement(AccountId { participant: A, number: AccountNumber(0) }, &Movements::latest(2))
            .unwrap()
            .entries
            .len(),
        2
    );
    bench.audit();
}

#[test]
fn every_refusal_changes_nothing() {
    let mut bench = Bench::new();
    let before = bench.engine.totals();
    let id = |participant, number| AccountId { participant, number: AccountNumber(number) };
    let legs = |from, to, amount| path::payment(&network(), from, to, EUR, Amount(amount));
    let payer = customer(A, 0);
    assert_eq!(bench.pay((A, 0), (A, 1), 10_001), Err(Refusal::InsufficientFunds));
    assert_eq!(bench.pay((A, 0), (A, 99), 1), Err(Refusal::UnknownAccount));
    assert_eq!(bench.pay((A, 0), (B, 99), 1), Err(Refusal::UnknownAccount));
    assert_eq!(bench.pay((A, 0), (A, 2), 1), Err(Refusal::WrongAsset));
    assert_eq!(bench.pay((A, 0), (A, 1), 2_000_000), Err(Refusal::AboveLimit));
    assert_eq!(bench.try_to(Kind::Transfer, legs(id(A, 0), id(A, 1), 1), &[]), Err(Refusal::Unsigned));
    assert_eq!(
        bench.try_to(Kind::Transfer, legs(id(A, 0), id(A, 1), 1), &[&customer(A, 1)]),
        Err(Refusal::Unsigned)
    );
    let mut forged = bench.draft(Kind::Transfer, legs(id(A, 0), id(A, 1), 1), &[&payer]);
    forged.legs[0].amount = Amount(-2);
    forged.legs[1].amount = Amount(2);
    assert_eq!(bench.verdict(forged), Err(Refusal::WrongSignature));
    let mut expired = bench.terms();
    expired.expiry = Timestamp(1);
    let mut expired = Transaction::new(Kind::Transfer, &expired, legs(id(A, 0), id(A, 1), 1));
    expired.sign(&NETWORK, &payer);
    assert_eq!(bench.verdict(expired), Err(Refusal::Expired));
    let mut far = bench.terms();
    far.expiry = Timestamp(u64::MAX);
    let mut far = Transaction::new(Kind::Transfer, &far, legs(id(A, 0), id(A, 1), 1));
    far.sign(&NETWORK, &payer);
    assert_eq!(bench.verdict(far), Err(Refusal::ExpiryTooFar));
    // The customer cannot create money, nor can another bank.
    assert_eq!(
        bench.try_to(Kind::Issue, path::issue(id(A, 0), EUR, Amount(5)), &[&payer]),
        Err(Refusal::Unsigned)
    );
    assert_eq!(
        bench.try_to(Kind::Issue, path::issue(id(A, 0), EUR, Amount(5)), &[&key(3)]),
        Err(Refusal::Unsigned)
    );
    assert_eq!(bench.engine.totals(), before);
    // The bank of the payer has no reserves left for so much.
    let central = AccountNumber::settlement(EUR, A);
    let back = path::reverse(path::issue_reserves(&network(), A, EUR, Amount(49_500)));
    assert_eq!(bench.try_to(Kind::Redeem, back, &[&key(1), &key(2)]), Ok(()));
    assert_eq!(bench.balance(CENTRAL, central), 500);
    assert_eq!(bench.pay((A, 0), (B, 0), 501), Err(Refusal::InsufficientFunds));
    assert_eq!(bench.pay((A, 0), (B, 0), 500), Ok(()));
    bench.audit();
}

#[test]
fn a_resubmission_gets_the_same_receipt_and_another_payment_with_its_reference_does_not() {
    let mut bench = Bench::new();
    let id = |participant, number| AccountId { participant, number: AccountNumber(number) };
    let legs = path::payment(&network(), id(A, 0), id(A, 1), EUR, Amount(700));
    let first = bench.draft(Kind::Transfer, legs.clone(), &[&customer(A, 0)]);
    let outcome = bench.send(first.clone());
    assert!(matches!(outcome, Outcome::Final(f) if f.verdict.is_ok()));
    assert_eq!(bench.send(first.clone()), outcome);
    let mut other = first.clone();
    (other.seed, other.signers) = ([9; 16], Vec::new());
    other.sign(&NETWORK, &customer(A, 0));
    let Outcome::Duplicate { first: Some(known) } = bench.send(other) else { panic!("a duplicate is named") };
    assert_eq!((known.answer.id, &known.answer.outcome), (first.id(&NETWORK), &outcome));
    let bench = bench.crash();
    assert_eq!(bench.send(first.clone()), outcome);
    assert_eq!(bench.engine.status(Wanted::Uetr(first.header.uetr)).unwrap().unwrap().outcome, outcome);
    assert_eq!(bench.engine.status(Wanted::Uetr(Uetr([250; 16]))).unwrap(), None);
    assert_eq!(bench.balance(A, AccountNumber(0)), 9_300);
    bench.audit();
}

#[test]
fn a_resubmission_after_the_expiry_gets_the_same_receipt() {
    let mut bench = Bench::new();
    let id = |participant, number| AccountId { participant, number: AccountNumber(number) };
    let legs = |amount| path::payment(&network(), id(A, 0), id(A, 1), EUR, Amount(amount));
    // References that differ in their last byte go through different schedulers.
    let mut sent: Vec<(Transaction, Outcome)> = Vec::new();
    for amount in [1, 2, 20_000, 3] {
        let mut terms = bench.terms();
        terms.expiry = bench.engine.now().plus_ms(2_000);
        let mut transaction = Transaction::new(Kind::Transfer, &terms, legs(amount));
        transaction.sign(&NETWORK, &customer(A, 0));
        let outcome = bench.send(transaction.clone());
        assert!(matches!(outcome, Outcome::Final(_)), "{outcome:?}");
        sent.push((transaction, outcome));
    }
    let refused =
        sent.iter().filter(|(_, outcome)| matches!(outcome, Outcome::Final(f) if f.verdict.is_err()));
    assert_eq!(refused.count(), 1, "a refusal is an outcome too");
    let expiry = sent.iter().map(|(transaction, _)| transaction.header.expiry).max().unwrap();
    bench.wait_until(expiry.plus_ms(1));
    let again = |bench: &Bench| {
        for (transaction, outcome) in &sent {
            assert_eq!(bench.send(transaction.clone()), *outcome);
            // One that was never accepted has expired, whatever its reference.
            let mut other = transaction.clone();
            (other.seed, other.signers) = ([9; 16], Vec::new());
            other.sign(&NETWORK, &customer(A, 0));
            assert_eq!(bench.send(other), Outcome::Refused(Refusal::Expired));
        }
    };
    again(&bench);
    assert_eq!(bench.pay((A, 0), (B, 0), 1), Ok(()));
    let bench = bench.crash();
    again(&bench);
    assert_eq!(bench.balance(A, AccountNumber(0)), 9_993);
    bench.audit();
}

#[test]
fn a_shorter_longest_validity_forgets_no_reference_that_has_not_expired() {
    let mut bench = Bench::new();
    let id = |participant, number| AccountId { participant, number: AccountNumber(number) };
    let legs = path::payment(&network(), id(A, 0), id(A, 1), EUR, Amount(700));
    const SHORT_MS: u64 = 3_000;
    let began = bench.engine.now();
    let mut terms = bench.terms();
    terms.expiry = began.plus_ms(2 * SHORT_MS);
    let mut transaction = Transaction::new(Kind::Transfer, &terms, legs);
    transaction.sign(&NETWORK, &customer(A, 0));
    let outcome = bench.send(transaction.clone());
    // Until it was accepted longer ago than the shorter validity, and is itself valid for less than that.
    bench.wait_until(began.plus_ms(SHORT_MS + 200));
    // With a snapshot of before, then from one made meanwhile.
    for _ in 0..2 {
        bench = bench.restart_with(|options| options.network.longest_validity_ms = SHORT_MS);
        assert_eq!(bench.send(transaction.clone()), outcome);
    }
    assert_eq!(bench.balance(A, AccountNumber(0)), 9_300);
}

#[test]
fn payment_versus_payment_moves_both_currencies_or_none() {
    let mut bench = Bench::new();
    let id = |participant, number| AccountId { participant, number: AccountNumber(number) };
    let exchange = |euros, dollars| {
        let mut legs = path::payment(&network(), id(A, 0), id(B, 0), EUR, Amount(euros));
        legs.extend(path::payment(&network(), id(B, 2), id(A, 2), USD, Amount(dollars)));
        legs
    };
    let (payer, other) = (customer(A, 0), customer(B, 2));
    assert_eq!(
        bench.try_to(Kind::Transfer, exchange(100, 10_001), &[&payer, &other]),
        Err(Refusal::InsufficientFunds)
    );
    assert_eq!(bench.try_to(Kind::Transfer, exchange(100, 110), &[&payer]), Err(Refusal::Unsigned));
    assert_eq!(bench.balance(A, AccountNumber(0)), 10_000);
    assert_eq!(bench.try_to(Kind::Transfer, exchange(100, 110), &[&payer, &other]), Ok(()));
    assert_eq!(bench.balance(A, AccountNumber(0)), 9_900);
    assert_eq!(bench.balance(A, AccountNumber(2)), 10_110);
    assert_eq!(bench.balance(B, AccountNumber(2)), 9_890);
    // What was refused is not reserved any more.
    assert_eq!(bench.pay((A, 0), (A, 1), 9_900), Ok(()));
    bench.audit();
}

#[test]
fn accounts_are_frozen_released_limited_and_closed_while_it_runs() {
    let mut bench = Bench::new();
    assert_eq!(bench.order(A, 0, AccountAction::Freeze, 3), Err(Refusal::Unsigned));
    assert_eq!(bench.order(A, 0, AccountAction::Freeze, 2), Ok(()));
    assert_eq!(bench.pay((A, 0), (A, 1), 1), Err(Refusal::BlockedAccount));
    assert_eq!(bench.pay((A, 1), (A, 0), 1), Err(Refusal::BlockedAccount));
    assert_eq!(bench.order(A, 0, AccountAction::Close, 2), Err(Refusal::NotEmpty));
    assert_eq!(bench.order(A, 0, AccountAction::Release, 2), Ok(()));
    assert_eq!(bench.order(A, 0, AccountAction::Release, 2), Err(Refusal::OrderNotPossible));
    assert_eq!(bench.pay((A, 0), (A, 1), 10_000), Ok(()));
    assert_eq!(bench.order(A, 0, AccountAction::SetFloor(Amount(-300)), 2), Ok(()));
    assert_eq!(bench.pay((A, 0), (A, 1), 301), Err(Refusal::InsufficientFunds));
    assert_eq!(bench.pay((A, 0), (A, 1), 300), Ok(()));
    assert_eq!(bench.order(A, 0, AccountAction::SetFloor(Amount::ZERO), 2), Err(Refusal::InsufficientFunds));
    assert_eq!(bench.pay((A, 1), (A, 0), 300), Ok(()));
    assert_eq!(bench.order(A, 0, AccountAction::Close, 2), Ok(()));
    assert_eq!(bench.pay((A, 1), (A, 0), 1), Err(Refusal::ClosedAccount));
    assert_eq!(bench.order(A, 0, AccountAction::Freeze, 2), Err(Refusal::ClosedAccount));
    let twice = AccountAction::Open {
        count: 1,
        asset: EUR,
        owner: key(1).public_key(),
        floor: Amount::ZERO,
        alias: "1-1".into(),
    };
    assert_eq!(bench.order(A, 3, twice, 2), Err(Refusal::OrderNotPossible));
    bench.audit();
    let mut bench = bench.restart();
    let closed = bench.engine.account(AccountId { participant: A, number: AccountNumber(0) }).unwrap();
    assert_eq!(closed.status, AccountStatus::Closed);
    assert_eq!(bench.pay((A, 1), (A, 0), 1), Err(Refusal::ClosedAccount));
    bench.audit();
}

#[test]
fn a_receipt_proves_the_outcome_and_nothing_else() {
    let mut bench = Bench::new();
    let id = |participant, number| AccountId { participant, number: AccountNumber(number) };
    let legs = path::payment(&network(), id(A, 0), id(A, 1), EUR, Amount(20_000));
    let refused = bench.draft(Kind::Transfer, legs, &[&customer(A, 0)]);
    assert_eq!(bench.verdict(refused.clone()), Err(Refusal::InsufficientFunds));
    assert_eq!(bench.pay((A, 0), (B, 0), 5), Ok(()));
    let operator = key(1).public_key();
    let receipt = bench.engine.receipt(Wanted::Uetr(refused.header.uetr)).unwrap().unwrap();
    assert_eq!(receipt.id, refused.id(&NETWORK));
    assert_eq!(receipt.verify(&NETWORK, &operator), Ok(Err(Refusal::InsufficientFunds)));
    assert!(bench.engine.receipt(Wanted::Uetr(Uetr([251; 16]))).unwrap().is_none());
    let changes: [fn(&mut tally_proof::Receipt); 8] = [
        |r| r.verdict = 0,
        |r| r.id = Hash::ZERO,
        |r| r.sequence += 1,
        |r| r.timestamp.0 += 1,
        |r| r.batch += 1,
        |r| r.leaf += 1,
        |r| r.root = Hash::ZERO,
        |r| r.head.head.size += 1,
    ];
    for change in changes {
        let mut changed = receipt.clone();
        change(&mut changed);
        assert!(changed.verify(&NETWORK, &operator).is_err());
    }
    assert!(receipt.verify(&NETWORK, &key(2).public_key()).is_err());
}
