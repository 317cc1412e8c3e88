//! What a payment says besides money and accounts is kept.

use super::{INITIATION, changed, read};
use crate::{
    ChargesBearer, Coded, CreditorReference, Date, Reason, ReferredDocument, StatusReason,
    StructuredRemittance, Transfer,
};

fn transfer(xml: &str) -> Transfer {
    read(xml).expect("a message").payments.remove(0).transfer.expect("a transfer")
}

fn refusal(xml: &str) -> Reason {
    read(xml).expect("a message").payments.remove(0).transfer.expect_err("a refusal")
}

/// The sample with everything that is kept, some of it said by the block.
fn full() -> String {
    changed("<ReqdExctnDt>", "<PmtTpInf><CtgyPurp><Cd>SALA</Cd></CtgyPurp></PmtTpInf><ReqdExctnDt>")
        .replace("</DbtrAgt>", "</DbtrAgt><UltmtDbtr><Nm>Anna</Nm></UltmtDbtr><ChrgBr>SLEV</ChrgBr>")
        .replace(
            "</CdtrAcct>",
            "</CdtrAcct><UltmtCdtr><Nm>Ben</Nm></UltmtCdtr><Purp><Prtry>rent</Prtry></Purp>",
        )
        .replace(
            "<Ustrd>Invoice 7</Ustrd>",
            "<Ustrd>Invoice 7</Ustrd><Ustrd>and 8</Ustrd><Strd><RfrdDocInf><Tp><CdOrPrtry><Cd>CINV</Cd></CdOrPrtry>\
             <Issr>Ben</Issr></Tp><Nb>7</Nb><RltdDt>2025-02-01</RltdDt></RfrdDocInf>\
             <RfrdDocAmt><RmtdAmt Ccy=\"EUR\">10.25</RmtdAmt></RfrdDocAmt><CdtrRefInf><Tp><CdOrPrtry>\
             <Cd>SCOR</Cd></CdOrPrtry><Issr>ISO</Issr></Tp><Ref>RF18539007547034</Ref></CdtrRefInf>\
             <AddtlRmtInf>with thanks</AddtlRmtInf></Strd>",
        )
}

#[test]
fn every_kept_field_is_read() {
    let transfer = transfer(&full());
    assert_eq!(transfer.charges, Some(ChargesBearer::ServiceLevel));
    assert_eq!(transfer.purpose, Some(Coded::Proprietary("rent".to_owned())));
    assert_eq!(transfer.category_purpose, Some(Coded::Code("SALA".to_owned())));
    assert_eq!(transfer.ultimate_debtor.and_then(|party| party.name).as_deref(), Some("Anna"));
    assert_eq!(transfer.ultimate_creditor.and_then(|party| party.name).as_deref(), Some("Ben"));
    assert_eq!(transfer.remittance.as_deref(), Some("Invoice 7\nand 8"));
    assert_eq!(transfer.remittance_information.unstructured, ["Invoice 7", "and 8"]);
    let structured = StructuredRemittance {
        documents: vec![ReferredDocument {
            kind: Some(Coded::Code("CINV".to_owned())),
            number: Some("7".to_owned()),
            date: Date::new(2025, 2, 1),
        }],
        remitted: Some(transfer.amount),
        creditor_reference: Some(CreditorReference {
            kind: Some(Coded::Code("SCOR".to_owned())),
            issuer: Some("ISO".to_owned()),
            reference: Some("RF18539007547034".to_owned()),
        }),
        additional: vec!["with thanks".to_owned()],
    };
    assert_eq!(transfer.remittance_information.structured, [structured]);
}

#[test]
fn what_the_payment_says_goes_before_what_its_block_says() {
    let xml =
        full().replace("<CdtrAgt>", "<ChrgBr>SHAR</ChrgBr><UltmtDbtr><Nm>Ada</Nm></UltmtDbtr><CdtrAgt>");
    let xml = xml.replace(
        "</PmtId>",
        "</PmtId><PmtTpInf><SvcLvl><Cd>SEPA</Cd></SvcLvl><CtgyPurp><Prtry>x</Prtry></CtgyPurp></PmtTpInf>",
    );
    let transfer = transfer(&xml);
    assert_eq!(transfer.charges, Some(ChargesBearer::Shared));
    assert_eq!(transfer.ultimate_debtor.and_then(|party| party.name).as_deref(), Some("Ada"));
    assert_eq!(transfer.category_purpose, Some(Coded::Proprietary("x".to_owned())));
}

#[test]
fn later_versions_write_the_date_of_a_document_as_a_choice() {
    let xml = full().replace("<RltdDt>2025-02-01<", "<RltdDt><Tp><Cd>ISSU</Cd></Tp><Dt>2025-02-01</Dt><");
    let read = transfer(&xml.replace("pain.001.001.09", "pain.001.001.12"));
    assert_eq!(read.remittance_information.structured[0].documents[0].date, Date::new(2025, 2, 1));
}

#[test]
fn kept_fields_are_checked() {
    for (from, to, code) in [
        ("<ChrgBr>SLEV<", "<ChrgBr>OUR<", "CH16"),
        ("<Prtry>rent<", "<Prtry><", "CH16"),
        ("<Prtry>rent</Prtry>", "<Cd>RENTS</Cd>", "CH16"),
        ("<Prtry>rent</Prtry>", "", "CH16"),
        ("<RltdDt>2025-02-01<", "<RltdDt>2025-02-30<", "DT01"),
        ("<Issr>ISO</Issr>", "<Issr>ISO</Issr><Extra/>", "CH17"),
        ("<RmtdAmt Ccy=\"EUR\">", "<RmtdAmt>", "AM11"),
        ("<Nm>Ben</Nm>", "<Nm>Ben</Nm><Nm>Ben</Nm>", "CH16"),
    ] {
        let reason = refusal(&full().replacen(from, to, 1));
        assert_eq!(reason.code.code(), code, "{from} -> {to}: {reason}");
    }
    let long = full().replacen("with thanks", &"t".repeat(141), 1);
    assert_eq!(refusal(&long).code, StatusReason::CH16);
}

#[test]
fn check_digits_are_refused_where_a_network_asks_for_it() {
    let code = |xml: &str| transfer(xml).check_ibans().map_err(|reason| reason.code);
    assert_eq!(code(INITIATION), Ok(()));
    let debtor = changed("DE89370400440532013000", "DE88370400440532013000");
    assert_eq!(code(&debtor), Err(StatusReason::AC02));
    let creditor = changed("FR1420041010050500013M02606", "FR1420041010050500013M02605");
    assert_eq!(code(&creditor), Err(StatusReason::AC03));
    assert!(transfer(&creditor).check_ibans().is_err_and(|reason| reason.text.contains("13M02605")));
}
