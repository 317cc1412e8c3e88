//! What a flow asks of the node that runs it.

use std::sync::Arc;

use borsh::{BorshDeserialize, BorshSerialize};
use tally_contracts::bond::Terms;
use tally_contracts::limits::ATTACHMENT_BYTES;
use tally_contracts::{
    Amount, Attachment, AttachmentId, Name, Party, PublicKey, Role, SignedTransaction, StateAndRef, StateRef,
    TimeWindow, Timestamp, TransactionId, TransactionSignature,
};
use tally_notary::{NotaryKind, SignedAnswer};

use crate::{FlowError, FlowId, Unit};

/// A question or an order of a flow to its node. It is carried out once: what the node answers is journaled, and a
/// flow that runs again over its journal gets the same answer.
#[derive(Clone, Debug)]
pub enum Request {
    /// Who bears this name? Answered by [`Response::Party`].
    Party(Name),
    /// Which notaries does the network have, and which did it have? Answered by [`Response::Notaries`].
    Notaries,
    /// Sign a transaction's id with one of the node's keys. Answered by [`Response::Signature`].
    Sign {
        /// The public half of the key.
        by: PublicKey,
        /// In which role. A node has keys of its own for each: for the roles of a party and of an oracle those of
        /// its legal identity, the former ones too, for that of a notary its notary service's.
        role: Role,
        /// What is signed.
        transaction: TransactionId,
    },
    /// Choose unconsumed states of an asset that are worth at least `quantity` and hold them for this flow.
    /// Answered by [`Response::States`], or by [`Response::Later`] while other flows hold what is wanted.
    Select(Selection),
    /// Find states of the vault. Answered by [`Response::States`].
    Find(Filter),
    /// Verified transactions by id. Answered by [`Response::Transactions`]; not journaled, since what an id names
    /// never changes.
    Transactions(Vec<TransactionId>),
    /// Transactions that this flow has fetched and not yet verified. Answered like [`Request::Transactions`].
    Dependencies(Vec<TransactionId>),
    /// Which of these transactions are verified and recorded here? Answered by [`Response::Known`].
    Known(Vec<TransactionId>),
    /// Keep transactions that are not verified yet, for this flow only. Answered by [`Response::Done`].
    Keep(Vec<Arc<SignedTransaction>>),
    /// Record verified transactions, in order. Answered by [`Response::Done`].
    Record(Vec<Arc<SignedTransaction>>),
    /// Let go of states that were selected. Answered by [`Response::Done`].
    Release(Vec<StateRef>),
    /// An attachment's bytes. Answered by [`Response::Attachment`]; not journaled.
    Attachment(AttachmentId),
    /// The notary's question: may `transaction` consume these states? If so they are consumed by it from here on.
    /// Answered by [`Response::Committed`].
    Commit(Commit),
    /// An oracle's question: what is one unit of `base` worth? Answered by [`Response::Rate`].
    Rate {
        /// The currency that is priced.
        base: String,
        /// The currency that it is priced in.
        quote: String,
    },
    /// Keep a part of an attachment until the attachment is put together, for this flow only. Answered by
    /// [`Response::Done`].
    KeepPart(AttachmentPart),
    /// Who is on the network map? Answered by [`Response::Names`].
    Parties,
    /// In which recorded transactions does a party take part, under any key that the network ever certified it with?
    /// Some of the ledger at a time, from the place `after` on. Answered by [`Response::Shared`].
    Shared {
        /// The party's name.
        with: Name,
        /// Where the page before ended; 0 at first.
        after: u64,
    },
    /// As a notary: by which transactions are these states consumed? Answered by [`Response::Consumers`].
    Consumers(Vec<StateRef>),
    /// Which states of the vault are unconsumed? A page at a time. Answered by [`Response::Unconsumed`].
    Unconsumed {
        /// The cursor of the page before.
        after: Option<String>,
    },
    /// Transactions that are not recorded here consumed these states. Answered by [`Response::Done`].
    ConsumeElsewhere(Vec<(StateRef, TransactionId)>),
    /// The node is recovered. Answered by [`Response::Done`].
    Recovered,
    /// Put an attachment together out of the first parts kept by this flow, verify it against its hash and keep it for
    /// good. Answered by [`Response::Done`], or refused when the parts are not that attachment.
    Attach {
        /// The attachment.
        attachment: AttachmentId,
        /// Of how many parts it consists.
        parts: u32,
    },
    /// A party has not confirmed that it has a final transaction: the node delivers it again. Answered by
    /// [`Response::Done`].
    Undelivered {
        /// The transaction, recorded here.
        transaction: TransactionId,
        /// Who lacks it.
        party: Name,
        /// Why, for people.
        reason: String,
    },
    /// A party has confirmed that it has a final transaction. Answered by [`Response::Done`].
    Delivered {
        /// The transaction.
        transaction: TransactionId,
        /// Who has it.
        party: Name,
    },
    /// The fate of a transaction is known that an earlier flow left unknown. Answered by [`Response::Done`].
    Resolved(TransactionId),
    /// Has the network ever certified each of these names with that key, as a legal identity? Answered by
    /// [`Response::Known`].
    Certified(Vec<Party>),
    /// Whose cash may be chosen when a user names no issuer, by the node's configuration? Answered by
    /// [`Response::Issuers`].
    Issuers,
    /// How many bytes may a new transaction have, with its signatures, by the network's parameters? Answered by
    /// [`Response::Bytes`].
    TransactionLimit,
    /// Does this node agree to what another node proposes, by its configuration? What is agreed to counts against the
    /// configuration's limits. Answered by [`Response::Done`], or refused.
    Consent(Proposal),
    /// As a member of a clustered notary: have the cluster decide this. Answered by [`Response::Cluster`], by
    /// [`Response::Later`] until it has decided, or refused: then it is not known what the cluster decides.
    Submit {
        /// What the cluster decides.
        request: Arc<tally_notary::Request>,
        /// Who asked this member for it: each has a share of the room.
        asker: Name,
    },
}

