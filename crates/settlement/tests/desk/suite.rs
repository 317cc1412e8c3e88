//! The promises.

use super::host::{A, B, CENTRAL, EUR, Host, NETWORK, WAIT, customer, id, key, network};
use std::time::Duration;
use tally_crypto::{Hash, SigningKey};
use tally_ledger::order::AccountAction;
use tally_ledger::transaction::{Leg, Terms};
use tally_ledger::{
    AccountId, AccountNumber, AccountOrder, Amount, Kind, ParticipantId, Refusal, Timestamp, Transaction,
    Uetr,
};
use tally_proof::{Keys, ProvenLeg};
use tally_settlement::desk::Settlement;
use tally_settlement::engine::Outcome;
use tally_settlement::outcomes::{Concluded, Place};
use tally_settlement::path;
use tally_settlement::proof::Wanted;
use tally_settlement::recent::Reference;
use tally_settlement::statement::{Movements, Statement};

pub(crate) struct Bench<H> {
    pub(crate) host: H,
    references: u8,
}

type Party = (ParticipantId, u32);

impl<H: Host> Bench<H> {
    /// A network with two customers at each bank; each account holds 100.00.
    pub(crate) fn new() -> Self {
        Self::on(H::start())
    }

    /// The same on a network that runs.
    pub(crate) fn on(host: H) -> Self {
        let mut bench = Self { host, references: 0 };
        for bank in [A, B] {
            let reserves = path::issue_reserves(&network(), bank, EUR, Amount(50_000));
            bench.made(Kind::Issue, reserves, &[&key(1)]);
        }
        for (bank, signer) in [(A, 2), (B, 3)] {
            for number in [0, 1] {
                bench.open(bank, number, signer);
                bench.made(Kind::Issue, path::issue(id(bank, number), EUR, Amount(10_000)), &[&key(signer)]);
            }
        }
        bench
    }

    fn crash(self) -> Self {
        Self { host: self.host.crash(), references: self.references }
    }

    pub(crate) fn terms(&mut self) -> Terms {
        self.references += 1;
        Terms {
            network: network().id,
            uetr: Uetr([self.references; 16]),
            expiry: self.host.desk().now().plus_ms(600_000),
            details: Hash::ZERO,
            seed: [self.references; 16],
        }
    }

    pub(crate) fn draft(&mut self, kind: Kind, legs: Vec<Leg>, signers: &[&SigningKey]) -> Transaction {
        let mut transaction = Transaction::new(kind, &self.terms(), legs);
        signers.iter().for_each(|key| transaction.sign(&NETWORK, key));
        transaction
    }

    pub(crate) fn send(&self, transaction: Transaction) -> Outcome {
        let pending = self.host.desk().submit(vec![transaction]).unwrap();
        self.host.desk().wait(&pending, WAIT).remove(0).outcome
    }

