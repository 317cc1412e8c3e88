//! Writing of pacs.002.

use crate::envelope::NAMESPACE;
use crate::error::{Original, ParseError, WriteError};
use crate::message::Message;
use crate::output;
use crate::parties::MAX_ID;
use crate::payment::NOT_PROVIDED;
use crate::payment_return::PaymentReturn;
use crate::reason::Reason;
use crate::report::{Outcome, ReportContext, STATUS_REPORT_DEFINITION, TransactionStatus};
use crate::xml::Writer;

/// Reports on every payment of a message, in order.
///
/// The status of the group is that of all payments if they have the same, `PART` if some are
/// refused and some not, `PDNG` if some are pending, and `ACSP` otherwise. A UETR is reported only
/// if the sender gave it.
///
/// # Errors
/// If there is not exactly one outcome for each payment, or the context or an outcome has a text
/// that the schema does not allow.
pub fn status_report(
    original: &Message,
    outcomes: &[Outcome],
    context: &ReportContext,
) -> Result<String, WriteError> {
    check_count(original.payments.len(), outcomes)?;
    document(context, |xml| {
        xml.element("OrgnlGrpInfAndSts", |xml| {
            original_group(xml, original);
            group_outcome(xml, original.group_rejection.as_ref(), outcomes);
        });
        for (payment, outcome) in original.payments.iter().zip(outcomes) {
            xml.element("TxInfAndSts", |xml| {
                xml.optional_id("OrgnlInstrId", payment.instruction_id.as_deref());
                xml.text("OrgnlEndToEndId", &payment.end_to_end_id);
                xml.optional_id("OrgnlTxId", payment.transaction_id.as_deref());
                output::uetr(xml, "OrgnlUETR", payment.uetr.as_ref());
                write_outcome(xml, outcome);
            });
        }
    })
}

/// Reports on every return of a pacs.004, in order. The identification of the return is reported as the
/// instruction identification; the other references are those of the payment that goes back.
///
/// # Errors
/// As [`status_report`].
pub fn return_status_report(
    original: &PaymentReturn,
    outcomes: &[Outcome],
    context: &ReportContext,
) -> Result<String, WriteError> {
    check_count(original.returns.len(), outcomes)?;
    document(context, |xml| {
        xml.element("OrgnlGrpInfAndSts", |xml| {
            xml.text("OrgnlMsgId", &original.message_id);
            xml.text("OrgnlMsgNmId", &original.definition);
            xml.text("OrgnlCreDtTm", &original.created);
            xml.text("OrgnlNbOfTxs", &original.number_of_transactions.to_string());
            if let Some(sum) = original.control_sum {
                xml.text("OrgnlCtrlSum", &sum.to_string());
            }
            group_outcome(xml, original.group_rejection.as_ref(), outcomes);
        });
        for (returned, outcome) in original.returns.iter().zip(outcomes) {
            xml.element("TxInfAndSts", |xml| {
                xml.optional_id("OrgnlInstrId", returned.id.as_deref());
                xml.optional_id("OrgnlEndToEndId", returned.original.end_to_end_id.as_deref());
                xml.optional_id("OrgnlTxId", returned.original.transaction_id.as_deref());
                output::uetr(xml, "OrgnlUETR", returned.original.uetr.as_ref());
                write_outcome(xml, outcome);
            });
        }
    })
}

/// What became of the message as a whole.
fn group_outcome(xml: &mut Writer, rejection: Option<&Reason>, outcomes: &[Outcome]) {
    xml.text("GrpSts", group_status(outcomes));
    if let Some(reason) = rejection {
        write_reason(xml, reason);
    }
    counts(xml, outcomes);
}

/// Reports that a message could not be read at all: the group is refused, with the error's code and
/// text. What was recognised of the message is named; the rest is `NOTPROVIDED`.
///
/// # Errors
/// If the context has a text that the schema does not allow.
pub fn group_status_report(error: &ParseError, context: &ReportContext) -> Result<String, WriteError> {
    document(context, |xml| refused_group(xml, error))
}

/// What is said of a message that could not be read.
pub(super) fn refused_group(xml: &mut Writer, error: &ParseError) {
    let unknown = Original::default();
    let original = error.original.as_deref().unwrap_or(&unknown);
    let name = |text: Option<&str>| match text {
        Some(text) if (1..=MAX_ID).contains(&text.chars().count()) => text.to_owned(),
        _ => NOT_PROVIDED.to_owned(),
    };
    xml.element("OrgnlGrpInfAndSts", |xml| {
        xml.text("OrgnlMsgId", &name(original.message_id.as_deref()));
        xml.text("OrgnlMsgNmId", &name(original.definition.as_deref()));
        xml.text("GrpSts", TransactionStatus::Rejected.code());
        write_reason(xml, &error.to_reason());
    });
}

