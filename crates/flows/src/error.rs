//! Why a flow did not do what it was started for.

use borsh::{BorshDeserialize, BorshSerialize};
use serde::{Deserialize, Serialize};
use tally_contracts::{Name, PublicKey, StateRef, TransactionId};

/// The failure of a flow: final, recorded as its outcome, told to whoever started it and to the flows it was
/// talking to. What can heal (a peer that is away, a database that is gone) never becomes one.
#[derive(
    Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize, Serialize, Deserialize, thiserror::Error,
)]
#[serde(tag = "code", rename_all = "snake_case")]
pub enum FlowError {
    /// The flow's own rules say no.
    #[error("{reason}")]
    Refused {
        /// What was refused and why.
        reason: String,
    },
    /// A transaction, signature or history does not verify.
    #[error("the transaction does not verify: {reason}")]
    Invalid {
        /// The rule that it breaks.
        reason: String,
    },
    /// The vault holds less than is wanted, or other flows hold what is there.
    #[error("{available} of {asset} can be spent, {wanted} are wanted; other flows hold {held}")]
    Insufficient {
        /// The asset, in the contract's words.
        asset: String,
        /// Minor units wanted.
        wanted: u64,
        /// Minor units that no flow holds.
        available: u64,
        /// Minor units that other flows hold.
        held: u64,
    },
    /// A state was consumed by another transaction: the notary's answer.
    #[error("{state} was consumed by {consumed_by}")]
    Conflict {
        /// The state that this flow wanted to consume or to read.
        state: StateRef,
        /// The transaction that consumed it first.
        consumed_by: TransactionId,
    },
    /// The notary's clock is outside the time window.
    #[error("the notary's time {at_ms} ms is outside the transaction's time window")]
    OutsideTimeWindow {
        /// Milliseconds since the Unix epoch.
        at_ms: u64,
    },
    /// The flow at the other node failed.
    #[error("the flow at {party} failed ({kind}): {reason}")]
    Counterparty {
        /// Whose flow it was.
        party: Name,
        /// The [`code`](FlowError::code) of its failure.
        kind: String,
        /// What it said. Not nested, so that no peer can make it deep.
        reason: String,
    },
    /// The other flow ended while this one waited for it.
    #[error("the flow at {party} ended without an answer")]
    SessionEnded {
        /// Whose flow it was.
        party: Name,
    },
    /// The other flow sent something that this one does not understand.
    #[error("{party} sent what was not expected: {reason}")]
    Unexpected {
        /// Who sent it.
        party: Name,
        /// What is wrong with it.
        reason: String,
    },
    /// Nobody of that name is on the network map.
    #[error("no party `{name}` is on the network map")]
    UnknownParty {
        /// The name that was asked for.
        name: String,
    },
    /// The node has no such flow, or none that answers it.
    #[error("no flow `{flow}` is installed here")]
    UnknownFlow {
        /// The flow's name.
        flow: String,
    },
    /// The node has other versions of the flow.
    #[error("version {wanted} of flow `{flow}` is not installed here; installed: {installed}")]
    Version {
        /// The flow's name.
        flow: String,
        /// The version that was asked for.
        wanted: u32,
        /// The versions that are there.
        installed: String,
    },
    /// No answer came in time.
    #[error("no answer from {party} in time")]
    Timeout {
        /// Who was to answer.
        party: Name,
    },
    /// A person ended the flow.
    #[error("the flow was killed")]
    Killed,
    /// A message or transaction is larger than the network allows.
    #[error("{what} has {bytes} bytes, more than the {limit} allowed")]
    TooLarge {
        /// What is too large.
        what: String,
        /// Its size.
        bytes: u64,
        /// The limit in force.
        limit: u64,
    },
    /// As many flows are under way as may be: of the node, of all peers, or of the peer that asks.
    #[error("{limit} flows are under way, as many as the node takes; try again later")]
    Busy {
        /// The limit in force.
        limit: u64,
    },
    /// A party cannot spend as much as is wanted. How much it has is its own affair: what
    /// [`Insufficient`](Self::Insufficient) becomes when it is told to another node.
    #[error("{wanted} of {asset} are wanted, more than can be spent there now")]
    Short {
        /// The asset, in the contract's words.
        asset: String,
        /// Minor units wanted.
        wanted: u64,
    },
    /// The node at the other end goes on from another database: it was made anew, restored or recovered, and what was said
    /// before is not known there.
    #[error("{party} goes on from another database and knows nothing of this session")]
    Forgotten {
        /// Whose database it was.
        party: Name,
    },
    /// The node takes no work until it is recovered.
    #[error("the node has to be recovered before it takes work: `tally node recover`")]
    Recovering,
    /// The transaction is final and recorded here; what the flow had left to do did not end well. Whoever started the
    /// flow has what it asked for and must not ask again.
    #[error("transaction {transaction} is final; the flow ended after that ({kind}): {reason}")]
    Final {
        /// The transaction.
        transaction: TransactionId,
        /// The [`code`](FlowError::code) of what ended the flow.
        kind: String,
        /// What ended it.
        reason: String,
    },
    /// The notary was asked and its answer is not known. The node asks it again until it is: the same transaction
    /// always gets the same answer.
    #[error(
        "it is not known yet whether transaction {transaction} is final; the flow ended ({kind}): {reason}"
    )]
    Unknown {
        /// The transaction.
        transaction: TransactionId,
        /// The [`code`](FlowError::code) of what ended the flow.
        kind: String,
        /// What ended it.
        reason: String,
    },
    /// A notary is asked about a transaction under a key that it has no more. It cannot say whether the transaction is
    /// final: this is no refusal.
    #[error("transaction {transaction} is for the notary's key {key}, which makes nothing final any more")]
    FormerKey {
        /// The transaction.
        transaction: TransactionId,
        /// The key that it names.
        key: PublicKey,
    },
    /// A notary is shown a transaction in a form that it does not take: it validates and sees a tear-off, or the other
    /// way round. It has not looked whether the transaction is final, so that this is no refusal.
    #[error("this notary has to be shown {wanted}: it is of another kind than the network's parameters said")]
    OtherForm {
        /// What it takes.
        wanted: String,
    },
}

