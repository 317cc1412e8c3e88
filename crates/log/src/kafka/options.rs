//! How a process reaches Kafka, and how much it keeps in memory.

use crate::{LogError, MAX_RECORD_BYTES};
use rdkafka::ClientConfig;
use rdkafka::config::RDKafkaLogLevel;
use serde::Deserialize;
use std::path::PathBuf;
use std::time::Duration;

/// A section of a configuration file: how to reach a cluster.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct KafkaOptions {
    /// Some of the brokers, as `host:port`; the others are learnt from them.
    pub brokers: Vec<String>,
    /// Put before every transactional id and group id, so that networks can share a cluster.
    pub prefix: String,
    /// Certificates, where the brokers want them; else nothing is encrypted.
    pub tls: Option<Tls>,
    /// How record batches are compressed on their way and on the brokers' disks.
    pub compression: Compression,
    /// Bytes that may be appended and not yet synced.
    pub max_pending_bytes: usize,
    /// The largest payload of a record, at most 64 MiB. Topics must allow as much (`max.message.bytes`).
    pub max_record_bytes: usize,
    /// Bytes that may be fetched from each partition and not yet read.
    pub fetch_buffer_bytes: usize,
    /// For how long a broker holds a fetch that finds nothing, in milliseconds. Not the latency of records, which end it.
    pub fetch_wait_ms: u32,
    /// After which silence a broker that was asked something is taken for gone, in milliseconds: it may hang, with its
    /// connections open.
    pub answer_timeout_ms: u32,
    /// For how long one question to the cluster may take, whoever answers it, in milliseconds.
    pub request_timeout_ms: u32,
    /// After which time a sync says that it is stalled, in milliseconds.
    pub sync_timeout_ms: u32,
    /// After which time without a commit the cluster gives up what was appended, in milliseconds; the log then fails and
    /// must be opened again. Longer than any outage that is to be survived, at most what the brokers allow.
    pub transaction_timeout_ms: u32,
    /// After which silence a member of a group is taken for dead, in milliseconds.
    pub session_timeout_ms: u32,
    /// A name under which a member of a group is known again after a restart, so that nothing moves meanwhile.
    pub member: Option<String>,
}

/// Files in PEM form.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tls {
    /// The certificates of those who may sign a broker's.
    pub authority: PathBuf,
    /// This process's certificate, and those between it and an authority that the brokers know.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
}

/// A codec for record batches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Compression {
    /// As they are.
    #[default]
    None,
    /// Fast, about half of the bytes of structured records.
    Lz4,
    /// Fewer bytes than lz4 on text, for more CPU.
    Gzip,
}

impl Default for KafkaOptions {
    fn default() -> Self {
        Self {
            brokers: vec!["127.0.0.1:9092".into()],
            prefix: String::new(),
            tls: None,
            compression: Compression::None,
            max_pending_bytes: 64 << 20,
            max_record_bytes: 16 << 20,
            fetch_buffer_bytes: 64 << 20,
            fetch_wait_ms: 50,
            answer_timeout_ms: 10_000,
            request_timeout_ms: 15_000,
            sync_timeout_ms: 10_000,
            transaction_timeout_ms: 60_000,
            session_timeout_ms: 6_000,
            member: None,
        }
    }
}

/// What a record takes beyond its payload, amply.
pub(super) const RECORD_OVERHEAD: usize = 4096;

impl KafkaOptions {
    /// Whether the options make sense.
    ///
    /// # Errors
    /// [`LogError::Options`] naming the one that does not.
    pub fn check(&self) -> Result<(), LogError> {
        let wrong = |option, what| Err(LogError::Options { option, what });
        if self.brokers.is_empty()
            || self.brokers.iter().any(|broker| broker.is_empty() || broker.contains(','))
        {
            return wrong("brokers", "must name at least one broker as host:port");
        }
        if !(1024..=MAX_RECORD_BYTES).contains(&self.max_record_bytes) {
            return wrong("max_record_bytes", "must be from 1 KiB up to 64 MiB");
        }
        if self.max_pending_bytes < self.max_record_bytes || self.max_pending_bytes > 1 << 30 {
            return wrong("max_pending_bytes", "must be from max_record_bytes up to 1 GiB");
        }
        if !(1 << 20..=1 << 30).contains(&self.fetch_buffer_bytes) {
            return wrong("fetch_buffer_bytes", "must be from 1 MiB up to 1 GiB");
        }
        if !(1..=10_000).contains(&self.fetch_wait_ms) {
            return wrong("fetch_wait_ms", "must be from 1 to 10000");
        }
        if !(self.fetch_wait_ms + 1_000..=300_000).contains(&self.answer_timeout_ms) {
            return wrong("answer_timeout_ms", "must be a second over fetch_wait_ms, and at most 300000");
        }
        if !(1_000..=900_000).contains(&self.transaction_timeout_ms) {
            return wrong("transaction_timeout_ms", "must be from 1000 to 900000");
        }
        if !(100..=600_000).contains(&self.request_timeout_ms) {
            return wrong("request_timeout_ms", "must be from 100 to 600000");
        }
        if !(100..=600_000).contains(&self.sync_timeout_ms) {
            return wrong("sync_timeout_ms", "must be from 100 to 600000");
        }
        if !(500..=1_800_000).contains(&self.session_timeout_ms) {
            return wrong("session_timeout_ms", "must be from 500 to 1800000");
        }
        Ok(())
    }

    pub(super) fn request_timeout(&self) -> Duration {
        Duration::from_millis(self.request_timeout_ms.into())
    }

