//! `network.toml`: the configuration of a network, as a person reads and edits it.

use crate::layout::Layout;
use crate::{name, stages};
use anyhow::{Context, bail, ensure};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::Path;
use tally_crypto::PublicKey;
use tally_gateway::settings::{Institution, Settings};
use tally_gateway::tls;
use tally_ledger::{
    Amount, Asset, AssetId, AssetKind, Network, NetworkId, Participant, ParticipantId, SignaturePolicy,
};
use tally_ops::config::{ENVIRONMENT_PREFIX, Loader};
use tally_settlement::audit::{Earlier, Limit};

pub use tally_gateway::settings::{ControlSum, HttpSection, MessagesSection, ParticipantKind};

/// Largest `network.toml` that is read, in bytes: ten thousand institutions fit.
const MAX_BYTES: u64 = 16 << 20;

/// The whole file.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Configuration {
    /// What all stages agree on.
    pub network: NetworkSection,
    /// How payment messages are read.
    #[serde(default)]
    pub messages: MessagesSection,
    /// How the network answers over HTTP.
    #[serde(default)]
    pub http: HttpSection,
    /// By participant id: entries are only ever added, at the end.
    pub participants: Vec<ParticipantSection>,
    /// By asset id: entries are only ever added, at the end.
    pub assets: Vec<AssetSection>,
    /// Limits that were looser before, for the audit: whoever lowers one adds what it was.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub earlier: Vec<EarlierSection>,
}

/// `[[earlier]]`: a credit or a largest payment that was lowered.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EarlierSection {
    /// The sequence number from which on the present value holds: what `tally network status` says once the network runs
    /// with it, or later.
    pub until: u64,
    /// Of which asset.
    #[serde(deserialize_with = "name::asset")]
    pub asset: String,
    /// The largest amount of one leg before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub largest_payment: Option<String>,
    /// The BIC of the institution whose credit was lowered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub institution: Option<String>,
    /// How far below zero its settlement account could go before; an amount of zero or more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credit: Option<String>,
}

/// `[network]`
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NetworkSection {
    /// The network's id: the BLAKE3 hash of `genesis.toml`, 64 lower-case hexadecimal digits.
    pub id: NetworkId,
    /// Which transactions need their payers' signatures: what `genesis.toml` says, for the life of the
    /// network.
    #[serde(default)]
    pub signatures: SignaturePolicy,
    /// How far ahead a transaction's expiry may lie; so long is every reference remembered.
    pub longest_validity_ms: u64,
}

/// `[[participants]]`
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ParticipantSection {
    /// BIC, 8 or 11 characters.
    #[serde(deserialize_with = "name::bic")]
    pub bic: String,
    /// X.500 name.
    #[serde(deserialize_with = "name::distinguished")]
    pub name: String,
    /// What it is.
    pub kind: ParticipantKind,
    /// With which it signs approvals and orders.
    pub key: PublicKey,
    /// The alias of the account that payments without an account go to or come from; without it they are
    /// refused.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "name::alias")]
    pub unidentified_account: Option<String>,
    /// By asset: how far below zero its settlement account may go; an amount of zero or more.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub credit: BTreeMap<String, String>,
}

/// `[[assets]]`
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AssetSection {
    /// ISO 4217 code or ISIN.
    #[serde(deserialize_with = "name::asset")]
    pub code: String,
    /// What it is.
    pub kind: AssetKind,
    /// How many decimals its minor unit has.
    pub exponent: u8,
    /// The BIC of the institution where the others hold settlement accounts for it.
    #[serde(deserialize_with = "name::bic")]
    pub settled_at: String,
    /// The largest amount of one leg.
    pub largest_payment: String,
}

/// What a network began with: the file whose hash is the network's id.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Genesis {
    /// Which transactions need their payers' signatures, for the life of the network: as the file's hash is the
    /// network's id, every signature is given under this policy. A file without it says `required`.
    #[serde(default)]
    pub signatures: SignaturePolicy,
    /// The first participants.
    pub participants: Vec<GenesisParticipant>,
    /// The first assets.
    pub assets: Vec<GenesisAsset>,
}

