mod behaviour;
mod crash;
mod damage;

use super::{FileLog, OpenReport, Options, Retain};
use crate::{Log, LogError, Offset, Record, Ticket, TopicId, Visibility};
use std::sync::Arc;
use tally_sim::SimDisk;

const JOURNAL: [u8; 16] = *b"a journal's name";

fn small(segment_bytes: u64) -> Options {
    Options { segment_bytes, tail_bytes: 2_000, journal: Some(JOURNAL), ..Options::default() }
}

fn open(disk: &SimDisk, options: Options) -> Result<(FileLog, OpenReport), LogError> {
    FileLog::open_on(Arc::new(disk.clone()), options)
}

/// The record of each ticket, a function of it. Now and then one is large, so that a segment ends early.
fn record(ticket: u64) -> (TopicId, Vec<u8>) {
    let topic = TopicId(u16::try_from(ticket % 3).unwrap());
    let len = usize::try_from((ticket * 29) % 90 + if ticket.is_multiple_of(11) { 600 } else { 0 }).unwrap();
    (topic, (0..len).map(|index| (ticket as usize * 7 + index) as u8).collect())
}

fn append(log: &FileLog, ticket: u64) {
    let (topic, payload) = record(ticket);
    let appended = log.append(topic, &[&payload]).unwrap();
    assert_eq!(appended.ticket, Ticket(ticket));
}

/// Verifies that the log's records are those of tickets 1 to `last`, by scan and by reads.
fn assert_holds(log: &FileLog, last: u64) {
    assert_eq!(log.durable(), Ticket(last));
    let scanned: Vec<_> = log.scan(Ticket(0)).collect::<Result<_, _>>().unwrap();
    assert_eq!(scanned.len() as u64, last);
    let mut next = [0_u64; 3];
    for (index, scanned) in scanned.iter().enumerate() {
        let (topic, payload) = record(index as u64 + 1);
        assert_eq!((scanned.ticket, scanned.topic), (Ticket(index as u64 + 1), topic));
        assert_eq!(scanned.record.payload, payload);
        assert_eq!(scanned.record.offset, Offset(next[usize::from(topic.0)]));
        next[usize::from(topic.0)] += 1;
    }
    for (topic, &next) in (0_u16..).zip(&next) {
        let topic = TopicId(topic);
        assert_eq!(log.next(topic), Offset(next));
        let expected: Vec<&Record> =
            scanned.iter().filter(|scanned| scanned.topic == topic).map(|scanned| &scanned.record).collect();
        let read = read_all(log, topic, Offset(0)).unwrap();
        assert_eq!(read.iter().collect::<Vec<_>>(), expected);
    }
}

fn read_all(log: &FileLog, topic: TopicId, mut at: Offset) -> Result<Vec<Record>, LogError> {
    let mut out = Vec::new();
    loop {
        let next = log.read(topic, at, 500, Visibility::Durable, &mut out)?;
        if next == at {
            return Ok(out);
        }
        at = next;
    }
}

fn segments(disk: &SimDisk) -> Vec<String> {
    disk.list().unwrap().into_iter().filter(|name| name.ends_with(".tlog")).collect()
}
