//! Membership of a consumer group, for who works on which partition. Nothing is fetched by it.

use super::context::Context;
use super::{KafkaOptions, refused};
use crate::LogError;
use crate::cluster::{Members, Partition};
use rdkafka::TopicPartitionList;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::types::RDKafkaErrorCode as Code;
use std::time::{Duration, Instant};

pub(super) struct KafkaMember {
    consumer: BaseConsumer<Context>,
    /// What was returned last.
    told: Option<Vec<Partition>>,
}

/// How often a waiting member looks at what it has.
const STEP: Duration = Duration::from_millis(50);

impl KafkaMember {
    pub(super) fn join(options: &KafkaOptions, group: &str, topics: &[String]) -> Result<Self, LogError> {
        let mut config = options.consumer(group);
        config
            .set("partition.assignment.strategy", "cooperative-sticky")
            .set("session.timeout.ms", options.session_timeout_ms.to_string())
            .set("heartbeat.interval.ms", (options.session_timeout_ms / 4).clamp(100, 3_000).to_string())
            .set("max.poll.interval.ms", options.session_timeout_ms.max(300_000).to_string())
            // Where a fetch would begin does not matter, for what is assigned is paused.
            .set("auto.offset.reset", "latest")
            .set("queued.max.messages.kbytes", "1")
            .set("fetch.max.bytes", (options.max_record_bytes + super::options::RECORD_OVERHEAD).to_string())
            .set("max.partition.fetch.bytes", "1");
        if let Some(member) = &options.member {
            config.set("group.instance.id", format!("{}{member}", options.prefix));
        }
        let consumer: BaseConsumer<Context> =
            config.create_with_context(Context::default()).map_err(refused("make a consumer"))?;
        let names: Vec<_> = topics.iter().map(String::as_str).collect();
        consumer.subscribe(&names).map_err(refused("join a group"))?;
        Ok(Self { consumer, told: None })
    }

    /// What belongs to this member, all of it paused.
    fn assigned(&self) -> Result<Vec<Partition>, LogError> {
        let list: TopicPartitionList =
            self.consumer.assignment().map_err(refused("ask for the assignment"))?;
        let mut assigned: Vec<_> = list
            .elements()
            .iter()
            .filter_map(|element| {
                Some(Partition::new(element.topic(), u16::try_from(element.partition()).ok()?))
            })
            .collect();
        assigned.sort();
        if self.told.as_ref() != Some(&assigned) && !assigned.is_empty() {
            self.consumer.pause(&list).map_err(refused("pause a partition"))?;
        }
        Ok(assigned)
    }
}

impl Members for KafkaMember {
    fn poll(&mut self, limit: Duration) -> Result<Option<Vec<Partition>>, LogError> {
        let deadline = Instant::now() + limit;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if let Some(Err(error)) = self.consumer.poll(left.min(STEP)) {
                let for_ever = matches!(
                    error.rdkafka_error_code(),
                    Some(
                        Code::FencedInstanceId
                            | Code::GroupAuthorizationFailed
                            | Code::TopicAuthorizationFailed
                            | Code::Fatal
                            | Code::Authentication
                    )
                );
                if for_ever {
                    let reason = self.consumer.context().explain(error);
                    return Err(LogError::Cluster { operation: "take part in a group", reason });
                }
            }
            let assigned = self.assigned()?;
            if self.told.as_ref() != Some(&assigned) && !(self.told.is_none() && assigned.is_empty()) {
                self.told = Some(assigned.clone());
                return Ok(Some(assigned));
            }
            if left.is_zero() {
                return Ok(None);
            }
        }
    }
}