/// What a failure says of the transaction that the flow was about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Nothing became final: it may be asked for again.
    Refused,
    /// It may have become final: the node finds out.
    Unknown(TransactionId),
    /// It became final: it must not be asked for again.
    Final(TransactionId),
}

impl FlowError {
    /// What this failure says of the transaction that the flow was about.
    pub fn fate(&self) -> Fate {
        match self {
            Self::Final { transaction, .. } => Fate::Final(*transaction),
            Self::Unknown { transaction, .. } => Fate::Unknown(*transaction),
            _ => Fate::Refused,
        }
    }

    /// A refusal by the flow's own rules.
    pub fn refused(reason: impl ToString) -> Self {
        Self::Refused { reason: reason.to_string() }
    }

    /// Something that does not verify.
    pub fn invalid(reason: impl ToString) -> Self {
        Self::Invalid { reason: reason.to_string() }
    }

    /// A stable word for the kind of failure, as in JSON's `code`.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Refused { .. } => "refused",
            Self::Invalid { .. } => "invalid",
            Self::Insufficient { .. } | Self::Short { .. } => "insufficient",
            Self::Conflict { .. } => "conflict",
            Self::OutsideTimeWindow { .. } => "outside_time_window",
            Self::Counterparty { .. } => "counterparty",
            Self::SessionEnded { .. } => "session_ended",
            Self::Unexpected { .. } => "unexpected",
            Self::UnknownParty { .. } => "unknown_party",
            Self::UnknownFlow { .. } => "unknown_flow",
            Self::Version { .. } => "version",
            Self::Timeout { .. } => "timeout",
            Self::Killed => "killed",
            Self::TooLarge { .. } => "too_large",
            Self::Busy { .. } => "busy",
            Self::Final { .. } => "final",
            Self::Unknown { .. } => "unknown",
            Self::Forgotten { .. } => "forgotten",
            Self::Recovering => "recovering",
            Self::FormerKey { .. } => "former_key",
            Self::OtherForm { .. } => "other_form",
        }
    }

    /// The failure as `peer` may hear it. Whoever was `asked` by this flow hears no more than its kind, for the flow's
    /// business is not that of everybody who has a part in it: an oracle is not told what the payer lacks, or who did not
    /// answer. Whoever asked this flow hears why it says no, but not what it has, and nothing about third parties.
    pub(crate) fn told(&self, peer: &Name, asked: bool) -> Self {
        let kind = self.code();
        match self {
            Self::Killed => Self::Killed,
            _ if asked => Self::Refused { reason: format!("the flow that asked failed ({kind})") },
            Self::Insufficient { asset, wanted, .. } => Self::Short { asset: asset.clone(), wanted: *wanted },
            Self::Counterparty { kind, .. } => {
                Self::Refused { reason: format!("another party's flow failed ({kind})") }
            }
            Self::SessionEnded { party }
            | Self::Unexpected { party, .. }
            | Self::Timeout { party }
            | Self::Forgotten { party }
                if party != peer =>
            {
                Self::Refused { reason: format!("another party's flow failed ({kind})") }
            }
            Self::Final { kind, .. } | Self::Unknown { kind, .. } => {
                Self::Refused { reason: format!("the flow ended ({kind})") }
            }
            Self::Conflict { .. } => Self::Refused {
                reason: "a state that it needs was consumed by another transaction".to_owned(),
            },
            other => other.clone(),
        }
    }

    /// What a failure that `party` tells is to the flow that hears it.
    pub(crate) fn heard_from(self, party: Name) -> Self {
        Self::Counterparty { party, kind: self.code().to_owned(), reason: self.to_string() }
    }
}
