use super::*;
use crate::message::ApprovalBatch;
use crate::stage::Updater;
use crate::stage::updater::UpdateError;
use proptest::prelude::*;
use std::collections::BTreeMap;
use tally_ledger::AccountStatus;

/// The approver's answers to what it was asked: yes, but for those in `refused`.
fn answers(asked: &ProposalBatch, refused: &[u32]) -> Arc<ApprovalBatch> {
    let verdict = |index: &u32| if refused.contains(index) { 24 } else { 0 };
    Arc::new(ApprovalBatch {
        source: asked.source,
        source_len: asked.source_len,
        participant: asked.participant,
        indices: asked.indices.clone(),
        ids: vec![Hash::ZERO; asked.len()],
        verdicts: asked.indices.iter().map(verdict).collect(),
        leaves: Vec::new(),
        signature: Signature::from_bytes([0; 64]),
    })
}

fn updater() -> Updater {
    let Partition { accounts, aliases, .. } = partition(&network(), A, 4, 1000);
    Updater::new(accounts, aliases, 0)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn what_was_made_is_applied_once_and_nothing_else(
        batches in prop::collection::vec(
            prop::collection::vec((0u32..4, 0u32..8, 1i64..9, any::<bool>(), 0u8..4), 1..8), 1..12),
        repeats in any::<u16>(),
    ) {
        let mut updater = updater();
        let mut naive: BTreeMap<u32, i64> = (0..4).map(|number| (number, 1000)).collect();
        let mut sequence = 0;
        let mut left: Vec<(u64, Vec<(u32, u16)>)> = Vec::new();
        for (number, pays) in (0u64..).zip(&batches) {
            let pays: Vec<_> = pays.iter().filter(|(from, to, ..)| from != to).collect();
            if pays.is_empty() {
                continue;
            }
            let account = |number| if number > 3 { id(B, number) } else { id(A, number) };
            let send = |(uetr, (from, to, amount, ..)): (u64, &&(u32, u32, i64, bool, u8))| {
                payment(uetr, account(*from), account(*to), *amount)
            };
            let sent: Vec<_> = (number * 100..).zip(&pays).map(send).collect();
            let asked = proposals(number, A, &sent);
            // Either may come first.
            if repeats & 1 == 0 {
                updater.answer(&answers(&asked, &[]));
            }
            updater.propose(Arc::clone(&asked));
            updater.propose(Arc::clone(&asked));
            updater.answer(&answers(&asked, &[]));
            let mut parts: BTreeMap<u8, Vec<(u32, u16)>> = BTreeMap::new();
            for (index, (from, to, amount, made, part)) in (0u32..).zip(pays) {
                if *made {
                    *naive.get_mut(from).unwrap() -= amount;
                    naive.entry(*to).and_modify(|balance| *balance += amount);
                }
                parts.entry(*part).or_default().push((index, if *made { 0 } else { 24 }));
            }
            left.extend(parts.into_values().map(|part| (number, part)));
        }
        for (at, (number, part)) in left.iter().enumerate() {
            let batch = decided(sequence, Source::new(0, *number), part);
            prop_assert!(updater.is_ready(&batch));
            updater.apply(&batch).unwrap();
            if (repeats >> (at % 16)) & 1 == 1 {
                updater.apply(&batch).unwrap();
            }
            sequence += part.len() as u64;
            prop_assert_eq!(updater.applied(), sequence);
        }
        for (number, balance) in naive {
            prop_assert_eq!(updater.accounts().get(AccountNumber(number)).unwrap().balance, balance);
        }
    }
}

