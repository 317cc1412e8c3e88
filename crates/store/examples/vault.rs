//! How long pages of a vault of a million states take: `vault [sqlite|postgres] [states]`.

mod support;

use std::time::{Duration, Instant};
use support::{hash, key, payment, processor_us};
use tally_contracts::{StateRef, Timestamp, TransactionId};
use tally_store::{Sort, StateQuery, Status, Store};

const PAGES: usize = 300;

fn fill(store: &dyn Store, states: u64) {
    let id = |number| TransactionId::from_bytes(hash("payment", number));
    let mut batch = Vec::new();
    for number in 0..states / 2 {
        // Every tenth state is consumed; owners and assets are a few and many.
        let input = (number % 5 == 4).then(|| StateRef { transaction: id(number - 4), index: 0 });
        let asset = format!(
            "USD@O=Bank{}, L=London, C=GB",
            if number % 1000 == 0 { 1 + number / 1000 % 40 } else { 0 }
        );
        batch.push(payment(id(number), number, [1, number % 50], &asset, input));
        if batch.len() == 2000 {
            store.apply(&batch).expect("it applies");
            batch.clear();
        }
    }
    store.apply(&batch).expect("it applies");
}

fn measure(kind: &str, store: &dyn Store, states: u64) {
    let start = Instant::now();
    fill(store, states);
    println!("{kind}: {states} states recorded in {:.1} s", start.elapsed().as_secs_f64());
    let usd = || Some("USD@O=Bank0, L=London, C=GB".to_owned());
    let all = StateQuery::default;
    let middle = Some(Timestamp::from_millis(states / 4));
    let queries = [
        ("all", all()),
        ("newest first", StateQuery { descending: true, ..all() }),
        ("consumed", StateQuery { status: Status::Consumed, ..all() }),
        ("asset", StateQuery { asset: usd(), ..all() }),
        ("rare asset", StateQuery { asset: Some("USD@O=Bank7, L=London, C=GB".to_owned()), ..all() }),
        ("asset and owner", StateQuery { asset: usd(), owner: Some(key(1)), ..all() }),
        ("owner", StateQuery { owner: Some(key(17)), ..all() }),
        ("participant, all", StateQuery { participant: Some(key(17)), status: Status::All, ..all() }),
        ("kind", StateQuery { kind: Some("cash".to_owned()), ..all() }),
        ("no such kind", StateQuery { kind: Some("iou".to_owned()), ..all() }),
        ("quantity range", StateQuery { quantity_from: Some(1090), quantity_to: Some(1095), ..all() }),
        ("no such quantity", StateQuery { quantity_from: Some(5000), ..all() }),
        ("by quantity", StateQuery { sort: Sort::Quantity, ..all() }),
        ("largest of an asset", StateQuery { sort: Sort::Quantity, descending: true, asset: usd(), ..all() }),
        ("from the middle", StateQuery { recorded_from: middle, ..all() }),
        ("rare and unindexed", StateQuery { owner: Some(key(17)), quantity_to: Some(101), ..all() }),
    ];
    for (what, query) in queries {
        let mut query = StateQuery { page_size: 100, ..query };
        let (mut times, mut found): (Vec<Duration>, usize) = (Vec::new(), 0);
        let mut processor = Vec::new();
        while times.len() < PAGES {
            let (start, before) = (Instant::now(), processor_us());
            let page = store.states(&query).expect("a page");
            times.push(start.elapsed());
            processor.push((processor_us() - before) / 1e3);
            found += page.states.len();
            query.cursor = page.next;
        }
        times.sort();
        processor.sort_by(f64::total_cmp);
        let ms = |index: usize| times[index].as_secs_f64() * 1e3;
        println!(
            "{kind}: {what:>20}: p50 {:6.2} ms  p99 {:6.2} ms (processor time {:6.2})  {:5.1} states a page",
            ms(PAGES / 2),
            ms(PAGES * 99 / 100),
            processor[PAGES * 99 / 100],
            found as f64 / PAGES as f64
        );
    }
    let (mut after, mut times) = (None, Vec::new());
    for _ in 0..PAGES {
        let start = Instant::now();
        let coins = store.coins(&usd().expect("an asset"), &key(1), after, 20).expect("coins");
        times.push(start.elapsed());
        after = coins.last().map(|coin| coin.cursor);
    }
    times.sort();
    println!(
        "{kind}: {:>20}: p50 {:6.3} ms  p99 {:6.3} ms",
        "20 coins",
        times[PAGES / 2].as_secs_f64() * 1e3,
        times[PAGES * 99 / 100].as_secs_f64() * 1e3
    );
}

fn main() {
    let states = std::env::args().nth(2).map_or(1_000_000, |text| text.parse().expect("a number"));
    support::each(|kind, store| measure(kind, &*store, states));
}
