use super::*;
use crate::message::{DecisionBatch, sequence_leaf};
use crate::stage::Sequencer;
use proptest::prelude::*;
use tally_crypto::log::leaf_hash;
use tally_crypto::log::{
    Frontier, MerkleLog, SignedTreeHead, TreeHead, verify_consistency, verify_inclusion,
};
use tally_crypto::merkle;

fn decisions() -> impl Strategy<Value = Vec<(u64, Vec<(u32, u16)>)>> {
    let verdict = prop_oneof![3 => Just(0u16), 1 => Just(24u16)];
    prop::collection::vec((0u64..50, prop::collection::vec((0u32..9, verdict), 1..9)), 1..12)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn every_decision_has_its_place_and_its_proof(batches in decisions(), back: bool) {
        let mut sequencer = Sequencer::new(NETWORK, key(0), 100, Frontier::new(), NOW);
        let mut log = MerkleLog::new();
        let (mut next, mut clock) = (100, NOW);
        let mut heads: Vec<SignedTreeHead> = Vec::new();
        for (number, (wait, decided)) in (0u64..).zip(batches) {
            let now = if back { Timestamp(NOW.0 - wait) } else { clock.plus_ms(wait) };
            clock = clock.max(now);
            let source = Source::new(1, number);
            let ids: Vec<Hash> = decided.iter().map(|(index, _)| tally_crypto::hash(&index.to_le_bytes())).collect();
            let batch = sequencer.step(now, &DecisionBatch {
                source,
                indices: decided.iter().map(|(index, _)| *index).collect(),
                ids: ids.clone(),
                verdicts: decided.iter().map(|(_, verdict)| *verdict).collect(),
            });
            prop_assert_eq!((batch.first, batch.count as usize, batch.source), (next, decided.len(), source));
            prop_assert_eq!(batch.timestamp, clock, "time does not go back");
            prop_assert_eq!(batch.decisions().collect::<Vec<_>>(), decided.clone());
            let leaves: Vec<Hash> = (next..).zip(&ids).zip(&decided)
                .map(|((sequence, id), (_, verdict))| sequence_leaf(id, sequence, *verdict))
                .collect();
            for (at, leaf) in leaves.iter().enumerate() {
                let path = merkle::path(&leaves, at).unwrap();
                prop_assert!(merkle::verify_path(&batch.root, leaves.len() as u64, at as u64, leaf, &path).is_ok());
            }
            next += decided.len() as u64;
            log.append(&batch.leaf_data());
            let head = TreeHead { size: batch.tree_size, root: batch.tree_root, timestamp_ms: clock.0 };
            prop_assert_eq!((head.size, head.root), (log.len(), log.root()));
            let signed = SignedTreeHead { head, signature: batch.signature };
            prop_assert!(signed.verify(&NETWORK.0, &key(0).public_key()).is_ok());
            prop_assert!(signed.verify(&NETWORK.0, &key(1).public_key()).is_err());
            let proof = log.inclusion_proof(head.size - 1, head.size).unwrap();
            let leaf = leaf_hash(&batch.leaf_data());
            prop_assert!(verify_inclusion(&head.root, head.size, head.size - 1, &leaf, &proof).is_ok());
            for earlier in &heads {
                let proof = log.consistency_proof(earlier.head.size, head.size).unwrap();
                let (first, second) = (earlier.head, head);
                prop_assert!(verify_consistency(first.size, &first.root, second.size, &second.root, &proof).is_ok());
            }
            heads.push(signed);
        }
        prop_assert_eq!(sequencer.next(), next);
    }
}

#[test]
fn a_later_process_goes_on_with_the_same_log() {
    let one = |number: u64| DecisionBatch {
        source: Source::new(0, number),
        indices: vec![0],
        ids: vec![Hash::ZERO],
        verdicts: vec![0],
    };
    let mut whole = Sequencer::new(NETWORK, key(0), 0, Frontier::new(), Timestamp(0));
    let mut log = MerkleLog::new();
    for number in 0..5 {
        log.append(&whole.step(NOW, &one(number)).leaf_data());
    }
    let mut later = Sequencer::new(NETWORK, key(0), 5, log.frontier(), NOW);
    assert_eq!(later.step(Timestamp(0), &one(5)), whole.step(Timestamp(0), &one(5)));
}
