//! What requests and answers say, free of the wire's types. Ids, names and keys are texts in their canonical
//! form (flow ids 32 hexadecimal digits, transaction and attachment ids 64, state references
//! `<transaction id>:<index>`, names X.500); times are milliseconds since the Unix epoch.

use bytes::Bytes;
use serde_json::{Map, Value};

/// Which flow to start, with what, and for which request.
#[derive(Clone, Debug, PartialEq)]
pub struct StartFlow {
    /// The flow's registered name.
    pub flow: String,
    /// The flow's arguments.
    pub arguments: Map<String, Value>,
    /// Chosen by the client: the same user's start with the same id is the same start, and one of another flow or with
    /// other arguments is refused ([`RefusalCode::RequestIdReused`](crate::RefusalCode::RequestIdReused)). At most 128 bytes of visible
    /// ASCII. `None` starts a flow of its own.
    pub request_id: Option<String>,
}

/// A flow that ended, and how.
#[derive(Clone, Debug, PartialEq)]
pub struct FlowEnd {
    /// Its id.
    pub flow_id: String,
    /// How it ended.
    pub outcome: Outcome,
}

/// How a flow ended.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// With an output. The transaction that it names in `transaction`, if it does, is final.
    Completed(Value),
    /// With a failure, its own or a counterparty's, or by being killed; nothing became final.
    Failed(FlowFailure),
    /// Before it was known whether its transaction is final.
    Unknown(UnknownFate),
}

/// A transaction that may be final; its node asks the notary again until it knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownFate {
    /// The transaction.
    pub transaction_id: String,
    /// What ended the flow, for a person.
    pub reason: String,
}

/// Which undelivered transactions to list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UndeliveredQuery {
    /// Only of this transaction.
    pub transaction_id: Option<String>,
    /// How many to answer with: 1 to 1,000; 0 for 100.
    pub page_size: u32,
    /// Where the page before ended.
    pub cursor: Option<String>,
}

/// A page of undelivered transactions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UndeliveredPage {
    /// By party and transaction.
    pub undelivered: Vec<Undelivered>,
    /// By transaction; on the first page.
    pub unresolved: Vec<Unresolved>,
    /// The cursor of the next page.
    pub next: Option<String>,
}

/// A party that has not confirmed a final transaction. Times in ms since the Unix epoch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Undelivered {
    /// The transaction.
    pub transaction_id: String,
    /// The party's name.
    pub party: String,
    /// Whether it is a member of the network; if not, nothing is tried.
    pub is_member: bool,
    /// When it was tried first.
    pub first_tried_at_ms: u64,
    /// When it was tried last.
    pub last_tried_at_ms: u64,
    /// When it is tried again.
    pub due_at_ms: u64,
    /// What came of it last, for a person.
    pub reason: String,
}

/// A transaction whose notary was asked and has not been heard. Times in ms since the Unix epoch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unresolved {
    /// The transaction.
    pub transaction_id: String,
    /// When the notary was asked first.
    pub first_tried_at_ms: u64,
    /// When it was asked last.
    pub last_tried_at_ms: u64,
    /// When it is asked again.
    pub due_at_ms: u64,
    /// What came of it last, for a person.
    pub reason: String,
}

/// Why a flow failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason} [{code}]{}", counterparty.as_ref().map(|party| format!(" at {party}")).unwrap_or_default())]
pub struct FlowFailure {
    /// A stable code in words.
    pub code: String,
    /// What went wrong, for a person.
    pub reason: String,
    /// The party whose flow failed, where it was not this node's own.
    pub counterparty: Option<String>,
}

/// Something a flow did.
#[derive(Clone, Debug, PartialEq)]
pub enum FlowEvent {
    /// It reached a step.
    Step(FlowStep),
    /// It ended; nothing follows.
    Ended(Outcome),
}

/// A step of a flow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowStep {
    /// The flows from the outermost to the one that takes the step.
    pub path: Vec<String>,
    /// The step's label.
    pub label: String,
    /// When it was reached, in ms since the Unix epoch.
    pub at_ms: u64,
}

/// Where a flow stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FlowState {
    /// It runs or waits.
    Running,
    /// A person paused it.
    Paused,
    /// The hospital keeps it for a person.
    Held,
    /// It ended with an output.
    Completed,
    /// It ended with a failure, or was killed, and nothing became final.
    Failed,
    /// It ended before it was known whether its transaction is final.
    Unknown,
}

