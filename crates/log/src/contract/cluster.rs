//! What every cluster must do: one suite, run on memory and on real brokers.

use super::{payload, read_all};
use crate::cluster::{Binding, Cluster, Members, Partition, SharedLog};
use crate::{Health, Log, LogError, Offset, Record, Ticket, TopicId, Visibility};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long a cluster may take to do what it promises.
const LIMIT: Duration = Duration::from_secs(60);

/// Runs the whole suite. `fresh` makes a cluster with two empty topics, `a` with one partition and `b` with four, each time
/// it is called, and gives it with what the topics are called.
///
/// # Panics
/// If the cluster breaks a promise.
pub fn check_cluster(fresh: &dyn Fn() -> (Arc<dyn Cluster>, [String; 2])) {
    for part in [
        shows_a_sync_whole_or_not_at_all,
        shows_nothing_that_was_not_synced,
        fences_the_earlier_of_a_name,
        fences_at_the_opening_alone,
        lets_names_write_side_by_side,
        counts_densely_for_every_reader,
        goes_on_where_the_last_writer_stopped,
        tells_others_what_is_left,
        refuses_what_is_not_there,
        wakes_a_waiting_reader,
        shares_partitions_among_members,
    ] {
        let (cluster, [a, b]) = fresh();
        part(&Topics { cluster, a, b });
    }
}

struct Topics {
    cluster: Arc<dyn Cluster>,
    a: String,
    b: String,
}

/// `a`'s partition is topic 0, those of `b` are 1 to 4.
fn id(partition: &Partition, topics: &Topics) -> TopicId {
    if partition.topic == topics.a { TopicId(0) } else { TopicId(partition.number + 1) }
}

impl Topics {
    fn partitions(&self) -> Vec<Partition> {
        let b = (0..4).map(|number| Partition::new(self.b.clone(), number));
        std::iter::once(Partition::new(self.a.clone(), 0)).chain(b).collect()
    }

    /// Every partition, of which those with these ids are written.
    fn bindings(&self, written: &[u16]) -> Vec<Binding> {
        let bind = |partition: Partition| {
            let id = id(&partition, self);
            Binding { id, partition, writes: written.contains(&id.0) }
        };
        self.partitions().into_iter().map(bind).collect()
    }

    fn open(&self, writer: &str, written: &[u16]) -> Arc<dyn SharedLog> {
        self.cluster.open(writer, &self.bindings(written)).expect("it opens")
    }

    fn reader(&self) -> Arc<dyn SharedLog> {
        self.cluster.reader(&self.bindings(&[])).expect("it opens")
    }
}

fn append(log: &dyn SharedLog, topic: u16, offset: u64) -> Ticket {
    let appended = log.append(TopicId(topic), &[&payload(topic, offset)]).expect("there is room");
    assert_eq!(appended.offset, Offset(offset));
    appended.ticket
}

/// Reads from `from` until record `to` is there.
fn read_until(log: &dyn SharedLog, topic: u16, from: u64, to: u64) -> Vec<Record> {
    let (mut at, mut out, deadline) = (Offset(from), Vec::new(), Instant::now() + LIMIT);
    while at.0 < to {
        let next =
            log.read(TopicId(topic), at, 1 << 16, Visibility::Durable, &mut out).expect("it is in range");
        if next == at {
            assert!(Instant::now() < deadline, "record {at} of topic {topic} did not come");
            log.wait(Duration::from_millis(100));
        }
        at = next;
    }
    out
}

fn assert_records(records: &[Record], topic: u16, from: u64, to: u64) {
    assert_eq!(
        records.iter().map(|record| record.offset.0).collect::<Vec<_>>(),
        (from..to).collect::<Vec<_>>()
    );
    for record in records {
        assert!(
            record.payload == payload(topic, record.offset.0),
            "{} of topic {topic} has other bytes",
            record.offset
        );
    }
}

