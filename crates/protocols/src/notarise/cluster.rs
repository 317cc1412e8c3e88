//! A clustered notary: its name is no node's, and its members are asked one after the other.
//!
//! ```text
//! who asks                 a member                          the cluster
//!    -- tear-off, consents -->
//!                             -- the same as evidence ---------->
//!                             <--- 2f + 1 signatures, or f + 1 refusals
//!    <-- all of them ---------
//! ```
//!
//! No member is believed. An attestation is verified against the composite key that the transaction names, a refusal
//! against the members of the cluster. Whatever else a member says, that it is busy, that the question is wrong, or
//! nothing, makes the next member be asked: it may be a lie, or another member may know better. A member that lies costs
//! time, and a transaction about which nobody gave proof in time is of unknown fate.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use tally_contracts::{CompositeKey, NetworkId, Party, Role, SignedTransaction, encode};
use tally_flows::{ClusterAnswer, Context, FlowError, Notaries, Notary, Reach, Session};
use tally_notary::{
    Cluster, Collector, Commit, Judge, Outcome, Progress, Request, TransactionForm, Unfounded,
};

use super::{Answer, Facts, NAME, Question, VERSION, asked, consented, consumers, show};
use crate::check::invalid;

/// How long a member has to answer in the first round. It doubles from round to round.
pub const FIRST_PATIENCE: Duration = Duration::from_secs(2);
/// How often all members are asked before the fate of the transaction is left unknown.
pub const ROUNDS: u32 = 4;

/// The largest request that members take: half of a message between them. All of them have the same limit.
pub const REQUEST_BYTES: usize = 1 << 20;

/// Asks the members until one proves what the cluster decided, and gives the transaction with the attestation.
///
/// # Errors
/// [`FlowError::Conflict`] and [`FlowError::OutsideTimeWindow`], proven. [`FlowError::Invalid`] before anybody was asked,
/// when no member that is right would take the question. [`FlowError::Timeout`] when nobody gave proof.
pub(super) async fn ask(
    context: &Context,
    transaction: &SignedTransaction,
    notary: &Notary,
) -> Result<SignedTransaction, FlowError> {
    let cluster = notary.kind.cluster(context.network()).map_err(|error| invalid(&error))?;
    let composite = cluster.composite().map_err(|error| invalid(&error))?;
    let question = show(context, transaction).await?;
    // Whether the evidence is sufficient follows from its bytes. So it is known here as well, while nobody has it yet.
    let judge = BlindJudge::new(context.network(), notary.party.clone());
    let own = request(Facts::of(transaction), context.me(), &question);
    judge.judge(&own).map_err(|error| invalid(&error))?;
    let bytes = encode(&own).len().saturating_add(tally_contracts::limits::NAME_BYTES);
    if bytes > REQUEST_BYTES {
        return Err(FlowError::TooLarge {
            what: "what a clustered notary has to see of the transaction".to_owned(),
            bytes: bytes as u64,
            limit: REQUEST_BYTES as u64,
        });
    }
    let members = cluster.members();
    let first = usize::from(transaction.id().as_bytes()[0]) % members.len();
    let mut patience = FIRST_PATIENCE;
    for _ in 0..ROUNDS {
        let round = context.now().await;
        // A member that is away does not hold up those who can ask another one: it is asked last, in case that it is this
        // node that cannot be heard.
        let mut order: VecDeque<_> = members.iter().cycle().skip(first).take(members.len()).collect();
        let mut silent = BTreeSet::new();
        while let Some(member) = order.pop_front() {
            match context.reach(&member.name).await {
                Reach::Open => {}
                Reach::Full => continue,
                Reach::Silent => {
                    if silent.insert(&member.name) {
                        order.push_back(member);
                        continue;
                    }
                }
            }
            let until = context.now().await.saturating_add(patience);
            let answer = match context.open_as(&member.name, NAME, VERSION).await {
                Ok(session) => session.until(until).exchange::<_, Answer>(&question).await,
                Err(error) => Err(error),
            };
            if let Ok(answer) = answer
                && let Some(decided) = proven(&cluster, &composite, transaction, answer)
            {
                return decided;
            }
        }
        // Members that answer at once without proof are not asked again at once.
        context.sleep_until(round.saturating_add(patience)).await;
        patience = patience.saturating_mul(2);
    }
    Err(FlowError::Timeout { party: notary.party.name.clone() })
}

