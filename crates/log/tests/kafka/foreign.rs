//! Records that should not be there, records that are too large, topics that are not as planned.

use super::shared::{bind, cluster, fresh, options, topic};
use rdkafka::ClientConfig;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tally_log::cluster::{Cluster, SharedLog};
use tally_log::kafka::topics::TopicPlan;
use tally_log::kafka::{KafkaCluster, KafkaOptions};
use tally_log::{Health, Log, LogError, Offset, Record, TopicId, Visibility};

const TOPIC: TopicId = TopicId(0);

/// Puts a record into a topic as some other program would.
fn intrude(topic: &str, key: Option<&[u8]>, payload: &[u8]) {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", options().brokers.join(","));
    let producer: BaseProducer = config.create().unwrap();
    let record = BaseRecord::to(topic).partition(0).payload(payload);
    let record = match key {
        Some(key) => record.key(key),
        None => record,
    };
    producer.send(record).map_err(|(error, _)| error).unwrap();
    producer.flush(Duration::from_secs(60)).unwrap();
}

fn key(version: u8, offset: u64) -> Vec<u8> {
    [b"TLY", &[version][..], &offset.to_be_bytes()].concat()
}

fn write(cluster: &KafkaCluster, topic: &str, offsets: std::ops::Range<u64>) {
    let log = cluster.open_kafka(topic, &[bind(0, topic, 0, true)]).unwrap();
    for offset in offsets {
        let appended = log.append(TOPIC, &[&offset.to_le_bytes()]).unwrap();
        assert_eq!(appended.offset, Offset(offset));
    }
    log.sync().unwrap();
}

fn read(log: &dyn SharedLog, from: u64, to: u64) -> Result<Vec<Record>, LogError> {
    let (mut at, mut out) = (Offset(from), Vec::new());
    for _ in 0..600 {
        if at.0 == to {
            break;
        }
        let next = log.read(TOPIC, at, 1 << 20, Visibility::Durable, &mut out)?;
        if next == at {
            log.wait(Duration::from_millis(100));
        }
        at = next;
    }
    assert_eq!(out.len() as u64, to - from);
    for (record, offset) in out.iter().zip(from..) {
        assert!(record.offset == Offset(offset) && record.payload == offset.to_le_bytes()[..]);
    }
    Ok(out)
}

#[test]
fn foreign_records_are_set_aside_and_stop_nobody() {
    let cluster = cluster();
    let topic = topic(&cluster, 1);
    intrude(&topic, None, b"first of all");
    write(&cluster, &topic, 0..5);
    intrude(&topic, Some(b"key"), b"hello");
    intrude(&topic, Some(b"TLY"), &[7; 10_000]);
    write(&cluster, &topic, 5..8);
    intrude(&topic, Some(&key(1, 8)[..9]), b"cut off");

    let reader = cluster.reader(&[bind(0, &topic, 0, false)]).unwrap();
    assert_eq!((reader.first(TOPIC), reader.next(TOPIC)), (Offset(0), Offset(8)));
    read(&*reader, 0, 8).unwrap();
    write(&cluster, &topic, 8..10);
    read(&*reader, 8, 10).unwrap();
    let found = reader.foreign();
    let payloads: Vec<_> =
        found.iter().map(|foreign| &foreign.payload[..foreign.payload.len().min(12)]).collect();
    assert_eq!(payloads, [&b"first of all"[..], b"hello", &[7; 12], b"cut off"]);
    assert!(found.iter().all(|foreign| foreign.partition.topic == topic && foreign.payload.len() <= 4096));
    // One for each commit and each record before it.
    assert_eq!(found.iter().map(|foreign| foreign.position).collect::<Vec<_>>(), [0, 7, 8, 13]);
    assert!(reader.foreign().is_empty(), "they are told once");
    read(&*reader, 3, 10).unwrap();
}

