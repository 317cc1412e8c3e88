//! Status reports, written and read: pacs.002.001.10 FIToFIPaymentStatusReport, and pain.002
//! CustomerPaymentStatusReport.

mod initiation;
#[cfg(test)]
mod initiation_tests;
mod read;
#[cfg(test)]
pub(crate) mod tests;
mod write;

use std::fmt;

use crate::date::Date;
use crate::message::{Agent, Message};
use crate::reason::Reason;

pub use initiation::{answer, answer_definition, group_answer, group_initiation_report, initiation_report};
pub use read::parse_status_report;
pub(crate) use read::read as read_status_report;
pub use write::{group_status_report, return_status_report, status_report};

/// The definition of the reports on messages between institutions.
pub const STATUS_REPORT_DEFINITION: &str = "pacs.002.001.10";

/// How far a payment came (`ExternalPaymentTransactionStatus1Code`).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum TransactionStatus {
    /// ACSC: settled, for ever.
    Settled,
    /// ACSP: accepted, and on its way to settlement.
    InProcess,
    /// PDNG: received, and not yet decided.
    Pending,
    /// RJCT: refused, for ever.
    Rejected,
}

impl TransactionStatus {
    /// Every status.
    pub const ALL: [Self; 4] = [Self::Settled, Self::InProcess, Self::Pending, Self::Rejected];

    /// The four letters of the standard.
    pub fn code(self) -> &'static str {
        match self {
            Self::Settled => "ACSC",
            Self::InProcess => "ACSP",
            Self::Pending => "PDNG",
            Self::Rejected => "RJCT",
        }
    }

    /// The status of these four letters, if it is one of these.
    pub fn from_code(code: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.code() == code)
    }
}

impl fmt::Display for TransactionStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.code())
    }
}

/// What became of a payment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// Final.
    Settled {
        /// When the payment was accepted, as an `ISODateTime`.
        accepted: Option<String>,
        /// The day of settlement.
        settled_on: Option<Date>,
        /// The settling institution's own reference, at most 35 characters.
        reference: Option<String>,
    },
    /// Accepted, not settled yet.
    InProcess,
    /// Not decided yet.
    Pending,
    /// Refused.
    Rejected(Reason),
}

impl Outcome {
    /// Its code.
    pub fn status(&self) -> TransactionStatus {
        match self {
            Self::Settled { .. } => TransactionStatus::Settled,
            Self::InProcess => TransactionStatus::InProcess,
            Self::Pending => TransactionStatus::Pending,
            Self::Rejected(_) => TransactionStatus::Rejected,
        }
    }
}

/// Who reports, under which name, and when.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ReportContext {
    /// The identification of the report, 1 to 35 characters, unique for the sender.
    pub message_id: String,
    /// When the report is made, as an `ISODateTime`.
    pub created: String,
    /// The institution that reports.
    pub instructing_agent: Option<Agent>,
    /// The institution that the report is for.
    pub instructed_agent: Option<Agent>,
}

/// A status report as read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StatusReport {
    /// Its definition: `pacs.002.001.10`.
    pub definition: String,
    /// The report's own identification.
    pub message_id: String,
    /// When it was made, as an `ISODateTime`.
    pub created: String,
    /// The message reported on.
    pub original_message_id: String,
    /// The definition of the message reported on.
    pub original_definition: String,
    /// The status of the message as a whole, as its code: `ACSC`, `PART`, `RJCT`, …
    pub group_status: Option<String>,
    /// Why, if the message as a whole was refused.
    pub group_reasons: Vec<ReportedReason>,
    /// The blocks reported on, in order (pain.002 only).
    pub blocks: Vec<BlockReport>,
    /// The payments reported on, in order; none if the message was refused unread, and in a pain.002
    /// none of a message or block that was refused as a whole.
    pub transactions: Vec<TransactionReport>,
}

/// What a pain.002 says of a block of payments.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BlockReport {
    /// The payment information identification of the block.
    pub id: String,
    /// The status of the block as a whole, as a code.
    pub status: Option<String>,
    /// Why, if the block as a whole was refused.
    pub reasons: Vec<ReportedReason>,
}

/// What a report says of one payment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TransactionReport {
    /// The block that the payment belongs to (pain.002 only).
    pub payment_information_id: Option<String>,
    /// The payment's instruction identification.
    pub instruction_id: Option<String>,
    /// Its end-to-end identification.
    pub end_to_end_id: Option<String>,
    /// Its transaction identification.
    pub transaction_id: Option<String>,
    /// Its unique end-to-end transaction reference.
    pub uetr: Option<[u8; 16]>,
    /// Its status, as a code: `ACSC`, `RJCT`, …
    pub status: Option<String>,
    /// Why.
    pub reasons: Vec<ReportedReason>,
    /// When it was accepted, as an `ISODateTime`.
    pub accepted: Option<String>,
    /// The day of settlement.
    pub settled_on: Option<Date>,
    /// The settling institution's reference.
    pub reference: Option<String>,
}

/// A reason as a report states it: the code may be one that this program does not know.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct ReportedReason {
    /// The code, or the proprietary name of a reason.
    pub code: Option<String>,
    /// The additional information, its pieces joined by spaces.
    pub text: String,
}

/// The outcomes that are certain before anything is settled: `Some` for each payment that is refused
/// for its form or because the whole message is, `None` for each that can go to settlement.
pub fn refused_by_form(message: &Message) -> Vec<Option<Outcome>> {
    message
        .instructions()
        .map(|(_, verdict)| verdict.err().map(|reason| Outcome::Rejected(reason.clone())))
        .collect()
}
