//! `cluster.toml`: how the stages of a network are split, and how this process reaches the cluster that joins them.
//!
//! It lies beside `network.toml`, which everybody agrees on; brokers and certificates are each process's own.

use crate::configuration::{Configuration, environment};
use crate::layout::Layout as Directory;
use crate::name;
use anyhow::{Context, bail, ensure};
use serde::Deserialize;
use std::collections::BTreeMap;
use tally_log::kafka::{KafkaCluster, KafkaOptions};
use tally_ops::config::Loader;
use tally_settlement::process::Layout;
use tally_settlement::process::sequence::HEARTBEAT_MS;

const MAX_BYTES: u64 = 1 << 20;

/// The whole file.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ClusterConfiguration {
    /// The BIC of the institution whose directory this is, where it is an institution's own: nobody else's stages run from it.
    pub institution: Option<String>,
    /// How the stages are split: for the life of the network, and the same for everybody.
    pub layout: LayoutSection,
    /// How the topics are made.
    pub topics: TopicsSection,
    /// Who watches the operator.
    pub witnesses: WitnessesSection,
    /// How the stages of this process run.
    pub stages: StagesSection,
    /// By BIC: institutions that run their own approver and updater, and as whom the brokers know them, such as
    /// `User:alpha`. They get access to their own topics and to no others; the operator's processes leave them out.
    pub principals: BTreeMap<String, String>,
    /// How the cluster is reached.
    pub kafka: KafkaOptions,
}

/// `[layout]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LayoutSection {
    /// Before every topic's, group's and writer's name; `tally-` and the network's id if not given.
    pub prefix: Option<String>,
    /// How many schedulers share the transactions.
    pub schedulers: u16,
    /// How many assemblers share what is accepted.
    pub assemblers: u16,
    /// How many gateways there may be at once.
    pub gateways: u16,
}

impl Default for LayoutSection {
    fn default() -> Self {
        Self { prefix: None, schedulers: 2, assemblers: 2, gateways: 2 }
    }
}

/// `[topics]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TopicsSection {
    /// On how many brokers every record lies.
    pub replicas: u16,
    /// How many of these must have a record before it counts; a network stands still while fewer are there.
    pub in_sync: u16,
    /// How long records that are no part of the ledger are kept, in hours: longer than any stage is ever stopped.
    /// What was accepted, the sequence, and what stages record of themselves stay for ever.
    pub retention_hours: u32,
}

impl Default for TopicsSection {
    fn default() -> Self {
        Self { replicas: 1, in_sync: 1, retention_hours: 168 }
    }
}

/// `[witnesses]`
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct WitnessesSection {
    /// How many institutions besides the operator have to cosign the head of the log that has an outcome before a gateway
    /// tells the outcome; the operator alone cannot show two histories then. 0 for none. The file of public keys asks
    /// for as many.
    pub required: u8,
}

/// More witnesses are required than the network can have.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("witnesses.required is {required}, and the network has {others} institutions besides the operator")]
pub struct TooManyWitnesses {
    /// How many are required.
    pub required: u8,
    /// How many institutions there are besides the operator.
    pub others: usize,
}

impl WitnessesSection {
    /// How many witnesses are required of a network of so many participants, one of whom is the operator.
    ///
    /// # Errors
    /// When there are not so many.
    pub fn checked(self, participants: usize) -> Result<u8, TooManyWitnesses> {
        let (required, others) = (self.required, participants.saturating_sub(1));
        if usize::from(required) > others {
            return Err(TooManyWitnesses { required, others });
        }
        Ok(required)
    }
}

/// `[stages]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct StagesSection {
    /// How often an updater saves its balances, in milliseconds.
    pub snapshot_every_ms: u64,
    /// How many references a scheduler remembers at most, until they expire.
    pub remember: usize,
    /// After how long without a word of the active sequencer one that stands by takes over, in milliseconds.
    pub takeover_after_ms: u64,
}

impl Default for StagesSection {
    fn default() -> Self {
        Self { snapshot_every_ms: 60_000, remember: 1 << 26, takeover_after_ms: 600 }
    }
}

/// Whether cluster.toml has a section of that name.
pub fn is_section(name: &str) -> bool {
    ["layout", "topics", "witnesses", "stages", "principals", "kafka"].contains(&name)
}

