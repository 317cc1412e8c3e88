//! ISO 20022 messages of settlement in and out: payments, returns, cancellations, reports, statements.
//!
//! Bytes in, types out, and back; no files, no network, no clock. [`parse`] reads a pain.001, pacs.008 or
//! pacs.009 of any current version, with or without a business application header, into one
//! [`Message`]; [`answer`] answers it with a pain.002 or pacs.002. [`parse_document`] reads these and every other
//! message that is read here, told apart by the document's namespace:
//!
//! | message | read by | written by |
//! | --- | --- | --- |
//! | pain.001, pacs.008, pacs.009 | [`parse`] | |
//! | pain.002 | [`parse_status_report`] | [`initiation_report`], [`group_initiation_report`] |
//! | pacs.002 | [`parse_status_report`] | [`status_report`], [`return_status_report`], [`group_status_report`] |
//! | pacs.004 | [`parse_payment_return`] | [`payment_return`](fn@payment_return) |
//! | camt.029 | [`parse_resolution`] | [`resolution`](fn@resolution) |
//! | camt.053 | [`parse_statement`] | [`statement`](fn@statement) |
//! | camt.054 | [`parse_notification`] | [`notification`] |
//! | camt.056 | [`parse_cancellation_request`] | [`cancellation_request`] |
//! | head.001 | with each of them | [`with_header`] |
//!
//! # What is refused where
//! - A file that is not a message (encoding, XML, namespace, group header, an unknown element
//!   outside a payment) is a [`ParseError`]; [`group_answer`] answers it.
//! - A header that contradicts its payments is [`Message::group_rejection`].
//! - A payment whose form is wrong is refused alone: its [`Payment::transfer`] is the reason.
//!
//! ```
//! # fn main() -> Result<(), tally_iso20022::ParseError> {
//! let file = br#"<Document xmlns="urn:iso:std:iso:20022:tech:xsd:pain.001.001.03"/>"#;
//! let error = tally_iso20022::parse(file, &tally_iso20022::Limits::default()).unwrap_err();
//! assert_eq!(error.reason.code(), "FF01");
//! # Ok(())
//! # }
//! ```

mod amount;
mod assignment;
mod cancellation;
mod date;
mod document;
mod envelope;
mod error;
mod guard;
mod header;
mod identifier;
mod initiation;
mod interbank;
mod limits;
mod message;
mod original;
mod output;
mod parties;
mod payment;
mod payment_return;
mod reason;
mod remittance;
mod report;
mod resolution;
mod shapes;
mod statement;
mod terms;
mod totals;
mod tree;
mod uetr;
mod xml;

#[cfg(test)]
mod tests;

pub use amount::{Decimal, Money};
pub use assignment::{Assignment, Case};
pub use cancellation::{
    CANCELLATION_DEFINITION, Cancellation, CancellationRequest, cancellation_request,
    parse_cancellation_request,
};
pub use date::Date;
pub use document::{Document, Received, parse_document};
pub use error::{Original, ParseError, Position, WriteError};
pub use header::{AppHeader, with_header};
pub use identifier::{Bic, Iban, format_uetr};
pub use limits::Limits;
pub use message::{AccountId, Agent, Alias, Message, MessageKind, Party, Payment, PaymentBlock, Transfer};
pub use original::{GivenReason, OriginalPayment};
pub use payment_return::{
    PaymentReturn, RETURN_DEFINITION, ReturnOrder, ReturnedPayment, SettlementMethod, parse_payment_return,
    payment_return,
};
pub use reason::{CancellationRejection, Reason, StatusReason};
pub use remittance::{CreditorReference, ReferredDocument, Remittance, StructuredRemittance};
pub use report::{
    BlockReport, Outcome, ReportContext, ReportedReason, STATUS_REPORT_DEFINITION, StatusReport,
    TransactionReport, TransactionStatus, answer, answer_definition, group_answer, group_initiation_report,
    group_status_report, initiation_report, parse_status_report, refused_by_form, return_status_report,
    status_report,
};
pub use resolution::{
    CancellationAnswer, CancellationDecision, CancellationVerdict, RESOLUTION_DEFINITION, Resolution,
    parse_resolution, resolution,
};
pub use statement::{
    AccountReport, Balance, BalanceKind, BankTransactionCode, CreditDebit, EntryDetails, EntryStatus,
    NOTIFICATION_DEFINITION, NotificationMessage, Page, ReportHeader, ReportedAccount, ReturnNote,
    STATEMENT_DEFINITION, Statement, StatementEntry, StatementMessage, notification, parse_notification,
    parse_statement, statement, statement_pages,
};
pub use terms::{ChargesBearer, Coded};
pub use uetr::{derived_return_uetr, derived_uetr};

/// Why a report cannot be written.
pub use error::WriteError as ReportError;

use envelope::Envelope;
use tree::{Children, Fault, Source};

