//! Files that are refused as a whole, among them those that are made to do harm.

use proptest::prelude::*;

use super::{INITIATION, batch, changed, read};
use crate::{Limits, ParseError, StatusReason, parse, parse_document};

fn refused(xml: impl AsRef<[u8]>) -> ParseError {
    let error = parse(xml.as_ref(), &Limits::default()).expect_err("the file is refused");
    assert!(!error.what.is_empty() && !error.to_reason().text.is_empty());
    error
}

/// Refused as no message at all, for that reason in words.
fn no_message(xml: impl AsRef<[u8]>, because: &str) {
    let error = refused(xml);
    assert_eq!(error.reason, StatusReason::FF01);
    assert!(error.to_reason().text.contains(because), "{because}: {:?}", error.to_reason());
}

#[test]
fn entities_and_document_types_are_refused() {
    let body = &INITIATION[INITIATION.find("<Document").expect("a document")..];
    let laughs = format!(
        "<!DOCTYPE Document [<!ENTITY a \"ha\"><!ENTITY b \"&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;\">]>{}",
        body.replace("Alice<", "&b;<")
    );
    no_message(laughs, "document type");
    let external = format!("<!DOCTYPE Document SYSTEM \"file:///etc/passwd\">{body}");
    no_message(external, "document type");
    let external = format!(
        "<!DOCTYPE Document [<!ENTITY x SYSTEM \"file:///etc/passwd\">]>{}",
        body.replace("<Nm>Alice<", "<Nm>&x;<")
    );
    no_message(external, "document type");
    no_message(changed("<Nm>Alice<", "<Nm>&x;<"), "ampersand");
    no_message(changed("<Nm>Alice<", "<Nm>A & B<"), "ampersand");
    no_message(changed("Ccy=\"EUR\"", "Ccy=\"&eur;\""), "ampersand");
    no_message(changed("<Nm>Alice<", "<Nm>&#0;<"), "not well-formed");
    let message = read(&changed("<Nm>Alice<", "<Nm>&lt;&#65;&#x42;&gt;<![CDATA[&]]><")).expect("a message");
    let transfer = message.payments[0].transfer.as_ref().expect("a transfer");
    assert_eq!(transfer.debtor.name.as_deref(), Some("<AB>&"));
}

#[test]
fn only_utf_8_is_read() {
    no_message(changed("UTF-8", "ISO-8859-1"), "ISO-8859-1");
    no_message(changed("encoding=\"UTF-8\"", "encoding='UTF-16'"), "UTF-16");
    no_message(changed("version=\"1.0\"", "version=\"1.1\""), "XML 1.1");
    let mut latin = changed("<Nm>Alice<", "<Nm>Al?ce<").into_bytes();
    let place = latin.iter().rposition(|byte| *byte == b'?').filter(|place| *place > 100);
    let place = place.and_then(|_| latin.windows(5).position(|window| window == b"Al?ce")).expect("the name");
    latin[place + 2] = 0xE9;
    let error = refused(&latin);
    assert!(error.what.contains("not UTF-8"));
    assert_eq!(error.position.map(|at| (at.line, at.column)), Some((22, 15)));
    for big_endian in [false, true] {
        let units = std::iter::once(0xFEFF).chain(INITIATION.encode_utf16());
        let bytes: Vec<u8> =
            units.flat_map(|unit| if big_endian { unit.to_be_bytes() } else { unit.to_le_bytes() }).collect();
        no_message(&bytes, "UTF-16");
        no_message(&bytes[2..], "UTF-16");
    }
    let declared = changed(" encoding=\"UTF-8\"", "").replace("Bob", "Böb €");
    let message = read(&declared).expect("UTF-8 is the default");
    assert_eq!(
        message.payments[0].transfer.as_ref().map(|t| t.creditor.name.clone()),
        Ok(Some("Böb €".to_owned()))
    );
}