/// What another node wants this one to pay or to do, see [`Request::Consent`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Proposal {
    /// To buy a bond.
    Purchase(Purchase),
    /// To repay a bond of this node in the cash of another issuer.
    Redemption {
        /// Who holds the bond.
        holder: Party,
        /// What is due.
        due: Amount,
        /// Whose cash is asked for.
        cash_of: Party,
    },
    /// To keep the register of bonds of this issuer, and so to sign each transfer of them.
    Register {
        /// Who issues them.
        issuer: Party,
    },
}

/// A bond that is offered to a buyer, verified with its history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Purchase {
    /// Who sells.
    pub seller: Party,
    /// The bond.
    pub terms: Terms,
    /// How much of it.
    pub nominal: Amount,
    /// For how much.
    pub price: Amount,
    /// In whose cash.
    pub cash_of: Party,
}

/// A part of an attachment that is on its way here; nobody has verified it yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttachmentPart {
    /// The attachment that it is said to be of.
    pub attachment: AttachmentId,
    /// Its place among the parts, from zero.
    pub number: u32,
    /// What it holds.
    pub bytes: Arc<[u8]>,
}

impl AttachmentPart {
    /// Puts an attachment together.
    ///
    /// # Errors
    /// [`FlowError::Invalid`] when the parts are not what the id is the hash of, [`FlowError::TooLarge`] beyond
    /// [`ATTACHMENT_BYTES`].
    pub fn join<'a>(
        attachment: AttachmentId,
        parts: impl Iterator<Item = &'a [u8]> + Clone,
    ) -> Result<Attachment, FlowError> {
        let length = parts.clone().fold(0_usize, |length, part| length.saturating_add(part.len()));
        if length > ATTACHMENT_BYTES {
            return Err(FlowError::TooLarge {
                what: format!("attachment {attachment}"),
                bytes: length as u64,
                limit: ATTACHMENT_BYTES as u64,
            });
        }
        let mut content = Vec::with_capacity(length);
        parts.for_each(|part| content.extend_from_slice(part));
        let found = Attachment::new(content).map_err(FlowError::invalid)?;
        if found.id() == attachment {
            Ok(found)
        } else {
            Err(FlowError::invalid(format!(
                "the {length} bytes received as attachment {attachment} are another, {}",
                found.id()
            )))
        }
    }
}

/// Which states to choose, see [`Request::Select`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selection {
    /// The asset, as the contract's summary of the state names it.
    pub asset: String,
    /// Minor units needed.
    pub quantity: u64,
    /// Only states of this notary, by name and key: states of its former key are none of it.
    pub notary: Option<Party>,
    /// Whether to wait, for as long as the node's configuration says, while other flows hold what is missing.
    pub wait: bool,
}