/// A participant of the beginning.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GenesisParticipant {
    /// Its BIC.
    #[serde(deserialize_with = "name::bic")]
    pub bic: String,
    /// Its public key.
    pub key: PublicKey,
}

/// An asset of the beginning.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GenesisAsset {
    /// Its code.
    pub code: String,
    /// Its decimals.
    pub exponent: u8,
    /// Where it is settled.
    #[serde(deserialize_with = "name::bic")]
    pub settled_at: String,
}

impl Genesis {
    /// The id of the network whose genesis file has these bytes.
    pub fn network_id(file: &[u8]) -> NetworkId {
        NetworkId(*tally_crypto::hash(file).as_bytes())
    }
}

/// The variables of the environment that are text, without those that set something in the other of a network's two files:
/// they are cluster.toml's if `of_cluster`, else network.toml's.
pub(crate) fn environment(of_cluster: bool) -> impl Iterator<Item = (String, String)> {
    let text =
        |(name, value): (OsString, OsString)| Some((name.into_string().ok()?, value.into_string().ok()?));
    std::env::vars_os().filter_map(text).filter(move |(name, _)| belongs(name, of_cluster))
}

fn belongs(variable: &str, of_cluster: bool) -> bool {
    let setting = variable.strip_prefix(ENVIRONMENT_PREFIX).and_then(|rest| rest.split_once("__"));
    setting.is_none_or(|(section, _)| stages::is_section(&section.to_ascii_lowercase()) == of_cluster)
}

impl Configuration {
    /// Reads the configuration of a network; the environment and `flags` (`section.key=value`) override the
    /// file. Checks that the network is still the one that its genesis made.
    ///
    /// # Errors
    /// When a file cannot be read or says something that does not fit.
    pub fn read(layout: &Layout, flags: &[String]) -> anyhow::Result<Self> {
        let file = layout.configuration();
        if !file.exists() {
            bail!(
                "{} is not a network: it has no network.toml; `tally network init DIR` makes one",
                layout.root().display()
            );
        }
        let configuration: Self = Loader::new()
            .file(&file)
            .max_bytes(MAX_BYTES)
            .environment(environment(false))
            .flags(flags)
            .load()?;
        configuration.matches_genesis(layout).with_context(|| format!("{}", file.display()))?;
        let network = configuration.network().with_context(|| format!("{}", file.display()))?;
        configuration.earlier(&network).with_context(|| format!("{}", file.display()))?;
        Ok(configuration)
    }

    fn matches_genesis(&self, layout: &Layout) -> anyhow::Result<()> {
        let path = layout.genesis();
        let bytes = std::fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let id = Genesis::network_id(&bytes);
        ensure!(
            self.network.id == id,
            "network.id is {}, but genesis.toml makes it {id}: one of the two was changed",
            self.network.id
        );
        let genesis: Genesis = Loader::new().file(&path).max_bytes(MAX_BYTES).load()?;
        ensure!(
            self.network.signatures == genesis.signatures,
            "network.signatures is {}, and genesis.toml says {}: that holds for the life of the network, since every \
             signature was given under it. Take the setting out of network.toml, the environment or --set; a network with \
             the other policy is a new one: tally network init DIR --signatures {}",
            policy_name(self.network.signatures),
            policy_name(genesis.signatures),
            policy_name(self.network.signatures),
        );
        let same = |wanted: &GenesisParticipant, found: &ParticipantSection| {
            wanted.bic == found.bic && wanted.key == found.key
        };
        let kept = genesis.participants.len() <= self.participants.len()
            && genesis.participants.iter().zip(&self.participants).all(|(wanted, found)| same(wanted, found));
        ensure!(kept, "participants: those of genesis.toml must come first, in their order, with their keys");
        let same = |wanted: &GenesisAsset, found: &AssetSection| {
            wanted.code == found.code
                && wanted.exponent == found.exponent
                && wanted.settled_at == found.settled_at
        };
        let kept = genesis.assets.len() <= self.assets.len()
            && genesis.assets.iter().zip(&self.assets).all(|(wanted, found)| same(wanted, found));
        ensure!(kept, "assets: those of genesis.toml must come first, in their order, as they were");
        Ok(())
    }

