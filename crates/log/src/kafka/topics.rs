//! Making topics and checking that they are as planned.

use super::context::Context;
use super::options::RECORD_OVERHEAD;
use super::{KafkaCluster, KafkaOptions, refused};
use crate::LogError;
use rdkafka::TopicPartitionList;
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, ResourceSpecifier, TopicReplication};
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::types::RDKafkaErrorCode as Code;
use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Poll, Wake, Waker};
use std::thread::Thread;
use std::time::{Duration, Instant};

/// A topic as it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicPlan {
    /// Its name.
    pub name: String,
    /// How many partitions.
    pub partitions: u16,
    /// On how many brokers each record lies.
    pub replicas: u16,
    /// How many of these must have a record before it counts.
    pub in_sync: u16,
    /// The largest payload of a record.
    pub max_record_bytes: usize,
    /// Further settings, in Kafka's words.
    pub settings: BTreeMap<String, String>,
}

impl TopicPlan {
    /// A topic on one broker, for records as large as the options' default.
    pub fn new(name: impl Into<String>, partitions: u16) -> Self {
        Self {
            name: name.into(),
            partitions,
            replicas: 1,
            in_sync: 1,
            max_record_bytes: KafkaOptions::default().max_record_bytes,
            settings: BTreeMap::new(),
        }
    }

    /// The same with that many replicas, of which `in_sync` must have a record before it counts.
    #[must_use]
    pub fn replicated(self, replicas: u16, in_sync: u16) -> Self {
        Self { replicas, in_sync, ..self }
    }

    /// Every setting that the topic must have: records stay until they are released, however old.
    #[must_use]
    pub fn settings(&self) -> BTreeMap<String, String> {
        let mut settings = BTreeMap::from([
            ("cleanup.policy".to_owned(), "delete".to_owned()),
            ("retention.ms".to_owned(), "-1".to_owned()),
            ("retention.bytes".to_owned(), "-1".to_owned()),
            ("max.message.bytes".to_owned(), (self.max_record_bytes + RECORD_OVERHEAD).to_string()),
            ("min.insync.replicas".to_owned(), self.in_sync.to_string()),
            // What was acknowledged is never given up for being available again.
            ("unclean.leader.election.enable".to_owned(), "false".to_owned()),
        ]);
        settings.extend(self.settings.clone());
        settings
    }
}

/// What is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicFound {
    /// Its name.
    pub name: String,
    /// How many partitions.
    pub partitions: u16,
    /// The fewest replicas that a partition has.
    pub replicas: u16,
    /// Its settings, in Kafka's words.
    pub settings: BTreeMap<String, String>,
}

impl KafkaCluster {
    /// Makes the topics that are not there, and waits until the cluster knows them. One that is there is left as it is.
    ///
    /// # Errors
    /// [`LogError::Topic`] naming the first that could not be made.
    pub fn create_topics(&self, plans: &[TopicPlan]) -> Result<(), LogError> {
        let all: Vec<_> = plans.iter().map(|plan| (plan, plan.settings())).collect();
        let topics: Vec<_> = all
            .iter()
            .map(|(plan, settings)| {
                let replicas = TopicReplication::Fixed(plan.replicas.into());
                let topic = NewTopic::new(&plan.name, plan.partitions.into(), replicas);
                settings.iter().fold(topic, |topic, (key, value)| topic.set(key, value))
            })
            .collect();
        let admin = self.0.admin()?;
        let limits = limits(&self.0.options);
        for result in wait(admin.create_topics(&topics, &limits)).map_err(failed(&admin, "create topics"))? {
            match result {
                Ok(_) | Err((_, Code::TopicAlreadyExists)) => {}
                Err((topic, code)) => {
                    return Err(LogError::Topic { topic, what: format!("it was not made: {code}") });
                }
            }
        }
        self.until_known(plans)
    }

