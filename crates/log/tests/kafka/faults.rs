//! Brokers killed, stopped and started again while records are written.

use super::shared::bind;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tally_log::cluster::Cluster;
use tally_log::kafka::broker::{Brokers, Setup};
use tally_log::kafka::topics::TopicPlan;
use tally_log::kafka::{KafkaCluster, KafkaOptions};
use tally_log::{Health, Log, LogError, Offset, TopicId, Visibility};

const LIMIT: Duration = Duration::from_secs(120);

fn payload(offset: u64) -> Vec<u8> {
    let len = usize::try_from(offset * 997 % 20_000).unwrap();
    offset.to_le_bytes().iter().copied().cycle().take(8 + len).collect()
}

fn cluster(brokers: &Brokers) -> KafkaCluster {
    let options = KafkaOptions {
        answer_timeout_ms: 3_000,
        request_timeout_ms: 60_000,
        sync_timeout_ms: 1_000,
        ..brokers.options()
    };
    KafkaCluster::new(options).unwrap()
}

/// Writes to two partitions of `topic` until it is told to stop, syncs after `every` pairs, and tells how many were
/// acknowledged and how often it was stalled.
fn write(
    cluster: &KafkaCluster,
    topic: &str,
    every: u64,
    stop: &AtomicBool,
    acknowledged: &AtomicU64,
) -> u64 {
    let log = cluster.open_kafka("writer", &[bind(0, topic, 0, true), bind(1, topic, 1, true)]).unwrap();
    let mut stalls = 0;
    let mut offset = 0;
    let mut synced = false;
    while !stop.load(Ordering::Relaxed) || !synced {
        for topic in [0, 1] {
            let appended = log.append(TopicId(topic), &[&payload(offset)]).unwrap();
            assert_eq!(appended.offset, Offset(offset));
        }
        offset += 1;
        let deadline = Instant::now() + LIMIT;
        synced = offset % every == 0;
        while synced && acknowledged.load(Ordering::Relaxed) < offset {
            match log.sync() {
                Ok(ticket) => {
                    assert_eq!(ticket.0, 2 * offset);
                    assert_eq!(log.health(), Health::Ok);
                    acknowledged.store(offset, Ordering::Relaxed);
                }
                Err(LogError::Stalled { reason }) => {
                    assert!(Instant::now() < deadline, "it stays stalled: {reason}");
                    assert_eq!(log.health(), Health::Stalled { reason });
                    stalls += 1;
                }
                Err(error) => panic!("{error}"),
            }
        }
    }
    stalls
}

/// That both partitions hold `0..acknowledged` and nothing else, each record once.
fn audit(cluster: &KafkaCluster, topic: &str, acknowledged: u64) {
    let log = cluster.reader(&[bind(0, topic, 0, false), bind(1, topic, 1, false)]).unwrap();
    for id in [0, 1] {
        assert_eq!(log.next(TopicId(id)), Offset(acknowledged));
        let (mut at, mut out, deadline) = (Offset(0), Vec::new(), Instant::now() + LIMIT);
        while at.0 < acknowledged {
            let next = log.read(TopicId(id), at, 1 << 20, Visibility::Durable, &mut out).unwrap();
            if next == at {
                assert!(Instant::now() < deadline, "record {at} did not come");
                log.wait(Duration::from_millis(100));
            }
            at = next;
        }
        for (record, offset) in out.iter().zip(0..) {
            assert_eq!(record.offset, Offset(offset));
            assert!(record.payload == payload(offset), "record {offset} has other bytes");
        }
    }
}

/// Waits until `more` pairs are acknowledged beyond those that are.
fn wait_for(acknowledged: &AtomicU64, more: u64) {
    let (wanted, deadline) = (acknowledged.load(Ordering::Relaxed) + more, Instant::now() + LIMIT);
    while acknowledged.load(Ordering::Relaxed) < wanted {
        assert!(Instant::now() < deadline, "nothing is acknowledged any more");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Writes, with a sync after `every` pairs of records, while `faults` happen, and looks at what is there afterwards. Returns how often the writer was stalled.
fn survive(
    mut brokers: Brokers,
    plan: &TopicPlan,
    every: u64,
    faults: impl FnOnce(&mut Brokers, &AtomicU64),
) -> u64 {
    let cluster = cluster(&brokers);
    cluster.create_topics(std::slice::from_ref(plan)).unwrap();
    cluster.check_topics(std::slice::from_ref(plan)).unwrap();
    let (stop, acknowledged) = (AtomicBool::new(false), AtomicU64::new(0));
    let stalls = std::thread::scope(|scope| {
        let writer = scope.spawn(|| write(&cluster, &plan.name, every, &stop, &acknowledged));
        wait_for(&acknowledged, 20);
        let faulty =
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| faults(&mut brokers, &acknowledged)));
        stop.store(true, Ordering::Relaxed);
        let stalls = writer.join().unwrap();
        faulty.unwrap();
        stalls
    });
    audit(&cluster, &plan.name, acknowledged.load(Ordering::Relaxed));
    stalls
}

#[test]
fn a_broker_killed_and_started_again_loses_nothing() {
    let brokers = Brokers::start(Setup::default()).unwrap();
    survive(brokers, &TopicPlan::new("topic", 2), 3, |brokers, acknowledged| {
        for _ in 0..2 {
            brokers.restart(1).unwrap();
            wait_for(acknowledged, 50);
        }
    });
}

#[test]
fn two_of_three_brokers_are_enough_and_one_is_not() {
    let brokers = Brokers::start(Setup { nodes: 3, heap_mib: 384, ..Setup::default() }).unwrap();
    let plan = TopicPlan::new("topic", 2).replicated(3, 2);
    let stalls = survive(brokers, &plan, 3, |brokers, acknowledged| {
        brokers.kill(1);
        wait_for(acknowledged, 50);
        brokers.kill(2);
        // At most what was on its way is acknowledged now.
        let before = acknowledged.load(Ordering::Relaxed);
        std::thread::sleep(Duration::from_secs(4));
        let after = acknowledged.load(Ordering::Relaxed);
        assert!(after <= before + 3, "{} commits were acknowledged by one broker of three", after - before);
        brokers.restart(2).unwrap();
        wait_for(acknowledged, 50);
        brokers.restart(1).unwrap();
        // One that answers nobody is replaced as one that is gone.
        brokers.wait_until_all_serve().unwrap();
        brokers.pause(3).unwrap();
        wait_for(acknowledged, 50);
        brokers.go_on(3).unwrap();
        wait_for(acknowledged, 50);
    });
    assert!(stalls > 0, "nobody said that it was stalled");
}

#[test]
fn a_broker_with_a_full_disk_is_one_that_is_gone() {
    let setup = Setup { nodes: 3, heap_mib: 384, file_mib: Some(12), ..Setup::default() };
    let brokers = Brokers::start(setup).unwrap();
    let plan = TopicPlan::new("topic", 2).replicated(3, 2);
    survive(brokers, &plan, 25, |brokers, acknowledged| {
        let deadline = Instant::now() + LIMIT;
        while brokers.runs(3) {
            assert!(Instant::now() < deadline, "its disk does not become full");
            std::thread::sleep(Duration::from_millis(50));
        }
        wait_for(acknowledged, 50);
        brokers.free_disk();
        brokers.restart(3).unwrap();
        brokers.wait_until_all_serve().unwrap();
        wait_for(acknowledged, 50);
    });
}
