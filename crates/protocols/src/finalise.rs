//! A transaction that everybody has signed becomes final and is recorded by everybody concerned.

use std::sync::Arc;

use tally_contracts::{Name, Party, PublicKey, SignedTransaction};
use tally_flows::{Context, FlowError, Responder, Session};

use crate::check::{self, contracts, dependencies_of, invalid};
use crate::notarise::notarise;
use crate::resolve::{Attachments, History, Offer, Offered, Reply};

/// What sessions are called in which a final transaction is handed over.
pub const NAME: &str = "Finalise";
/// The version of what is said in them.
pub const VERSION: u32 = 1;

/// Has the transaction notarised if it needs that, records it, hands it to the `others` and ends when each of them has
/// recorded it or has failed to. All signatures but the notary's are there and verified. A session that was opened before
/// is used for the party at its other end; whoever waits there calls [`receive`].
///
/// The transaction is recorded in the same unit in which it is sent, so no other party has it before this node does. A
/// party that fails to record it is noted, and the node delivers it again until it arrives; see
/// [`deliver`](crate::deliver).
///
/// # Errors
/// Before the notary is asked, [`FlowError::Refused`] when somebody takes part in an output who would not be told, and
/// [`FlowError::Invalid`] when the notary is none of this network, [`FlowError::TooLarge`]: nothing happened. Then those of [`notarise`]: what the
/// notary refuses leaves the transaction undone, anything else leaves the flow's outcome [`FlowError::Unknown`]. Once the
/// notary has signed there are none.
pub async fn finalise(
    context: &Context,
    transaction: SignedTransaction,
    others: &[Party],
    sessions: &[Session],
) -> Result<Arc<SignedTransaction>, FlowError> {
    everybody_is_told(context, &transaction, others)?;
    if transaction.transaction().needs_notary() {
        check::admissible(context, transaction.transaction()).await?;
    }
    let mut told: Vec<&Party> = Vec::new();
    for other in others {
        if other.name != context.me().name && !told.iter().any(|party| party.name == other.name) {
            told.push(other);
        }
    }
    let names: Vec<_> = told.iter().map(|party| party.name.clone()).collect();
    let transaction = conclude(context, transaction, &names, is_refusal).await?;
    let id = transaction.id();
    let mut open: Vec<(&Party, Session, Offered)> = Vec::new();
    for other in told {
        context.step("Sending");
        let session = sessions.iter().find(|session| *session.peer() == other.name);
        match send(context, &transaction, other, session).await {
            Ok((session, offered)) => open.push((other, session, offered)),
            Err(error) => context.undelivered(id, &other.name, &error).await?,
        }
    }
    for (other, session, mut offered) in open {
        // One party's failure neither keeps the others from what is final nor undoes it.
        if let Err(error) = offered.serve::<()>(context, &session).await {
            context.undelivered(id, &other.name, &error).await?;
        }
    }
    Ok(transaction)
}

/// Has the transaction made final by its notary, if it needs one, and records it. `told` is who has to have it then. An
/// error for which `is_refusal` holds says that it is not final.
pub(crate) async fn conclude(
    context: &Context,
    transaction: SignedTransaction,
    told: &[Name],
    is_refusal: impl Fn(&FlowError) -> bool,
) -> Result<Arc<SignedTransaction>, FlowError> {
    let id = transaction.id();
    context.submitting(&transaction, told).await;
    let transaction = if transaction.transaction().needs_notary() {
        match notarise(context, &transaction).await {
            Ok(attested) => attested,
            Err(error) => {
                if is_refusal(&error) {
                    context.decided(id, false).await;
                }
                return Err(error);
            }
        }
    } else {
        transaction
    };
    let transaction = Arc::new(transaction);
    context.step("Recording");
    context.record(vec![transaction.clone()]).await?;
    context.decided(id, true).await;
    Ok(transaction)
}

/// How a notary's flow fails that has looked and does not commit: it commits and answers in one unit, so that after it has
/// committed it can only be killed.
pub(crate) const NOT_COMMITTED: [&str; 4] = ["refused", "invalid", "unexpected", "too_large"];
/// How it fails when it has not looked.
const NOT_ASKED: [&str; 4] = ["busy", "unknown_flow", "version", "other_form"];

/// Does this answer to the first question say that the notary has not committed the transaction? Not if its flow was
/// killed or ended without an answer, or if its signature does not verify: it may have committed it before that.
fn is_refusal(error: &FlowError) -> bool {
    match error {
        FlowError::Counterparty { kind, .. } => {
            NOT_COMMITTED.contains(&kind.as_str()) || NOT_ASKED.contains(&kind.as_str())
        }
        FlowError::Conflict { .. } | FlowError::OutsideTimeWindow { .. } | FlowError::UnknownParty { .. } => {
            true
        }
        _ => false,
    }
}

/// Hands a final transaction to a party, in a session that waits for it if there is one.
pub(crate) async fn send(
    context: &Context,
    transaction: &SignedTransaction,
    to: &Party,
    waiting: Option<&Session>,
) -> Result<(Session, Offered), FlowError> {
    let (session, offered, history) = match waiting {
        // It has resolved the history when it agreed.
        Some(session) => (session.clone(), Offered::default(), Vec::new()),
        None => {
            let session = context.open_as(&to.name, NAME, VERSION).await?;
            let (offered, history) =
                Offered::transaction(context, transaction.transaction(), &to.key).await?;
            (session, offered, history)
        }
    };
    session.send(&Offer { transaction: transaction.clone(), history }).await;
    Ok((session, offered))
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
        let told = |key: &PublicKey| context.owns(key) || others.iter().any(|other| other.key == *key);
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
            check::past_notary(context, transaction.transaction(), &notaries)?;
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
            if !check::concerns(context, &ledger) {
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
