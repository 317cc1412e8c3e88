//! camt.056: FIToFIPaymentCancellationRequest, read in versions 08 to 11 and written in version 08.

use crate::amount::Money;
use crate::assignment::{Assignment, Case};
use crate::envelope::{self, Envelope, NAMESPACE};
use crate::error::{ParseError, WriteError};
use crate::limits::Limits;
use crate::original::{GivenReason, OriginalPayment};
use crate::parties::{self, MAX_ID};
use crate::reason::StatusReason;
use crate::shapes::investigation as shapes;
use crate::totals;
use crate::tree::{Children, Element, Fault, Source};
use crate::xml::Writer;

/// The definition of the requests that are written.
pub const CANCELLATION_DEFINITION: &str = "camt.056.001.08";
/// The versions that are read.
pub(crate) const VERSIONS: std::ops::RangeInclusive<u8> = 8..=11;

/// A request to cancel payments.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CancellationRequest {
    /// Its definition: `camt.056.001.08`.
    pub definition: String,
    /// Who asks whom.
    pub assignment: Assignment,
    /// The case that all of it belongs to.
    pub case: Option<Case>,
    /// What is to be cancelled, at least one.
    pub cancellations: Vec<Cancellation>,
}

/// What is to be cancelled, and why.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Cancellation {
    /// The identification of this cancellation, 1 to 35 characters.
    pub id: Option<String>,
    /// The case that it belongs to.
    pub case: Option<Case>,
    /// Whether it is the message named by `original`, with all its payments, not one payment.
    pub is_whole_message: bool,
    /// The payment or message.
    pub original: OriginalPayment,
    /// Why (`ExternalCancellationReason1Code`).
    pub reason: Option<GivenReason>,
}

/// Reads a camt.056.001.08 to .11, with or without a business application header.
///
/// # Errors
/// If the file is not such a request, asks for more cancellations than the limits allow payments, names no
/// payment, or states another number (AM19) or sum (AM10) of cancellations than it has.
pub fn parse_cancellation_request(xml: &[u8], limits: &Limits) -> Result<CancellationRequest, ParseError> {
    let (tree, text) = envelope::tree(xml, limits)?;
    let source = Source::new(text);
    let envelope = Envelope::open(&tree, &source)?;
    envelope.header()?;
    read(&envelope, limits)
}

/// The request in the envelope.
pub(crate) fn read(envelope: &Envelope<'_>, limits: &Limits) -> Result<CancellationRequest, ParseError> {
    let version =
        envelope.expect("camt.056", VERSIONS, "a request for cancellation camt.056.001.08 to .11")?;
    let body = envelope.body("FIToFIPmtCxlReq", version)?;
    let read = || {
        let parts = body.children(shapes::REQUEST)?;
        let assignment = Assignment::read(parts.require("Assgnmt")?)?;
        let case = Case::read(&parts, "Case")?;
        parts.require("Undrlyg")?;
        let mut cancellations = Vec::new();
        for underlying in parts.all("Undrlyg") {
            read_underlying(underlying, limits, &mut cancellations)?;
        }
        check_control(&parts, &cancellations)?;
        Ok(CancellationRequest {
            definition: envelope.definition.to_owned(),
            assignment,
            case,
            cancellations,
        })
    };
    read().map_err(Fault::into_error)
}

fn read_underlying(
    element: Element<'_>,
    limits: &Limits,
    cancellations: &mut Vec<Cancellation>,
) -> Result<(), Fault> {
    let parts = element.children(shapes::UNDERLYING)?;
    let mut group = OriginalPayment::default();
    let mut group_reason = None;
    if let Some(message) = parts.get("OrgnlGrpInfAndCxl") {
        let fields = message.children(shapes::GROUP)?;
        group.read_group(&fields)?;
        group_reason = GivenReason::read(&fields, "CxlRsnInf")?;
        let asked = fields.get("GrpCxl").map(parties::yes_or_no).transpose()?;
        if asked.unwrap_or(parts.get("TxInf").is_none()) {
            totals::check_room(message, cancellations.len(), limits.payments)?;
            cancellations.push(Cancellation {
                id: fields.text("GrpCxlId", MAX_ID)?,
                case: Case::read(&fields, "Case")?,
                is_whole_message: true,
                original: group,
                reason: group_reason,
            });
            return match parts.get("TxInf") {
                Some(payment) => Err(payment.fault(
                    StatusReason::CH17,
                    "the whole message is to be cancelled; leave out its payments",
                )),
                None => Ok(()),
            };
        }
    }
    parts.require("TxInf")?;
    for payment in parts.all("TxInf") {
        totals::check_room(payment, cancellations.len(), limits.payments)?;
        let fields = payment.children(shapes::PAYMENT)?;
        let original = OriginalPayment::read(&fields, &group)?;
        if !original.is_named() {
            return Err(payment.fault(StatusReason::CH21, "no reference of the payment is given"));
        }
        cancellations.push(Cancellation {
            id: fields.text("CxlId", MAX_ID)?,
            case: Case::read(&fields, "Case")?,
            is_whole_message: false,
            original,
            reason: GivenReason::read(&fields, "CxlRsnInf")?.or_else(|| group_reason.clone()),
        });
    }
    Ok(())
}

