//! Recovery: a node whose database was lost, or is older than it was, gets back from its peers what it lacks.
//!
//! ```text
//! the node that recovers            each peer on the map, notaries too
//!    -- which transactions are we both in, from place n on? -->
//!    <------------------------- ids, and where to go on from --
//!    -- those that I lack, and what they build on ------------>     (as for an offer, see `resolve`)
//!    <---------------------------------------- transactions --
//!                                 ... until there are no more, and nothing new on the last page
//!    -- by what are these states consumed? ------------------->     (notaries)
//!    <------------------------------------------------- ids --
//! ```
//!
//! Everything is verified as if it were new, so a peer that lies can withhold and cannot forge. A peer names only
//! transactions in which the asking node takes part: it signs them, or is a participant of an output, under any key that
//! the network certified its name with. A state that is consumed by a transaction which nobody gave is marked as consumed and never spent.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use borsh::{BorshDeserialize, BorshSerialize};
use serde::{Deserialize, Serialize};
use tally_contracts::{Name, PublicKey, SignedTransaction, StateRef, TransactionId};
use tally_flows::{Context, Flow, FlowError, Notaries, Notary, Responder, Session, Shared};

use crate::check::{contracts, invalid};
use crate::resolve::{Attachments, History, Offered, Reply};

/// How long a peer has for each page, in milliseconds, unless it is said otherwise.
pub const WAIT_MS: u64 = 30_000;
/// Most states that a notary is asked for at once.
pub const STATES: usize = 1_000;
/// How many times [`WAIT_MS`] a peer has for all its pages, and how long it has besides for each transaction that it
/// gives: a peer that is slow on purpose holds a recovery up for so long and no longer.
const WAITS: u32 = 40;
const FOR_EACH_TRANSACTION: Duration = Duration::from_millis(20);
/// How long a node that was asked waits for the next question.
const UNHEARD: Duration = Duration::from_secs(600);
/// Most pages that one peer gives: more is no ledger that it shares with this node.
const PAGES: u32 = 100_000;
/// After how many pages another session begins. What a flow remembers of a session is bounded, and grows with each
/// transaction that comes in it.
pub const PAGES_OF_A_SESSION: u32 = 100;

/// Whom to ask, and how long to wait.
#[derive(Clone, Debug, Default, BorshSerialize, BorshDeserialize, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecoverArguments {
    /// The peers to ask; everybody on the network map if absent or empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub peers: Vec<Name>,
    /// How long a peer has for each page, in milliseconds; [`WAIT_MS`] if absent. For all its pages it has forty times
    /// that, and 20 ms for each transaction that it gives.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_ms: Option<u64>,
}

/// What a recovery came to.
#[derive(Clone, Debug, Default, PartialEq, Eq, BorshSerialize, BorshDeserialize, Serialize)]
pub struct Recovered {
    /// Each peer that told all that it has, and how many transactions came from it that this node lacked.
    pub peers: Vec<FromPeer>,
    /// Peers that did not answer in time, did not tell everything, or told what does not verify, with the reason. What
    /// they gave before is kept; the recovery may be run again.
    pub incomplete: Vec<Incomplete>,
    /// States that were consumed by transactions which no peer gave. They are not spent.
    pub consumed: Vec<ConsumedElsewhere>,
    /// How many states of the vault are of notaries that did not say whether they are consumed.
    pub unknown_states: u64,
}

/// What one peer gave.
#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize, Serialize)]
pub struct FromPeer {
    /// The peer.
    pub party: Name,
    /// Transactions in which this node takes part and that it lacked; not those that they build on.
    pub transactions: u64,
}

/// A peer from which not everything came.
#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize, Serialize)]
pub struct Incomplete {
    /// The peer.
    pub party: Name,
    /// Why.
    pub reason: String,
}

/// A state that a transaction consumed which nobody gave.
#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize, Serialize)]
pub struct ConsumedElsewhere {
    /// The state.
    pub state: StateRef,
    /// The transaction, by its notary's word.
    pub by: TransactionId,
}

/// What the node that recovers asks.
#[derive(Clone, Debug, BorshSerialize, BorshDeserialize)]
enum Question {
    /// In which transactions are both nodes, from this place of the peer's ledger on? Answered by [`Shared`], after which
    /// the transactions may be fetched.
    Shared(u64),
    /// By which transactions are these states consumed? Answered by one `Option<TransactionId>` for each.
    Consumers(Vec<StateRef>),
    /// Nothing more.
    Nothing,
}

