//! The side that offers.

use std::collections::BTreeSet;

use borsh::BorshDeserialize;
use tally_contracts::{PublicKey, SignedTransaction, TransactionId};
use tally_flows::{Context, FlowError, Session};

use super::{ASKED, BATCH_BYTES, BATCH_TRANSACTIONS, Batch, PUSHED_BYTES, PUSHED_TRANSACTIONS, Reply};
use crate::check::{contracts, dependencies_of};

/// What a receiver may ask for: the history of what it was offered, as far as it can know of it.
#[derive(Debug, Default)]
pub struct Offered {
    allowed: BTreeSet<TransactionId>,
    sent: BTreeSet<TransactionId>,
    /// What was asked for. A good receiver keeps what it gets, so that nobody makes this node send for ever.
    asked: BTreeSet<TransactionId>,
}

/// How much fits into one message.
struct Room {
    transactions: usize,
    bytes: usize,
    /// One transaction has to fit, however large it is.
    first: bool,
}

impl Room {
    fn takes(&mut self, transaction: &SignedTransaction) -> bool {
        let bytes = transaction.transaction().encode().len();
        let fits = self.transactions > 0 && (self.first || bytes <= self.bytes);
        if fits {
            self.first = false;
            self.transactions -= 1;
            self.bytes = self.bytes.saturating_sub(bytes);
        }
        fits
    }
}

impl Offered {
    /// Offers what builds on these transactions, and says what of them to send along unasked. What `receiver` took
    /// part in, it has already.
    ///
    /// # Errors
    /// What the node refuses.
    pub async fn new(
        context: &Context,
        roots: &[TransactionId],
        receiver: &PublicKey,
    ) -> Result<(Self, Vec<SignedTransaction>), FlowError> {
        let mut offered = Self { allowed: roots.iter().copied().collect(), ..Self::default() };
        let room = Room { transactions: PUSHED_TRANSACTIONS, bytes: PUSHED_BYTES, first: false };
        let along = offered.gather(context, roots.to_vec(), room, Some(receiver)).await?;
        Ok((offered, along))
    }

    /// Hands out history until the receiver answers, and gives that answer.
    ///
    /// # Errors
    /// [`FlowError::Unexpected`] when the receiver asks for what is not part of the history; what the session fails
    /// with.
    pub async fn serve<T: BorshDeserialize>(
        &mut self,
        context: &Context,
        session: &Session,
    ) -> Result<T, FlowError> {
        loop {
            match session.receive().await? {
                Reply::Answer(answer) => return Ok(answer),
                Reply::Fetch(ids) => {
                    let batch = self.fetch(context, session, ids).await?;
                    session.send(&batch).await;
                }
            }
        }
    }

    async fn fetch(
        &mut self,
        context: &Context,
        session: &Session,
        ids: Vec<TransactionId>,
    ) -> Result<Batch, FlowError> {
        let unexpected = |reason: String| FlowError::Unexpected { party: session.peer().clone(), reason };
        if ids.is_empty() || ids.len() > ASKED {
            return Err(unexpected(format!(
                "it asks for {} transactions, 1 to {ASKED} are allowed",
                ids.len()
            )));
        }
        if let Some(id) = ids.iter().find(|id| !self.allowed.contains(*id)) {
            return Err(unexpected(format!(
                "it asks for transaction {id}, which is not part of what it was offered"
            )));
        }
        context.step("Sending history");
        for id in &ids {
            if !self.asked.insert(*id) {
                return Err(unexpected(format!("it asks for transaction {id} twice")));
            }
            self.sent.remove(id);
        }
        let first = ids[0];
        let room = Room { transactions: BATCH_TRANSACTIONS, bytes: BATCH_BYTES, first: true };
        let batch = self.gather(context, ids, room, None).await?;
        if batch.is_empty() {
            return Err(FlowError::invalid(format!("transaction {first} is missing at this node")));
        }
        Ok(Batch(batch))
    }

    /// Transactions from these on towards the oldest, breadth first, while there is room.
    async fn gather(
        &mut self,
        context: &Context,
        from: Vec<TransactionId>,
        mut room: Room,
        receiver: Option<&PublicKey>,
    ) -> Result<Vec<SignedTransaction>, FlowError> {
        let mut gathered = Vec::new();
        let mut level = from;
        while !level.is_empty() && room.transactions > 0 {
            level.retain(|id| !self.sent.contains(id));
            level.truncate(room.transactions);
            if level.is_empty() {
                break;
            }
            let mut next = Vec::new();
            for found in context.transactions(level).await?.into_iter().flatten() {
                if receiver.is_some_and(|receiver| took_part(&found, receiver)) {
                    continue;
                }
                if self.sent.contains(&found.id()) {
                    continue;
                }
                if !room.takes(&found) {
                    return Ok(gathered);
                }
                self.sent.insert(found.id());
                let dependencies = dependencies_of(found.transaction());
                self.allowed.extend(&dependencies);
                next.extend(dependencies);
                gathered.push(SignedTransaction::clone(&found));
            }
            level = next;
        }
        Ok(gathered)
    }
}

/// Did `receiver` take part in an output, so that the transaction was sent to it when it was made?
fn took_part(transaction: &SignedTransaction, receiver: &PublicKey) -> bool {
    transaction
        .transaction()
        .outputs()
        .iter()
        .any(|state| matches!(contracts().describe(state), Ok(Some(summary)) if summary.participants.contains(receiver)))
}
