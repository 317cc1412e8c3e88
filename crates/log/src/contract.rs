//! What every log must do: one suite, run on the fake and on the real ones.

mod cluster;

pub use cluster::check_cluster;

use crate::{Health, Log, LogError, Offset, Record, Ticket, TopicId, Visibility};
use std::sync::Arc;

/// Runs the whole suite. `fresh` makes an empty log that has room for a few MiB, each time it is called.
///
/// # Panics
/// If the log breaks a promise.
pub fn check(fresh: &dyn Fn() -> Arc<dyn Log>) {
    starts_empty(&*fresh());
    counts_densely(&*fresh());
    reads_back_what_was_appended(&*fresh());
    stops_at_the_limit_of_bytes(&*fresh());
    refuses_what_is_out_of_range(&*fresh());
    shows_durable_records_only(&*fresh());
    keeps_what_is_not_released(&*fresh());
    refuses_what_is_too_large(&*fresh());
    takes_topics_from_several_threads(&fresh());
}

fn payload(topic: u16, offset: u64) -> Vec<u8> {
    let len = usize::try_from((offset * 37 + u64::from(topic) * 101) % 700).expect("small");
    (0..len).map(|index| (index as u64 ^ offset ^ u64::from(topic)).to_le_bytes()[0]).collect()
}

fn append(log: &dyn Log, topic: u16, offset: u64) -> Ticket {
    let payload = payload(topic, offset);
    let (left, right) = payload.split_at(payload.len() / 3);
    let appended = log.append(TopicId(topic), &[left, b"", right]).expect("there is room");
    assert_eq!(appended.offset, Offset(offset));
    appended.ticket
}

fn read_all(log: &dyn Log, topic: u16, from: u64, max_bytes: usize, visibility: Visibility) -> Vec<Record> {
    let mut out = Vec::new();
    let mut at = Offset(from);
    loop {
        let before = out.len();
        let next = log.read(TopicId(topic), at, max_bytes, visibility, &mut out).expect("it is in range");
        assert_eq!(next.0 - at.0, (out.len() - before) as u64, "the next offset does not fit the records");
        if next == at {
            return out;
        }
        at = next;
    }
}

fn assert_records(records: &[Record], topic: u16, from: u64, to: u64) {
    let offsets: Vec<u64> = records.iter().map(|record| record.offset.0).collect();
    assert_eq!(offsets, (from..to).collect::<Vec<_>>());
    for record in records {
        assert!(record.payload == payload(topic, record.offset.0), "{} has other bytes", record.offset);
    }
}

fn starts_empty(log: &dyn Log) {
    let topic = TopicId(9);
    assert_eq!((log.first(topic), log.next(topic), log.durable()), (Offset(0), Offset(0), Ticket(0)));
    assert!(read_all(log, 9, 0, 100, Visibility::Appended).is_empty());
    assert_eq!(log.sync().expect("nothing to do"), Ticket(0));
    assert_eq!(log.health(), Health::Ok);
    log.release(topic, Offset(0)).expect("nothing to release");
}

fn counts_densely(log: &dyn Log) {
    let mut ticket = 0;
    for offset in 0..50 {
        for topic in [0, 7, u16::MAX] {
            ticket += 1;
            assert_eq!(append(log, topic, offset), Ticket(ticket));
        }
        assert_eq!(log.next(TopicId(7)), Offset(offset + 1));
    }
    assert!(log.durable() <= Ticket(ticket));
    assert_eq!(log.sync().expect("it syncs"), Ticket(ticket));
    assert_eq!(log.durable(), Ticket(ticket));
}

fn reads_back_what_was_appended(log: &dyn Log) {
    for offset in 0..200 {
        append(log, 1, offset);
        append(log, 2, offset);
        if offset % 17 == 0 {
            log.sync().expect("it syncs");
        }
    }
    log.sync().expect("it syncs");
    for visibility in [Visibility::Appended, Visibility::Durable] {
        for topic in [1, 2] {
            for (from, max_bytes) in [(0, 0), (0, 1000), (0, usize::MAX), (63, 5000), (199, 1), (200, 1)] {
                let records = read_all(log, topic, from, max_bytes, visibility);
                assert_records(&records, topic, from, 200);
            }
        }
    }
}

