//! camt.029.001.09: ResolutionOfInvestigation, in answer to a request for cancellation, written and read.

use crate::assignment::{Assignment, Case};
use crate::cancellation::CancellationRequest;
use crate::envelope::{self, Envelope, NAMESPACE};
use crate::error::{ParseError, WriteError};
use crate::limits::Limits;
use crate::original::{GivenReason, OriginalPayment};
use crate::output;
use crate::parties::MAX_ID;
use crate::reason::CancellationRejection;
use crate::shapes::investigation as shapes;
use crate::terms::{Coded, MAX_CODE};
use crate::totals;
use crate::tree::{Children, Element, Fault, Source};
use crate::xml::Writer;

/// The definition of the answers that are written and read.
pub const RESOLUTION_DEFINITION: &str = "camt.029.001.09";

/// The answer to a request for cancellation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Resolution {
    /// Who answers whom.
    pub assignment: Assignment,
    /// The case that is answered.
    pub case: Option<Case>,
    /// What became of all of it (`ExternalInvestigationExecutionConfirmation1Code`): CNCL if all was
    /// cancelled, RJCR if nothing was or will be, PDCR if something is not decided, PECR otherwise.
    pub confirmation: String,
    /// What became of each cancellation.
    pub answers: Vec<CancellationAnswer>,
}

/// What became of one cancellation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CancellationAnswer {
    /// The identification of the answer; that of the cancellation where the network answers one.
    pub id: Option<String>,
    /// The case that it belongs to.
    pub case: Option<Case>,
    /// Whether it is about a whole message.
    pub is_whole_message: bool,
    /// The payment or message.
    pub original: OriginalPayment,
    /// What became of it.
    pub verdict: CancellationVerdict,
    /// Why, if it was refused (`ExternalPaymentCancellationRejection1Code`).
    pub reason: Option<GivenReason>,
}

/// Whether a cancellation was made (`CancellationIndividualStatus1Code`).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum CancellationVerdict {
    /// ACCR: the payment was cancelled.
    Accepted,
    /// RJCR: the payment was not cancelled.
    Rejected,
    /// PDCR: not decided yet.
    Pending,
}

impl CancellationVerdict {
    /// The four letters of the standard.
    pub fn code(self) -> &'static str {
        match self {
            Self::Accepted => "ACCR",
            Self::Rejected => "RJCR",
            Self::Pending => "PDCR",
        }
    }

    /// The verdict of these four letters.
    pub fn from_code(code: &str) -> Option<Self> {
        [Self::Accepted, Self::Rejected, Self::Pending].into_iter().find(|verdict| verdict.code() == code)
    }
}

/// What is decided of one cancellation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CancellationDecision {
    /// The payment was cancelled.
    Made,
    /// It was not, and why.
    Refused(CancellationRejection, String),
    /// Nothing yet.
    Pending,
}

impl Resolution {
    /// Answers a request, back to who sent it: one decision for each cancellation, in order.
    ///
    /// # Errors
    /// If there is not exactly one decision for each cancellation.
    pub fn of(
        request: &CancellationRequest,
        id: String,
        created: String,
        decisions: &[CancellationDecision],
    ) -> Result<Self, WriteError> {
        if decisions.len() != request.cancellations.len() {
            let (payments, outcomes) = (request.cancellations.len(), decisions.len());
            return Err(WriteError::OutcomeCount { payments, outcomes });
        }
        let answers = request.cancellations.iter().zip(decisions).map(|(cancellation, decision)| {
            let (verdict, reason) = match decision {
                CancellationDecision::Made => (CancellationVerdict::Accepted, None),
                CancellationDecision::Pending => (CancellationVerdict::Pending, None),
                CancellationDecision::Refused(code, text) => {
                    let code = Some(Coded::Code(code.code().to_owned()));
                    let reason = GivenReason { originator: None, code, text: text.clone() };
                    (CancellationVerdict::Rejected, Some(reason))
                }
            };
            CancellationAnswer {
                id: cancellation.id.clone(),
                case: cancellation.case.clone(),
                is_whole_message: cancellation.is_whole_message,
                original: cancellation.original.clone(),
                verdict,
                reason,
            }
        });
        let answers: Vec<CancellationAnswer> = answers.collect();
        Ok(Self {
            assignment: Assignment {
                id,
                assigner: request.assignment.assignee.clone(),
                assignee: request.assignment.assigner.clone(),
                created,
            },
            case: request.case.clone(),
            confirmation: confirmation(&answers).to_owned(),
            answers,
        })
    }
}

fn confirmation(answers: &[CancellationAnswer]) -> &'static str {
    let all = |verdict| answers.iter().all(|answer| answer.verdict == verdict);
    if answers.iter().any(|answer| answer.verdict == CancellationVerdict::Pending) {
        "PDCR"
    } else if all(CancellationVerdict::Rejected) {
        "RJCR"
    } else if all(CancellationVerdict::Accepted) {
        "CNCL"
    } else {
        "PECR"
    }
}