fn document(context: &ReportContext, content: impl FnOnce(&mut Writer)) -> Result<String, WriteError> {
    let mut xml = Writer::new();
    xml.root("Document", &format!("{NAMESPACE}{STATUS_REPORT_DEFINITION}"), |xml| {
        xml.element("FIToFIPmtStsRpt", |xml| {
            xml.element("GrpHdr", |xml| {
                xml.id("MsgId", &context.message_id);
                xml.time("CreDtTm", &context.created);
                output::agent(xml, "InstgAgt", context.instructing_agent.as_ref());
                output::agent(xml, "InstdAgt", context.instructed_agent.as_ref());
            });
            content(xml);
        });
    });
    xml.finish()
}

/// How the original message is called, and what it stated of itself.
pub(super) fn original_group(xml: &mut Writer, original: &Message) {
    xml.text("OrgnlMsgId", &original.message_id);
    xml.text("OrgnlMsgNmId", &original.definition);
    xml.text("OrgnlCreDtTm", &original.created);
    xml.text("OrgnlNbOfTxs", &original.number_of_transactions.to_string());
    if let Some(sum) = original.control_sum {
        xml.text("OrgnlCtrlSum", &sum.to_string());
    }
}

/// How many payments have which status.
pub(super) fn counts(xml: &mut Writer, outcomes: &[Outcome]) {
    for status in TransactionStatus::ALL {
        let count = outcomes.iter().filter(|outcome| outcome.status() == status).count();
        if count > 0 {
            xml.element("NbOfTxsPerSts", |xml| {
                xml.text("DtldNbOfTxs", &count.to_string());
                xml.text("DtldSts", status.code());
            });
        }
    }
}

fn write_outcome(xml: &mut Writer, outcome: &Outcome) {
    xml.text("TxSts", outcome.status().code());
    match outcome {
        Outcome::Rejected(reason) => write_reason(xml, reason),
        Outcome::Settled { accepted, settled_on, reference } => {
            if let Some(accepted) = accepted {
                xml.time("AccptncDtTm", accepted);
            }
            if let Some(day) = settled_on {
                xml.element("FctvIntrBkSttlmDt", |xml| xml.text("Dt", &day.to_string()));
            }
            xml.optional_id("AcctSvcrRef", reference.as_deref());
        }
        Outcome::InProcess | Outcome::Pending => {}
    }
}

pub(super) fn write_reason(xml: &mut Writer, reason: &Reason) {
    output::reason(xml, "StsRsnInf", reason.code.code(), &reason.text);
}

pub(super) fn group_status(outcomes: &[Outcome]) -> &'static str {
    let any = |status| outcomes.iter().any(|outcome| outcome.status() == status);
    let Some(first) = outcomes.first().map(Outcome::status) else {
        return TransactionStatus::Rejected.code();
    };
    if outcomes.iter().all(|outcome| outcome.status() == first) {
        first.code()
    } else if any(TransactionStatus::Rejected) {
        "PART"
    } else if any(TransactionStatus::Pending) {
        TransactionStatus::Pending.code()
    } else {
        TransactionStatus::InProcess.code()
    }
}

pub(super) fn check_count(payments: usize, outcomes: &[Outcome]) -> Result<(), WriteError> {
    if outcomes.len() == payments {
        return Ok(());
    }
    Err(WriteError::OutcomeCount { payments, outcomes: outcomes.len() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_group_is_what_its_payments_are() {
        let settled = Outcome::Settled { accepted: None, settled_on: None, reference: None };
        let rejected = Outcome::Rejected(crate::reason::StatusReason::AM04.into());
        assert_eq!(group_status(std::slice::from_ref(&settled)), "ACSC");
        assert_eq!(group_status(&[rejected.clone(), rejected.clone()]), "RJCT");
        assert_eq!(group_status(&[settled.clone(), rejected.clone()]), "PART");
        assert_eq!(group_status(&[Outcome::Pending, rejected]), "PART");
        assert_eq!(group_status(&[Outcome::Pending, settled.clone()]), "PDNG");
        assert_eq!(group_status(&[Outcome::InProcess, settled]), "ACSP");
    }
}
