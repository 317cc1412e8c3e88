//! What every log and every cluster must do.

use super::shared::{bind, cluster, fresh, topic};
use std::sync::Arc;
use tally_log::cluster::Cluster;
use tally_log::{Log, contract};

#[test]
fn a_log_on_kafka_keeps_the_contract_of_logs() {
    let cluster = cluster();
    let ids: Vec<u16> = (0..=9).chain([u16::MAX]).collect();
    contract::check(&|| {
        let topic = topic(&cluster, 11);
        let bindings: Vec<_> =
            ids.iter().zip(0..).map(|(id, number)| bind(*id, &topic, number, true)).collect();
        let log: Arc<dyn Log> = cluster.open_kafka(&fresh("writer"), &bindings).unwrap();
        log
    });
}

#[test]
fn kafka_keeps_the_contract_of_clusters() {
    contract::check_cluster(&|| {
        let cluster = cluster_of_its_own();
        let topics = [topic(&cluster, 1), topic(&cluster, 4)];
        (Arc::new(cluster) as Arc<dyn Cluster>, topics)
    });
}

/// One whose writers' names are no other's.
fn cluster_of_its_own() -> tally_log::kafka::KafkaCluster {
    let prefix = fresh("prefix-");
    let options =
        tally_log::kafka::KafkaOptions { prefix, session_timeout_ms: 1000, ..super::shared::options() };
    tally_log::kafka::KafkaCluster::new(options).unwrap()
}
