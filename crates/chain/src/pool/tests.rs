use alloy_consensus::{SignableTransaction, TxEip1559};
use alloy_primitives::{Address, B256, Signature, TxKind, U256};
use proptest::prelude::*;
use tally_evm::{Recovered, Transaction};
use tally_state::Account;

use super::*;

const CONDITIONS: Conditions = Conditions { base_fee: 0, gas_limit: 30_000_000 };

fn sender(number: u8) -> Address {
    Address::repeat_byte(number)
}

fn transaction(from: u8, nonce: u64, fee: u128, tip: u128) -> Recovered {
    let body = TxEip1559 {
        chain_id: 1,
        nonce,
        gas_limit: 21_000,
        max_fee_per_gas: fee,
        max_priority_fee_per_gas: tip,
        to: TxKind::Call(Address::ZERO),
        value: U256::from(from),
        ..TxEip1559::default()
    };
    let signed = body.into_signed(Signature::new(U256::from(1), U256::from(1), false));
    Recovered::new_unchecked(Transaction::from(signed), sender(from))
}

fn rich(nonce: u64) -> Account {
    Account { nonce, balance: U256::from(u128::MAX), ..Account::default() }
}

fn pool(limits: Limits) -> Pool {
    Pool::new(limits, CONDITIONS)
}

fn best(pool: &Pool, base_fee: u128, most: usize) -> Vec<Arc<Pooled>> {
    pool.draw(&mut Draw::new(base_fee), most)
}

fn nonces(of: &[Arc<Pooled>]) -> Vec<(u8, u64)> {
    of.iter().map(|pooled| (pooled.transaction().sender()[0], pooled.transaction().nonce())).collect()
}

#[test]
fn nonces_come_in_order_and_the_higher_tip_first() {
    let mut pool = pool(Limits::default());
    for (from, nonce, tip) in [(1, 1, 9), (1, 0, 1), (2, 0, 5), (3, 0, 5)] {
        pool.add(transaction(from, nonce, 100, tip), &rich(0), 0).unwrap();
    }
    assert_eq!(nonces(&best(&pool, 0, usize::MAX)), [(2, 0), (3, 0), (1, 0), (1, 1)]);
    // A base fee above what it offers leaves a transaction, and those after it, for later.
    assert_eq!(nonces(&best(&pool, 96, usize::MAX)), [(2, 0), (3, 0), (1, 0), (1, 1)]);
    assert!(best(&pool, 101, usize::MAX).is_empty());
    // Some at a time.
    let mut draw = Draw::new(0);
    assert_eq!(nonces(&pool.draw(&mut draw, 3)), [(2, 0), (3, 0), (1, 0)]);
    assert_eq!(nonces(&pool.draw(&mut draw, 3)), [(1, 1)]);
    assert!(pool.draw(&mut draw, 3).is_empty());
}

#[test]
fn a_gap_waits_until_it_is_filled() {
    let mut pool = pool(Limits::default());
    assert!(!pool.add(transaction(1, 2, 1, 1), &rich(0), 0).unwrap().pending);
    assert!(pool.add(transaction(1, 0, 1, 1), &rich(0), 0).unwrap().pending);
    assert_eq!((pool.status(), pool.next_nonce(&sender(1))), ((1, 1), Some(1)));
    assert!(pool.add(transaction(1, 1, 1, 1), &rich(0), 0).unwrap().pending);
    assert_eq!((pool.status(), pool.next_nonce(&sender(1))), ((3, 0), Some(3)));
}

#[test]
fn a_gap_that_nobody_fills_is_let_go_with_its_reason() {
    let mut pool = pool(Limits { gap_ms: 1_000, ..Limits::default() });
    pool.add(transaction(1, 0, 1, 1), &rich(0), 0).unwrap();
    let late = pool.add(transaction(1, 2, 1, 1), &rich(0), 0).unwrap().transaction.hash();
    assert_eq!(pool.expire(1_000), 0);
    assert_eq!(pool.expire(1_001), 1);
    assert_eq!(pool.fate(&late), Some(&Fate::GapNeverFilled));
    assert_eq!(pool.len(), 1);
}