    /// What the genesis file of a network with this configuration says.
    pub fn genesis(&self) -> Genesis {
        let participant = |p: &ParticipantSection| GenesisParticipant { bic: p.bic.clone(), key: p.key };
        let asset = |a: &AssetSection| GenesisAsset {
            code: a.code.clone(),
            exponent: a.exponent,
            settled_at: a.settled_at.clone(),
        };
        Genesis {
            signatures: self.network.signatures,
            participants: self.participants.iter().map(participant).collect(),
            assets: self.assets.iter().map(asset).collect(),
        }
    }

    /// The configuration as the stages use it.
    ///
    /// # Errors
    /// When an entry names another that is not there, a name is used twice, or an amount does not fit.
    pub fn network(&self) -> anyhow::Result<Network> {
        distinct("participants", self.participants.iter().map(|p| p.bic.as_str()))?;
        distinct("assets", self.assets.iter().map(|a| a.code.as_str()))?;
        ensure!(
            self.participants.len() <= tally_ledger::AccountNumber::MAX_PARTICIPANTS
                && self.assets.len() <= tally_ledger::AccountNumber::MAX_ASSETS,
            "more participants or assets than account numbers can name"
        );
        let mut network = Network {
            id: self.network.id,
            participants: Vec::new(),
            assets: Vec::new(),
            signatures: self.network.signatures,
            longest_validity_ms: self.network.longest_validity_ms,
        };
        for asset in &self.assets {
            let place = || format!("assets: {}", asset.code);
            let settled_at = self.position(&asset.settled_at).with_context(place)?;
            ensure!(asset.exponent <= 9, "{}: an exponent of 0 to 9 is wanted", place());
            network.assets.push(Asset {
                code: asset.code.clone(),
                kind: asset.kind,
                exponent: asset.exponent,
                settled_at,
                largest_payment: Amount::parse(&asset.largest_payment, asset.exponent).with_context(place)?,
            });
        }
        for participant in &self.participants {
            let mut settlement_floors = Vec::new();
            for (code, amount) in &participant.credit {
                let place = || format!("participants: {}: credit", participant.bic);
                settlement_floors.push(floor(&network, code, amount).with_context(place)?);
            }
            network.participants.push(Participant {
                bic: participant.bic.clone(),
                name: participant.name.clone(),
                key: participant.key,
                settlement_floors,
            });
        }
        Ok(network)
    }

    /// The limits that were looser before, as an audit takes them.
    ///
    /// # Errors
    /// When an entry names what is not there, or not exactly one limit.
    pub fn earlier(&self, network: &Network) -> anyhow::Result<Vec<Earlier>> {
        let one = |(at, section): (usize, &EarlierSection)| {
            let EarlierSection { until, asset: code, largest_payment, institution, credit } = section;
            let place = || format!("earlier: entry {}", at + 1);
            let (asset, properties) =
                network.asset(code).with_context(|| format!("{}: no asset {code}", place()))?;
            let limit = match (largest_payment, institution, credit) {
                (Some(largest), None, None) => Limit::LargestPayment(
                    asset,
                    Amount::parse(largest, properties.exponent).with_context(place)?,
                ),
                (None, Some(bic), Some(credit)) => {
                    let holder = self.position(bic).with_context(place)?;
                    Limit::SettlementFloor(holder, asset, floor(network, code, credit).with_context(place)?.1)
                }
                _ => bail!("{}: give largest_payment, or institution and credit", place()),
            };
            Ok(Earlier { until: *until, limit })
        };
        self.earlier.iter().enumerate().map(one).collect()
    }

