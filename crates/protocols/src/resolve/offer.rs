//! The side that offers.

use std::collections::{BTreeMap, BTreeSet};

use borsh::BorshDeserialize;
use tally_contracts::{
    Attachment, AttachmentId, PublicKey, SignedTransaction, Timestamp, Transaction, TransactionId,
};
use tally_flows::{Context, FlowError, Session};

use super::attachments::{cut, parts};
use super::{ASKED, BATCH_BYTES, BATCH_TRANSACTIONS, Batch, PUSHED_BYTES, PUSHED_TRANSACTIONS, Part, Reply};
use crate::check::{contracts, dependencies_of};

/// What a receiver may ask for: the history of what it was offered, as far as it can know of it.
#[derive(Debug, Default)]
pub struct Offered {
    allowed: BTreeSet<TransactionId>,
    sent: BTreeSet<TransactionId>,
    /// What was asked for and given. A good receiver keeps what it gets, so that nobody makes this node send for ever.
    asked: BTreeSet<TransactionId>,
    /// The attachments of what was offered or handed out: how many parts of each were asked for.
    attachments: BTreeMap<AttachmentId, u32>,
    /// The attachment whose parts are being handed out.
    under_way: Option<Attachment>,
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

    /// Offers a transaction, and says what of its history to send along unasked. What `receiver` took part in, it has
    /// already.
    ///
    /// # Errors
    /// What the node refuses.
    pub async fn transaction(
        context: &Context,
        transaction: &Transaction,
        receiver: &PublicKey,
    ) -> Result<(Self, Vec<SignedTransaction>), FlowError> {
        let (mut offered, along) = Self::new(context, &dependencies_of(transaction), receiver).await?;
        offered.allow_attachments(transaction);
        Ok((offered, along))
    }

    /// Offers these transactions themselves, and what they build on.
    pub fn listed(transactions: &[TransactionId]) -> Self {
        Self { allowed: transactions.iter().copied().collect(), ..Self::default() }
    }

    /// Hands out history and attachments until the receiver answers, and gives that answer.
    ///
    /// # Errors
    /// [`FlowError::Unexpected`] when the receiver asks for what is not part of what it was offered; what the session
    /// fails with.
    pub async fn serve<T: BorshDeserialize>(
        &mut self,
        context: &Context,
        session: &Session,
    ) -> Result<T, FlowError> {
        self.hand_out(context, session, None).await
    }

    /// The same, but waits for each thing that the receiver says until `deadline` at most.
    ///
    /// # Errors
    /// [`FlowError::Timeout`], and those of [`Offered::serve`].
    pub async fn serve_until<T: BorshDeserialize>(
        &mut self,
        context: &Context,
        session: &Session,
        deadline: Timestamp,
    ) -> Result<T, FlowError> {
        self.hand_out(context, session, Some(deadline)).await
    }

    async fn hand_out<T: BorshDeserialize>(
        &mut self,
        context: &Context,
        session: &Session,
        deadline: Option<Timestamp>,
    ) -> Result<T, FlowError> {
        loop {
            let reply = match deadline {
                Some(deadline) => session.receive_until(deadline).await?,
                None => session.receive().await?,
            };
            match reply {
                Reply::Answer(answer) => return Ok(answer),
                Reply::Fetch(ids) => {
                    let batch = self.fetch(context, session, ids).await?;
                    session.send(&batch).await;
                }
                Reply::Part(id, number) => {
                    let part = self.part(context, session, id, number).await?;
                    session.send(&part).await;
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
            if self.asked.contains(id) {
                return Err(unexpected(format!("it asks for transaction {id} twice")));
            }
            self.sent.remove(id);
        }
        let first = ids[0];
        let room = Room { transactions: BATCH_TRANSACTIONS, bytes: BATCH_BYTES, first: true };
        let batch = self.gather(context, ids.clone(), room, None).await?;
        // What had no room is asked for again.
        let asked: BTreeSet<TransactionId> = ids.into_iter().collect();
        self.asked.extend(batch.iter().map(SignedTransaction::id).filter(|id| asked.contains(id)));
        if batch.is_empty() {
            return Err(FlowError::invalid(format!("transaction {first} is missing at this node")));
        }
        Ok(Batch(batch))
    }

    /// `None` when this node does not have the attachment.
    async fn part(
        &mut self,
        context: &Context,
        session: &Session,
        id: AttachmentId,
        number: u32,
    ) -> Result<Option<Part>, FlowError> {
        let unexpected = |reason: String| FlowError::Unexpected { party: session.peer().clone(), reason };
        let Some(next) = self.attachments.get_mut(&id) else {
            return Err(unexpected(format!(
                "it asks for attachment {id}, which is not part of what it was offered"
            )));
        };
        if number != *next {
            return Err(unexpected(format!(
                "it asks for part {number} of attachment {id}, the next one is {next}"
            )));
        }
        *next = next.saturating_add(1);
        if number == 0 {
            context.step("Sending attachments");
            self.under_way = None;
        }
        let found = match self.under_way.take().filter(|found| found.id() == id) {
            Some(found) => found,
            // One at a time is held in memory, however many there are.
            None => match context.attachment(id).await? {
                Some(found) => found,
                None => return Ok(None),
            },
        };
        let part = cut(&found, number).ok_or_else(|| {
            unexpected(format!("it asks for part {number} of attachment {id}, which has fewer"))
        })?;
        self.under_way = (*next < parts(part.length)).then_some(found);
        Ok(Some(part))
    }

    fn allow_attachments(&mut self, transaction: &Transaction) {
        for id in transaction.attachments() {
            self.attachments.entry(*id).or_default();
        }
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
                self.allow_attachments(found.transaction());
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
