//! Reading.

use crate::envelope::{self, Envelope};
use crate::error::ParseError;
use crate::guard;
use crate::limits::Limits;
use crate::parties::{self, MAX_ID};
use crate::report::{BlockReport, ReportedReason, StatusReport, TransactionReport};
use crate::shapes;
use crate::tree::{Children, Element, Fault, Source};

/// Longest code of a status or reason that is kept.
const MAX_CODE: usize = 35;

/// Reads a status report, pacs.002.001.10 or pain.002.001.03 to .14, with or without a business
/// application header.
///
/// # Errors
/// If the file is not such a report.
pub fn parse_status_report(xml: &[u8], limits: &Limits) -> Result<StatusReport, ParseError> {
    let (tree, text) = envelope::tree(xml, limits)?;
    let source = Source::new(text);
    let envelope = Envelope::open(&tree, &source)?;
    envelope.header()?;
    read(&envelope, limits)
}

/// Reads the report in the envelope.
pub(crate) fn read(envelope: &Envelope<'_>, limits: &Limits) -> Result<StatusReport, ParseError> {
    if envelope.definition == super::STATUS_REPORT_DEFINITION {
        let body = envelope.body("FIToFIPmtStsRpt", 10)?;
        return read_institutions(body, envelope.definition, limits).map_err(Fault::into_error);
    }
    match envelope::version(envelope.definition, "pain.002", 3..=14) {
        Some(version) => {
            let body = envelope.body("CstmrPmtStsRpt", version)?;
            read_initiation(body, envelope.definition, limits).map_err(Fault::into_error)
        }
        None => Err(ParseError::new(format!(
            "a status report {} or pain.002.001.03 to .14 is expected, this is {}",
            super::STATUS_REPORT_DEFINITION,
            guard::quoted(envelope.definition)
        ))),
    }
}

fn read_institutions(report: Element<'_>, definition: &str, limits: &Limits) -> Result<StatusReport, Fault> {
    let parts = report.children(shapes::report::STATUS_REPORT)?;
    let header = parts.require("GrpHdr")?.children(shapes::report::STATUS_REPORT_HEADER)?;
    let mut report = read_group(definition, &header, parts.require("OrgnlGrpInfAndSts")?)?;
    read_transactions(&parts, None, limits, &mut report.transactions)?;
    Ok(report)
}

fn read_initiation(report: Element<'_>, definition: &str, limits: &Limits) -> Result<StatusReport, Fault> {
    let parts = report.children(shapes::report::INITIATION_REPORT)?;
    let header = parts.require("GrpHdr")?.children(shapes::report::INITIATION_REPORT_HEADER)?;
    let mut report = read_group(definition, &header, parts.require("OrgnlGrpInfAndSts")?)?;
    for (read, block) in parts.all("OrgnlPmtInfAndSts").enumerate() {
        crate::totals::check_room(block, read, limits.payments)?;
        let fields = block.children(shapes::report::BLOCK_STATUS)?;
        let id = fields.require("OrgnlPmtInfId")?.text_up_to(MAX_ID)?;
        read_transactions(&fields, Some(&id), limits, &mut report.transactions)?;
        report.blocks.push(BlockReport {
            id,
            status: fields.text("PmtInfSts", MAX_CODE)?,
            reasons: fields.all("StsRsnInf").map(read_reason).collect::<Result<_, _>>()?,
        });
    }
    Ok(report)
}

/// What a report says of itself and of the message as a whole.
fn read_group(definition: &str, header: &Children<'_>, group: Element<'_>) -> Result<StatusReport, Fault> {
    let group = group.children(shapes::report::ORIGINAL_GROUP)?;
    Ok(StatusReport {
        definition: definition.to_owned(),
        message_id: header.require("MsgId")?.text_up_to(MAX_ID)?,
        created: parties::date_time(header.require("CreDtTm")?)?,
        original_message_id: group.require("OrgnlMsgId")?.text_up_to(MAX_ID)?,
        original_definition: group.require("OrgnlMsgNmId")?.text_up_to(MAX_ID)?,
        group_status: group.text("GrpSts", MAX_CODE)?,
        group_reasons: group.all("StsRsnInf").map(read_reason).collect::<Result<_, _>>()?,
        blocks: Vec::new(),
        transactions: Vec::new(),
    })
}

fn read_transactions(
    parent: &Children<'_>,
    block: Option<&str>,
    limits: &Limits,
    into: &mut Vec<TransactionReport>,
) -> Result<(), Fault> {
    for transaction in parent.all("TxInfAndSts") {
        crate::totals::check_room(transaction, into.len(), limits.payments)?;
        let read = read_transaction(transaction)?;
        into.push(TransactionReport { payment_information_id: block.map(str::to_owned), ..read });
    }
    Ok(())
}

fn read_transaction(transaction: Element<'_>) -> Result<TransactionReport, Fault> {
    let fields = transaction.children(shapes::report::TRANSACTION_STATUS)?;
    Ok(TransactionReport {
        payment_information_id: None,
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
    let fields = element.children(shapes::report::STATUS_REASON)?;
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
