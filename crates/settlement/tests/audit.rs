//! Thefts: what members with keys of their own, or the operator, write into the journal and no stage would. The audit
//! names the record, the transaction, the account and the key that should have signed.
//!
//! The audit that had its transition in common with recovery passed those that say so.

#![expect(clippy::unwrap_used, reason = "helpers of tests may panic as tests do")]

#[path = "audit/forge.rs"]
mod forge;

use forge::{
    ALPHA, BETA, CENTRAL, EUR, Forge, NETWORK, USD, account, changed, findings, institution, key, network,
    owner, sign,
};
use tally_crypto::{Hash, Signature, SigningKey};
use tally_ledger::order::AccountAction;
use tally_ledger::transaction::{Kind, Leg};
use tally_ledger::{
    AccountId, AccountNumber, Amount, NetworkTag, Refusal, SignaturePolicy, Timestamp, Transaction,
    TransactionBatch,
};
use tally_log::Ticket;
use tally_settlement::audit::{
    Audit, Beginning, Change, Earlier, Fault, Finding, Findings, Limit, Opened, OpenedAccount,
};
use tally_settlement::journal::{self, SEQUENCE};
use tally_settlement::message::{AcceptedBatch, ApprovalBatch, Source};
use tally_settlement::path;

/// The one finding, which names the transaction and its sequence number.
fn only(forge: &Forge, transaction: &Transaction, sequence: u64) -> Finding {
    let found = forge.findings();
    assert_eq!((found.first.len(), found.more), (1, 0), "{found}");
    let finding = found.first[0].clone();
    assert_eq!(finding.sequence, Some(sequence), "{finding}");
    let subject = finding.transaction.expect("it is about a transaction");
    assert_eq!(subject.named, Some((transaction.header.uetr, transaction.id(&NETWORK))), "{finding}");
    assert!(finding.to_string().contains(&transaction.header.uetr.to_string()), "{finding}");
    assert!(finding.ticket.is_some());
    finding
}

/// Makes the theft, goes on honestly, and finds it for that reason alone.
fn caught(mut forge: Forge, theft: &Transaction) -> Finding {
    let sequence = forge.make(theft);
    forge.go_on();
    only(&forge, theft, sequence)
}

fn not_signed(finding: &Finding, change: Change, of: AccountId, by: &tally_crypto::SigningKey) {
    assert_eq!(finding.fault, Fault::NotSigned(change), "{finding}");
    assert_eq!(finding.account, Some(of), "{finding}");
    assert_eq!(finding.key, Some(by.public_key()), "{finding}");
}

/// What the engine overlooks, the audit must not overlook for the same reason.
#[test]
fn the_audit_names_no_module_of_the_engine() {
    let source = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src/audit");
    let mut read = 0;
    for file in std::fs::read_dir(source).unwrap() {
        let file = file.unwrap().path();
        // The sums of the engine's own books, with which an audit's are compared.
        if file.ends_with("sums.rs") {
            continue;
        }
        let text = std::fs::read_to_string(&file).unwrap();
        for engine in
            ["replay", "accounts", "aliases", "stage", "recent", "snapshot", "clerk", "runtime", "process"]
        {
            assert!(!text.contains(&format!("crate::{engine}")), "{} uses {engine}", file.display());
        }
        for rule in ["balance::check", "apply_order", "AccountTable"] {
            assert!(!text.contains(rule), "{} uses {rule}", file.display());
        }
        read += 1;
    }
    assert!(read >= 8, "{read} files");
}

#[test]
fn an_honest_journal_is_in_order() {
    let mut forge = Forge::new();
    for _ in 0..3 {
        let payment = forge.payment(account(ALPHA, 0), account(BETA, 0), 700);
        forge.make(&payment);
        forge.go_on();
    }
    let report = forge.audit().unwrap();
    assert_eq!((report.undecided, report.late), (0, 0));
    assert_eq!(report.sequenced, report.made);
    for of in [CENTRAL, ALPHA, BETA] {
        forge.audit_of(of).unwrap();
    }
}

/// Passed before: the thief's signature verifies, and nobody asked whose account it was.
#[test]
fn a_debit_signed_by_the_thief() {
    let mut forge = Forge::new();
    let victim = account(ALPHA, 0);
    let legs = path::payment(&forge.network, victim, account(BETA, 0), EUR, Amount(9_000));
    let theft = forge.signed(Kind::Transfer, legs, &[&owner(account(BETA, 0))]);
    let finding = caught(forge, &theft);
    not_signed(&finding, Change::Debit, victim, &owner(victim));
    assert_eq!(finding.institution.as_deref(), Some("ALPHDEFF"));
}

/// Passed before.
#[test]
fn a_debit_signed_by_the_owners_bank() {
    let mut forge = Forge::new();
    // A return that the payee did not sign: its bank takes the money back by itself, and for somebody else.
    let (payee, stranger) = (account(BETA, 0), account(ALPHA, 1));
    let legs = path::payment(&forge.network, payee, stranger, EUR, Amount(700));
    let theft = forge.signed(Kind::Transfer, legs, &[&institution(BETA)]);
    not_signed(&caught(forge, &theft), Change::Debit, payee, &owner(payee));
}

#[test]
fn a_debit_whose_signature_is_over_something_else() {
    let mut forge = Forge::new();
    let victim = account(ALPHA, 0);
    let mut theft = forge.payment(victim, account(ALPHA, 1), 5);
    theft.legs[0].amount = Amount(-9_000);
    theft.legs[1].amount = Amount(9_000);
    let finding = caught(forge, &theft);
    assert_eq!(finding.fault, Fault::WrongSignature(Some(Change::Debit)));
    assert_eq!((finding.account, finding.key), (Some(victim), Some(owner(victim).public_key())));
}

/// The owner signed, and besides there is a signature by somebody that does not verify: no stage accepts that.
#[test]
fn a_signature_on_which_nothing_rests_and_that_does_not_verify() {
    let mut forge = Forge::new();
    let mut wrong = forge.payment(account(ALPHA, 0), account(ALPHA, 1), 5);
    sign(&mut wrong, &[&key(99)]);
    wrong.signers[1].signature = Signature::from_bytes([7; 64]);
    assert_eq!(caught(forge, &wrong).fault, Fault::WrongSignature(None));
}

