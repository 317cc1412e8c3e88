//! Why a file could not be read as a message at all.

use crate::reason::{Reason, StatusReason};

/// Place in a file: line and column, both from 1; the column counts characters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Position {
    /// Line, from 1.
    pub line: u32,
    /// Character within the line, from 1.
    pub column: u32,
}

/// The file is not a message that this program reads; nothing in it was taken as a payment.
#[derive(Debug, thiserror::Error)]
#[error("{reason}{}{}: {what}", .position.map(|at| format!(" at line {}, column {}", at.line, at.column)).unwrap_or_default(),
    .path.as_ref().map(|path| format!(" in {path}")).unwrap_or_default())]
#[non_exhaustive]
pub struct ParseError {
    /// The code for the status report.
    pub reason: StatusReason,
    /// Where, if it is at one place.
    pub position: Option<Position>,
    /// The element, as names from the document's element down, if it is about one.
    pub path: Option<String>,
    /// What was wrong and what is expected.
    pub what: String,
    /// What was recognised of the message before the error.
    pub original: Option<Box<Original>>,
    #[source]
    pub(crate) source: Option<Box<roxmltree::Error>>,
}

/// What is known of a message that could not be read.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Original {
    /// Its definition by the document's namespace, supported or not: `pain.001.001.03`.
    pub definition: Option<String>,
    /// Its identification.
    pub message_id: Option<String>,
}

impl ParseError {
    pub(crate) fn new(what: impl Into<String>) -> Self {
        Self {
            reason: StatusReason::FF01,
            position: None,
            path: None,
            what: what.into(),
            original: None,
            source: None,
        }
    }

    pub(crate) fn at(mut self, position: Position) -> Self {
        self.position = Some(position);
        self
    }

    /// The refusal to put into a status report: code and one line of text with place and cause.
    pub fn to_reason(&self) -> Reason {
        let mut text = self.what.clone();
        if let Some(source) = &self.source {
            text = format!("{text}: {source}");
        }
        if let Some(path) = &self.path {
            text = format!("{path}: {text}");
        }
        if let Some(at) = self.position {
            text = format!("{text} (line {}, column {})", at.line, at.column);
        }
        Reason::new(self.reason, text)
    }
}

/// Why a message cannot be written. Always a mistake of the caller, never of the sender of an original
/// message.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    /// Not one outcome for each payment.
    #[error(
        "the message has {payments} payments, {outcomes} outcomes were given; give one for each, in order"
    )]
    OutcomeCount {
        /// Payments of the original message.
        payments: usize,
        /// Outcomes given.
        outcomes: usize,
    },
    /// Another outcome than a refusal for a payment that is refused for its form or with its message.
    #[error("payment {payment} of the message, from 0, must not be made; report it as refused")]
    Forbidden {
        /// Which payment, from 0.
        payment: usize,
    },
    /// A statement whose entries do not lead from its opening to its closing balance.
    #[error(
        "statement {statement}: the opening balance and the booked entries make {found}, the closing balance is {stated}"
    )]
    Balance {
        /// The statement's identification.
        statement: String,
        /// What the opening balance and the entries make; below zero for a debit.
        found: String,
        /// What the closing balance says, in the same form.
        stated: String,
    },
    /// A statement that cannot be split into pages.
    #[error(
        "statement {statement}: pages need an opening and a closing booked balance, and amounts of at most 18 digits between"
    )]
    NoBalance {
        /// The statement's identification.
        statement: String,
    },
    /// A statement with amounts of several currencies.
    #[error("statement {statement}: an amount is in {found}, the first one in {expected}")]
    Currency {
        /// The statement's identification.
        statement: String,
        /// The currency of the first amount.
        expected: String,
        /// The other currency.
        found: String,
    },
    /// A text that the schema does not allow.
    #[error("{field} of the message is {value:?}; {expected} is expected")]
    Field {
        /// The element, as names from the message's element down.
        field: String,
        /// What was given.
        value: String,
        /// What the schema allows.
        expected: String,
    },
}
