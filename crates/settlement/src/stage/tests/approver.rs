use super::*;
use crate::message::ApprovalBatch;
use crate::stage::Approver;
use crate::stage::approver::DecideError;
use crate::stage::approver::{Answer, Recovered};
use proptest::prelude::*;
use std::collections::{BTreeMap, HashMap};
use tally_ledger::refusal::verdict_from_number;
use tally_ledger::{AccountStatus, NetworkTag, Refusal};

fn approver(count: u32, balance: i64) -> Approver {
    let partition = partition(&network(), A, count, balance);
    Approver::new(network(), key(1), partition.accounts, std::iter::empty())
}

fn answers(approver: &mut Approver, number: u64, transactions: &[Transaction]) -> Vec<Result<(), Refusal>> {
    let approval = approver.propose(NOW, proposals(number, A, transactions)).unwrap();
    approval.verdicts.iter().map(|number| verdict_from_number(*number).unwrap()).collect()
}

/// Balances and what is under way, written down one by one.
#[derive(Default)]
struct Naive {
    balances: BTreeMap<u32, i64>,
    /// By batch and position: the legs on own accounts.
    under_way: BTreeMap<(u64, u32), Vec<(u32, i64)>>,
}

impl Naive {
    fn available(&self, account: u32) -> i64 {
        let debits = self.under_way.values().flatten().filter(|(of, amount)| *of == account && *amount < 0);
        self.balances[&account] + debits.map(|(_, amount)| amount).sum::<i64>()
    }
}

/// From, to (an account of the other bank above 3), amount.
type Pay = (u32, u32, i64);

fn pay(uetr: u64, (from, to, amount): Pay) -> Transaction {
    let account = |number| if number > 3 { id(B, number) } else { id(A, number) };
    payment(uetr, account(from), account(to), amount)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn approved_sums_are_there_until_they_are_decided(
        steps in prop::collection::vec(
            (prop::collection::vec((0u32..8, 0u32..8, 1i64..80), 1..6), any::<u32>(), 0u8..4), 1..25),
    ) {
        let mut approver = approver(4, 100);
        let mut naive = Naive { balances: (0..4).map(|number| (number, 100)).collect(), ..Naive::default() };
        let mut open: Vec<(u64, Vec<u32>)> = Vec::new();
        let mut sequence = 0;
        for (number, (pays, chosen, decisions)) in (0u64..).zip(steps) {
            let concerns = |(from, to, _): &Pay| from != to && (*from < 4 || *to < 4);
            let pays: Vec<Pay> = pays.into_iter().filter(concerns).collect();
            if !pays.is_empty() {
                let sent: Vec<_> = (number * 100..).zip(&pays).map(|(uetr, pay_)| pay(uetr, *pay_)).collect();
                let answers = answers(&mut approver, number, &sent);
                let mut undecided = Vec::new();
                for (index, ((from, to, amount), answer)) in (0u32..).zip(pays.iter().zip(answers)) {
                    let covered = *from > 3 || naive.available(*from) >= *amount;
                    let wanted = if covered { Ok(()) } else { Err(Refusal::InsufficientFunds) };
                    prop_assert_eq!(answer, wanted);
                    if covered {
                        let legs = [(*from, -amount), (*to, *amount)];
                        let own = legs.into_iter().filter(|(account, _)| *account < 4).collect();
                        naive.under_way.insert((number, index), own);
                    }
                    undecided.push(index);
                }
                open.push((number, undecided));
            }
            for turn in 0..u32::from(decisions) {
                if open.is_empty() {
                    break;
                }
                let at = (chosen.wrapping_add(turn * 7919) as usize) % open.len();
                let (number, undecided) = &mut open[at];
                let split = 1 + (chosen as usize >> 8) % undecided.len();
                let now: Vec<u32> = undecided.drain(..split).collect();
                let number = *number;
                if undecided.is_empty() {
                    open.remove(at);
                }
                let verdict = |index: u32| {
                    let made = (chosen >> (index % 20)) & 1 == 0 && naive.under_way.contains_key(&(number, index));
                    (index, if made { 0 } else { Refusal::InsufficientFunds.number() })
                };
                let verdicts: Vec<_> = now.iter().map(|index| verdict(*index)).collect();
                for (index, verdict) in &verdicts {
                    let legs = naive.under_way.remove(&(number, *index)).unwrap_or_default();
                    for (account, amount) in legs.into_iter().filter(|_| *verdict == 0) {
                        *naive.balances.get_mut(&account).unwrap() += amount;
                    }
                }
                approver.decide(&decided(sequence, Source::new(0, number), &verdicts)).unwrap();
                sequence += now.len() as u64;
            }
            for (number, balance) in &naive.balances {
                let available = approver.accounts().get(AccountNumber(*number)).unwrap().balance;
                prop_assert_eq!(available, naive.available(*number));
                prop_assert!(available >= 0 && *balance >= 0);
            }
        }
        let under_way: usize = open.iter().map(|(_, undecided)| undecided.len()).sum();
        prop_assert_eq!(approver.under_way(), under_way);
    }
}