/// Passed before.
#[test]
fn an_issue_signed_by_another_institution() {
    let mut forge = Forge::new();
    let to = account(BETA, 0);
    let theft = forge.signed(Kind::Issue, path::issue(to, EUR, Amount(5_000)), &[&institution(ALPHA)]);
    let issuance = AccountId { participant: BETA, number: AccountNumber::issuance(EUR) };
    not_signed(&caught(forge, &theft), Change::Issuance, issuance, &institution(BETA));
}

/// Passed before.
#[test]
fn a_redemption_that_the_customer_did_not_sign() {
    let mut forge = Forge::new();
    let victim = account(BETA, 0);
    let legs = path::reverse(path::issue(victim, EUR, Amount(5_000)));
    let theft = forge.signed(Kind::Redeem, legs, &[&institution(BETA)]);
    not_signed(&caught(forge, &theft), Change::Debit, victim, &owner(victim));
}

/// Passed before, whatever the order.
#[test]
fn an_order_signed_by_another_institution() {
    let open = AccountAction::Open {
        count: 1,
        asset: EUR,
        owner: key(99).public_key(),
        floor: Amount(-1_000_000),
        alias: String::new(),
    };
    for (number, action) in
        [(3, open), (0, AccountAction::Freeze), (0, AccountAction::SetFloor(Amount(-1_000_000)))]
    {
        let mut forge = Forge::new();
        let of = account(ALPHA, number);
        let theft = forge.order(of, action, &institution(BETA));
        not_signed(&caught(forge, &theft), Change::Order, of, &institution(ALPHA));
    }
}

/// Passed before.
#[test]
fn a_debit_of_own_funds_signed_by_a_customer() {
    let mut forge = Forge::new();
    let own = AccountId { participant: ALPHA, number: AccountNumber::own(EUR) };
    let to = account(ALPHA, 0);
    let legs = path::payment(&forge.network, own, to, EUR, Amount(5_000));
    let theft = forge.signed(Kind::Transfer, legs, &[&owner(to)]);
    not_signed(&caught(forge, &theft), Change::OwnFunds, own, &institution(ALPHA));
}

#[test]
fn a_debit_below_the_floor() {
    let mut forge = Forge::new();
    let theft = forge.payment(account(ALPHA, 0), account(ALPHA, 1), 10_001);
    let finding = caught(forge, &theft);
    assert_eq!(finding.fault, Fault::BelowFloor { after: -1, floor: 0 });
    assert_eq!(finding.account, Some(account(ALPHA, 0)));
}

/// The issue that paid for it is in the journal, and comes after it in the sequence. Found before, too.
#[test]
fn a_debit_below_the_floor_that_is_covered_later() {
    let mut forge = Forge::new();
    let theft = forge.payment(account(ALPHA, 0), account(ALPHA, 1), 15_000);
    let cover = path::issue(account(ALPHA, 0), EUR, Amount(10_000));
    let cover = forge.signed(Kind::Issue, cover, &[&institution(ALPHA)]);
    let source = forge.accept(0, &[cover.clone(), theft.clone()]);
    let sequence = forge.decide(source, &theft, 1, Ok(()));
    forge.decide(source, &cover, 0, Ok(()));
    assert_eq!(only(&forge, &theft, sequence).fault, Fault::BelowFloor { after: -5_000, floor: 0 });
}

#[test]
fn a_bank_that_pays_more_than_its_reserves_and_credit() {
    for credit in [0, 9_000] {
        let mut network = network(SignaturePolicy::Required);
        network.participants[1].settlement_floors.push((EUR, Amount(-credit)));
        let mut forge = Forge::with(network);
        let rich = path::issue(account(ALPHA, 0), EUR, Amount(100_000));
        forge.make_legs(Kind::Issue, rich, &[&institution(ALPHA)]);
        let allowed = forge.payment(account(ALPHA, 0), account(BETA, 0), 50_000 + credit);
        forge.make(&allowed);
        let theft = forge.payment(account(ALPHA, 0), account(BETA, 0), 1);
        let finding = caught(forge, &theft);
        assert_eq!(finding.fault, Fault::BelowFloor { after: -credit - 1, floor: -credit });
        let number = AccountNumber::settlement(EUR, ALPHA);
        assert_eq!(finding.account, Some(AccountId { participant: CENTRAL, number }));
    }
}

fn frozen(forge: &mut Forge, of: AccountId) -> u64 {
    forge.make_order(of, AccountAction::Freeze, &institution(of.participant))
}

/// Passed before, in either direction.
#[test]
fn a_payment_on_a_frozen_account() {
    let victim = account(ALPHA, 0);
    for (from, to) in [(victim, account(BETA, 0)), (account(BETA, 0), victim), (account(ALPHA, 1), victim)] {
        let mut forge = Forge::new();
        let since = frozen(&mut forge, victim);
        let theft = forge.payment(from, to, 5);
        let finding = caught(forge, &theft);
        assert_eq!(finding.fault, Fault::Frozen(since));
        assert_eq!(finding.account, Some(victim));
    }
}

/// A payment that waits for another institution's answer when the freeze is approved is decided after it.
#[test]
fn what_was_approved_before_a_freeze_may_be_decided_after_it() {
    let mut forge = Forge::new();
    let waiting = forge.payment(account(ALPHA, 0), account(BETA, 0), 5);
    let source = forge.accept(1, std::slice::from_ref(&waiting));
    frozen(&mut forge, account(ALPHA, 0));
    forge.decide(source, &waiting, 0, Ok(()));
    forge.audit().unwrap();
    forge.audit_of(ALPHA).unwrap();
}

/// Passed before: what concerns one institution alone waits for nobody, so that it was approved after
/// the freeze; so was what the same scheduler accepted after the freeze.
#[test]
fn what_cannot_have_been_approved_before_a_freeze() {
    let mut forge = Forge::new();
    let theft = forge.payment(account(ALPHA, 0), account(ALPHA, 1), 5);
    let source = forge.accept(1, std::slice::from_ref(&theft));
    let since = frozen(&mut forge, account(ALPHA, 0));
    let sequence = forge.decide(source, &theft, 0, Ok(()));
    assert_eq!(only(&forge, &theft, sequence).fault, Fault::Frozen(since));

    let mut forge = Forge::new();
    let freeze = forge.order(account(ALPHA, 0), AccountAction::Freeze, &institution(ALPHA));
    let theft = forge.payment(account(ALPHA, 0), account(BETA, 1), 5);
    let source = forge.accept(0, &[freeze.clone(), theft.clone()]);
    let since = forge.decide(source, &freeze, 0, Ok(()));
    let sequence = forge.decide(source, &theft, 1, Ok(()));
    assert_eq!(only(&forge, &theft, sequence).fault, Fault::Frozen(since));
}

