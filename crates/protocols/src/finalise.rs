//! A transaction that everybody has signed becomes final and is recorded by everybody concerned.

use std::sync::Arc;

use tally_contracts::{Party, PublicKey, SignedTransaction};
use tally_flows::{Context, FlowError, Responder, Session};

use crate::check::{self, contracts, dependencies_of, invalid};
use crate::notarise::notarise;
use crate::resolve::{Attachments, History, Offer, Offered, Reply};

/// What sessions are called in which a final transaction is handed over.
pub const NAME: &str = "Finalise";
/// The version of what is said in them.
pub const VERSION: u32 = 1;

/// Has the transaction notarised if it needs that, records it, hands it to the `others` and ends when all of them have
/// recorded it. All signatures but the notary's are there and verified. A session that was opened before is used for
/// the party at its other end; whoever waits there calls [`receive`].
///
/// The transaction is recorded in the same unit in which it is sent, so no other party has it before this node does.
///
/// # Errors
/// Those of [`notarise`]. Before that, [`FlowError::Refused`] when somebody takes part in an output who would not be
/// told. After it the transaction is final whatever happens; the first failure of another party is given once all
/// have answered.
pub async fn finalise(
    context: &Context,
    transaction: SignedTransaction,
    others: &[Party],
    sessions: &[Session],
) -> Result<Arc<SignedTransaction>, FlowError> {
    everybody_is_told(context, &transaction, others)?;
    let transaction = if transaction.transaction().needs_notary() {
        let signature = notarise(context, &transaction).await?;
        transaction.with(signature).map_err(|error| invalid(&error))?
    } else {
        transaction
    };
    let transaction = Arc::new(transaction);
    context.step("Recording");
    context.record(vec![transaction.clone()]).await?;
    let mut open: Vec<(Session, Offered)> = Vec::new();
    for other in others {
        if *other == *context.me() || open.iter().any(|(session, _)| *session.peer() == other.name) {
            continue;
        }
        context.step("Sending");
        let (session, offered, history) = match sessions.iter().find(|session| *session.peer() == other.name)
        {
            // It has resolved the history when it agreed.
            Some(session) => (session.clone(), Offered::default(), Vec::new()),
            None => {
                let session = context.open_as(&other.name, NAME, VERSION).await?;
                let (offered, history) =
                    Offered::transaction(context, transaction.transaction(), &other.key).await?;
                (session, offered, history)
            }
        };
        session.send(&Offer { transaction: SignedTransaction::clone(&transaction), history }).await;
        open.push((session, offered));
    }
    let mut failure = None;
    for (session, offered) in &mut open {
        // One party's failure must not keep the others from what is final.
        if let Err(error) = offered.serve::<()>(context, session).await {
            failure.get_or_insert(error);
        }
    }
    failure.map_or(Ok(transaction), Err)
}

/// # Errors
/// A participant of an output who is neither this node nor one of the `others`.
fn everybody_is_told(
    context: &Context,
    transaction: &SignedTransaction,
    others: &[Party],
) -> Result<(), FlowError> {
    for (index, state) in transaction.transaction().outputs().iter().enumerate() {
        let summary = contracts().describe(state).map_err(|error| invalid(&error))?;
        let participants = summary.map(|summary| summary.participants).unwrap_or_default();
        let told = |key: &PublicKey| context.me().key == *key || others.iter().any(|other| other.key == *key);
        if let Some(forgotten) = participants.iter().find(|key| !told(key)) {
            return Err(FlowError::refused(format!(
                "{forgotten} takes part in output {index} of transaction {} and would not be told",
                transaction.id()
            )));
        }
    }
    Ok(())
}

/// Receives a final transaction, verifies it with its history, records it and says so. If this node has `agreed` to
/// it before, with the signatures that it has verified then, only what is new since is verified.
///
/// # Errors
/// [`FlowError::Invalid`] for what does not verify, [`FlowError::Unexpected`] for another transaction than the one
/// agreed to, [`FlowError::Refused`] for one that does not concern this node; what the session fails with.
pub async fn receive(
    context: &Context,
    session: &Session,
    agreed: Option<&SignedTransaction>,
) -> Result<Arc<SignedTransaction>, FlowError> {
    let Offer { transaction, history } = session.receive().await?;
    let id = transaction.id();
    if let Some(agreed) = agreed
        && agreed.id() != id
    {
        let reason = format!("transaction {id} instead of {}, which was agreed to", agreed.id());
        return Err(FlowError::Unexpected { party: session.peer().clone(), reason });
    }
    let notaries = context.notaries().await?;
    let fresh = match agreed {
        Some(agreed) => {
            context.step("Verifying");
            check::signatures(&transaction, agreed.signatures())?;
            check::consent_to_recorded(context, &transaction).await?;
            Vec::new()
        }
        None => {
            if context.known(vec![id]).await?.first() == Some(&true) {
                session.send(&Reply::Answer(())).await;
                return Ok(Arc::new(transaction));
            }
            // Cheap refusals first: nobody makes this node fetch a history for what is not signed.
            context.step("Verifying");
            check::notary(context, transaction.transaction(), &notaries)?;
            check::signatures(&transaction, &[])?;
            let roots = dependencies_of(transaction.transaction());
            let mut attachments = Attachments::from(session);
            let history =
                History::resolve(context, session, &mut attachments, &roots, history, &notaries).await?;
            let ledger = check::finished(
                context,
                &mut attachments,
                &transaction,
                &history.at_hand,
                &notaries,
                transaction.signatures(),
            )
            .await?;
            check::in_use(&ledger)?;
            if !check::concerns(&ledger, &context.me().key) {
                return Err(FlowError::refused(format!(
                    "transaction {id} does not concern {}",
                    context.me()
                )));
            }
            history.fresh
        }
    };
    let transaction = Arc::new(transaction);
    context.step("Recording");
    let mut verified = fresh;
    verified.push(transaction.clone());
    context.record(verified).await?;
    session.send(&Reply::Answer(())).await;
    Ok(transaction)
}

/// The answer to a final transaction.
pub struct Finalise;

impl Responder for Finalise {
    const ANSWERS: &'static str = NAME;
    const VERSION: u32 = VERSION;

    async fn run(context: Context, session: Session) -> Result<(), FlowError> {
        receive(&context, &session, None).await.map(|_| ())
    }
}