#[test]
fn an_account_is_not_closed_while_anything_is_under_way_even_in_the_same_batch() {
    let close = |uetr, number| order(uetr, A, number, AccountAction::Close);
    for other in [id(A, 1), id(B, 7)] {
        let mut approver = approver(2, 0);
        let coming = payment(1, id(B, 7), id(A, 0), 5);
        assert_eq!(answers(&mut approver, 0, &[coming, close(2, 0)]), [Ok(()), Err(Refusal::NotEmpty)]);
        assert_eq!(answers(&mut approver, 1, &[close(3, 0)]), [Err(Refusal::NotEmpty)]);
        approver.decide(&decided(0, Source::new(0, 0), &[(0, 0), (1, Refusal::NotEmpty.number())])).unwrap();
        // Now it holds 5, and gives them away.
        let going = payment(4, id(A, 0), other, 5);
        assert_eq!(answers(&mut approver, 2, &[going, close(5, 0)]), [Ok(()), Err(Refusal::NotEmpty)]);
        approver.decide(&decided(2, Source::new(0, 2), &[(0, 0), (1, Refusal::NotEmpty.number())])).unwrap();
        assert_eq!(answers(&mut approver, 3, &[close(6, 0)]), [Ok(())]);
        assert_eq!(
            answers(&mut approver, 4, &[payment(7, id(A, 1), id(A, 0), 1)]),
            [Err(if other == id(A, 1) { Refusal::ClosedAccount } else { Refusal::InsufficientFunds })]
        );
    }
}

#[test]
fn a_floor_changes_only_when_no_other_change_is_under_way() {
    let floor = |uetr, floor| order(uetr, A, 0, AccountAction::SetFloor(Amount(floor)));
    let mut approver = approver(2, 0);
    assert_eq!(
        answers(&mut approver, 0, &[floor(1, -500), floor(2, -200)]),
        [Ok(()), Err(Refusal::OrderNotPossible)]
    );
    assert_eq!(answers(&mut approver, 1, &[floor(3, -200)]), [Err(Refusal::OrderNotPossible)]);
    // A looser floor holds from its place in the sequence on.
    let pay = |uetr| payment(uetr, id(A, 0), id(A, 1), 450);
    assert_eq!(answers(&mut approver, 2, &[pay(4)]), [Err(Refusal::InsufficientFunds)]);
    let refused = Refusal::OrderNotPossible.number();
    approver.decide(&decided(0, Source::new(0, 0), &[(0, 0), (1, refused)])).unwrap();
    assert_eq!(answers(&mut approver, 3, &[pay(5)]), [Ok(())]);
    assert_eq!(answers(&mut approver, 4, &[floor(6, -200)]), [Err(Refusal::InsufficientFunds)]);
    // A stricter one from now on.
    assert_eq!(answers(&mut approver, 5, &[floor(7, -460)]), [Ok(())]);
    let more = payment(8, id(A, 0), id(A, 1), 20);
    assert_eq!(answers(&mut approver, 6, &[more]), [Err(Refusal::InsufficientFunds)]);
}

/// Before, the second release was approved as well, and decided after the next freeze was approved: it ended that freeze here
/// until the freeze was decided, and payments were approved meanwhile.
#[test]
fn a_freeze_holds_from_its_approval_on() {
    let change = |uetr, action| order(uetr, A, 0, action);
    let mut approver = approver(2, 100);
    assert_eq!(answers(&mut approver, 0, &[change(1, AccountAction::Freeze)]), [Ok(())]);
    approver.decide(&decided(0, Source::new(0, 0), &[(0, 0)])).unwrap();
    let releases = [change(2, AccountAction::Release), change(3, AccountAction::Release)];
    assert_eq!(answers(&mut approver, 1, &releases), [Ok(()), Err(Refusal::OrderNotPossible)]);
    let again = [change(4, AccountAction::Release)];
    assert_eq!(answers(&mut approver, 2, &again), [Err(Refusal::OrderNotPossible)]);
    let refused = Refusal::OrderNotPossible.number();
    approver.decide(&decided(1, Source::new(0, 1), &[(0, 0)])).unwrap();
    assert_eq!(answers(&mut approver, 3, &[change(5, AccountAction::Freeze)]), [Ok(())]);
    approver.decide(&decided(2, Source::new(0, 1), &[(1, refused)])).unwrap();
    approver.decide(&decided(3, Source::new(0, 2), &[(0, refused)])).unwrap();
    let pay = payment(6, id(A, 0), id(A, 1), 1);
    assert_eq!(answers(&mut approver, 4, &[pay]), [Err(Refusal::BlockedAccount)]);
}

#[test]
fn what_was_decided_before_it_was_asked_is_not_reserved() {
    for refusal in [Refusal::ApprovalTimeout, Refusal::Withdrawn] {
        is_not_reserved(refusal.number());
    }
}

fn is_not_reserved(decided_early: u16) {
    let mut approver = approver(2, 100);
    let sent = [payment(1, id(A, 0), id(B, 7), 100), payment(2, id(A, 1), id(B, 7), 60)];
    approver.decide(&decided(0, Source::new(0, 0), &[(0, decided_early)])).unwrap();
    assert_eq!(answers(&mut approver, 0, &sent), [Err(Refusal::Withdrawn), Ok(())]);
    assert_eq!(approver.under_way(), 1);
    assert_eq!(approver.accounts().get(AccountNumber(0)).unwrap().balance, 100);
    assert_eq!(approver.accounts().get(AccountNumber(1)).unwrap().balance, 40);
    approver.decide(&decided(1, Source::new(0, 0), &[(1, decided_early)])).unwrap();
    assert_eq!(approver.accounts().get(AccountNumber(1)).unwrap().balance, 100);
    assert_eq!(approver.under_way(), 0);
}