/// Gets back what this node's database lacks, and lets the node take work again.
pub struct Recover;

impl Flow for Recover {
    const NAME: &'static str = "Recover";
    const VERSION: u32 = 1;
    const ARGUMENTS: &'static [(&'static str, &'static str)] = &[
        ("peers", "whom to ask; everybody on the network map if absent"),
        (
            "wait_ms",
            "how many milliseconds a peer has for each page, and forty times that for all; 30000 if absent",
        ),
    ];
    type Arguments = RecoverArguments;
    type Output = Recovered;

    async fn run(context: Context, arguments: RecoverArguments) -> Result<Recovered, FlowError> {
        let wait = Duration::from_millis(arguments.wait_ms.unwrap_or(WAIT_MS));
        let mut peers = arguments.peers;
        if peers.is_empty() {
            peers = context.parties().await?;
        }
        peers.retain(|peer| *peer != context.me().name);
        let notaries = context.notaries().await?;
        let mut report = Recovered::default();
        for party in peers {
            context.step("Asking a peer");
            let mut transactions = 0;
            match from_peer(&context, &party, &notaries, wait, &mut transactions).await {
                Ok(()) => report.peers.push(FromPeer { party, transactions }),
                Err(error) => report.incomplete.push(Incomplete { party, reason: error.to_string() }),
            }
        }
        if report.peers.is_empty()
            && let Some(Incomplete { party, reason }) = report.incomplete.first()
        {
            let reason = format!("nobody has answered; {party}: {reason}");
            return Err(FlowError::refused(reason));
        }
        context.step("Asking the notaries");
        from_notaries(&context, &notaries, wait, &mut report).await?;
        context.recovered().await?;
        Ok(report)
    }
}

async fn within(context: &Context, session: &Session, wait: Duration) -> Session {
    session.until(context.now().await.saturating_add(wait))
}

/// Takes all that a peer has for this node, page by page.
async fn from_peer(
    context: &Context,
    peer: &Name,
    notaries: &Notaries,
    wait: Duration,
    transactions: &mut u64,
) -> Result<(), FlowError> {
    let mut opened = context.open(peer).await?;
    let began = context.now().await;
    let mut session = opened.until(began.saturating_add(wait));
    let mut place = 0;
    session.send(&Question::Shared(place)).await;
    for page in 1..=PAGES {
        let Shared { transactions: named, next } = session.receive().await?;
        let distinct: BTreeSet<_> = named.iter().collect();
        if distinct.len() < named.len() {
            let reason = "a page of its ledger with a transaction twice".to_owned();
            return Err(FlowError::Unexpected { party: peer.clone(), reason });
        }
        let known = context.known(named.clone()).await?;
        let missing: Vec<_> =
            named.into_iter().zip(known).filter(|(_, known)| !known).map(|(id, _)| id).collect();
        let brought = !missing.is_empty();
        if brought {
            let mut attachments = Attachments::from(&session);
            let history =
                History::resolve(context, &session, &mut attachments, &missing, Vec::new(), notaries).await?;
            let foreign = missing.iter().find(|id| {
                !history.at_hand.get(*id).is_some_and(|found| takes_part(found, |key| context.owns(key)))
            });
            if let Some(id) = foreign {
                let reason = format!("transaction {id}, in which this node has no part");
                return Err(FlowError::Unexpected { party: peer.clone(), reason });
            }
            *transactions += missing.len() as u64;
        }
        let question = match next {
            Some(next) if next > place => {
                place = next;
                Question::Shared(place)
            }
            Some(_) => {
                let reason = "a page of its ledger that does not follow the one before".to_owned();
                return Err(FlowError::Unexpected { party: peer.clone(), reason });
            }
            // Asked once more. The question leaves when what was brought is durable, so with the answer the vault has it,
            // and the notaries are asked about it. What the peer has recorded meanwhile is on this page too.
            None if brought => Question::Shared(place),
            None => Question::Nothing,
        };
        let now = context.now().await;
        session = opened.until(now.saturating_add(wait));
        if next.is_none() && !brought {
            session.send(&Reply::Answer(question)).await;
            return Ok(());
        }
        if page.is_multiple_of(PAGES_OF_A_SESSION) {
            session.send(&Reply::Answer(Question::Nothing)).await;
            opened = context.open(peer).await?;
            session = opened.until(now.saturating_add(wait));
            session.send(&question).await;
        } else {
            session.send(&Reply::Answer(question)).await;
        }
        let given = u32::try_from(*transactions).unwrap_or(u32::MAX);
        let patience = wait.saturating_mul(WAITS).saturating_add(FOR_EACH_TRANSACTION.saturating_mul(given));
        if now > began.saturating_add(patience) {
            return Err(FlowError::Timeout { party: peer.clone() });
        }
    }
    let reason = format!("more than {PAGES} pages of its ledger");
    Err(FlowError::Unexpected { party: peer.clone(), reason })
}

