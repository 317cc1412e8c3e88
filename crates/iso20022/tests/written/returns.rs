//! Returns.

use tally_iso20022::{
    Limits, Money, Outcome, PaymentReturn, StatusReason, WriteError, parse_payment_return,
    parse_status_report, payment_return, return_status_report,
};

use crate::samples::{context, report_on_returns, returns};

fn written() -> String {
    payment_return(&returns()).unwrap()
}

fn read(xml: &str) -> PaymentReturn {
    parse_payment_return(xml.as_bytes(), &Limits::default()).unwrap()
}

#[test]
fn a_return_reads_back_whole() {
    assert_eq!(read(&written()), returns());
    let later = read(&written().replace("pacs.004.001.09", "pacs.004.001.14"));
    assert_eq!(later, PaymentReturn { definition: "pacs.004.001.14".to_owned(), ..returns() });
    for other in ["pacs.004.001.08", "pacs.004.001.15"] {
        let xml = written().replace("pacs.004.001.09", other);
        assert!(parse_payment_return(xml.as_bytes(), &Limits::default()).is_err());
    }
}

#[test]
fn a_return_that_is_wrong_is_refused_alone_and_recognised() {
    let amount = "<RtrdIntrBkSttlmAmt Ccy=\"EUR\">10.05<";
    for (from, to, code) in [
        (amount, "<RtrdIntrBkSttlmAmt Ccy=\"EUR\">10.26<", "AM09"),
        (amount, "<RtrdIntrBkSttlmAmt Ccy=\"USD\">10.05<", "AM09"),
        (amount, "<RtrdIntrBkSttlmAmt Ccy=\"EUR\">0.00<", "AM01"),
        (amount, "<RtrdIntrBkSttlmAmt Ccy=\"EUR\">10.050001<", "AM12"),
        ("<ChrgBr>CRED<", "<ChrgBr>CRDT<", "CH16"),
        ("<IntrBkSttlmDt>2025-03-05<", "<IntrBkSttlmDt>2025-03-35<", "DT01"),
        ("<Cd>AC04<", "<Cd>AC044<", "CH16"),
        ("<ChrgBr>", "<PmtTpInf/><ChrgBr>", "CH16"),
    ] {
        assert!(written().contains(from), "{from}");
        let message = read(&written().replacen(from, to, 1));
        let [first, second] = &message.returns[..] else { panic!("two returns") };
        let reason = first.order.as_ref().unwrap_err();
        assert_eq!(reason.code.code(), code, "{to}: {reason}");
        assert!(second.order.is_ok());
        assert_eq!(
            (first.id.as_deref(), first.original.uetr),
            (Some("RTR-1"), returns().returns[0].original.uetr)
        );
        assert_eq!(payment_return(&message), Err(WriteError::Forbidden { payment: 0 }));
    }
    let bare = "      <OrgnlUETR>eb6305c9-1f7f-49de-aed0-16487c27b42d</OrgnlUETR>\n      <RtrdIntr";
    assert!(written().contains(bare));
    let message = read(&written().replace(bare, "<RtrdIntr"));
    assert_eq!(message.returns[1].order.as_ref().unwrap_err().code, StatusReason::CH21);
}

#[test]
fn numbers_and_sums_are_compared() {
    let group = |from: &str, to: &str| {
        assert!(written().contains(from), "{from}");
        read(&written().replacen(from, to, 1)).group_rejection.map(|reason| reason.code)
    };
    assert_eq!(group("<NbOfTxs>2<", "<NbOfTxs>3<"), Some(StatusReason::AM19));
    assert_eq!(group("<CtrlSum>11.05<", "<CtrlSum>11.06<"), Some(StatusReason::AM10));
    assert_eq!(group("Amt Ccy=\"EUR\">11.05<", "Amt Ccy=\"EUR\">11.06<"), Some(StatusReason::AM10));
    assert_eq!(group("Amt Ccy=\"EUR\">11.05<", "Amt Ccy=\"USD\">11.05<"), Some(StatusReason::AM10));
    assert_eq!(group("<CtrlSum>11.05<", "<CtrlSum>11.050<"), None);
    let refused = read(&written().replacen("<NbOfTxs>2<", "<NbOfTxs>3<", 1));
    assert!(refused.instructions().all(|(_, verdict)| verdict.is_err()));
}

#[test]
fn whole_messages_are_not_returned_unnamed() {
    let xml = written().replace("</CtrlSum>", "</CtrlSum><GrpRtr>true</GrpRtr>");
    let error = parse_payment_return(xml.as_bytes(), &Limits::default()).unwrap_err();
    assert_eq!(error.reason, StatusReason::AG03);
    let few = Limits { payments: 1, ..Limits::default() };
    assert_eq!(parse_payment_return(written().as_bytes(), &few).unwrap_err().reason, StatusReason::AM18);
}

#[test]
fn what_the_message_says_of_all_returns_holds_for_each() {
    let group = "<OrgnlGrpInf><OrgnlMsgId>MSG-9</OrgnlMsgId><OrgnlMsgNmId>pacs.009.001.08</OrgnlMsgNmId><RtrRsnInf>\
                 <Rsn><Prtry>ask</Prtry></Rsn></RtrRsnInf></OrgnlGrpInf>";
    let message = read(&written().replacen("</GrpHdr>", &format!("</GrpHdr>{group}"), 1));
    let [first, second] = &message.returns[..] else { panic!("two returns") };
    assert_eq!(first.original.message_id.as_deref(), Some("MSG-8"), "the return's own goes first");
    assert_eq!(second.original.message_id.as_deref(), Some("MSG-9"));
    let reason = |returned: &tally_iso20022::ReturnedPayment| {
        let order = returned.order.as_ref().unwrap();
        order.reason.as_ref().and_then(|reason| reason.code.as_ref()).map(|code| code.as_str().to_owned())
    };
    assert_eq!((reason(first).as_deref(), reason(second).as_deref()), (Some("AC04"), Some("ask")));
}

#[test]
fn returns_are_reported_on() {
    let report = parse_status_report(report_on_returns().as_bytes(), &Limits::default()).unwrap();
    assert_eq!((&*report.original_message_id, &*report.original_definition), ("RETURN-1", "pacs.004.001.09"));
    assert_eq!(report.group_status.as_deref(), Some("PART"));
    let [first, second] = &report.transactions[..] else { panic!("two returns") };
    assert_eq!(
        (first.instruction_id.as_deref(), first.end_to_end_id.as_deref()),
        (Some("RTR-1"), Some("E2E-1"))
    );
    assert_eq!((first.uetr, second.uetr), (returns().returns[0].original.uetr, first.uetr));
    assert_eq!(second.reasons[0].code.as_deref(), Some("AM09"));
    let one = return_status_report(&returns(), &[Outcome::Pending], &context());
    assert_eq!(one, Err(WriteError::OutcomeCount { payments: 2, outcomes: 1 }));
    let mut none = returns();
    none.returns.clear();
    assert!(matches!(payment_return(&none), Err(WriteError::Field { .. })));
    none = returns();
    none.total = Some(Money::from_minor_units(*b"eur", 1, 0));
    assert!(payment_return(&none).is_err());
}