#[test]
fn no_leg_is_approved_that_is_not_of_the_transaction() {
    let mut approver = approver(2, 100);
    let sent = [payment(1, id(A, 0), id(A, 1), 10), payment(2, id(A, 0), id(B, 7), 10)];
    let honest = proposals(0, A, &sent);
    let ids: Vec<_> = sent.iter().map(|transaction| transaction.id(&NETWORK)).collect();
    assert_eq!(approver.propose(NOW, Arc::clone(&honest)).unwrap().ids, ids);
    for change in 0..5u64 {
        let mut forged = (*honest).clone();
        forged.source.number = 1 + change;
        match change {
            0 => forged.legs[0].amount = Amount(-9),
            1 => forged.salts[2][0] ^= 1,
            2 => forged.hidden[0] = Hash::ZERO,
            3 => forged.participants[1] = B,
            _ => forged.positions[0] = 1,
        }
        let answered = approver.propose(NOW, Arc::new(forged)).unwrap();
        assert_ne!(answered.ids, ids, "the answer is for something else, and joins with nothing");
    }
}

#[test]
fn no_batch_is_answered_twice_whatever_it_shows() {
    let mut approver = approver(2, 100);
    let sent = [payment(1, id(A, 0), id(A, 1), 10)];
    let asked = proposals(0, A, &sent);
    assert!(approver.propose(NOW, Arc::clone(&asked)).is_some());
    let other = proposals(0, A, &[payment(2, id(A, 0), id(A, 1), 20)]);
    assert_eq!(approver.propose(NOW, Arc::clone(&other)), None, "while it is open");
    approver.decide(&decided(0, Source::new(0, 0), &[(0, 0)])).unwrap();
    assert_eq!(approver.propose(NOW, other), None, "and when it is decided");
    assert_eq!(approver.accounts().get(AccountNumber(0)).unwrap().balance, 90);
}

#[test]
fn a_sequence_that_contradicts_the_answers_stops_the_approver() {
    let source = Source::new(0, 0);
    let start = |sent: &[Transaction]| {
        let mut approver = approver(2, 100);
        approver.propose(NOW, proposals(0, A, sent)).unwrap();
        approver
    };
    // Made against the refusal.
    let mut one = start(&[payment(1, id(A, 0), id(A, 1), 500)]);
    let refused = DecideError::NotApproved { source_batch: source, index: 0 };
    assert_eq!(one.decide(&decided(0, source, &[(0, 0)])), Err(refused));
    // Decided twice.
    let mut two = start(&[payment(1, id(A, 0), id(A, 1), 5), payment(2, id(A, 0), id(A, 1), 5)]);
    two.decide(&decided(0, source, &[(0, 0)])).unwrap();
    let twice = DecideError::Twice { source_batch: source, index: 0 };
    assert_eq!(two.decide(&decided(1, source, &[(0, 40)])), Err(twice));
    // An approved order refused.
    let mut three = start(&[order(1, A, 0, AccountAction::Freeze)]);
    let order = DecideError::Order { source_batch: source, index: 0, account: id(A, 0) };
    assert_eq!(three.decide(&decided(0, source, &[(0, 40)])), Err(order));
}

/// Whose answers are counted is what the institution signs: not without itself, nor without those whose legs it sees.
#[test]
fn numbers_that_were_given_before_decide_nothing_and_a_gap_stops_the_approver() {
    let mut approver = approver(2, 100).following(7);
    let coming = payment(1, id(B, 7), id(A, 0), 50);
    let asked = proposals(0, A, &[coming]);
    assert_eq!(verdicts(approver.propose(NOW, asked)), [Ok(())]);
    let available = |approver: &Approver| approver.accounts().get(AccountNumber(0)).unwrap().balance;
    let source = Source::new(0, 0);
    approver.decide(&decided(6, source, &[(0, 0)])).unwrap();
    assert_eq!(available(&approver), 100, "the updater does not apply it either");
    let gap = approver.decide(&decided(8, source, &[(0, 0)]));
    assert_eq!(gap, Err(DecideError::Gap { expected: 7, found: 8 }));
    approver.decide(&decided(7, source, &[(0, 0)])).unwrap();
    assert_eq!(available(&approver), 150);
}

