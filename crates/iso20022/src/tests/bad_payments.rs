//! What refuses one payment, one block, or one message, and with which code.

use super::{INITIATION, batch, changed, read};
use crate::{Reason, StatusReason};

fn refusal(xml: &str) -> Reason {
    let message = read(xml).unwrap_or_else(|error| panic!("the file is refused: {error}"));
    assert_eq!(message.group_rejection, None);
    message.payments[0].transfer.clone().expect_err("the payment is refused")
}

#[test]
fn each_fault_has_its_code() {
    let amount = "<InstdAmt Ccy=\"EUR\">10.25</InstdAmt>";
    for (from, to, code) in [
        (">10.25</InstdAmt>", ">10.123456</InstdAmt>", "AM12"),
        (">10.25</InstdAmt>", ">-10.25</InstdAmt>", "AM12"),
        (">10.25</InstdAmt>", ">1234567890123456789</InstdAmt>", "AM12"),
        (">10.25</InstdAmt>", ">10,25</InstdAmt>", "AM12"),
        (">10.25</InstdAmt>", "><b/></InstdAmt>", "AM12"),
        (amount, "", "AM12"),
        (amount, "<EqvtAmt><Amt Ccy=\"EUR\">1</Amt><CcyOfTrf>USD</CcyOfTrf></EqvtAmt>", "AG03"),
        ("Ccy=\"EUR\"", "Ccy=\"eur\"", "AM11"),
        ("Ccy=\"EUR\"", "", "AM11"),
        ("<EndToEndId>E2E-1</EndToEndId>", "", "FF08"),
        ("<EndToEndId>E2E-1<", "<EndToEndId> <", "FF08"),
        ("<EndToEndId>E2E-1<", "<EndToEndId>123456789012345678901234567890123456<", "FF08"),
        ("eb6305c9-", "EB6305C9-", "CH16"),
        ("<BICFI>BETAFRPPXXX<", "<BICFI>BETAFRP<", "RC01"),
        ("<BICFI>ALPHDEFF<", "<BICFI>alphdeff<", "RC01"),
        ("<BICFI>BETAFRPPXXX</BICFI>", "<Nm>Beta</Nm>", "RC04"),
        ("<BICFI>ALPHDEFF</BICFI>", "<Nm>Alpha</Nm>", "RC03"),
        ("<IBAN>FR1420041010050500013M02606<", "<IBAN>FR14 2004 1010<", "AC03"),
        ("<IBAN>DE89370400440532013000<", "<IBAN>D<", "AC02"),
        ("<Ccy>EUR<", "<Ccy>Euro<", "AC10"),
        ("<Dt>2025-03-04<", "<Dt>2025-02-30<", "DT01"),
        ("<PmtMtd>TRF<", "<PmtMtd>CHK<", "AG03"),
        ("<PmtMtd>TRF<", "<PmtMtd>PAY<", "CH16"),
        ("<Cdtr>\n          <Nm>Bob</Nm>", "<Cdtr><Nm>Bob</Nm><Nm>Bea</Nm>", "CH16"),
        ("<RmtInf>", "<Pourboire/><RmtInf>", "CH17"),
        ("<RmtInf>", "<RmtInf xmlns=\"urn:other\">", "CH17"),
        ("<RmtInf>", "text<RmtInf>", "CH16"),
    ] {
        let reason = refusal(&changed(from, to));
        assert_eq!(reason.code.code(), code, "{from} -> {to}: {reason}");
        assert!(reason.text.contains("line "), "{reason}");
    }
    let long = format!("<Nm>{}</Nm>", "B".repeat(141));
    assert_eq!(refusal(&changed("<Nm>Bob</Nm>", &long)).code, StatusReason::BE20);
    let swapped = INITIATION.replacen("<InstrId>INSTR-1</InstrId>", "", 1).replacen(
        "</EndToEndId>",
        "</EndToEndId><InstrId>INSTR-1</InstrId>",
        1,
    );
    assert_eq!(refusal(&swapped).code, StatusReason::CH16, "elements out of order");
    let account = INITIATION.find("<CdtrAcct>").expect("an account");
    let end = INITIATION.find("</CdtrAcct>").expect("its end") + "</CdtrAcct>".len();
    let without = format!("{}{}", &INITIATION[..account], &INITIATION[end..]);
    assert_eq!(refusal(&without).code, StatusReason::AC03);
}

#[test]
fn a_refused_payment_is_still_recognised_and_others_go_on() {
    let xml = batch(3).replacen(">10.25</InstdAmt>", ">10.250001</InstdAmt>", 1);
    let message = read(&xml).expect("a message");
    assert_eq!(message.group_rejection, None, "a sum with an unreadable amount proves nothing");
    let codes: Vec<_> =
        message.instructions().map(|(payment, verdict)| (&*payment.end_to_end_id, verdict.is_ok())).collect();
    assert_eq!(codes, [("E2E-1", false), ("E2E-1", true), ("E2E-1", true)]);
    let xml = changed("<InstrId>INSTR-1</InstrId>", "<Unknown/><InstrId>INSTR-1</InstrId>");
    let payment = read(&xml).expect("a message").payments.remove(0);
    assert_eq!(payment.instruction_id.as_deref(), Some("INSTR-1"));
    assert!(payment.transfer.is_err() && payment.uetr.is_some());
}

#[test]
fn a_zero_amount_is_refused_as_such() {
    let xml = INITIATION.replace(">10.25<", ">0.00<");
    assert_eq!(refusal(&xml).code, StatusReason::AM01);
}

#[test]
fn numbers_and_sums_are_compared() {
    let group = |from: &str, to: &str| {
        read(&changed(from, to)).expect("a message").group_rejection.map(|reason| reason.code)
    };
    assert_eq!(group("<NbOfTxs>1<", "<NbOfTxs>2<"), Some(StatusReason::AM19));
    assert_eq!(group("<CtrlSum>10.25<", "<CtrlSum>10.26<"), Some(StatusReason::AM10));
    assert_eq!(group("<CtrlSum>10.25<", "<CtrlSum>10.2500000000000001<"), Some(StatusReason::AM10));
    assert_eq!(group("<CtrlSum>10.25<", "<CtrlSum>0010.2500000<"), None);
    assert_eq!(group("<CtrlSum>10.25</CtrlSum>", ""), None);
    let block = INITIATION.find("<PmtInf>").expect("a block");
    let block = |from: &str, to: &str| {
        let (header, rest) = INITIATION.split_at(block);
        assert!(rest.contains(from));
        refusal(&format!("{header}{}", rest.replacen(from, to, 1))).code
    };
    assert_eq!(block("<NbOfTxs>1<", "<NbOfTxs>2<"), StatusReason::AM20);
    assert_eq!(block("<CtrlSum>10.25<", "<CtrlSum>10.24<"), StatusReason::AM17);
    assert_eq!(block("<CtrlSum>10.25<", "<CtrlSum>much<"), StatusReason::AM17);
}

#[test]
fn a_large_batch_is_read_whole() {
    let message = read(&batch(10_000)).expect("a message");
    assert_eq!((message.payments.len(), &message.group_rejection), (10_000, &None));
    assert!(message.payments.iter().all(|payment| payment.transfer.is_ok()));
}