/// Compares what the request states of its cancellations with them. Those of whole messages are not
/// counted: how many payments they are is not in the request.
fn check_control(parts: &Children<'_>, cancellations: &[Cancellation]) -> Result<(), Fault> {
    let Some(control) = parts.get("CtrlData") else { return Ok(()) };
    let fields = control.children(shapes::CONTROL)?;
    let number = fields.require("NbOfTxs")?;
    let stated = parties::number_of_transactions(number, StatusReason::AM19)?;
    let sum = fields.get("CtrlSum");
    let stated_sum = sum.map(|sum| parties::control_sum(sum, StatusReason::AM10)).transpose()?;
    if cancellations.iter().any(|cancellation| cancellation.is_whole_message) {
        return Ok(());
    }
    if let Some(what) = totals::number_differs(stated, cancellations.len()) {
        return Err(number.fault(StatusReason::AM19, what));
    }
    let amounts: Vec<Option<Money>> =
        cancellations.iter().map(|cancellation| cancellation.original.amount).collect();
    match sum.zip(stated_sum.and_then(|stated| totals::sum_differs(stated, &amounts))) {
        Some((sum, what)) => Err(sum.fault(StatusReason::AM10, what)),
        None => Ok(()),
    }
}

/// Writes a camt.056.001.08.
///
/// # Errors
/// If a text is not as the schema allows, there is no cancellation, or one of a whole message does not
/// name it.
pub fn cancellation_request(request: &CancellationRequest) -> Result<String, WriteError> {
    let mut xml = Writer::new();
    xml.root("Document", &format!("{NAMESPACE}{CANCELLATION_DEFINITION}"), |xml| {
        xml.element("FIToFIPmtCxlReq", |xml| {
            request.assignment.write(xml);
            Case::write(request.case.as_ref(), xml, "Case");
            if !request.cancellations.iter().any(|cancellation| cancellation.is_whole_message) {
                xml.element("CtrlData", |xml| {
                    xml.text("NbOfTxs", &request.cancellations.len().to_string());
                });
            }
            if request.cancellations.is_empty() {
                xml.refuse("Undrlyg", "", "at least one cancellation".to_owned());
            }
            for cancellation in &request.cancellations {
                xml.element("Undrlyg", |xml| write_cancellation(xml, cancellation));
            }
        });
    });
    xml.finish()
}

fn write_cancellation(xml: &mut Writer, cancellation: &Cancellation) {
    let original = &cancellation.original;
    if cancellation.is_whole_message {
        xml.element("OrgnlGrpInfAndCxl", |xml| {
            xml.optional_id("GrpCxlId", cancellation.id.as_deref());
            Case::write(cancellation.case.as_ref(), xml, "Case");
            xml.id("OrgnlMsgId", original.message_id.as_deref().unwrap_or_default());
            xml.id("OrgnlMsgNmId", original.definition.as_deref().unwrap_or_default());
            xml.text("GrpCxl", "true");
            if let Some(reason) = &cancellation.reason {
                reason.write(xml, "CxlRsnInf");
            }
        });
        return;
    }
    xml.element("TxInf", |xml| {
        xml.optional_id("CxlId", cancellation.id.as_deref());
        Case::write(cancellation.case.as_ref(), xml, "Case");
        original.write_group(xml);
        original.write_ids(xml);
        original.write_settlement(xml);
        if let Some(reason) = &cancellation.reason {
            reason.write(xml, "CxlRsnInf");
        }
    });
}
