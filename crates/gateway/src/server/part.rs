//! Who is told of a transaction: the institutions that have a part in it, and the operator. To everybody else it is answered as
//! one that there is not, so that nobody learns by asking what others do.

use super::App;
use super::failure::Failure;
use crate::access::{Scope, User};
use tally_ledger::Transaction;
use tally_settlement::engine::{Answer, EngineError, Outcome};
use tally_settlement::proof::Wanted;

/// The most first uses of references that are looked at for one request.
const MAX_FIRST_USES: usize = 16;

impl App {
    /// What became of a transaction, if the user may be told of it. One search of the journal.
    pub(super) fn status_for(&self, user: &User, wanted: Wanted) -> Result<Option<Answer>, Failure> {
        let Some(answer) = self.desk.status(by(user, wanted))? else { return Ok(None) };
        Ok(self.has_part(user, &answer)?.then_some(answer))
    }

    /// Whether the user's institution has a part in the transaction of that answer.
    pub(super) fn has_part(&self, user: &User, answer: &Answer) -> Result<bool, Failure> {
        if user.scope == Scope::Network {
            return Ok(true);
        }
        let found = match &answer.outcome {
            // That there is none would be told of the user's own payment as well: it is asked for again instead.
            Outcome::Final(finality) => {
                Some(self.desk.transaction(finality.sequence)?.ok_or(EngineError::Behind)?)
            }
            Outcome::Pending => {
                let wanted = by(user, Wanted::Uetr(answer.uetr));
                self.desk.accepted(wanted)?.map(|accepted| accepted.transaction)
            }
            // What was not accepted is nobody's.
            Outcome::Refused(_) | Outcome::Duplicate { .. } => return Ok(false),
        };
        let it = found.filter(|found| found.id(&self.desk.network().id) == answer.id);
        Ok(it.is_some_and(|found| is_concerned(user, &found)))
    }

    /// Answers to what the user handed in, without what they tell of others' transactions: that a reference was used before is
    /// told, by which transaction only to those who have a part in that.
    pub(super) fn own(&self, user: &User, answers: &mut [Answer]) -> Result<(), Failure> {
        if user.scope == Scope::Network {
            return Ok(());
        }
        let mut looked_at = 0;
        for answer in answers {
            let Outcome::Duplicate { first } = &mut answer.outcome else { continue };
            let Some(found) = first.as_deref() else { continue };
            looked_at += 1;
            if looked_at > MAX_FIRST_USES || !self.has_part(user, found)? {
                *first = None;
            }
        }
        Ok(())
    }
}

/// Which transaction a user means: several institutions may use the same reference, and a user means the one that concerns
/// the user's own.
pub(super) fn by(user: &User, wanted: Wanted) -> Wanted {
    match (user.scope, wanted) {
        (Scope::Institution(own), Wanted::Uetr(uetr)) => Wanted::Concerning(own, uetr),
        (_, wanted) => wanted,
    }
}

/// Whether some answer tells of another transaction than that which was handed in.
pub(super) fn tells_of_others(answers: &[Answer]) -> bool {
    answers.iter().any(|answer| matches!(&answer.outcome, Outcome::Duplicate { first: Some(_) }))
}

/// Whether a transaction has an account of an institution that the user acts for, or is an order for one.
fn is_concerned(user: &User, transaction: &Transaction) -> bool {
    transaction.participants().into_iter().any(|participant| user.acts_for(participant))
}