/// Asks the notaries what became of the states that the vault holds now.
async fn from_notaries(
    context: &Context,
    notaries: &Notaries,
    wait: Duration,
    report: &mut Recovered,
) -> Result<(), FlowError> {
    // A notary that did not answer once is not asked again.
    let mut sessions: BTreeMap<Name, Option<Session>> = BTreeMap::new();
    let mut cursor = None;
    loop {
        let page = context.unconsumed(cursor).await?;
        let mut by_notary: BTreeMap<Name, Vec<StateRef>> = BTreeMap::new();
        for (state, notary) in page.states {
            by_notary.entry(notary).or_default().push(state);
        }
        for (notary, states) in by_notary {
            let count = states.len() as u64;
            match consumers(context, notaries, &mut sessions, &notary, states, wait).await {
                Ok(Consumers { consumed, unknown }) => {
                    if !consumed.is_empty() {
                        context.consume_elsewhere(consumed.clone()).await?;
                    }
                    let found = consumed.into_iter();
                    report.consumed.extend(found.map(|(state, by)| ConsumedElsewhere { state, by }));
                    report.unknown_states += unknown;
                    let is_named = report.incomplete.iter().any(|incomplete| incomplete.party == notary);
                    if unknown > 0 && !is_named {
                        let reason = "its members do not agree about every state".to_owned();
                        report.incomplete.push(Incomplete { party: notary, reason });
                    }
                }
                Err(error) => {
                    report.unknown_states += count;
                    if sessions.insert(notary.clone(), None).is_none_or(|before| before.is_some()) {
                        report.incomplete.push(Incomplete { party: notary, reason: error.to_string() });
                    }
                }
            }
        }
        cursor = page.next;
        if cursor.is_none() {
            break;
        }
    }
    for session in sessions.into_values().flatten() {
        session.send(&Reply::Answer(Question::Nothing)).await;
    }
    Ok(())
}

/// What a notary says of states.
struct Consumers {
    /// Those that are consumed, and by what.
    consumed: Vec<(StateRef, TransactionId)>,
    /// How many may be consumed or not.
    unknown: u64,
}

/// Which of these states their notary has seen consumed, and by what.
async fn consumers(
    context: &Context,
    notaries: &Notaries,
    sessions: &mut BTreeMap<Name, Option<Session>>,
    notary: &Name,
    states: Vec<StateRef>,
    wait: Duration,
) -> Result<Consumers, FlowError> {
    let Some(known) = notaries.named(notary) else {
        return Err(FlowError::refused(format!("{notary} is no notary of this network")));
    };
    let mut told = Consumers { consumed: Vec::new(), unknown: 0 };
    for states in states.chunks(STATES) {
        if known.kind.is_clustered() {
            for (state, belief) in
                states.iter().zip(by_cluster(context, known, sessions, states, wait).await?)
            {
                match belief {
                    Belief::Consumed(by) => told.consumed.push((*state, by)),
                    Belief::Unconsumed => {}
                    Belief::Unknown => told.unknown += 1,
                }
            }
        } else {
            let found = by_node(context, sessions, notary, states, wait).await?;
            let found = states.iter().copied().zip(found);
            told.consumed.extend(found.filter_map(|(state, by)| Some((state, by?))));
        }
    }
    Ok(told)
}

/// By what these states are consumed, as one notary or one member of a cluster says: an answer for each.
async fn by_node(
    context: &Context,
    sessions: &mut BTreeMap<Name, Option<Session>>,
    node: &Name,
    states: &[StateRef],
    wait: Duration,
) -> Result<Vec<Option<TransactionId>>, FlowError> {
    if *node == context.me().name {
        return context.consumers(states.to_vec()).await;
    }
    let question = Question::Consumers(states.to_vec());
    let session = match sessions.get(node) {
        Some(Some(session)) => {
            session.send(&Reply::Answer(question)).await;
            session.clone()
        }
        Some(None) => return Err(FlowError::refused("it did not answer before")),
        None => {
            let session = context.open(node).await?;
            sessions.insert(node.clone(), Some(session.clone()));
            session.send(&question).await;
            session
        }
    };
    let found = within(context, &session, wait).await.receive::<Vec<Option<TransactionId>>>().await?;
    if found.len() != states.len() {
        let reason = format!("{} answers about {} states", found.len(), states.len());
        return Err(FlowError::Unexpected { party: node.clone(), reason });
    }
    Ok(found)
}

