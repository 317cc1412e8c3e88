//! A notary attests that a transaction's inputs were not consumed before, its references are not consumed, and the
//! time is inside its window.
//!
//! A non-validating notary is shown just that, and that those consent who alone may consume the inputs; a validating one
//! the whole transaction with its history. What it commits is durable before its signature leaves, and the same
//! transaction always gets the same answer.
//!
//! A notary signs with the key of its service, as a notary: what it signs here never counts as the signature of a party.
//!
//! A clustered notary is asked through its members, one after the other.

use std::collections::{BTreeMap, BTreeSet};

use borsh::{BorshDeserialize, BorshSerialize};
use tally_contracts::{
    Group, Name, NetworkId, Party, PublicKey, Role, SignedTransaction, StateRef, TearOff, TimeWindow,
    Timestamp, TransactionId, TransactionSignature, Visible,
};
use tally_flows::{Commit, Committed, Context, FlowError, Notaries, Notary, Responder, Session};
use tally_notary::SignedAnswer;

use crate::check::{self, dependencies_of, invalid};
use crate::resolve::{Attachments, History, Offer, Offered, Reply, recorded};

mod cluster;

pub use cluster::{BlindJudge, FIRST_PATIENCE, REQUEST_BYTES, ROUNDS};

/// What sessions with a notary are called.
pub const NAME: &str = "Notarise";
/// The version of what is said in them.
pub const VERSION: u32 = 2;