#[test]
fn no_list_of_participants_is_approved_that_cannot_be_the_transactions() {
    let between = payment(1, id(A, 0), id(B, 7), 10);
    let honest = proposals(0, A, std::slice::from_ref(&between));
    assert_eq!(honest.participants, [CENTRAL, A, B]);
    let verdict = |participants: &[ParticipantId]| {
        let mut shown = (*honest).clone();
        shown.headers[0].participants = u8::try_from(participants.len()).unwrap();
        shown.participants = participants.to_vec();
        approver(2, 100).propose(NOW, Arc::new(shown)).unwrap().verdict(0)
    };
    assert_eq!(verdict(&[CENTRAL, A, B]), Ok(()));
    let without_itself = [CENTRAL, B];
    let without_a_leg_it_sees = [A, B];
    let twice = [CENTRAL, A, A];
    let in_another_order = [A, CENTRAL, B];
    for wrong in [
        &[][..],
        &without_itself,
        &without_a_leg_it_sees,
        &twice,
        &in_another_order,
        &[CENTRAL, B, ParticipantId(9)],
    ] {
        assert_eq!(verdict(wrong), Err(Refusal::NotProven), "{wrong:?}");
    }
}

/// Payers sign; accounts 0 and 1 are key 9's, account 2 is key 10's; each has 100.
fn strict() -> Approver {
    let network = Arc::new(Network { signatures: SignaturePolicy::Required, ..(*network()).clone() });
    let mut accounts = partition(&network, A, 2, 100).accounts;
    accounts.open(1, EUR, key(10).public_key(), Amount::ZERO);
    accounts.apply(AccountNumber(2), Amount(100));
    accounts.apply(AccountNumber::own(EUR), Amount(100));
    Approver::new(network, key(1), accounts, std::iter::empty())
}

fn signed(mut transaction: Transaction, keys: &[u8]) -> Transaction {
    transaction.signers.clear();
    transaction.header.signers = 0;
    keys.iter().for_each(|number| transaction.sign(&NETWORK, &key(*number)));
    transaction
}

/// With a stranger's signature beside the key of the signer at `at`.
fn forged(mut transaction: Transaction, at: usize) -> Transaction {
    transaction.signers[at].signature = key(99).sign(transaction.id(&NETWORK).as_bytes());
    transaction
}

/// As the scheduler of another process proposes it: nobody here has verified the signatures.
fn from_elsewhere(source: Source, sent: &[Transaction]) -> Arc<ProposalBatch> {
    Arc::new(ProposalBatch { verified: None, source, ..(*proposals(0, A, sent)).clone() })
}

fn verdicts(approval: Option<crate::message::ApprovalBatch>) -> Vec<Result<(), Refusal>> {
    let verdicts = approval.unwrap().verdicts;
    verdicts.into_iter().map(|number| verdict_from_number(number).unwrap()).collect()
}

fn transfer(uetr: u64, legs: Vec<Leg>) -> Transaction {
    Transaction::new(Kind::Transfer, &terms(uetr, NOW.plus_ms(50_000)), legs)
}

#[test]
fn every_signature_on_which_the_own_books_rest_is_verified_here() {
    let issue = |kind, legs| Transaction::new(kind, &terms(1, NOW.plus_ms(50_000)), legs);
    let own = AccountId { participant: A, number: AccountNumber::own(EUR) };
    let two = vec![own_leg(A, 0, -5), own_leg(A, 2, -5), own_leg(A, 1, 10)];
    let minted = crate::path::issue(id(A, 0), EUR, Amount(5));
    let cases: [(Transaction, &[u8]); 6] = [
        (payment(1, id(A, 0), id(B, 7), 5), &[9]),
        (transfer(1, two), &[9, 10]),
        (payment(1, own, id(A, 0), 5), &[1]),
        (issue(Kind::Issue, minted.clone()), &[1]),
        (issue(Kind::Redeem, crate::path::reverse(minted)), &[1, 9]),
        (order(1, A, 0, AccountAction::Freeze), &[1]),
    ];
    for (transaction, needed) in cases {
        let good = signed(transaction, needed);
        let kind = good.header.kind;
        let judged = |transaction: Transaction| {
            let asked = from_elsewhere(Source::new(0, 0), &[transaction]);
            verdicts(strict().propose(NOW, asked))
        };
        assert_eq!(judged(good.clone()), [Ok(())], "kind {kind}");
        for at in 0..needed.len() {
            assert_eq!(judged(forged(good.clone(), at)), [Err(Refusal::WrongSignature)], "kind {kind}");
            let mut others = needed.to_vec();
            others[at] = 99;
            assert_eq!(judged(signed(good.clone(), &others)), [Err(Refusal::Unsigned)], "kind {kind}");
        }
    }
}