#[test]
fn a_released_account_takes_part_again() {
    let mut forge = Forge::new();
    frozen(&mut forge, account(ALPHA, 0));
    let release =
        |forge: &mut Forge| forge.order(account(ALPHA, 0), AccountAction::Release, &institution(ALPHA));
    let first = release(&mut forge);
    forge.make(&first);
    let payment = forge.payment(account(ALPHA, 0), account(BETA, 0), 5);
    forge.make(&payment);
    forge.audit().unwrap();
    let second = release(&mut forge);
    assert_eq!(caught(forge, &second).fault, Fault::Order("the account is not frozen"));
}

/// Found before, too.
#[test]
fn a_payment_on_a_closed_account() {
    let mut forge = Forge::new();
    let all = forge.payment(account(ALPHA, 0), account(ALPHA, 1), 10_000);
    forge.make(&all);
    forge.make_order(account(ALPHA, 0), AccountAction::Close, &institution(ALPHA));
    let credit = forge.payment(account(ALPHA, 1), account(ALPHA, 0), 5);
    assert_eq!(caught(forge, &credit).fault, Fault::Closed);
}

/// Passed before where the account is there: replay made true what the journal says.
#[test]
fn orders_that_do_not_fit() {
    let cases = [
        (account(ALPHA, 0), AccountAction::Close, Fault::Order("the account is not empty")),
        (account(ALPHA, 0), AccountAction::Release, Fault::Order("the account is not frozen")),
        (account(ALPHA, 7), AccountAction::Freeze, Fault::NoAccount),
        (
            account(ALPHA, 0),
            AccountAction::SetFloor(Amount(1)),
            Fault::Order("a count, asset, alias or floor is not one that may be"),
        ),
        (
            AccountId { participant: ALPHA, number: AccountNumber::own(EUR) },
            AccountAction::Freeze,
            Fault::Order("it is for an account that follows from the configuration"),
        ),
    ];
    for (of, action, fault) in cases {
        let mut forge = Forge::new();
        let order = forge.order(of, action, &institution(ALPHA));
        let sequence = forge.make(&order);
        forge.go_on();
        let found = forge.findings();
        assert!(found.first.iter().any(|f| f.fault == fault && f.sequence == Some(sequence)), "{found}");
    }
    let mut forge = Forge::new();
    let action = AccountAction::Open {
        count: 1,
        asset: EUR,
        owner: key(99).public_key(),
        floor: Amount::ZERO,
        alias: "alias-0".into(),
    };
    let taken = forge.order(account(ALPHA, 3), action, &institution(ALPHA));
    assert_eq!(caught(forge, &taken).fault, Fault::Order("its alias is another account's"));
}

/// Passed before: an institution that is not asked cannot refuse.
#[test]
fn a_wrong_count_of_the_participants() {
    for counted in [1, 2, 4] {
        let mut forge = Forge::new();
        let legs = path::payment(&forge.network, account(ALPHA, 0), account(BETA, 0), EUR, Amount(5));
        let mut theft = forge.signed(Kind::Transfer, legs, &[]);
        theft.header.participants = counted;
        sign(&mut theft, &[&owner(account(ALPHA, 0))]);
        assert_eq!(caught(forge, &theft).fault, Fault::Concerned { counted, found: 3 });
    }
}

/// Found before, too.
#[test]
fn legs_that_do_not_balance() {
    let settlement = |holder| AccountNumber::settlement(EUR, holder);
    let leg = |participant, account, amount| Leg { participant, asset: EUR, account, amount: Amount(amount) };
    let (a, b) = (account(ALPHA, 0), account(BETA, 0));
    // The payee gets more than the payer pays; the settlement accounts stand still; each side alone is right, and the
    // central bank's legs do not come to nothing.
    let thefts = [
        vec![leg(ALPHA, a.number, -5), leg(ALPHA, AccountNumber(1), 500)],
        vec![leg(ALPHA, a.number, -5), leg(BETA, b.number, 5)],
        vec![
            leg(ALPHA, a.number, -5),
            leg(CENTRAL, settlement(ALPHA), -5),
            leg(CENTRAL, settlement(BETA), 9),
            leg(BETA, b.number, 9),
        ],
    ];
    for legs in thefts {
        let mut forge = Forge::new();
        let theft = forge.signed(Kind::Transfer, legs, &[&owner(a)]);
        let sequence = forge.make(&theft);
        let found = forge.findings();
        assert!(matches!(found.first[0].fault, Fault::Unbalanced { .. }), "{found}");
        assert_eq!(found.first[0].sequence, Some(sequence));
        // Everything else found is that the books do not match at the end.
        assert!(found.first[1..].iter().all(|f| matches!(f.fault, Fault::Books { .. })), "{found}");
    }
}

/// Passed before where the transaction was accepted a second time by another scheduler.
#[test]
fn a_decision_that_was_taken_before() {
    // In a record of its own, as somebody's whose batch is wholly decided.
    let mut forge = Forge::new();
    let payment = forge.payment(account(ALPHA, 0), account(BETA, 0), 5);
    let source = forge.accept(0, std::slice::from_ref(&payment));
    forge.decide(source, &payment, 0, Ok(()));
    let again = forge.decide(source, &payment, 0, Ok(()));
    forge.go_on();
    let found = forge.findings();
    assert_eq!(found.first.len(), 1, "{found}");
    assert_eq!((&found.first[0].fault, found.first[0].sequence), (&Fault::DecidedTwice, Some(again)));
    let subject = found.first[0].transaction.unwrap();
    assert_eq!((subject.source, subject.index), (source, 0));

    // Refused before, and something of the batch is still undecided.
    let mut forge = Forge::new();
    let (payment, other) = (
        forge.payment(account(ALPHA, 0), account(BETA, 0), 5),
        forge.payment(account(ALPHA, 1), account(BETA, 0), 5),
    );
    let source = forge.accept(0, &[payment.clone(), other]);
    forge.decide(source, &payment, 0, Err(Refusal::InsufficientFunds));
    let again = forge.decide(source, &payment, 0, Ok(()));
    assert_eq!(only(&forge, &payment, again).fault, Fault::DecidedTwice);

    // The same transaction, accepted a second time by another scheduler.
    let mut forge = Forge::new();
    let payment = forge.payment(account(ALPHA, 0), account(BETA, 0), 5);
    let first = forge.make(&payment);
    let source = forge.accept(1, std::slice::from_ref(&payment));
    let again = forge.decide(source, &payment, 0, Ok(()));
    assert_eq!(only(&forge, &payment, again).fault, Fault::ReferenceUsed(first));
}

