//! Roots of lists.

use std::borrow::Borrow;

use alloy_primitives::B256;

use super::EMPTY_ROOT;
use super::hashing::Messages;
use super::node::{Reference, encode_branch, encode_extension};
use super::path::{KEY_NIBBLES, Path, common, hex_prefix, nibble};
use super::rlp;

/// The root of the trie that maps the RLP of each item's position to the item: transactions, receipts
/// and withdrawals of a block, each encoded as it stands there (EIP-2718).
pub fn ordered_root<T: Borrow<[u8]>>(items: &[T]) -> B256 {
    let mut keys: Vec<Key> = (0..items.len()).map(Key::new).collect();
    // As bytes: 1..=127, then 0, then the longer ones.
    keys.sort_unstable_by_key(|key| key.bytes);
    let Some(last) = keys.len().checked_sub(1) else { return EMPTY_ROOT };

    // Where a leaf hangs is known from its neighbours, so all leaves can be hashed at once.
    let depths: Vec<usize> = (0..keys.len())
        .map(|at| {
            let before = at.checked_sub(1).map(|before| common(&keys[before].bytes, &keys[at].bytes, 0));
            let after = (at < last).then(|| common(&keys[at].bytes, &keys[at + 1].bytes, 0));
            before.max(after).map_or(0, |shared| shared + 1)
        })
        .collect();
    let mut messages = Messages::default();
    let mut leaves: Vec<Result<usize, Reference>> = Vec::with_capacity(keys.len());
    let mut prefix = Vec::new();
    for (key, depth) in keys.iter().zip(&depths) {
        let value: &[u8] = items[key.position].borrow();
        prefix.clear();
        hex_prefix(&key.bytes, *depth, key.nibbles, true, &mut prefix);
        let start = messages.start();
        rlp::list_header(rlp::string_length(&prefix) + rlp::string_length(value), &mut messages.bytes);
        rlp::string(&prefix, &mut messages.bytes);
        rlp::string(value, &mut messages.bytes);
        if messages.bytes.len() - start < 32 && keys.len() > 1 {
            leaves.push(Err(Reference::of(&messages.bytes[start..])));
            messages.bytes.truncate(start);
        } else {
            leaves.push(Ok(messages.end()));
        }
    }
    let hashes = messages.hash();
    let leaves: Vec<Reference> = leaves
        .into_iter()
        .map(|leaf| leaf.map_or_else(|short| short, |number| Reference::hash(hashes[number])))
        .collect();
    let root = node(&keys, &leaves, 0);
    root.as_hash().unwrap_or_else(|| alloy_primitives::keccak256(root.as_slice()))
}

/// The RLP of a position, zeros behind it. No such key begins another.
struct Key {
    bytes: B256,
    nibbles: usize,
    position: usize,
}

impl Key {
    fn new(position: usize) -> Self {
        let digits = position.to_be_bytes();
        let mut encoded = Vec::with_capacity(9);
        rlp::string(crate::flat::trim(&digits), &mut encoded);
        Self { bytes: B256::right_padding_from(&encoded), nibbles: encoded.len() * 2, position }
    }
}

fn node(keys: &[Key], leaves: &[Reference], depth: usize) -> Reference {
    if let [leaf] = leaves {
        return *leaf;
    }
    let fork = common(&keys[0].bytes, &keys[keys.len() - 1].bytes, depth);
    debug_assert!(fork < KEY_NIBBLES);
    let mut children = [None; 16];
    let mut start = 0;
    for group in keys.chunk_by(|a, b| nibble(&a.bytes, fork) == nibble(&b.bytes, fork)) {
        let end = start + group.len();
        let at = usize::from(nibble(&group[0].bytes, fork));
        children[at] = Some(node(group, &leaves[start..end], fork + 1));
        start = end;
    }
    let mut encoding = Vec::with_capacity(532);
    encode_branch(
        &children.each_ref().map(|child: &Option<Reference>| child.as_ref().map(Reference::as_slice)),
        &mut encoding,
    );
    let branch = Reference::of(&encoding);
    if fork == depth {
        return branch;
    }
    encoding.clear();
    encode_extension(&Path::of(&keys[0].bytes, depth, fork), &branch, &mut encoding);
    Reference::of(&encoding)
}