#[test]
fn a_replacement_raises_both_fees() {
    let mut pool = pool(Limits::default());
    let old = pool.add(transaction(1, 0, 100, 100), &rich(0), 0).unwrap().transaction.hash();
    for (fee, tip) in [(109, 110), (110, 109), (100, 100)] {
        let refused = pool.add(transaction(1, 0, fee, tip), &rich(0), 0).unwrap_err();
        assert!(matches!(refused, Refusal::Underpriced { .. } | Refusal::Known), "{refused}");
    }
    let added = pool.add(transaction(1, 0, 110, 110), &rich(0), 0).unwrap();
    assert_eq!(added.replaced, Some(old));
    assert_eq!(pool.fate(&old), Some(&Fate::Replaced { by: added.transaction.hash() }));
    assert_eq!(pool.len(), 1);
}

#[test]
fn without_fees_nothing_is_replaced_or_pushed_out() {
    let mut pool = pool(Limits { transactions: 2, ..Limits::default() });
    pool.add(transaction(1, 0, 0, 0), &rich(0), 0).unwrap();
    pool.add(transaction(2, 0, 0, 0), &rich(0), 0).unwrap();
    assert!(matches!(pool.add(transaction(3, 0, 0, 0), &rich(0), 0), Err(Refusal::Full { .. })));
    assert_eq!(pool.len(), 2);
}

#[test]
fn a_full_pool_pushes_out_whoever_pays_least() {
    let mut pool = pool(Limits { transactions: 3, ..Limits::default() });
    pool.add(transaction(1, 0, 5, 5), &rich(0), 0).unwrap();
    let last = pool.add(transaction(1, 1, 5, 5), &rich(0), 0).unwrap().transaction.hash();
    pool.add(transaction(2, 0, 7, 7), &rich(0), 0).unwrap();
    let added = pool.add(transaction(3, 0, 6, 6), &rich(0), 0).unwrap();
    assert_eq!(pool.fate(&last), Some(&Fate::PushedOut { by: added.transaction.hash() }));
    assert_eq!(nonces(&best(&pool, 0, usize::MAX)), [(2, 0), (3, 0), (1, 0)]);
}

#[test]
fn refusals_leave_the_pool_as_it_was() {
    let mut pool = pool(Limits { sender: 2, gapped: 1, min_gas_price: 2, ..Limits::default() });
    let poor = Account { balance: U256::from(1), ..Account::default() };
    let code = |result: Result<Added, Refusal>| std::mem::discriminant(&result.unwrap_err());
    let wrong = |refusal: Refusal| std::mem::discriminant(&refusal);
    assert_eq!(
        code(pool.add(transaction(1, 0, 1, 1), &rich(0), 0)),
        wrong(Refusal::GasPrice { price: 1, least: 2 })
    );
    assert_eq!(
        code(pool.add(transaction(1, 4, 2, 2), &rich(5), 0)),
        wrong(Refusal::NonceTooLow { nonce: 4, next: 5 })
    );
    assert_eq!(code(pool.add(transaction(1, u64::MAX, 2, 2), &rich(5), 0)), wrong(Refusal::NonceTooHigh));
    assert_eq!(
        code(pool.add(transaction(1, 0, 2, 2), &poor, 0)),
        wrong(Refusal::Funds { balance: U256::ZERO, cost: U256::ZERO })
    );
    assert!(pool.is_empty());
    pool.add(transaction(1, 3, 2, 2), &rich(0), 0).unwrap();
    assert_eq!(
        code(pool.add(transaction(1, 4, 2, 2), &rich(0), 0)),
        wrong(Refusal::TooManyGapped { nonce: 4, next: 0, limit: 1 })
    );
    pool.add(transaction(1, 0, 2, 2), &rich(0), 0).unwrap();
    assert_eq!(code(pool.add(transaction(1, 1, 2, 2), &rich(0), 0)), wrong(Refusal::SenderFull { limit: 2 }));
    assert_eq!(code(pool.add(transaction(1, 0, 2, 2), &rich(0), 0)), wrong(Refusal::Known));
    assert_eq!(pool.len(), 2);
}