#[test]
fn what_rests_on_a_signature_is_approved_once() {
    let paid = signed(payment(1, id(A, 0), id(B, 7), 5), &[9]);
    let expiry = paid.header.expiry;
    let duplicate = [Err(Refusal::Duplicate)];
    let mut approver = strict();
    let ask = |approver: &mut Approver, source, sent: &[Transaction]| {
        verdicts(approver.propose(NOW, from_elsewhere(source, sent)))
    };
    // Twice in one batch, in a later batch, and in another scheduler's.
    let first = Source::new(0, 0);
    let both = ask(&mut approver, first, &[paid.clone(), paid.clone()]);
    assert_eq!(both, [Ok(()), Err(Refusal::Duplicate)]);
    assert_eq!(ask(&mut approver, Source::new(0, 1), std::slice::from_ref(&paid)), duplicate);
    assert_eq!(ask(&mut approver, Source::new(1, 0), std::slice::from_ref(&paid)), duplicate);
    // A sequence that refuses it gives no second try, whatever the reason: the payer was told, and may have paid anew.
    let timed_out = Refusal::ApprovalTimeout.number();
    approver.decide(&decided(0, first, &[(0, timed_out), (1, Refusal::Duplicate.number())])).unwrap();
    assert_eq!(ask(&mut approver, Source::new(0, 2), std::slice::from_ref(&paid)), duplicate);
    let other = signed(payment(2, id(A, 0), id(B, 7), 5), &[9]);
    let third = Source::new(0, 3);
    assert_eq!(ask(&mut approver, third, std::slice::from_ref(&other)), [Ok(())]);
    approver.decide(&decided(2, third, &[(0, Refusal::WrongSignature.number())])).unwrap();
    assert_eq!(ask(&mut approver, Source::new(0, 5), &[other]), duplicate);
    // What it is paid rests on nobody's signature here.
    let credit = signed(payment(3, id(B, 7), id(A, 0), 5), &[9]);
    let again = [credit.clone(), credit];
    assert_eq!(ask(&mut approver, Source::new(0, 6), &again), [Ok(()), Ok(())]);
    // The next process knows it from the records, until it has expired.
    let mut next = strict();
    next.recall(&paid.id(&NETWORK), expiry);
    assert_eq!(ask(&mut next, Source::new(0, 7), std::slice::from_ref(&paid)), duplicate);
    let late = Transaction::new(Kind::Transfer, &terms(4, NOW.plus_ms(5_000_000_000)), paid.legs.clone());
    let too_far = [Err(Refusal::ExpiryTooFar)];
    assert_eq!(ask(&mut next, Source::new(0, 8), &[signed(late, &[9])]), too_far);
}

#[test]
fn without_payers_signatures_the_institution_still_signs_what_it_issues_and_orders() {
    let minted = crate::path::issue(id(A, 0), EUR, Amount(5));
    let issue = Transaction::new(Kind::Issue, &terms(1, NOW.plus_ms(50_000)), minted.clone());
    let redeem = Transaction::new(Kind::Redeem, &terms(1, NOW.plus_ms(50_000)), crate::path::reverse(minted));
    let wrong: [(Transaction, &[u8]); 3] =
        [(issue, &[9]), (redeem, &[1]), (order(1, A, 0, AccountAction::Freeze), &[9])];
    for (transaction, signers) in wrong {
        let asked = proposals(0, A, &[signed(transaction, signers)]);
        assert_eq!(verdicts(approver(1, 100).propose(NOW, asked)), [Err(Refusal::Unsigned)]);
    }
    let free = payment(1, id(A, 0), id(B, 7), 5);
    assert_eq!(verdicts(approver(1, 100).propose(NOW, proposals(0, A, &[free]))), [Ok(())]);
}

/// Proposals are given back while decisions are outstanding. What was found of their signatures until then was found of
/// accounts as they were, and of these proposals.
#[test]
fn what_is_answered_later_is_verified_as_what_is_answered_at_once() {
    let mut approver = strict();
    let source = Source::new(0, 0);
    // Account 3 is not there yet.
    let sent = [3, 3].map(|from| signed(payment(from, id(A, from as u32), id(B, 7), 5), &[11]));
    let asked = from_elsewhere(source, &[sent[0].clone(), forged(sent[1].clone(), 0)]);
    let asked = approver.propose_if_sure(NOW, asked).unwrap_err();
    let open = AccountAction::Open {
        count: 1,
        asset: EUR,
        owner: key(11).public_key(),
        floor: Amount(-100),
        alias: String::new(),
    };
    let opening = from_elsewhere(Source::new(1, 0), &[order(9, A, 3, open)]);
    assert_eq!(verdicts(approver.propose(NOW, opening)), [Ok(())]);
    approver.decide(&decided(0, Source::new(1, 0), &[(0, 0)])).unwrap();
    assert_eq!(verdicts(approver.propose(NOW, asked)), [Ok(()), Err(Refusal::WrongSignature)]);

    // What was found of one batch says nothing of another.
    let poor = signed(payment(20, id(A, 0), id(B, 7), 500), &[9]);
    let poor = approver.propose_if_sure(NOW, from_elsewhere(Source::new(0, 1), &[poor])).unwrap_err();
    let theft = forged(signed(payment(21, id(A, 0), id(B, 7), 5), &[9]), 0);
    let theft = from_elsewhere(Source::new(1, 1), &[theft]);
    assert_eq!(verdicts(approver.propose(NOW, theft)), [Err(Refusal::WrongSignature)]);
    assert_eq!(verdicts(approver.propose(NOW, poor)), [Err(Refusal::InsufficientFunds)]);
}

#[test]
fn what_is_given_back_has_changed_nothing() {
    let mut approver = strict();
    let payments =
        [(1, 60), (2, 60)].map(|(uetr, amount)| signed(payment(uetr, id(A, 0), id(B, 7), amount), &[9]));
    let asked = from_elsewhere(Source::new(0, 0), &payments);
    let asked = approver.propose_if_sure(NOW, asked).unwrap_err();
    assert_eq!(approver.accounts().get(AccountNumber(0)).unwrap().balance, 100);
    assert_eq!(approver.under_way(), 0);
    assert_eq!(verdicts(approver.propose(NOW, asked)), [Ok(()), Err(Refusal::InsufficientFunds)]);
    assert_eq!(approver.accounts().get(AccountNumber(0)).unwrap().balance, 40);
}

