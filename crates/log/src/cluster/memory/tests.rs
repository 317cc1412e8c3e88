use super::*;
use crate::contract;

#[test]
fn memory_keeps_the_contract_of_clusters() {
    contract::check_cluster(&|| {
        let topics = ["a".to_owned(), "b".to_owned()];
        let cluster = MemoryCluster::new([(topics[0].clone(), 1), (topics[1].clone(), 4)]);
        (Arc::new(cluster), topics)
    });
}

#[test]
fn a_log_opened_alone_keeps_the_contract_of_logs() {
    let ids: Vec<u16> = (0..=9).chain([u16::MAX]).collect();
    contract::check(&|| {
        let cluster = MemoryCluster::new([("topic".to_owned(), 11)]);
        let bind = |(id, number): (&u16, u16)| {
            let partition = Partition::new("topic", number);
            Binding { id: TopicId(*id), partition, writes: true }
        };
        let bindings: Vec<_> = ids.iter().zip(0..).map(bind).collect();
        cluster.open_memory("writer", &bindings).expect("the topic is there")
    });
}
