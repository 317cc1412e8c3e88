//! Evidence: what somebody signed that contradicts what the same one signed elsewhere; judged
//! offline with public keys.
//!
//! | kind | what it holds | whose misconduct |
//! | --- | --- | --- |
//! | [`TwoHeads`] | two heads of the log that do not fit | the operator's |
//! | [`TwoReceipts`] | two decisions at one place, or one transaction settled at two | the operator's |
//! | [`SettledAgainstRefusal`] | a settled transaction and the refusal of an institution concerned | the operator's |
//! | [`TwoAnswers`] | two answers to one question | an institution's |
//! | [`TwoCosignatures`] | two cosigned heads that do not fit | an institution's, as a witness |
//!
//! Whoever hands evidence over may lie. Nothing in it counts but what the accused has signed for
//! this network: each signature is checked against the network's [`Keys`], each path against what
//! was signed, and what two honest programs may say is no contradiction. A signature is a promise
//! from the moment at which others can read it; who signs anew after a restart signs the same, or
//! nothing.
//!
//! What is *missing* is never evidence: that an approval exists, and is not shown, cannot be told
//! from that it does not exist. Ask for the proof instead.
//!
//! ```
//! use tally_proof::{Evidence, Keys};
//!
//! let evidence: Evidence = serde_json::from_str(include_str!("../tests/golden/evidence.json"))?;
//! let keys: Keys = serde_json::from_str(include_str!("../tests/golden/keys.json"))?;
//!
//! let misconduct = evidence.judge(&keys)?;
//! assert_eq!(
//!     misconduct.to_string(),
//!     "The operator signed two heads of its log of 50 records with different roots: it shows two histories."
//! );
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod answers;
mod heads;
mod judgement;
mod receipts;

pub use answers::{SignedAnswer, TwoAnswers};
pub use heads::{CosignedHead, LeafUnder, TwoCosignatures, TwoHeads, TwoLeaves};
pub use judgement::{Act, EvidenceError, Misconduct, Party};
pub use receipts::{SettledAgainstRefusal, TwoReceipts};

use crate::keys::Keys;
use serde::{Deserialize, Serialize};
use tally_ledger::NetworkId;

/// The version of the form that this crate writes and reads.
pub const VERSION: u32 = 1;
/// The largest file of evidence that should be read, in bytes: a transaction of 255 legs with two
/// receipts fits.
pub const MAX_EVIDENCE_BYTES: u64 = 1 << 20;

/// A file of evidence: `{"version": 1, "network": "…", "kind": "two_heads", …}`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Evidence {
    /// See [`VERSION`].
    pub version: u32,
    /// In which network it happened.
    pub network: NetworkId,
    /// Its kind, and what was signed.
    #[serde(flatten)]
    pub case: Case,
}

/// What a file of evidence holds, by its `kind`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Case {
    /// `"two_heads"`
    TwoHeads(TwoHeads),
    /// `"two_cosignatures"`
    TwoCosignatures(TwoCosignatures),
    /// `"two_answers"`
    TwoAnswers(TwoAnswers),
    /// `"settled_against_refusal"`
    SettledAgainstRefusal(Box<SettledAgainstRefusal>),
    /// `"two_receipts"`
    TwoReceipts(Box<TwoReceipts>),
}

impl Evidence {
    /// Evidence about that network, in the present version.
    pub fn new(network: NetworkId, case: impl Into<Case>) -> Self {
        Self { version: VERSION, network, case: case.into() }
    }

    /// Says who did what, if the evidence proves it.
    ///
    /// # Errors
    /// When it is of another version or network than the program and the keys, when anything in it
    /// is not signed by whom it says, or when what was signed is no contradiction.
    pub fn judge(&self, keys: &Keys) -> Result<Misconduct, EvidenceError> {
        if self.version != VERSION {
            return Err(EvidenceError::Version(self.version));
        }
        if self.network != keys.network {
            return Err(EvidenceError::Network { evidence: self.network, keys: keys.network });
        }
        match &self.case {
            Case::TwoHeads(case) => case.judge(keys),
            Case::TwoCosignatures(case) => case.judge(keys),
            Case::TwoAnswers(case) => case.judge(keys),
            Case::SettledAgainstRefusal(case) => case.judge(keys),
            Case::TwoReceipts(case) => case.judge(keys),
        }
    }
}

impl From<TwoHeads> for Case {
    fn from(case: TwoHeads) -> Self {
        Self::TwoHeads(case)
    }
}

impl From<TwoCosignatures> for Case {
    fn from(case: TwoCosignatures) -> Self {
        Self::TwoCosignatures(case)
    }
}

impl From<TwoAnswers> for Case {
    fn from(case: TwoAnswers) -> Self {
        Self::TwoAnswers(case)
    }
}

impl From<SettledAgainstRefusal> for Case {
    fn from(case: SettledAgainstRefusal) -> Self {
        Self::SettledAgainstRefusal(Box::new(case))
    }
}

impl From<TwoReceipts> for Case {
    fn from(case: TwoReceipts) -> Self {
        Self::TwoReceipts(Box::new(case))
    }
}