    /// What a gateway of this network is told; files that the configuration names are in `directory`.
    ///
    /// # Errors
    /// When the files for TLS cannot be used.
    pub fn gateway(&self, directory: &Path) -> anyhow::Result<Settings> {
        let institution = |participant: &ParticipantSection| Institution {
            kind: participant.kind,
            unidentified_account: participant.unidentified_account.clone(),
        };
        let tls = self.http.tls.as_ref().map(|section| tls::configuration(section, directory));
        Ok(Settings {
            http: self.http.clone(),
            messages: self.messages.clone(),
            institutions: self.participants.iter().map(institution).collect(),
            tls: tls.transpose().context("http.tls")?,
        })
    }

    fn position(&self, bic: &str) -> anyhow::Result<ParticipantId> {
        let found = (0u16..).zip(&self.participants).find(|(_, participant)| participant.bic == bic);
        found.map(|(id, _)| ParticipantId(id)).with_context(|| format!("there is no participant {bic}"))
    }
}

/// The name of a policy, as configuration has it.
pub(crate) fn policy_name(policy: SignaturePolicy) -> &'static str {
    match policy {
        SignaturePolicy::Required => "required",
        SignaturePolicy::InstitutionsOnly => "institutions-only",
    }
}

/// The floor that a credit line of `amount` means.
fn floor(network: &Network, code: &str, amount: &str) -> anyhow::Result<(AssetId, Amount)> {
    let Some((id, asset)) = network.asset(code) else { bail!("there is no asset {code}") };
    let amount = Amount::parse(amount, asset.exponent)?;
    ensure!(!amount.is_debit(), "the amount is negative: give how far below zero it may go");
    Ok((id, amount.checked_neg().context("the amount does not fit")?))
}

