//! Messages that move money: payments, and payments that go back.

use super::Order;
use crate::references::References;
use tally_iso20022::{
    AppHeader, Document, Limits, Message, Outcome, ParseError, PaymentReturn, Reason, ReportContext,
    ReportError, STATUS_REPORT_DEFINITION, answer, answer_definition, return_status_report, with_header,
};
use tally_ledger::Uetr;

/// The most payments of one message: their drafts and signatures fit one request.
const MAX_PAYMENTS: usize = 10_000;

/// A message that asks for money to be moved.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Instructions {
    /// pain.001, pacs.008, pacs.009: payments to make.
    Payments(Box<Message>),
    /// pacs.004, with the header that came with it: payments to send back.
    Returns(Box<PaymentReturn>, Option<Box<AppHeader>>),
}

impl Instructions {
    /// Reads a message of any of these kinds.
    ///
    /// # Errors
    /// When the file as a whole is none.
    pub fn read(xml: &[u8]) -> Result<Self, ParseError> {
        let limits = Limits { payments: MAX_PAYMENTS, ..Limits::default() };
        let received = tally_iso20022::parse_document(xml, &limits)?;
        match received.document {
            Document::Payments(message) => Ok(Self::Payments(message)),
            Document::Return(message) => Ok(Self::Returns(Box::new(message), received.header.map(Box::new))),
            // It says which kinds move money.
            _ => tally_iso20022::parse(xml, &limits).map(|message| Self::Payments(Box::new(message))),
        }
    }

    /// How many payments it asks for.
    pub fn len(&self) -> usize {
        match self {
            Self::Payments(message) => message.payments.len(),
            Self::Returns(message, _) => message.returns.len(),
        }
    }

    /// Whether it asks for none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The reference that the sender gave to the payment at that position. A payment without one gets one from the gateway
    /// ([`References`](crate::references::References)), and so does every return.
    pub fn stated(&self, position: usize) -> Option<Uetr> {
        match self {
            Self::Payments(message) => message.payments.get(position)?.uetr.map(Uetr),
            Self::Returns(..) => None,
        }
    }

    /// Whether a draft of the payment at that position may have that reference: the one that the sender gave, or where there
    /// is none, one that a gateway gave.
    pub fn may_be(&self, position: usize, reference: Uetr) -> bool {
        self.stated(position).map_or_else(|| References::is_given(reference), |stated| stated == reference)
    }

    /// The header that came with it.
    pub fn header(&self) -> Option<&AppHeader> {
        match self {
            Self::Payments(message) => message.header.as_ref(),
            Self::Returns(_, header) => header.as_deref(),
        }
    }

    /// Whether it says that it may be a copy of one that was sent before.
    pub fn is_copy(&self) -> bool {
        self.header().is_some_and(|header| header.possible_duplicate)
    }

    /// The part of its header by which it contradicts itself.
    pub fn group_rejection(&mut self) -> &mut Option<Reason> {
        match self {
            Self::Payments(message) => &mut message.group_rejection,
            Self::Returns(message, _) => &mut message.group_rejection,
        }
    }

    /// Answers it with the report that the standard has for it: pain.002 for a pain.001, else pacs.002; under a header
    /// if it came under one. There is one outcome for each payment; the context says who reports and when.
    ///
    /// # Errors
    /// When an outcome or the context has a text that the schema does not allow.
    pub fn report(&self, outcomes: &[Outcome], context: ReportContext) -> Result<String, ReportError> {
        let (definition, sender) = match self {
            Self::Payments(message) => (answer_definition(&message.definition), &message.instructing_agent),
            Self::Returns(message, _) => (STATUS_REPORT_DEFINITION, &message.instructing_agent),
        };
        let context = ReportContext { instructed_agent: sender.clone(), ..context };
        let report = match self {
            Self::Payments(message) => answer(message, outcomes, &context)?,
            Self::Returns(message, _) => return_status_report(message, outcomes, &context)?,
        };
        match self.header() {
            None => Ok(report),
            Some(header) => {
                let header = header.reply(context.message_id, definition.to_owned(), context.created);
                with_header(&header, &report)
            }
        }
    }
}

/// What makes each payment of a message, or why it is refused.
pub type Orders = Vec<Result<Order, Reason>>;