#[test]
fn what_costs_too_much_is_refused_before_it_is_parsed() {
    let deep = format!("{}{}", "<a>".repeat(65), "</a>".repeat(65));
    no_message(&deep, "64 deep");
    no_message("<a>".repeat(1_000_000), "64 deep");
    let allowed = format!("{}{}", "<a>".repeat(64), "</a>".repeat(64));
    no_message(allowed, "no element Document");
    let attributes: String = (0..100_000).map(|number| format!(" a{number}=''")).collect();
    no_message(format!("<a{attributes}/>"), "too many attributes");
    let spaces =
        |from: usize| -> String { (from..from + 12).map(|n| format!(" xmlns:n{n}='urn:{n}'")).collect() };
    no_message(
        format!("<a{}><b{}><c{}/></b></a>", spaces(0), spaces(20), spaces(40)),
        "too many namespace declarations",
    );
    let limits = Limits { bytes: 100, ..Limits::default() };
    let error = parse(INITIATION.as_bytes(), &limits).expect_err("too long");
    assert!(error.what.contains("at most 100"), "{error}");
    let limits = Limits { nodes: 50, ..Limits::default() };
    assert!(parse(INITIATION.as_bytes(), &limits).expect_err("too many").what.contains("more than 50"));
    let limits = Limits { payments: 4, ..Limits::default() };
    let error = parse(batch(5).as_bytes(), &limits).expect_err("too many payments");
    assert_eq!(error.reason, StatusReason::AM18);
    assert!(parse(batch(4).as_bytes(), &limits).is_ok());
}

#[test]
fn what_is_not_well_formed_is_refused_with_its_place() {
    no_message("", "empty");
    no_message(" \n", "empty");
    no_message("\u{FEFF}", "empty");
    no_message("pain.001", "not well-formed");
    no_message("{\"Document\":{}}", "not well-formed");
    no_message(format!("{INITIATION}<more/>"), "not well-formed");
    no_message(format!("{INITIATION}more"), "not well-formed");
    no_message(&INITIATION[..INITIATION.len() - 12], "not closed");
    no_message(&INITIATION[..200], "not");
    no_message(changed("</PmtInf>", "</PmtInfo>"), "not well-formed");
    no_message(changed("</PmtInf>", ""), "not");
    no_message(changed("Ccy=\"EUR\"", "Ccy=\"EUR\" Ccy=\"USD\""), "not well-formed");
    no_message(changed("<PmtInf>", "<PmtInf"), "not");
    no_message(changed("<PmtInf>", "<p:PmtInf>"), "not");
    no_message(changed("<Nm>Alice<", "<Nm>A\u{1}<"), "not well-formed");
    no_message(changed("<PmtInf>", "<!-- <PmtInf>"), "does not end");
    let error = refused(changed("<Nm>Alice<", "<Nm>A & B<"));
    assert_eq!(error.position.map(|at| (at.line, at.column)), Some((22, 15)));
}

#[test]
fn what_is_not_a_message_is_refused_with_its_path() {
    let document = "Document xmlns=\"urn:iso:std:iso:20022:tech:xsd:pain.001.001.09\"";
    no_message(changed(document, "Document"), "namespace is \"\"");
    no_message(changed(document, "Document xmlns=\"urn:evil\""), "urn:evil");
    no_message(changed("<Document", "<Dokument").replace("</Document", "</Dokument"), "no element Document");
    no_message(changed("pain.001.001.09", "pacs.008.001.08"), "FIToFICstmrCdtTrf");
    no_message(changed("<CstmrCdtTrfInitn>", "<CstmrCdtTrfInitn xmlns=\"urn:other\">"), "holds one element");
    for (from, to, path) in [
        ("<MsgId>MSG-1</MsgId>", "", "CstmrCdtTrfInitn/GrpHdr"),
        ("<MsgId>MSG-1<", "<MsgId>12345678901234567890123456789012345678<", "GrpHdr/MsgId"),
        ("<CtrlSum>", "<MsgId>again</MsgId><CtrlSum>", "GrpHdr/MsgId"),
        ("<MsgId>MSG-1</MsgId>", "<MsgId>MSG-1</MsgId><MsgId>MSG-2</MsgId>", "GrpHdr/MsgId"),
        ("<NbOfTxs>1</NbOfTxs>", "", "GrpHdr"),
        ("<CtrlSum>10.25</CtrlSum>", "<Surprise/>", "GrpHdr/Surprise"),
        ("<PmtInfId>BLOCK-1</PmtInfId>", "", "PmtInf"),
        ("<InitgPty>", "<InitgPty>words", "GrpHdr/InitgPty"),
    ] {
        let error = refused(changed(from, to));
        assert_eq!(error.reason, StatusReason::FF01, "{from} -> {to}: {error}");
        assert!(error.path.as_ref().is_some_and(|found| found.ends_with(path)), "{from} -> {to}: {error}");
        assert!(error.position.is_some());
    }
    let code = |from, to| refused(changed(from, to)).reason;
    assert_eq!(code("2025-03-03T09:30:00Z", "yesterday"), StatusReason::DT02);
    assert_eq!(code("<NbOfTxs>1<", "<NbOfTxs>one<"), StatusReason::AM19);
    assert_eq!(code("<CtrlSum>10.25<", "<CtrlSum>1e1<"), StatusReason::AM10);
    let error = refused(changed("<CtrlSum>10.25</CtrlSum>", "<Surprise/>"));
    let original = error.original.expect("what was recognised");
    assert_eq!(original.message_id.as_deref(), Some("MSG-1"));
}

