//! Reports are read back, and are in the order of the schema.

use crate::report::{Outcome, ReportContext, TransactionStatus, refused_by_form};
use crate::tests::{batch, changed, read};
use crate::{
    Agent, Bic, Date, Limits, Message, Reason, StatusReason, WriteError, group_status_report, parse,
    parse_status_report, status_report,
};

pub(crate) fn context() -> ReportContext {
    ReportContext {
        message_id: "REPORT-1".to_owned(),
        created: "2025-03-03T09:30:01Z".to_owned(),
        instructing_agent: Bic::parse("TSCBDEFF").map(Agent::from),
        instructed_agent: Some(Agent {
            bic: Bic::parse("ALPHDEFF"),
            member_id: Some("12345".to_owned()),
            name: Some("Alpha <Bank> & Söhne".to_owned()),
        }),
    }
}

pub(crate) fn settled() -> Outcome {
    Outcome::Settled {
        accepted: Some("2025-03-03T09:30:00.5Z".to_owned()),
        settled_on: Date::new(2025, 3, 3),
        reference: Some("T-42".to_owned()),
    }
}

fn message() -> Message {
    read(&batch(4)).expect("a message")
}

/// A report with every element that is written.
pub(crate) fn report() -> String {
    let words = "the account has 3 < 10 & \"no\" more ".repeat(6);
    let outcomes = [
        settled(),
        Outcome::Rejected(Reason::new(StatusReason::AM04, words)),
        Outcome::Pending,
        Outcome::InProcess,
    ];
    status_report(&message(), &outcomes, &context()).expect("a report")
}

#[test]
fn a_report_reads_back() {
    let read = parse_status_report(report().as_bytes(), &Limits::default()).expect("a report");
    assert_eq!((&*read.message_id, &*read.created), ("REPORT-1", "2025-03-03T09:30:01Z"));
    assert_eq!((&*read.original_message_id, &*read.original_definition), ("MSG-1", "pain.001.001.09"));
    assert_eq!(read.group_status.as_deref(), Some("PART"));
    let statuses: Vec<_> = read.transactions.iter().map(|tx| tx.status.as_deref().unwrap_or("")).collect();
    assert_eq!(statuses, ["ACSC", "RJCT", "PDNG", "ACSP"]);
    let settled = &read.transactions[0];
    assert_eq!(settled.end_to_end_id.as_deref(), Some("E2E-1"));
    assert_eq!(settled.instruction_id.as_deref(), Some("INSTR-1"));
    assert_eq!(settled.uetr, message().payments[0].uetr);
    assert_eq!(settled.accepted.as_deref(), Some("2025-03-03T09:30:00.5Z"));
    assert_eq!((settled.settled_on, settled.reference.as_deref()), (Date::new(2025, 3, 3), Some("T-42")));
    let [reason] = &read.transactions[1].reasons[..] else { panic!("one reason") };
    assert_eq!(reason.code.as_deref(), Some("AM04"));
    assert_eq!(reason.text, "the account has 3 < 10 & \"no\" more ".repeat(6).trim());
    assert!(report().contains("Alpha &lt;Bank&gt; &amp; Söhne"));
}

/// The order of pacs.002.001.10's schema, written out once more so that a mistake in the shapes
/// does not agree with itself.
#[test]
fn elements_are_in_the_order_of_the_schema() {
    let written = report();
    let tree = roxmltree::Document::parse(&written).expect("well-formed");
    let order = |parent: &str| match parent {
        "GrpHdr" => "MsgId CreDtTm InstgAgt InstdAgt",
        "FIToFIPmtStsRpt" => "GrpHdr OrgnlGrpInfAndSts TxInfAndSts",
        "OrgnlGrpInfAndSts" => {
            "OrgnlMsgId OrgnlMsgNmId OrgnlCreDtTm OrgnlNbOfTxs OrgnlCtrlSum GrpSts StsRsnInf NbOfTxsPerSts"
        }
        "NbOfTxsPerSts" => "DtldNbOfTxs DtldSts",
        "TxInfAndSts" => {
            "OrgnlInstrId OrgnlEndToEndId OrgnlTxId OrgnlUETR TxSts StsRsnInf AccptncDtTm FctvIntrBkSttlmDt AcctSvcrRef"
        }
        "StsRsnInf" => "Rsn AddtlInf",
        "Rsn" => "Cd",
        "FctvIntrBkSttlmDt" => "Dt",
        "InstgAgt" | "InstdAgt" => "FinInstnId",
        "FinInstnId" => "BICFI ClrSysMmbId Nm",
        "ClrSysMmbId" => "MmbId",
        "Document" => "FIToFIPmtStsRpt",
        _ => "",
    };
    let mut elements = 0;
    for node in tree.descendants().filter(|node| node.is_element()) {
        let order: Vec<&str> = order(node.tag_name().name()).split(' ').collect();
        let places: Vec<_> = node
            .children()
            .filter(|child| child.is_element())
            .map(|child| order.iter().position(|name| *name == child.tag_name().name()))
            .collect();
        assert!(places.iter().all(Option::is_some), "{}", node.tag_name().name());
        assert!(places.is_sorted(), "{}", node.tag_name().name());
        if node.has_tag_name((node.tag_name().namespace().unwrap_or_default(), "AddtlInf")) {
            assert!(node.text().is_some_and(|text| (1..=105).contains(&text.chars().count())));
        }
        elements += 1;
    }
    assert!(elements > 50);
}

