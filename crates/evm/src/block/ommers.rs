//! Which ommers a block of work may list.

use std::collections::HashSet;

use alloy_consensus::Header;
use alloy_primitives::B256;

use super::{BlockError, Sealing, validate_header};
use crate::schedule::Schedule;

const MOST: usize = 2;
/// Generations of ancestors whose children may be ommers.
const REACH: usize = 7;

/// An ancestor of the block whose ommers are checked.
#[derive(Clone, Debug)]
pub struct Ancestor {
    /// Its hash.
    pub hash: B256,
    /// Its header.
    pub header: Header,
    /// Hashes of the ommers that it lists.
    pub ommers: Vec<B256>,
}

/// Checks the ommers of a block.
///
/// `ancestors` are its parent, that one's parent and so on; seven are enough, fewer when the chain is
/// shorter. A block without ommers needs none.
///
/// # Errors
/// The first ommer that may not be listed.
pub fn validate_ommers(
    schedule: &Schedule,
    ommers: &[Header],
    ancestors: &[Ancestor],
) -> Result<(), BlockError> {
    if ommers.len() > MOST {
        return Err(BlockError::TooManyOmmers(ommers.len()));
    }
    if ommers.is_empty() {
        return Ok(());
    }
    let ancestors = &ancestors[..ancestors.len().min(REACH)];
    let mut listed: HashSet<B256> = HashSet::new();
    for ommer in ommers {
        let hash = ommer.hash_slow();
        if !listed.insert(hash) {
            return Err(BlockError::OmmerTwice(hash));
        }
        if ancestors.iter().any(|ancestor| ancestor.hash == hash) {
            return Err(BlockError::OmmerAncestor(hash));
        }
        if ancestors.iter().any(|ancestor| ancestor.ommers.contains(&hash)) {
            return Err(BlockError::OmmerKnown(hash));
        }
        if ancestors.first().is_some_and(|parent| parent.hash == ommer.parent_hash) {
            return Err(BlockError::OmmerSibling(hash));
        }
        let parent = ancestors
            .iter()
            .skip(1)
            .find(|ancestor| ancestor.hash == ommer.parent_hash)
            .ok_or(BlockError::OmmerParent(hash))?;
        let sealing = Sealing::Ethereum { parent_total_difficulty: None };
        validate_header(schedule, ommer, &parent.header, parent.hash, &sealing)
            .map_err(|error| BlockError::Ommer(Box::new(error)))?;
    }
    Ok(())
}
