use super::*;
use crate::stage::Updater;
use proptest::prelude::*;
use std::collections::BTreeMap;
use tally_ledger::AccountStatus;

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
            updater.propose(proposals(number, A, &sent));
            updater.propose(proposals(number, A, &sent));
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
            updater.apply(&batch);
            if (repeats >> (at % 16)) & 1 == 1 {
                updater.apply(&batch);
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
    updater.propose(proposals(0, A, &sent));
    let source = Source::new(0, 0);
    updater.apply(&decided(0, source, &[(1, 0)]));
    assert_eq!(updater.accounts().get(AccountNumber(0)).unwrap().status(), AccountStatus::Frozen);
    assert_eq!(updater.alias("DE1"), None);
    updater.apply(&decided(1, source, &[(0, 0), (2, 0)]));
    assert_eq!(updater.accounts().get(AccountNumber(0)).unwrap().status(), AccountStatus::Open);
    assert_eq!(updater.alias("DE1"), Some(AccountNumber(4)));
    let opened = *updater.accounts().get(AccountNumber(4)).unwrap();
    assert_eq!(updater.accounts().floor(AccountNumber(4), &opened), Amount(-5));
    assert_eq!(updater.accounts().owner(&opened), Some(&key(7).public_key()));
}

#[test]
#[should_panic(expected = "in the one global order")]
fn a_gap_in_the_sequence_is_a_broken_invariant() {
    updater().apply(&decided(1, Source::new(0, 0), &[(0, 0)]));
}