#[test]
fn orders_are_applied_in_their_place() {
    let mut updater = updater();
    let open = AccountAction::Open {
        count: 1,
        asset: EUR,
        owner: key(7).public_key(),
        floor: Amount(-5),
        alias: "DE1".into(),
    };
    let sent =
        [order(1, A, 4, open), order(2, A, 0, AccountAction::Freeze), order(3, A, 0, AccountAction::Release)];
    let asked = proposals(0, A, &sent);
    updater.propose(Arc::clone(&asked));
    updater.answer(&answers(&asked, &[]));
    let source = Source::new(0, 0);
    updater.apply(&decided(0, source, &[(1, 0)])).unwrap();
    assert_eq!(updater.accounts().get(AccountNumber(0)).unwrap().status(), AccountStatus::Frozen);
    assert_eq!(updater.alias("DE1"), None);
    updater.apply(&decided(1, source, &[(0, 0), (2, 0)])).unwrap();
    assert_eq!(updater.accounts().get(AccountNumber(0)).unwrap().status(), AccountStatus::Open);
    assert_eq!(updater.alias("DE1"), Some(AccountNumber(4)));
    let opened = *updater.accounts().get(AccountNumber(4)).unwrap();
    assert_eq!(updater.accounts().floor(AccountNumber(4), &opened), Amount(-5));
    assert_eq!(updater.accounts().owner(&opened), Some(&key(7).public_key()));
}

#[test]
fn a_gap_in_the_sequence_stops_the_updater() {
    let gap = updater().apply(&decided(1, Source::new(0, 0), &[(0, 0)]));
    assert_eq!(gap, Err(UpdateError::Gap { expected: 0, found: 1 }));
}

#[test]
fn what_the_own_approver_did_not_approve_is_never_applied() {
    let source = Source::new(0, 0);
    let sent = [payment(1, id(A, 0), id(B, 7), 100), payment(2, id(A, 1), id(A, 2), 60)];
    let asked = proposals(0, A, &sent);
    let mut updater = updater();
    updater.propose(Arc::clone(&asked));
    let made = decided(0, source, &[(0, 0)]);
    assert!(!updater.is_ready(&made), "the approver has not answered");
    // What is refused needs no answer.
    assert!(updater.is_ready(&decided(0, source, &[(0, 40)])));
    updater.answer(&answers(&asked, &[0]));
    // A second answer does not stand.
    updater.answer(&answers(&asked, &[]));
    let stops = UpdateError::NotApproved { sequence: 0, source_batch: source, index: 0, answer: 24 };
    assert_eq!(updater.apply(&made), Err(stops));
    assert_eq!(updater.accounts().get(AccountNumber(0)).unwrap().balance, 1000);
}

#[test]
fn no_account_goes_below_its_floor() {
    let source = Source::new(0, 0);
    let sent = [payment(1, id(A, 0), id(A, 1), 600), payment(2, id(A, 0), id(A, 1), 600)];
    let asked = proposals(0, A, &sent);
    let mut updater = updater();
    updater.propose(Arc::clone(&asked));
    updater.answer(&answers(&asked, &[]));
    let (account, balance, after, floor) = (id(A, 0), 400, -200, 0);
    let stops = UpdateError::BelowFloor { sequence: 1, account, balance, after, floor };
    assert_eq!(updater.apply(&decided(0, source, &[(0, 0), (1, 0)])), Err(stops));
}

#[test]
fn orders_out_of_place_stop_the_updater() {
    let open = |owner: u8| AccountAction::Open {
        count: 1,
        asset: EUR,
        owner: key(owner).public_key(),
        floor: Amount::ZERO,
        alias: String::new(),
    };
    let sent = [order(1, A, 4, open(7)), order(2, A, 5, open(8))];
    let asked = proposals(0, A, &sent);
    let mut updater = updater();
    updater.propose(Arc::clone(&asked));
    updater.answer(&answers(&asked, &[]));
    let stops = UpdateError::OrderOutOfPlace { sequence: 0, account: id(A, 5) };
    assert_eq!(updater.apply(&decided(0, Source::new(0, 0), &[(1, 0)])), Err(stops));
}

#[test]
fn a_transaction_has_one_outcome() {
    let asked = proposals(0, A, &[payment(1, id(A, 0), id(A, 1), 6), payment(2, id(A, 0), id(A, 1), 6)]);
    let mut updater = updater();
    updater.propose(Arc::clone(&asked));
    updater.answer(&answers(&asked, &[]));
    let source = Source::new(0, 0);
    updater.apply(&decided(0, source, &[(0, 0)])).unwrap();
    let stops = UpdateError::DecidedTwice { sequence: 1, source_batch: source, index: 0 };
    assert_eq!(updater.apply(&decided(1, source, &[(0, 40)])), Err(stops));
}

