//! `[cluster]` of `node.toml`.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tally_contracts::Name;
use tally_identity::Address;
use tally_notary::{Cluster, Config};

/// `[cluster]`: this node is a member of a clustered notary. Who the members are, with their keys,
/// is for the network's parameters to say; here is where they are.
///
/// All times are in milliseconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClusterSection {
    /// Where the other members connect to: an address of its own, not that of `[messaging]`.
    pub listen: SocketAddr,
    /// How long the first round of a batch lasts; it doubles from round to round, up to eight times
    /// as long. A proposer that is away costs an eighth of it. 1,000 unless given.
    #[serde(default = "round_timeout_ms")]
    pub round_timeout_ms: u64,
    /// How often another member is asked for new batches, and requests that wait are brought to
    /// all. 1,000 unless given.
    #[serde(default = "poll_ms")]
    pub poll_ms: u64,
    /// After how long a request of this node that has no end is given up: its fate is then unknown,
    /// and it may be asked for again. 10,000 unless given.
    #[serde(default = "decide_ms")]
    pub decide_ms: u64,
    /// After how long members that have not answered a request are asked again; it doubles up to
    /// eight times as long. 1,000 unless given.
    #[serde(default = "ask_again_ms")]
    pub ask_again_ms: u64,
    /// A side of a link that has written nothing for so long writes a heartbeat. 3,000 unless given.
    #[serde(default = "heartbeat_ms")]
    pub heartbeat_ms: u64,
    /// A side of a link that has read nothing for so long ends it; at least twice `heartbeat_ms`.
    /// Connecting and the handshake may take as long. 10,000 unless given.
    #[serde(default = "silence_ms")]
    pub silence_ms: u64,
    /// The first wait before a link that ended, or could not be made, is made again; it doubles up
    /// to 50 times as long, and a random part of it is left out. 100 unless given.
    #[serde(default = "reconnect_ms")]
    pub reconnect_ms: u64,
    /// Where each other member listens, by the name of its node: `host:port`.
    pub members: BTreeMap<Name, Address>,
}

fn round_timeout_ms() -> u64 {
    1_000
}

fn poll_ms() -> u64 {
    1_000
}

fn decide_ms() -> u64 {
    10_000
}

fn ask_again_ms() -> u64 {
    1_000
}

fn heartbeat_ms() -> u64 {
    3_000
}

fn silence_ms() -> u64 {
    10_000
}

fn reconnect_ms() -> u64 {
    100
}

/// An hour: no wait of a member is longer.
const LONGEST_MS: u64 = 3_600_000;

/// A section that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClusterSectionError {
    /// A time that is zero or longer than an hour.
    #[error("[cluster] `{key}` is {value} ms; it must be from 1 to {LONGEST_MS}")]
    Time {
        /// The key.
        key: &'static str,
        /// What it says.
        value: u64,
    },
    /// Members that are right would be taken for dead between two heartbeats.
    #[error("[cluster] `silence_ms` ({silence_ms}) must be at least twice `heartbeat_ms` ({heartbeat_ms})")]
    Silence {
        /// What the one says.
        silence_ms: u64,
        /// What the other says.
        heartbeat_ms: u64,
    },
    /// A request would be given up before anybody is asked again.
    #[error("[cluster] `decide_ms` ({decide_ms}) must be more than `ask_again_ms` ({ask_again_ms})")]
    Patience {
        /// What the one says.
        decide_ms: u64,
        /// What the other says.
        ask_again_ms: u64,
    },
    /// The cluster has a member whose address is not given.
    #[error("[cluster.members] has no address of `{0}`, which is a member of the cluster")]
    Missing(Name),
    /// An address of somebody who is no member, or of this node itself.
    #[error("[cluster.members] has an address of `{0}`, which is no other member of the cluster")]
    Unknown(Name),
}

impl ClusterSection {
    /// The section of a node, out of the addresses of all members; `None` where it is none of them.
    #[must_use]
    pub fn among(node: &Name, addresses: &BTreeMap<Name, SocketAddr>) -> Option<Self> {
        let others = addresses.iter().filter(|(member, _)| *member != node);
        let others = others.map(|(member, address)| (member.clone(), Address::from(*address)));
        addresses.get(node).map(|listen| Self::new(*listen, others.collect()))
    }

    /// A section with the times that are taken unless others are given.
    #[must_use]
    pub fn new(listen: SocketAddr, members: BTreeMap<Name, Address>) -> Self {
        Self {
            listen,
            round_timeout_ms: round_timeout_ms(),
            poll_ms: poll_ms(),
            decide_ms: decide_ms(),
            ask_again_ms: ask_again_ms(),
            heartbeat_ms: heartbeat_ms(),
            silence_ms: silence_ms(),
            reconnect_ms: reconnect_ms(),
            members,
        }
    }

