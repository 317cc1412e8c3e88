//! What a flow must find again when it is run once more, and the units in which that becomes durable.

use std::sync::Arc;

use borsh::{BorshDeserialize, BorshSerialize};
use tally_contracts::{Name, StateAndRef, Timestamp, TransactionId, TransactionSignature};

use crate::service::{
    ClusterAnswer, Committed, LedgerWrite, Notaries, Rate, Request, Response, Shared, Unconsumed,
};
use crate::{FlowError, FlowId, Message, SessionId};

/// Who started a flow.
#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub enum Origin {
    /// A user of the node.
    User {
        /// The user's name.
        name: String,
    },
    /// A flow of another node, by opening a session.
    Session {
        /// That node.
        peer: Name,
        /// The session.
        session: SessionId,
    },
    /// The node itself: what it has to do without being asked.
    Node,
}

/// How a flow begins; the first thing in its journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Start {
    /// Its identifier.
    pub flow: FlowId,
    /// The registered name: of the flow itself, or, for one that answers a session, of the flow that it answers.
    pub name: Arc<str>,
    /// The version of its code.
    pub version: u32,
    /// Its arguments, encoded; empty for one that answers a session.
    pub arguments: Vec<u8>,
    /// Who started it.
    pub origin: Origin,
    /// Where all its randomness comes from. Secret.
    pub seed: [u8; 32],
    /// When.
    pub at: Timestamp,
}

/// A message that arrived for a flow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// The session it belongs to.
    pub session: SessionId,
    /// Its number in the session.
    pub number: u64,
    /// The encoded [`Message`].
    pub message: Vec<u8>,
    /// What the node gave with it, to know it again; see [`crate::Engine::deliver`].
    pub ticket: u64,
}

/// How a flow stands when it does not simply run or wait.
#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub enum Mark {
    /// It runs or waits.
    Running,
    /// A person paused it.
    Paused,
    /// It cannot go on by itself, for this reason.
    Held {
        /// What a person has to look at.
        reason: String,
    },
}

/// What one turn of a flow leaves behind: durable all together or not at all.
#[derive(Clone, Debug)]
pub struct Unit {
    /// The flow.
    pub flow: FlowId,
    /// Which of the flow's units this is, from zero.
    pub number: u64,
    /// Present in the first unit.
    pub start: Option<Start>,
    /// Messages that arrived since the last unit.
    pub arrivals: Vec<Arrival>,
    /// What the flow did since the last unit, encoded; may be empty.
    pub steps: Vec<u8>,
    /// Messages to send, once this is durable.
    pub sends: Vec<(Name, Message)>,
    /// Changes of the ledger.
    pub writes: Vec<LedgerWrite>,
    /// Present when the flow ended.
    pub outcome: Option<Outcome>,
    /// Present when the mark changed.
    pub mark: Option<Mark>,
}

/// What a flow came to: its encoded output, or why it failed.
pub type Outcome = Result<Vec<u8>, FlowError>;

/// A flow as it was found in the journal.
#[derive(Clone, Debug)]
pub struct Saved {
    /// How it began.
    pub start: Start,
    /// The steps of each unit, in order.
    pub steps: Vec<Vec<u8>>,
    /// What arrived, in any order.
    pub arrivals: Vec<Arrival>,
    /// How it stands.
    pub mark: Mark,
}

/// One thing that a flow did.
#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub(crate) enum Step {
    /// It sent the first message of the session that it opened with this index.
    Opened { peer: Name, index: u32 },
    /// It sent the next message of a session: 0 for the one that it answers, otherwise one more than the index of the
    /// one that it opened.
    Sent(u32),
    /// It asked what time it is.
    Time(Timestamp),
    /// It waited for one of several things, and the one with this index came first.
    Chose(u32),
    /// It asked its node something.
    Asked { request: u8, answer: Answer },
    /// It received a message, kept the transactions or the part of an attachment in it, and made this of it.
    Digested(Vec<u8>),
    /// From here on this transaction may become final whatever becomes of the flow; these parties have to have it then.
    Submitted { transaction: Vec<u8>, told: Vec<Name> },
    /// Its fate is known: it is final and recorded here, or its notary refused it.
    Decided { transaction: TransactionId, is_final: bool },
}