/// What a notary is asked.
#[derive(Clone, Debug, BorshSerialize, BorshDeserialize)]
pub enum Question {
    /// By a part of the transaction: all inputs, all references, the time window, the notary, and nothing else.
    Part {
        /// The part.
        tear_off: TearOff,
        /// Of each transaction whose outputs are consumed: whose signatures consume them, and nothing else.
        consumed: Vec<TearOff>,
        /// The signatures of all of those, as parties, and that of the requester, who answers for the request.
        consents: Vec<TransactionSignature>,
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
    /// A clustered notary has made the transaction final: signatures of its members.
    Attested(Vec<TransactionSignature>),
    /// A clustered notary refuses the transaction for good: equal answers of more members than may lie.
    Proven(Vec<SignedAnswer>),
}

/// Has the transaction's notary make it final, and gives the transaction with the notary's signature, verified; of a
/// clustered notary with those of its members. All other signatures must be there.
///
/// # Errors
/// [`FlowError::Conflict`], [`FlowError::OutsideTimeWindow`]; [`FlowError::Invalid`] when the transaction needs no
/// notary, names one that is not of this network, or the notary's signature does not verify; what the notary refuses
/// with.
pub async fn notarise(
    context: &Context,
    transaction: &SignedTransaction,
) -> Result<SignedTransaction, FlowError> {
    let id = transaction.id();
    if !transaction.transaction().needs_notary() {
        return Err(FlowError::invalid(format!("transaction {id} has nothing that a notary attests")));
    }
    let notaries = context.notaries().await?;
    let notary = check::notary(context, transaction.transaction(), &notaries)?;
    context.step("Notarising");
    if notary.kind.is_clustered() {
        return cluster::ask(context, transaction, notary).await;
    }
    let unexpected = |reason: String| FlowError::Unexpected { party: notary.party.name.clone(), reason };
    let answer = if notary.party.name == context.me().name {
        let facts = Facts::of(transaction);
        facts.decide(context, &notary.party.key, context.me().name.clone()).await?
    } else {
        ask(context, transaction, notary).await?
    };
    match answer {
        Answer::Signed(signature) => {
            if signature.by != notary.party.key {
                return Err(unexpected(format!(
                    "a signature of {} instead of the notary's own",
                    signature.by
                )));
            }
            signature.verify(Role::Notary, id).map_err(|error| {
                FlowError::invalid(format!(
                    "the notary's signature over transaction {id} does not verify: {}",
                    check::reasons(&error)
                ))
            })?;
            transaction.with(signature).map_err(|error| invalid(&error))
        }
        Answer::Conflict { state, consumed_by } => Err(FlowError::Conflict { state, consumed_by }),
        Answer::OutsideTimeWindow { at } => Err(outside_time_window(transaction, at)),
        // It says of itself that it is another kind of notary than the network says: what it did is not known.
        Answer::Attested(_) | Answer::Proven(_) => Err(unexpected("the answer of a cluster".to_owned())),
    }
}

/// What it means that a notary found a transaction outside its time window. Before the window that is no refusal: the
/// notary remembers nothing of it and takes the transaction later, from whoever brings it.
fn outside_time_window(transaction: &SignedTransaction, at: Timestamp) -> FlowError {
    match transaction.transaction().time_window() {
        Some(window) if window.from.is_some_and(|from| at < from) => FlowError::refused(format!(
            "the notary takes the transaction {window}, and its time is {at}: it is asked again"
        )),
        _ => FlowError::OutsideTimeWindow { at_ms: at.as_millis() },
    }
}

async fn ask(
    context: &Context,
    transaction: &SignedTransaction,
    notary: &Notary,
) -> Result<Answer, FlowError> {
    let session = context.open_as(&notary.party.name, NAME, VERSION).await?;
    if notary.kind.is_validating() {
        let (mut offered, history) =
            Offered::transaction(context, transaction.transaction(), &notary.party.key).await?;
        session.send(&Question::Whole(Offer { transaction: transaction.clone(), history })).await;
        return offered.serve(context, &session).await;
    }
    session.exchange(&show(context, transaction).await?).await
}

/// The question of a notary that does not validate.
async fn show(context: &Context, transaction: &SignedTransaction) -> Result<Question, FlowError> {
    let tear_off = transaction.transaction().tear_off_for_notary().map_err(|error| invalid(&error))?;
    let consumed = consumers_of_inputs(context, transaction).await?;
    let key = context.me().key;
    let signatures = transaction.signatures().iter().filter(|signature| signature.role == Role::Party);
    let mut consents: Vec<_> = signatures
        .filter(|signature| signature.by == key || consumed.keys.contains(&signature.by))
        .copied()
        .collect();
    // Who requests has mostly signed the transaction anyway.
    if !consents.iter().any(|signature| signature.by == key) {
        consents.push(context.sign(&key, Role::Party, transaction.id()).await?);
    }
    Ok(Question::Part { tear_off, consumed: consumed.tear_offs, consents })
}

/// Who consumes the inputs of a transaction, with proof.
struct Consumed {
    tear_offs: Vec<TearOff>,
    keys: BTreeSet<PublicKey>,
}

async fn consumers_of_inputs(
    context: &Context,
    transaction: &SignedTransaction,
) -> Result<Consumed, FlowError> {
    let mut indices: BTreeMap<TransactionId, Vec<u32>> = BTreeMap::new();
    for input in transaction.transaction().inputs() {
        indices.entry(input.transaction).or_default().push(input.index);
    }
    let made_by = recorded(context, indices.keys().copied().collect()).await?;
    let (mut tear_offs, mut keys) = (Vec::with_capacity(indices.len()), BTreeSet::new());
    for (id, indices) in &indices {
        let Some(found) = made_by.get(id) else { continue };
        let shown = found.transaction().tear_off_of_consumers(indices).map_err(|error| invalid(&error))?;
        keys.extend(shown.consumers().into_iter().flat_map(Visible::values).flatten().copied());
        tear_offs.push(shown);
    }
    Ok(Consumed { tear_offs, keys })
}

/// The answer of a notary.
pub struct Notarise;

impl Responder for Notarise {
    const ANSWERS: &'static str = NAME;
    const VERSION: u32 = VERSION;

