//! Writing of pain.002, in answer to a pain.001.

use crate::envelope::NAMESPACE;
use crate::error::{ParseError, WriteError};
use crate::message::{Message, MessageKind, Payment, PaymentBlock};
use crate::output;
use crate::report::write::{check_count, counts, group_status, original_group, refused_group, write_reason};
use crate::report::{
    Outcome, ReportContext, STATUS_REPORT_DEFINITION, TransactionStatus, group_status_report, status_report,
};
use crate::xml::Writer;

/// Which pain.002 answers which pain.001.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Version {
    /// pain.002.001.03: no UETR, `BIC`. Answers pain.001.001.03 to .08, which have no UETRs either.
    V03,
    /// pain.002.001.10. Answers later ones.
    V10,
}

impl Version {
    fn answering(definition: &str) -> Self {
        let number = definition.strip_prefix("pain.001.001.").and_then(|number| number.parse::<u8>().ok());
        if number.is_some_and(|number| number < 9) { Self::V03 } else { Self::V10 }
    }

    fn definition(self) -> &'static str {
        match self {
            Self::V03 => "pain.002.001.03",
            Self::V10 => "pain.002.001.10",
        }
    }
}

/// Reports on a pain.001 with a pain.002: on the message, on each block, and on each payment, in order.
/// The version is pain.002.001.03 for a pain.001.001.03 to .08 and pain.002.001.10 for later ones.
///
/// A message that is refused as a whole is reported at the level of the group alone, and a block that is
/// refused as a whole at the level of the block alone, as those statuses hold for all that is within.
///
/// # Errors
/// If there is not exactly one outcome for each payment, a payment that the message forbids has another
/// outcome than a refusal, or the context or an outcome has a text that the schema does not allow.
pub fn initiation_report(
    original: &Message,
    outcomes: &[Outcome],
    context: &ReportContext,
) -> Result<String, WriteError> {
    check_count(original.payments.len(), outcomes)?;
    let verdicts = original.instructions().map(|(_, verdict)| verdict.is_ok());
    for (payment, (allowed, outcome)) in verdicts.zip(outcomes).enumerate() {
        if !allowed && outcome.status() != TransactionStatus::Rejected {
            return Err(WriteError::Forbidden { payment });
        }
    }
    let version = Version::answering(&original.definition);
    document(version, context, |xml| {
        xml.element("OrgnlGrpInfAndSts", |xml| {
            original_group(xml, original);
            xml.text("GrpSts", group_status(outcomes));
            match &original.group_rejection {
                Some(reason) => write_reason(xml, reason),
                None => counts(xml, outcomes),
            }
        });
        if original.group_rejection.is_some() {
            return;
        }
        for block in &original.blocks {
            let payments = original.payments.get(block.payments.clone()).unwrap_or_default();
            let outcomes = outcomes.get(block.payments.clone()).unwrap_or_default();
            xml.element("OrgnlPmtInfAndSts", |xml| write_block(xml, version, block, payments, outcomes));
        }
    })
}

/// Reports with a pain.002 that a pain.001 could not be read at all, see
/// [`group_status_report`](crate::group_status_report).
///
/// # Errors
/// If the context has a text that the schema does not allow.
pub fn group_initiation_report(error: &ParseError, context: &ReportContext) -> Result<String, WriteError> {
    let original = error.original.as_ref().and_then(|original| original.definition.as_deref());
    document(Version::answering(original.unwrap_or_default()), context, |xml| refused_group(xml, error))
}

/// Answers a message with the report that the standard has for it: pain.002 for a pain.001, pacs.002 for
/// any other.
///
/// # Errors
/// As [`initiation_report`] and [`status_report`](crate::status_report).
pub fn answer(
    original: &Message,
    outcomes: &[Outcome],
    context: &ReportContext,
) -> Result<String, WriteError> {
    match original.kind {
        MessageKind::CustomerCreditTransferInitiation => initiation_report(original, outcomes, context),
        MessageKind::FiToFiCustomerCreditTransfer | MessageKind::FinancialInstitutionCreditTransfer => {
            status_report(original, outcomes, context)
        }
    }
}