fn samples() -> [Vec<u8>; 11] {
    [
        include_bytes!("../../tests/data/pain.001.001.03.sepa.xml").to_vec(),
        include_bytes!("../../tests/data/pacs.008.001.07.xml").to_vec(),
        include_bytes!("../../tests/data/pacs.009.001.07.xml").to_vec(),
        INITIATION.as_bytes().to_vec(),
        crate::report::tests::report().into_bytes(),
        include_bytes!("../../tests/data/written/head.001.001.02.xml").to_vec(),
        include_bytes!("../../tests/data/written/camt.053.001.08.xml").to_vec(),
        include_bytes!("../../tests/data/written/camt.054.001.08.xml").to_vec(),
        include_bytes!("../../tests/data/written/camt.056.001.08.xml").to_vec(),
        include_bytes!("../../tests/data/written/camt.029.001.09.xml").to_vec(),
        include_bytes!("../../tests/data/written/pacs.004.001.09.xml").to_vec(),
    ]
}

#[derive(Clone, Debug)]
enum Mutation {
    Flip(usize, u8),
    Delete(usize, usize),
    Insert(usize, Vec<u8>),
    Repeat(usize, usize),
    Cut(usize),
}

fn mutation() -> impl Strategy<Value = Mutation> {
    let markup = prop::sample::select(vec![
        "<",
        ">",
        "&",
        "\"",
        "'",
        "<!--",
        "-->",
        "<![CDATA[",
        "]]>",
        "<?",
        "?>",
        "/>",
        "</",
        "=",
        ":",
        "xmlns=\"\"",
        "&#x10FFFF;",
        "\u{0}",
        "\u{FEFF}",
        "é",
        "-",
        "9999999999999999999",
    ]);
    prop_oneof![
        (any::<usize>(), 1u8..).prop_map(|(place, bits)| Mutation::Flip(place, bits)),
        (any::<usize>(), 1..40usize).prop_map(|(place, length)| Mutation::Delete(place, length)),
        (any::<usize>(), prop::collection::vec(any::<u8>(), 1..6))
            .prop_map(|(place, bytes)| Mutation::Insert(place, bytes)),
        (any::<usize>(), markup).prop_map(|(place, text)| Mutation::Insert(place, text.as_bytes().to_vec())),
        (any::<usize>(), 1..200usize).prop_map(|(place, length)| Mutation::Repeat(place, length)),
        any::<usize>().prop_map(Mutation::Cut),
    ]
}

fn mutate(file: &mut Vec<u8>, mutation: &Mutation) {
    let length = file.len().max(1);
    let place = |place: &usize| (place % length).min(file.len().saturating_sub(1));
    match mutation {
        Mutation::Flip(at, bits) => {
            let at = place(at);
            if let Some(byte) = file.get_mut(at) {
                *byte ^= bits;
            }
        }
        Mutation::Delete(at, count) => {
            let at = place(at);
            file.drain(at..(at + count).min(file.len()));
        }
        Mutation::Insert(at, bytes) => {
            let at = place(at);
            file.splice(at..at, bytes.iter().copied());
        }
        Mutation::Repeat(at, count) => {
            let at = place(at);
            let again = file[at..(at + count).min(file.len())].to_vec();
            file.splice(at..at, again);
        }
        Mutation::Cut(at) => {
            let at = place(at);
            file.truncate(at);
        }
    }
}

proptest! {
    // PROPTEST_CASES in the environment makes it search longer.
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases.max(4_000), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_file_makes_the_reader_panic(sample in 0..11usize, mutations in prop::collection::vec(mutation(), 1..5)) {
        let mut file = samples()[sample].clone();
        for mutation in &mutations {
            mutate(&mut file, mutation);
        }
        let limits = Limits::default();
        match parse(&file, &limits) {
            Ok(message) => {
                prop_assert!(!message.payments.is_empty());
                for (_, verdict) in message.instructions() {
                    if let Ok(transfer) = verdict {
                        prop_assert!(transfer.amount.digits > 0 && transfer.amount.scale <= 5);
                    }
                }
            }
            Err(error) => prop_assert!(!error.to_reason().text.is_empty()),
        }
        if let Err(error) = parse_document(&file, &limits) {
            prop_assert!(!error.to_reason().text.is_empty());
        }
    }

    #[test]
    fn no_bytes_make_the_reader_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        prop_assert!(parse(&bytes, &Limits::default()).is_err());
    }
}
