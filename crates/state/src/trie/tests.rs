use alloy_primitives::{B256, Bytes, keccak256};
use proptest::prelude::*;

use super::memory::MemoryTrie;
use super::range::verify_range;
use super::{EMPTY_ROOT, ProofError, ordered_root};

#[test]
fn lists() {
    assert_eq!(ordered_root::<Vec<u8>>(&[]), EMPTY_ROOT);
    for length in [1, 2, 3, 16, 17, 127, 128, 129, 130, 255, 256, 257, 300, 1000] {
        for size in [1, 20, 40, 300] {
            let items: Vec<Vec<u8>> =
                (0..length).map(|at: u32| at.to_be_bytes().repeat(size)[3..3 + size].to_vec()).collect();
            let mut trie = MemoryTrie::new();
            for (at, item) in items.iter().enumerate() {
                let item = if item.is_empty() { vec![0] } else { item.clone() };
                trie.insert(&alloy_rlp::encode(at as u64), &item).unwrap();
            }
            assert_eq!(ordered_root(&items), trie.root(), "{length} items of {size}");
        }
    }
}

fn keyed(keys: &[u16]) -> (MemoryTrie, Vec<(B256, Vec<u8>)>) {
    let mut entries: Vec<(B256, Vec<u8>)> =
        keys.iter().map(|key| (keccak256(key.to_be_bytes()), key.to_be_bytes().repeat(20))).collect();
    entries.sort();
    entries.dedup();
    let mut trie = MemoryTrie::new();
    for (key, value) in &entries {
        trie.insert(key.as_slice(), value).unwrap();
    }
    (trie, entries)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_trie_is_a_map_whose_root_forgets_its_past(
        steps in proptest::collection::vec(
            (proptest::collection::vec(0..4u8, 0..4), proptest::collection::vec(any::<u8>(), 0..40)), 0..60)
    ) {
        let mut trie = MemoryTrie::new();
        let mut model = std::collections::BTreeMap::new();
        for (key, value) in &steps {
            trie.insert(key, value).unwrap();
            if value.is_empty() { model.remove(key); } else { model.insert(key.clone(), value.clone()); }
        }
        let mut fresh = MemoryTrie::new();
        for (key, value) in model.iter().rev() {
            fresh.insert(key, value).unwrap();
        }
        assert_eq!(trie, fresh);
        assert_eq!(trie.entries(), model.clone().into_iter().collect::<Vec<_>>());
        for (key, _) in &steps {
            assert_eq!(trie.get(key).unwrap(), model.get(key).map(|value| &value[..]));
            let shown = MemoryTrie::from_proof(trie.root(), &trie.proof(key)).unwrap();
            assert_eq!(shown.root(), trie.root());
            assert_eq!(shown.get(key).unwrap(), model.get(key).map(|value| &value[..]));
        }
    }

    #[test]
    fn ranges_are_proved_by_their_ends(
        keys in proptest::collection::vec(any::<u16>(), 1..60),
        first in any::<prop::sample::Index>(),
        count in 1..20usize,
        before in any::<bool>(),
        harm in any::<prop::sample::Index>(),
    ) {
        let (trie, entries) = keyed(&keys);
        let root = trie.root();
        let first = first.index(entries.len());
        let last = (first + count).min(entries.len()) - 1;
        let range = &entries[first..=last];
        let start = if before { lower(range[0].0, first.checked_sub(1).map(|at| entries[at].0)) } else { range[0].0 };
        let mut proof = trie.proof(start.as_slice());
        proof.extend(trie.proof(range[range.len() - 1].0.as_slice()));
        assert_eq!(verify_range(root, start, range, &proof), Ok(last + 1 < entries.len()));

        // Changed, missing and added entries are noticed.
        let at = harm.index(range.len());
        let mut changed = range.to_vec();
        changed[at].1.push(1);
        verify_range(root, start, &changed, &proof).unwrap_err();
        if at + 1 < range.len() {
            let mut missing = range.to_vec();
            missing.remove(at);
            verify_range(root, start, &missing, &proof).unwrap_err();
        }
        let mut added = range.to_vec();
        let extra = lower(range[at].0, at.checked_sub(1).map(|at| range[at].0).or(Some(start)));
        if extra > start && extra < range[at].0 {
            added.insert(at, (extra, vec![7; 40]));
            verify_range(root, start, &added, &proof).unwrap_err();
        }
        // An end that is not proved is an error, not a panic.
        for without in 0..proof.len() {
            let mut fewer = proof.clone();
            let removed = fewer.remove(without);
            if !fewer.contains(&removed) {
                verify_range(root, start, range, &fewer).unwrap_err();
            }
        }
        // The whole needs no nodes; nothing behind the end is proved as well.
        assert_eq!(verify_range(root, B256::ZERO, &entries, &[]), Ok(false));
        let behind = B256::repeat_byte(0xff);
        assert_eq!(verify_range(root, behind, &[], &trie.proof(behind.as_slice())), Ok(false));
        if first > 0 {
            assert!(verify_range(root, entries[first].0, &[], &trie.proof(entries[first].0.as_slice())).is_err());
        }
    }

    #[test]
    fn no_bytes_make_a_proof_panic(nodes in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..80), 1..4)) {
        let root = keccak256(&nodes[0]);
        let nodes: Vec<Bytes> = nodes.into_iter().map(Into::into).collect();
        if let Ok(trie) = MemoryTrie::from_proof(root, &nodes) {
            let _ = trie.get(&[1, 2]);
            let _ = verify_range(root, B256::ZERO, &[(B256::repeat_byte(1), vec![1])], &nodes);
        }
    }
}

/// A key close below `key`, and above `floor`.
fn lower(key: B256, floor: Option<B256>) -> B256 {
    let below = B256::from(alloy_primitives::U256::from_be_bytes(key.0) - alloy_primitives::U256::ONE);
    if floor.is_some_and(|floor| below <= floor) { key } else { below }
}

#[test]
fn a_few_nodes_that_name_each_other_do_not_fill_the_memory() {
    // Each level is a branch whose sixteen children are the level below.
    let mut nodes: Vec<Bytes> = Vec::new();
    let mut below = keccak256([0xc0]);
    for _ in 0..20 {
        let mut node = Vec::new();
        for _ in 0..16 {
            super::rlp::string(below.as_slice(), &mut node);
        }
        super::rlp::string(&[], &mut node);
        super::rlp::wrap_list(0, &mut node);
        below = keccak256(&node);
        nodes.push(node.into());
    }
    assert!(matches!(MemoryTrie::from_proof(below, &nodes), Err(ProofError::Malformed { .. })));
}

#[test]
fn hashes_at_once_are_the_hashes_one_by_one() {
    let mut messages = super::hashing::Messages::default();
    let mut expected = Vec::new();
    for length in (0..700).chain([5, 5, 5, 5, 5, 5, 5, 5, 5, 136, 272, 2000, 135, 137]) {
        let message: Vec<u8> = (0..length).map(|at: u32| (at.wrapping_mul(31) ^ length) as u8).collect();
        messages.bytes.extend_from_slice(&message);
        messages.end();
        expected.push(keccak256(&message));
    }
    assert_eq!(messages.hash(), expected);
}
