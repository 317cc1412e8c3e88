//! What is told of transactions that were handed in before, and how it is found out.

use super::answer::Expected;
use super::earlier::Earlier;
use super::{Answer, FirstUse, Outcome, Pending};
use crate::clerk::{Finality, Notice};
use crate::journal::JournalError;
use crate::message::{AcceptedBatch, Source};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tally_ledger::{NetworkId, Refusal, TransactionId};
use tally_log::LogError;

/// A desk's knowledge of the past.
pub(crate) trait Past {
    /// Whose past it is.
    fn network_id(&self) -> &NetworkId;

    /// The durable outcome of an accepted transaction, waiting for it until `deadline`.
    fn outcome(&self, source: Source, index: u32, deadline: Instant) -> Option<Finality>;

    /// A durable accepted batch; none if it cannot be read yet.
    ///
    /// # Errors
    /// [`LogError::OutOfRange`] when it is gone.
    fn accepted(&self, source: Source) -> Result<Option<Arc<AcceptedBatch>>, LogError>;

    /// Where a transaction was accepted before it expired.
    ///
    /// # Errors
    /// When that cannot be read.
    fn earlier(&self, expired: &Expected, deadline: Instant) -> Result<Earlier, JournalError>;

    /// What has become of `pending`, waiting for it at most so long.
    fn answers(&self, pending: &Pending, limit: Duration) -> Vec<Answer> {
        let deadline = Instant::now() + limit;
        let notices = pending.notices(deadline);
        let answer = |(expected, notice): (&Expected, Option<Notice>)| {
            let Expected { id, uetr, .. } = *expected;
            let outcome = match notice {
                None => Outcome::Pending,
                Some(Notice::Refused(Refusal::Expired)) => self.before_expiry(expected, deadline),
                Some(Notice::Refused(refusal)) => Outcome::Refused(refusal),
                Some(Notice::Final(_, _, finality)) => Outcome::Final(finality),
                Some(Notice::Duplicate(source, index)) => self.first_use(&id, source, index, deadline),
            };
            Answer { id, uetr, outcome }
        };
        pending.expected.iter().zip(notices).map(answer).collect()
    }

    /// The outcome of a transaction that is refused now because it has expired: whoever sends it again because the
    /// answer was lost must not be told that it was never made.
    fn before_expiry(&self, expired: &Expected, deadline: Instant) -> Outcome {
        match self.earlier(expired, deadline) {
            Ok(Earlier::Accepted(source, index)) => self.first_use(&expired.id, source, index, deadline),
            Ok(Earlier::Never) => Outcome::Refused(Refusal::Expired),
            Ok(Earlier::Unknown) | Err(_) => Outcome::Pending,
        }
    }

    /// The outcome of a transaction whose reference was used before. Nobody is told of a first use that a
    /// crash could still take back.
    fn first_use(&self, id: &TransactionId, source: Source, index: u32, deadline: Instant) -> Outcome {
        let outcome = self.outcome(source, index, deadline).map_or(Outcome::Pending, Outcome::Final);
        let first = match self.accepted(source) {
            Ok(Some(batch)) => batch.batch.transaction(index as usize),
            Err(LogError::OutOfRange { .. }) => return Outcome::Duplicate { first: None },
            // Not durable yet, or not to be read at present.
            Ok(None) | Err(_) => None,
        };
        match first {
            None => Outcome::Pending,
            Some(first) if first.id(self.network_id()) == *id => outcome,
            Some(first) => {
                let (id, uetr) = (first.id(self.network_id()), first.header.uetr);
                let answer = Answer { id, uetr, outcome };
                Outcome::Duplicate { first: Some(Box::new(FirstUse { answer, transaction: first })) }
            }
        }
    }
}