#[test]
fn a_decision_about_what_nobody_accepted() {
    let mut forge = Forge::new();
    let payment = forge.payment(account(ALPHA, 0), account(BETA, 0), 5);
    let source = forge.accept(0, std::slice::from_ref(&payment));
    let sequence = forge.decide(source, &payment, 1, Ok(()));
    let found = forge.findings();
    assert!(
        found.first.iter().any(|f| f.fault == Fault::NotAccepted && f.sequence == Some(sequence)),
        "{found}"
    );
    let mut forge = Forge::new();
    let mut source = source;
    source.number += 40;
    let sequence = forge.decide(source, &payment, 0, Ok(()));
    let found = forge.findings();
    assert_eq!((&found.first[0].fault, found.first[0].sequence), (&Fault::NotAccepted, Some(sequence)));
}

/// Passed before where the references fall to different schedulers.
#[test]
fn one_reference_used_for_two_payments() {
    for scheduler in [0, 1] {
        let mut forge = Forge::new();
        let first = forge.payment(account(ALPHA, 0), account(BETA, 0), 5);
        let made = forge.make(&first);
        let mut second = forge.payment(account(ALPHA, 0), account(BETA, 0), 7);
        second.header.uetr = first.header.uetr;
        second.signers.clear();
        sign(&mut second, &[&owner(account(ALPHA, 0))]);
        let source = forge.accept(scheduler, std::slice::from_ref(&second));
        let sequence = forge.decide(source, &second, 0, Ok(()));
        assert_eq!(only(&forge, &second, sequence).fault, Fault::ReferenceUsed(made));
    }
    // After the first has expired the reference is free, and so it is where the first was refused.
    let mut forge = Forge::new();
    let refused = forge.payment(account(ALPHA, 0), account(BETA, 0), 5);
    let source = forge.accept(0, std::slice::from_ref(&refused));
    forge.decide(source, &refused, 0, Err(Refusal::Withdrawn));
    let source = forge.accept(1, std::slice::from_ref(&refused));
    forge.decide(source, &refused, 0, Ok(()));
    forge.pass(60_000);
    let mut later = forge.payment(account(ALPHA, 0), account(BETA, 0), 5);
    later.header.uetr = refused.header.uetr;
    later.signers.clear();
    sign(&mut later, &[&owner(account(ALPHA, 0))]);
    forge.make(&later);
    forge.audit().unwrap();
}

#[test]
fn forms_that_no_stage_accepts() {
    let (a, b) = (account(ALPHA, 0), account(ALPHA, 1));
    let mut forge = Forge::new();
    let mut foreign = forge.payment(a, b, 5);
    foreign.header.network = NetworkTag(8);
    foreign.signers.clear();
    sign(&mut foreign, &[&owner(a)]);
    assert_eq!(caught(forge, &foreign).fault, Fault::OtherNetwork);

    // Passed before.
    let mut forge = Forge::new();
    let large = path::issue(a, EUR, Amount(2_000_000));
    forge.make_legs(Kind::Issue, large, &[&institution(ALPHA)]);
    let theft = forge.payment(a, b, 1_000_001);
    assert_eq!(caught(forge, &theft).fault, Fault::AboveLimit { amount: 1_000_001, limit: 1_000_000 });

    let mut forge = Forge::new();
    let expired = forge.payment(a, b, 5);
    forge.pass(30_000);
    assert!(matches!(caught(forge, &expired).fault, Fault::Expired { .. }));

    let mut forge = Forge::new();
    let legs = path::issue(a, EUR, Amount(5));
    let issue = forge.signed(Kind::Transfer, legs, &[&institution(ALPHA)]);
    assert!(matches!(caught(forge, &issue).fault, Fault::Malformed(_)));

    let mut forge = Forge::new();
    let legs = path::payment(&forge.network, a, b, EUR, Amount(5));
    let legs = changed(legs, |legs| legs.push(Leg { account: b.number, amount: Amount(-5), ..legs[0] }));
    let legs = changed(legs, |legs| legs[1].amount = Amount(10));
    let twice = forge.signed(Kind::Transfer, legs, &[&owner(a), &owner(b)]);
    assert!(matches!(caught(forge, &twice).fault, Fault::Malformed(_)));

    // An account of another asset, and one that is not there.
    for (to, fault) in [(account(ALPHA, 2), Fault::OtherAsset), (account(ALPHA, 9), Fault::NoAccount)] {
        let mut forge = Forge::new();
        let theft = forge.payment(a, to, 5);
        forge.make(&theft);
        let found = forge.findings();
        assert_eq!((&found.first[0].fault, found.first[0].account), (&fault, Some(to)), "{found}");
    }
}

#[test]
fn a_sequence_that_was_changed() {
    type Damage = fn(&mut tally_settlement::message::SequenceBatch);
    let cases: [(Damage, &[Fault]); 5] = [
        (|batch| batch.signature = Signature::from_bytes([1; 64]), &[Fault::WrongHead]),
        (|batch| batch.tree_root = [1; 32], &[Fault::WrongTree, Fault::WrongHead]),
        (|batch| batch.root = Hash::ZERO, &[Fault::WrongRoot, Fault::WrongTree]),
        (
            |batch| batch.first += 1,
            &[Fault::Gap { expected: 14, found: 15 }, Fault::WrongRoot, Fault::WrongTree],
        ),
        (
            |batch| batch.timestamp = Timestamp(1),
            &[
                Fault::TimeBack { now: Timestamp(1), before: Timestamp(1_750_000_000_000) },
                Fault::WrongTree,
                Fault::WrongHead,
            ],
        ),
    ];
    for (damage, faults) in cases {
        let mut forge = Forge::new();
        let payment = forge.payment(account(ALPHA, 0), account(BETA, 0), 5);
        let source = forge.accept(0, std::slice::from_ref(&payment));
        let mut batch = forge.sequenced(source, &[(&payment, 0, Ok(()))]);
        damage(&mut batch);
        forge.append(SEQUENCE, &batch);
        let found = forge.findings();
        let found: Vec<&Fault> = found.first.iter().map(|finding| &finding.fault).collect();
        assert_eq!(found, faults.iter().collect::<Vec<_>>());
    }
}

