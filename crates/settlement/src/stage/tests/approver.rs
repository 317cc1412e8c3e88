use super::*;
use crate::stage::Approver;
use proptest::prelude::*;
use std::collections::BTreeMap;
use tally_ledger::Refusal;
use tally_ledger::refusal::verdict_from_number;

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
                approver.decide(&decided(sequence, Source::new(0, number), &verdicts));
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
        approver.decide(&decided(0, Source::new(0, 0), &[(0, 0), (1, Refusal::NotEmpty.number())]));
        // Now it holds 5, and gives them away.
        let going = payment(4, id(A, 0), other, 5);
        assert_eq!(answers(&mut approver, 2, &[going, close(5, 0)]), [Ok(()), Err(Refusal::NotEmpty)]);
        approver.decide(&decided(2, Source::new(0, 2), &[(0, 0), (1, Refusal::NotEmpty.number())]));
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
    approver.decide(&decided(0, Source::new(0, 0), &[(0, 0), (1, refused)]));
    assert_eq!(answers(&mut approver, 3, &[pay(5)]), [Ok(())]);
    assert_eq!(answers(&mut approver, 4, &[floor(6, -200)]), [Err(Refusal::InsufficientFunds)]);
    // A stricter one from now on.
    assert_eq!(answers(&mut approver, 5, &[floor(7, -460)]), [Ok(())]);
    let more = payment(8, id(A, 0), id(A, 1), 20);
    assert_eq!(answers(&mut approver, 6, &[more]), [Err(Refusal::InsufficientFunds)]);
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
    approver.decide(&decided(0, Source::new(0, 0), &[(0, decided_early)]));
    assert_eq!(answers(&mut approver, 0, &sent), [Ok(()), Ok(())]);
    assert_eq!(approver.under_way(), 1);
    assert_eq!(approver.accounts().get(AccountNumber(0)).unwrap().balance, 100);
    assert_eq!(approver.accounts().get(AccountNumber(1)).unwrap().balance, 40);
    approver.decide(&decided(1, Source::new(0, 0), &[(1, decided_early)]));
    assert_eq!(approver.accounts().get(AccountNumber(1)).unwrap().balance, 100);
    assert_eq!(approver.under_way(), 0);
}

#[test]
fn no_leg_is_approved_that_is_not_of_the_transaction() {
    let mut approver = approver(2, 100);
    let sent = [payment(1, id(A, 0), id(A, 1), 10), payment(2, id(A, 0), id(B, 7), 10)];
    let honest = proposals(0, A, &sent);
    let ids: Vec<_> = sent.iter().map(Transaction::id).collect();
    assert_eq!(approver.propose(NOW, Arc::clone(&honest)).unwrap().ids, ids);
    for change in 0..4u64 {
        let mut forged = (*honest).clone();
        forged.source.number = 1 + change;
        match change {
            0 => forged.legs[0].amount = Amount(-9),
            1 => forged.salts[2][0] ^= 1,
            2 => forged.hidden[0] = Hash::ZERO,
            _ => forged.positions[0] = 1,
        }
        let answered = approver.propose(NOW, Arc::new(forged)).unwrap();
        assert_ne!(answered.ids, ids, "the answer is for something else, and joins with nothing");
    }
}
