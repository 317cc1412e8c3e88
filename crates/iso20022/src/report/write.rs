//! Writing.

use crate::date::day_of_date_time;
use crate::envelope::NAMESPACE;
use crate::error::{Original, ParseError};
use crate::identifier::format_uetr;
use crate::message::{Agent, Message, Payment};
use crate::parties::MAX_ID;
use crate::payment::NOT_PROVIDED;
use crate::reason::Reason;
use crate::report::{Outcome, ReportContext, ReportError, STATUS_REPORT_DEFINITION, TransactionStatus};
use crate::xml::Writer;

/// Longest piece of additional information (`Max105Text`).
const MAX_INFORMATION: usize = 105;
/// Most pieces of additional information that are written for one reason; the schema sets no limit.
const MAX_PIECES: usize = 10;

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
) -> Result<String, ReportError> {
    if outcomes.len() != original.payments.len() {
        return Err(ReportError::OutcomeCount {
            payments: original.payments.len(),
            outcomes: outcomes.len(),
        });
    }
    check_context(context)?;
    for outcome in outcomes {
        check_outcome(outcome)?;
    }
    Ok(document(context, |xml| {
        xml.element("OrgnlGrpInfAndSts", |xml| {
            xml.text("OrgnlMsgId", &original.message_id);
            xml.text("OrgnlMsgNmId", &original.definition);
            xml.text("OrgnlCreDtTm", &original.created);
            xml.text("OrgnlNbOfTxs", &original.number_of_transactions.to_string());
            if let Some(sum) = original.control_sum {
                xml.text("OrgnlCtrlSum", &sum.to_string());
            }
            xml.text("GrpSts", group_status(outcomes));
            if let Some(reason) = &original.group_rejection {
                write_reason(xml, reason);
            }
            for status in TransactionStatus::ALL {
                let count = outcomes.iter().filter(|outcome| outcome.status() == status).count();
                if count > 0 {
                    xml.element("NbOfTxsPerSts", |xml| {
                        xml.text("DtldNbOfTxs", &count.to_string());
                        xml.text("DtldSts", status.code());
                    });
                }
            }
        });
        for (payment, outcome) in original.payments.iter().zip(outcomes) {
            xml.element("TxInfAndSts", |xml| write_transaction(xml, payment, outcome));
        }
    }))
}

/// Reports that a message could not be read at all: the group is refused, with the error's code and
/// text. What was recognised of the message is named; the rest is `NOTPROVIDED`.
///
/// # Errors
/// If the context has a text that the schema does not allow.
pub fn group_status_report(error: &ParseError, context: &ReportContext) -> Result<String, ReportError> {
    check_context(context)?;
    let unknown = Original::default();
    let original = error.original.as_deref().unwrap_or(&unknown);
    let name = |text: Option<&str>| match text {
        Some(text) if (1..=MAX_ID).contains(&text.chars().count()) => text.to_owned(),
        _ => NOT_PROVIDED.to_owned(),
    };
    Ok(document(context, |xml| {
        xml.element("OrgnlGrpInfAndSts", |xml| {
            xml.text("OrgnlMsgId", &name(original.message_id.as_deref()));
            xml.text("OrgnlMsgNmId", &name(original.definition.as_deref()));
            xml.text("GrpSts", TransactionStatus::Rejected.code());
            write_reason(xml, &error.to_reason());
        });
    }))
}

fn document(context: &ReportContext, content: impl FnOnce(&mut Writer)) -> String {
    let mut xml = Writer::new();
    xml.root("Document", &format!("{NAMESPACE}{STATUS_REPORT_DEFINITION}"), |xml| {
        xml.element("FIToFIPmtStsRpt", |xml| {
            xml.element("GrpHdr", |xml| {
                xml.text("MsgId", &context.message_id);
                xml.text("CreDtTm", &context.created);
                write_agent(xml, "InstgAgt", context.instructing_agent.as_ref());
                write_agent(xml, "InstdAgt", context.instructed_agent.as_ref());
            });
            content(xml);
        });
    });
    xml.finish()
}

fn write_agent(xml: &mut Writer, name: &str, agent: Option<&Agent>) {
    let Some(agent) = agent else { return };
    xml.element(name, |xml| {
        xml.element("FinInstnId", |xml| {
            if let Some(bic) = &agent.bic {
                xml.text("BICFI", bic.as_str());
            }
            if let Some(member_id) = &agent.member_id {
                xml.element("ClrSysMmbId", |xml| xml.text("MmbId", member_id));
            }
            if let Some(name) = &agent.name {
                xml.text("Nm", name);
            }
        });
    });
}