/// A [`Response`] as the journal keeps it.
#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub(crate) enum Answer {
    Party(Option<tally_contracts::Party>),
    Notaries(Notaries),
    Signature(TransactionSignature),
    States(Vec<StateAndRef>),
    /// Which of the transactions were found; they are read again.
    Found(Vec<bool>),
    Known(Vec<bool>),
    Committed(Committed),
    Rate(Option<Rate>),
    Done,
    Refused(FlowError),
    Issuers(Option<Vec<Name>>),
    Names(Vec<Name>),
    Shared(Shared),
    Consumers(Vec<Option<TransactionId>>),
    Unconsumed(Unconsumed),
    Bytes(u64),
    Cluster(ClusterAnswer),
}

impl Step {
    pub(crate) fn name(&self) -> String {
        match self {
            Self::Opened { peer, .. } => format!("open a session with {peer}"),
            Self::Sent(_) => "send a message".to_owned(),
            Self::Time(_) => "ask for the time".to_owned(),
            Self::Chose(_) => "wait for one of several".to_owned(),
            Self::Asked { request, .. } => format!("ask its node to {}", verb(*request)),
            Self::Digested(_) => "receive something to keep".to_owned(),
            Self::Submitted { .. } => "submit a transaction".to_owned(),
            Self::Decided { .. } => "learn a transaction's fate".to_owned(),
        }
    }

    /// # Errors
    /// Bytes that are not a sequence of steps.
    pub(crate) fn decode_all(mut bytes: &[u8]) -> Result<Vec<Self>, std::io::Error> {
        let mut steps = Vec::new();
        while !bytes.is_empty() {
            steps.push(Self::deserialize(&mut bytes)?);
        }
        Ok(steps)
    }
}

impl Answer {
    /// The journal's form of an answer.
    pub(crate) fn of(response: &Response) -> Self {
        match response {
            Response::Party(party) => Self::Party(party.clone()),
            Response::Notaries(notaries) => Self::Notaries(notaries.clone()),
            Response::Signature(signature) => Self::Signature(*signature),
            Response::States(states) => Self::States(states.clone()),
            Response::Transactions(found) => Self::Found(found.iter().map(Option::is_some).collect()),
            Response::Attachment(found) => Self::Found(vec![found.is_some()]),
            Response::Known(known) => Self::Known(known.clone()),
            Response::Committed(committed) => Self::Committed(committed.clone()),
            Response::Rate(rate) => Self::Rate(rate.clone()),
            Response::Issuers(names) => Self::Issuers(names.clone()),
            Response::Done => Self::Done,
            Response::Later(_) => unreachable!("a flow that waits has no answer"),
            Response::Refused(error) => Self::Refused(error.clone()),
            Response::Names(names) => Self::Names(names.clone()),
            Response::Shared(shared) => Self::Shared(shared.clone()),
            Response::Consumers(consumers) => Self::Consumers(consumers.clone()),
            Response::Unconsumed(page) => Self::Unconsumed(page.clone()),
            Response::Bytes(bytes) => Self::Bytes(*bytes),
            Response::Cluster(answer) => Self::Cluster(answer.clone()),
        }
    }

