//! Who is told of a transaction: the institutions that have a part in it, and the operator. To everybody else it is answered as
//! one that there is not, so that nobody learns by asking what others do.

use super::App;
use super::failure::Failure;
use crate::access::{Scope, User};
use tally_ledger::Transaction;
use tally_settlement::engine::{Answer, EngineError, Outcome};
use tally_settlement::proof::Wanted;

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
}

/// Answers to what the user handed in, without what they tell of others' transactions: that a reference was used before is
/// told, by which transaction only to those who have a part in that. The ledger has read each first use, so that nothing is
/// searched for here, however many there are.
pub(super) fn own(user: &User, answers: &mut [Answer]) {
    for answer in answers {
        if let Outcome::Duplicate { first } = &mut answer.outcome {
            first.take_if(|first| !is_concerned(user, &first.transaction));
        }
    }
}

/// Of what is a repetition by its sender's word, leaves open what became of it where its first use cannot be read: it may have
/// been settled, and a refusal would have it paid once more. Before [`own`], which leaves out what can be read.
pub(super) fn leave_open(answers: &mut [Answer]) {
    for answer in answers {
        if matches!(answer.outcome, Outcome::Duplicate { first: None }) {
            answer.outcome = Outcome::Pending;
        }
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

/// Whether a transaction has an account of an institution that the user acts for, or is an order for one.
fn is_concerned(user: &User, transaction: &Transaction) -> bool {
    user.scope == Scope::Network
        || transaction.participants().into_iter().any(|participant| user.acts_for(participant))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::tests::user_of;
    use tally_crypto::Hash;
    use tally_ledger::transaction::Terms;
    use tally_ledger::{
        AccountId, AccountNumber, AccountRole, Amount, AssetId, Kind, Leg, NetworkId, ParticipantId,
        Timestamp, Uetr,
    };
    use tally_settlement::engine::FirstUse;

    /// That a reference was used before, by a transaction that these participants pay and are paid by.
    fn duplicate(participants: [u16; 2]) -> Answer {
        let legs = participants.map(|participant| {
            let (participant, account) = (ParticipantId(participant), AccountNumber(0));
            assert_eq!(AccountId { participant, number: account }.number.role(), AccountRole::Customer);
            Leg { participant, account, asset: AssetId(0), amount: Amount(1) }
        });
        let (uetr, expiry) = (Uetr([1; 16]), Timestamp(1));
        let network = NetworkId([7; 32]);
        let terms = Terms { network, uetr, expiry, details: Hash::ZERO, seed: [0; 16] };
        let transaction = Transaction::new(Kind::Transfer, &terms, legs.to_vec());
        let answer = Answer { id: transaction.id(&network), uetr, outcome: Outcome::Pending };
        let first = Some(Box::new(FirstUse { answer: answer.clone(), transaction }));
        Answer { outcome: Outcome::Duplicate { first }, ..answer }
    }

    fn is_told(answer: &Answer) -> bool {
        matches!(answer.outcome, Outcome::Duplicate { first: Some(_) })
    }

    #[test]
    fn a_first_use_is_told_to_those_who_have_a_part_in_it_however_many_come() {
        let answers = |user: &str| {
            let mut answers: Vec<_> = (0..50).map(|_| duplicate([1, 2])).collect();
            answers.push(duplicate([0, 2]));
            own(&user_of(user), &mut answers);
            let told: Vec<_> = answers.iter().map(is_told).collect();
            assert!(told[..50].iter().all(|one| *one == told[0]));
            (told[0], told[50])
        };
        assert_eq!(answers("ALPHDEFF"), (true, false));
        assert_eq!(answers("TSCBDEFF"), (false, true));
        assert_eq!(answers("BETAFRPP"), (true, true));
        assert_eq!(answers(""), (true, true), "the operator");
    }

    #[test]
    fn what_came_before_and_cannot_be_read_is_left_open_and_what_is_others_is_not() {
        let mut answers = vec![duplicate([1, 2]), duplicate([0, 2]), duplicate([1, 2])];
        answers[2].outcome = Outcome::Duplicate { first: None };
        leave_open(&mut answers);
        own(&user_of("ALPHDEFF"), &mut answers);
        assert!(is_told(&answers[0]));
        assert_eq!(answers[1].outcome, Outcome::Duplicate { first: None }, "another's is refused");
        assert_eq!(answers[2].outcome, Outcome::Pending);
    }
}
