//! What the operator's log holds against another decision of it, or against an institution's
//! answer.

use super::answers;
use super::judgement::{Act, EvidenceError, Misconduct, Party};
use crate::approval::{About, Approval};
use crate::contents::Contents;
use crate::keys::Keys;
use crate::receipt::Receipt;
use serde::{Deserialize, Serialize};
use tally_ledger::refusal::Verdict;

/// A settled transaction and the signed refusal of an institution that it concerns.
///
/// The contents show whom the transaction concerns; its legs may all be hidden. An institution that
/// it does not concern is not asked, and its answer is none.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SettledAgainstRefusal {
    /// What the transaction's id commits to.
    pub transaction: Contents,
    /// That the operator's log holds it as settled.
    pub receipt: Receipt,
    /// The institution's answer in the same accepted batch.
    pub refusal: Approval,
}

/// Two receipts of one place with different decisions, or of one transaction settled at two places.
///
/// That a transaction is in the log as refused and as settled is none: somebody may submit it first
/// without its owner's signature, which its id does not commit to.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TwoReceipts {
    /// One receipt.
    pub first: Receipt,
    /// The other.
    pub second: Receipt,
}

/// What the operator decided by that receipt. The operator's own signature is enough: `k` witnesses
/// may be missing, and those that are there must be right.
fn decided(receipt: &Receipt, keys: &Keys) -> Result<Verdict, EvidenceError> {
    let verdict = receipt.verify(&keys.network, &keys.operator)?;
    keys.cosigned(&receipt.head.head, &receipt.cosignatures)?;
    Ok(verdict)
}

impl SettledAgainstRefusal {
    /// Says what the operator did, if it settled what the institution refused. See
    /// [`Act::SettledAgainstRefusal`] for the operator's answer to it.
    ///
    /// # Errors
    /// When that is not shown.
    pub fn judge(&self, keys: &Keys) -> Result<Misconduct, EvidenceError> {
        let (contents, receipt) = (&self.transaction, &self.receipt);
        if contents.network != keys.network {
            return Err(EvidenceError::Network { evidence: contents.network, keys: keys.network });
        }
        let institution = self.refusal.participant;
        if !contents.participants.contains(&institution) {
            return Err(EvidenceError::NoContradiction("the transaction does not concern that institution"));
        }
        if contents.id() != Some(receipt.id) {
            return Err(EvidenceError::Form("the receipt is of another transaction"));
        }
        let of = keys.institution(institution).ok_or(EvidenceError::UnknownInstitution(institution))?;
        if decided(receipt, keys)?.is_err() {
            return Err(EvidenceError::NoContradiction("the transaction was refused"));
        }
        let about = About {
            network: keys.network,
            id: receipt.id,
            scheduler: receipt.scheduler,
            batch: receipt.batch,
        };
        let Err(refusal) = answers::verdict(&self.refusal, &about, of)? else {
            return Err(EvidenceError::NoContradiction("the institution approved it"));
        };
        let (id, sequence) = (receipt.id, receipt.sequence);
        let act = Act::SettledAgainstRefusal { id, sequence, institution, bic: of.bic.clone(), refusal };
        Ok(Misconduct { by: Party::Operator, act })
    }
}

impl TwoReceipts {
    /// Says what the operator did, if both receipts are its own and one log of honest decisions
    /// cannot have both.
    ///
    /// # Errors
    /// When that is not shown.
    pub fn judge(&self, keys: &Keys) -> Result<Misconduct, EvidenceError> {
        let decisions =
            [(self.first.id, decided(&self.first, keys)?), (self.second.id, decided(&self.second, keys)?)];
        let sequences = [self.first.sequence, self.second.sequence];
        let one_place = sequences[0] == sequences[1];
        let act = if one_place && decisions[0] != decisions[1] {
            Act::TwoDecisions { sequence: sequences[0], decisions }
        } else if !one_place && decisions[0] == decisions[1] && decisions[0].1.is_ok() {
            Act::SettledTwice { id: decisions[0].0, sequences }
        } else {
            return Err(EvidenceError::NoContradiction("one log may have both decisions"));
        };
        Ok(Misconduct { by: Party::Operator, act })
    }
}