/// That no name is used twice.
pub(crate) fn distinct<'n>(what: &str, names: impl Iterator<Item = &'n str>) -> anyhow::Result<()> {
    let mut seen = BTreeSet::new();
    for name in names {
        ensure!(seen.insert(name), "{what}: two are called {name}");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use tally_crypto::SigningKey;

    pub(super) fn sample() -> Configuration {
        let key = |seed| SigningKey::from_seed([seed; 32]).public_key();
        let participant = |bic: &str, kind, seed| ParticipantSection {
            bic: bic.to_owned(),
            name: format!("O={bic},C=DE"),
            kind,
            key: key(seed),
            unidentified_account: None,
            credit: BTreeMap::new(),
        };
        let mut configuration = Configuration {
            network: NetworkSection {
                id: NetworkId::default(),
                signatures: SignaturePolicy::Required,
                longest_validity_ms: 1000,
            },
            messages: MessagesSection::default(),
            http: HttpSection::default(),
            participants: vec![
                participant("TSCBDEFF", ParticipantKind::CentralBank, 1),
                participant("ALPHDEFF", ParticipantKind::Bank, 2),
            ],
            assets: vec![AssetSection {
                code: "EUR".to_owned(),
                kind: AssetKind::Currency,
                exponent: 2,
                settled_at: "TSCBDEFF".to_owned(),
                largest_payment: "1000.00".to_owned(),
            }],
            earlier: Vec::new(),
        };
        configuration.participants[1].credit.insert("EUR".to_owned(), "5.00".to_owned());
        configuration
    }

    fn write(layout: &Layout, configuration: &mut Configuration) {
        let genesis = toml::to_string(&configuration.genesis()).unwrap();
        configuration.network.id = Genesis::network_id(genesis.as_bytes());
        std::fs::write(layout.genesis(), genesis).unwrap();
        std::fs::write(layout.configuration(), toml::to_string(&configuration).unwrap()).unwrap();
    }

    #[test]
    fn a_variable_sets_something_in_one_of_the_two_files() {
        for (variable, in_network, in_cluster) in [
            ("TALLY_KAFKA__BROKERS", false, true),
            ("TALLY_HTTP__LISTEN", true, false),
            // Whoever misspells a section is told by one of them.
            ("TALLY_KAFAK__BROKERS", true, false),
            // These set nothing.
            ("TALLY_NETWORK", true, true),
            ("PATH", true, true),
        ] {
            assert_eq!(
                (belongs(variable, false), belongs(variable, true)),
                (in_network, in_cluster),
                "{variable}"
            );
        }
    }

    #[test]
    fn no_damaged_configuration_is_more_than_an_error() {
        let directory = tempfile::tempdir().unwrap();
        let layout = Layout::new(directory.path());
        write(&layout, &mut sample());
        let (mut good, mut bad) = (0, 0);
        for file in [layout.configuration(), layout.genesis()] {
            let whole = std::fs::read_to_string(&file).unwrap();
            let (read, refused) = crate::damaged::survives(&[&whole], ".toml", |text| {
                std::fs::write(&file, text)?;
                let _ = Configuration::read(&layout, &[])?.network();
                Ok(())
            });
            std::fs::write(&file, &whole).unwrap();
            (good, bad) = (good + read, bad + refused);
        }
        assert!(good > 100 && bad > 100, "{good} good, {bad} bad: damage is neither always nor never felt");
    }

    #[test]
    fn what_is_written_is_read_back() {
        let directory = tempfile::tempdir().unwrap();
        let layout = Layout::new(directory.path());
        let mut configuration = sample();
        write(&layout, &mut configuration);
        let read = Configuration::read(&layout, &["messages.control_sum=ignore".to_owned()]).unwrap();
        assert_eq!(read.network().unwrap(), configuration.network().unwrap());
        assert_eq!(read.messages.control_sum, ControlSum::Ignore);
        let network = read.network().unwrap();
        assert_eq!(network.settlement_floor(ParticipantId(1), AssetId(0)), Amount(-500));
        assert_eq!(network.assets[0].largest_payment, Amount(100_000));
    }

    #[test]
    fn a_network_of_an_older_version_is_called_so() {
        let directory = tempfile::tempdir().unwrap();
        let layout = Layout::new(directory.path());
        let mut configuration = sample();
        write(&layout, &mut configuration);
        let id = configuration.network.id.to_string();
        let text = std::fs::read_to_string(layout.configuration()).unwrap();
        std::fs::write(layout.configuration(), text.replacen(&id, &id[..8], 1)).unwrap();
        let error = format!("{:#}", Configuration::read(&layout, &[]).unwrap_err());
        for part in [&id[..8], "an older version of this program made that network", "start a new network"] {
            assert!(error.contains(part), "{part}: {error}");
        }
        assert!(error.contains("network.toml"), "{error}");
    }

    #[test]
    fn a_network_only_grows() {
        let directory = tempfile::tempdir().unwrap();
        let layout = Layout::new(directory.path());
        let mut configuration = sample();
        write(&layout, &mut configuration);
        let refused = |configuration: &Configuration| {
            std::fs::write(layout.configuration(), toml::to_string(configuration).unwrap()).unwrap();
            format!("{:#}", Configuration::read(&layout, &[]).unwrap_err())
        };
        let mut changed = configuration.clone();
        changed.participants.swap(0, 1);
        assert!(refused(&changed).contains("must come first"));
        let mut changed = configuration.clone();
        changed.assets[0].exponent = 3;
        assert!(refused(&changed).contains("as they were"));
        let mut changed = configuration.clone();
        changed.network.id = NetworkId::default();
        assert!(refused(&changed).contains("genesis.toml makes it"));

        let mut grown = configuration.clone();
        grown
            .participants
            .push(ParticipantSection { bic: "BETAFRPP".to_owned(), ..grown.participants[1].clone() });
        grown.assets[0].largest_payment = "7".to_owned();
        std::fs::write(layout.configuration(), toml::to_string(&grown).unwrap()).unwrap();
        assert_eq!(Configuration::read(&layout, &[]).unwrap().participants.len(), 3);
    }

    #[test]
    fn the_genesis_fixes_whose_signatures_are_needed() {
        let directory = tempfile::tempdir().unwrap();
        let layout = Layout::new(directory.path());
        for (made, other) in [
            (SignaturePolicy::Required, SignaturePolicy::InstitutionsOnly),
            (SignaturePolicy::InstitutionsOnly, SignaturePolicy::Required),
        ] {
            let mut configuration = sample();
            configuration.network.signatures = made;
            write(&layout, &mut configuration);
            let read = |flags: &[String]| Configuration::read(&layout, flags);
            assert_eq!(read(&[]).unwrap().network().unwrap().signatures, made);
            let set = |policy| [format!("network.signatures={}", policy_name(policy))];
            read(&set(made)).unwrap();
            let refused = format!("{:#}", read(&set(other)).unwrap_err());
            let said = format!("network.signatures is {}, and genesis.toml says", policy_name(other));
            assert!(refused.contains(&said) && refused.contains("tally network init"), "{refused}");
            configuration.network.signatures = other;
            std::fs::write(layout.configuration(), toml::to_string(&configuration).unwrap()).unwrap();
            assert!(format!("{:#}", read(&[]).unwrap_err()).contains(&said));
        }
        // The two policies make two networks.
        let id = |policy| {
            let mut configuration = sample();
            configuration.network.signatures = policy;
            Genesis::network_id(toml::to_string(&configuration.genesis()).unwrap().as_bytes())
        };
        assert_ne!(id(SignaturePolicy::Required), id(SignaturePolicy::InstitutionsOnly));
    }

    #[test]
    fn limits_of_before_are_one_each_and_of_what_is_there() {
        let text = |entry: &str| format!("[[earlier]]\nuntil = 7\nasset = \"EUR\"\n{entry}");
        let read = |entry: &str| -> anyhow::Result<Vec<Earlier>> {
            let mut configuration = sample();
            let added: BTreeMap<String, Vec<EarlierSection>> = toml::from_str(&text(entry))?;
            configuration.earlier = added["earlier"].clone();
            configuration.earlier(&configuration.network()?)
        };
        let limit = |entry: &str| read(entry).unwrap()[0];
        let largest = Limit::LargestPayment(AssetId(0), Amount(200_000));
        assert_eq!(limit("largest_payment = \"2000.00\""), Earlier { until: 7, limit: largest });
        let credit = Limit::SettlementFloor(ParticipantId(1), AssetId(0), Amount(-900));
        assert_eq!(limit("institution = \"ALPHDEFF\"\ncredit = \"9.00\"").limit, credit);
        for bad in [
            "",
            "credit = \"9.00\"",
            "institution = \"BETAFRPP\"\ncredit = \"9.00\"",
            "institution = \"ALPHDEFF\"\ncredit = \"-9.00\"",
            "institution = \"ALPHDEFF\"\ncredit = \"9.00\"\nlargest_payment = \"2.00\"",
            "largest_payment = \"2.001\"",
        ] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_genesis_without_a_policy_needs_every_signature() {
        let directory = tempfile::tempdir().unwrap();
        let layout = Layout::new(directory.path());
        let mut configuration = sample();
        let genesis = toml::to_string(&configuration.genesis()).unwrap();
        let genesis = genesis.replace("signatures = \"required\"\n", "");
        assert!(!genesis.contains("signatures"));
        configuration.network.id = Genesis::network_id(genesis.as_bytes());
        std::fs::write(layout.genesis(), genesis).unwrap();
        std::fs::write(layout.configuration(), toml::to_string(&configuration).unwrap()).unwrap();
        Configuration::read(&layout, &[]).unwrap();
        let flags = ["network.signatures=institutions-only".to_owned()];
        assert!(Configuration::read(&layout, &flags).is_err());
    }

    #[test]
    fn entries_that_do_not_fit_are_named() {
        let mut configuration = sample();
        configuration.assets[0].settled_at = "BETAFRPP".to_owned();
        let error = |configuration: &Configuration| format!("{:#}", configuration.network().unwrap_err());
        assert!(error(&configuration).contains("assets: EUR: there is no participant BETAFRPP"));
        let mut configuration = sample();
        configuration.participants[1].credit.insert("USD".to_owned(), "1".to_owned());
        assert!(error(&configuration).contains("participants: ALPHDEFF: credit: there is no asset USD"));
        let mut configuration = sample();
        configuration.participants[1].bic = "TSCBDEFF".to_owned();
        assert!(error(&configuration).contains("two are called TSCBDEFF"));
    }
}