    /// Checks what can be checked without the cluster.
    ///
    /// # Errors
    /// [`ClusterSectionError`]; each names the key.
    pub fn validate(&self) -> Result<(), ClusterSectionError> {
        let times = [
            ("round_timeout_ms", self.round_timeout_ms),
            ("poll_ms", self.poll_ms),
            ("decide_ms", self.decide_ms),
            ("ask_again_ms", self.ask_again_ms),
            ("heartbeat_ms", self.heartbeat_ms),
            ("silence_ms", self.silence_ms),
            ("reconnect_ms", self.reconnect_ms),
        ];
        if let Some((key, value)) = times.into_iter().find(|(_, value)| !(1..=LONGEST_MS).contains(value)) {
            return Err(ClusterSectionError::Time { key, value });
        }
        let Self { silence_ms, heartbeat_ms, decide_ms, ask_again_ms, .. } = *self;
        if silence_ms < 2 * heartbeat_ms {
            return Err(ClusterSectionError::Silence { silence_ms, heartbeat_ms });
        }
        if decide_ms <= ask_again_ms {
            return Err(ClusterSectionError::Patience { decide_ms, ask_again_ms });
        }
        Ok(())
    }

    /// Checks that the addresses are those of the other members.
    pub(super) fn check_members(&self, cluster: &Cluster, me: &Name) -> Result<(), ClusterSectionError> {
        let others: BTreeSet<&Name> =
            cluster.members().iter().map(|member| &member.name).filter(|name| *name != me).collect();
        if let Some(missing) = others.iter().find(|name| !self.members.contains_key(**name)) {
            return Err(ClusterSectionError::Missing((*missing).clone()));
        }
        match self.members.keys().find(|name| !others.contains(name)) {
            Some(unknown) => Err(ClusterSectionError::Unknown(unknown.clone())),
            None => Ok(()),
        }
    }

    /// What the replica is configured with. Limits are the same at all members, so they are not for
    /// a node to say.
    pub(super) fn config(&self) -> Config {
        Config { round_timeout_ms: self.round_timeout_ms, poll_ms: self.poll_ms, ..Config::default() }
    }

    pub(super) fn times(&self) -> Times {
        let ms = Duration::from_millis;
        Times {
            decide: ms(self.decide_ms),
            ask_again: ms(self.ask_again_ms),
            heartbeat: ms(self.heartbeat_ms),
            silence: ms(self.silence_ms),
            reconnect: ms(self.reconnect_ms),
        }
    }
}

/// The times of links and requests.
#[derive(Clone, Copy, Debug)]
pub(super) struct Times {
    pub(super) decide: Duration,
    pub(super) ask_again: Duration,
    pub(super) heartbeat: Duration,
    pub(super) silence: Duration,
    pub(super) reconnect: Duration,
}

#[cfg(test)]
mod tests {
    use super::*;
    use tally_contracts::{Scheme, SigningKey};
    use tally_crypto::Hash;
    use tally_notary::Member;

    const TEXT: &str = "listen = \"127.0.0.1:10005\"\n[members]\n\
        \"O=Notary 2, L=London, C=GB\" = \"two.example:10005\"\n\
        \"O=Notary 3, L=London, C=GB\" = \"127.0.0.1:3\"\n\
        \"O=Notary 4, L=London, C=GB\" = \"[::1]:4\"\n";

    fn section(text: &str) -> ClusterSection {
        toml::from_str(text).expect("a section")
    }

    fn name(n: u8) -> Name {
        format!("O=Notary {n}, L=London, C=GB").parse().expect("a name")
    }

    #[test]
    fn a_section_is_read_written_and_what_is_wrong_is_named() {
        let good = section(TEXT);
        good.validate().expect("a good section");
        assert_eq!(good, ClusterSection::new(good.listen, good.members.clone()));
        assert_eq!(section(&toml::to_string(&good).expect("text")), good);
        let with = |line: &str| section(&TEXT.replacen('\n', &format!("\n{line}\n"), 1)).validate();
        for (line, named) in [
            ("poll_ms = 0", "`poll_ms`"),
            ("decide_ms = 3600001", "`decide_ms`"),
            ("heartbeat_ms = 6000", "`silence_ms`"),
            ("ask_again_ms = 10000", "`decide_ms`"),
        ] {
            let error = with(line).expect_err(line).to_string();
            assert!(error.contains(named), "{line}: {error}");
        }
        for wrong in ["port = 1", "listen = 5"] {
            let text = TEXT.replacen('\n', &format!("\n{wrong}\n"), 1);
            assert!(toml::from_str::<ClusterSection>(&text).is_err(), "{wrong}");
        }
        assert!(toml::from_str::<ClusterSection>(&TEXT.replace("127.0.0.1:3", "nowhere")).is_err());
    }

    #[test]
    fn addresses_are_those_of_the_other_members() {
        let member = |n: u8| {
            let key = SigningKey::from_secret(Scheme::Ed25519, &[n; 32]).expect("a key");
            Member { name: name(n), voter: [n; 20], key: key.public_key() }
        };
        let cluster = Cluster::new(Hash::default(), (1..=4).map(member).collect()).expect("a cluster");
        let mut section = section(TEXT);
        section.check_members(&cluster, &name(1)).expect("all others");
        let address = section.members.remove(&name(3)).expect("it is there");
        assert_eq!(section.check_members(&cluster, &name(1)), Err(ClusterSectionError::Missing(name(3))));
        for extra in [1, 5] {
            section.members.extend([(name(3), address.clone()), (name(extra), address.clone())]);
            let found = section.check_members(&cluster, &name(1));
            assert_eq!(found, Err(ClusterSectionError::Unknown(name(extra))));
            section.members.remove(&name(extra));
        }
    }
}