fn stops_at_the_limit_of_bytes(log: &dyn Log) {
    for _ in 0..10 {
        log.append(TopicId(0), &[&[1; 100]]).expect("there is room");
    }
    log.sync().expect("it syncs");
    for (max_bytes, expected) in [(0, 1), (99, 1), (100, 1), (250, 2), (300, 3), (usize::MAX, 10)] {
        let mut out = Vec::new();
        log.read(TopicId(0), Offset(0), max_bytes, Visibility::Durable, &mut out).expect("it is in range");
        assert!((1..=expected).contains(&out.len()), "{} records for {max_bytes} bytes", out.len());
    }
}

fn refuses_what_is_out_of_range(log: &dyn Log) {
    append(log, 3, 0);
    let mut out = Vec::new();
    let read = log.read(TopicId(3), Offset(2), 100, Visibility::Appended, &mut out);
    assert!(matches!(read, Err(LogError::OutOfRange { next: Offset(1), .. })), "{read:?}");
    let release = log.release(TopicId(3), Offset(2));
    assert!(matches!(release, Err(LogError::OutOfRange { .. })), "{release:?}");
    let read = log.read(TopicId(4), Offset(1), 100, Visibility::Durable, &mut out);
    assert!(matches!(read, Err(LogError::OutOfRange { .. })), "{read:?}");
    assert!(out.is_empty());
}

fn shows_durable_records_only(log: &dyn Log) {
    for offset in 0..20 {
        let ticket = append(log, 5, offset);
        let durable = log.durable();
        let seen = read_all(log, 5, 0, 1 << 20, Visibility::Durable);
        assert!(seen.len() as u64 <= log.durable().0);
        if durable >= ticket {
            assert_records(&seen, 5, 0, offset + 1);
        }
        if offset == 10 {
            log.sync().expect("it syncs");
        }
    }
    log.sync().expect("it syncs");
    assert_records(&read_all(log, 5, 0, 1 << 20, Visibility::Durable), 5, 0, 20);
}

fn keeps_what_is_not_released(log: &dyn Log) {
    for offset in 0..300 {
        append(log, 1, offset);
        append(log, 2, offset);
    }
    log.sync().expect("it syncs");
    log.release(TopicId(1), Offset(250)).expect("it is in range");
    log.release(TopicId(2), Offset(100)).expect("it is in range");
    log.release(TopicId(2), Offset(50)).expect("it is in range");
    for (topic, released) in [(1, 250), (2, 100)] {
        let first = log.first(TopicId(topic)).0;
        assert!(first <= released, "{first} is gone, only {released} were released");
        assert_records(&read_all(log, topic, first, 4096, Visibility::Durable), topic, first, 300);
        if first > 0 {
            let mut out = Vec::new();
            let read = log.read(TopicId(topic), Offset(first - 1), 100, Visibility::Durable, &mut out);
            assert!(matches!(read, Err(LogError::OutOfRange { .. })), "{read:?}");
        }
        append(log, topic, 300);
        assert_records(&read_all(log, topic, 290, 4096, Visibility::Appended)[..10], topic, 290, 300);
    }
}

fn refuses_what_is_too_large(log: &dyn Log) {
    let half = vec![0; crate::MAX_RECORD_BYTES / 2 + 1];
    let appended = log.append(TopicId(0), &[&half, &half]);
    assert!(matches!(appended, Err(LogError::TooLarge { .. })), "{appended:?}");
    assert_eq!(log.next(TopicId(0)), Offset(0));
}

fn takes_topics_from_several_threads(log: &Arc<dyn Log>) {
    const RECORDS: u64 = 400;
    std::thread::scope(|scope| {
        for topic in 0..4 {
            scope.spawn(move || {
                for offset in 0..RECORDS {
                    let ticket = append(&**log, topic, offset);
                    if offset % 50 == 49 {
                        assert!(log.sync().expect("it syncs") >= ticket);
                    }
                }
            });
            scope.spawn(move || {
                let mut out = Vec::new();
                let mut at = Offset(0);
                while at.0 < RECORDS {
                    let visibility = if topic % 2 == 0 { Visibility::Durable } else { Visibility::Appended };
                    at = log.read(TopicId(topic), at, 3000, visibility, &mut out).expect("it is in range");
                    std::thread::yield_now();
                }
                assert_records(&out, topic, 0, RECORDS);
            });
        }
    });
    assert_eq!(log.durable(), Ticket(4 * RECORDS));
}
