//! Headers around what is written.

use tally_iso20022::{
    AppHeader, Limits, Party, Received, WriteError, parse_document, parse_status_report, with_header,
};

use crate::samples::{header, initiation, initiation_report, with_reply_header};

fn field(header: &AppHeader) -> String {
    match with_header(header, &initiation_report()) {
        Err(WriteError::Field { field, .. }) => field,
        other => panic!("{other:?}"),
    }
}

fn reply() -> AppHeader {
    header().reply("R".to_owned(), "pain.002.001.10".to_owned(), "2025-03-03T09:30:02Z".to_owned())
}

#[test]
fn an_answer_goes_back_with_the_header_that_it_answers() {
    let Received { header: read, .. } =
        parse_document(with_reply_header().as_bytes(), &Limits::default()).unwrap();
    let read = read.unwrap();
    assert_eq!((&read.from, &read.to), (&header().to, &None));
    assert_eq!(read.to_organisation, header().from_organisation);
    assert_eq!((&*read.business_message_id, &*read.definition), ("REPORT-1", "pain.002.001.10"));
    assert!(!read.possible_duplicate);
    let related = *read.related.unwrap();
    assert_eq!(related, AppHeader { created: "2025-03-02T23:30:00Z".to_owned(), ..header() });
}

#[test]
fn the_document_in_it_is_what_it_was() {
    let alone = parse_status_report(initiation_report().as_bytes(), &Limits::default()).unwrap();
    let inside = parse_status_report(with_reply_header().as_bytes(), &Limits::default()).unwrap();
    assert_eq!(alone, inside);
}

#[test]
fn what_was_received_with_a_header_is_answered_with_one() {
    let initiation_xml = include_str!("../../src/tests/initiation.xml");
    let document = &initiation_xml[initiation_xml.find("<Document").unwrap()..];
    let sent = with_header(&header(), document).unwrap();
    let received = initiation(&sent).header.unwrap();
    assert_eq!(received.from_organisation, header().from_organisation);
    assert!(received.possible_duplicate && received.related.is_none());
    let answer =
        received.reply("R".to_owned(), "pain.002.001.10".to_owned(), "2025-03-03T09:30:02Z".to_owned());
    assert!(with_header(&answer, &initiation_report()).is_ok());
}

#[test]
fn a_header_is_for_its_document() {
    assert_eq!(field(&AppHeader { definition: "pacs.002.001.10".to_owned(), ..reply() }), "Doc/Document");
    assert_eq!(field(&AppHeader { business_message_id: String::new(), ..reply() }), "Hdr/AppHdr/BizMsgIdr");
    assert_eq!(field(&AppHeader { created: "now".to_owned(), ..reply() }), "Hdr/AppHdr/CreDt");
    assert_eq!(field(&AppHeader { to_organisation: None, ..reply() }), "Hdr/AppHdr/To/FIId");
    let long = Party { name: Some("n".repeat(141)), ..Party::default() };
    assert_eq!(field(&AppHeader { to_organisation: Some(long), ..reply() }), "Hdr/AppHdr/To/OrgId/Nm");
}

#[test]
fn a_related_header_of_a_later_version_says_more() {
    let more = "<MktPrctc><Regy>r</Regy><Id>i</Id></MktPrctc><CreDt>2025-03-02T23:30:00Z</CreDt>\
                <BizPrcgDt>2025-03-03T00:00:00Z</BizPrcgDt>";
    let (start, related) = {
        let xml = with_reply_header();
        let at = xml.find("<Rltd>").unwrap();
        (xml[..at].to_owned(), xml[at..].to_owned())
    };
    let xml = start + &related.replacen("<CreDt>2025-03-02T23:30:00Z</CreDt>", more, 1);
    assert!(parse_document(xml.as_bytes(), &Limits::default()).is_err(), "not in version 02");
    let later = xml.replace("head.001.001.02", "head.001.001.03");
    let read = parse_document(later.as_bytes(), &Limits::default()).unwrap().header.unwrap();
    assert_eq!(read.related.map(|related| related.business_message_id).as_deref(), Some("MSG-1"));
}
