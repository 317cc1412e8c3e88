use super::*;
use proptest::prelude::*;

fn select(quantities: &[u64], wanted: u64) -> (Vec<usize>, u64) {
    let Selection { chosen, change } = select_coins(quantities, wanted).unwrap();
    (chosen, change)
}

#[test]
fn few_coins_then_little_change() {
    assert_eq!(select(&[5, 10, 20, 50], 10), (vec![1], 0));
    assert_eq!(select(&[5, 10, 20, 50], 11), (vec![2], 9));
    assert_eq!(select(&[5, 10, 20, 50], 55), (vec![0, 3], 0));
    assert_eq!(select(&[50, 40, 45, 30], 80), (vec![0, 3], 0));
    assert_eq!(select(&[7, 7, 7], 7), (vec![0], 0), "of equal coins the first");
    assert_eq!(
        select(&[10, 9, 8, 1, 2], 26),
        (vec![0, 1, 2], 1),
        "three are enough, and none of them can be exchanged"
    );
    assert_eq!(select(&[10, 10, 10, 3], 22), (vec![0, 1, 3], 1), "one of three large coins is exchanged");
    assert_eq!(select(&[], 0), (vec![], 0));
    assert_eq!(select(&[0, 0, 3], 3), (vec![2], 0));
}

#[test]
fn too_little_is_refused() {
    assert_eq!(select_coins(&[], 1), Err(Insufficient { available: 0, wanted: 1 }));
    assert_eq!(select_coins(&[3, 4], 8), Err(Insufficient { available: 7, wanted: 8 }));
    assert_eq!(select(&[u64::MAX, u64::MAX], u64::MAX), (vec![0], 0), "totals beyond 64 bits");
}

/// The least number of coins that covers, and the least change with that many, by trying all.
fn best(quantities: &[u64], wanted: u64) -> Option<(u32, u64)> {
    (0u32..1 << quantities.len())
        .filter_map(|set| {
            let of_set = |(i, q): (usize, &u64)| if set >> i & 1 == 1 { *q } else { 0 };
            let sum: u64 = quantities.iter().enumerate().map(of_set).sum();
            Some((set.count_ones(), sum.checked_sub(wanted)?))
        })
        .min()
}

proptest! {
    #[test]
    fn as_good_as_trying_all(quantities in proptest::collection::vec(0u64..60, 0..10), wanted in 1u64..150) {
        match (select_coins(&quantities, wanted), best(&quantities, wanted)) {
            (Err(error), None) => prop_assert_eq!(error.available, u128::from(quantities.iter().sum::<u64>())),
            (Ok(selection), Some((count, least))) => {
                let Selection { chosen, change } = selection;
                prop_assert!(chosen.is_sorted_by(|a, b| a < b));
                let sum: u64 = chosen.iter().map(|at| quantities[*at]).sum();
                prop_assert_eq!(sum, wanted + change);
                prop_assert_eq!(chosen.len(), count as usize);
                if count <= 2 { prop_assert_eq!(change, least); }
                // No single exchange lowers the change.
                for at in &chosen {
                    for (other, quantity) in quantities.iter().enumerate() {
                        let worse = *quantity >= quantities[*at] || quantities[*at] - quantity > change;
                        prop_assert!(worse || chosen.contains(&other), "{} for {}", quantity, quantities[*at]);
                    }
                }
            }
            (found, expected) => prop_assert!(false, "{:?} against {:?}", found, expected),
        }
    }
}
