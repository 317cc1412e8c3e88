//! Files that others wrote, and references derived for them.

use super::{INITIATION, batch, changed, read};
use crate::{AccountId, Bic, Date, Decimal, Limits, Message, MessageKind, StatusReason, derived_uetr, parse};

/// The copy in the tests' own data, and if the reference folder is beside the repository, the file
/// there as well.
fn sample(name: &str, check: impl Fn(&Message)) {
    let here = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let file = std::fs::read(here.join("tests/data").join(name)).expect("a copy of the sample");
    check(&parse(&file, &Limits::default()).expect("a message"));
    let reference = here.join("../../../shared/reference/iso20022").join(name);
    match std::fs::read(&reference) {
        Ok(file) => check(&parse(&file, &Limits::default()).expect("a message")),
        Err(_) => println!("skipped: {} is not there, only the copy was read", reference.display()),
    }
}

#[test]
fn a_sepa_initiation_of_version_03() {
    sample("pain.001.001.03.sepa.xml", |message| {
        assert_eq!(message.kind, MessageKind::CustomerCreditTransferInitiation);
        assert_eq!(message.definition, "pain.001.001.03");
        assert_eq!(message.message_id, "MSGID0001");
        assert_eq!(message.created, "2017-08-23T10:00:00");
        assert_eq!((message.number_of_transactions, message.header.is_none()), (1, true));
        assert_eq!(message.control_sum, Some(Decimal::new(9_999, 2)));
        assert_eq!(message.group_rejection, None);
        let initiating = message.initiating_party.as_ref().expect("an initiating party");
        assert_eq!(initiating.identification.as_deref(), Some("123456789"));
        let [payment] = &message.payments[..] else { panic!("one payment") };
        assert_eq!(payment.payment_information_id.as_deref(), Some("201708230001"));
        assert_eq!(payment.instruction_id.as_deref(), Some("InstrId00001"));
        assert_eq!(payment.end_to_end_id, "EndToEndId0001");
        assert_eq!(payment.uetr, None);
        let transfer = payment.transfer.as_ref().expect("a transfer");
        assert_eq!(transfer.amount.minor_units(2), Ok(9_999));
        assert_eq!(transfer.amount.currency_code(), "EUR");
        assert_eq!(transfer.debtor.name.as_deref(), Some("IMONE X"));
        assert_eq!(transfer.debtor.account_currency, Some(*b"EUR"));
        assert_eq!(transfer.debtor_agent.as_ref().and_then(|agent| agent.bic), Bic::parse("CBSBLT26XXX"));
        assert_eq!(transfer.creditor_agent.as_ref().and_then(|agent| agent.bic), Bic::parse("SMPOLT22"));
        let Some(AccountId::Iban(iban)) = &transfer.creditor.account else { panic!("an IBAN") };
        assert_eq!((iban.as_str(), iban.checksum_ok()), ("LT007400000000000000", false));
        assert_eq!(transfer.requested_date, Date::new(2017, 8, 23));
        assert_eq!(transfer.remittance.as_deref(), Some("Apmokama saskaita-faktura Nr. 1"));
    });
}

#[test]
fn a_customer_transfer_whose_control_sum_is_wrong() {
    sample("pacs.008.001.07.xml", |message| {
        assert_eq!(message.kind, MessageKind::FiToFiCustomerCreditTransfer);
        let header = message.header.as_ref().expect("a header");
        assert_eq!(header.business_message_id, "12312312312");
        assert_eq!(header.from.as_ref().and_then(|agent| agent.bic), Bic::parse("MLCOUS33"));
        assert!(!header.possible_duplicate);
        assert_eq!(message.instructed_agent.as_ref().and_then(|agent| agent.bic), Bic::parse("ICBCUS4C"));
        let rejection = message.group_rejection.as_ref().expect("10000 is stated, 5000 is paid");
        assert_eq!(rejection.code, StatusReason::AM10);
        assert!(rejection.text.contains("10000") && rejection.text.contains("5000"), "{rejection}");
        let [payment] = &message.payments[..] else { panic!("one payment") };
        assert_eq!(payment.transaction_id.as_deref(), Some("123452342"));
        let transfer = payment.transfer.as_ref().expect("the payment itself is well formed");
        assert_eq!(transfer.amount.to_string(), "USD 5000");
        assert_eq!(transfer.requested_date, Date::new(2018, 7, 31));
        assert_eq!(transfer.creditor.name.as_deref(), Some("Mike Smith"));
        assert_eq!(transfer.creditor.account, None);
        assert!(message.instructions().all(|(_, verdict)| verdict == Err(rejection)));
    });
}

