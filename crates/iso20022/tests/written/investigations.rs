//! Requests for cancellation and their answers.

use tally_iso20022::{
    CancellationDecision, CancellationRejection, CancellationRequest, CancellationVerdict, Limits, Money,
    OriginalPayment, Resolution, StatusReason, WriteError, cancellation_request, parse_cancellation_request,
    parse_resolution, resolution,
};

use crate::samples::{answers, cancellations, group_answers, group_cancellation};

fn read(xml: &str) -> CancellationRequest {
    parse_cancellation_request(xml.as_bytes(), &Limits::default()).unwrap()
}

fn refused(xml: &str) -> StatusReason {
    parse_cancellation_request(xml.as_bytes(), &Limits::default()).unwrap_err().reason
}

#[test]
fn requests_read_back_whole() {
    for request in [cancellations(), group_cancellation()] {
        assert_eq!(read(&cancellation_request(&request).unwrap()), request);
    }
}

#[test]
fn later_versions_are_read_and_others_are_not() {
    let written = cancellation_request(&cancellations()).unwrap();
    for version in 8..=11 {
        let definition = format!("camt.056.001.{version:02}");
        let read = read(&written.replace("camt.056.001.08", &definition));
        assert_eq!((&read.definition, read.cancellations.len()), (&definition, 3));
    }
    assert_eq!(refused(&written.replace("camt.056.001.08", "camt.056.001.12")), StatusReason::FF01);
}

#[test]
fn a_request_has_the_cancellations_that_it_states() {
    let written = cancellation_request(&cancellations()).unwrap();
    assert_eq!(refused(&written.replace("<NbOfTxs>3<", "<NbOfTxs>2<")), StatusReason::AM19);
    let sum = |sum: &str| written.replace("</NbOfTxs>", &format!("</NbOfTxs><CtrlSum>{sum}</CtrlSum>"));
    assert_eq!(read(&sum("20.50")).cancellations.len(), 3, "an amount is missing: the sum proves nothing");
    let all = sum("30.75").replace(
        "</OrgnlUETR>\n      </TxInf>",
        "</OrgnlUETR><OrgnlIntrBkSttlmAmt Ccy=\"EUR\">10.25</OrgnlIntrBkSttlmAmt></TxInf>",
    );
    assert_eq!(read(&all).cancellations.len(), 3);
    assert_eq!(refused(&all.replace("30.75", "30.76")), StatusReason::AM10);
}

#[test]
fn a_request_names_what_it_is_about() {
    let written = cancellation_request(&cancellations()).unwrap();
    let uetr = "        <OrgnlUETR>eb6305c9-1f7f-49de-aed0-16487c27b42d</OrgnlUETR>\n      </TxInf>";
    assert!(written.contains(uetr));
    assert_eq!(refused(&written.replace(uetr, "</TxInf>")), StatusReason::FF01);
    assert_eq!(refused(&written.replace("<Undrlyg>", "<Undrlyg><Other/>")), StatusReason::FF01);
    let both = cancellation_request(&group_cancellation()).unwrap().replace(
        "</OrgnlGrpInfAndCxl>",
        "</OrgnlGrpInfAndCxl><TxInf><OrgnlEndToEndId>E</OrgnlEndToEndId></TxInf>",
    );
    assert_eq!(refused(&both), StatusReason::FF01);
    let of_the_group = read(&both.replace("<GrpCxl>true<", "<GrpCxl>false<"));
    let [payment] = &of_the_group.cancellations[..] else { panic!("one payment") };
    assert!(!payment.is_whole_message);
    assert_eq!(payment.original.message_id.as_deref(), Some("MSG-8"));
    assert_eq!(payment.reason, group_cancellation().cancellations[0].reason, "the group's reason");
}

#[test]
fn a_request_is_limited() {
    let written = cancellation_request(&cancellations()).unwrap();
    let few = Limits { payments: 2, ..Limits::default() };
    let error = parse_cancellation_request(written.as_bytes(), &few).unwrap_err();
    assert_eq!(error.reason, StatusReason::AM18);
}

#[test]
fn answers_read_back_whole() {
    for expected in [answers(), group_answers()] {
        let written = resolution(&expected).unwrap();
        assert_eq!(parse_resolution(written.as_bytes(), &Limits::default()).unwrap(), expected);
    }
}

#[test]
fn an_answer_goes_back_to_who_asked_and_sums_up() {
    let answer = answers();
    assert_eq!(answer.assignment.assignee, cancellations().assignment.assigner);
    assert_eq!(answer.assignment.assigner, cancellations().assignment.assignee);
    assert_eq!((answer.confirmation.as_str(), answer.case), ("PECR", cancellations().case));
    let verdicts: Vec<_> = answer.answers.iter().map(|answer| answer.verdict).collect();
    assert_eq!(
        verdicts,
        [CancellationVerdict::Accepted, CancellationVerdict::Rejected, CancellationVerdict::Rejected]
    );
    let codes: Vec<_> = answer
        .answers
        .iter()
        .map(|answer| {
            answer.reason.as_ref().and_then(|reason| reason.code.as_ref()).map(|code| code.as_str())
        })
        .collect();
    assert_eq!(codes, [None, Some("NOOR"), Some("PTNA")]);
    let of = |decisions: &[_]| {
        Resolution::of(&cancellations(), "A".to_owned(), "2025-03-03T10:00:01Z".to_owned(), decisions)
    };
    let made = || CancellationDecision::Made;
    assert_eq!(of(&[made(), made(), made()]).unwrap().confirmation, "CNCL");
    let no = || CancellationDecision::Refused(CancellationRejection::NOOR, String::new());
    assert_eq!(of(&[no(), no(), no()]).unwrap().confirmation, "RJCR");
    let pending = of(&[no(), CancellationDecision::Pending, made()]).unwrap();
    assert_eq!(
        (pending.confirmation.as_str(), pending.answers[1].verdict),
        ("PDCR", CancellationVerdict::Pending)
    );
    let read = parse_resolution(resolution(&pending).unwrap().as_bytes(), &Limits::default());
    assert_eq!(read.unwrap(), pending);
    assert_eq!(of(&[made()]), Err(WriteError::OutcomeCount { payments: 3, outcomes: 1 }));
}

#[test]
fn what_the_schema_does_not_allow_is_not_written() {
    let mut request = cancellations();
    request.cancellations[0].original.amount = Some(Money::from_minor_units(*b"EUR", 1, 6));
    assert!(cancellation_request(&request).is_err());
    request.cancellations.clear();
    assert!(cancellation_request(&request).is_err());
    let mut whole = group_cancellation();
    whole.cancellations[0].original = OriginalPayment::default();
    assert!(cancellation_request(&whole).is_err());
    let mut answer = answers();
    answer.confirmation = "CANCELLED".to_owned();
    assert!(matches!(
        resolution(&answer),
        Err(WriteError::Field { field, .. }) if field == "RsltnOfInvstgtn/Sts/Conf"
    ));
}
