//! One broker for the tests that leave it alone; each uses topics of its own.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, OnceLock};
use tally_log::TopicId;
use tally_log::cluster::{Binding, Partition};
use tally_log::kafka::broker::{Brokers, Setup};
use tally_log::kafka::topics::TopicPlan;
use tally_log::kafka::{KafkaCluster, KafkaOptions};

pub(crate) fn options() -> KafkaOptions {
    static BROKER: OnceLock<Mutex<Brokers>> = OnceLock::new();
    let brokers = BROKER.get_or_init(|| Mutex::new(Brokers::start(Setup::default()).unwrap()));
    KafkaOptions { request_timeout_ms: 60_000, sync_timeout_ms: 60_000, ..brokers.lock().unwrap().options() }
}

pub(crate) fn cluster() -> KafkaCluster {
    KafkaCluster::new(options()).unwrap()
}

/// A name that no other test uses.
pub(crate) fn fresh(what: &str) -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    format!("{what}-{}", COUNT.fetch_add(1, Ordering::Relaxed))
}

/// A new topic.
pub(crate) fn topic(cluster: &KafkaCluster, partitions: u16) -> String {
    let name = fresh("topic");
    cluster.create_topics(&[TopicPlan::new(&name, partitions)]).unwrap();
    name
}

pub(crate) fn bind(id: u16, topic: &str, number: u16, writes: bool) -> Binding {
    Binding { id: TopicId(id), partition: Partition::new(topic, number), writes }
}