#[test]
fn a_block_takes_out_what_it_holds_and_what_it_made_impossible() {
    let mut pool = pool(Limits::default());
    let mine = pool.add(transaction(1, 0, 5, 5), &rich(0), 0).unwrap().transaction.hash();
    let stale = pool.add(transaction(2, 0, 5, 5), &rich(0), 0).unwrap().transaction.hash();
    pool.add(transaction(1, 1, 5, 5), &rich(0), 0).unwrap();
    pool.committed(7, [mine, B256::ZERO], [(sender(1), 1), (sender(2), 3)], CONDITIONS);
    assert_eq!(pool.fate(&mine), Some(&Fate::Committed { block: 7 }));
    assert_eq!(pool.fate(&stale), Some(&Fate::NonceUsed { block: 7 }));
    assert_eq!(nonces(&best(&pool, 0, usize::MAX)), [(1, 1)]);
    assert_eq!(pool.next_nonce(&sender(1)), Some(2));
}

#[derive(Clone, Debug)]
enum Act {
    Add { from: u8, nonce: u64, fee: u128 },
    Commit { take: usize },
    Skip { from: u8, nonce: u64 },
    Expire,
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        6 => (1..6_u8, 0..12_u64, 0..6_u128).prop_map(|(from, nonce, fee)| Act::Add { from, nonce, fee }),
        2 => (0..6_usize).prop_map(|take| Act::Commit { take }),
        1 => (1..6_u8, 0..12_u64).prop_map(|(from, nonce)| Act::Skip { from, nonce }),
        1 => Just(Act::Expire),
    ]
}

proptest! {
    /// Whatever happens: accepted transactions are here or have a fate, counts and bytes add up, blocks get nonces in
    /// order without a gap, and limits hold.
    #[test]
    fn what_was_accepted_is_here_or_has_a_fate(acts in prop::collection::vec(act(), 1..120)) {
        let limits = Limits { transactions: 12, sender: 6, gapped: 3, dormant: 4, gap_ms: 5, ..Limits::default() };
        let mut pool = pool(limits);
        let mut state = [0_u64; 8];
        let mut accepted = Vec::new();
        for (now, act) in acts.into_iter().enumerate() {
            let now = now as u64;
            match act {
                Act::Add { from, nonce, fee } => {
                    let account = rich(state[usize::from(from)]);
                    if let Ok(added) = pool.add(transaction(from, nonce, fee, fee), &account, now) {
                        accepted.push(added.transaction.hash());
                    }
                }
                Act::Commit { take } => {
                    let block = best(&pool, 0, take);
                    let mut changed = Vec::new();
                    for pooled in &block {
                        let from = pooled.transaction().sender();
                        prop_assert_eq!(pooled.transaction().nonce(), state[usize::from(from[0])]);
                        state[usize::from(from[0])] += 1;
                        changed.push((from, state[usize::from(from[0])]));
                    }
                    pool.committed(now, block.iter().map(|pooled| pooled.hash()), changed, CONDITIONS);
                }
                Act::Skip { from, nonce } => {
                    let next = &mut state[usize::from(from)];
                    *next = nonce.max(*next);
                    pool.committed(now, [], [(sender(from), *next)], CONDITIONS);
                }
                Act::Expire => {
                    pool.expire(now);
                }
            }
            prop_assert!(pool.len() <= limits.transactions);
            prop_assert_eq!(pool.status().0 + pool.status().1, pool.len());
            let listed: Vec<_> = pool.senders().flat_map(|from| { let (a, b) = pool.of(&from); [a, b].concat() }).collect();
            prop_assert_eq!(listed.len(), pool.len());
            prop_assert_eq!(listed.iter().map(|pooled| pooled.bytes).sum::<usize>(), pool.bytes());
            prop_assert_eq!(pool.weakest.len(), pool.senders().count());
            prop_assert!(pool.dormant() <= limits.dormant, "{}", pool.dormant());
            prop_assert_eq!(pool.status().1, pool.dormant());
            for hash in &accepted {
                prop_assert!(pool.get(hash).is_some() != pool.fate(hash).is_some());
            }
        }
    }
}

