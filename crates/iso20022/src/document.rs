//! Any message that is read here, told apart by the namespace of its document.

use crate::cancellation::{self, CancellationRequest};
use crate::envelope::{self, Envelope};
use crate::error::{Original, ParseError};
use crate::guard;
use crate::header::AppHeader;
use crate::limits::Limits;
use crate::message::Message;
use crate::payment_return::{self, PaymentReturn};
use crate::report::{self, StatusReport};
use crate::resolution::{self, Resolution};
use crate::statement::{self, NotificationMessage, StatementMessage};
use crate::tree::Source;

/// A message with the business application header that came with it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Received {
    /// The header, if there is one.
    pub header: Option<AppHeader>,
    /// The message.
    pub document: Document,
}

/// A message, by what it is for.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Document {
    /// pain.001, pacs.008, pacs.009: payments to make.
    Payments(Box<Message>),
    /// pacs.004: payments to send back.
    Return(PaymentReturn),
    /// camt.056: payments to cancel.
    CancellationRequest(CancellationRequest),
    /// camt.029: what became of the cancellations.
    Resolution(Resolution),
    /// pain.002, pacs.002: what became of payments or returns.
    StatusReport(StatusReport),
    /// camt.053: balances and entries of accounts.
    Statement(StatementMessage),
    /// camt.054: entries of accounts.
    Notification(NotificationMessage),
}

/// Reads any message that is read here: what [`parse`](crate::parse) reads, and pacs.004, camt.056, camt.029,
/// pain.002, pacs.002, camt.053 and camt.054.
///
/// # Errors
/// If the file as a whole is not such a message, with the code for the status report and what was
/// recognised of the message.
pub fn parse_document(xml: &[u8], limits: &Limits) -> Result<Received, ParseError> {
    let (tree, text) = envelope::tree(xml, limits)?;
    let source = Source::new(text);
    let envelope = Envelope::open(&tree, &source)?;
    read(&envelope, limits).map_err(|mut error| {
        error.original.get_or_insert_with(|| {
            let definition = Some(envelope.definition.to_owned());
            Box::new(Original { definition, message_id: envelope.message_id() })
        });
        error
    })
}

fn read(envelope: &Envelope<'_>, limits: &Limits) -> Result<Received, ParseError> {
    let document = match envelope.definition.get(..8).unwrap_or_default() {
        "pain.001" | "pacs.008" | "pacs.009" => {
            let message = crate::read_payments(envelope, limits)?;
            return Ok(Received {
                header: message.header.clone(),
                document: Document::Payments(Box::new(message)),
            });
        }
        "pacs.004" => payment_return::read(envelope, limits).map(Document::Return),
        "camt.056" => cancellation::read(envelope, limits).map(Document::CancellationRequest),
        "camt.029" => resolution::read(envelope, limits).map(Document::Resolution),
        "pain.002" | "pacs.002" => report::read_status_report(envelope, limits).map(Document::StatusReport),
        "camt.053" => statement::read_statement(envelope, limits).map(Document::Statement),
        "camt.054" => statement::read_notification(envelope, limits).map(Document::Notification),
        _ => Err(ParseError::new(format!(
            "messages {} are not read here; pain.001, pain.002, pacs.002, pacs.004, pacs.008, pacs.009, camt.029, \
             camt.053, camt.054 and camt.056 are",
            guard::quoted(envelope.definition)
        ))),
    }?;
    Ok(Received { header: envelope.header()?, document })
}
