//! Every byte of a journal is flipped and every length cut: either the damage is named, or what is read
//! is a prefix of what was written.

use super::*;
use tally_sim::Rng;

/// A journal of some segments, all marked durable, and one where the last syncs are without proof.
fn journals() -> Vec<(SimDisk, u64, u64)> {
    [(1024, 25, true), (1024, 25, false), (1 << 12, 30, true), (1 << 12, 30, false)]
        .map(|(segment_bytes, records, marked)| {
            let disk = SimDisk::new(0);
            let (log, _) = open(&disk, small(segment_bytes)).unwrap();
            for ticket in 1..=records {
                append(&log, ticket);
                if ticket % 7 == 0 {
                    log.sync().unwrap();
                }
            }
            log.sync().unwrap();
            if marked {
                log.mark_durable().unwrap();
            }
            drop(log);
            (disk, segment_bytes, records)
        })
        .into()
}

#[derive(Debug, Default)]
struct Outcomes {
    corrupt: u32,
    shorter: u32,
    unharmed: u32,
}

/// Opens and reads everything. `lost_before` is the last ticket that may be missing with impunity.
fn examine(disk: &SimDisk, records: u64, segment_bytes: u64, damaged: &str, outcomes: &mut Outcomes) {
    let read_only = FileLog::open_read_only_on(Arc::new(disk.clone())).map(|(log, report)| {
        let scanned: Result<Vec<_>, _> = log.scan(Ticket(0)).collect();
        (report, scanned)
    });
    let (log, report) = match open(disk, small(segment_bytes)) {
        Ok(opened) => opened,
        Err(error) => {
            assert_names(&error, damaged);
            assert_names(&read_only.expect_err("both ways of opening agree"), damaged);
            outcomes.corrupt += 1;
            return;
        }
    };
    let (read_only_report, read_only_scan) = read_only.expect("both ways of opening agree");
    assert_eq!(read_only_report.truncated, report.truncated);
    let mut read = 0;
    let mut error = None;
    for scanned in log.scan(Ticket(0)) {
        match scanned {
            Ok(scanned) => {
                read += 1;
                let (topic, payload) = record(read);
                assert_eq!((scanned.ticket, scanned.topic), (Ticket(read), topic));
                assert_eq!(scanned.record.payload, payload, "wrong data was read");
            }
            Err(found) => error = Some(found),
        }
    }
    assert_eq!(read_only_scan.is_err(), error.is_some());
    for topic in 0..3 {
        match read_all(&log, TopicId(topic), Offset(0)) {
            Ok(found) => {
                let expected: Vec<Vec<u8>> = (1..=report.last.0)
                    .map(record)
                    .filter(|(of, _)| of.0 == topic)
                    .map(|(_, payload)| payload)
                    .collect();
                assert!(found.iter().map(|record| &record.payload[..]).eq(expected.iter().map(|p| &p[..])));
            }
            Err(found) => assert_names(&found, damaged),
        }
    }
    if let Some(error) = error {
        assert_names(&error, damaged);
        outcomes.corrupt += 1;
    } else if read < records {
        assert!(report.truncated.is_some() || report.last.0 == read);
        outcomes.shorter += 1;
    } else {
        outcomes.unharmed += 1;
    }
}

fn assert_names(error: &LogError, damaged: &str) {
    match error {
        LogError::Corrupt { segment, .. } => {
            // That a segment is cut short can show in the next one only.
            assert!(segment == damaged, "{error} but the damage is in {damaged}");
        }
        other => panic!("{other}"),
    }
}

#[test]
fn every_flipped_byte_is_found() {
    for (disk, segment_bytes, records) in journals() {
        let before = disk.snapshot();
        let mut outcomes = Outcomes::default();
        for name in segments(&disk) {
            for byte in 0..disk.content(&name).unwrap().len() as u64 {
                disk.restore(&before);
                assert!(disk.flip_bit(&name, byte * 8 + byte % 8));
                examine(&disk, records, segment_bytes, &name, &mut outcomes);
            }
        }
        assert!(outcomes.corrupt > 500, "{outcomes:?}");
    }
}

#[test]
fn durable_records_with_proof_are_never_truncated() {
    let (disk, segment_bytes, records) = journals().remove(2);
    assert_eq!(segments(&disk).len(), 1);
    let before = disk.snapshot();
    let name = &segments(&disk)[0];
    let content = disk.content(name).unwrap();
    let end = content.iter().rposition(|&byte| byte != 0).unwrap() as u64;
    // The mark is last; whatever is damaged before it was durable, and the mark says so.
    let mark = end + 1 - super::super::format::ITEM_HEADER_BYTES as u64 + 2;
    for byte in 0..mark - 8 {
        disk.restore(&before);
        disk.flip_bit(name, byte * 8);
        let opened = open(&disk, small(segment_bytes));
        assert!(matches!(opened, Err(LogError::Corrupt { .. })), "byte {byte} of {records} records");
    }
}

#[test]
fn every_length_is_found_or_harmless() {
    for (disk, segment_bytes, records) in journals() {
        let before = disk.snapshot();
        let mut outcomes = Outcomes::default();
        for name in segments(&disk) {
            let content = disk.content(&name).unwrap();
            for len in 0..content.len() {
                disk.restore(&before);
                disk.overwrite(&name, content[..len].to_vec());
                examine(&disk, records, segment_bytes, &name, &mut outcomes);
            }
        }
        assert!(outcomes.corrupt > 50 && outcomes.shorter > 300, "{outcomes:?}");
    }
}

