//! Checking proofs without the log.

use super::{LogHash, empty_root, node_hash};
use crate::ProofError;
use crate::proof::climb;

/// Checks that the entry with hash `leaf` is number `index` of the log of `size` entries with this
/// `root` (RFC 9162 section 2.1.3.2).
///
/// # Errors
/// [`ProofError`] says whether the position, the length of the proof or the hashes are wrong.
pub fn verify_inclusion(
    root: &LogHash,
    size: u64,
    index: u64,
    leaf: &LogHash,
    proof: &[LogHash],
) -> Result<(), ProofError> {
    let implied = climb(size, index, leaf, proof, node_hash)?;
    if implied == *root { Ok(()) } else { Err(ProofError::Root) }
}

/// Checks that the log of `second` entries with `second_root` begins with the entries of the log of
/// `first` entries with `first_root` (RFC 9162 section 2.1.4.2).
///
/// Everything extends the empty log: for `first` 0 the proof is empty and `first_root` the
/// [`empty_root`].
///
/// # Errors
/// [`ProofError`] says whether the sizes, the length of the proof or the hashes are wrong.
pub fn verify_consistency(
    first: u64,
    first_root: &LogHash,
    second: u64,
    second_root: &LogHash,
    proof: &[LogHash],
) -> Result<(), ProofError> {
    if first > second {
        return Err(ProofError::Shrunk { first, second });
    }
    let expected = consistency_length(first, second);
    if proof.len() != expected {
        return Err(ProofError::Length { expected, got: proof.len() });
    }
    if first == second {
        return if first_root == second_root { Ok(()) } else { Err(ProofError::Root) };
    }
    if first == 0 {
        return if *first_root == empty_root() { Ok(()) } else { Err(ProofError::Root) };
    }
    // Start from the largest complete subtree that ends where the first tree ends; when that is
    // the whole first tree, its hash is the root and not part of the proof.
    let shift = first.trailing_zeros();
    let (mut position, mut last) = ((first - 1) >> shift, (second - 1) >> shift);
    let (start, rest) = match proof.split_first() {
        Some((start, rest)) if !first.is_power_of_two() => (start, rest),
        _ => (first_root, proof),
    };
    let (mut implied_first, mut implied_second) = (*start, *start);
    for sibling in rest {
        if position % 2 == 1 || position == last {
            implied_first = node_hash(sibling, &implied_first);
            implied_second = node_hash(sibling, &implied_second);
            while position % 2 == 0 && position > 0 {
                position /= 2;
                last /= 2;
            }
        } else {
            implied_second = node_hash(&implied_second, sibling);
        }
        position /= 2;
        last /= 2;
    }
    if last == 0 && implied_first == *first_root && implied_second == *second_root {
        Ok(())
    } else {
        Err(ProofError::Root)
    }
}

/// Hashes in the proof between the two sizes.
fn consistency_length(first: u64, second: u64) -> usize {
    if first == 0 || first == second {
        return 0;
    }
    let shift = first.trailing_zeros();
    let (mut position, mut last) = ((first - 1) >> shift, (second - 1) >> shift);
    let mut length = usize::from(!first.is_power_of_two());
    while last > 0 {
        length += usize::from(position % 2 == 1 || position < last);
        position /= 2;
        last /= 2;
    }
    length
}
