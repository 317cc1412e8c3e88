//! The proof of a payment: its contents, its place in the global order, and who approved it.

use crate::approval::{About, Approval, ApprovalError};
use crate::contents::Contents;
use crate::keys::Keys;
use crate::receipt::{Receipt, ReceiptError};
use crate::witness::{WitnessError, Witnessed};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use tally_crypto::log::TreeHead;
use tally_ledger::refusal::{Verdict, verdict_from_number};
use tally_ledger::{Leg, NetworkId, ParticipantId, Timestamp, TransactionId, Uetr};

/// The version of the form that this crate writes and reads.
pub const VERSION: u32 = 2;
/// The largest proof that should be read, in bytes: 255 legs and 255 approvals fit.
pub const MAX_PROOF_BYTES: u64 = 1 << 20;

/// Proof that a transaction has its outcome, for whoever holds the network's public [`Keys`].
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Proof {
    /// See [`VERSION`].
    pub version: u32,
    /// What the transaction's id commits to.
    pub transaction: Contents,
    /// Its verdict and its place in the global order.
    pub receipt: Receipt,
    /// The institutions' answers.
    pub approvals: Vec<Approval>,
    /// Institutions concerned whose answers whoever made the proof could not show. Only a hint: the verifier counts.
    #[serde(default)]
    pub missing: Vec<ParticipantId>,
}

/// What was proven.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Verified {
    /// The network.
    pub network: NetworkId,
    /// The transaction.
    pub id: TransactionId,
    /// Its end-to-end reference.
    pub uetr: Uetr,
    /// What became of it, for good.
    pub verdict: Verdict,
    /// Its place in the global order, from 0.
    pub sequence: u64,
    /// When it got that place, by the operator's clock.
    pub timestamp: Timestamp,
    /// The signed state of the operator's log that has it: no earlier than [`Self::timestamp`].
    pub head: TreeHead,
    /// The institutions that cosigned that head, by participant; the operator is none of them.
    pub witnesses: Vec<Witnessed>,
    /// The answers of institutions, each under its own signature, by participant.
    pub answers: Vec<Answered>,
    /// The institutions concerned, ascending: the id commits to them, and all must approve what is
    /// settled.
    pub concerned: Vec<ParticipantId>,
    /// The legs that the proof shows, with their positions.
    pub legs: Vec<(u8, Leg)>,
    /// How many legs it does not show.
    pub hidden_legs: u8,
    /// Institutions concerned whose answers are said to be missing; a settled payment's
    /// [`not_shown`](Self::not_shown) is what was verified.
    pub missing: Vec<ParticipantId>,
}

/// An institution's answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Answered {
    /// Which institution.
    pub participant: ParticipantId,
    /// Its BIC by the keys.
    pub bic: String,
    /// What it answered.
    pub verdict: Verdict,
}

/// Why a proof proves nothing, or less than was asked for.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ProofError {
    /// It is of another version.
    #[error(
        "the proof is of version {0}, and this program reads version 2: use the program that goes with it"
    )]
    Version(u32),
    /// Its contents cannot be a transaction's.
    #[error("the transaction's contents do not belong together: {0}")]
    Form(&'static str),
    /// It is of another network than the keys.
    #[error(
        "the proof is of network {proof} and the keys are of network {keys}: take the keys of that network"
    )]
    Network {
        /// The proof's.
        proof: NetworkId,
        /// The keys'.
        keys: NetworkId,
    },
    /// The contents have another id than the receipt.
    #[error("the transaction's contents have the id {contents} and the receipt is of {receipt}")]
    Id {
        /// The contents' id.
        contents: TransactionId,
        /// The receipt's.
        receipt: TransactionId,
    },
    /// The receipt proves nothing.
    #[error("the payment's place in the global order is not proven")]
    Receipt(#[from] ReceiptError),
    /// Fewer institutions than the keys ask for have cosigned the head, or a cosignature is false.
    #[error("the head of the operator's log is not witnessed")]
    Witnesses(#[from] WitnessError),
    /// The keys name no such institution.
    #[error("participant {} answered, and the keys do not name it: take the network's present keys", .0.0)]
    UnknownInstitution(ParticipantId),
    /// An approval is not what it should be.
    #[error("the answer of {institution} is not proven")]
    Approval {
        /// Whose.
        institution: String,
        /// What is wrong with it.
        #[source]
        source: ApprovalError,
    },
    /// An institution is there twice.
    #[error("the answer of {0} is there twice")]
    Twice(String),
    /// An institution refused what is said to be settled.
    #[error("the payment is said to be settled, and {0} refused it")]
    Refused(String),
    /// An answer is of an institution that the transaction does not concern.
    #[error("{0} answered and the transaction does not concern it")]
    NotConcerned(String),
    /// It shows that the payment is final, and not that everybody concerned approved it.
    #[error(
        "the payment is final, but the approvals of {missing} of {participants} institutions are not shown: \
         ask for finality alone, or for a proof with all approvals"
    )]
    NotShown {
        /// How many are not shown.
        missing: usize,
        /// How many institutions are concerned.
        participants: usize,
    },
}