#[test]
fn a_record_that_could_change_a_decision_stops_its_partition() {
    let cluster = cluster();
    let newer = topic(&cluster, 2);
    write(&cluster, &newer, 0..3);
    intrude(&newer, Some(&key(2, 3)), b"from the future");
    let reader = cluster.reader(&[bind(0, &newer, 0, false), bind(1, &newer, 1, false)]).unwrap();
    for _ in 0..2 {
        read(&*reader, 0, 3).unwrap();
        for _ in 0..2 {
            let error = loop {
                match reader.read(TOPIC, Offset(3), 100, Visibility::Durable, &mut Vec::new()) {
                    Ok(_) => reader.wait(Duration::from_millis(100)),
                    Err(error) => break error,
                }
            };
            assert!(matches!(error, LogError::Version { found: 2, supported: 1, .. }), "{error}");
            assert!(error.to_string().contains(&format!("{newer}-0 at Kafka offset 4")), "{error}");
        }
    }
    // Nobody goes on writing behind it; other partitions go on.
    let opened = cluster.open("writer", &[bind(0, &newer, 0, true)]).map(|_| ());
    assert!(matches!(opened, Err(LogError::Version { .. })), "{opened:?}");
    let log = cluster.open_kafka("writer", &[bind(1, &newer, 1, true)]).unwrap();
    log.append(TopicId(1), &[b"x"]).unwrap();
    log.sync().unwrap();

    for wrong in [0, 2, 4, u64::MAX] {
        let topic = topic(&cluster, 1);
        write(&cluster, &topic, 0..3);
        intrude(&topic, Some(&key(1, wrong)), b"not the next");
        let reader = cluster.reader(&[bind(0, &topic, 0, false)]).unwrap();
        // The first read of a log is told by the end of the partition, so that it may fail itself.
        let error = loop {
            match read(&*reader, 0, 3)
                .and_then(|_| reader.read(TOPIC, Offset(3), 100, Visibility::Durable, &mut Vec::new()))
            {
                Ok(_) => reader.wait(Duration::from_millis(100)),
                Err(error) => break error,
            }
        };
        let LogError::Unreadable { partition, position: 4, what } = &error else { panic!("{error}") };
        assert!(*partition == format!("{topic}-0") && what.contains(&wrong.to_string()), "{error}");
    }
}

#[test]
fn a_record_larger_than_its_topic_allows_ends_the_log_and_nothing_else() {
    let cluster = cluster();
    let plan = TopicPlan { max_record_bytes: 10_000, ..TopicPlan::new(fresh("topic"), 1) };
    cluster.create_topics(std::slice::from_ref(&plan)).unwrap();
    write(&cluster, &plan.name, 0..3);
    let log = cluster.open_kafka(&plan.name, &[bind(0, &plan.name, 0, true)]).unwrap();
    log.append(TOPIC, &[b"lost with it"]).unwrap();
    log.append(TOPIC, &[&[1; 100_000]]).unwrap();
    let error = log.sync().unwrap_err();
    assert!(matches!(&error, LogError::Failed { reason } if reason.contains("large")), "{error}");
    assert!(matches!(log.append(TOPIC, &[b"x"]), Err(LogError::Failed { .. })));
    assert!(matches!(log.health(), Health::Failed { .. }));
    write(&cluster, &plan.name, 3..6);
    read(&*cluster.reader(&[bind(0, &plan.name, 0, false)]).unwrap(), 0, 6).unwrap();
}

#[test]
fn too_much_that_is_not_synced_is_refused_and_taken_after_a_sync() {
    let small = KafkaOptions { max_pending_bytes: 100_000, max_record_bytes: 50_000, ..options() };
    let cluster = KafkaCluster::new(small).unwrap();
    let topic = topic(&cluster, 1);
    let log = cluster.open_kafka(&topic, &[bind(0, &topic, 0, true)]).unwrap();
    let refused = log.append(TOPIC, &[&[1; 50_001]]);
    assert!(matches!(refused, Err(LogError::TooLarge { bytes: 50_001, max_bytes: 50_000 })), "{refused:?}");
    for _ in 0..3 {
        for _ in 0..2 {
            log.append(TOPIC, &[&[1; 25_000], &[2; 25_000]]).unwrap();
        }
        let refused = log.append(TOPIC, &[b"x"]);
        assert!(matches!(refused, Err(LogError::Backpressure { pending_bytes: 100_000, .. })), "{refused:?}");
        log.sync().unwrap();
    }
    assert_eq!(log.next(TOPIC), Offset(6));
}

