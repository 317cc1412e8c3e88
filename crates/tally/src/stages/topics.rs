//! A network's topics on Kafka: made, and checked before any stage uses them.

use super::ClusterConfiguration;
use anyhow::Context;
use std::collections::BTreeMap;
use tally_ledger::ParticipantId;
use tally_log::TopicId;
use tally_log::cluster::{Binding, Cluster, Partition};
use tally_log::kafka::KafkaCluster;
use tally_log::kafka::access::{Grant, Name};
use tally_log::kafka::topics::TopicPlan;
use tally_settlement::process::Layout;
use tally_settlement::process::gateway::MAX_SUBMISSION_BYTES;
use tally_settlement::process::layout::Access;

/// Every topic as it has to be.
pub fn plans(configuration: &ClusterConfiguration, layout: &Layout) -> Vec<TopicPlan> {
    let topics = &configuration.topics;
    let retention_ms = u64::from(topics.retention_hours) * 3_600_000;
    layout
        .topics()
        .into_iter()
        .map(|topic| {
            let mut settings = BTreeMap::new();
            if topic.expires {
                settings.insert("retention.ms".to_owned(), retention_ms.to_string());
            }
            let largest = configuration.kafka.max_record_bytes;
            let max_record_bytes = if topic.submissions { MAX_SUBMISSION_BYTES } else { largest };
            TopicPlan {
                settings,
                max_record_bytes,
                ..TopicPlan::new(topic.name, topic.partitions).replicated(topics.replicas, topics.in_sync)
            }
        })
        .collect()
}

/// Makes the topics that are not there, and checks all.
///
/// # Errors
/// Naming the topic that could not be made, or is not as it has to be.
pub fn apply(cluster: &KafkaCluster, plans: &[TopicPlan]) -> anyhow::Result<()> {
    cluster.create_topics(plans).context("cannot make the topics")?;
    check(cluster, plans)
}

/// Checks that the topics are as they have to be.
///
/// # Errors
/// Naming the topic that is not.
pub fn check(cluster: &KafkaCluster, plans: &[TopicPlan]) -> anyhow::Result<()> {
    cluster.check_topics(plans).context("the topics are not as planned")
}

/// Checks that this process is let in, and that the topics of those for whom it works are there for it.
///
/// # Errors
/// Naming the topic that is not, or why the brokers let nobody in.
pub fn reach(
    cluster: &KafkaCluster,
    layout: &Layout,
    participants: impl Iterator<Item = ParticipantId>,
) -> anyhow::Result<()> {
    let mut mine: Vec<_> = participants
        .flat_map(|participant| {
            let Access { reads, writes, .. } = layout.access(participant);
            reads.into_iter().chain(writes)
        })
        .collect();
    mine.sort_unstable();
    mine.dedup();
    let plans = layout.topics().into_iter().filter(|plan| mine.contains(&plan.name));
    let partitions = plans.flat_map(|plan| (0..plan.partitions).map(move |at| (plan.name.clone(), at)));
    let bindings: Vec<_> = (0..)
        .map(TopicId)
        .zip(partitions)
        .map(|(id, (topic, number))| Binding { id, partition: Partition::new(topic, number), writes: false })
        .collect();
    cluster.reader(&bindings)?;
    Ok(())
}

/// What the institutions that run their own stages may do: their own, and nothing else.
pub fn grants(configuration: &ClusterConfiguration, layout: &Layout) -> Vec<Grant> {
    let mut grants = Vec::new();
    let kafka_prefix = &configuration.kafka.prefix;
    for (participant, bic) in layout.everybody().zip(&layout.participants) {
        let Some(principal) = configuration.principals.get(bic) else { continue };
        let access = layout.access(participant);
        let topic = |name: String| Name::Is(name);
        let named = |name: String| Name::Is(format!("{kafka_prefix}{name}"));
        grants.extend(access.reads.into_iter().map(|name| Grant::read(principal, topic(name))));
        grants.extend(access.writes.into_iter().map(|name| Grant::write(principal, topic(name))));
        grants.extend(access.releases.into_iter().map(|name| Grant::release(principal, topic(name))));
        grants.extend(access.writers.into_iter().map(|name| Grant::write_as(principal, named(name))));
        grants.extend(access.groups.into_iter().map(|name| Grant::join(principal, named(name))));
    }
    grants
}
