//! What proposals and round changes must prove, as far as both protocols ask the same.

use alloy_primitives::{Address, B256};
use thiserror::Error;

use crate::message::{
    Prepare, Proposal, RoundChange, RoundChangePayload, Signed, View, prepare_author, round_change_author,
};
use crate::seal::Keys;
use crate::validators::{ProposerPolicy, ValidatorSet};
use crate::{Protocol, ibft2, qbft};

/// What evidence is measured by.
pub(crate) struct Context<'a> {
    pub(crate) protocol: Protocol,
    pub(crate) keys: &'a dyn Keys,
    pub(crate) validators: &'a ValidatorSet,
    pub(crate) policy: ProposerPolicy,
    /// The proposer of the parent block.
    pub(crate) previous: Address,
}

/// Why a proposal or a round change proves nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Unjustified {
    /// Round changes are of too few distinct validators, or of strangers.
    #[error("no quorum of round changes of distinct validators")]
    RoundChanges,
    /// A round change is to another round.
    #[error("a round change to another round")]
    OtherRound,
    /// Prepare messages are of too few distinct validators, or for another block or round.
    #[error("no quorum of prepare messages of distinct validators for the block")]
    Prepares,
    /// A round is claimed to have been prepared that is not before the new one.
    #[error("a prepared round that is not before the new one")]
    PreparedRound,
    /// Two blocks are claimed to have been prepared in the same round.
    #[error("two blocks prepared in the same round")]
    Contradiction,
    /// The block is not the one that was prepared.
    #[error("another block than the one prepared")]
    OtherBlock,
    /// A prepared round without its block.
    #[error("a prepared round without its block")]
    NoBlock,
    /// Evidence where there must be none.
    #[error("evidence of something that is not claimed")]
    Superfluous,
    /// The proposal in a certificate is not of the proposer of its round.
    #[error("the certificate's proposal is not of the proposer of its round")]
    Proposer,
    /// A new block was not made by the proposer of the round.
    #[error("the block was made by somebody else than the proposer of the round")]
    Coinbase,
}

impl Context<'_> {
    pub(crate) fn proposer(&self, round: u32) -> Option<Address> {
        self.validators.proposer(self.policy, self.previous, round)
    }

    /// Checks the evidence of a proposal whose author is known to be the round's proposer.
    pub(crate) fn proposal(&self, proposal: &Proposal) -> Result<(), Unjustified> {
        if proposal.view.round == 0 {
            if !proposal.round_changes.is_empty() || !proposal.prepares.is_empty() {
                return Err(Unjustified::Superfluous);
            }
        } else {
            match self.protocol {
                Protocol::Ibft2 => ibft2::justify_proposal(self, proposal)?,
                Protocol::Qbft(_) => qbft::justify_proposal(self, proposal)?,
            }
        }
        let again = proposal.round_changes.iter().any(|change| change.payload.prepared.is_some());
        if !again && Some(proposal.block.proposer()) != self.proposer(proposal.view.round) {
            return Err(Unjustified::Coinbase);
        }
        Ok(())
    }

    /// Checks the evidence of a round change whose author is known to be a validator.
    pub(crate) fn round_change(&self, change: &RoundChange) -> Result<(), Unjustified> {
        match self.protocol {
            Protocol::Ibft2 => ibft2::justify_round_change(self, change),
            Protocol::Qbft(_) => qbft::justify_round_change(self, change),
        }
    }

    fn distinct(&self, authors: impl Iterator<Item = Option<Address>>) -> Option<usize> {
        let mut seen: Vec<Address> = Vec::new();
        for author in authors {
            let author =
                author.filter(|author| self.validators.contains(*author) && !seen.contains(author))?;
            seen.push(author);
        }
        Some(seen.len())
    }
}

pub(crate) fn quorum_of_changes(
    context: &Context<'_>,
    view: View,
    changes: &[Signed<RoundChangePayload>],
) -> Result<(), Unjustified> {
    if changes.iter().any(|change| change.payload.view != view) {
        return Err(Unjustified::OtherRound);
    }
    if changes.len() > context.validators.len() || changes.len() < context.validators.quorum() {
        return Err(Unjustified::RoundChanges);
    }
    let authors = changes.iter().map(|change| round_change_author(context.protocol, context.keys, change));
    context.distinct(authors).map(|_| ()).ok_or(Unjustified::RoundChanges)
}

pub(crate) fn quorum_of_prepares(
    context: &Context<'_>,
    view: View,
    digest: B256,
    prepares: &[Signed<Prepare>],
) -> Result<(), Unjustified> {
    let needed = context.protocol.prepares_needed(context.validators.quorum());
    if prepares.len() < needed || prepares.len() > context.validators.len() {
        return Err(Unjustified::Prepares);
    }
    if prepares.iter().any(|prepare| prepare.payload != (Prepare { view, digest })) {
        return Err(Unjustified::Prepares);
    }
    // IBFT 2.0: the proposer's share is its proposal, so its prepare message would count twice.
    let excluded = if context.protocol.proposer_prepares() { None } else { context.proposer(view.round) };
    let authors = prepares.iter().map(|prepare| {
        prepare_author(context.protocol, context.keys, prepare).filter(|author| Some(*author) != excluded)
    });
    context.distinct(authors).map(|_| ()).ok_or(Unjustified::Prepares)
}

#[cfg(test)]
mod tests;
