//! Any message is read by what its document's namespace says.

use tally_iso20022::{Document, Limits, Received, StatusReason, parse, parse_document};

fn read(xml: &str) -> Document {
    let Received { document, .. } = parse_document(xml.as_bytes(), &Limits::default()).unwrap();
    document
}

#[test]
fn every_kind_of_message_is_told_apart() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/written");
    let mut read_files = 0;
    for file in std::fs::read_dir(folder).unwrap() {
        let path = file.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        let document = read(&std::fs::read_to_string(&path).unwrap());
        let expected = match name.get(..8).unwrap() {
            "pacs.002" | "pain.002" | "head.001" => matches!(document, Document::StatusReport(_)),
            "pacs.004" => matches!(document, Document::Return(_)),
            "camt.029" => matches!(document, Document::Resolution(_)),
            "camt.053" => matches!(document, Document::Statement(_)),
            "camt.054" => matches!(document, Document::Notification(_)),
            "camt.056" => matches!(document, Document::CancellationRequest(_)),
            other => panic!("{other}"),
        };
        assert!(expected, "{name}: {document:?}");
        read_files += 1;
    }
    assert!(read_files > 10);
    let payments = include_str!("../../src/tests/initiation.xml");
    let Document::Payments(message) = read(payments) else { panic!("payments") };
    assert_eq!(*message, parse(payments.as_bytes(), &Limits::default()).unwrap());
}

#[test]
fn what_is_recognised_of_a_file_that_is_no_message_is_named() {
    let returned = include_str!("../data/written/pacs.004.001.09.xml");
    for (xml, definition, id) in [
        (returned.replace("<CreDtTm>2025", "<CreDtTm>20251"), "pacs.004.001.09", Some("RETURN-1")),
        (returned.replace("pacs.004.001.09", "pacs.003.001.08"), "pacs.003.001.08", Some("RETURN-1")),
        (returned.replace("pacs.004.001.09", "é"), "é", Some("RETURN-1")),
        (
            include_str!("../data/written/camt.056.001.08.xml").replace("<Undrlyg>", "<Under/><Undrlyg>"),
            "camt.056.001.08",
            Some("ASSIGN-1"),
        ),
    ] {
        let error = parse_document(xml.as_bytes(), &Limits::default()).unwrap_err();
        let original = error.original.as_ref().unwrap();
        assert_eq!((original.definition.as_deref(), original.message_id.as_deref()), (Some(definition), id));
        assert!(matches!(error.reason, StatusReason::FF01 | StatusReason::DT02), "{error}");
    }
    let none = parse_document(b"<a/>", &Limits::default()).unwrap_err();
    assert!(none.original.is_none());
}