impl Proof {
    /// Checks that the transaction is final, has its place, and, if it is settled, that every institution concerned
    /// approved it; and that as many institutions as the keys ask for have cosigned the head that has it.
    ///
    /// Which institutions are concerned is what the id commits to, which payer and institutions
    /// signed.
    ///
    /// # Errors
    /// When any of that is not shown.
    pub fn verify(&self, keys: &Keys) -> Result<Verified, ProofError> {
        let verified = self.verify_finality(keys)?;
        match verified.not_shown() {
            0 => Ok(verified),
            missing => Err(ProofError::NotShown { missing, participants: verified.concerned.len() }),
        }
    }

    /// Checks that the transaction is final and has its place under a witnessed head, whether or not all approvals are shown; those that
    /// are shown are checked. [`Verified::not_shown`] says how many are not.
    ///
    /// # Errors
    /// When it is not shown, or anything in the proof is false.
    pub fn verify_finality(&self, keys: &Keys) -> Result<Verified, ProofError> {
        if self.version != VERSION {
            return Err(ProofError::Version(self.version));
        }
        let contents = &self.transaction;
        if contents.network != keys.network {
            let (proof, keys) = (contents.network, keys.network);
            return Err(ProofError::Network { proof, keys });
        }
        let id = contents.id().ok_or(ProofError::Form("it has too many legs or participants"))?;
        if id != self.receipt.id {
            return Err(ProofError::Id { contents: id, receipt: self.receipt.id });
        }
        let hidden_legs = self.hidden_legs()?;
        // Before any signature is verified: what others hand over must not cost more than it can show.
        if self.approvals.len() > contents.participants.len() {
            return Err(ProofError::Form("there are more answers than participants"));
        }
        let verdict = self.receipt.verify(&contents.network, &keys.operator)?;
        let witnesses = keys.witnessed(&self.receipt.head.head, &self.receipt.cosignatures)?;
        Ok(Verified {
            network: contents.network,
            id,
            uetr: contents.uetr,
            verdict,
            sequence: self.receipt.sequence,
            timestamp: self.receipt.timestamp,
            head: self.receipt.head.head,
            witnesses,
            answers: self.answers(keys, verdict)?,
            concerned: contents.participants.clone(),
            legs: (0..=u8::MAX)
                .zip(&contents.legs)
                .filter_map(|(position, leg)| Some((position, leg.leg()?)))
                .collect(),
            hidden_legs,
            missing: self.missing.clone(),
        })
    }

    /// How many legs are hidden, where legs and list of participants can be of one transaction.
    fn hidden_legs(&self) -> Result<u8, ProofError> {
        let contents = &self.transaction;
        let listed = &contents.participants;
        // The id alone does not say so: an operator and its customer may make one of any list.
        if listed.is_empty() || listed.windows(2).any(|pair| pair[0] >= pair[1]) {
            return Err(ProofError::Form("its participants are none, or not in ascending order"));
        }
        let shown: BTreeSet<ParticipantId> = contents.shown().map(|leg| leg.participant).collect();
        if shown.iter().any(|participant| listed.binary_search(participant).is_err()) {
            return Err(ProofError::Form("it shows a leg of a participant that it does not list"));
        }
        let hidden = contents.legs.len() - contents.shown().count();
        // An account order has no legs and one participant.
        let others = if contents.legs.is_empty() { 1 } else { hidden + shown.len() };
        if listed.len() > others {
            return Err(ProofError::Form("it lists a participant that can have no leg in it"));
        }
        u8::try_from(hidden).map_err(|_| ProofError::Form("it has too many legs or participants"))
    }

    fn answers(&self, keys: &Keys, verdict: Verdict) -> Result<Vec<Answered>, ProofError> {
        let about = About {
            network: self.transaction.network,
            id: self.receipt.id,
            scheduler: self.receipt.scheduler,
            batch: self.receipt.batch,
        };
        let mut answers: Vec<Answered> = Vec::with_capacity(self.approvals.len());
        for approval in &self.approvals {
            let participant = approval.participant;
            let institution =
                keys.institution(participant).ok_or(ProofError::UnknownInstitution(participant))?;
            let bic = institution.bic.clone();
            if answers.iter().any(|other| other.participant == participant) {
                return Err(ProofError::Twice(bic));
            }
            if self.transaction.participants.binary_search(&participant).is_err() {
                return Err(ProofError::NotConcerned(bic));
            }
            let wrong = |source| ProofError::Approval { institution: bic.clone(), source };
            approval.verify(&about, &institution.key).map_err(wrong)?;
            let said = verdict_from_number(approval.verdict).ok_or_else(|| wrong(ApprovalError::Form))?;
            if verdict.is_ok() && said.is_err() {
                return Err(ProofError::Refused(bic));
            }
            answers.push(Answered { participant, bic, verdict: said });
        }
        answers.sort_by_key(|answer| answer.participant);
        Ok(answers)
    }
}

impl Verified {
    /// How many institutions' approvals of a settled payment the proof does not show; none for one that was refused, which
    /// needs none.
    pub fn not_shown(&self) -> usize {
        match self.verdict {
            Ok(()) => self.concerned.len().saturating_sub(self.answers.len()),
            Err(_) => 0,
        }
    }
}