#[test]
fn what_names_no_chain_is_refused_unless_the_operator_allows_it() {
    let unprotected = || {
        let body = alloy_consensus::TxLegacy { gas_limit: 21_000, ..Default::default() };
        let signed = body.into_signed(Signature::new(U256::from(1), U256::from(1), false));
        Recovered::new_unchecked(Transaction::from(signed), sender(1))
    };
    let refused = pool(Limits::default()).add(unprotected(), &rich(0), 0).unwrap_err();
    assert_eq!(refused, Refusal::Unprotected);
    let limits = Limits { replay_protection: false, ..Limits::default() };
    pool(limits).add(unprotected(), &rich(0), 0).unwrap();
}

#[test]
fn what_no_block_could_follow_is_refused_for_a_while_and_then_tried_again() {
    let mut pool = pool(Limits { unfit_ms: 100, ..Limits::default() });
    let unfit = || transaction(1, 0, 1, 1);
    pool.add(unfit(), &rich(0), 0).unwrap();
    let reason = "it names nobody".to_owned();
    pool.remove(&unfit().hash(), Fate::NoValidators { reason: reason.clone(), at_ms: 10 });
    let refused = pool.add(unfit(), &rich(0), 60).unwrap_err();
    assert_eq!(refused, Refusal::NoValidators { reason, again_ms: 50 });
    pool.add(unfit(), &rich(0), 110).unwrap();
}

#[test]
fn strangers_gapped_transactions_leave_room_for_everybody() {
    let limits = Limits { transactions: 1_000, gapped: 50, dormant: 200, ..Limits::default() };
    let mut pool = pool(limits);
    let mut refused = 0;
    for from in 1..=100 {
        for nonce in 1..=50 {
            refused += usize::from(pool.add(transaction(from, nonce, 0, 0), &rich(0), 0).is_err());
        }
    }
    assert_eq!((pool.len(), pool.dormant()), (200, 200));
    assert!(refused > 0);
    // Who waits for one nonce finds a place, and whoever waits for none as many as there are.
    let waiting = pool.add(transaction(200, 1, 0, 0), &rich(0), 0).unwrap().transaction.hash();
    for from in 101..=180 {
        for nonce in 0..10 {
            pool.add(transaction(from, nonce, 0, 0), &rich(0), 0).unwrap();
        }
    }
    assert_eq!(pool.len(), 1_000);
    assert!(pool.get(&waiting).is_some(), "those go first that have most");
    // Those who pay nothing push out what is dormant, as soon as there is no other room, and nothing else.
    for nonce in 10..209 {
        pool.add(transaction(180, nonce, 0, 0), &rich(0), 0).unwrap();
    }
    assert_eq!((pool.len(), pool.dormant()), (1_000, 1));
    pool.add(transaction(181, 0, 0, 0), &rich(0), 0).unwrap();
    assert!(matches!(pool.fate(&waiting), Some(Fate::GaveWay { .. })));
    assert!(matches!(pool.add(transaction(182, 0, 0, 0), &rich(0), 0), Err(Refusal::Full { .. })));
}

#[test]
fn nobody_has_more_waiting_than_it_can_pay_for() {
    let mut pool = pool(Limits::default());
    let account = |balance: u64| Account { balance: U256::from(balance), ..Account::default() };
    // Each takes 21,000 wei and the value of 1.
    pool.add(transaction(1, 0, 1, 1), &account(50_000), 0).unwrap();
    pool.add(transaction(1, 1, 1, 1), &account(50_000), 0).unwrap();
    let refused = pool.add(transaction(1, 2, 1, 1), &account(50_000), 0).unwrap_err();
    assert!(matches!(refused, Refusal::Overdraft { .. }), "{refused}");
    // The money goes elsewhere: what waits is dormant, and goes in its time.
    assert_eq!(pool.dormant(), 0);
    pool.fund([(sender(1), U256::from(20_000))]);
    assert_eq!(pool.dormant(), 2);
    pool.fund([(sender(1), U256::from(50_000))]);
    assert_eq!((pool.dormant(), pool.expire(u64::MAX)), (0, 0));
    pool.fund([(sender(1), U256::ZERO)]);
    assert_eq!((pool.expire(u64::MAX), pool.len()), (2, 0));
}