/// How far a node is drained.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drain {
    /// Nothing new begins: starts are refused, flows of peers wait. A restart ends it.
    pub draining: bool,
    /// Flows that go on by themselves; with none left the node is drained.
    pub under_way: u64,
    /// Flows that wait for a person: paused or held.
    pub for_a_person: u64,
    /// Flows of peers that wait until draining is over.
    pub waiting: u64,
}

/// How the network's parameters stand at a node.
#[derive(Clone, Debug, PartialEq)]
pub struct Parameters {
    /// The epoch in force.
    pub epoch: u32,
    /// Those in force.
    pub parameters: serde_json::Value,
    /// Those that come into force next.
    pub announced: Option<AnnouncedParameters>,
    /// The epochs that the operator has accepted.
    pub accepted: Vec<u32>,
    /// Why the node takes no new work, if it does not.
    pub missing: Option<String>,
}

/// Parameters that come into force later.
#[derive(Clone, Debug, PartialEq)]
pub struct AnnouncedParameters {
    /// Their epoch.
    pub epoch: u32,
    /// From when on, in milliseconds since the Unix epoch.
    pub in_force_from_ms: u64,
    /// What they say.
    pub parameters: serde_json::Value,
}

/// A flow of this node.
#[derive(Clone, Debug, PartialEq)]
pub struct FlowInfo {
    /// Its id.
    pub flow_id: String,
    /// The name of what runs.
    pub flow: String,
    /// The version that it started on.
    pub version: u32,
    /// Where it stands.
    pub state: FlowState,
    /// Who started it: a user, or the party whose flow opened a session.
    pub origin: String,
    /// When it started, in ms since the Unix epoch.
    pub started_at_ms: u64,
    /// When it ended, in ms since the Unix epoch.
    pub ended_at_ms: Option<u64>,
    /// The latest step, while it runs.
    pub step: Option<FlowStep>,
    /// Why it is held, where it is.
    pub held_reason: Option<String>,
    /// How it ended, where it has.
    pub outcome: Option<Outcome>,
}

/// Which flows to list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FlowQuery {
    /// Only flows in one of these states; empty for all.
    pub states: Vec<FlowState>,
    /// Only flows of this name.
    pub flow: Option<String>,
    /// How many to answer with; a server gives the service 1 to 1,000, a client may ask 0 for 100.
    pub page_size: u32,
    /// `next` of the page before.
    pub cursor: Option<String>,
}

/// A page of flows, newest first.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FlowPage {
    /// The flows.
    pub flows: Vec<FlowInfo>,
    /// The cursor of the next page; `None` on the last.
    pub next: Option<String>,
}

/// A flow that can be started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowDescription {
    /// Its name.
    pub flow: String,
    /// The versions that this node can run, ascending; a start gets the last.
    pub versions: Vec<u32>,
    /// The names of its arguments.
    pub arguments: Vec<String>,
}

/// Whether a state can still be spent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum StateStatus {
    /// No recorded transaction has consumed it.
    #[default]
    Unconsumed,
    /// A recorded transaction has consumed it.
    Consumed,
    /// Both; only in a query.
    Any,
}

/// What states are sorted by; ties are broken by reference.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum SortBy {
    /// When the state was recorded here.
    #[default]
    Recorded,
    /// The state's quantity.
    Quantity,
}

/// Which states to answer with: those that meet every condition that is set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VaultQuery {
    /// Whether consumed.
    pub status: StateStatus,
    /// The governing contract's name.
    pub contract: Option<String>,
    /// The kind, as the contract calls it.
    pub kind: Option<String>,
    /// A participant: a party's name or a public key.
    pub participant: Option<String>,
    /// The owner: a party's name or a public key.
    pub owner: Option<String>,
    /// The asset.
    pub asset: Option<String>,
    /// The least quantity, inclusive, in minor units.
    pub quantity_from: Option<u64>,
    /// The greatest quantity, inclusive, in minor units.
    pub quantity_to: Option<u64>,
    /// Recorded at or after, in ms since the Unix epoch.
    pub recorded_from_ms: Option<u64>,
    /// Recorded before, in ms since the Unix epoch.
    pub recorded_until_ms: Option<u64>,
    /// The linear id.
    pub linear_id: Option<String>,
    /// The notary's name.
    pub notary: Option<String>,
    /// Only these states, at most 1,000; empty for all.
    pub references: Vec<String>,
    /// What to sort by.
    pub sort_by: SortBy,
    /// From the greatest to the least.
    pub descending: bool,
    /// How many to answer with; a server gives the service 1 to 1,000, a client may ask 0 for 100.
    pub page_size: u32,
    /// `next` of the page before, with the same query.
    pub cursor: Option<String>,
}

