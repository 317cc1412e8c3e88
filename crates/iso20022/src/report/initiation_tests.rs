//! What answers a pain.001.

use crate::report::tests::{context, settled};
use crate::report::{Outcome, refused_by_form};
use crate::tests::{INITIATION, batch, changed, read};
use crate::{
    Limits, Message, ReportContext, StatusReason, StatusReport, WriteError, answer, group_answer,
    initiation_report, parse, parse_status_report,
};

/// The sample with a second block, of two payments.
fn two_blocks() -> String {
    let start = INITIATION.find("<PmtInf>").expect("a block");
    let end = INITIATION.find("</CstmrCdtTrfInitn>").expect("the end of the blocks");
    let block = batch(2);
    let (from, to) =
        (block.find("<PmtInf>").expect("a block"), block.find("</CstmrCdtTrfInitn>").expect("its end"));
    let header = INITIATION[..start].replace("<NbOfTxs>1<", "<NbOfTxs>3<").replace(">10.25<", ">30.75<");
    format!(
        "{header}{}{}{}",
        &INITIATION[start..end],
        block[from..to].replace("BLOCK-1", "BLOCK-2"),
        &INITIATION[end..]
    )
}

/// As version 03 has it.
fn old(xml: &str) -> String {
    xml.replace("pain.001.001.09", "pain.001.001.03")
        .replace("BICFI", "BIC")
        .replace("<Dt>2025-03-04</Dt>", "2025-03-04")
        .replace("<UETR>eb6305c9-1f7f-49de-aed0-16487c27b42d</UETR>", "")
}

fn message(xml: &str) -> Message {
    read(xml).expect("a message")
}

fn report(xml: &str, outcomes: &[Outcome]) -> StatusReport {
    let written = answer(&message(xml), outcomes, &context()).expect("a report");
    parse_status_report(written.as_bytes(), &Limits::default()).expect("a report that can be read")
}

/// The outcomes that the form decides, and settlement of the others.
fn outcomes(message: &Message) -> Vec<Outcome> {
    refused_by_form(message).into_iter().map(|refused| refused.unwrap_or_else(settled)).collect()
}

#[test]
fn each_block_and_each_payment_has_its_status() {
    let xml = two_blocks();
    let rejected = Outcome::Rejected(StatusReason::AM04.into());
    let read = report(&xml, &[settled(), rejected, Outcome::Pending]);
    assert_eq!((&*read.message_id, &*read.original_message_id), ("REPORT-1", "MSG-1"));
    assert_eq!(read.original_definition, "pain.001.001.09");
    assert_eq!(read.group_status.as_deref(), Some("PART"));
    let blocks: Vec<_> =
        read.blocks.iter().map(|block| (&*block.id, block.status.as_deref().unwrap_or(""))).collect();
    assert_eq!(blocks, [("BLOCK-1", "ACSC"), ("BLOCK-2", "PART")]);
    let payments = read.transactions.iter().map(|payment| {
        (payment.payment_information_id.as_deref().unwrap_or(""), payment.status.as_deref().unwrap_or(""))
    });
    let payments: Vec<_> = payments.collect();
    assert_eq!(payments, [("BLOCK-1", "ACSC"), ("BLOCK-2", "RJCT"), ("BLOCK-2", "PDNG")]);
    let first = &read.transactions[0];
    assert_eq!(first.uetr, message(&xml).payments[0].uetr);
    assert_eq!(
        (first.instruction_id.as_deref(), first.end_to_end_id.as_deref()),
        (Some("INSTR-1"), Some("E2E-1"))
    );
    assert_eq!(first.accepted.as_deref(), Some("2025-03-03T09:30:00.5Z"));
    assert_eq!(first.reference.as_deref(), Some("T-42"));
    assert_eq!(read.transactions[1].reasons[0].code.as_deref(), Some("AM04"));
}

