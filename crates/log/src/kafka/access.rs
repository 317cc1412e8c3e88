//! Who may do what, on brokers that give nothing to whom no list names.

use super::{KafkaCluster, native};
use crate::LogError;

/// What a name names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resource {
    /// Topics.
    Topic,
    /// Groups of consumers.
    Group,
    /// Writers, by their transactional ids.
    Writer,
}

/// One name, or all that begin alike.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Name {
    /// This one.
    Is(String),
    /// All that begin so.
    StartsWith(String),
}

/// What may be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Read records; be a member of a group.
    Read,
    /// Append records; write under a name.
    Write,
    /// Release records.
    Delete,
    /// Learn that it is there.
    Describe,
    /// Learn its settings.
    DescribeSettings,
}

/// That a principal may do something with what is so named. All names are Kafka's: with the prefix that the options of
/// the one who is given access put before writers and groups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// Whom, as the brokers name it: `User:` and, where they map names so, the common name in its certificate.
    pub principal: String,
    /// Of which kind.
    pub resource: Resource,
    /// Which.
    pub name: Name,
    /// What.
    pub operations: Vec<Operation>,
}

impl Grant {
    fn new(principal: &str, resource: Resource, name: Name, operations: &[Operation]) -> Self {
        Self { principal: principal.to_owned(), resource, name, operations: operations.to_vec() }
    }

    /// To read topics.
    #[must_use]
    pub fn read(principal: &str, topics: Name) -> Self {
        let operations = [Operation::Read, Operation::Describe, Operation::DescribeSettings];
        Self::new(principal, Resource::Topic, topics, &operations)
    }

    /// To append to topics, and to read what is in them, which a writer must to know where it stopped.
    #[must_use]
    pub fn write(principal: &str, topics: Name) -> Self {
        let read = Self::read(principal, topics);
        Self { operations: [&read.operations[..], &[Operation::Write]].concat(), ..read }
    }

    /// To release records of topics.
    #[must_use]
    pub fn release(principal: &str, topics: Name) -> Self {
        Self::new(principal, Resource::Topic, topics, &[Operation::Delete, Operation::Describe])
    }

    /// To write under names.
    #[must_use]
    pub fn write_as(principal: &str, writers: Name) -> Self {
        Self::new(principal, Resource::Writer, writers, &[Operation::Write, Operation::Describe])
    }

    /// To be a member of groups.
    #[must_use]
    pub fn join(principal: &str, groups: Name) -> Self {
        Self::new(principal, Resource::Group, groups, &[Operation::Read, Operation::Describe])
    }
}

impl KafkaCluster {
    /// Adds to who may do what. What is given already is left as it is.
    ///
    /// # Errors
    /// [`LogError::Cluster`] when the brokers keep no lists, or this process may not change them.
    pub fn allow(&self, grants: &[Grant]) -> Result<(), LogError> {
        let admin = self.0.admin()?;
        native::create_access(admin.inner(), grants, self.0.options.request_timeout()).map_err(|reason| {
            LogError::Cluster { operation: "give access", reason: admin.inner().context().explain(reason) }
        })
    }
}