#[test]
fn a_copy_of_a_record_inside_a_payload_is_not_a_record() {
    let disk = SimDisk::new(0);
    let (log, _) = open(&disk, small(1 << 14)).unwrap();
    append(&log, 1);
    log.sync().unwrap();
    let name = &segments(&disk)[0];
    // A mark that says that everything is durable, at another position than the one it was written for.
    let mark = super::super::format::Item {
        kind: super::super::format::Kind::Mark,
        topic: 0,
        length: 0,
        payload_crc: 0,
        ticket: 1 << 40,
        offset: 0,
        durable: 1 << 40,
    };
    let binding = super::super::format::Binding::new(JOURNAL, 1);
    let start = disk.content(name).unwrap().iter().rposition(|&byte| byte != 0).unwrap() as u64;
    log.append(TopicId(0), &[&mark.encode(binding, 60)]).unwrap();
    log.sync().unwrap();
    drop(log);
    let before = disk.snapshot();
    for byte in start + 2..start + 40 {
        disk.restore(&before);
        assert!(disk.flip_bit(name, byte * 8));
        let (_, report) = open(&disk, small(1 << 14)).unwrap();
        assert_eq!(report.last, Ticket(1));
        assert!(report.truncated.is_some_and(|truncated| truncated.records == 0));
    }
}

#[test]
fn a_missing_segment_is_found() {
    let (disk, segment_bytes, _) = journals().remove(0);
    let names = segments(&disk);
    assert!(names.len() > 2);
    disk.remove(&names[1]).unwrap();
    match open(&disk, small(segment_bytes)) {
        Err(LogError::Corrupt { segment, .. }) => assert_eq!(segment, names[1]),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_newer_format_is_refused_by_its_version() {
    let (disk, segment_bytes, _) = journals().remove(2);
    let name = &segments(&disk)[0];
    let mut content = disk.content(name).unwrap();
    content[8] = 2;
    let crc = crc32c::crc32c(&content[..12]);
    content[12..16].copy_from_slice(&crc.to_le_bytes());
    disk.overwrite(name, content);
    let opened = open(&disk, small(segment_bytes));
    assert!(matches!(opened, Err(LogError::Version { found: 2, supported: 1, .. })), "{opened:?}");
}

#[test]
fn random_bytes_never_panic() {
    let mut rng = Rng::new(1);
    let (good, segment_bytes, _) = journals().remove(0);
    let before = good.snapshot();
    let names = segments(&good);
    for _ in 0..3_000 {
        good.restore(&before);
        let name = &names[rng.index(names.len())];
        let mut content = good.content(name).unwrap();
        if rng.chance(1, 4) {
            content = vec![0; rng.index(3000)];
            rng.fill(&mut content);
        } else {
            for _ in 0..rng.between(1, 4) {
                let from = rng.index(content.len());
                let to = content.len().min(from + 1 + rng.index(200));
                rng.fill(&mut content[from..to]);
            }
        }
        good.overwrite(name, content);
        examine(&good, 25, segment_bytes, name, &mut Outcomes::default());
    }
}

/// Structures with good checksums and absurd content: what a program, not a disk, can do wrong.
#[test]
fn absurd_structures_with_good_checksums_never_panic() {
    use super::super::format::*;
    use super::super::index::{SegmentIndex, TopicIndex};
    let mut rng = Rng::new(2);
    for _ in 0..20_000 {
        let disk = SimDisk::new(0);
        let mut number = || match rng.below(6) {
            0 => 0,
            1 => 1,
            2 => u64::MAX,
            3 => (1 << 62) - 1,
            4 => rng.below(300),
            _ => rng.next_u64(),
        };
        let header = SegmentHeader {
            journal: JOURNAL,
            number: 1,
            start_ticket: number() % 3,
            next_offsets: [(0, number() % (1 << 62))].into(),
        };
        let mut bytes = header.encode();
        let binding = Binding::new(JOURNAL, 1);
        for _ in 0..number() % 4 {
            let position = bytes.len() as u64;
            let kind = [Kind::Record, Kind::Mark, Kind::Footer][(number() % 3) as usize];
            let index = SegmentIndex {
                start_ticket: number(),
                end_ticket: number(),
                topics: [(
                    0,
                    TopicIndex { first: number(), count: number(), sparse: vec![(number(), number())] },
                )]
                .into(),
            };
            let payload = if kind == Kind::Footer { encode_footer(&index, position) } else { vec![1; 10] };
            let item = Item {
                kind,
                topic: (number() % 2) as u16,
                length: if number() % 5 == 0 { number() as u32 } else { payload.len() as u32 },
                payload_crc: crc32c::crc32c(&payload),
                ticket: number(),
                offset: number(),
                durable: number(),
            };
            bytes.extend_from_slice(&item.encode(binding, position));
            bytes.extend_from_slice(&payload);
        }
        disk.overwrite(&super::super::segment_name(1), bytes.clone());
        if number() % 2 == 0 {
            disk.overwrite(&super::super::segment_name(2), bytes);
        }
        if let Ok((log, _)) = open(&disk, small(1024)) {
            log.scan(Ticket(0)).for_each(drop);
            for topic in 0..2 {
                let topic = TopicId(topic);
                let _ = log.read(topic, log.first(topic), 100, Visibility::Durable, &mut Vec::new());
            }
        }
    }
}