#[test]
fn an_institution_transfer_with_an_intermediary() {
    sample("pacs.009.001.07.xml", |message| {
        assert_eq!(message.kind, MessageKind::FinancialInstitutionCreditTransfer);
        assert_eq!(message.group_rejection.as_ref().map(|reason| reason.code), Some(StatusReason::AM10));
        let instructed = message.instructed_agent.as_ref().expect("an instructed agent");
        assert_eq!(instructed.name.as_deref(), Some("ASDF AF ASDFSDF ASDFSDF"));
        let transfer = message.payments[0].transfer.as_ref().expect("a transfer");
        assert_eq!(transfer.debtor.bic, Bic::parse("SSTYPLP1"));
        assert_eq!(transfer.creditor.bic, Bic::parse("HDSBKHPP"));
        assert_eq!(transfer.debtor_agent, None);
        let agent = transfer.creditor_agent.as_ref().expect("a creditor agent");
        assert_eq!(agent.bic.map(|bic| bic.to_string()).as_deref(), Some("CTZNCA8V001"));
        assert_eq!(agent.member_id.as_deref(), Some("FFFF"));
        assert_eq!(transfer.intermediary_agents.len(), 1);
    });
}

#[test]
fn another_message_of_the_standard_is_named_as_such() {
    let xml = INITIATION.replace("pain.001.001.09", "camt.053.001.07");
    let error = read(&xml).expect_err("a statement is no payment");
    assert_eq!(error.reason, StatusReason::FF01);
    assert!(error.what.contains("camt.053.001.07") && error.what.contains("pacs.008"), "{error}");
    let original = error.original.expect("what was recognised");
    assert_eq!(original.definition.as_deref(), Some("camt.053.001.07"));
}

#[test]
fn all_fields_of_an_initiation() {
    let message = read(INITIATION).expect("a message");
    assert_eq!(message.initiating_party.and_then(|party| party.name).as_deref(), Some("Alice & Co"));
    let payment = &message.payments[0];
    assert_eq!(payment.uetr.map(|uetr| uetr[0]), Some(0xEB));
    let transfer = payment.transfer.as_ref().expect("a transfer");
    assert_eq!(transfer.requested_date, Date::new(2025, 3, 4));
    assert_eq!(
        transfer.creditor.account.as_ref().map(AccountId::as_str),
        Some("FR1420041010050500013M02606")
    );
    assert_eq!(transfer.remittance.as_deref(), Some("Invoice 7"));
}

#[test]
fn a_proprietary_account_an_alias_and_a_structured_reference() {
    let xml = changed(
        "<IBAN>FR1420041010050500013M02606</IBAN>",
        "<Othr><Id>123-456</Id><SchmeNm><Cd>BBAN</Cd></SchmeNm></Othr>",
    )
    .replace("</CdtrAcct>", "<Prxy><Tp><Cd>TELE</Cd></Tp><Id>+33123456789</Id></Prxy></CdtrAcct>")
    .replace("<Ustrd>Invoice 7</Ustrd>", "<Strd><CdtrRefInf><Ref>RF18539007547034</Ref></CdtrRefInf></Strd>");
    let message = read(&xml).expect("a message");
    let transfer = message.payments[0].transfer.as_ref().expect("a transfer");
    let account = AccountId::Other { id: "123-456".to_owned(), scheme: Some("BBAN".to_owned()) };
    assert_eq!(transfer.creditor.account, Some(account));
    let alias = transfer.creditor.alias.as_ref().expect("an alias");
    assert_eq!((alias.kind.as_deref(), alias.id.as_str()), (Some("TELE"), "+33123456789"));
    assert_eq!(transfer.remittance.as_deref(), Some("RF18539007547034"));
}