#[test]
fn anothers_proposals_reserve_nothing() {
    let mut approver = approver(2, 100);
    let foreign = proposals(0, A, &[payment(1, id(A, 0), id(B, 7), 10)]);
    let foreign = ProposalBatch { participant: B, ..(*foreign).clone() };
    assert_eq!(approver.propose(NOW, Arc::new(foreign)), None);
    assert_eq!(approver.accounts().get(AccountNumber(0)).unwrap().balance, 100);
    assert_eq!(approver.under_way(), 0);
}

#[test]
fn what_is_shown_is_checked_whatever_the_scheduler_has_checked() {
    type Change = fn(&mut ProposalBatch);
    let cases: [(Change, Refusal); 9] = [
        (|batch| batch.headers[0].kind = 9, Refusal::NotProven),
        (|batch| batch.headers[0].network = NetworkTag(6), Refusal::NotProven),
        (|batch| batch.positions.swap(0, 1), Refusal::NotProven),
        (|batch| batch.participants.swap(0, 1), Refusal::NotProven),
        (|batch| batch.participants[1] = ParticipantId(3), Refusal::NotProven),
        (|batch| batch.participants = vec![A, B, ParticipantId(3)], Refusal::NotProven),
        (|batch| batch.headers[0].expiry = NOW, Refusal::Expired),
        (|batch| batch.legs[0].amount = Amount(-9), Refusal::Unbalanced),
        (|batch| batch.legs[1].asset = AssetId(7), Refusal::UnknownAsset),
    ];
    let honest = proposals(0, A, &[payment(1, id(A, 0), id(B, 7), 10)]);
    let mut approver = approver(2, 100);
    for (number, (change, refusal)) in (0u64..).zip(cases) {
        let mut forged = (*honest).clone();
        forged.source.number = number;
        change(&mut forged);
        assert_eq!(verdicts(approver.propose(NOW, Arc::new(forged))), [Err(refusal)], "case {number}");
        assert_eq!(approver.accounts().get(AccountNumber(0)).unwrap().balance, 100);
    }
    // An account order that is not the one of which the owner's institution signed the hash.
    let mut other = (*proposals(40, A, &[order(1, A, 0, AccountAction::Freeze)])).clone();
    other.orders[0].number = AccountNumber(1);
    assert_eq!(verdicts(approver.propose(NOW, Arc::new(other))), [Err(Refusal::NotProven)]);
    // An account order of this institution that says that another one alone has to answer.
    let mut unconcerned = (*proposals(41, A, &[order(2, A, 0, AccountAction::Freeze)])).clone();
    unconcerned.participants = vec![B];
    assert_eq!(verdicts(approver.propose(NOW, Arc::new(unconcerned))), [Err(Refusal::NotProven)]);
}

#[test]
fn what_another_process_shows_balances_in_the_own_books_and_moves_no_account_twice() {
    let judged = |change: &dyn Fn(&mut ProposalBatch), transaction: Transaction| {
        let mut asked = (*from_elsewhere(Source::new(0, 0), &[transaction])).clone();
        change(&mut asked);
        let mut approver = strict();
        let verdicts = verdicts(approver.propose(NOW, Arc::new(asked)));
        assert_eq!(approver.accounts().get(AccountNumber(0)).unwrap().balance, 100);
        verdicts
    };
    let as_shown = |_: &mut ProposalBatch| {};
    // Money from nothing, in one institution alone: nobody has to sign a credit.
    let credit = transfer(1, vec![own_leg(A, 0, 5)]);
    assert_eq!(judged(&as_shown, credit), [Err(Refusal::Unbalanced)]);
    let more = signed(transfer(1, vec![own_leg(A, 0, -5), own_leg(A, 1, 6)]), &[9]);
    assert_eq!(judged(&as_shown, more), [Err(Refusal::Unbalanced)]);
    // A credit that another's customer pays, and nothing is settled.
    let paid = signed(payment(1, id(B, 7), id(A, 0), 10), &[9]);
    let unsettled = |batch: &mut ProposalBatch| {
        let leg = batch.legs.iter_mut().find(|leg| leg.participant == CENTRAL).unwrap();
        (leg.account, leg.amount) = (AccountNumber(3), Amount(-10));
    };
    assert_eq!(judged(&unsettled, paid), [Err(Refusal::NotProven)]);
    let at_another = transfer(2, vec![own_leg(A, 0, 10), own_leg(B, 7, -10)]);
    let shown = |batch: &mut ProposalBatch| {
        batch.legs.push(own_leg(B, 7, -10));
        batch.salts.push([0; 16]);
        batch.positions.push(1);
        batch.shown[0] = 2;
        batch.hidden.clear();
    };
    assert_eq!(judged(&shown, at_another), [Err(Refusal::NotProven)]);
    // Two debits that are each covered, by their own customer.
    let twice = vec![own_leg(A, 0, -100), own_leg(A, 0, -100), own_leg(A, 1, 200)];
    assert_eq!(judged(&as_shown, signed(transfer(1, twice), &[9])), [Err(Refusal::Malformed)]);
    // An order with money in it.
    let mut order = order(1, A, 0, AccountAction::Freeze);
    order.legs.push(own_leg(A, 1, 50));
    order.header.legs = 1;
    assert_eq!(judged(&as_shown, signed(order, &[1])), [Err(Refusal::NotProven)]);
}