#[test]
fn a_message_refused_as_a_whole_is_reported_for_each_payment() {
    let message = read(&changed("<NbOfTxs>1<", "<NbOfTxs>2<")).expect("a message");
    let outcomes: Vec<Outcome> = refused_by_form(&message).into_iter().flatten().collect();
    let report = status_report(&message, &outcomes, &context()).expect("a report");
    let read = parse_status_report(report.as_bytes(), &Limits::default()).expect("a report");
    assert_eq!(read.group_status.as_deref(), Some("RJCT"));
    assert_eq!(read.group_reasons[0].code.as_deref(), Some("AM19"));
    assert_eq!(read.transactions[0].reasons[0].code.as_deref(), Some("AM19"));
}

#[test]
fn a_file_that_is_no_message_is_reported_too() {
    for (file, id, definition, code) in [
        ("no XML".to_owned(), "NOTPROVIDED", "NOTPROVIDED", "FF01"),
        (changed("<InitgPty>", "<Extra/><InitgPty>"), "MSG-1", "pain.001.001.09", "FF01"),
        (changed("<CreDtTm>2025-03-03T09:30:00Z", "<CreDtTm>now"), "MSG-1", "pain.001.001.09", "DT02"),
        (changed("pain.001.001.09", &"x".repeat(36)), "NOTPROVIDED", "NOTPROVIDED", "FF01"),
    ] {
        let error = parse(file.as_bytes(), &Limits::default()).expect_err("no message");
        let report = group_status_report(&error, &context()).expect("a report");
        let read = parse_status_report(report.as_bytes(), &Limits::default()).expect("a report");
        assert_eq!((&*read.original_message_id, &*read.original_definition), (id, definition));
        assert_eq!(read.group_status.as_deref(), Some("RJCT"));
        assert_eq!(read.group_reasons[0].code.as_deref(), Some(code));
        assert!(!read.group_reasons[0].text.is_empty());
    }
}

#[test]
fn a_report_that_the_schema_forbids_is_not_written() {
    let message = message();
    let count = status_report(&message, &[settled()], &context());
    assert_eq!(count, Err(WriteError::OutcomeCount { payments: 4, outcomes: 1 }));
    let outcomes = vec![settled(); 4];
    let field = |context: ReportContext| match status_report(&message, &outcomes, &context) {
        Err(WriteError::Field { field, .. }) => field,
        other => panic!("{other:?}"),
    };
    assert_eq!(
        field(ReportContext { message_id: String::new(), ..context() }),
        "FIToFIPmtStsRpt/GrpHdr/MsgId"
    );
    assert_eq!(
        field(ReportContext { created: "today".to_owned(), ..context() }),
        "FIToFIPmtStsRpt/GrpHdr/CreDtTm"
    );
    let agent = Agent { member_id: Some("1".repeat(36)), ..Agent::default() };
    assert_eq!(
        field(ReportContext { instructing_agent: Some(agent), ..context() }),
        "FIToFIPmtStsRpt/GrpHdr/InstgAgt/FinInstnId/ClrSysMmbId/MmbId"
    );
    let mut outcomes = outcomes.clone();
    outcomes[3] = Outcome::Settled { accepted: None, settled_on: None, reference: Some("r".repeat(36)) };
    assert!(status_report(&message, &outcomes, &context()).is_err());
}

#[test]
fn another_version_is_not_read_as_a_report() {
    let other = report().replace("pacs.002.001.10", "pacs.002.001.12");
    let error = parse_status_report(other.as_bytes(), &Limits::default()).expect_err("another version");
    assert!(error.what.contains("pacs.002.001.12"), "{error}");
    for status in TransactionStatus::ALL {
        assert_eq!(TransactionStatus::from_code(status.code()), Some(status));
    }
}