#[test]
fn a_topic_that_is_not_as_planned_is_named() {
    let cluster = cluster();
    let plan = TopicPlan::new(fresh("topic"), 2);
    let check = |plan: &TopicPlan| match cluster.check_topics(std::slice::from_ref(plan)) {
        Ok(()) => String::new(),
        Err(LogError::Topic { topic, what }) if topic == plan.name => what,
        Err(error) => panic!("{error}"),
    };
    assert!(check(&plan).contains("does not exist"));
    cluster.create_topics(std::slice::from_ref(&plan)).unwrap();
    assert_eq!(check(&plan), "");
    // To make it again changes nothing.
    cluster.create_topics(std::slice::from_ref(&plan)).unwrap();
    assert_eq!(check(&plan), "");
    assert!(check(&TopicPlan { partitions: 3, ..plan.clone() }).contains("2 partitions where 3"));
    assert!(check(&plan.clone().replicated(3, 1)).contains("1 replicas where 3"));
    assert!(check(&plan.clone().replicated(1, 2)).contains("min.insync.replicas is 1 where 2"));
    let settings = [("retention.ms".to_owned(), "1000".to_owned())].into();
    assert!(check(&TopicPlan { settings, ..plan.clone() }).contains("retention.ms is -1 where 1000"));
    assert_eq!(cluster.describe_topics(&[&plan.name, "no-such-topic"]).unwrap().len(), 1);
    cluster.delete_topics(&[&plan.name, "no-such-topic"]).unwrap();
    let mut checks = 0..600;
    let gone = checks.any(|_| {
        std::thread::sleep(Duration::from_millis(20));
        check(&plan).contains("does not exist")
    });
    assert!(gone);
}

#[test]
fn a_reader_behind_a_release_is_told() {
    let cluster = cluster();
    let topic = topic(&cluster, 1);
    write(&cluster, &topic, 0..20);
    let [slow, fast] = [0, 1].map(|_| cluster.reader(&[bind(0, &topic, 0, false)]).unwrap());
    read(&*fast, 0, 20).unwrap();
    fast.release(TOPIC, Offset(10)).unwrap();
    assert_eq!(slow.first(TOPIC), Offset(10));
    let read_early = slow.read(TOPIC, Offset(9), 100, Visibility::Durable, &mut Vec::new());
    assert!(
        matches!(read_early, Err(LogError::OutOfRange { first: Offset(10), next: Offset(20), .. })),
        "{read_early:?}"
    );
    read(&*slow, 10, 20).unwrap();
    fast.release(TOPIC, Offset(20)).unwrap();
    let log = cluster.open_kafka(&topic, &[bind(0, &topic, 0, true)]).unwrap();
    assert_eq!((log.first(TOPIC), log.next(TOPIC)), (Offset(19), Offset(20)));
    let traffic = &log.traffic()[0].1;
    assert_eq!((traffic.end, traffic.position, traffic.appended_records), (20, 0, 0));
}

#[test]
fn where_a_topic_ends_can_be_asked_while_its_beginning_goes() {
    const ROUNDS: u64 = 60;
    let cluster = cluster();
    let topic = topic(&cluster, 1);
    write(&cluster, &topic, 0..4);
    let asks = cluster.reader(&[bind(0, &topic, 0, false)]).unwrap();
    let log = cluster.open(&topic, &[bind(0, &topic, 0, true)]).unwrap();
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let asking = scope.spawn(|| {
            let mut before = (0, 0);
            while !over.load(Ordering::Relaxed) {
                let ends = (asks.first(TOPIC).0, asks.next(TOPIC).0);
                assert!(ends.0 < ends.1 && ends.1 <= 4 + ROUNDS, "{ends:?} after {before:?}");
                assert!(ends.0 >= before.0 && ends.1 >= before.1, "{ends:?} after {before:?}");
                before = ends;
            }
        });
        for _ in 0..ROUNDS {
            let appended = log.append(TOPIC, &[b"one more"]).unwrap();
            log.sync().unwrap();
            log.release(TOPIC, appended.offset).unwrap();
            if asking.is_finished() {
                break;
            }
        }
        over.store(true, Ordering::Relaxed);
    });
}
