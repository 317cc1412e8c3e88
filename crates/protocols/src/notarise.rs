//! A notary attests that a transaction's inputs were not consumed before, its references are not consumed, and the
//! time is inside its window.
//!
//! A non-validating notary is shown just that, a validating one the whole transaction with its history. What it
//! commits is durable before its signature leaves, and the same transaction always gets the same answer.

use borsh::{BorshDeserialize, BorshSerialize};
use tally_contracts::{
    Group, Party, SignedTransaction, StateRef, TearOff, TimeWindow, Timestamp, TransactionId,
    TransactionSignature,
};
use tally_flows::{Commit, Committed, Context, FlowError, Notary, Responder, Session};

use crate::check::{self, dependencies_of, invalid};
use crate::resolve::{Attachments, History, Offer, Offered, Reply};

/// What sessions with a notary are called.
pub const NAME: &str = "Notarise";
/// The version of what is said in them.
pub const VERSION: u32 = 1;

/// What a notary is asked.
#[derive(Clone, Debug, BorshSerialize, BorshDeserialize)]
pub enum Question {
    /// By a part of the transaction: all inputs, all references, the time window, the notary, and nothing else.
    Part {
        /// The part.
        tear_off: TearOff,
        /// The requester's signature over the transaction's id: who answers for the request.
        requester: TransactionSignature,
    },
    /// By the whole of it, with all signatures but the notary's.
    Whole(Offer),
}

/// What a notary answers.
#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub enum Answer {
    /// The transaction is final.
    Signed(TransactionSignature),
    /// A state was consumed by another transaction.
    Conflict {
        /// That state.
        state: StateRef,
        /// That transaction.
        consumed_by: TransactionId,
    },
    /// The notary's time is outside the time window.
    OutsideTimeWindow {
        /// The notary's time.
        at: Timestamp,
    },
}

/// Has the transaction's notary make it final, and gives the notary's signature, verified. All other signatures must
/// be there.
///
/// # Errors
/// [`FlowError::Conflict`], [`FlowError::OutsideTimeWindow`]; [`FlowError::Invalid`] when the transaction needs no
/// notary, names one that is not of this network, or the notary's signature does not verify; what the notary refuses
/// with.
pub async fn notarise(
    context: &Context,
    transaction: &SignedTransaction,
) -> Result<TransactionSignature, FlowError> {
    let id = transaction.id();
    if !transaction.transaction().needs_notary() {
        return Err(FlowError::invalid(format!("transaction {id} has nothing that a notary attests")));
    }
    let notaries = context.notaries().await?;
    let notary = check::notary(transaction.transaction(), &notaries)?;
    context.step("Notarising");
    let answer = if notary.party == *context.me() {
        let facts = Facts::of(transaction);
        facts.decide(context, context.me().name.clone()).await?
    } else {
        ask(context, transaction, notary).await?
    };
    match answer {
        Answer::Signed(signature) => {
            let unexpected =
                |reason: String| FlowError::Unexpected { party: notary.party.name.clone(), reason };
            if signature.by != notary.party.key {
                return Err(unexpected(format!(
                    "a signature of {} instead of the notary's own",
                    signature.by
                )));
            }
            signature.verify(id).map_err(|error| {
                FlowError::invalid(format!(
                    "the notary's signature over transaction {id} does not verify: {}",
                    check::reasons(&error)
                ))
            })?;
            Ok(signature)
        }
        Answer::Conflict { state, consumed_by } => Err(FlowError::Conflict { state, consumed_by }),
        Answer::OutsideTimeWindow { at } => Err(FlowError::OutsideTimeWindow { at_ms: at.as_millis() }),
    }
}

async fn ask(
    context: &Context,
    transaction: &SignedTransaction,
    notary: &Notary,
) -> Result<Answer, FlowError> {
    let session = context.open_as(&notary.party.name, NAME, VERSION).await?;
    if notary.validating {
        let (mut offered, history) =
            Offered::transaction(context, transaction.transaction(), &notary.party.key).await?;
        session.send(&Question::Whole(Offer { transaction: transaction.clone(), history })).await;
        return offered.serve(context, &session).await;
    }
    let tear_off = transaction.transaction().tear_off_for_notary().map_err(|error| invalid(&error))?;
    let key = context.me().key;
    // Who requests has mostly signed the transaction anyway.
    let requester = match transaction.signatures().iter().find(|signature| signature.by == key) {
        Some(signature) => *signature,
        None => context.sign(&key, transaction.id()).await?,
    };
    session.exchange(&Question::Part { tear_off, requester }).await
}

/// The answer of a notary.
pub struct Notarise;

impl Responder for Notarise {
    const ANSWERS: &'static str = NAME;
    const VERSION: u32 = VERSION;

    async fn run(context: Context, session: Session) -> Result<(), FlowError> {
        let notaries = context.notaries().await?;
        let me = notaries
            .iter()
            .find(|notary| notary.party == *context.me())
            .ok_or_else(|| FlowError::refused(format!("{} is not a notary", context.me())))?;
        match session.receive().await? {
            Question::Part { tear_off, requester } if !me.validating => {
                let answer = part(&context, &session, &tear_off, &requester).await?;
                session.send(&answer).await;
            }
            Question::Whole(offer) if me.validating => {
                let answer = whole(&context, &session, offer, &notaries).await?;
                session.send(&Reply::Answer(answer)).await;
            }
            Question::Part { .. } => {
                return Err(FlowError::refused("this notary validates: show the whole transaction"));
            }
            Question::Whole(_) => {
                return Err(FlowError::refused(
                    "this notary does not validate: show a tear-off, not the transaction",
                ));
            }
        }
        Ok(())
    }
}

