use super::account::account;
use super::observe::{Observed, Seen, Spread};
use super::prepare::prepare;
use super::send::{Sent, general};
use super::*;
use crate::chain::network::{CHAIN_ID, Consensus, GAS_LIMIT, Program};
use tally_ops::shutdown::Shutdown;

fn plan() -> Plan {
    Plan {
        layout: Layout {
            validators: 4,
            followers: 1,
            consensus: Consensus::Qbft,
            period: Duration::from_secs(2),
            gas_limit: GAS_LIMIT,
            timestamp: 1,
            connections: 4,
            directory: "nowhere".into(),
            program: Program { file: "nothing".into(), before: Vec::new() },
            stop: Shutdown::new(),
        },
        rate_tps: 30,
        warm_up: Duration::from_millis(500),
        duration: Duration::from_secs(1),
        patience: Duration::from_secs(1),
        accounts: 7,
        connections: 4,
        seed: 1,
    }
}

#[test]
fn calls_are_signed_in_the_order_of_their_nonces() {
    let plan = plan();
    let calls = prepare(&plan);
    assert_eq!((plan.total(), calls.calls.len(), calls.numbers.len()), (45, 45, 45));
    for (number, call) in (0_u64..).zip(&calls.calls) {
        let transaction = tally_evm::transaction::decode(&call.encoded).unwrap();
        use alloy_consensus::Transaction as _;
        assert_eq!((transaction.nonce(), transaction.chain_id()), (number / 7, Some(CHAIN_ID)));
        let sender = tally_evm::recover(transaction).unwrap().sender();
        assert_eq!(sender, crate::chain::registry::Account::new(1, number % 7).address());
        assert_eq!(u64::from(calls.numbers[&call.hash]), number);
    }
    assert_eq!(plan.due(30), Duration::from_secs(1));
    // Another seed makes other calls.
    assert_ne!(prepare(&Plan { seed: 2, ..plan }).calls[0], calls.calls[0]);
}

#[test]
fn every_transaction_is_in_one_place() {
    let committed = [true, true, false, false, false, false, false];
    // Number 1 is in a block though its sender was told no.
    let refused = vec![(1, "known".to_owned()), (2, "full".to_owned())];
    let sent = Sent { refused, withheld: vec![3], ..Sent::default() };
    let found = account(&committed, &sent, |number| {
        Ok(match number {
            4 => Some("waiting".to_owned()),
            5 => Some("a block (17) holds another with its nonce".to_owned()),
            6 => None,
            _ => panic!("{number} was asked for"),
        })
    });
    let found = found.unwrap();
    assert_eq!((found.offered, found.committed, found.withheld), (7, 2, 1));
    assert_eq!((found.refusals(), found.waiting, found.drops(), found.lost), (1, 1, 1, 1));
    assert_eq!(found.accepted(), 5);
    assert_eq!(found.dropped.keys().next().unwrap(), "a block (…) holds another with its nonce");
    assert_eq!(general("nonce 12 of 0xab: too far"), "nonce … of …: too far");
}

fn seen(number: u64, at_ms: u64, calls: u64) -> Seen {
    let (timestamp, gas_used) = (at_ms / 1000, calls * 50);
    Seen { number, at: Duration::from_millis(at_ms), timestamp, calls, gas_used, gas_limit: 1000 }
}

#[test]
fn rates_are_of_whole_blocks() {
    let blocks = [(0, 0), (2000, 4), (4000, 8), (6100, 8), (8000, 8), (10_000, 2), (12_000, 0)]
        .map(|(at, calls)| seen(at, at, calls));
    let observed = Observed { blocks: blocks.to_vec(), ..Observed::default() };
    assert_eq!((observed.committed(), observed.rate()), (30, 3.0));
    // Blocks at 4, 6.1 and 8 seconds: 16 calls in 4 seconds.
    let (from, until) = (Duration::from_secs(3), Duration::from_secs(9));
    assert_eq!(observed.steady_rate(from, until), Some(4.0));
    assert_eq!(observed.steady_rate(until, until), None);
    let intervals = observed.intervals(Duration::from_secs(2), Duration::from_secs(10));
    assert_eq!(intervals.timestamps, [2.0, 2.0, 2.0, 2.0]);
    let spread = Spread::of(&intervals.arrivals).unwrap();
    assert!((spread.min - 1.9).abs() < 1e-9 && (spread.max - 2.1).abs() < 1e-9, "{spread:?}");
    assert_eq!(observed.intervals(from, until).timestamps, [2.0, 2.0]);
    assert_eq!((observed.gas_shares().len(), observed.gas_each()), (5, 50.0));
    assert_eq!((Observed::default().rate(), Spread::of(&[])), (0.0, None));
    assert_eq!(Observed::default().intervals(from, until).arrivals, Vec::<f64>::new());
}

#[test]
fn the_limit_is_a_recovery_on_every_node() {
    let (recovery_s, samples) = limit::recovery(&prepare(&plan()).calls).unwrap();
    assert!(recovery_s > 1e-6 && recovery_s < 1e-2 && !samples.is_empty(), "{recovery_s}");
    let ceiling = limit::ceiling(50e-6, 5, 2);
    assert!((ceiling.rate - 8_000.0).abs() < 1e-6, "{ceiling:?}");
    assert!(
        ceiling.name.contains("5 key recoveries") && ceiling.name.contains("50.0 µs"),
        "{}",
        ceiling.name
    );
}