/// Which states to find, see [`Request::Find`]. A field that is absent does not restrict.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// These states only.
    pub references: Vec<StateRef>,
    /// Of this kind (`cash`, `iou`, `bond`).
    pub kind: Option<String>,
    /// Of this asset.
    pub asset: Option<String>,
    /// Of this linear id.
    pub linear_id: Option<tally_crypto::Hash>,
    /// Hold the states for this flow; those that another flow holds are left out.
    pub hold: bool,
    /// At most so many.
    pub limit: u32,
}

/// See [`Request::Commit`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Commit {
    /// The states to consume.
    pub inputs: Vec<StateRef>,
    /// The states that must not be consumed.
    pub references: Vec<StateRef>,
    /// The transaction that consumes them.
    pub transaction: TransactionId,
    /// When it may be committed.
    pub time_window: Option<TimeWindow>,
    /// Who asks.
    pub requester: Name,
}

/// What the notary found.
#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub enum Committed {
    /// The transaction consumes its inputs, now or since it was first asked.
    Yes,
    /// One of its states was consumed by another transaction.
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

/// A notary of the network.
#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct Notary {
    /// Who it is.
    pub party: Party,
    /// What it sees, and of whom it consists.
    pub kind: NotaryKind,
}

/// What a clustered notary decided, with what proves it to everybody.
#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub enum ClusterAnswer {
    /// The transaction is final: signatures of `2f + 1` members.
    Attested(Vec<TransactionSignature>),
    /// It is refused for good: `f + 1` equal answers of members.
    Refused(Vec<SignedAnswer>),
}

/// The notaries of the network, of now and of before.
#[derive(Clone, Debug, Default, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct Notaries {
    /// Those that make new transactions final, by name.
    pub current: Vec<Notary>,
    /// Names and keys of those of the past: what they signed counts as history, nothing new does.
    pub former: Vec<Party>,
}

impl Notaries {
    /// The notary that this is the name and key of, if it is one now.
    pub fn current(&self, party: &Party) -> Option<&Notary> {
        self.current.iter().find(|notary| notary.party == *party)
    }

    /// The notary that bears this name now.
    pub fn named(&self, name: &Name) -> Option<&Notary> {
        self.current.iter().find(|notary| notary.party.name == *name)
    }

    /// Whether this is the name and key of a notary of before, and not of one of now.
    pub fn is_former(&self, party: &Party) -> bool {
        self.former.contains(party) && self.current(party).is_none()
    }
}

/// Recorded transactions in which a party takes part: one of its keys has to sign, or is a participant of an output.
#[derive(Clone, Debug, Default, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct Shared {
    /// The transactions; there may be none in a page that is not the last.
    pub transactions: Vec<TransactionId>,
    /// Where the next page begins; `None` after the last.
    pub next: Option<u64>,
}

/// Unconsumed states of the vault.
#[derive(Clone, Debug, Default, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct Unconsumed {
    /// Each state and its notary.
    pub states: Vec<(StateRef, Name)>,
    /// The cursor of the next page, if there may be one.
    pub next: Option<String>,
}

/// An exchange rate as the oracle knows it.
#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct Rate {
    /// The price of one unit of the base currency, in billionths of the quoted currency's unit.
    pub billionths: u64,
    /// When it was so.
    pub as_of: Timestamp,
}

/// The node's answer to a [`Request`].
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "each variant is described by the request that it answers")]
pub enum Response {
    Party(Option<Party>),
    Notaries(Notaries),
    Signature(TransactionSignature),
    States(Vec<StateAndRef>),
    Transactions(Vec<Option<Arc<SignedTransaction>>>),
    Known(Vec<bool>),
    Attachment(Option<Attachment>),
    Committed(Committed),
    Cluster(ClusterAnswer),
    Rate(Option<Rate>),
    Issuers(Option<Vec<Name>>),
    Names(Vec<Name>),
    Shared(Shared),
    Consumers(Vec<Option<TransactionId>>),
    Unconsumed(Unconsumed),
    Bytes(u64),
    Done,
    /// Nothing yet: the flow waits and asks again when [`Engine::wake`](crate::Engine::wake) is called for it, at this
    /// time at the latest. Not journaled.
    Later(Timestamp),
    Refused(FlowError),
}