#[test]
fn no_reserves_are_moved_whose_holders_are_not_concerned() {
    let mut accounts = partition(&network(), CENTRAL, 0, 0).accounts;
    accounts.apply(AccountNumber::settlement(EUR, A), Amount(100));
    let mut approver = Approver::new(network(), key(0), accounts, std::iter::empty());
    let leg = |holder, amount| Leg {
        participant: CENTRAL,
        asset: EUR,
        account: AccountNumber::settlement(EUR, holder),
        amount: Amount(amount),
    };
    let moved = transfer(1, vec![leg(A, -10), leg(B, 10)]);
    let asked = ProposalBatch { verified: None, ..(*proposals(0, CENTRAL, &[moved])).clone() };
    assert_eq!(verdicts(approver.propose(NOW, Arc::new(asked))), [Err(Refusal::NotProven)]);
    let paid = payment(2, id(A, 0), id(B, 7), 10);
    let asked = ProposalBatch { verified: None, ..(*proposals(1, CENTRAL, &[paid])).clone() };
    assert_eq!(verdicts(approver.propose(NOW, Arc::new(asked))), [Ok(())]);
}

#[test]
fn an_account_takes_part_in_what_it_can_and_no_more() {
    let mut network = (*network()).clone();
    network.assets.push(Asset {
        code: "USD".into(),
        largest_payment: Amount(i64::MAX),
        ..network.assets[0].clone()
    });
    let network = Arc::new(network);
    let mut accounts = partition(&network, A, 4, 1 << 60).accounts;
    accounts.get_mut(AccountNumber(1)).unwrap().set_status(AccountStatus::Frozen);
    accounts.get_mut(AccountNumber(2)).unwrap().set_status(AccountStatus::Closed);
    accounts.open(1, AssetId(1), key(9).public_key(), Amount::ZERO);
    let mut approver = Approver::new(network, key(1), accounts, std::iter::empty());
    let limit = 1 << 50;
    let cases = [
        (0, 3, limit, Ok(())),
        (0, 3, limit + 1, Err(Refusal::AboveLimit)),
        (0, 1, 5, Err(Refusal::BlockedAccount)),
        (1, 0, 5, Err(Refusal::BlockedAccount)),
        (0, 2, 5, Err(Refusal::ClosedAccount)),
        (2, 0, 5, Err(Refusal::ClosedAccount)),
        (0, 4, 5, Err(Refusal::WrongAsset)),
        (0, 5, 5, Err(Refusal::UnknownAccount)),
        (5, 0, 5, Err(Refusal::UnknownAccount)),
    ];
    for (number, (from, to, amount, verdict)) in (0u64..).zip(cases) {
        let asked = proposals(number, A, &[payment(number, id(A, from), id(A, to), amount)]);
        assert_eq!(verdicts(approver.propose(NOW, asked)), [verdict], "{from} to {to}: {amount}");
    }
}

#[test]
fn no_balance_leaves_its_range_whatever_is_under_way() {
    let mut network = (*network()).clone();
    network.assets[0].largest_payment = Amount(i64::MAX);
    let network = Arc::new(network);
    let accounts = partition(&network, A, 1, 1 << 61).accounts;
    let mut approver = Approver::new(network, key(1), accounts, std::iter::empty());
    let coming = |approver: &mut Approver, number: u64, amount: i64| {
        verdicts(approver.propose(NOW, proposals(number, A, &[payment(number, id(B, 7), id(A, 0), amount)])))
    };
    // It holds half of the range.
    let (quarter, overflow) = (1 << 60, [Err(Refusal::BalanceOverflow)]);
    assert_eq!(coming(&mut approver, 0, i64::MAX), overflow);
    assert_eq!(coming(&mut approver, 1, quarter), [Ok(())]);
    assert_eq!(coming(&mut approver, 2, quarter), [Ok(())]);
    assert_eq!(coming(&mut approver, 3, quarter), overflow, "two are under way");
    approver.decide(&decided(0, Source::new(0, 1), &[(0, Refusal::Withdrawn.number())])).unwrap();
    assert_eq!(coming(&mut approver, 4, quarter), [Ok(())]);
}