#[test]
fn the_version_is_that_of_the_original() {
    for (xml, definition) in
        [(INITIATION.to_owned(), "pain.002.001.10"), (old(INITIATION), "pain.002.001.03")]
    {
        let message = message(&xml);
        let written = answer(&message, &[settled()], &context()).expect("a report");
        assert!(written.contains(definition), "{written}");
        assert_eq!(written.contains("OrgnlUETR"), definition.ends_with("10"));
        assert_eq!(written.contains("<BIC>"), definition.ends_with("03"));
        assert!(parse_status_report(written.as_bytes(), &Limits::default()).is_ok());
    }
    let pacs = std::fs::read(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/pacs.008.001.07.xml"))
        .expect("the sample");
    let message = parse(&pacs, &Limits::default()).expect("a message");
    let written = answer(&message, &outcomes(&message), &context()).expect("a report");
    assert!(written.contains("pacs.002.001.10"));
}

#[test]
fn a_message_refused_as_a_whole_is_refused_at_the_group_alone() {
    let xml = changed("<NbOfTxs>1<", "<NbOfTxs>2<");
    let read = report(&xml, &outcomes(&message(&xml)));
    assert_eq!(read.group_status.as_deref(), Some("RJCT"));
    assert_eq!(read.group_reasons[0].code.as_deref(), Some("AM19"));
    assert!(read.blocks.is_empty() && read.transactions.is_empty());
}

#[test]
fn a_block_refused_as_a_whole_is_refused_at_the_block_alone() {
    for (from, to, code) in [
        ("<CtrlSum>20.50<", "<CtrlSum>20.51<", "AM17"),
        ("<NbOfTxs>2<", "<NbOfTxs>3<", "AM20"),
        ("<NbOfTxs>2<", "<NbOfTxs>two<", "AM20"),
    ] {
        let xml = two_blocks();
        assert!(xml.contains(from));
        let xml = xml.replacen(from, to, 1);
        let read = report(&xml, &outcomes(&message(&xml)));
        assert_eq!((read.group_status.as_deref(), read.group_reasons.len()), (Some("PART"), 0));
        let codes: Vec<_> = read.blocks.iter().map(|block| block.reasons.first()).collect();
        assert_eq!(codes[0], None);
        assert_eq!(codes[1].and_then(|reason| reason.code.as_deref()), Some(code));
        assert_eq!(read.transactions.len(), 1, "only the payments of the other block");
    }
    let xml = changed("<IBAN>DE89370400440532013000<", "<IBAN>D<");
    let read = report(&xml, &outcomes(&message(&xml)));
    assert_eq!(read.blocks[0].reasons[0].code.as_deref(), Some("AC02"), "the debtor is the block's");
}

#[test]
fn a_payment_refused_alone_is_refused_at_the_payment() {
    let xml = batch(3).replacen(">10.25</InstdAmt>", ">10.250001</InstdAmt>", 1);
    let read = report(&xml, &outcomes(&message(&xml)));
    assert_eq!((read.group_status.as_deref(), read.blocks[0].reasons.len()), (Some("PART"), 0));
    let codes: Vec<_> = read
        .transactions
        .iter()
        .map(|payment| payment.reasons.first().and_then(|reason| reason.code.as_deref()))
        .collect();
    assert_eq!(codes, [Some("AM12"), None, None]);
}

#[test]
fn a_pain_001_that_cannot_be_read_is_answered_with_a_pain_002() {
    for (xml, definition) in [
        (changed("<InitgPty>", "<Extra/><InitgPty>"), "pain.002.001.10"),
        (old(&changed("<InitgPty>", "<Extra/><InitgPty>")), "pain.002.001.03"),
        (changed("pain.001.001.09", "camt.053.001.08"), "pacs.002.001.10"),
        ("no XML".to_owned(), "pacs.002.001.10"),
    ] {
        let error = parse(xml.as_bytes(), &Limits::default()).expect_err("no message");
        let written = group_answer(&error, &context()).expect("a report");
        assert!(written.contains(definition), "{written}");
        let read = parse_status_report(written.as_bytes(), &Limits::default()).expect("a report");
        assert_eq!(read.group_status.as_deref(), Some("RJCT"));
        assert_eq!(read.group_reasons[0].code.as_deref(), Some("FF01"));
    }
}

#[test]
fn what_must_not_be_made_cannot_be_reported_as_made() {
    let message = message(&changed("<NbOfTxs>1<", "<NbOfTxs>2<"));
    let written = initiation_report(&message, &[settled()], &context());
    assert_eq!(written, Err(WriteError::Forbidden { payment: 0 }));
    let written = initiation_report(&message, &[], &context());
    assert_eq!(written, Err(WriteError::OutcomeCount { payments: 1, outcomes: 0 }));
    let unnamed = ReportContext { message_id: String::new(), ..context() };
    assert!(matches!(
        initiation_report(&message, &outcomes(&message), &unnamed),
        Err(WriteError::Field { field, .. }) if field == "CstmrPmtStsRpt/GrpHdr/MsgId"
    ));
}

#[test]
fn ten_thousand_payments_are_read_and_answered() {
    let xml = batch(10_000);
    let outcomes: Vec<Outcome> = (0..10_000)
        .map(|number| if number % 10 == 3 { Outcome::Rejected(StatusReason::AM04.into()) } else { settled() })
        .collect();
    let read = report(&xml, &outcomes);
    let rejected =
        read.transactions.iter().filter(|payment| payment.status.as_deref() == Some("RJCT")).count();
    assert_eq!((read.transactions.len(), rejected), (10_000, 1_000));
}