#[test]
fn what_is_refused_changes_nothing_whatever_is_wrong_with_it() {
    let mut forge = Forge::new();
    let mut theft = forge.payment(account(ALPHA, 0), account(ALPHA, 9), 5_000_000);
    theft.header.network = NetworkTag(9);
    theft.header.participants = 7;
    theft.legs[1].amount = Amount(1);
    theft.signers[0].signature = Signature::from_bytes([1; 64]);
    let source = forge.accept(0, std::slice::from_ref(&theft));
    forge.decide(source, &theft, 0, Err(Refusal::Malformed));
    forge.go_on();
    forge.audit().unwrap();
}

#[test]
fn the_policy_of_a_network_without_payers_signatures_covers_transfers_alone() {
    let forge = || Forge::with(network(SignaturePolicy::InstitutionsOnly));
    let mut free = forge();
    let own = AccountId { participant: ALPHA, number: AccountNumber::own(EUR) };
    for (from, to) in [(account(ALPHA, 0), account(BETA, 0)), (own, account(ALPHA, 0))] {
        let legs = path::payment(&free.network, from, to, EUR, Amount(5));
        free.make_legs(Kind::Transfer, legs, &[]);
    }
    free.audit().unwrap();
    // With payers' signatures the same journal is not in order.
    let mut strict = network(SignaturePolicy::Required);
    strict.signatures = SignaturePolicy::Required;
    free.network = std::sync::Arc::new(strict);
    assert_eq!(free.findings().count(), 2);

    let mut forge_one = forge();
    let legs = path::issue(account(ALPHA, 2), USD, Amount(5_000));
    let theft = forge_one.signed(Kind::Issue, legs, &[&key(99)]);
    let issuance = AccountId { participant: ALPHA, number: AccountNumber::issuance(USD) };
    not_signed(&caught_without_payers(forge_one, &theft), Change::Issuance, issuance, &institution(ALPHA));
    let mut forge_two = forge();
    let victim = account(ALPHA, 0);
    let legs = path::reverse(path::issue(victim, EUR, Amount(5_000)));
    let theft = forge_two.signed(Kind::Redeem, legs, &[&institution(ALPHA)]);
    not_signed(&caught_without_payers(forge_two, &theft), Change::Debit, victim, &owner(victim));
    let mut forge_three = forge();
    let theft = forge_three.order(victim, AccountAction::Freeze, &key(99));
    not_signed(&caught_without_payers(forge_three, &theft), Change::Order, victim, &institution(ALPHA));
}

fn caught_without_payers(mut forge: Forge, theft: &Transaction) -> Finding {
    let sequence = forge.make(theft);
    only(&forge, theft, sequence)
}

#[test]
fn an_institution_finds_what_was_done_to_its_own_partition_and_no_more() {
    let mut forge = Forge::new();
    let victim = account(ALPHA, 0);
    let legs = path::payment(&forge.network, victim, account(ALPHA, 1), EUR, Amount(9_000));
    let theft = forge.signed(Kind::Transfer, legs, &[&key(99)]);
    let sequence = forge.make(&theft);
    forge.go_on();
    let found = findings(forge.audit_of(ALPHA));
    assert_eq!((found.first.len(), found.first[0].sequence), (1, Some(sequence)), "{found}");
    not_signed(&found.first[0], Change::Debit, victim, &owner(victim));
    let report = forge.audit_of(BETA).unwrap();
    assert!(report.totals.iter().all(|total| total.participant == BETA));
    assert!(report.made < report.sequenced);
    forge.audit_of(CENTRAL).unwrap();

    // Money that reaches its customer and not its settlement account.
    let mut forge = Forge::new();
    let leg = |participant, number, amount| Leg {
        participant,
        asset: EUR,
        account: AccountNumber(number),
        amount: Amount(amount),
    };
    let legs = vec![leg(ALPHA, 0, -700), leg(BETA, 0, 700)];
    let theft = forge.signed(Kind::Transfer, legs, &[&owner(victim)]);
    let sequence = forge.make(&theft);
    for of in [ALPHA, BETA] {
        let found = findings(forge.audit_of(of));
        assert!(matches!(found.first[0].fault, Fault::Unbalanced { .. }), "{found}");
        assert_eq!(found.first[0].sequence, Some(sequence));
        assert!(matches!(found.first[1].fault, Fault::Books { .. }), "{found}");
    }
    forge.audit_of(CENTRAL).unwrap();
}

/// Over a cluster an institution reads its proposals and the sequence alone. It does not know when a batch was accepted, nor
/// the others' legs; what is done to its own partition it finds all the same.
#[test]
fn an_institution_finds_it_from_what_it_is_shown() {
    let victim = account(ALPHA, 0);
    let own = AccountId { participant: ALPHA, number: AccountNumber::own(EUR) };
    let issuance = AccountId { participant: ALPHA, number: AccountNumber::issuance(EUR) };
    let network = network(SignaturePolicy::Required);
    let pay = |from, to, amount| path::payment(&network, from, to, EUR, Amount(amount));
    let thefts = [
        (Kind::Transfer, pay(victim, account(BETA, 0), 9_000), Fault::NotSigned(Change::Debit), victim),
        (Kind::Transfer, pay(own, account(BETA, 0), 9_000), Fault::NotSigned(Change::OwnFunds), own),
        (Kind::Issue, path::issue(victim, EUR, Amount(5)), Fault::NotSigned(Change::Issuance), issuance),
    ];
    for (kind, legs, fault, of) in thefts {
        let mut forge = Forge::new();
        let theft = forge.signed(kind, legs, &[&key(99)]);
        let sequence = forge.make(&theft);
        forge.go_on();
        let found = findings(forge.audit_shown(ALPHA, Beginning::default()));
        assert_eq!(found.count(), 1, "{found}");
        let finding = &found.first[0];
        assert_eq!((&finding.fault, finding.account, finding.sequence), (&fault, Some(of), Some(sequence)));
        assert_eq!(finding.transaction.unwrap().named, Some((theft.header.uetr, theft.id(&NETWORK))));
        forge.audit_shown(BETA, Beginning::default()).unwrap();
    }
    // The owner's key is named, and the signature is over something else.
    let mut forge = Forge::new();
    let mut theft = forge.payment(victim, account(ALPHA, 1), 5);
    theft.signers[0].signature = Signature::from_bytes([7; 64]);
    let sequence = forge.make(&theft);
    let found = findings(forge.audit_shown(ALPHA, Beginning::default()));
    assert_eq!(found.count(), 1, "{found}");
    let finding = &found.first[0];
    assert_eq!(finding.fault, Fault::WrongSignature(Some(Change::Debit)));
    assert_eq!((finding.account, finding.sequence), (Some(victim), Some(sequence)));

    let mut forge = Forge::new();
    let theft = forge.payment(victim, account(ALPHA, 1), 10_001);
    forge.make(&theft);
    let found = findings(forge.audit_shown(ALPHA, Beginning::default()));
    assert_eq!(found.first[0].fault, Fault::BelowFloor { after: -1, floor: 0 });

    // Nothing of a batch was proposed to it, and a decision on it is sequenced: its updater would wait for ever.
    let mut forge = Forge::new();
    let payment = forge.payment(victim, account(ALPHA, 1), 5);
    let mut source = forge.accept(0, std::slice::from_ref(&payment));
    source.number += 1;
    let sequence = forge.decide(source, &payment, 0, Ok(()));
    let found = findings(forge.audit_shown(ALPHA, Beginning::default()));
    assert_eq!((&found.first[0].fault, found.first[0].sequence), (&Fault::NotShown, Some(sequence)));
}