#[test]
fn neither_anothers_answers_nor_anothers_proposals_are_taken() {
    let source = Source::new(0, 0);
    let asked = proposals(0, A, &[payment(1, id(A, 0), id(B, 7), 100)]);
    let foreign = ApprovalBatch { participant: B, ..(*answers(&asked, &[])).clone() };
    let made = decided(0, source, &[(0, 0)]);
    for early in [true, false] {
        let mut updater = updater();
        if early {
            updater.answer(&Arc::new(foreign.clone()));
        }
        updater.propose(Arc::new(ProposalBatch { participant: B, ..(*asked).clone() }));
        assert!(!updater.has_seen(source));
        updater.propose(Arc::clone(&asked));
        updater.answer(&Arc::new(foreign.clone()));
        assert!(!updater.is_ready(&made), "its own approver has not answered");
    }
}

#[test]
fn answers_may_come_before_the_proposals() {
    let asked = proposals(0, A, &[payment(1, id(A, 0), id(B, 7), 100)]);
    let mut updater = updater();
    updater.answer(&answers(&asked, &[]));
    updater.propose(asked);
    let made = decided(0, Source::new(0, 0), &[(0, 0)]);
    assert!(updater.is_ready(&made));
    updater.apply(&made).unwrap();
    assert_eq!(updater.accounts().get(AccountNumber(0)).unwrap().balance, 900);
}

#[test]
fn money_on_an_account_that_is_not_there_stops_the_updater() {
    let asked = proposals(0, A, &[payment(1, id(B, 7), id(A, 40), 100)]);
    let mut updater = updater();
    updater.propose(Arc::clone(&asked));
    updater.answer(&answers(&asked, &[]));
    let stops = UpdateError::UnknownAccount { sequence: 0, account: id(A, 40) };
    assert_eq!(updater.apply(&decided(0, Source::new(0, 0), &[(0, 0)])), Err(stops));
}

#[test]
fn answers_that_count_for_nothing_change_nothing() {
    let source = Source::new(0, 0);
    let sent = [payment(1, id(A, 0), id(B, 7), 100), payment(2, id(A, 1), id(A, 2), 60)];
    let asked = proposals(0, A, &sent);
    let true_answers = answers(&asked, &[]);
    let altered = |alter: &dyn Fn(&mut ApprovalBatch)| {
        let mut refusal = (*answers(&asked, &[0, 1])).clone();
        alter(&mut refusal);
        Arc::new(refusal)
    };
    let mut updater = updater();
    // Before the batch is accepted: the assembler takes it for one to a batch that there is not.
    updater.answer(&altered(&|_| {}));
    updater.propose(Arc::clone(&asked));
    let made = decided(0, source, &[(0, 0), (1, 0)]);
    assert!(updater.is_ready(&made) && updater.contradiction(&made).is_some());
    updater.answer(&altered(&|batch| batch.source_len += 1));
    updater.answer(&altered(&|batch| batch.indices[1] = 40));
    updater.answer(&true_answers);
    updater.answer(&altered(&|_| {}));
    assert!(updater.is_ready(&made) && updater.contradiction(&made).is_none());
    assert_eq!(updater.apply(&made), Ok(()));
    assert_eq!(updater.accounts().get(AccountNumber(0)).unwrap().balance, 900);
}

#[test]
fn who_shows_anothers_balances_goes_on_whatever_was_approved() {
    let source = Source::new(0, 0);
    let sent = [
        payment(1, id(A, 0), id(A, 1), 600),
        payment(2, id(A, 0), id(A, 1), 600),
        payment(3, id(A, 0), id(A, 40), 5),
    ];
    let asked = proposals(0, A, &sent);
    let made = decided(0, source, &[(0, 0), (1, 0), (2, 0)]);
    let mut own = updater();
    own.propose(Arc::clone(&asked));
    own.answer(&answers(&asked, &[]));
    assert!(matches!(own.apply(&made), Err(UpdateError::BelowFloor { sequence: 1, .. })));

    let mut shown = updater().without_answers();
    shown.propose(asked);
    assert!(shown.is_ready(&made) && shown.contradiction(&made).is_none());
    assert_eq!(shown.apply(&made), Ok(()));
    let balance = |number| shown.accounts().get(AccountNumber(number)).unwrap().balance;
    assert_eq!((balance(0), balance(1)), (1000 - 1205, 1000 + 1200));
}