/// What a member's answer proves; `None` if nothing.
fn proven(
    cluster: &Cluster,
    composite: &CompositeKey,
    transaction: &SignedTransaction,
    answer: Answer,
) -> Option<Result<SignedTransaction, FlowError>> {
    let id = transaction.id();
    match answer {
        Answer::Attested(signatures) => {
            // What is no attestation does not get among the signatures of the parties.
            if signatures.iter().any(|signature| signature.role != Role::Notary) {
                return None;
            }
            let attested = transaction.attested(composite, signatures).ok()?;
            let verifies =
                attested.attestations().all(|signature| signature.verify(Role::Notary, id).is_ok());
            (attested.is_attested() && verifies).then_some(Ok(attested))
        }
        Answer::Proven(answers) => {
            if answers.len() > cluster.members().len() {
                return None;
            }
            let mut collector = Collector::new(cluster, id);
            for answer in &answers {
                collector.take(answer, &TransactionForm);
            }
            match collector.progress() {
                Progress::Refused(Outcome::Conflict { state, consumed_by }) => {
                    Some(Err(FlowError::Conflict { state, consumed_by }))
                }
                Progress::Refused(Outcome::OutsideTimeWindow { at }) => {
                    Some(Err(FlowError::OutsideTimeWindow { at_ms: at.as_millis() }))
                }
                Progress::Refused(Outcome::Committed) | Progress::Committed(_) | Progress::Waiting => None,
            }
        }
        // The word of one member.
        Answer::Signed(_) | Answer::Conflict { .. } | Answer::OutsideTimeWindow { .. } => None,
    }
}

/// Does the question name a clustered notary?
pub(super) fn is_for_one(question: &Question) -> bool {
    let named = match question {
        Question::Part { tear_off, .. } => tear_off.notary(),
        Question::Whole(offer) => Some(offer.transaction.transaction().notary()),
    };
    named.is_some_and(|notary| notary.key.is_composite())
}

/// A member's answer: has the cluster decide what the requester may ask for.
pub(super) async fn answer(
    context: &Context,
    session: &Session,
    notaries: &Notaries,
    question: Question,
) -> Result<Answer, FlowError> {
    let Question::Part { tear_off, consumed, consents } = &question else {
        return Err(FlowError::OtherForm { wanted: "a tear-off".to_owned() });
    };
    let me = context.me();
    let facts = Facts::shown(tear_off)?;
    let notary = notaries
        .current(&facts.notary)
        .filter(|notary| notary.kind.has_member(&me.name))
        .ok_or_else(|| FlowError::refused(format!("{me} is no member of {}", facts.notary)))?;
    let (facts, _) = asked(context, session, &notary.party, tear_off, consumed, consents).await?;
    context.step("Deciding");
    Ok(match context.submit(request(facts, me, &question), session.peer()).await? {
        ClusterAnswer::Attested(signatures) => Answer::Attested(signatures),
        ClusterAnswer::Refused(answers) => Answer::Proven(answers),
    })
}

/// What a member asks of its cluster, in its own name.
fn request(facts: Facts, member: &Party, question: &Question) -> Request {
    let commit = Commit {
        inputs: facts.inputs,
        references: facts.references,
        transaction: facts.transaction,
        time_window: facts.time_window,
        requester: member.name.clone(),
    };
    Request { commit, evidence: encode(question) }
}

/// How members judge what is asked of a cluster that does not validate. The verdict follows from the bytes of the
/// request: what it asks for is what its evidence shows, of a transaction of this network and this notary, and all who
/// alone may consume the inputs consent. Who asked the member that took the request is that member's to check.
#[derive(Clone, Debug)]
pub struct BlindJudge {
    network: NetworkId,
    notary: Party,
}

impl BlindJudge {
    /// The judge of the clustered notary of that name and composite key.
    #[must_use]
    pub fn new(network: NetworkId, notary: Party) -> Self {
        Self { network, notary }
    }

    fn founded(&self, request: &Request) -> Result<(), FlowError> {
        let question = borsh::from_slice(&request.evidence).map_err(FlowError::invalid)?;
        let Question::Part { tear_off, consumed, consents } = question else {
            return Err(FlowError::refused("a whole transaction is shown"));
        };
        let facts = Facts::shown(&tear_off)?;
        facts.check(self.network, &self.notary)?;
        let wanted = consumers(&facts, &consumed)?;
        let others = consents.iter().filter(|signature| !wanted.contains(&signature.by)).count();
        // That of the requester.
        if others > 1 {
            return Err(FlowError::refused("more signatures are shown than are for a notary to see"));
        }
        consented(&facts, &wanted, &consents)?;
        let Commit { inputs, references, transaction, time_window, requester: _ } = &request.commit;
        let is_shown = *transaction == facts.transaction
            && *inputs == facts.inputs
            && *references == facts.references
            && *time_window == facts.time_window;
        if is_shown { Ok(()) } else { Err(FlowError::refused("other things are asked for than are shown")) }
    }
}

impl Judge for BlindJudge {
    fn judge(&self, request: &Request) -> Result<(), Unfounded> {
        self.founded(request).map_err(|error| Unfounded(error.to_string()))
    }
}