#[test]
fn envelopes_of_all_kinds_are_opened() {
    let document = &INITIATION[INITIATION.find("<Document").expect("a document")..];
    let header = |version: &str| {
        format!(
            "<AppHdr xmlns=\"urn:iso:std:iso:20022:tech:xsd:head.001.001.{version}\"><Fr><FIId><FinInstnId>\
             <BICFI>ALPHDEFF</BICFI></FinInstnId></FIId></Fr><To><OrgId><Nm>x</Nm></OrgId></To>\
             <BizMsgIdr>B-1</BizMsgIdr><MsgDefIdr>pain.001.001.09</MsgDefIdr>\
             <CreDt>2025-03-03T09:30:00Z</CreDt><PssblDplct>true</PssblDplct></AppHdr>"
        )
    };
    let bare = read(INITIATION).expect("a message");
    for (version, open, close) in [
        ("01", "<message>", "</message>"),
        ("02", "<RequestPayload>", "</RequestPayload>"),
        ("03", "<e:Body xmlns:e=\"urn:swift:saa:xsd:saa.2.0\">", "</e:Body>"),
    ] {
        let message = read(&format!("{open}{}{document}{close}", header(version))).expect("a message");
        let head = message.header.as_ref().expect("a header");
        assert!(head.possible_duplicate && head.to.is_none());
        assert_eq!(Message { header: None, ..message }, bare);
    }
    let nested = format!(
        "<BizMsgEnvlp xmlns=\"urn:iso:std:iso:20022:tech:xsd:nvlp.001.001.01\"><Hdr>{}</Hdr><Doc>{document}</Doc></BizMsgEnvlp>",
        header("02")
    );
    assert!(read(&nested).expect("a message").header.is_some());
    assert_eq!(read(&format!("\u{FEFF}{INITIATION}")).expect("a byte order mark is passed over"), bare);
    let prefixed = document
        .replace("<Document xmlns=", "<Document xmlns:p=")
        .replace("</", "</p:")
        .replace('<', "<p:")
        .replace("<p:/", "</");
    assert_eq!(read(&prefixed).expect("prefixes do not matter"), bare);

    let mismatch = format!("<m>{}{document}</m>", header("01").replace("pain.001.001.09", "pain.001.001.03"));
    assert!(read(&mismatch).expect_err("the header lies").what.contains("the document is a pain.001.001.09"));
    let two = format!("<m>{document}{document}</m>");
    assert!(read(&two).expect_err("two documents").what.contains("more than one Document"));
    let no_sender = format!("<m>{}{document}</m>", header("01").replace("Fr>", "Cc>"));
    assert!(read(&no_sender).expect_err("an unknown element").path.is_some_and(|path| path.contains("Cc")));
}

#[test]
fn a_reference_is_derived_from_what_names_the_payment() {
    let derived_uetr = |message: &Message, index| derived_uetr(&[1; 32], Some("ALPHDEFF"), message, index);
    let message = read(&batch(2)).expect("a message");
    let first = derived_uetr(&message, 0).expect("a reference");
    assert_eq!((first[6] >> 4, first[8] >> 6), (8, 2), "a UUID of version 8");
    assert_eq!(derived_uetr(&read(&batch(2)).expect("the same message"), 0), Some(first));
    assert_ne!(derived_uetr(&message, 1), Some(first), "the same names at another place");
    assert_eq!(derived_uetr(&message, 2), None);
    for (from, to) in [
        ("MSG-1", "MSG-2"),
        ("BLOCK-1", "BLOCK-2"),
        ("INSTR-1", "INSTR-2"),
        ("E2E-1", "E2E-2"),
        ("ALPHDEFF", "GAMMITMM"),
        ("Alice &amp; Co", "Albert"),
        ("<InstrId>INSTR-1</InstrId>", ""),
    ] {
        let other = read(&changed(from, to)).expect("a message");
        assert_ne!(derived_uetr(&other, 0), Some(first), "{from} counts");
    }
    for (secret, institution) in [([2; 32], Some("ALPHDEFF")), ([1; 32], Some("BETAFRPP")), ([1; 32], None)] {
        let other = crate::derived_uetr(&secret, institution, &message, 0);
        assert_ne!(other, Some(first), "the secret and the institution {institution:?} count");
    }
    let layout = read(&INITIATION.replace("  ", "\t")).expect("a message");
    let one = read(INITIATION).expect("a message");
    assert_eq!(derived_uetr(&layout, 0), derived_uetr(&one, 0), "layout does not count");
}