fn write_transaction(xml: &mut Writer, payment: &Payment, outcome: &Outcome) {
    if let Some(id) = &payment.instruction_id {
        xml.text("OrgnlInstrId", id);
    }
    xml.text("OrgnlEndToEndId", &payment.end_to_end_id);
    if let Some(id) = &payment.transaction_id {
        xml.text("OrgnlTxId", id);
    }
    if let Some(uetr) = &payment.uetr {
        xml.text("OrgnlUETR", &format_uetr(uetr));
    }
    xml.text("TxSts", outcome.status().code());
    match outcome {
        Outcome::Rejected(reason) => write_reason(xml, reason),
        Outcome::Settled { accepted, settled_on, reference } => {
            if let Some(accepted) = accepted {
                xml.text("AccptncDtTm", accepted);
            }
            if let Some(day) = settled_on {
                xml.element("FctvIntrBkSttlmDt", |xml| xml.text("Dt", &day.to_string()));
            }
            if let Some(reference) = reference {
                xml.text("AcctSvcrRef", reference);
            }
        }
        Outcome::InProcess | Outcome::Pending => {}
    }
}

fn write_reason(xml: &mut Writer, reason: &Reason) {
    xml.element("StsRsnInf", |xml| {
        xml.element("Rsn", |xml| xml.text("Cd", reason.code.code()));
        for piece in pieces(&reason.text) {
            xml.text("AddtlInf", &piece);
        }
    });
}

/// Splits a text at spaces into pieces of at most 105 characters; a longer word is cut.
fn pieces(text: &str) -> Vec<String> {
    let mut pieces: Vec<String> = Vec::new();
    let mut length = MAX_INFORMATION;
    for word in text.split_whitespace() {
        let letters: Vec<char> = word.chars().collect();
        for (part, letters) in letters.chunks(MAX_INFORMATION).enumerate() {
            let space = usize::from(part == 0);
            match pieces.last_mut() {
                Some(piece) if length + space + letters.len() <= MAX_INFORMATION => {
                    piece.extend(std::iter::repeat_n(' ', space));
                    piece.extend(letters);
                    length += space + letters.len();
                }
                _ => {
                    pieces.push(letters.iter().collect());
                    length = letters.len();
                }
            }
        }
    }
    pieces.truncate(MAX_PIECES);
    pieces
}

fn group_status(outcomes: &[Outcome]) -> &'static str {
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

fn check_context(context: &ReportContext) -> Result<(), ReportError> {
    check_id("MsgId", &context.message_id)?;
    check_time("CreDtTm", &context.created)?;
    for (field, agent) in [("InstgAgt", &context.instructing_agent), ("InstdAgt", &context.instructed_agent)]
    {
        let Some(agent) = agent else { continue };
        if let Some(member_id) = &agent.member_id {
            check_id(field, member_id)?;
        }
        if let Some(name) = agent.name.as_ref().filter(|name| !(1..=140).contains(&name.chars().count())) {
            return Err(ReportError::Field {
                field,
                value: name.clone(),
                expected: "a name of 1 to 140 characters",
            });
        }
    }
    Ok(())
}

fn check_outcome(outcome: &Outcome) -> Result<(), ReportError> {
    if let Outcome::Settled { accepted, reference, .. } = outcome {
        if let Some(accepted) = accepted {
            check_time("AccptncDtTm", accepted)?;
        }
        if let Some(reference) = reference {
            check_id("AcctSvcrRef", reference)?;
        }
    }
    Ok(())
}

fn check_id(field: &'static str, value: &str) -> Result<(), ReportError> {
    if (1..=MAX_ID).contains(&value.chars().count()) {
        return Ok(());
    }
    Err(ReportError::Field { field, value: value.to_owned(), expected: "a text of 1 to 35 characters" })
}

fn check_time(field: &'static str, value: &str) -> Result<(), ReportError> {
    if day_of_date_time(value).is_some() {
        return Ok(());
    }
    Err(ReportError::Field { field, value: value.to_owned(), expected: "a time as YYYY-MM-DDThh:mm:ssZ" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn information_is_split_at_spaces_and_never_too_long() {
        assert_eq!(pieces("one  two\nthree"), ["one two three"]);
        assert!(pieces(" ").is_empty());
        let text = "word ".repeat(60);
        assert_eq!(pieces(&text).join(" "), text.trim());
        let long = "é".repeat(250);
        let cut = pieces(&format!("before {long} after"));
        assert!(cut.iter().all(|piece| piece.chars().count() <= MAX_INFORMATION));
        assert_eq!(cut.concat().replace(' ', ""), format!("before{long}after"));
        assert_eq!(pieces(&"x ".repeat(5_000)).len(), MAX_PIECES);
    }

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