    async fn run(context: Context, session: Session) -> Result<(), FlowError> {
        let notaries = context.notaries().await?;
        let name = &context.me().name;
        let alone = notaries.named(name).filter(|notary| !notary.kind.is_clustered());
        let is_member = notaries.current.iter().any(|notary| notary.kind.has_member(name));
        let stranger = || FlowError::refused(format!("{} is not a notary", context.me()));
        if alone.is_none() && !is_member {
            return Err(stranger());
        }
        let question: Question = session.receive().await?;
        if is_member && cluster::is_for_one(&question) {
            let answer = cluster::answer(&context, &session, &notaries, question).await?;
            session.send(&answer).await;
            return Ok(());
        }
        let me = alone.ok_or_else(stranger)?;
        match question {
            Question::Part { tear_off, consumed, consents } if !me.kind.is_validating() => {
                let answer = part(&context, &session, &me.party, &tear_off, &consumed, &consents).await?;
                session.send(&answer).await;
            }
            Question::Whole(offer) if me.kind.is_validating() => {
                let answer = whole(&context, &session, me, offer, &notaries).await?;
                session.send(&Reply::Answer(answer)).await;
            }
            Question::Part { .. } => {
                return Err(FlowError::OtherForm { wanted: "the whole transaction".to_owned() });
            }
            Question::Whole(_) => {
                return Err(FlowError::OtherForm { wanted: "a tear-off".to_owned() });
            }
        }
        Ok(())
    }
}

async fn part(
    context: &Context,
    session: &Session,
    me: &Party,
    tear_off: &TearOff,
    consumed: &[TearOff],
    consents: &[TransactionSignature],
) -> Result<Answer, FlowError> {
    let (facts, peer) = asked(context, session, me, tear_off, consumed, consents).await?;
    facts.decide(context, &me.key, peer).await
}

/// What the requester shows to a notary that does not validate, checked: all consent who consume an input, the requester
/// answers for the request, and nothing is shown beyond that.
async fn asked(
    context: &Context,
    session: &Session,
    notary: &Party,
    tear_off: &TearOff,
    consumed: &[TearOff],
    consents: &[TransactionSignature],
) -> Result<(Facts, Name), FlowError> {
    context.step("Verifying");
    let facts = Facts::shown(tear_off)?;
    facts.check(context.network(), notary)?;
    let peer = context.party(session.peer()).await?;
    let mut wanted = consumers(&facts, consumed)?;
    wanted.insert(requester(context, &peer, consents).await?);
    if let Some(stranger) = consents.iter().find(|signature| !wanted.contains(&signature.by)) {
        return Err(FlowError::refused(format!(
            "{} signs, who neither consumes an input nor asks, which is not for a notary to see",
            stranger.by
        )));
    }
    consented(&facts, &wanted, consents)?;
    Ok((facts, peer.name))
}

/// The key with which the one who asks answers for the request: its present one, or where that has not signed one that it
/// had before. What it began under a former key it ends under that one.
async fn requester(
    context: &Context,
    peer: &Party,
    consents: &[TransactionSignature],
) -> Result<PublicKey, FlowError> {
    if consents.iter().any(|signature| signature.by == peer.key) {
        return Ok(peer.key);
    }
    let parties = consents.iter().map(|signature| Party { name: peer.name.clone(), key: signature.by });
    let parties: Vec<Party> = parties.collect();
    let certified = context.certified(parties.clone()).await?;
    let former = parties.iter().zip(certified).find(|(_, certified)| *certified);
    Ok(former.map_or(peer.key, |(party, _)| party.key))
}

/// Checks that each of these keys has signed as a party, and that no key is there twice.
///
/// # Errors
/// The first that has not.
fn consented(
    facts: &Facts,
    wanted: &BTreeSet<PublicKey>,
    consents: &[TransactionSignature],
) -> Result<(), FlowError> {
    let signers: BTreeSet<&PublicKey> = consents.iter().map(|signature| &signature.by).collect();
    if signers.len() < consents.len() {
        return Err(FlowError::refused("two signatures of one key are shown"));
    }
    for key in wanted {
        let consent = consents.iter().find(|signature| signature.by == *key);
        let consent = consent.ok_or_else(|| {
            FlowError::invalid(format!("{key} has to sign, who consumes an input or asks, and does not"))
        })?;
        consent.verify(Role::Party, facts.transaction).map_err(|error| {
            FlowError::invalid(format!("the signature of {key} does not verify: {}", check::reasons(&error)))
        })?;
    }
    Ok(())
}

/// Whose signatures consume the inputs, as the transactions that made them say.
///
/// # Errors
/// An input of which that is not shown, or more than that.
fn consumers(facts: &Facts, consumed: &[TearOff]) -> Result<BTreeSet<PublicKey>, FlowError> {
    let by_id: BTreeMap<TransactionId, &TearOff> =
        consumed.iter().map(|tear_off| (tear_off.id(), tear_off)).collect();
    if let Some(group) = consumed.iter().find_map(|tear_off| shown_beyond(tear_off, &[Group::Consumers])) {
        return Err(FlowError::refused(format!(
            "a tear-off of what is consumed shows {group:?}, which is not for a notary to see"
        )));
    }
    let mut keys = BTreeSet::new();
    for input in &facts.inputs {
        let shown = by_id.get(&input.transaction).filter(|tear_off| tear_off.network() == facts.network);
        let consumers = shown.and_then(|tear_off| tear_off.consumers()?.get(input.index));
        let consumers = consumers
            .ok_or_else(|| FlowError::invalid(format!("it is not shown whose signatures consume {input}")))?;
        keys.extend(consumers.iter().copied());
    }
    // Whatever else is shown would be kept for nothing by each member of a cluster.
    let makers: BTreeSet<TransactionId> = facts.inputs.iter().map(|input| input.transaction).collect();
    if let Some(id) = by_id.keys().find(|id| !makers.contains(id)) {
        return Err(FlowError::refused(format!("transaction {id} is shown, of which no output is consumed")));
    }
    if by_id.len() < consumed.len() {
        return Err(FlowError::refused("the consumers of one transaction are shown twice"));
    }
    Ok(keys)
}

/// A group of which a tear-off shows something, other than the `wanted` ones.
fn shown_beyond(tear_off: &TearOff, wanted: &[Group]) -> Option<Group> {
    let shown = [
        (Group::Inputs, tear_off.inputs().is_some()),
        (Group::References, tear_off.references().is_some()),
        (Group::Outputs, tear_off.outputs().is_some()),
        (Group::Commands, tear_off.commands().is_some()),
        (Group::Signers, tear_off.signers().is_some()),
        (Group::Attachments, tear_off.attachments().is_some()),
        (Group::Contracts, tear_off.contracts().is_some()),
        (Group::Notary, tear_off.notary().is_some()),
        (Group::TimeWindow, tear_off.time_window().is_some()),
        (Group::Consumers, tear_off.consumers().is_some()),
    ];
    shown.into_iter().find(|(group, shown)| *shown && !wanted.contains(group)).map(|(group, _)| group)
}

async fn whole(
    context: &Context,
    session: &Session,
    me: &Notary,
    offer: Offer,
    notaries: &Notaries,
) -> Result<Answer, FlowError> {
    let Offer { transaction, history } = offer;
    let facts = Facts::of(&transaction);
    facts.check(context.network(), &me.party)?;
    // Cheap refusals first: nobody makes a notary fetch a history for what is not signed. What was committed when more
    // was allowed gets the answer that it got.
    if context.known(vec![transaction.id()]).await?.first() != Some(&true) {
        check::size(context, transaction.transaction(), me).await?;
    }
    check::parties(&transaction, &[], &[])?;
    context.step("Resolving");
    let roots = dependencies_of(transaction.transaction());
    let mut attachments = Attachments::from(session);
    let history = History::resolve(context, session, &mut attachments, &roots, history, notaries).await?;
    context.step("Verifying");
    let ledger =
        check::ledger_transaction(context, &mut attachments, transaction.transaction(), &history.at_hand)
            .await?;
    ledger.verify_new(check::contracts()).map_err(|error| invalid(&error))?;
    check::consent(&transaction, ledger.inputs(), &[])?;
    check::identities(context, &ledger).await?;
    // Verified history is worth keeping even if this transaction comes too late.
    let mut verified = history.fresh;
    let answer = facts.decide(context, &me.party.key, session.peer().clone()).await?;
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
    network: NetworkId,
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
            network: content.network(),
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
        let wanted = [Group::Inputs, Group::References, Group::Notary, Group::TimeWindow];
        if let Some(group) = shown_beyond(tear_off, &wanted) {
            return Err(FlowError::refused(format!(
                "the tear-off shows {group:?}, which is not for a notary to see"
            )));
        }
        Ok(Self {
            network: tear_off.network(),
            transaction: view.id,
            inputs: view.inputs.to_vec(),
            references: view.references.to_vec(),
            notary: view.notary.clone(),
            time_window: view.time_window,
        })
    }

    fn check(&self, this: NetworkId, me: &Party) -> Result<(), FlowError> {
        let Self { network, transaction, notary, .. } = self;
        if *network != this {
            return Err(FlowError::refused(format!(
                "transaction {transaction} is of network {network}, not of this one"
            )));
        }
        if notary.name == me.name && notary.key != me.key {
            // Not a refusal, after which its inputs could be spent otherwise.
            return Err(FlowError::FormerKey { transaction: *transaction, key: notary.key });
        }
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

    /// Commits and signs with `key`, as a notary.
    async fn decide(self, context: &Context, key: &PublicKey, requester: Name) -> Result<Answer, FlowError> {
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
                Answer::Signed(context.sign(key, Role::Notary, transaction).await?)
            }
            Committed::Conflict { state, consumed_by } => Answer::Conflict { state, consumed_by },
            Committed::OutsideTimeWindow { at } => Answer::OutsideTimeWindow { at },
        })
    }
}