    fn verdict(&self, transaction: Transaction) -> Result<(), Refusal> {
        match self.send(transaction) {
            Outcome::Final(finality) => finality.verdict,
            Outcome::Refused(refusal) => Err(refusal),
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn try_to(
        &mut self,
        kind: Kind,
        legs: Vec<Leg>,
        signers: &[&SigningKey],
    ) -> Result<(), Refusal> {
        let transaction = self.draft(kind, legs, signers);
        self.verdict(transaction)
    }

    fn made(&mut self, kind: Kind, legs: Vec<Leg>, signers: &[&SigningKey]) {
        assert_eq!(self.try_to(kind, legs, signers), Ok(()));
    }

    fn open(&mut self, bank: ParticipantId, number: u32, signer: u8) {
        let action = AccountAction::Open {
            count: 1,
            asset: EUR,
            owner: customer(bank, number).public_key(),
            floor: Amount::ZERO,
            alias: format!("{}-{number}", bank.0),
        };
        let order = AccountOrder { participant: bank, number: AccountNumber(number), action };
        let mut transaction = Transaction::account(&self.terms(), order);
        transaction.sign(&NETWORK, &key(signer));
        assert_eq!(self.verdict(transaction), Ok(()));
    }

    pub(crate) fn balance(&self, bank: ParticipantId, number: u32) -> i64 {
        self.host.desk().account(id(bank, number)).unwrap().balance.0
    }

    /// Payments of one cent from the first customer of one bank to the other's, not handed in.
    fn payments(&mut self, count: usize) -> Vec<Transaction> {
        let payment = |_| {
            let legs = path::payment(&network(), id(A, 0), id(B, 0), EUR, Amount(1));
            self.draft(Kind::Transfer, legs, &[&customer(A, 0)])
        };
        (0..count).map(payment).collect()
    }

    pub(crate) fn pay(&mut self, from: Party, to: Party, amount: i64) -> Result<(), Refusal> {
        let legs = path::payment(&network(), id(from.0, from.1), id(to.0, to.1), EUR, Amount(amount));
        self.try_to(Kind::Transfer, legs, &[&customer(from.0, from.1)])
    }
}

pub(crate) fn payments_are_final_and_audited<H: Host>(mut bench: Bench<H>) {
    assert_eq!(bench.pay((A, 0), (A, 1), 2_500), Ok(()));
    assert_eq!(bench.pay((A, 0), (B, 0), 1_500), Ok(()));
    assert_eq!([bench.balance(A, 0), bench.balance(A, 1), bench.balance(B, 0)], [6_000, 12_500, 11_500]);
    let settlement = |of| AccountId { participant: CENTRAL, number: AccountNumber::settlement(EUR, of) };
    let desk = bench.host.desk();
    assert_eq!(desk.account(settlement(A)).unwrap().balance, Amount(48_500));
    assert_eq!(desk.account(settlement(B)).unwrap().balance, Amount(51_500));
    assert_eq!(desk.account_by_alias(B, "2-1"), Some(id(B, 1)));
    assert_eq!(desk.alias(id(B, 1)).as_deref(), Some("2-1"));
    assert_eq!(desk.next_account(B), Some(AccountNumber(2)));
    assert_eq!(desk.counts().accepted, 12);
    assert_eq!(desk.sequenced(), 12);
    let head = desk.tree_head().unwrap();
    assert!(head.verify(&NETWORK.0, &key(1).public_key()).is_ok());
    bench.host.audit();
    let mut bench = bench.crash();
    assert_eq!(bench.host.desk().tree_head(), Some(head));
    assert_eq!(bench.host.desk().sequenced(), 12);
    assert_eq!(bench.balance(A, 0), 6_000);
    assert_eq!(bench.pay((B, 0), (A, 0), 1), Ok(()));
    assert_eq!(bench.balance(A, 0), 6_001);
    bench.host.audit();
}

pub(crate) fn every_refusal_changes_nothing<H: Host>(mut bench: Bench<H>) {
    let before = bench.host.desk().totals();
    let legs = |amount| path::payment(&network(), id(A, 0), id(A, 1), EUR, Amount(amount));
    assert_eq!(bench.pay((A, 0), (A, 1), 10_001), Err(Refusal::InsufficientFunds));
    assert_eq!(bench.pay((A, 0), (B, 99), 1), Err(Refusal::UnknownAccount));
    assert_eq!(bench.pay((A, 0), (A, 1), 2_000_000), Err(Refusal::AboveLimit));
    assert_eq!(bench.try_to(Kind::Transfer, legs(1), &[&customer(A, 1)]), Err(Refusal::Unsigned));
    let mut forged = bench.draft(Kind::Transfer, legs(1), &[&customer(A, 0)]);
    (forged.legs[0].amount, forged.legs[1].amount) = (Amount(-2), Amount(2));
    assert_eq!(bench.verdict(forged), Err(Refusal::WrongSignature));
    let mut shapeless = bench.draft(Kind::Transfer, legs(1), &[&customer(A, 0)]);
    shapeless.header.legs += 1;
    assert_eq!(bench.verdict(shapeless), Err(Refusal::Malformed));
    let mut expired = bench.terms();
    expired.expiry = Timestamp(1);
    let mut expired = Transaction::new(Kind::Transfer, &expired, legs(1));
    expired.sign(&NETWORK, &customer(A, 0));
    assert_eq!(bench.verdict(expired), Err(Refusal::Expired));
    assert_eq!(bench.host.desk().totals(), before);
    let counts = bench.host.desk().counts();
    assert_eq!(counts.refused.get(&Refusal::InsufficientFunds), Some(&1));
    assert_eq!(counts.refused.get(&Refusal::WrongSignature), Some(&1));
    bench.host.audit();
}

pub(crate) fn a_resubmission_gets_the_same_outcome<H: Host>(mut bench: Bench<H>) {
    let legs = |amount| path::payment(&network(), id(A, 0), id(A, 1), EUR, Amount(amount));
    let made = bench.draft(Kind::Transfer, legs(700), &[&customer(A, 0)]);
    let refused = bench.draft(Kind::Transfer, legs(20_000), &[&customer(A, 0)]);
    let outcomes = [bench.send(made.clone()), bench.send(refused.clone())];
    assert!(matches!(outcomes[0], Outcome::Final(finality) if finality.verdict.is_ok()));
    let mut other = made.clone();
    (other.seed, other.signers) = ([9; 16], Vec::new());
    other.sign(&NETWORK, &customer(A, 0));
    let again = |bench: &Bench<H>| {
        assert_eq!([bench.send(made.clone()), bench.send(refused.clone())], outcomes);
        let known = bench.send(other.clone());
        let Outcome::Duplicate { first: Some(known) } = known else { panic!("{known:?}") };
        assert_eq!((known.answer.id, &known.answer.outcome), (made.id(&NETWORK), &outcomes[0]));
        assert_eq!(
            bench.host.desk().status(Wanted::Uetr(made.header.uetr)).unwrap().unwrap().outcome,
            outcomes[0]
        );
        assert_eq!(bench.host.desk().status(Wanted::Uetr(Uetr([250; 16]))).unwrap(), None);
    };
    again(&bench);
    let bench = bench.crash();
    again(&bench);
    assert_eq!(bench.host.desk().counts().duplicates, 3);
    assert_eq!(bench.balance(A, 0), 9_300);
    bench.host.audit();
}

pub(crate) fn a_resubmission_after_the_expiry_gets_the_same_outcome<H: Host>(mut bench: Bench<H>) {
    let legs = |amount| path::payment(&network(), id(A, 0), id(A, 1), EUR, Amount(amount));
    let mut sent = Vec::new();
    // On a slow machine some may expire before they are accepted: those are sent again with a new reference.
    for amount in [1, 2, 20_000, 3] {
        loop {
            let mut terms = bench.terms();
            terms.expiry = bench.host.desk().now().plus_ms(2_000);
            let mut transaction = Transaction::new(Kind::Transfer, &terms, legs(amount));
            transaction.sign(&NETWORK, &customer(A, 0));
            let outcome = bench.send(transaction.clone());
            if matches!(outcome, Outcome::Final(_)) {
                sent.push((transaction, outcome));
                break;
            }
        }
    }
    let expiry = sent.iter().map(|(transaction, _)| transaction.header.expiry).max().unwrap();
    while bench.host.desk().now() <= expiry {
        std::thread::sleep(Duration::from_millis(20));
    }
    let again = |bench: &Bench<H>| {
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
    bench.host.audit();
}

/// Everybody may choose the reference of another's payment for its own: neither payment, nor what is told of it, changes.
pub(crate) fn each_institution_finds_its_own_payment_under_a_reference_of_several<H: Host>(
    mut bench: Bench<H>,
) {
    let mut make = |uetr: u8, from: Party, to: Party, amount| {
        let legs = path::payment(&network(), id(from.0, from.1), id(to.0, to.1), EUR, Amount(amount));
        let mut transaction = Transaction::new(Kind::Transfer, &bench.terms(), legs);
        transaction.header.uetr = Uetr([uetr; 16]);
        transaction.sign(&NETWORK, &customer(from.0, from.1));
        assert_eq!(bench.verdict(transaction.clone()), Ok(()));
        transaction
    };
    let (inside, abroad) = (200, 201);
    let a_inside = make(inside, (A, 0), (A, 1), 7);
    let b_inside = make(inside, (B, 0), (B, 1), 8);
    let a_abroad = make(abroad, (A, 0), (B, 1), 9);
    let b_abroad = make(abroad, (B, 0), (A, 1), 10);
    let own = |participant, uetr| Wanted::Of(Reference { participant, uetr: Uetr([uetr; 16]) });
    let concerning = |participant, uetr| Wanted::Concerning(participant, Uetr([uetr; 16]));
    let check = |bench: &Bench<H>| {
        let desk = bench.host.desk();
        for (payer, uetr, paid) in
            [(A, inside, &a_inside), (B, inside, &b_inside), (A, abroad, &a_abroad), (B, abroad, &b_abroad)]
        {
            for wanted in [own(payer, uetr), concerning(payer, uetr)] {
                let answer = desk.status(wanted).unwrap().unwrap();
                assert_eq!(answer.id, paid.id(&NETWORK), "{wanted:?}");
                assert!(matches!(answer.outcome, Outcome::Final(finality) if finality.verdict.is_ok()));
                let accepted = desk.accepted(wanted).unwrap().unwrap();
                assert_eq!(accepted.transaction.id(&NETWORK), paid.id(&NETWORK), "{wanted:?}");
            }
            let receipt = desk.receipt(own(payer, uetr)).unwrap().unwrap();
            assert_eq!(receipt.id, paid.id(&NETWORK));
        }
        // The central bank has a part in what is paid from bank to bank, and no payment of its own.
        assert_eq!(desk.status(concerning(CENTRAL, inside)).unwrap(), None);
        assert!(desk.status(concerning(CENTRAL, abroad)).unwrap().is_some());
        assert_eq!(desk.status(own(CENTRAL, abroad)).unwrap(), None);
        assert_eq!(desk.accepted(own(CENTRAL, abroad)).unwrap(), None);
    };
    check(&bench);
    let bench = bench.crash();
    check(&bench);
    bench.host.audit();
}

/// What nobody authorised uses nothing up, so that the same transaction can come again with the right signature.
pub(crate) fn what_was_refused_unsigned_first_is_told_as_it_was_decided_last<H: Host>(mut bench: Bench<H>) {
    let legs = path::payment(&network(), id(A, 0), id(A, 1), EUR, Amount(11));
    // On a slow machine one may expire before it is accepted: then another is made.
    let (signed, outcome) = loop {
        let mut terms = bench.terms();
        terms.expiry = bench.host.desk().now().plus_ms(2_000);
        let unsigned = Transaction::new(Kind::Transfer, &terms, legs.clone());
        let mut signed = unsigned.clone();
        signed.sign(&NETWORK, &customer(A, 0));
        let mut forged = signed.clone();
        forged.signers[0].signature = key(9).sign(b"something else");
        assert_eq!(forged.id(&NETWORK), signed.id(&NETWORK));
        let first = bench.verdict(forged);
        let outcome = bench.send(signed.clone());
        if first != Err(Refusal::Expired) && matches!(outcome, Outcome::Final(_)) {
            assert_eq!(first, Err(Refusal::WrongSignature));
            break (signed, outcome);
        }
    };
    assert!(matches!(outcome, Outcome::Final(finality) if finality.verdict.is_ok()));
    let check = |bench: &Bench<H>| {
        assert_eq!(bench.send(signed.clone()), outcome);
        for wanted in [Wanted::Uetr(signed.header.uetr), Wanted::Id(signed.id(&NETWORK))] {
            assert_eq!(bench.host.desk().status(wanted).unwrap().unwrap().outcome, outcome, "{wanted:?}");
        }
    };
    check(&bench);
    while bench.host.desk().now() <= signed.header.expiry {
        std::thread::sleep(Duration::from_millis(20));
    }
    check(&bench);
    let bench = bench.crash();
    check(&bench);
    bench.host.audit();
}

pub(crate) fn a_receipt_proves_the_outcome<H: Host>(mut bench: Bench<H>) {
    let legs = path::payment(&network(), id(A, 0), id(A, 1), EUR, Amount(20_000));
    let refused = bench.draft(Kind::Transfer, legs, &[&customer(A, 0)]);
    assert_eq!(bench.verdict(refused.clone()), Err(Refusal::InsufficientFunds));
    assert_eq!(bench.pay((A, 0), (B, 0), 5), Ok(()));
    let receipt = bench.host.desk().receipt(Wanted::Uetr(refused.header.uetr)).unwrap().unwrap();
    assert_eq!(receipt.id, refused.id(&NETWORK));
    assert_eq!(receipt.verify(&NETWORK, &key(1).public_key()), Ok(Err(Refusal::InsufficientFunds)));
    assert!(receipt.verify(&NETWORK, &key(2).public_key()).is_err());
    assert!(bench.host.desk().receipt(Wanted::Uetr(Uetr([251; 16]))).unwrap().is_none());
}

pub(crate) fn a_proof_is_checked_offline<H: Host>(mut bench: Bench<H>) {
    let keys = Keys::of(&network()).unwrap();
    let legs = path::payment(&network(), id(A, 0), id(B, 0), EUR, Amount(5));
    let paid = bench.draft(Kind::Transfer, legs, &[&customer(A, 0)]);
    assert_eq!(bench.verdict(paid.clone()), Ok(()));
    let desk = bench.host.desk();
    let proof = desk.proof(Wanted::Uetr(paid.header.uetr), &[A]).unwrap().unwrap();
    let proven = proof.verify(&keys).unwrap();
    assert_eq!(
        (proven.id, proven.verdict, proven.sequence),
        (paid.id(&NETWORK), Ok(()), desk.sequenced() - 1)
    );
    let approved: Vec<_> = proven.answers.iter().map(|answer| answer.bic.as_str()).collect();
    assert_eq!(approved, ["CENTDEFF", "ALPHDEFF", "BETAFRPP"]);
    assert!(!proven.legs.is_empty() && proven.legs.iter().all(|(_, leg)| leg.participant == A));
    assert!(proof.transaction.legs.iter().any(|leg| matches!(leg, ProvenLeg::Hidden(_))));
    // Whoever asks again, and however, is given the same.
    assert_eq!(desk.proof(Wanted::Id(paid.id(&NETWORK)), &[A]).unwrap(), Some(proof.clone()));
    assert_eq!(desk.proof(Wanted::Uetr(Uetr([251; 16])), &[]).unwrap(), None);
    assert_eq!(desk.proof(Wanted::Id(Hash::ZERO), &[]).unwrap(), None);
    let status = desk.status(Wanted::Id(paid.id(&NETWORK))).unwrap();
    assert_eq!(status, desk.status(Wanted::Uetr(paid.header.uetr)).unwrap());
    assert_eq!(status.map(|status| status.id), Some(paid.id(&NETWORK)));
    assert_eq!(desk.status(Wanted::Id(Hash::ZERO)).unwrap(), None);
    let whole = desk.proof(Wanted::Id(paid.id(&NETWORK)), &[CENTRAL, A, B]).unwrap().unwrap();
    assert_eq!(whole.verify(&keys).unwrap().legs.len(), paid.legs.len());

    // An order has one approval, and a refusal needs none.
    let order = desk.proof(Wanted::Uetr(Uetr([3; 16])), &[]).unwrap().unwrap().verify(&keys).unwrap();
    assert_eq!((order.verdict, order.answers.len(), order.answers[0].participant), (Ok(()), 1, A));
    let legs = path::payment(&network(), id(A, 0), id(B, 0), EUR, Amount(20_000));
    let refused = bench.draft(Kind::Transfer, legs, &[&customer(A, 0)]);
    assert_eq!(bench.verdict(refused.clone()), Err(Refusal::InsufficientFunds));
    let desk = bench.host.desk();
    let later = desk.proof(Wanted::Id(refused.id(&NETWORK)), &[]).unwrap().unwrap();
    let proven = later.verify(&keys).unwrap();
    assert_eq!(proven.verdict, Err(Refusal::InsufficientFunds));
    assert!(proven.answers.iter().all(|answer| answer.verdict.is_ok() || answer.participant == A));

    // The log of the later proof begins with that of the earlier one.
    let (first, second) = (proof.receipt.head, later.receipt.head);
    let between = desk.consistency(first.head.size, second.head.size).unwrap().unwrap();
    assert_eq!(between.joins(&first, &second, &keys), Ok(()));
    for (first, second) in [(0, 1), (2, 1), (1, second.head.size + 1)] {
        assert_eq!(desk.consistency(first, second).unwrap(), None);
    }
}

pub(crate) fn statements_list_movements_latest_first<H: Host>(mut bench: Bench<H>) {
    for amount in [1, 2, 3] {
        assert_eq!(bench.pay((A, 0), (B, 0), amount), Ok(()));
    }
    assert_eq!(bench.pay((A, 0), (B, 0), 20_000), Err(Refusal::InsufficientFunds));
    let desk = bench.host.desk();
    let told = |statement: &Statement| -> Vec<_> {
        statement.entries.iter().map(|entry| (entry.amount.0, entry.balance.0)).collect()
    };
    let last = desk.statement(id(A, 0), &Movements::latest(2)).unwrap();
    assert_eq!((told(&last), last.opening), (vec![(-3, 9_994), (-2, 9_997)], Amount(9_999)));
    let [latest, earlier] = &last.entries[..] else { panic!("two were wanted") };
    for before in [earlier.sequence, latest.sequence] {
        let rest = desk.statement(id(A, 0), &Movements::latest(10).before(Some(before))).unwrap();
        let of = if before == earlier.sequence { 2.. } else { 1.. };
        let all = [(-3, 9_994), (-2, 9_997), (-1, 9_999), (10_000, 10_000)];
        assert_eq!((told(&rest), rest.opening), (all[of].to_vec(), Amount::ZERO));
    }
    let since = desk.statement(id(A, 0), &Movements::latest(10).since(latest.timestamp.plus_ms(1))).unwrap();
    assert_eq!((since.entries, since.opening), (Vec::new(), Amount(9_994)));
    assert_eq!(desk.statement(id(A, 99), &Movements::latest(10)).unwrap(), Statement::default());

    // The place of a movement is its transaction's.
    let made = desk.transaction(latest.sequence).unwrap().unwrap();
    assert_eq!(made.header.uetr, latest.uetr);
    assert!(made.legs.iter().any(|leg| leg.amount == Amount(-3)));
    assert_eq!(desk.transaction(desk.sequenced()).unwrap(), None);
}

/// Whoever was told an outcome finds it in every balance, however many are under way.
pub(crate) fn a_reader_sees_what_it_was_told<H: Host>(mut bench: Bench<H>) {
    for round in 1..=10 {
        let payments = bench.payments(10);
        let desk = bench.host.desk();
        let pending = desk.submit(payments).unwrap();
        let answers = desk.wait(&pending, WAIT);
        assert!(
            answers.iter().all(|answer| matches!(answer.outcome, Outcome::Final(f) if f.verdict.is_ok())),
            "{answers:?}"
        );
        assert_eq!(bench.balance(A, 0), 10_000 - 10 * round);
        assert_eq!(bench.balance(B, 0), 10_000 + 10 * round);
    }
}

/// Everything from a place on, and how many steps that took.
fn outcomes_from(desk: &dyn Settlement, sequence: u64) -> Vec<Concluded> {
    let (mut place, mut all) = (Place::before(sequence), Vec::new());
    while let Some(outcomes) = desk.outcomes(&mut place).unwrap() {
        assert_eq!(outcomes.first().map(|one| one.sequence), Some(sequence + all.len() as u64));
        all.extend_from_slice(&outcomes);
    }
    assert_eq!(place.next(), desk.sequenced());
    all
}

pub(crate) fn outcomes_are_told_in_order_from_any_place<H: Host>(mut bench: Bench<H>) {
    let begun = bench.host.desk().sequenced();
    assert_eq!(bench.pay((A, 0), (B, 0), 1), Ok(()));
    assert_eq!(bench.pay((A, 0), (A, 1), 2), Ok(()));
    assert_eq!(bench.pay((A, 0), (B, 0), 20_000), Err(Refusal::InsufficientFunds));
    let desk = bench.host.desk();
    let all = outcomes_from(desk, 0);
    assert_eq!(all.len() as u64, desk.sequenced());
    for (sequence, one) in (0..).zip(&all) {
        assert_eq!(one.sequence, sequence);
        assert_eq!(desk.status(Wanted::Uetr(one.answer.uetr)).unwrap().as_ref(), Some(&one.answer));
    }
    let payments = outcomes_from(desk, begun);
    assert_eq!(payments, all[begun as usize..]);
    let concerned: Vec<_> = payments.iter().map(|one| &one.participants[..]).collect();
    // Between two banks reserves move at the central bank.
    assert_eq!(concerned, [&[CENTRAL, A, B][..], &[A], &[CENTRAL, A, B]]);
    let mut end = Place::before(desk.sequenced());
    assert!(desk.outcomes(&mut end).unwrap().is_none());
    let before = end.next();
    assert_eq!(bench.pay((B, 0), (A, 0), 1), Ok(()));
    let more = bench.host.desk().outcomes(&mut end).unwrap().unwrap();
    assert_eq!((more.len(), more[0].sequence), (1, before));
    // In the middle of many.
    let many = bench.payments(100);
    let desk = bench.host.desk();
    let pending = desk.submit(many).unwrap();
    desk.wait(&pending, WAIT);
    for from in [before + 1, before + 2, before + 51, before + 100] {
        assert_eq!(outcomes_from(desk, from).len() as u64, desk.sequenced() - from);
    }
}

pub(crate) fn texts_are_kept_with_what_commits_to_them<H: Host>(mut bench: Bench<H>) {
    let text = |number: u8| vec![number; 100 + usize::from(number)];
    let begun = bench.host.desk().now();
    for number in 1..=3 {
        bench.host.desk().keep(vec![text(number), text(100 + number)]).unwrap();
        assert_eq!(bench.pay((A, 0), (B, 0), 1), Ok(()));
    }
    let kept = |bench: &Bench<H>, from: Timestamp| {
        let mut all = Vec::new();
        bench.host.desk().kept((from, bench.host.desk().now()), &mut |text| all.push(text)).unwrap();
        all
    };
    let wanted: Vec<_> = (1..=3).flat_map(|number| [text(number), text(100 + number)]).collect();
    assert_eq!(kept(&bench, begun), wanted);
    // Whoever runs it next has them, and none of it is in the way of the ledger.
    let mut bench = bench.crash();
    assert_eq!(kept(&bench, Timestamp(0)), wanted);
    assert!(kept(&bench, bench.host.desk().now().plus_ms(1)).is_empty());
    bench.host.desk().keep(vec![text(9); 3]).unwrap();
    assert_eq!(bench.pay((A, 0), (B, 0), 1), Ok(()));
    assert_eq!(kept(&bench, begun).len(), wanted.len() + 3);
    let entries = bench.host.desk().statement(id(A, 0), &Movements::latest(9)).unwrap().entries;
    assert!(entries.iter().all(|entry| entry.details == Hash::ZERO));
    assert_eq!(entries.len(), 5);
    bench.host.audit();
}

/// What is decided is not withdrawn, and what is not there is not found.
pub(crate) fn what_is_decided_cannot_be_withdrawn<H: Host>(mut bench: Bench<H>) {
    let legs = path::payment(&network(), id(A, 0), id(B, 0), EUR, Amount(5));
    let paid = bench.draft(Kind::Transfer, legs, &[&customer(A, 0)]);
    assert_eq!(bench.host.desk().accepted(Wanted::Uetr(paid.header.uetr)).unwrap(), None);
    assert_eq!(bench.verdict(paid.clone()), Ok(()));
    let desk = bench.host.desk();
    let accepted = desk.accepted(Wanted::Uetr(paid.header.uetr)).unwrap().unwrap();
    assert_eq!(accepted.transaction, paid);
    desk.withdraw(&accepted).unwrap();
    for _ in 0..20 {
        assert_eq!(bench.pay((A, 0), (B, 0), 1), Ok(()));
    }
    assert_eq!(bench.balance(B, 0), 10_025);
    bench.host.audit();
}