/// The definition of the report that [`answer`] or [`group_answer`] writes for a message of that definition.
pub fn answer_definition(original: &str) -> &'static str {
    if original.starts_with("pain.001.") {
        Version::answering(original).definition()
    } else {
        STATUS_REPORT_DEFINITION
    }
}

/// Answers a message that could not be read: with a pain.002 if it was recognised as a pain.001, with a
/// pacs.002 otherwise.
///
/// # Errors
/// If the context has a text that the schema does not allow.
pub fn group_answer(error: &ParseError, context: &ReportContext) -> Result<String, WriteError> {
    let definition = error.original.as_ref().and_then(|original| original.definition.as_deref());
    match definition {
        Some(definition) if definition.starts_with("pain.001.") => group_initiation_report(error, context),
        _ => group_status_report(error, context),
    }
}

fn document(
    version: Version,
    context: &ReportContext,
    content: impl FnOnce(&mut Writer),
) -> Result<String, WriteError> {
    let mut xml = Writer::new();
    xml.root("Document", &format!("{NAMESPACE}{}", version.definition()), |xml| {
        xml.element("CstmrPmtStsRpt", |xml| {
            xml.element("GrpHdr", |xml| {
                xml.id("MsgId", &context.message_id);
                xml.time("CreDtTm", &context.created);
                // The institution that reports to its customer is the debtor's.
                match version {
                    Version::V10 => output::agent(xml, "DbtrAgt", context.instructing_agent.as_ref()),
                    Version::V03 => old_agent(xml, context),
                }
            });
            content(xml);
        });
    });
    xml.finish()
}

/// The institution in the words of version 03, whose BICs begin with six letters.
fn old_agent(xml: &mut Writer, context: &ReportContext) {
    let bic = context.instructing_agent.as_ref().and_then(|agent| agent.bic);
    let old = |bic: &[u8]| {
        bic[..6].iter().all(u8::is_ascii_uppercase) && !matches!(bic[6], b'0' | b'1') && bic[7] != b'O'
    };
    if let Some(bic) = bic.filter(|bic| old(bic.as_str().as_bytes())) {
        xml.element("DbtrAgt", |xml| xml.element("FinInstnId", |xml| xml.text("BIC", bic.as_str())));
    }
}

fn write_block(
    xml: &mut Writer,
    version: Version,
    block: &PaymentBlock,
    payments: &[Payment],
    outcomes: &[Outcome],
) {
    xml.text("OrgnlPmtInfId", &block.id);
    if let Some(number) = block.number_of_transactions {
        xml.text("OrgnlNbOfTxs", &number.to_string());
    }
    if let Some(sum) = block.control_sum {
        xml.text("OrgnlCtrlSum", &sum.to_string());
    }
    xml.text("PmtInfSts", group_status(outcomes));
    if let Some(reason) = &block.rejection {
        return write_reason(xml, reason);
    }
    counts(xml, outcomes);
    for (payment, outcome) in payments.iter().zip(outcomes) {
        xml.element("TxInfAndSts", |xml| write_payment(xml, version, payment, outcome));
    }
}

fn write_payment(xml: &mut Writer, version: Version, payment: &Payment, outcome: &Outcome) {
    xml.optional_id("OrgnlInstrId", payment.instruction_id.as_deref());
    xml.text("OrgnlEndToEndId", &payment.end_to_end_id);
    if version == Version::V10 {
        output::uetr(xml, "OrgnlUETR", payment.uetr.as_ref());
    }
    xml.text("TxSts", outcome.status().code());
    match outcome {
        Outcome::Rejected(reason) => write_reason(xml, reason),
        Outcome::Settled { accepted, reference, .. } => {
            if let Some(accepted) = accepted {
                xml.time("AccptncDtTm", accepted);
            }
            xml.optional_id("AcctSvcrRef", reference.as_deref());
        }
        Outcome::InProcess | Outcome::Pending => {}
    }
}