    /// A new topic is known to one broker before the other: waits until each partition has a leader.
    fn until_known(&self, plans: &[TopicPlan]) -> Result<(), LogError> {
        let deadline = Instant::now() + self.0.options.request_timeout();
        loop {
            let found: Vec<_> = self.partitions()?;
            let known = |plan: &TopicPlan| found.iter().any(|(name, led, _)| *name == plan.name && *led > 0);
            let Some(missing) = plans.iter().find(|plan| !known(plan)) else { return Ok(()) };
            if Instant::now() > deadline {
                let what = "it was made, but has no leader yet".to_owned();
                return Err(LogError::Topic { topic: missing.name.clone(), what });
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Every topic with its number of partitions, 0 while one of them has no leader, and the fewest replicas of one.
    fn partitions(&self) -> Result<Vec<(String, usize, usize)>, LogError> {
        let admin = self.0.admin()?;
        let metadata = admin.inner().fetch_metadata(None, self.0.options.request_timeout());
        let metadata = metadata.map_err(failed(&admin, "list the topics"))?;
        let one = |topic: &rdkafka::metadata::MetadataTopic| {
            let partitions = topic.partitions();
            let led = topic.error().is_none() && partitions.iter().all(|partition| partition.leader() >= 0);
            let replicas = partitions.iter().map(|partition| partition.replicas().len()).min().unwrap_or(0);
            (topic.name().to_owned(), if led { partitions.len() } else { 0 }, replicas)
        };
        Ok(metadata.topics().iter().map(one).collect())
    }

    /// What is there of the named topics; those that do not exist are left out.
    ///
    /// # Errors
    /// When the cluster does not say.
    pub fn describe_topics(&self, names: &[&str]) -> Result<Vec<TopicFound>, LogError> {
        let found = self.partitions()?;
        let there: Vec<_> = found.into_iter().filter(|(name, ..)| names.contains(&name.as_str())).collect();
        if there.is_empty() {
            return Ok(Vec::new());
        }
        let resources: Vec<_> = there.iter().map(|(name, ..)| ResourceSpecifier::Topic(name)).collect();
        let admin = self.0.admin()?;
        let described = wait(admin.describe_configs(&resources, &limits(&self.0.options)))
            .map_err(failed(&admin, "describe topics"))?;
        there
            .iter()
            .zip(described)
            .map(|((name, partitions, replicas), described)| {
                let described = described.map_err(|code| LogError::Topic {
                    topic: name.clone(),
                    what: format!("its settings are not told: {code}"),
                })?;
                let settings = described
                    .entries
                    .into_iter()
                    .filter_map(|entry| entry.value.map(|value| (entry.name, value)))
                    .collect();
                let number = |count: usize| u16::try_from(count).unwrap_or(u16::MAX);
                Ok(TopicFound {
                    name: name.clone(),
                    partitions: number(*partitions),
                    replicas: number(*replicas),
                    settings,
                })
            })
            .collect()
    }

    /// That every topic is there as planned.
    ///
    /// # Errors
    /// [`LogError::Topic`] naming the first that is not, and in what.
    pub fn check_topics(&self, plans: &[TopicPlan]) -> Result<(), LogError> {
        let names: Vec<_> = plans.iter().map(|plan| plan.name.as_str()).collect();
        let found = self.describe_topics(&names)?;
        for plan in plans {
            let wrong = |what: String| Err(LogError::Topic { topic: plan.name.clone(), what });
            let Some(found) = found.iter().find(|found| found.name == plan.name) else {
                return wrong("it does not exist; create it".into());
            };
            if found.partitions != plan.partitions {
                return wrong(format!(
                    "it has {} partitions where {} are planned",
                    found.partitions, plan.partitions
                ));
            }
            if found.replicas < plan.replicas {
                return wrong(format!(
                    "it has {} replicas where {} are planned",
                    found.replicas, plan.replicas
                ));
            }
            for (key, planned) in plan.settings() {
                let is = found.settings.get(&key).map_or("not set", String::as_str);
                if is != planned {
                    return wrong(format!("{key} is {is} where {planned} is planned"));
                }
            }
        }
        Ok(())
    }

    /// Deletes topics with all that is in them; one that does not exist is passed over.
    ///
    /// # Errors
    /// [`LogError::Topic`] naming the first that could not be deleted.
    pub fn delete_topics(&self, names: &[&str]) -> Result<(), LogError> {
        let admin = self.0.admin()?;
        let results = wait(admin.delete_topics(names, &limits(&self.0.options)));
        for result in results.map_err(failed(&admin, "delete topics"))? {
            match result {
                Ok(_) | Err((_, Code::UnknownTopicOrPartition)) => {}
                Err((topic, code)) => {
                    return Err(LogError::Topic { topic, what: format!("it was not deleted: {code}") });
                }
            }
        }
        Ok(())
    }
}

fn failed(admin: &AdminClient<Context>, operation: &'static str) -> impl FnOnce(KafkaError) -> LogError {
    let context = Arc::clone(admin.inner().context());
    move |error| LogError::Cluster { operation, reason: context.explain(error) }
}

pub(super) fn administrator(options: &KafkaOptions) -> Result<AdminClient<Context>, LogError> {
    options.client().create_with_context(Context::default()).map_err(refused("make an administrator"))
}

pub(super) fn limits(options: &KafkaOptions) -> AdminOptions {
    let limit = Some(options.request_timeout());
    AdminOptions::new().request_timeout(limit).operation_timeout(limit)
}

pub(super) fn delete_records(
    admin: &AdminClient<Context>,
    options: &KafkaOptions,
    before: &TopicPartitionList,
) -> Result<(), LogError> {
    let deleted =
        wait(admin.delete_records(before, &limits(options))).map_err(failed(admin, "delete records"))?;
    deleted.elements().iter().try_for_each(|element| element.error()).map_err(refused("delete records"))
}

/// How many brokers the cluster has now.
///
/// # Errors
/// When none answers in a second.
pub fn brokers(options: &KafkaOptions) -> Result<usize, LogError> {
    let consumer: Result<BaseConsumer<Context>, _> = options.client().create_with_context(Context::default());
    let consumer = consumer.map_err(refused("make a consumer"))?;
    let metadata = consumer.fetch_metadata(None, Duration::from_secs(1));
    let metadata = metadata.map_err(|error| LogError::Cluster {
        operation: "list the brokers",
        reason: consumer.context().explain(error),
    })?;
    Ok(metadata.brokers().len())
}

/// Waits for an answer of the administrator, whose thread completes it.
pub(super) fn wait<T>(answer: impl Future<Output = T>) -> T {
    struct Parked(Thread);
    impl Wake for Parked {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Parked(std::thread::current())));
    let mut answer = pin!(answer);
    loop {
        match answer.as_mut().poll(&mut std::task::Context::from_waker(&waker)) {
            Poll::Ready(answer) => return answer,
            Poll::Pending => std::thread::park(),
        }
    }
}
