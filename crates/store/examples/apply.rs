//! How long a batch of payments takes to write: `apply [sqlite|postgres] [payments in a batch]`.

mod support;

use std::time::{Duration, Instant};
use support::{hash, name, payment, processor_us};
use tally_contracts::{StateRef, Timestamp, TransactionId};
use tally_store::{NewFlow, Store, Write};

const BATCHES: u64 = 300;

/// What a node writes for one payment, as its flow, its messages and its ledger see it.
fn writes(number: u64, writes: &mut Vec<Write>) {
    let id = |what, number| <[u8; 16]>::try_from(&hash(what, number)[..16]).expect("16 bytes");
    let (flow, at) = (id("flow", number), Timestamp::from_millis(number / 2));
    let (peer, notary) = (name("PartyB"), name("Notary"));
    let coin =
        |number| StateRef { transaction: TransactionId::from_bytes(hash("payment", number)), index: 1 };
    // The flow of the payment before this one goes on and ends, as flows do that wait for an answer.
    let before = id("flow", number.wrapping_sub(1));
    writes.push(Write::FlowStarted(NewFlow {
        flow,
        name: "tally.cash.Pay".to_owned(),
        version: 1,
        arguments: vec![1; 120],
        origin: vec![2; 20],
        seed: hash("seed", number),
        at,
    }));
    writes.push(Write::Steps { flow, unit: 0, entries: vec![3; 500] });
    writes.push(Write::Lock { flow, states: vec![coin(number - 1)] });
    writes.push(Write::Send { peer: peer.clone(), number, message: vec![4; 1300] });
    writes.push(Write::Send { peer: notary, number, message: vec![4; 600] });
    if number > 1 {
        writes.push(Write::Acknowledged { peer: peer.clone(), up_to: number - 1 });
        writes.push(Write::Received { peer, queue: [1; 16], up_to: number - 1 });
        writes.push(Write::Arrival { flow: before, session: [6; 16], number: 0, message: vec![5; 300] });
        writes.push(Write::Steps { flow: before, unit: 1, entries: vec![3; 300] });
        writes.push(Write::FlowEnded { flow: before, outcome: vec![9; 60], at });
    }
    let transaction = TransactionId::from_bytes(hash("payment", number));
    writes.push(payment(
        transaction,
        number / 2,
        [1, 2],
        "USD@O=Bank, L=London, C=GB",
        Some(coin(number - 1)),
    ));
}

fn measure(kind: &str, store: &dyn Store, payments: u64) {
    let mut times: Vec<Duration> = Vec::new();
    let mut processor = 0.0;
    let mut number = 0;
    for _ in 0..BATCHES {
        let mut batch = Vec::new();
        for _ in 0..payments {
            number += 1;
            writes(number, &mut batch);
        }
        // Flows of a batch mostly go on in the next.
        batch.rotate_left(5);
        let (start, before) = (Instant::now(), processor_us());
        store.apply(&batch).expect("it applies");
        times.push(start.elapsed());
        processor += processor_us() - before;
    }
    let total: Duration = times.iter().sum();
    times.sort();
    let micros = |time: Duration| time.as_secs_f64() * 1e6 / payments as f64;
    println!(
        "{kind}: {payments} payments in a batch: {:.1} us for each (processor time {:.1}), median {:.1}, p99 {:.1}, \
         {} payments in all",
        micros(total) / BATCHES as f64,
        processor / number as f64,
        micros(times[times.len() / 2]),
        micros(times[times.len() * 99 / 100]),
        number,
    );
}

fn main() {
    let payments = std::env::args().nth(2).map_or(100, |text| text.parse().expect("a number"));
    support::each(|kind, store| measure(kind, &*store, payments));
}