/// Asks until the end of a partition is `next`: a commit is known to its writer a moment before it is to everybody.
fn assert_next(log: &dyn SharedLog, topic: u16, next: u64) {
    let deadline = Instant::now() + LIMIT;
    while log.next(TopicId(topic)) != Offset(next) {
        let is = log.next(TopicId(topic));
        assert!(is.0 <= next && Instant::now() < deadline, "the end of topic {topic} is {is}, not {next}");
        std::thread::yield_now();
    }
}

fn shows_a_sync_whole_or_not_at_all(topics: &Topics) {
    let (log, reader) = (topics.open("writer", &[0, 1, 2]), topics.reader());
    for round in 0..5 {
        for topic in 0..3 {
            for offset in 20 * round..20 * (round + 1) {
                append(&*log, topic, offset);
            }
            for topic in 0..3 {
                // Nothing of the round is to be seen, by this process or by others.
                assert_next(&*reader, topic, 20 * round);
            }
        }
        log.sync().expect("it syncs");
        for topic in 0..3 {
            assert_next(&*reader, topic, 20 * (round + 1));
            let (from, to) = (20 * round, 20 * (round + 1));
            assert_records(&read_until(&*reader, topic, from, to), topic, from, to);
            assert_records(&read_until(&*log, topic, 0, to), topic, 0, to);
        }
    }
}

fn shows_nothing_that_was_not_synced(topics: &Topics) {
    let reader = topics.reader();
    let log = topics.open("writer", &[0, 3]);
    append(&*log, 0, 0);
    log.sync().expect("it syncs");
    for offset in 1..50 {
        append(&*log, 0, offset);
        append(&*log, 3, offset - 1);
    }
    drop(log);
    let log = topics.open("writer", &[0, 3]);
    assert_eq!((log.next(TopicId(0)), log.next(TopicId(3))), (Offset(1), Offset(0)));
    append(&*log, 0, 1);
    append(&*log, 3, 0);
    log.sync().expect("it syncs");
    for (topic, to) in [(0, 2), (3, 1)] {
        assert_records(&read_until(&*reader, topic, 0, to), topic, 0, to);
        assert_next(&*reader, topic, to);
        assert!(read_all(&*reader, topic, to, 100, Visibility::Appended).is_empty());
    }
}

fn assert_fenced(result: Result<impl std::fmt::Debug, LogError>) {
    assert!(matches!(result, Err(LogError::Fenced { .. })), "{result:?}");
}

fn fences_the_earlier_of_a_name(topics: &Topics) {
    let first = topics.open("writer", &[0, 1]);
    append(&*first, 0, 0);
    first.sync().expect("it syncs");
    append(&*first, 0, 1);
    append(&*first, 1, 0);
    let second = topics.open("writer", &[0, 1]);
    assert_eq!((second.next(TopicId(0)), second.next(TopicId(1))), (Offset(1), Offset(0)));
    // Whether the one that was overtaken appends more or not, it never syncs again.
    assert_fenced(first.sync());
    assert_fenced(first.sync());
    assert_fenced(first.append(TopicId(0), &[b"late"]));
    assert!(matches!(first.health(), Health::Failed { .. }));
    assert_eq!(first.durable(), Ticket(1));
    append(&*second, 0, 1);
    second.sync().expect("it syncs");
    let third = topics.open("writer", &[0, 1]);
    append(&*third, 0, 2);
    third.sync().expect("it syncs");
    append(&*third, 0, 3);
    let late = second.append(TopicId(0), &[b"late"]);
    assert!(late.is_ok() || matches!(late, Err(LogError::Fenced { .. })), "{late:?}");
    if late.is_ok() {
        assert_fenced(second.sync());
    }
    third.sync().expect("it syncs");
    let reader = topics.reader();
    assert_records(&read_until(&*reader, 0, 0, 4), 0, 0, 4);
    assert_next(&*reader, 0, 4);
    assert_next(&*reader, 1, 0);
}