    pub(super) fn sync_timeout(&self) -> Duration {
        Duration::from_millis(self.sync_timeout_ms.into())
    }

    /// What every client is told.
    pub(super) fn client(&self) -> ClientConfig {
        let mut config = ClientConfig::new();
        config
            .set("bootstrap.servers", self.brokers.join(","))
            .set("client.id", "tally")
            .set("socket.timeout.ms", self.answer_timeout_ms.to_string())
            .set("socket.nagle.disable", "true")
            .set("socket.keepalive.enable", "true")
            .set("reconnect.backoff.ms", "50")
            .set("reconnect.backoff.max.ms", "1000")
            .set("retry.backoff.ms", "20")
            .set("retry.backoff.max.ms", "500")
            .set("log.connection.close", "false")
            .set_log_level(RDKafkaLogLevel::Warning);
        if let Some(tls) = &self.tls {
            config
                .set("security.protocol", "ssl")
                .set("ssl.ca.location", tls.authority.display().to_string())
                .set("ssl.certificate.location", tls.certificate.display().to_string())
                .set("ssl.key.location", tls.key.display().to_string());
        }
        config
    }

    /// A producer whose writes are visible all together or never, and that fences the earlier one of its name.
    pub(super) fn producer(&self, writer: &str) -> ClientConfig {
        let codec = match self.compression {
            Compression::None => "none",
            Compression::Lz4 => "lz4",
            Compression::Gzip => "gzip",
        };
        let mut config = self.client();
        config
            .set("transactional.id", format!("{}{writer}", self.prefix))
            .set("transaction.timeout.ms", self.transaction_timeout_ms.to_string())
            .set("enable.idempotence", "true")
            .set("acks", "all")
            .set("linger.ms", "0")
            .set("compression.codec", codec)
            .set("message.max.bytes", (self.max_record_bytes + RECORD_OVERHEAD).to_string())
            .set("batch.size", (super::writer::BATCH_BYTES + (1 << 20)).to_string())
            .set("batch.num.messages", "1000000")
            // Limits of our own come first.
            .set("queue.buffering.max.messages", "10000000")
            .set("queue.buffering.max.kbytes", (4 << 20).to_string())
            // A success needs no report: a flush waits for the count of messages.
            .set("delivery.report.only.error", "true");
        config
    }

    /// A consumer that sees committed records only, keeps no offsets on the brokers and never skips any.
    pub(super) fn consumer(&self, group: &str) -> ClientConfig {
        let largest = self.max_record_bytes + RECORD_OVERHEAD;
        let fetch = largest.max(32 << 20);
        let mut config = self.client();
        config
            .set("group.id", format!("{}{group}", self.prefix))
            .set("isolation.level", "read_committed")
            .set("enable.auto.commit", "false")
            .set("enable.auto.offset.store", "false")
            .set("auto.offset.reset", "error")
            .set("allow.auto.create.topics", "false")
            .set("check.crcs", "true")
            .set("message.max.bytes", largest.to_string())
            .set("fetch.wait.max.ms", self.fetch_wait_ms.to_string())
            .set("fetch.min.bytes", "1")
            .set("fetch.max.bytes", fetch.to_string())
            .set("max.partition.fetch.bytes", largest.max(8 << 20).to_string())
            .set("receive.message.max.bytes", (fetch + (1 << 20)).to_string())
            .set("fetch.queue.backoff.ms", "2")
            .set("fetch.error.backoff.ms", "50")
            .set("queued.min.messages", "1000000")
            .set("queued.max.messages.kbytes", (self.fetch_buffer_bytes / 1024).to_string());
        config
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_come_from_a_section_and_name_what_is_wrong() {
        let read = |text: &str| serde_json::from_str::<KafkaOptions>(text);
        let options =
            read(r#"{"brokers": ["a:1", "b:2"], "compression": "lz4", "max_pending_bytes": 33554432}"#);
        let options = options.expect("these are options");
        assert_eq!((options.brokers.len(), options.compression), (2, Compression::Lz4));
        assert_eq!(options.max_record_bytes, KafkaOptions::default().max_record_bytes);
        assert!(options.check().is_ok());
        assert!(read(r#"{"broker": []}"#).is_err(), "an unknown name is not passed over");
        assert!(read(r#"{"tls": {"authority": "a", "certificate": "b"}}"#).is_err(), "the key is missing");
        for (wrong, name) in [
            (r#"{"brokers": []}"#, "brokers"),
            (r#"{"brokers": ["a:1,b:2"]}"#, "brokers"),
            (r#"{"max_record_bytes": 67108865}"#, "max_record_bytes"),
            (r#"{"max_pending_bytes": 1000}"#, "max_pending_bytes"),
            (r#"{"fetch_buffer_bytes": 0}"#, "fetch_buffer_bytes"),
            (r#"{"fetch_wait_ms": 0}"#, "fetch_wait_ms"),
            (r#"{"answer_timeout_ms": 1000}"#, "answer_timeout_ms"),
            (r#"{"transaction_timeout_ms": 900001}"#, "transaction_timeout_ms"),
            (r#"{"request_timeout_ms": 1}"#, "request_timeout_ms"),
            (r#"{"sync_timeout_ms": 0}"#, "sync_timeout_ms"),
            (r#"{"session_timeout_ms": 499}"#, "session_timeout_ms"),
        ] {
            let checked = read(wrong).expect("these are options").check();
            assert!(
                matches!(checked, Err(LogError::Options { option, .. }) if option == name),
                "{wrong}: {checked:?}"
            );
        }
    }
}