/// What the others agreed to is shown with their signatures. An institution finds what was made without them: the reserves
/// that it keeps, or its customer's account, moved on the operator's word.
#[test]
fn what_an_institution_did_not_agree_to_is_found_by_the_others() {
    let mut forge = Forge::new();
    let payment = forge.payment(account(ALPHA, 0), account(BETA, 0), 100);
    forge.make(&payment);
    let payment = forge.payment(account(ALPHA, 0), account(BETA, 0), 200);
    let last = forge.accept(0, std::slice::from_ref(&payment));
    let sequence = forge.decide(last, &payment, 0, Ok(()));
    let honest = |answers: &ApprovalBatch| Some(institution(answers.participant));
    let everything = || Beginning { consents_expired: vec![false], ..Beginning::default() };
    for of in [CENTRAL, ALPHA, BETA] {
        let report = forge.audit_with_consents(of, everything(), honest).unwrap();
        // The first that concerns another besides it: for a bank, the reserves that it was issued.
        assert_eq!(report.coverage.unwrap().consents_from, Some(if of == BETA { 7 } else { 0 }));
        let found = findings(forge.audit_with_consents(of, everything(), |_| None));
        assert!(
            matches!(found.first[0].fault, Fault::NotAgreed(_)),
            "an operator that shows nothing: {found}"
        );
        let report = forge.audit_shown(of, Beginning::default()).unwrap();
        assert_eq!(report.coverage.unwrap().consents_from, None, "in one process nobody shows any");
    }
    for of in [CENTRAL, BETA] {
        type Lie<'a> = &'a dyn Fn(&ApprovalBatch) -> Option<SigningKey>;
        let lies: [Lie; 3] = [
            &|_| None,
            &|answers| Some(institution(if answers.participant == ALPHA { BETA } else { ALPHA })),
            &|_| Some(key(99)),
        ];
        for lie in lies {
            let of_last = |answers: &ApprovalBatch| {
                let lies = answers.source == last && answers.participant == ALPHA;
                if lies { lie(answers) } else { honest(answers) }
            };
            let found = findings(forge.audit_with_consents(of, everything(), of_last));
            assert_eq!(found.count(), 1, "{found}");
            let finding = &found.first[0];
            assert_eq!(
                (&finding.fault, finding.sequence),
                (&Fault::NotAgreed("ALPHDEFF".into()), Some(sequence))
            );
            assert_eq!(finding.institution.as_deref(), Some("ALPHDEFF"));
            assert_eq!(finding.transaction.unwrap().named, Some((payment.header.uetr, payment.id(&NETWORK))));
        }
    }
}

/// Consents expire, by assembler. What was accepted before those at hand begin is not missed, and what was accepted after is.
#[test]
fn consents_that_have_expired_are_not_missed() {
    let mut forge = Forge::new();
    let pay = |forge: &mut Forge| {
        let payment = forge.payment(account(ALPHA, 0), account(BETA, 0), 100);
        let source = forge.accept(0, std::slice::from_ref(&payment));
        let sequence = forge.decide(source, &payment, 0, Ok(()));
        (source, sequence)
    };
    let (complete, at) = pay(&mut forge);
    let (early, _) = pay(&mut forge);
    // The other assembler's are all at hand.
    let (other, whole) = pay(&mut forge);
    forge.now = forge.now.plus_ms(10 * 60_000);
    pay(&mut forge);
    let (late, missed) = pay(&mut forge);
    assert_eq!((complete.number % 2, early.number % 2, other.number % 2, late.number % 2), (0, 1, 0, 0));
    let all_but = |lacking: &[Source]| {
        let lacking = lacking.to_vec();
        move |answers: &ApprovalBatch| {
            let is_shown = answers.source.number >= complete.number && !lacking.contains(&answers.source);
            is_shown.then(|| institution(answers.participant))
        }
    };
    let beginning =
        |expired: &[bool]| Beginning { consents_expired: expired.to_vec(), ..Beginning::default() };
    let one = beginning(&[true]);
    let report = forge.audit_with_consents(BETA, one.clone(), all_but(&[early, other])).unwrap();
    assert_eq!(report.coverage.unwrap().consents_from, Some(at), "they were accepted before, perhaps");
    let found = findings(forge.audit_with_consents(BETA, one, all_but(&[early, late])));
    assert_eq!((found.count(), found.first[0].sequence), (1, Some(missed)), "{found}");
    assert!(matches!(found.first[0].fault, Fault::NotAgreed(_)), "{found}");
    // Of two assemblers each has a beginning of its own.
    let two = beginning(&[true, true]);
    forge.audit_with_consents(BETA, two, all_but(&[early])).unwrap();
    let found = findings(forge.audit_with_consents(BETA, beginning(&[false, true]), all_but(&[other])));
    assert!(found.first.iter().any(|finding| finding.sequence == Some(whole)), "{found}");
}