#[test]
fn accounts_are_opened_in_order_and_no_alias_is_promised_twice() {
    let open = |uetr, number, alias: &str| {
        let action = AccountAction::Open {
            count: 1,
            asset: EUR,
            owner: key(7).public_key(),
            floor: Amount::ZERO,
            alias: alias.into(),
        };
        order(uetr, A, number, action)
    };
    let network_accounts = partition(&network(), A, 2, 0).accounts;
    let mut approver = Approver::new(network(), key(1), network_accounts, ["DE1"].into_iter());
    let impossible = Err(Refusal::OrderNotPossible);
    let sent = [
        open(1, 2, "DE2"),
        open(2, 2, ""),
        open(3, 3, "DE2"),
        open(4, 3, "DE1"),
        open(5, 3, "DE3"),
        open(6, 5, ""),
    ];
    assert_eq!(
        answers(&mut approver, 0, &sent),
        [Ok(()), impossible, impossible, impossible, Ok(()), impossible]
    );
    let mut unknown = (*proposals(1, A, &[open(7, 4, "")])).clone();
    let AccountAction::Open { asset, .. } = &mut unknown.orders[0].action else { unreachable!() };
    *asset = AssetId(9);
    unknown.headers[0].details = unknown.orders[0].hash();
    assert_eq!(verdicts(approver.propose(NOW, Arc::new(unknown))), [Err(Refusal::UnknownAsset)]);
    // An order for another institution's account, under this one's signature.
    let mut foreign = (*proposals(2, A, &[order(8, A, 0, AccountAction::Freeze)])).clone();
    foreign.orders[0].participant = B;
    foreign.headers[0].details = foreign.orders[0].hash();
    assert_eq!(verdicts(approver.propose(NOW, Arc::new(foreign))), [Err(Refusal::Unsigned)]);
}

#[test]
fn a_freeze_or_closing_holds_from_its_approval_on_and_a_release_from_its_decision() {
    let mut approver = approver(2, 0);
    let change = |uetr, number, action| order(uetr, A, number, action);
    let pay = |uetr, to| payment(uetr, id(B, 7), id(A, to), 5);
    let sent = [change(1, 0, AccountAction::Freeze), change(2, 0, AccountAction::Freeze), pay(3, 0)];
    let (impossible, blocked) = (Err(Refusal::OrderNotPossible), Err(Refusal::BlockedAccount));
    assert_eq!(answers(&mut approver, 0, &sent), [Ok(()), impossible, blocked]);
    approver.decide(&decided(0, Source::new(0, 0), &[(0, 0)])).unwrap();
    let sent = [change(4, 0, AccountAction::Release), pay(5, 0), change(6, 1, AccountAction::Release)];
    assert_eq!(answers(&mut approver, 1, &sent), [Ok(()), blocked, impossible]);
    approver.decide(&decided(1, Source::new(0, 1), &[(0, 0)])).unwrap();
    let sent =
        [pay(7, 0), change(8, 1, AccountAction::Close), pay(9, 1), change(10, 1, AccountAction::Freeze)];
    let closed = Err(Refusal::ClosedAccount);
    assert_eq!(answers(&mut approver, 2, &sent), [Ok(()), Ok(()), closed, closed]);
}

#[test]
fn what_was_approved_before_a_crash_is_reserved_and_answered_no_more() {
    let sent = [payment(1, id(A, 0), id(B, 7), 60), payment(2, id(A, 0), id(B, 7), 30)];
    let asked = proposals(0, A, &sent);
    let mut approver = approver(2, 100);
    let answer = Answer { proposals: Arc::clone(&asked), verdicts: vec![0, 24], decided: vec![false, false] };
    approver.recover(vec![answer], Recovered::default(), NOW);
    assert_eq!(approver.accounts().get(AccountNumber(0)).unwrap().balance, 40);
    assert_eq!(approver.propose(Timestamp(0), asked), None);
    // No time before the last comes again.
    let late = Transaction::new(Kind::Transfer, &terms(4, NOW), vec![own_leg(A, 0, -1), own_leg(A, 1, 1)]);
    let late = approver.propose(Timestamp(0), proposals(1, A, &[late]));
    assert_eq!(verdicts(late), [Err(Refusal::Expired)]);
    let more = answers(&mut approver, 2, &[payment(3, id(A, 0), id(B, 7), 50)]);
    assert_eq!(more, [Err(Refusal::InsufficientFunds)]);
}

#[test]
fn what_was_answered_under_its_key_binds_it_and_the_rest_is_answered() {
    let sent: Vec<_> = (0..4).map(|at| payment(at + 1, id(A, 0), id(B, 7), 20)).collect();
    let asked = proposals(0, A, &sent);
    let other = approver(2, 1_000).propose(NOW, Arc::clone(&asked)).unwrap();
    let part = |items: &[usize], verdict: u16| ApprovalBatch {
        indices: items.iter().map(|at| other.indices[*at]).collect(),
        ids: items.iter().map(|at| other.ids[*at]).collect(),
        verdicts: vec![verdict; items.len()],
        ..other.clone()
    };
    let longer = ApprovalBatch { source_len: 5, ..part(&[3], 0) };
    let given = vec![longer, part(&[0], 0), part(&[1], 24), part(&[1, 2], 0), part(&[0], 0)];
    let mut approver = approver(2, 70);
    let recovered = Recovered { given: HashMap::from([(asked.source, given)]), ..Recovered::default() };
    approver.recover(Vec::new(), recovered, NOW);
    let rest = approver.propose(NOW, Arc::clone(&asked)).unwrap();
    assert_eq!(rest.indices, [2, 3], "what contradicts an answer, or is one to another batch, is none");
    assert_eq!(verdicts(Some(rest)), [Ok(()), Ok(())]);
    assert_eq!(approver.accounts().get(AccountNumber(0)).unwrap().balance, 10, "three are reserved");
    // The first is made and the second refused, as was answered.
    approver.decide(&decided(0, asked.source, &[(0, 0), (1, 24)])).unwrap();
}
