//! What was proposed and voted in a round.

use std::collections::BTreeMap;

use alloy_primitives::{Address, B256};

use crate::block::Block;
use crate::message::{Commit, Prepare, Signed};
use crate::seal::Seal;

/// A justified proposal.
#[derive(Clone, Debug)]
pub(super) struct Candidate {
    pub(super) block: Block,
    /// The proposer's signature.
    pub(super) seal: Seal,
    /// Whether the host found it valid and its time has come.
    pub(super) valid: bool,
    /// Whether its justification proves that a quorum was prepared on it in an earlier round.
    pub(super) prepared: bool,
}

impl Candidate {
    pub(super) fn waiting(block: Block, seal: Seal, prepared: bool) -> Self {
        Self { block, seal, valid: false, prepared }
    }

    pub(super) fn valid(block: Block, seal: Seal) -> Self {
        Self { block, seal, valid: true, prepared: true }
    }
}

/// The proposal and the votes of a round.
#[derive(Debug, Default)]
pub(super) struct Round {
    pub(super) proposal: Option<Candidate>,
    pub(super) prepares: BTreeMap<Address, Signed<Prepare>>,
    pub(super) commits: BTreeMap<Address, Commit>,
}

impl Round {
    pub(super) fn has_votes_of(&self, author: Address) -> bool {
        self.prepares.contains_key(&author) || self.commits.contains_key(&author)
    }

    /// The digest that a quorum has sealed, and the seals.
    pub(super) fn committed(&self, quorum: usize) -> Option<(B256, Vec<Seal>)> {
        let mut seals: BTreeMap<B256, Vec<Seal>> = BTreeMap::new();
        for commit in self.commits.values() {
            seals.entry(commit.digest).or_default().push(commit.commit_seal);
        }
        seals.into_iter().find(|(_, seals)| seals.len() >= quorum.max(1))
    }

    /// Of those other than `me` who have sealed a digest the one whose turn it is.
    pub(super) fn sealer_of(&self, digest: B256, me: Address, turn: usize) -> Option<Address> {
        let sealed = |(author, commit): &(&Address, &Commit)| **author != me && commit.digest == digest;
        let mut sealers = self.commits.iter().filter(sealed).map(|(author, _)| *author);
        let at = turn.checked_rem(sealers.clone().count())?;
        sealers.nth(at)
    }
}