/// Reads a message. See the crate's documentation for what is refused where.
///
/// Elements are checked for namespace, name, order and number wherever one of them is used; parts
/// that nothing here depends on (postal addresses, charges, tax, …) are passed over.
///
/// # Errors
/// If the file as a whole is not a message that is read here, with the code for the status report.
pub fn parse(xml: &[u8], limits: &Limits) -> Result<Message, ParseError> {
    let (tree, text) = envelope::tree(xml, limits)?;
    let source = Source::new(text);
    read_payments(&Envelope::open(&tree, &source)?, limits)
}

/// The payments in the envelope.
fn read_payments(envelope: &Envelope<'_>, limits: &Limits) -> Result<Message, ParseError> {
    let mut known = None;
    read(envelope, limits, &mut known).map_err(|mut error| {
        let definition = Some(envelope.definition.to_owned());
        error.original = Some(Box::new(Original { definition, message_id: known }));
        error
    })
}

/// Reads the message and notes its identification as soon as it is found.
fn read(
    envelope: &Envelope<'_>,
    limits: &Limits,
    message_id: &mut Option<String>,
) -> Result<Message, ParseError> {
    let (kind, version) = supported(envelope.definition)?;
    let body_name = match kind {
        MessageKind::CustomerCreditTransferInitiation => "CstmrCdtTrfInitn",
        MessageKind::FiToFiCustomerCreditTransfer => "FIToFICstmrCdtTrf",
        MessageKind::FinancialInstitutionCreditTransfer if version < 4 => "FinInstnCdtTrf",
        MessageKind::FinancialInstitutionCreditTransfer => "FICdtTrf",
    };
    let body = envelope.body(body_name, version)?;
    if let Some(id) = body.find("GrpHdr").and_then(|header| header.find("MsgId")) {
        *message_id = id.text_up_to(parties::MAX_ID).ok();
    }
    let app_header = envelope.header()?;
    let initiation = kind == MessageKind::CustomerCreditTransferInitiation;
    let body = body
        .children(if initiation { shapes::INITIATION } else { shapes::INTERBANK })
        .map_err(Fault::into_error)?;
    let header = body
        .require("GrpHdr")
        .and_then(|header| {
            header.children(if initiation { shapes::INITIATION_HEADER } else { shapes::INTERBANK_HEADER })
        })
        .map_err(Fault::into_error)?;
    message(kind, envelope.definition, app_header, &body, &header, limits).map_err(Fault::into_error)
}

fn message(
    kind: MessageKind,
    definition: &str,
    app_header: Option<AppHeader>,
    body: &Children<'_>,
    header: &Children<'_>,
    limits: &Limits,
) -> Result<Message, Fault> {
    let message_id = header.require("MsgId")?.text_up_to(parties::MAX_ID)?;
    let created = parties::date_time(header.require("CreDtTm")?)?;
    let number = parties::number_of_transactions(header.require("NbOfTxs")?, StatusReason::AM19)?;
    let control_sum =
        header.get("CtrlSum").map(|sum| parties::control_sum(sum, StatusReason::AM10)).transpose()?;
    let mut message = Message {
        header: app_header,
        kind,
        definition: definition.to_owned(),
        message_id,
        created,
        number_of_transactions: number,
        control_sum,
        total_settlement_amount: None,
        initiating_party: None,
        instructing_agent: None,
        instructed_agent: None,
        payments: Vec::new(),
        blocks: Vec::new(),
        group_rejection: None,
    };
    let entries = if kind == MessageKind::CustomerCreditTransferInitiation {
        let read = initiation::read(body, header, limits.payments)?;
        message.initiating_party = Some(read.initiating_party);
        message.blocks = read.blocks;
        read.entries
    } else {
        let read = interbank::read(kind, body, header, limits.payments)?;
        message.total_settlement_amount = read.total;
        message.instructing_agent = read.instructing_agent;
        message.instructed_agent = read.instructed_agent;
        read.entries
    };
    message.group_rejection = totals::group_rejection(
        number,
        control_sum,
        message.total_settlement_amount,
        "TtlIntrBkSttlmAmt",
        &payment::amounts(&entries),
    );
    message.payments = entries.into_iter().map(|entry| entry.payment).collect();
    Ok(message)
}

/// The kind and version of a definition that is read here.
fn supported(definition: &str) -> Result<(MessageKind, u8), ParseError> {
    let kinds = [
        (MessageKind::CustomerCreditTransferInitiation, 3..=12),
        (MessageKind::FiToFiCustomerCreditTransfer, 2..=12),
        (MessageKind::FinancialInstitutionCreditTransfer, 2..=11),
    ];
    for (kind, versions) in kinds {
        if let Some(version) = envelope::version(definition, kind.name(), versions) {
            return Ok((kind, version));
        }
    }
    Err(ParseError::new(format!(
        "messages {} are not read here; pain.001.001.03 to .12, pacs.008.001.02 to .12 and pacs.009.001.02 to .11 are",
        guard::quoted(definition)
    )))
}
