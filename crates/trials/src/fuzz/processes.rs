//! What shards over a cluster write and read.

use super::damage::damaged;
use super::messages::decode;
use super::small::Small;
use crate::processes::{records, run_damaged};
use std::collections::BTreeMap;
use std::sync::OnceLock;
use tally_settlement::message::IntakeBatch;
use tally_settlement::process::fuzz;
use tally_sim::Rng;

/// What a network wrote, by kind of topic.
fn samples(kind: &str) -> &'static [Vec<u8>] {
    static ALL: OnceLock<BTreeMap<String, Vec<Vec<u8>>>> = OnceLock::new();
    let found = ALL.get_or_init(|| records(4)).get(kind).map(Vec::as_slice);
    found.filter(|found| !found.is_empty()).expect("the network wrote to every kind of topic")
}

pub(super) fn intake(rng: &mut Rng, _: &Small) {
    decode::<IntakeBatch>(rng, samples("intake"));
}

pub(super) fn state(rng: &mut Rng, _: &Small) {
    let kinds = ["scheduler", "approver", "assembler", "sequencer"];
    let kind = kinds[rng.index(kinds.len())];
    let bytes = damaged(rng, samples(kind));
    if let Some(again) = fuzz::state(&bytes) {
        assert!(again == bytes, "read and written again, it is another");
    }
}

pub(super) fn finished(rng: &mut Rng, _: &Small) {
    let all = samples("assembler");
    let sample = fuzz::more(&all[rng.index(all.len())]).expect("an assembler wrote it");
    let bytes = damaged(rng, &[sample]);
    if let Some(again) = fuzz::finished(&bytes) {
        assert_eq!(fuzz::finished(&again).as_ref(), Some(&again), "what is written can be read");
    }
}

pub(super) fn piece(rng: &mut Rng, _: &Small) {
    let bytes = damaged(rng, samples("snapshots"));
    if let Some(again) = fuzz::piece(&bytes) {
        assert!(again == bytes, "read and written again, it is another");
    }
}

/// A network that runs, and one record of it that nobody can read.
pub(super) fn record(rng: &mut Rng, _: &Small) {
    let _ = run_damaged(rng.next_u64());
}