async fn part(
    context: &Context,
    session: &Session,
    tear_off: &TearOff,
    requester: &TransactionSignature,
) -> Result<Answer, FlowError> {
    context.step("Verifying");
    let facts = Facts::shown(tear_off)?;
    facts.check(context.me())?;
    let peer = context.party(session.peer()).await?;
    if requester.by != peer.key {
        return Err(FlowError::invalid(format!(
            "the request of {peer} is signed with {}, not with its own key",
            requester.by
        )));
    }
    requester.verify(facts.transaction).map_err(|error| {
        FlowError::invalid(format!("the requester's signature does not verify: {}", check::reasons(&error)))
    })?;
    facts.decide(context, peer.name).await
}

async fn whole(
    context: &Context,
    session: &Session,
    offer: Offer,
    notaries: &[Notary],
) -> Result<Answer, FlowError> {
    let Offer { transaction, history } = offer;
    let facts = Facts::of(&transaction);
    facts.check(context.me())?;
    context.step("Resolving");
    let roots = dependencies_of(transaction.transaction());
    let mut attachments = Attachments::from(session);
    let history = History::resolve(context, session, &mut attachments, &roots, history, notaries).await?;
    context.step("Verifying");
    check::signatures(&transaction, &[context.me().key], &[])?;
    let ledger =
        check::ledger_transaction(context, &mut attachments, transaction.transaction(), &history.at_hand)
            .await?;
    ledger.verify(check::contracts()).map_err(|error| invalid(&error))?;
    // Verified history is worth keeping even if this transaction comes too late.
    let mut verified = history.fresh;
    let answer = facts.decide(context, session.peer().clone()).await?;
    if let Answer::Signed(signature) = &answer {
        let signed = transaction.with(*signature).map_err(|error| invalid(&error))?;
        verified.push(std::sync::Arc::new(signed));
    }
    if !verified.is_empty() {
        context.step("Recording");
        context.record(verified).await?;
    }
    Ok(answer)
}

/// What a notary decides by.
struct Facts {
    transaction: TransactionId,
    inputs: Vec<StateRef>,
    references: Vec<StateRef>,
    notary: Party,
    time_window: Option<TimeWindow>,
}

impl Facts {
    fn of(transaction: &SignedTransaction) -> Self {
        let content = transaction.transaction();
        Self {
            transaction: content.id(),
            inputs: content.inputs().to_vec(),
            references: content.references().to_vec(),
            notary: content.notary().clone(),
            time_window: content.time_window(),
        }
    }

    /// # Errors
    /// A tear-off that hides what the notary has to see, or shows what is none of its business.
    fn shown(tear_off: &TearOff) -> Result<Self, FlowError> {
        let view = tear_off.for_notary().map_err(|error| invalid(&error))?;
        let beyond = [
            (Group::Outputs, tear_off.outputs().is_some()),
            (Group::Commands, tear_off.commands().is_some()),
            (Group::Signers, tear_off.signers().is_some()),
            (Group::Attachments, tear_off.attachments().is_some()),
            (Group::Contracts, tear_off.contracts().is_some()),
        ];
        if let Some((group, _)) = beyond.into_iter().find(|(_, shown)| *shown) {
            return Err(FlowError::refused(format!(
                "the tear-off shows {group:?}, which is not for a notary to see"
            )));
        }
        Ok(Self {
            transaction: view.id,
            inputs: view.inputs.to_vec(),
            references: view.references.to_vec(),
            notary: view.notary.clone(),
            time_window: view.time_window,
        })
    }

    fn check(&self, me: &Party) -> Result<(), FlowError> {
        let Self { transaction, notary, .. } = self;
        if notary != me {
            return Err(FlowError::refused(format!(
                "the notary of transaction {transaction} is {notary}, not {me}"
            )));
        }
        if self.inputs.is_empty() && self.references.is_empty() && self.time_window.is_none() {
            return Err(FlowError::refused(format!(
                "transaction {transaction} has nothing that a notary attests"
            )));
        }
        Ok(())
    }

    /// Commits and signs.
    async fn decide(self, context: &Context, requester: tally_contracts::Name) -> Result<Answer, FlowError> {
        let transaction = self.transaction;
        context.step("Committing");
        let committed = context
            .commit(Commit {
                inputs: self.inputs,
                references: self.references,
                transaction,
                time_window: self.time_window,
                requester,
            })
            .await?;
        Ok(match committed {
            Committed::Yes => {
                context.step("Signing");
                Answer::Signed(context.sign(&context.me().key, transaction).await?)
            }
            Committed::Conflict { state, consumed_by } => Answer::Conflict { state, consumed_by },
            Committed::OutsideTimeWindow { at } => Answer::OutsideTimeWindow { at },
        })
    }
}