/// A page of states, in the order asked for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct VaultPage {
    /// The states.
    pub states: Vec<VaultState>,
    /// The cursor of the next page; `None` on the last.
    pub next: Option<String>,
}

/// A state as the vault holds it.
#[derive(Clone, Debug, PartialEq)]
pub struct VaultState {
    /// Its reference.
    pub reference: String,
    /// Unconsumed or consumed.
    pub status: StateStatus,
    /// The governing contract's name.
    pub contract: String,
    /// The kind, as the contract calls it.
    pub kind: String,
    /// The notary's name.
    pub notary: String,
    /// The participants: names where known, else keys.
    pub participants: Vec<String>,
    /// The owner: a name where known, else a key.
    pub owner: Option<String>,
    /// The asset.
    pub asset: Option<String>,
    /// The quantity in minor units.
    pub quantity: Option<u64>,
    /// The linear id.
    pub linear_id: Option<String>,
    /// When it was recorded here, in ms since the Unix epoch.
    pub recorded_at_ms: u64,
    /// The transaction that consumed it.
    pub consumed_by: Option<String>,
    /// The flow that holds a soft lock on it.
    pub locked_by: Option<String>,
    /// Whoever made it bound it to another output of its transaction: this node does not spend it.
    pub encumbered: bool,
    /// The transaction, not recorded here, that consumed it by its notary's word: this node does not spend it.
    pub lost_to: Option<String>,
    /// Everything in it, as the contract describes it.
    pub details: Value,
}

/// What one transaction changed, seen through a query.
#[derive(Clone, Debug, PartialEq)]
pub struct VaultUpdate {
    /// The transaction.
    pub transaction_id: String,
    /// States it made that match the query.
    pub produced: Vec<VaultState>,
    /// References of the vault's states that it consumed and that matched the query.
    pub consumed: Vec<String>,
}

/// A recorded transaction.
#[derive(Clone, Debug, PartialEq)]
pub struct TransactionInfo {
    /// Its id.
    pub transaction_id: String,
    /// The signed transaction in its canonical encoding.
    pub encoded: Bytes,
    /// The same for a person.
    pub details: Value,
}

/// What a notary sees of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NotaryKind {
    /// Only inputs, references, time window and notary.
    NonValidating,
    /// Everything; it verifies the transaction.
    Validating,
}

/// Who a node is and how it does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeInfo {
    /// Its legal name.
    pub name: String,
    /// The public key of its legal identity.
    pub key: String,
    /// Where peers reach it, `host:port`.
    pub addresses: Vec<String>,
    /// The version of the program.
    pub version: String,
    /// What kind of notary it is, if one.
    pub notary: Option<NotaryKind>,
    /// When the process started, in ms since the Unix epoch.
    pub started_at_ms: u64,
    /// The node's clock, in ms since the Unix epoch.
    pub now_ms: u64,
    /// Flows that have not ended.
    pub unfinished_flows: u64,
}

/// The network as a node knows it.
#[derive(Clone, Debug, PartialEq)]
pub struct NetworkMap {
    /// Every node, notaries included, in order of their names.
    pub parties: Vec<NetworkParty>,
    /// The notaries.
    pub notaries: Vec<NetworkNotary>,
    /// The number of the current parameters; grows with every change.
    pub parameters_epoch: u32,
    /// The parameters.
    pub parameters: Value,
}

/// A node of the network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetworkParty {
    /// Its legal name.
    pub name: String,
    /// The public key of its legal identity.
    pub key: String,
    /// Where peers reach it, `host:port`.
    pub addresses: Vec<String>,
    /// The number of its node info; grows with every change.
    pub serial: u64,
}

/// A notary of the network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetworkNotary {
    /// Its legal name.
    pub name: String,
    /// The key that it signs with.
    pub key: String,
    /// What it sees.
    pub kind: NotaryKind,
}
