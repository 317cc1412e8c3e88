use std::io;

use tonic::Status;

use crate::convert::{Answered, NotUnderstood, answered};
use crate::refusal::Refusal;

/// A call of a client did not succeed.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The server name is neither a DNS name nor an address.
    #[error("`{name}` is no name that a server's certificate can have")]
    ServerName {
        /// The name given.
        name: String,
    },
    /// No connection can be made: nobody listens, or the other side is not who it should be.
    #[error("cannot connect to {address}")]
    Connect {
        /// Where to.
        address: String,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// The connection was lost during the call; what the call started may go on.
    #[error("the connection to the node was lost during the call")]
    Lost(#[source] Box<Status>),
    /// The node refused the call, and says why.
    #[error("refused: {0}")]
    Refused(Refusal),
    /// The answer has a status that this client does not know: a newer node, or a proxy on the way.
    #[error("the answer was {code}: {message}")]
    Other {
        /// The status or code.
        code: String,
        /// What it says.
        message: String,
    },
    /// The answer is not of the published form: the node and this client do not fit.
    #[error("the node's answer cannot be understood")]
    NotUnderstood(#[from] NotUnderstood),
}

impl ClientError {
    /// The refusal, when the node refused the call.
    pub fn refusal(&self) -> Option<&Refusal> {
        match self {
            Self::Refused(refusal) => Some(refusal),
            _ => None,
        }
    }

    pub(super) fn not_understood(field: &'static str, what: &str) -> Self {
        Self::NotUnderstood(NotUnderstood { field, what: what.to_owned() })
    }
}

impl From<Status> for ClientError {
    fn from(status: Status) -> Self {
        // Only what went wrong on this side of the connection has a source.
        if std::error::Error::source(&status).is_some() {
            return Self::Lost(Box::new(status));
        }
        answered(&status).into()
    }
}

impl From<Answered> for ClientError {
    fn from(answered: Answered) -> Self {
        match answered {
            Answered::Refused(refusal) => Self::Refused(refusal),
            Answered::Other { code, message } => Self::Other { code, message },
        }
    }
}