fn fences_at_the_opening_alone(topics: &Topics) {
    // The one that comes later need not write for the earlier to be fenced.
    let first = topics.open("writer", &[0]);
    let second = topics.open("writer", &[0]);
    if first.append(TopicId(0), &[b"late"]).is_ok() {
        assert_fenced(first.sync());
    }
    assert_fenced(first.append(TopicId(0), &[b"later"]));
    append(&*second, 0, 0);
    second.sync().expect("it syncs");
    assert_records(&read_until(&*topics.reader(), 0, 0, 1), 0, 0, 1);
}

fn lets_names_write_side_by_side(topics: &Topics) {
    const RECORDS: u64 = 60;
    std::thread::scope(|scope| {
        for topic in 1..5 {
            scope.spawn(move || {
                let log = topics.open(&format!("writer-{topic}"), &[topic]);
                for offset in 0..RECORDS {
                    append(&*log, topic, offset);
                    if offset % 7 == 0 {
                        log.sync().expect("it syncs");
                    }
                }
                log.sync().expect("it syncs");
            });
        }
        let reader = topics.reader();
        for topic in 1..5 {
            assert_records(&read_until(&*reader, topic, 0, RECORDS), topic, 0, RECORDS);
        }
    });
}

fn counts_densely_for_every_reader(topics: &Topics) {
    let log = topics.open("writer", &[0]);
    for offset in 0..60 {
        append(&*log, 0, offset);
        if offset % 3 == 0 {
            log.sync().expect("it syncs");
        }
        if offset % 20 == 10 {
            // An opening in between leaves no gap either.
            log.sync().expect("it syncs");
            drop(topics.open("other", &[1]));
        }
    }
    log.sync().expect("it syncs");
    let reader = topics.reader();
    for from in [0, 59, 30, 31, 1, 60, 17] {
        assert_records(&read_until(&*reader, 0, from, 60), 0, from, 60);
        assert_eq!(reader.first(TopicId(0)), Offset(0));
    }
    let mut out = Vec::new();
    let read = reader.read(TopicId(0), Offset(61), 100, Visibility::Durable, &mut out);
    assert!(matches!(read, Err(LogError::OutOfRange { next: Offset(60), .. })), "{read:?}");
}

fn goes_on_where_the_last_writer_stopped(topics: &Topics) {
    for round in 0..4 {
        let log = topics.open("writer", &[0, 2]);
        assert_eq!((log.next(TopicId(0)), log.durable()), (Offset(10 * round), Ticket(0)));
        assert_records(&read_until(&*log, 0, 0, 10 * round), 0, 0, 10 * round);
        for offset in 10 * round..10 * (round + 1) {
            append(&*log, 0, offset);
            if offset % 4 == 0 {
                log.sync().expect("it syncs");
            }
        }
        log.sync().expect("it syncs");
        append(&*log, 0, 10 * (round + 1));
    }
    assert_next(&*topics.reader(), 0, 40);
}

fn tells_others_what_is_left(topics: &Topics) {
    let log = topics.open("writer", &[0]);
    for offset in 0..50 {
        append(&*log, 0, offset);
        if offset % 10 == 9 {
            log.sync().expect("it syncs");
        }
    }
    let reader = topics.reader();
    assert_records(&read_until(&*reader, 0, 0, 50), 0, 0, 50);
    // Who reads may release what it has read.
    let release = reader.release(TopicId(0), Offset(51));
    assert!(matches!(release, Err(LogError::OutOfRange { .. })), "{release:?}");
    reader.release(TopicId(0), Offset(25)).expect("it is in range");
    let other = topics.reader();
    let first = other.first(TopicId(0)).0;
    assert!(first <= 25, "{first} is gone, only 25 were released");
    assert_records(&read_until(&*other, 0, first, 50), 0, first, 50);
    other.release(TopicId(0), Offset(50)).expect("it is in range");
    let log = topics.open("writer", &[0]);
    assert_eq!(log.next(TopicId(0)), Offset(50), "a release of everything does not forget the count");
    append(&*log, 0, 50);
    log.sync().expect("it syncs");
    assert_records(&read_until(&*other, 0, 50, 51), 0, 50, 51);
    let first = other.first(TopicId(0)).0;
    if first > 0 {
        let mut out = Vec::new();
        let read = other.read(TopicId(0), Offset(first - 1), 100, Visibility::Durable, &mut out);
        assert!(matches!(read, Err(LogError::OutOfRange { .. })), "{read:?}");
    }
}