/// Proposals expire. With the accounts that the institution saved, signatures are checked as far back as proposals go, and
/// balances from where they were saved.
#[test]
fn an_institutions_audit_begins_with_what_it_saved() {
    let mut forge = Forge::new();
    let victim = account(ALPHA, 0);
    let legs = path::payment(&forge.network, victim, account(ALPHA, 1), EUR, Amount(9_000));
    let theft = forge.signed(Kind::Transfer, legs, &[&key(99)]);
    let early = forge.make(&theft);
    let below = forge.payment(victim, account(ALPHA, 1), 1_001);
    let late = forge.make(&below);
    let saved = |number: u32, asset, balance| OpenedAccount {
        asset,
        owner: owner(account(ALPHA, number)).public_key(),
        balance,
        floor: 0,
        frozen: false,
        closed: false,
    };
    let customers = vec![saved(0, EUR, 1_000), saved(1, EUR, 19_000), saved(2, USD, 10_000)];
    let own = [(EUR, 50_000)].map(|(asset, amount)| (AccountNumber::own(asset), amount));
    let issued =
        [(EUR, -20_000), (USD, -10_000)].map(|(asset, amount)| (AccountNumber::issuance(asset), amount));
    let own = own.into_iter().chain(issued).collect();
    let opened = Opened { sequence: late, customers, own, aliases: Vec::new() };
    let beginning = Beginning { from: early, accounts: Some(opened), ..Beginning::default() };
    let found = findings(forge.audit_shown(ALPHA, beginning.clone()));
    let faults: Vec<_> = found.first.iter().map(|finding| (&finding.fault, finding.sequence)).collect();
    let floor = Fault::BelowFloor { after: -1, floor: 0 };
    assert_eq!(faults, [(&Fault::NotSigned(Change::Debit), Some(early)), (&floor, Some(late))]);
    // From what is proposed later on, the theft before it is out of sight: the report says so.
    let mut forge = Forge::new();
    forge.go_on();
    let mut beginning = beginning;
    if let Some(opened) = &mut beginning.accounts {
        (opened.customers[0].balance, opened.customers[1].balance) = (10_000, 10_000);
    }
    let report = forge.audit_shown(ALPHA, beginning).unwrap();
    let covered = report.coverage.unwrap();
    assert_eq!((covered.keys_from, covered.accounts_from), (early, late));
}

/// Credit and the largest payment are configuration, which says what holds now: what was made under looser limits is in
/// order up to where these ended, and not beyond.
#[test]
fn limits_that_were_looser_before() {
    let mut network = network(SignaturePolicy::Required);
    network.participants[1].settlement_floors.push((EUR, Amount(-9_000)));
    network.assets[0].largest_payment = Amount(80_000);
    let strict = |forge: &mut Forge| {
        let mut network = (*forge.network).clone();
        network.participants[1].settlement_floors.clear();
        network.assets[0].largest_payment = Amount(50_000);
        forge.network = std::sync::Arc::new(network);
    };
    let mut forge = Forge::with(network);
    let rich = path::issue(account(ALPHA, 0), EUR, Amount(100_000));
    forge.make_legs(Kind::Issue, rich, &[&institution(ALPHA)]);
    let payment = forge.payment(account(ALPHA, 0), account(BETA, 0), 59_000);
    let sequence = forge.make(&payment);
    forge.audit().unwrap();
    strict(&mut forge);
    let largest = Limit::LargestPayment(EUR, Amount(80_000));
    let credit = Limit::SettlementFloor(ALPHA, EUR, Amount(-9_000));
    let until = |until| [largest, credit].map(|limit| Earlier { until, limit }).to_vec();
    let found = forge.findings();
    assert!(matches!(found.first[0].fault, Fault::AboveLimit { amount: 59_000, limit: 50_000 }), "{found}");
    assert!(found.first.iter().any(|f| f.fault == Fault::BelowFloor { after: -9_000, floor: 0 }), "{found}");
    forge.audit_with(until(sequence + 1)).unwrap();
    assert_eq!(findings(forge.audit_with(until(sequence))).count(), found.count());
}

#[test]
fn so_many_findings_are_named_and_the_rest_counted() {
    let mut forge = Forge::new();
    for _ in 0..30 {
        let legs = path::payment(&forge.network, account(ALPHA, 0), account(ALPHA, 1), EUR, Amount(1));
        forge.make_legs(Kind::Transfer, legs, &[&key(99)]);
    }
    let found = forge.findings();
    assert_eq!((found.first.len(), found.more, found.count()), (20, 10, 30));
    assert!(found.first.windows(2).all(|pair| pair[0].sequence < pair[1].sequence));
    assert!(found.to_string().ends_with("and 10 more"), "{found}");
}

/// A stage that stands still decides late what was approved in time; the audit counts it.
#[test]
fn what_is_decided_late_is_counted() {
    let mut forge = Forge::new();
    let late = forge.payment(account(ALPHA, 0), account(BETA, 0), 5);
    let source = forge.accept(0, std::slice::from_ref(&late));
    forge.pass(32_001);
    forge.decide(source, &late, 0, Ok(()));
    assert_eq!(forge.audit().unwrap().late, 1);
}

/// Records by which a scheduler accepted nothing, each under a name and at a time.
fn accepted(all: &[(Source, u64)]) -> Findings {
    let network = std::sync::Arc::new(network(SignaturePolicy::Required));
    let entries = (0..).zip(all).map(|(ticket, (source, at))| {
        let batch = AcceptedBatch { accepted_at: Timestamp(*at), batch: TransactionBatch::default() };
        Ok((Ticket(ticket), journal::Entry::Accepted(*source, std::sync::Arc::new(batch))))
    });
    findings(Audit::new(&network).entries(entries))
}

#[test]
fn a_batch_has_a_name_of_its_own_and_a_scheduler_no_clock_that_goes_back() {
    let twice = accepted(&[(Source::new(0, 0), 5), (Source::new(1, 0), 4), (Source::new(0, 0), 5)]);
    assert_eq!(twice.first.len(), 1, "{twice}");
    assert_eq!((&twice.first[0].fault, twice.first[0].ticket), (&Fault::AcceptedTwice, Some(Ticket(2))));
    let back = accepted(&[(Source::new(0, 0), 5), (Source::new(0, 1), 4)]);
    assert_eq!(back.first.len(), 1, "{back}");
    assert_eq!(back.first[0].fault, Fault::TimeBack { now: Timestamp(4), before: Timestamp(5) });
}

#[test]
fn no_balance_wraps() {
    let mut forge = Forge::new();
    for _ in 0..10 {
        let legs = path::issue(account(ALPHA, 0), EUR, Amount::MAX_LEG);
        forge.make_legs(Kind::Issue, legs, &[&institution(ALPHA)]);
    }
    let found = forge.findings();
    let mut wrapped = found.first.iter().filter(|finding| finding.fault == Fault::OutOfRange);
    assert!(wrapped.any(|finding| finding.account == Some(account(ALPHA, 0))), "{found}");
}

