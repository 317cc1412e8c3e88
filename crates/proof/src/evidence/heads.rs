//! Two heads of one log that do not fit: signed by the operator, or cosigned by a witness.

use super::judgement::{Act, EvidenceError, Misconduct, Party};
use crate::keys::Keys;
use serde::{Deserialize, Serialize};
use tally_crypto::log::{Checkpoint, Cosignature, LogHash, SignedTreeHead, TreeHead, verify_inclusion};
use tally_crypto::{Hash, Signature};
use tally_ledger::ParticipantId;

/// The longest path from a record to the root of a log: sizes have 64 bits.
const MAX_PATH: usize = 64;

/// Two heads that the operator signed and that are not of one log that only grew.
///
/// Without `leaf` they have one size and different roots, or the larger one is of an earlier time.
/// With it, one place has different records under each.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TwoHeads {
    /// One head.
    pub first: SignedTreeHead,
    /// The other.
    pub second: SignedTreeHead,
    /// Where they differ, for heads of different sizes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leaf: Option<TwoLeaves>,
}

/// Two heads that a witness cosigned and that are not of one log that only grew, in the same forms
/// as [`TwoHeads`].
///
/// By a cosignature a witness says that the head was the largest that it knew at that time (C2SP
/// tlog-cosignature, "Ed25519 signed message"): a larger head at an earlier time contradicts that.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TwoCosignatures {
    /// The witness.
    pub participant: ParticipantId,
    /// One head.
    pub first: CosignedHead,
    /// The other.
    pub second: CosignedHead,
    /// Where they differ, for heads of different sizes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leaf: Option<TwoLeaves>,
}

/// A head as a witness cosigned it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CosignedHead {
    /// How many records it is of.
    pub size: u64,
    /// The root over these records.
    pub root: Hash,
    /// When the witness signed, by its own clock, in seconds since the Unix epoch.
    pub time_s: u64,
    /// Ed25519 over [`Cosignature::message`].
    pub signature: Signature,
}

impl CosignedHead {
    /// A head with one witness's cosignature on it.
    pub fn of(head: &TreeHead, cosignature: &Cosignature) -> Self {
        Self {
            size: head.size,
            root: Hash::from_bytes(head.root),
            time_s: cosignature.time_s,
            signature: cosignature.signature,
        }
    }
}

/// What each of two heads commits to at one place.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TwoLeaves {
    /// The place, from 0.
    pub index: u64,
    /// What the first head commits to there.
    pub first: LeafUnder,
    /// What the second head commits to there.
    pub second: LeafUnder,
}

/// A record under a head.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LeafUnder {
    /// The record's [leaf hash](tally_crypto::log::leaf_hash).
    pub leaf: Hash,
    /// The inclusion proof (RFC 9162 section 2.1.3), from below.
    pub path: Vec<Hash>,
}

impl LeafUnder {
    fn verify(&self, index: u64, head: &Compared) -> Result<(), EvidenceError> {
        // Before it is hashed: what others hand over must not cost more than it can show.
        if self.path.len() > MAX_PATH {
            return Err(EvidenceError::Form("a path is longer than any log needs"));
        }
        let path: Vec<LogHash> = self.path.iter().map(|hash| *hash.as_bytes()).collect();
        verify_inclusion(&head.root, head.size, index, self.leaf.as_bytes(), &path)
            .map_err(|source| EvidenceError::Leaf { size: head.size, source })
    }
}

impl TwoHeads {
    /// Says what the operator did, if it signed both heads and they do not fit.
    ///
    /// # Errors
    /// When that is not shown.
    pub fn judge(&self, keys: &Keys) -> Result<Misconduct, EvidenceError> {
        for signed in [&self.first, &self.second] {
            signed
                .verify(&keys.network.0, &keys.operator)
                .map_err(|source| EvidenceError::Head { size: signed.head.size, source })?;
        }
        let compared = |signed: &SignedTreeHead| {
            let TreeHead { size, root, timestamp_ms } = signed.head;
            Compared { size, root, time: timestamp_ms }
        };
        let act = contradiction(&compared(&self.first), &compared(&self.second), self.leaf.as_ref())?;
        Ok(Misconduct { by: Party::Operator, act })
    }
}

impl TwoCosignatures {
    /// Says what the witness did, if it cosigned both heads and they do not fit.
    ///
    /// # Errors
    /// When that is not shown.
    pub fn judge(&self, keys: &Keys) -> Result<Misconduct, EvidenceError> {
        let participant = self.participant;
        let witness = keys.institution(participant).ok_or(EvidenceError::UnknownInstitution(participant))?;
        for head in [&self.first, &self.second] {
            let (size, root) = (head.size, *head.root.as_bytes());
            let checkpoint = Checkpoint { network: keys.network.0, size, root };
            let cosignature = Cosignature { time_s: head.time_s, signature: head.signature };
            cosignature.verify(&checkpoint, &witness.key).map_err(|source| EvidenceError::Cosignature {
                institution: witness.bic.clone(),
                size,
                source,
            })?;
        }
        let compared = |head: &CosignedHead| Compared {
            size: head.size,
            root: *head.root.as_bytes(),
            time: head.time_s,
        };
        let act = contradiction(&compared(&self.first), &compared(&self.second), self.leaf.as_ref())?;
        Ok(Misconduct { by: Party::Institution { participant, bic: witness.bic.clone() }, act })
    }
}

/// What is compared of a head whose signature has been verified.
struct Compared {
    size: u64,
    root: LogHash,
    time: u64,
}

/// How the two heads do not fit.
fn contradiction(
    first: &Compared,
    second: &Compared,
    leaf: Option<&TwoLeaves>,
) -> Result<Act, EvidenceError> {
    let (sizes, times) = ([first.size, second.size], [first.time, second.time]);
    if let Some(leaf) = leaf {
        if first.size == second.size {
            return Err(EvidenceError::Form(
                "heads of one size differ in their roots, and no record is needed",
            ));
        }
        leaf.first.verify(leaf.index, first)?;
        leaf.second.verify(leaf.index, second)?;
        return if leaf.first.leaf == leaf.second.leaf {
            Err(EvidenceError::NoContradiction("both heads have the same record there"))
        } else {
            Ok(Act::TwoLeaves { index: leaf.index, sizes })
        };
    }
    if first.size == second.size {
        return if first.root == second.root {
            Err(EvidenceError::NoContradiction("both heads are of the same records"))
        } else {
            Ok(Act::TwoRoots { size: first.size })
        };
    }
    let (smaller, larger) = if first.size < second.size { (first, second) } else { (second, first) };
    if larger.time < smaller.time {
        Ok(Act::TimeWentBack { sizes, times })
    } else {
        Err(EvidenceError::NoContradiction("the larger head may extend the smaller one"))
    }
}