impl ClusterConfiguration {
    /// Reads the file; the environment (`TALLY_KAFKA__BROKERS` and the like) and `flags` override it. Certificates' files are
    /// looked for from the network's directory on.
    ///
    /// # Errors
    /// With file, line and key when it cannot be read or says something that does not fit.
    pub fn read(directory: &Directory, flags: &[String]) -> anyhow::Result<Self> {
        let file = directory.cluster();
        if !file.exists() {
            bail!(
                "{} has no cluster.toml: `tally network plan DIR --rate N --write` makes one",
                directory.root().display()
            );
        }
        let mut configuration: Self = Loader::new()
            .file(&file)
            .max_bytes(MAX_BYTES)
            .environment(environment(true))
            .flags(flags)
            .load()?;
        configuration.normalise();
        if let Some(tls) = &mut configuration.kafka.tls {
            for file in [&mut tls.authority, &mut tls.certificate, &mut tls.key] {
                *file = directory.root().join(&*file);
            }
        }
        configuration.check().with_context(|| format!("{}", file.display()))?;
        Ok(configuration)
    }

    /// BICs as network.toml has them: of 8 characters for a head office.
    fn normalise(&mut self) {
        self.institution = self.institution.as_deref().map(name::shortest_bic);
        let principals = std::mem::take(&mut self.principals);
        self.principals =
            principals.into_iter().map(|(bic, principal)| (name::shortest_bic(&bic), principal)).collect();
    }

    fn check(&self) -> anyhow::Result<()> {
        for (name, count, most) in [
            ("layout.schedulers", self.layout.schedulers, 63),
            ("layout.assemblers", self.layout.assemblers, 63),
            ("layout.gateways", self.layout.gateways, 255),
        ] {
            ensure!((1..=most).contains(&count), "{name} is {count}, and must be from 1 to {most}");
        }
        let TopicsSection { replicas, in_sync, retention_hours } = self.topics;
        ensure!(
            (1..=replicas).contains(&in_sync),
            "topics.in_sync is {in_sync}, and must be from 1 to topics.replicas, {replicas}"
        );
        ensure!(retention_hours > 0, "topics.retention_hours must not be 0");
        ensure!(self.stages.snapshot_every_ms > 0, "stages.snapshot_every_ms must not be 0");
        ensure!(
            self.stages.takeover_after_ms >= 3 * HEARTBEAT_MS,
            "stages.takeover_after_ms is {}, and must be {} or more: the active sequencer is heard of every {HEARTBEAT_MS} ms",
            self.stages.takeover_after_ms,
            3 * HEARTBEAT_MS
        );
        self.kafka.check().context("[kafka]")
    }

    /// Checks what concerns the participants.
    fn fits(&self, configuration: &Configuration) -> anyhow::Result<()> {
        self.witnesses.checked(configuration.participants.len())?;
        let takes_part =
            |bic: &str| configuration.participants.iter().any(|participant| participant.bic == bic);
        if let Some(bic) = &self.institution {
            ensure!(takes_part(bic), "institution is {bic}: the network has no such participant");
        }
        for (bic, principal) in &self.principals {
            ensure!(takes_part(bic), "principals.{bic}: the network has no such participant");
            let name = principal.strip_prefix("User:").unwrap_or_default();
            ensure!(!name.is_empty(), "principals.{bic} is {principal:?}, and must be User: and a name");
        }
        Ok(())
    }

    /// The network's layout.
    ///
    /// # Errors
    /// When the file names a participant that the network does not have.
    pub fn layout(&self, configuration: &Configuration) -> anyhow::Result<Layout> {
        self.fits(configuration)?;
        let prefix = self.layout.prefix.clone();
        Ok(Layout {
            prefix: prefix.unwrap_or_else(|| format!("tally-{}", configuration.network.id)),
            participants: configuration.participants.iter().map(|p| p.bic.clone()).collect(),
            schedulers: self.layout.schedulers,
            assemblers: self.layout.assemblers,
            gateways: self.layout.gateways,
        })
    }

    /// The cluster.
    ///
    /// # Errors
    /// When the options do not fit each other, or a certificate's file is not there.
    pub fn cluster(&self) -> anyhow::Result<KafkaCluster> {
        if let Some(tls) = &self.kafka.tls {
            let files = [("authority", &tls.authority), ("certificate", &tls.certificate), ("key", &tls.key)];
            for (name, file) in files {
                ensure!(
                    file.is_file(),
                    "kafka.tls.{name} in cluster.toml: there is no file {}",
                    file.display()
                );
            }
        }
        KafkaCluster::new(self.kafka.clone()).context("cannot use the cluster")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_witnesses_are_required_than_there_are() {
        let of = |required, participants| WitnessesSection { required }.checked(participants);
        assert_eq!(of(0, 1), Ok(0));
        assert_eq!(of(0, 0), Ok(0));
        assert_eq!(of(2, 3), Ok(2));
        assert_eq!(of(255, 256), Ok(255));
        // The operator is no witness of itself.
        assert_eq!(of(3, 3), Err(TooManyWitnesses { required: 3, others: 2 }));
        assert_eq!(of(1, 1), Err(TooManyWitnesses { required: 1, others: 0 }));
        assert_eq!(of(1, 0), Err(TooManyWitnesses { required: 1, others: 0 }));
    }
}