/// Writes a camt.029.001.09.
///
/// # Errors
/// If a text is not as the schema allows, or an answer about a whole message does not name it.
pub fn resolution(resolution: &Resolution) -> Result<String, WriteError> {
    let mut xml = Writer::new();
    xml.root("Document", &format!("{NAMESPACE}{RESOLUTION_DEFINITION}"), |xml| {
        xml.element("RsltnOfInvstgtn", |xml| {
            resolution.assignment.write(xml);
            Case::write(resolution.case.as_ref(), xml, "RslvdCase");
            xml.element("Sts", |xml| xml.limited("Conf", &resolution.confirmation, MAX_CODE));
            for answer in &resolution.answers {
                xml.element("CxlDtls", |xml| write_answer(xml, answer));
            }
        });
    });
    xml.finish()
}

fn write_answer(xml: &mut Writer, answer: &CancellationAnswer) {
    let original = &answer.original;
    if answer.is_whole_message {
        xml.element("OrgnlGrpInfAndSts", |xml| {
            xml.optional_id("OrgnlGrpCxlId", answer.id.as_deref());
            Case::write(answer.case.as_ref(), xml, "RslvdCase");
            xml.id("OrgnlMsgId", original.message_id.as_deref().unwrap_or_default());
            xml.id("OrgnlMsgNmId", original.definition.as_deref().unwrap_or_default());
            xml.text("GrpCxlSts", answer.verdict.code());
            write_reason(xml, answer);
        });
        return;
    }
    xml.element("TxInfAndSts", |xml| {
        xml.optional_id("CxlStsId", answer.id.as_deref());
        Case::write(answer.case.as_ref(), xml, "RslvdCase");
        original.write_group(xml);
        xml.optional_id("OrgnlInstrId", original.instruction_id.as_deref());
        xml.optional_id("OrgnlEndToEndId", original.end_to_end_id.as_deref());
        xml.optional_id("OrgnlTxId", original.transaction_id.as_deref());
        output::uetr(xml, "OrgnlUETR", original.uetr.as_ref());
        xml.text("TxCxlSts", answer.verdict.code());
        write_reason(xml, answer);
        original.write_settlement(xml);
    });
}

fn write_reason(xml: &mut Writer, answer: &CancellationAnswer) {
    if let Some(reason) = &answer.reason {
        reason.write(xml, "CxlStsRsnInf");
    }
}

/// Reads a camt.029.001.09 in answer to a request for cancellation, with or without a business
/// application header.
///
/// # Errors
/// If the file is not such an answer, or has more answers than the limits allow payments.
pub fn parse_resolution(xml: &[u8], limits: &Limits) -> Result<Resolution, ParseError> {
    let (tree, text) = envelope::tree(xml, limits)?;
    let source = Source::new(text);
    let envelope = Envelope::open(&tree, &source)?;
    envelope.header()?;
    read(&envelope, limits)
}

/// The answer in the envelope.
pub(crate) fn read(envelope: &Envelope<'_>, limits: &Limits) -> Result<Resolution, ParseError> {
    let version = envelope.expect("camt.029", 9..=9, "a resolution camt.029.001.09")?;
    let body = envelope.body("RsltnOfInvstgtn", version)?;
    let read = || {
        let parts = body.children(shapes::RESOLUTION)?;
        let status = parts.require("Sts")?.children(shapes::RESOLUTION_STATUS)?;
        let mut answers = Vec::new();
        for details in parts.all("CxlDtls") {
            let details = details.children(shapes::CANCELLATION_DETAILS)?;
            let mut group = OriginalPayment::default();
            if let Some(element) = details.get("OrgnlGrpInfAndSts") {
                totals::check_room(element, answers.len(), limits.payments)?;
                let fields = element.children(shapes::GROUP_STATUS)?;
                group.read_group(&fields)?;
                if let Some(verdict) = fields.get("GrpCxlSts") {
                    answers.push(CancellationAnswer {
                        id: fields.text("OrgnlGrpCxlId", MAX_ID)?,
                        is_whole_message: true,
                        ..answer(&fields, verdict, group.clone())?
                    });
                }
            }
            for element in details.all("TxInfAndSts") {
                totals::check_room(element, answers.len(), limits.payments)?;
                let fields = element.children(shapes::PAYMENT_STATUS)?;
                let original = OriginalPayment::read(&fields, &group)?;
                let read = answer(&fields, fields.require("TxCxlSts")?, original)?;
                answers.push(CancellationAnswer { id: fields.text("CxlStsId", MAX_ID)?, ..read });
            }
        }
        Ok(Resolution {
            assignment: Assignment::read(parts.require("Assgnmt")?)?,
            case: Case::read(&parts, "RslvdCase")?,
            confirmation: status.require("Conf")?.text_up_to(MAX_CODE)?,
            answers,
        })
    };
    read().map_err(Fault::into_error)
}

fn answer(
    fields: &Children<'_>,
    verdict: Element<'_>,
    original: OriginalPayment,
) -> Result<CancellationAnswer, Fault> {
    Ok(CancellationAnswer {
        id: None,
        case: Case::read(fields, "RslvdCase")?,
        is_whole_message: false,
        original,
        verdict: verdict.read("ACCR, RJCR or PDCR", CancellationVerdict::from_code)?,
        reason: GivenReason::read(fields, "CxlStsRsnInf")?,
    })
}
