//! Reading.

use crate::envelope::{self, Envelope};
use crate::error::ParseError;
use crate::guard;
use crate::limits::Limits;
use crate::parties::{self, MAX_ID};
use crate::report::{ReadResult, ReportedReason, StatusReport, TransactionReport};
use crate::shapes;
use crate::tree::{Element, Fault, Source};

/// Longest code of a status or reason that is kept.
const MAX_CODE: usize = 35;

/// Reads a status report pacs.002.001.10, with or without a business application header.
///
/// # Errors
/// If the file is not such a report.
pub fn parse_status_report(xml: &[u8], limits: &Limits) -> ReadResult {
    let (tree, text) = envelope::tree(xml, limits)?;
    let source = Source::new(text);
    let envelope = Envelope::open(&tree, &source)?;
    if envelope.definition != super::STATUS_REPORT_DEFINITION {
        return Err(ParseError::new(format!(
            "a status report {} is expected, this is {}",
            super::STATUS_REPORT_DEFINITION,
            guard::quoted(envelope.definition)
        )));
    }
    envelope.header()?;
    read(envelope.body("FIToFIPmtStsRpt", 10)?, limits).map_err(Fault::into_error)
}

fn read(report: Element<'_>, limits: &Limits) -> Result<StatusReport, Fault> {
    let parts = report.children(shapes::STATUS_REPORT)?;
    let header = parts.require("GrpHdr")?.children(shapes::STATUS_REPORT_HEADER)?;
    let group = parts.require("OrgnlGrpInfAndSts")?.children(shapes::ORIGINAL_GROUP)?;
    let mut transactions = Vec::new();
    for transaction in parts.all("TxInfAndSts") {
        crate::totals::check_room(transaction, transactions.len(), limits.payments)?;
        transactions.push(read_transaction(transaction)?);
    }
    Ok(StatusReport {
        message_id: header.require("MsgId")?.text_up_to(MAX_ID)?,
        created: parties::date_time(header.require("CreDtTm")?)?,
        original_message_id: group.require("OrgnlMsgId")?.text_up_to(MAX_ID)?,
        original_definition: group.require("OrgnlMsgNmId")?.text_up_to(MAX_ID)?,
        group_status: group.text("GrpSts", MAX_CODE)?,
        group_reasons: group.all("StsRsnInf").map(read_reason).collect::<Result<_, _>>()?,
        transactions,
    })
}

fn read_transaction(transaction: Element<'_>) -> Result<TransactionReport, Fault> {
    let fields = transaction.children(shapes::TRANSACTION_STATUS)?;
    Ok(TransactionReport {
        instruction_id: fields.text("OrgnlInstrId", MAX_ID)?,
        end_to_end_id: fields.text("OrgnlEndToEndId", MAX_ID)?,
        transaction_id: fields.text("OrgnlTxId", MAX_ID)?,
        uetr: fields.get("OrgnlUETR").map(parties::uetr).transpose()?,
        status: fields.text("TxSts", MAX_CODE)?,
        reasons: fields.all("StsRsnInf").map(read_reason).collect::<Result<_, _>>()?,
        accepted: fields.get("AccptncDtTm").map(parties::date_time).transpose()?,
        settled_on: fields.get("FctvIntrBkSttlmDt").map(parties::date_choice).transpose()?,
        reference: fields.text("AcctSvcrRef", MAX_ID)?,
    })
}

fn read_reason(element: Element<'_>) -> Result<ReportedReason, Fault> {
    let fields = element.children(shapes::STATUS_REASON)?;
    let code = match fields.get("Rsn") {
        Some(reason) => {
            let choice = reason.children(shapes::CODE_CHOICE)?;
            choice.text("Cd", MAX_CODE)?.or(choice.text("Prtry", MAX_CODE)?)
        }
        None => None,
    };
    let pieces: Vec<String> = fields.all("AddtlInf").map(|piece| piece.text()).collect::<Result<_, _>>()?;
    Ok(ReportedReason { code, text: pieces.join(" ") })
}
