//! Witnesses: institutions that cosign the heads of the operator's log, so that it cannot show two
//! histories alone.

use crate::keys::Keys;
use serde::{Deserialize, Serialize};
use tally_crypto::log::{Checkpoint, Cosignature, CosignatureError, TreeHead};
use tally_crypto::{PublicKey, Signature};
use tally_ledger::ParticipantId;

/// The most cosignatures that are looked at for one head: no more can be asked for.
pub const MAX_COSIGNATURES: usize = u8::MAX as usize;

/// An institution's cosignature on a head of the log that stands beside it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HeadCosignature {
    /// Whose.
    pub participant: ParticipantId,
    /// When it signed, by its own clock, in seconds since the Unix epoch.
    pub time_s: u64,
    /// Ed25519 by the institution's key over [`Cosignature::message`].
    pub signature: Signature,
}

impl HeadCosignature {
    /// A participant's cosignature, to stand beside the head that it is of.
    pub fn of(participant: ParticipantId, cosignature: Cosignature) -> Self {
        let Cosignature { time_s, signature } = cosignature;
        Self { participant, time_s, signature }
    }

    /// The cosignature without its witness.
    pub fn cosignature(&self) -> Cosignature {
        Cosignature { time_s: self.time_s, signature: self.signature }
    }
}

/// An institution that cosigned a head.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Witnessed {
    /// Which institution.
    pub participant: ParticipantId,
    /// Its BIC by the keys.
    pub bic: String,
    /// When it signed, by its own clock, in seconds since the Unix epoch.
    pub time_s: u64,
}

/// Why a head is not shown to be witnessed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum WitnessError {
    /// There are more cosignatures than [`MAX_COSIGNATURES`], or than institutions.
    #[error("there are {0} cosignatures on the tree head, more than there can be")]
    TooMany(usize),
    /// The keys name no such institution.
    #[error(
        "participant {} cosigned the tree head, and the keys do not name it: take the network's present keys", .0.0
    )]
    UnknownInstitution(ParticipantId),
    /// An institution is there twice.
    #[error("the cosignature of {0} is there twice")]
    Twice(String),
    /// A cosignature is not the institution's.
    #[error("{institution} did not cosign the tree head of {size} records")]
    Cosignature {
        /// Whose it is said to be.
        institution: String,
        /// How many records the head is of.
        size: u64,
        /// What is wrong with it.
        #[source]
        source: CosignatureError,
    },
    /// Fewer institutions than the keys ask for have cosigned it.
    #[error(
        "{got} institutions cosigned the tree head of {size} records, and the keys ask for {wanted}: ask for a newer \
         proof, or compare the head with what other institutions have seen"
    )]
    TooFew {
        /// How many records the head is of.
        size: u64,
        /// How many the keys ask for.
        wanted: u8,
        /// How many there are, the operator not counted.
        got: usize,
    },
}

impl Keys {
    /// Checks all cosignatures on a head and says which institutions witnessed it, by participant:
    /// those with keys of their own, without the operator, whose own cosignature says no more than
    /// its signature. Any number is enough.
    ///
    /// # Errors
    /// When one of them is not what it says.
    pub fn cosigned(
        &self,
        head: &TreeHead,
        cosignatures: &[HeadCosignature],
    ) -> Result<Vec<Witnessed>, WitnessError> {
        // Before any signature is verified: what others hand over must not cost more than it can
        // show.
        if cosignatures.len() > MAX_COSIGNATURES.min(self.institutions.len()) {
            return Err(WitnessError::TooMany(cosignatures.len()));
        }
        let checkpoint = Checkpoint::of(head, &self.network.0);
        let mut seen: Vec<(ParticipantId, PublicKey)> = Vec::with_capacity(cosignatures.len());
        let mut witnesses = Vec::with_capacity(cosignatures.len());
        for of in cosignatures {
            let participant = of.participant;
            let institution =
                self.institution(participant).ok_or(WitnessError::UnknownInstitution(participant))?;
            let (bic, key) = (institution.bic.clone(), institution.key);
            if seen.iter().any(|(other, _)| *other == participant) {
                return Err(WitnessError::Twice(bic));
            }
            of.cosignature().verify(&checkpoint, &key).map_err(|source| WitnessError::Cosignature {
                institution: bic.clone(),
                size: head.size,
                source,
            })?;
            let counts = key != self.operator && seen.iter().all(|(_, other)| *other != key);
            seen.push((participant, key));
            if counts {
                witnesses.push(Witnessed { participant, bic, time_s: of.time_s });
            }
        }
        witnesses.sort_by_key(|witness| witness.participant);
        Ok(witnesses)
    }

    /// As [`Self::cosigned`], and that at least [`Self::witnesses`] institutions witnessed the
    /// head.
    ///
    /// # Errors
    /// As [`Self::cosigned`], and [`WitnessError::TooFew`].
    pub fn witnessed(
        &self,
        head: &TreeHead,
        cosignatures: &[HeadCosignature],
    ) -> Result<Vec<Witnessed>, WitnessError> {
        let witnesses = self.cosigned(head, cosignatures)?;
        let got = witnesses.len();
        if got < usize::from(self.witnesses) {
            return Err(WitnessError::TooFew { size: head.size, wanted: self.witnesses, got });
        }
        Ok(witnesses)
    }
}
