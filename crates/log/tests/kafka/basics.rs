//! What every log and every cluster must do.

use super::shared::{bind, cluster, fresh, topic};
use std::sync::Arc;
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
