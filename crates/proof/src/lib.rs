//! Proofs that a payment is final, in its place and approved by whom; checked offline with public keys alone.
//!
//! | module | what it answers |
//! | --- | --- |
//! | [`proof`] | is this payment final, where in the global order, and who approved it? |
//! | [`keys`] | whose signatures count: the operator's and the institutions' |
//! | [`receipt`] | has a decision that place in the operator's log? |
//! | [`approval`] | did that institution answer so? |
//! | [`contents`] | does this belong to the transaction's id? |
//! | [`consistency`] | was the log only ever appended to between two signed heads? |
//! | [`witness`] | which institutions have seen that state of the log? |
//! | [`evidence`] | did somebody sign what contradicts what it signed elsewhere? |
//! | [`sequence`] | what the operator's log commits to |
//!
//! Nothing here has IO, a clock or a network. What was not verified proves nothing: every field of a [`Proof`] comes
//! from whoever handed it over, and only what [`Proof::verify`] returns has been checked.
//!
//! ```
//! use tally_proof::{Keys, Proof};
//!
//! // As `tally proof UETR --out proof.json` writes it; the keys come from the network's published files.
//! let proof: Proof = serde_json::from_str(include_str!("../tests/golden/proof.json"))?;
//! let keys: Keys = serde_json::from_str(include_str!("../tests/golden/keys.json"))?;
//!
//! let proven = proof.verify(&keys)?;
//! assert_eq!(proven.verdict, Ok(()));
//! assert_eq!(proven.uetr.to_string(), "97ed4827-7b6f-4491-a06f-b548d5a7512d");
//! let approved: Vec<_> = proven.answers.iter().map(|answer| answer.bic.as_str()).collect();
//! assert_eq!(approved, ["CENTDEFF", "BANKDEFF", "BANKFRPP"]);
//!
//! // Anybody can change a file; nobody can make the changed one verify.
//! let mut forged = proof.clone();
//! forged.receipt.sequence += 1;
//! assert!(forged.verify(&keys).is_err());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod approval;
pub mod consistency;
pub mod contents;
pub mod evidence;
pub mod keys;
pub mod proof;
pub mod receipt;
pub mod sequence;
mod text;
pub mod witness;

pub use approval::{Approval, ApprovalError};
pub use consistency::{Consistency, ConsistencyError};
pub use contents::{Contents, ProvenLeg};
pub use evidence::{Evidence, EvidenceError, Misconduct};
pub use keys::{Institution, Keys};
pub use proof::{Proof, ProofError, Verified};
pub use receipt::{Receipt, ReceiptError};
pub use witness::{HeadCosignature, WitnessError, Witnessed};

#[doc = include_str!("../README.md")]
#[cfg(doctest)]
struct ReadMe;
