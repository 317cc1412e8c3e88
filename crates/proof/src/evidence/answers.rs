//! Two answers of an institution to one question.

use super::judgement::{Act, EvidenceError, Misconduct, Party};
use crate::approval::{About, Approval, ApprovalError};
use crate::keys::{Institution, Keys};
use serde::{Deserialize, Serialize};
use tally_ledger::TransactionId;
use tally_ledger::refusal::{Verdict, verdict_from_number};

/// Two answers that an institution signed about one place of one accepted batch, and that say
/// different verdicts or are about different transactions.
///
/// An institution may sign one answer often, also in different batches of answers.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TwoAnswers {
    /// The scheduler that accepted the batch.
    pub scheduler: u64,
    /// Which batch of that scheduler it is.
    pub batch: u64,
    /// One answer.
    pub first: SignedAnswer,
    /// The other.
    pub second: SignedAnswer,
}

/// An answer with what it is about.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SignedAnswer {
    /// The transaction as the institution saw it.
    pub id: TransactionId,
    /// The answer and its signature.
    pub approval: Approval,
}

impl TwoAnswers {
    /// Says what the institution did, if it signed both answers and they are not the same.
    ///
    /// # Errors
    /// When that is not shown.
    pub fn judge(&self, keys: &Keys) -> Result<Misconduct, EvidenceError> {
        let (first, second) = (&self.first.approval, &self.second.approval);
        if first.participant != second.participant {
            return Err(EvidenceError::NoContradiction("the answers are of two institutions"));
        }
        if first.index != second.index {
            return Err(EvidenceError::NoContradiction("the answers are about two places of the batch"));
        }
        let participant = first.participant;
        let institution =
            keys.institution(participant).ok_or(EvidenceError::UnknownInstitution(participant))?;
        let said = |answer: &SignedAnswer| {
            let about =
                About { network: keys.network, id: answer.id, scheduler: self.scheduler, batch: self.batch };
            Ok::<_, EvidenceError>((answer.id, verdict(&answer.approval, &about, institution)?))
        };
        let answers = [said(&self.first)?, said(&self.second)?];
        if answers[0] == answers[1] {
            return Err(EvidenceError::NoContradiction("both answers are the same"));
        }
        let act =
            Act::TwoAnswers { scheduler: self.scheduler, batch: self.batch, index: first.index, answers };
        Ok(Misconduct { by: Party::Institution { participant, bic: institution.bic.clone() }, act })
    }
}

/// What the institution answered, if it signed that.
pub(super) fn verdict(
    approval: &Approval,
    about: &About,
    institution: &Institution,
) -> Result<Verdict, EvidenceError> {
    let wrong = |source| EvidenceError::Answer { institution: institution.bic.clone(), source };
    approval.verify(about, &institution.key).map_err(wrong)?;
    verdict_from_number(approval.verdict).ok_or_else(|| wrong(ApprovalError::Form))
}
