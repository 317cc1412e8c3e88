//! ISO 20022 messages: what is read from damaged files, and whether what is read can be written and read again.

use super::damage::damaged;
use super::small::Small;
use std::sync::OnceLock;
use tally_iso20022::{
    Document, Limits, Received, cancellation_request, notification, parse, parse_document, payment_return,
    resolution, statement, with_header,
};
use tally_sim::Rng;

/// Pieces that XML parsers stumble over.
const TAGS: &[&str] = &[
    "<!DOCTYPE a [<!ENTITY b \"c\">]>",
    "&b;",
    "&#x0;",
    "&#1114112;",
    "<![CDATA[",
    "]]>",
    "<!--",
    "-->",
    "<?xml version=\"1.0\" encoding=\"UTF-16\"?>",
    "<a xmlns=\"b\"",
    "</Document>",
    "<Document>",
    "\u{feff}",
    "<x:y>",
    " Ccy=\"EUR\"",
    "99999999999999999999.99",
    "-1",
    "1e9",
];

const LIMITS: Limits = Limits { bytes: 64 << 10, depth: 64, nodes: 10_000, payments: 50, attributes: 16 };

pub(super) fn payments(rng: &mut Rng, _: &Small) {
    static SAMPLES: OnceLock<Vec<Vec<u8>>> = OnceLock::new();
    let xml = damaged_file(
        rng,
        &SAMPLES,
        &[
            include_bytes!("../../../iso20022/tests/data/pain.001.001.03.sepa.xml"),
            include_bytes!("../../../iso20022/tests/data/pacs.008.001.07.xml"),
            include_bytes!("../../../iso20022/tests/data/pacs.009.001.07.xml"),
            include_bytes!("../../../../examples/03-batch.pain.001.xml"),
        ],
    );
    if let Ok(message) = parse(&xml, &LIMITS) {
        assert!(message.payments.len() <= LIMITS.payments, "a limit was not kept");
    }
}

pub(super) fn reports(rng: &mut Rng, _: &Small) {
    static SAMPLES: OnceLock<Vec<Vec<u8>>> = OnceLock::new();
    let xml = damaged_file(
        rng,
        &SAMPLES,
        &[
            include_bytes!("../../../iso20022/tests/data/written/pacs.002.001.10.xml"),
            include_bytes!("../../../iso20022/tests/data/written/pain.002.001.03.xml"),
            include_bytes!("../../../iso20022/tests/data/written/pain.002.001.10.xml"),
            include_bytes!("../../../iso20022/tests/data/written/head.001.001.02.xml"),
        ],
    );
    document(&xml);
}

pub(super) fn statements(rng: &mut Rng, _: &Small) {
    static SAMPLES: OnceLock<Vec<Vec<u8>>> = OnceLock::new();
    let xml = damaged_file(
        rng,
        &SAMPLES,
        &[
            include_bytes!("../../../iso20022/tests/data/written/camt.053.001.08.xml"),
            include_bytes!("../../../iso20022/tests/data/written/camt.054.001.08.xml"),
        ],
    );
    document(&xml);
}

pub(super) fn cancellations(rng: &mut Rng, _: &Small) {
    static SAMPLES: OnceLock<Vec<Vec<u8>>> = OnceLock::new();
    let xml = damaged_file(
        rng,
        &SAMPLES,
        &[
            include_bytes!("../../../iso20022/tests/data/written/camt.056.001.08.xml"),
            include_bytes!("../../../iso20022/tests/data/written/camt.056.001.08-group.xml"),
            include_bytes!("../../../iso20022/tests/data/written/camt.029.001.09.xml"),
            include_bytes!("../../../iso20022/tests/data/written/camt.029.001.09-group.xml"),
        ],
    );
    document(&xml);
}

pub(super) fn returns(rng: &mut Rng, _: &Small) {
    static SAMPLES: OnceLock<Vec<Vec<u8>>> = OnceLock::new();
    let xml = damaged_file(
        rng,
        &SAMPLES,
        &[include_bytes!("../../../iso20022/tests/data/written/pacs.004.001.09.xml")],
    );
    document(&xml);
}

/// One of the files, damaged: bytes, tags, or the order of its elements.
fn damaged_file(rng: &mut Rng, samples: &OnceLock<Vec<Vec<u8>>>, files: &[&[u8]]) -> Vec<u8> {
    let samples = samples.get_or_init(|| files.iter().map(|file| file.to_vec()).collect());
    if rng.chance(1, 2) {
        let mut xml = samples[rng.index(samples.len())].clone();
        for _ in 0..=rng.below(3) {
            move_elements(rng, &mut xml);
        }
        return xml;
    }
    let mut xml = damaged(rng, samples);
    if rng.chance(1, 3) && !xml.is_empty() {
        let at = rng.index(xml.len());
        let tag = TAGS[rng.index(TAGS.len())].bytes();
        let count = usize::try_from(rng.below(3)).expect("small") * rng.index(100) + 1;
        let many: Vec<u8> = std::iter::repeat_n(tag, count).flatten().collect();
        xml.splice(at..at, many);
    }
    xml
}

/// Takes a line that is a whole element out, or puts it in a second time elsewhere, or both; or puts the text
/// of one into another.
fn move_elements(rng: &mut Rng, xml: &mut Vec<u8>) {
    let text = String::from_utf8_lossy(xml).into_owned();
    let mut lines: Vec<&str> = text.lines().collect();
    let whole: Vec<usize> = (0..lines.len()).filter(|line| lines[*line].contains("</")).collect();
    if whole.is_empty() {
        return;
    }
    let (from, to) = (whole[rng.index(whole.len())], whole[rng.index(whole.len())]);
    let line = lines[from];
    let mixed = line.find('>').zip(line.find("</")).and_then(|(start, end)| {
        let (other, inner) = (lines[to], line.get(start + 1..end)?);
        let (open, close) = (other.find('>')?, other.find("</")?);
        Some(format!("{}{inner}{}", &other[..=open], &other[close..]))
    });
    match (rng.below(4), &mixed) {
        (0, _) => drop(lines.remove(from)),
        (1, _) => lines.insert(to, line),
        (2, Some(mixed)) => lines[to] = mixed,
        _ => {
            lines.remove(from);
            lines.insert(to.min(lines.len()), line);
        }
    }
    *xml = lines.join("\n").into_bytes();
}

/// What is read and written again is read as the same.
fn document(xml: &[u8]) {
    let Ok(Received { header, document }) = parse_document(xml, &LIMITS) else { return };
    let Some(written) = written(&document) else { return };
    let read = parse_document(written.as_bytes(), &LIMITS)
        .unwrap_or_else(|error| panic!("what was written is not read: {error}\n{written}"));
    assert!(
        self::written(&read.document).as_ref() == Some(&written),
        "read again, it is another:\n{written}"
    );
    if let Some(header) = header
        && let Ok(enveloped) = with_header(&header, &written)
    {
        let read = parse_document(enveloped.as_bytes(), &LIMITS).expect("what was written in an envelope");
        assert!(read.header.is_some_and(|read| read.business_message_id == header.business_message_id));
    }
}

/// The message written, if it can be.
fn written(document: &Document) -> Option<String> {
    match document {
        Document::Payments(message) => {
            assert!(message.payments.len() <= LIMITS.payments, "a limit was not kept");
            None
        }
        Document::Return(message) => payment_return(message).ok(),
        Document::CancellationRequest(request) => cancellation_request(request).ok(),
        Document::Resolution(answer) => resolution(answer).ok(),
        Document::Statement(message) => statement(message).ok(),
        Document::Notification(message) => notification(message).ok(),
        _ => None,
    }
}