#[test]
fn what_another_scheduler_accepted_after_a_freeze_was_not_under_way_at_it() {
    let mut forge = Forge::new();
    let since = frozen(&mut forge, account(ALPHA, 0));
    let theft = forge.payment(account(ALPHA, 0), account(BETA, 1), 5);
    let source = forge.accept(1, std::slice::from_ref(&theft));
    let sequence = forge.decide(source, &theft, 0, Ok(()));
    assert_eq!(only(&forge, &theft, sequence).fault, Fault::Frozen(since));
}

#[test]
fn orders_that_do_not_fit_what_became_of_the_account() {
    let of = account(ALPHA, 0);
    let open = |floor| AccountAction::Open {
        count: 1,
        asset: EUR,
        owner: key(99).public_key(),
        floor: Amount(floor),
        alias: String::new(),
    };
    for number in [1, 4] {
        let mut forge = Forge::new();
        let order = forge.order(account(ALPHA, number), open(0), &institution(ALPHA));
        let fault = Fault::Order("accounts are opened in the order of their numbers");
        assert_eq!(caught(forge, &order).fault, fault);
    }
    let mut forge = Forge::new();
    frozen(&mut forge, of);
    let again = forge.order(of, AccountAction::Freeze, &institution(ALPHA));
    assert_eq!(caught(forge, &again).fault, Fault::Order("the account is frozen already"));

    for action in [AccountAction::Freeze, AccountAction::Release, AccountAction::SetFloor(Amount(-5))] {
        let mut forge = Forge::new();
        let all = forge.payment(of, account(ALPHA, 1), 10_000);
        forge.make(&all);
        forge.make_order(of, AccountAction::Close, &institution(ALPHA));
        let order = forge.order(of, action, &institution(ALPHA));
        assert_eq!(caught(forge, &order).fault, Fault::Closed);
    }

    let mut forge = Forge::new();
    forge.make_order(of, AccountAction::SetFloor(Amount(-500)), &institution(ALPHA));
    let overdraft = forge.payment(of, account(ALPHA, 1), 10_300);
    forge.make(&overdraft);
    let stricter = forge.order(of, AccountAction::SetFloor(Amount(-200)), &institution(ALPHA));
    assert_eq!(caught(forge, &stricter).fault, Fault::BelowFloor { after: -300, floor: -200 });
}

#[test]
fn more_legs_or_signers_than_the_form_has() {
    let a = account(ALPHA, 0);
    let mut forge = Forge::new();
    let leg = |at: u32| {
        let amount = if at == 0 { -30 } else { 1 };
        Leg { participant: ALPHA, asset: EUR, account: AccountNumber(at), amount: Amount(amount) }
    };
    let many = forge.signed(Kind::Transfer, (0..31).map(leg).collect(), &[&owner(a)]);
    forge.make(&many);
    let found = forge.findings();
    let malformed = |found: &Findings| matches!(found.first[0].fault, Fault::Malformed(_));
    assert!(malformed(&found), "{found}");

    let mut forge = Forge::new();
    let one = forge.signed(Kind::Transfer, vec![leg(0)], &[&owner(a)]);
    forge.make(&one);
    let found = forge.findings();
    assert!(malformed(&found), "{found}");

    let mut forge = Forge::new();
    let mut signers = forge.payment(a, account(ALPHA, 1), 5);
    (0..16).for_each(|_| sign(&mut signers, &[&owner(a)]));
    assert!(matches!(caught(forge, &signers).fault, Fault::Malformed(_)));
}

#[test]
fn legs_on_accounts_that_they_may_not_be_on() {
    let leg = |participant, account, amount| Leg { participant, asset: EUR, account, amount: Amount(amount) };
    let (a, b) = (account(ALPHA, 0), account(ALPHA, 1));
    let issuance = AccountNumber::issuance(EUR);
    let to_beta = AccountNumber::settlement(EUR, BETA);
    let cases = [
        (Kind::Transfer, vec![leg(ALPHA, issuance, -5), leg(ALPHA, a.number, 5)]),
        (Kind::Issue, vec![leg(ALPHA, issuance, 5), leg(ALPHA, a.number, -5)]),
        (Kind::Redeem, vec![leg(ALPHA, issuance, -5), leg(ALPHA, a.number, 5)]),
        (
            Kind::Transfer,
            vec![leg(ALPHA, a.number, -5), leg(ALPHA, b.number, 5), leg(ALPHA, AccountNumber::own(EUR), 0)],
        ),
        (
            Kind::Transfer,
            vec![leg(ALPHA, a.number, -5), leg(ALPHA, to_beta, 5), leg(BETA, account(BETA, 0).number, 5)],
        ),
    ];
    for (at, (kind, legs)) in cases.into_iter().enumerate() {
        let mut forge = Forge::new();
        let theft = forge.signed(kind, legs, &[&owner(a), &institution(ALPHA)]);
        forge.make(&theft);
        for found in [forge.findings(), findings(forge.audit_of(ALPHA))] {
            assert!(matches!(found.first[0].fault, Fault::Malformed(_)), "case {at}: {found}");
        }
    }
}

#[test]
fn an_account_order_that_is_not_the_one_that_was_signed() {
    let of = account(ALPHA, 0);
    let freeze = |forge: &mut Forge| forge.order(of, AccountAction::Freeze, &institution(ALPHA));
    let mut forge = Forge::new();
    let mut other = freeze(&mut forge);
    other.order.as_mut().unwrap().number = AccountNumber(1);
    assert_eq!(caught(forge, &other).fault, Fault::Malformed("it does not commit to its account order"));

    let mut forge = Forge::new();
    let mut counted = freeze(&mut forge);
    counted.header.participants = 2;
    // The id commits to the count.
    counted.signers.clear();
    counted.header.signers = 0;
    sign(&mut counted, &[&institution(ALPHA)]);
    assert_eq!(caught(forge, &counted).fault, Fault::Concerned { counted: 2, found: 1 });

    let mut forge = Forge::new();
    let mut moves = freeze(&mut forge);
    moves.legs = path::payment(&forge.network, account(ALPHA, 1), account(ALPHA, 0), EUR, Amount(0));
    moves.header.legs = 2;
    moves.signers.clear();
    moves.header.signers = 0;
    sign(&mut moves, &[&institution(ALPHA)]);
    forge.make(&moves);
    let found = forge.findings();
    assert_eq!(found.first[0].fault, Fault::Malformed("an account order has legs"), "{found}");
}
