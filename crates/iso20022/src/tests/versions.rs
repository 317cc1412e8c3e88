//! Every version that is read, by what differs between them.

use super::{INITIATION, read};
use crate::{Date, StatusReason};

/// The sample as that version writes it.
fn initiation(version: u8) -> String {
    let mut xml = INITIATION.replace("pain.001.001.09", &format!("pain.001.001.{version:02}"));
    if version < 4 {
        xml = xml.replace("BICFI", "BIC");
    }
    if version < 8 {
        xml = xml.replace("<Dt>2025-03-04</Dt>", "2025-03-04");
    }
    if version < 9 {
        xml = xml.replace("<UETR>eb6305c9-1f7f-49de-aed0-16487c27b42d</UETR>", "");
    }
    xml
}

const INTERBANK: &str = r#"<Document xmlns="urn:iso:std:iso:20022:tech:xsd:DEFINITION"><BODY>
<GrpHdr><MsgId>M</MsgId><CreDtTm>2025-03-03T09:30:00+01:00</CreDtTm><NbOfTxs>1</NbOfTxs>
<TtlIntrBkSttlmAmt Ccy="EUR">7.00</TtlIntrBkSttlmAmt><IntrBkSttlmDt>2025-03-03</IntrBkSttlmDt>
<SttlmInf><SttlmMtd>CLRG</SttlmMtd></SttlmInf></GrpHdr>
<CdtTrfTxInf><PmtId><EndToEndId>NOTPROVIDED</EndToEndId><TxId>T</TxId></PmtId>
<IntrBkSttlmAmt Ccy="EUR">7</IntrBkSttlmAmt>PARTIES</CdtTrfTxInf></BODY></Document>"#;

fn interbank(name: &str, version: u8) -> String {
    let agent =
        |name: &str, bic: &str| format!("<{name}><FinInstnId><BICFI>{bic}</BICFI></FinInstnId></{name}>");
    let (body, parties) = if name == "pacs.008" {
        let parties = format!(
            "<ChrgBr>SLEV</ChrgBr><Dbtr><Nm>Alice</Nm></Dbtr>{}{}<Cdtr><Nm>Bob</Nm></Cdtr>",
            agent("DbtrAgt", "ALPHDEFF"),
            agent("CdtrAgt", "BETAFRPP")
        );
        ("FIToFICstmrCdtTrf", parties)
    } else {
        let body = if version < 4 { "FinInstnCdtTrf" } else { "FICdtTrf" };
        (body, agent("Dbtr", "ALPHDEFF") + &agent("Cdtr", "BETAFRPP"))
    };
    let xml = INTERBANK
        .replace("DEFINITION", &format!("{name}.001.{version:02}"))
        .replace("BODY", body)
        .replace("PARTIES", &parties);
    if version < 3 { xml.replace("BICFI", "BIC") } else { xml }
}

#[test]
fn every_version_is_read() {
    for version in 3..=12 {
        let message = read(&initiation(version)).unwrap_or_else(|error| panic!("version {version}: {error}"));
        let transfer = message.payments[0].transfer.as_ref().expect("a transfer");
        assert_eq!(transfer.requested_date, Date::new(2025, 3, 4), "version {version}");
        assert!(transfer.debtor_agent.as_ref().is_some_and(|agent| agent.bic.is_some()));
        assert_eq!(message.payments[0].uetr.is_some(), version >= 9);
    }
    for (name, versions) in [("pacs.008", 2..=12), ("pacs.009", 2..=11)] {
        for version in versions {
            let message = read(&interbank(name, version))
                .unwrap_or_else(|error| panic!("{name} version {version}: {error}"));
            assert_eq!(message.group_rejection, None);
            let payment = &message.payments[0];
            assert_eq!(payment.end_to_end_id, "NOTPROVIDED");
            let transfer = payment.transfer.as_ref().unwrap_or_else(|reason| panic!("{name}: {reason}"));
            assert_eq!(transfer.amount.minor_units(2), Ok(700));
            assert_eq!(transfer.requested_date, Date::new(2025, 3, 3), "the date of the group");
        }
    }
}

#[test]
fn versions_beyond_are_not() {
    for definition in [
        "pain.001.001.02",
        "pain.001.001.13",
        "pain.001.002.03",
        "pain.001.001.3",
        "pain.001.001.+3",
        "pain.001",
        "pacs.008.001.01",
        "pacs.008.001.13",
        "pacs.009.001.12",
        "pain.008.001.08",
        "",
    ] {
        let xml = INITIATION.replace("pain.001.001.09", definition);
        let error = read(&xml).expect_err(definition);
        assert_eq!(error.reason, StatusReason::FF01);
        assert!(error.what.contains("not read here"), "{definition}: {error}");
    }
}

#[test]
fn an_element_of_a_later_version_is_not_admitted() {
    let xml = initiation(3).replace("</PmtId>", "<UETR>eb6305c9-1f7f-49de-aed0-16487c27b42d</UETR></PmtId>");
    let reason =
        read(&xml).expect("a message").payments.remove(0).transfer.expect_err("no UETR in version 03");
    assert_eq!(reason.code, StatusReason::CH17);
    let xml = interbank("pacs.008", 7).replace("<TxId>T</TxId>", "");
    let reason =
        read(&xml).expect("a message").payments.remove(0).transfer.expect_err("TxId until version 07");
    assert_eq!(reason.code, StatusReason::CH21);
    let xml = interbank("pacs.008", 8).replace("<TxId>T</TxId>", "");
    assert!(read(&xml).expect("a message").payments[0].transfer.is_ok());
}

#[test]
fn the_total_is_compared_in_its_currency() {
    let code = |xml: String| read(&xml).expect("a message").group_rejection.map(|reason| reason.code);
    let xml = interbank("pacs.008", 8);
    assert_eq!(code(xml.replace(">7.00<", ">7.01<")), Some(StatusReason::AM10));
    assert_eq!(
        code(xml.replace("<TtlIntrBkSttlmAmt Ccy=\"EUR\">", "<TtlIntrBkSttlmAmt Ccy=\"USD\">")),
        Some(StatusReason::AM10)
    );
}
