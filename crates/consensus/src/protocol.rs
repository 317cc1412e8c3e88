//! Which of the two protocols a chain runs.

use crate::qbft::Form;

/// The protocol of a chain; everything in which IBFT 2.0 and QBFT differ is chosen by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// IBFT 2.0 (Saltini, Hyland-Wood, 2019; EIP-650 with justified round changes).
    Ibft2,
    /// QBFT (Moniz, "The Istanbul BFT Consensus Algorithm", 2020; EEA QBFT specification).
    Qbft(Form),
}

impl Protocol {
    /// QBFT with the messages in the form of the published test vectors.
    pub const QBFT: Self = Self::Qbft(Form::REFERENCE);

    /// Codes of the messages on the wire: proposal, prepare, commit, round change.
    #[must_use]
    pub fn codes(self) -> [u8; 4] {
        match self {
            Self::Ibft2 => crate::ibft2::CODES,
            Self::Qbft(_) => crate::qbft::CODES,
        }
    }

    /// Prepare messages that make a block prepared, beside its proposal.
    ///
    /// In IBFT 2.0 the proposal is the proposer's prepare message; in QBFT the proposer sends one as well.
    #[must_use]
    pub fn prepares_needed(self, quorum: usize) -> usize {
        match self {
            Self::Ibft2 => quorum.saturating_sub(1),
            Self::Qbft(_) => quorum,
        }
    }

    /// Whether the proposer of a round sends a prepare message for its own block.
    #[must_use]
    pub fn proposer_prepares(self) -> bool {
        matches!(self, Self::Qbft(_))
    }
}