fn refuses_what_is_not_there(topics: &Topics) {
    let binding = |topic: &str, number| {
        [Binding { id: TopicId(0), partition: Partition::new(topic, number), writes: true }]
    };
    for wrong in [binding(&topics.a, 1), binding("no-such-topic", 0)] {
        let opened = topics.cluster.open("writer", &wrong).map(|_| ());
        assert!(matches!(opened, Err(LogError::Topic { .. })), "{opened:?}");
    }
    let reading = topics.cluster.reader(&binding(&topics.a, 0)).map(|_| ());
    assert!(matches!(reading, Err(LogError::ReadOnly)), "{reading:?}");
    let reader = topics.reader();
    assert!(matches!(reader.append(TopicId(0), &[b"x"]), Err(LogError::ReadOnly)));
    let log = topics.open("writer", &[0]);
    let (unwritten, unknown) = (log.append(TopicId(1), &[b"x"]), log.append(TopicId(99), &[b"x"]));
    assert!(matches!(unwritten, Err(LogError::Topic { .. })), "{unwritten:?}");
    assert!(matches!(unknown, Err(LogError::Topic { .. })), "{unknown:?}");
    assert!(log.foreign().is_empty());
}

fn wakes_a_waiting_reader(topics: &Topics) {
    let (log, reader) = (topics.open("writer", &[0]), topics.reader());
    assert!(read_all(&*reader, 0, 0, 100, Visibility::Durable).is_empty());
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| read_until(&*reader, 0, 0, 1));
        append(&*log, 0, 0);
        log.sync().expect("it syncs");
        assert_records(&waiting.join().expect("it reads"), 0, 0, 1);
    });
    // Nothing more comes: the wait ends all the same.
    reader.wait(Duration::from_millis(1));
    reader.wait(Duration::from_millis(1));
}

/// Polls all members until they share the four partitions of `b`, none twice and none without one.
fn settle(members: &mut [(Box<dyn Members>, Vec<Partition>)], topics: &Topics) {
    let deadline = Instant::now() + LIMIT;
    let all: BTreeSet<_> = topics.partitions().split_off(1).into_iter().collect();
    loop {
        for (member, owned) in &mut *members {
            if let Some(now) = member.poll(Duration::from_millis(20)).expect("it takes part") {
                *owned = now;
            }
        }
        let owned: Vec<_> = members.iter().flat_map(|(_, owned)| owned.clone()).collect();
        let shared = members.iter().all(|(_, owned)| !owned.is_empty());
        if shared && owned.len() == all.len() && owned.iter().cloned().collect::<BTreeSet<_>>() == all {
            return;
        }
        assert!(Instant::now() < deadline, "the members share {owned:?}");
    }
}

fn shares_partitions_among_members(topics: &Topics) {
    let group = format!("group-of-{}", topics.b);
    let join =
        || (topics.cluster.join(&group, std::slice::from_ref(&topics.b)).expect("it joins"), Vec::new());
    let mut members = vec![join()];
    settle(&mut members, topics);
    members.push(join());
    settle(&mut members, topics);
    members.push(join());
    settle(&mut members, topics);
    members.remove(0);
    settle(&mut members, topics);
    members.remove(1);
    settle(&mut members, topics);
    // Nothing changes by itself.
    assert_eq!(members[0].0.poll(Duration::from_millis(1)).expect("it takes part"), None);
}