/// What follows from the answers of a clustered notary's members about one state.
enum Belief {
    Consumed(TransactionId),
    Unconsumed,
    Unknown,
}

/// By what these states are consumed, as the members of a clustered notary say, of whom `f` may lie: what more than `f`
/// of them say is true. What the cluster has attested, more than `f` members that are right have carried out, so that at
/// most `2f` say that they have not: `2f + 1` that say so are right. Between the two it is not known: some may lie, and
/// some may not have caught up.
///
/// # Errors
/// Fewer answer.
async fn by_cluster(
    context: &Context,
    notary: &Notary,
    sessions: &mut BTreeMap<Name, Option<Session>>,
    states: &[StateRef],
    wait: Duration,
) -> Result<Vec<Belief>, FlowError> {
    let cluster = notary.kind.cluster(context.network()).map_err(|error| invalid(&error))?;
    let mut said: Vec<BTreeMap<TransactionId, usize>> = vec![BTreeMap::new(); states.len()];
    let (mut answered, mut silent) = (0, Vec::new());
    for member in cluster.members() {
        match by_node(context, sessions, &member.name, states, wait).await {
            Ok(found) => {
                answered += 1;
                for (said, by) in said.iter_mut().zip(found) {
                    if let Some(by) = by {
                        *said.entry(by).or_default() += 1;
                    }
                }
            }
            Err(error) => {
                sessions.insert(member.name.clone(), None);
                silent.push(format!("{}: {error}", member.name));
            }
        }
    }
    if answered < cluster.quorum() {
        return Err(FlowError::refused(format!(
            "{answered} of {} members answered, {} have to: {}",
            cluster.members().len(),
            cluster.quorum(),
            silent.join("; ")
        )));
    }
    let believed = |said: BTreeMap<TransactionId, usize>| {
        let seen: usize = said.values().sum();
        match said.into_iter().find(|(_, count)| *count > cluster.faulty()) {
            Some((by, _)) => Belief::Consumed(by),
            None if answered - seen >= cluster.quorum() => Belief::Unconsumed,
            None => Belief::Unknown,
        }
    };
    Ok(said.into_iter().map(believed).collect())
}

/// Does a party take part in a transaction, whose keys `owns` tells: does one of them have to sign it, or is it a
/// participant of an output?
pub fn takes_part(transaction: &SignedTransaction, owns: impl Fn(&PublicKey) -> bool) -> bool {
    transaction.required_signers().iter().any(&owns)
        || transaction.transaction().outputs().iter().any(|state| {
            matches!(contracts().describe(state), Ok(Some(summary)) if summary.participants.iter().any(&owns))
        })
}

/// The answer to a [`Recover`]: tells the asking node what both are in, and as a notary what is consumed.
pub struct Remind;

impl Responder for Remind {
    const ANSWERS: &'static str = Recover::NAME;
    const VERSION: u32 = Recover::VERSION;

    async fn run(context: Context, session: Session) -> Result<(), FlowError> {
        let peer = context.party(session.peer()).await?;
        let opened = session;
        let mut session = within(&context, &opened, UNHEARD).await;
        let mut question: Question = session.receive().await?;
        loop {
            let mut offered = Offered::default();
            match question {
                Question::Nothing => return Ok(()),
                Question::Shared(after) => {
                    context.step("Looking for what both are in");
                    let shared = context.shared(&peer.name, after).await?;
                    offered = Offered::listed(&shared.transactions);
                    session.send(&shared).await;
                }
                Question::Consumers(states) => {
                    context.step("Looking for what is consumed");
                    if states.len() > STATES {
                        return Err(FlowError::refused(format!(
                            "{} states are asked for, {STATES} are allowed at once",
                            states.len()
                        )));
                    }
                    session.send(&context.consumers(states).await?).await;
                }
            }
            session = within(&context, &opened, UNHEARD).await;
            question = offered.serve(&context, &session).await?;
        }
    }
}
