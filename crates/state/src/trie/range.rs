//! Whether a run of entries is all that a trie has between two keys.

use alloy_primitives::{B256, Bytes};

use super::{MemoryTrie, ProofError};

/// Checks that `entries` are all entries of the trie `root` from `start` to the last of them, or to the
/// end of the trie if there are none. `proof` has the nodes on the way to `start` and to the last entry;
/// without nodes the entries must be the whole trie. Returns whether the trie has more behind them.
///
/// # Errors
/// [`ProofError`] says what does not fit; such a range comes from a peer that lies or is broken.
pub(crate) fn verify_range(
    root: B256,
    start: B256,
    entries: &[(B256, Vec<u8>)],
    proof: &[Bytes],
) -> Result<bool, ProofError> {
    let mut lowest = start;
    for (position, (key, value)) in entries.iter().enumerate() {
        let in_order = if position == 0 { *key >= lowest } else { *key > lowest };
        if !in_order || value.is_empty() {
            return Err(ProofError::BadEntry { position });
        }
        lowest = *key;
    }
    let mut trie = if proof.is_empty() { MemoryTrie::new() } else { MemoryTrie::from_proof(root, proof)? };
    let more = match entries.last() {
        None => trie.has_above(start.as_slice())? || trie.get(start.as_slice())?.is_some(),
        Some((last, _)) => {
            if !proof.is_empty() {
                trie.clear_range(start.as_slice(), last.as_slice())?;
            }
            for (key, value) in entries {
                trie.insert(key.as_slice(), value)?;
            }
            trie.has_above(last.as_slice())?
        }
    };
    let found = trie.root();
    if found != root {
        return Err(ProofError::WrongRoot { expected: root, found });
    }
    if entries.is_empty() && more {
        // There are entries from `start` on, but none was given.
        return Err(ProofError::BadEntry { position: 0 });
    }
    Ok(more)
}