    /// The answer itself; `None` when it has to be read again, see [`Answer::limit`].
    pub(crate) fn response(&self) -> Option<Response> {
        Some(match self.clone() {
            Self::Party(party) => Response::Party(party),
            Self::Notaries(notaries) => Response::Notaries(notaries),
            Self::Signature(signature) => Response::Signature(signature),
            Self::States(states) => Response::States(states),
            Self::Found(_) => return None,
            Self::Known(known) => Response::Known(known),
            Self::Committed(committed) => Response::Committed(committed),
            Self::Rate(rate) => Response::Rate(rate),
            Self::Issuers(names) => Response::Issuers(names),
            Self::Done => Response::Done,
            Self::Refused(error) => Response::Refused(error),
            Self::Names(names) => Response::Names(names),
            Self::Shared(shared) => Response::Shared(shared),
            Self::Consumers(consumers) => Response::Consumers(consumers),
            Self::Unconsumed(page) => Response::Unconsumed(page),
            Self::Bytes(bytes) => Response::Bytes(bytes),
            Self::Cluster(answer) => Response::Cluster(answer),
        })
    }

    /// What was read again, less what had not been there the first time. `None` when something that had been there
    /// is gone.
    pub(crate) fn limit(&self, again: Response) -> Option<Response> {
        let Self::Found(found) = self else { return None };
        match again {
            Response::Transactions(transactions) if transactions.len() == found.len() => transactions
                .into_iter()
                .zip(found)
                .map(|(transaction, was)| match (transaction, was) {
                    (_, false) => Some(None),
                    (None, true) => None,
                    (some, true) => Some(some),
                })
                .collect::<Option<Vec<_>>>()
                .map(Response::Transactions),
            Response::Attachment(attachment) if found.len() == 1 => match (attachment, found[0]) {
                (_, false) => Some(Response::Attachment(None)),
                (None, true) => None,
                (some, true) => Some(Response::Attachment(some)),
            },
            _ => None,
        }
    }
}

const VERBS: [&str; 30] = [
    "find a party",
    "list the notaries",
    "sign",
    "select states",
    "find states",
    "read transactions",
    "read fetched transactions",
    "say which transactions it has",
    "keep transactions",
    "record transactions",
    "release states",
    "read an attachment",
    "commit as a notary",
    "say an exchange rate",
    "keep a part of an attachment",
    "put an attachment together",
    "say which identities are certified",
    "say whose cash it takes",
    "agree to a proposal",
    "note who lacks a transaction",
    "note who has a transaction",
    "note that a transaction's fate is known",
    "list the parties",
    "find transactions of a party",
    "say by what states are consumed",
    "list unconsumed states",
    "consume states elsewhere",
    "be recovered",
    "say how large a transaction may be",
    "have its cluster decide",
];

fn verb(request: u8) -> &'static str {
    VERBS.get(usize::from(request)).copied().unwrap_or("do something unknown")
}

impl Request {
    pub(crate) const RECORD: u8 = 9;
    pub(crate) const COMMIT: u8 = 12;

    /// The kind of request, as the journal numbers it.
    pub(crate) fn kind(&self) -> u8 {
        match self {
            Self::Party(_) => 0,
            Self::Notaries => 1,
            Self::Sign { .. } => 2,
            Self::Select(_) => 3,
            Self::Find(_) => 4,
            Self::Transactions(_) => 5,
            Self::Dependencies(_) => 6,
            Self::Known(_) => 7,
            Self::Keep(_) => 8,
            Self::Record(_) => Self::RECORD,
            Self::Release(_) => 10,
            Self::Attachment(_) => 11,
            Self::Commit(_) => Self::COMMIT,
            Self::Rate { .. } => 13,
            Self::KeepPart(_) => 14,
            Self::Attach { .. } => 15,
            Self::Certified(_) => 16,
            Self::Issuers => 17,
            Self::Consent(_) => 18,
            Self::Undelivered { .. } => 19,
            Self::Delivered { .. } => 20,
            Self::Resolved(_) => 21,
            Self::Parties => 22,
            Self::Shared { .. } => 23,
            Self::Consumers(_) => 24,
            Self::Unconsumed { .. } => 25,
            Self::ConsumeElsewhere(_) => 26,
            Self::Recovered => 27,
            Self::TransactionLimit => 28,
            Self::Submit { .. } => 29,
        }
    }

    /// What it asks, for a person.
    pub fn describe(&self) -> &'static str {
        verb(self.kind())
    }
}