/// What carrying out a request changes durably, together with the flow's journal.
#[derive(Clone, Debug)]
pub enum LedgerWrite {
    /// A verified transaction and its effect on the vault.
    Record(Arc<SignedTransaction>),
    /// A fetched transaction that is not verified yet.
    Keep(Arc<SignedTransaction>),
    /// States held for the flow.
    Hold(Vec<StateRef>),
    /// States held no longer.
    Release(Vec<StateRef>),
    /// States consumed, in the notary's memory.
    Consume {
        /// The states.
        states: Vec<StateRef>,
        /// The transaction that consumes them.
        by: TransactionId,
        /// Who asked for it.
        requester: Name,
    },
    /// A consent of the node's configuration was used by this flow.
    Consent {
        /// Which consent.
        rule: String,
        /// How much of it, in minor units.
        quantity: u64,
        /// When.
        at: Timestamp,
    },
    /// A part of an attachment that is not complete yet.
    KeepPart(AttachmentPart),
    /// An attachment, verified against its hash.
    Attach(Attachment),
    /// A party has not confirmed that it has a final transaction.
    Undelivered {
        /// The transaction.
        transaction: TransactionId,
        /// Who lacks it.
        party: Name,
        /// Why, for people.
        reason: String,
    },
    /// A party has confirmed it.
    Delivered {
        /// The transaction.
        transaction: TransactionId,
        /// Who has it.
        party: Name,
    },
    /// A flow ended without knowing whether this transaction is final, to which all but the notary's signatures are
    /// given.
    Unresolved {
        /// The transaction.
        transaction: Arc<SignedTransaction>,
        /// Who has to have it if it is.
        told: Vec<Name>,
        /// What ended the flow.
        reason: String,
    },
    /// Its fate is known now.
    Resolved(TransactionId),
    /// States of the vault, consumed by transactions that are not recorded here.
    ConsumedElsewhere(Vec<(StateRef, TransactionId)>),
    /// The node is recovered.
    Recovered,
}

/// A request carried out.
#[derive(Debug)]
pub struct Performed {
    /// The answer.
    pub response: Response,
    /// What must become durable before anything that follows from the answer leaves the node.
    pub writes: Vec<LedgerWrite>,
}

impl From<Response> for Performed {
    fn from(response: Response) -> Self {
        Self { response, writes: Vec::new() }
    }
}

/// Why a request could not be carried out at all.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Trouble {
    /// It can heal by itself: the flow is tried again, later and later.
    #[error("{0}")]
    Passing(String),
    /// A person has to look at it: the flow is held.
    #[error("{0}")]
    Lasting(String),
}

/// How a peer takes what is sent to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// It takes messages, as far as this node knows.
    Open,
    /// The queue to it is full: who sends has to wait.
    Full,
    /// It has taken nothing for a while: it is away, or cannot be reached.
    Silent,
}

/// The node, as the engine sees it. Called from the threads that run flows; none of these may block for long.
pub trait Host: Send + Sync {
    /// Carries out a request of a flow.
    ///
    /// # Errors
    /// Nothing was changed and the answer is not known.
    fn perform(&self, flow: FlowId, now: Timestamp, request: &Request) -> Result<Performed, Trouble>;

    /// Makes a unit durable, all of it or nothing, after every unit submitted before it; messages leave and outcomes
    /// are told only then. Called in order for each flow.
    fn submit(&self, unit: Unit);

    /// A flow goes into a step: `path` is the flow's name, its subflows and the step, joined by ` / `. Not called for
    /// steps that are run again.
    fn progress(&self, flow: FlowId, path: &str);

    /// There is a flow to run: see [`crate::Engine::next`].
    fn wake(&self);

    /// May more be sent to `peer`, or is its queue full?
    fn has_room(&self, peer: &Name) -> bool;

    /// Has `peer` taken nothing for a while of what waits for it?
    fn is_silent(&self, peer: &Name) -> bool {
        let _ = peer;
        false
    }

    /// Was this flow ever started here? Asked only of flows that the engine does not hold.
    ///
    /// # Errors
    /// It cannot be known now.
    fn is_known(&self, flow: FlowId) -> Result<bool, Trouble>;
}
