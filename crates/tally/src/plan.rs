//! The plan of a network: what `tally network init` makes.
//!
//! A TOML file; several are joined. Every key that is not described here is an error.

use crate::configuration::{ParticipantKind, distinct};
use crate::name;
use anyhow::{Context, bail, ensure};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use tally_ledger::{Amount, AssetKind};
use tally_ops::config::Loader;

/// Who takes part, what is held, and what everybody has at the start.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// The institutions.
    #[serde(default)]
    pub participant: Vec<PlannedParticipant>,
    /// The currencies and securities.
    #[serde(default)]
    pub asset: Vec<PlannedAsset>,
    /// The customers' accounts.
    #[serde(default)]
    pub account: Vec<PlannedAccount>,
}

/// An institution.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlannedParticipant {
    /// BIC, 8 or 11 characters.
    #[serde(deserialize_with = "name::bic")]
    pub bic: String,
    /// X.500 name.
    #[serde(deserialize_with = "name::distinguished")]
    pub name: String,
    /// What it is.
    pub kind: ParticipantKind,
    /// By asset: what the settlement institution issues to it at the start.
    #[serde(default)]
    pub reserves: BTreeMap<String, String>,
    /// By asset: how far below zero its settlement account may go.
    #[serde(default)]
    pub credit: BTreeMap<String, String>,
    /// The alias of the account that payments without an account go to or come from.
    #[serde(default, deserialize_with = "name::alias")]
    pub unidentified_account: Option<String>,
}

/// A currency or security.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlannedAsset {
    /// ISO 4217 code or ISIN.
    #[serde(deserialize_with = "name::asset")]
    pub code: String,
    /// How many decimals its minor unit has.
    pub exponent: u8,
    /// The BIC of the institution where the others hold settlement accounts for it.
    #[serde(deserialize_with = "name::bic")]
    pub settled_at: String,
    /// The largest amount of one leg; without it, what 18 digits hold.
    pub largest_payment: Option<String>,
}

impl PlannedAsset {
    /// What it is: the code tells.
    pub fn kind(&self) -> AssetKind {
        if name::is_currency(&self.code) { AssetKind::Currency } else { AssetKind::Security }
    }
}

/// A customer's account.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlannedAccount {
    /// Who holds it; for people only.
    #[serde(default)]
    pub holder: Option<String>,
    /// The BIC of the institution.
    #[serde(deserialize_with = "name::bic")]
    pub institution: String,
    /// Its IBAN; this or `alias`.
    #[serde(default, deserialize_with = "name::iban")]
    pub iban: Option<String>,
    /// Another name by which payments find it.
    #[serde(default, deserialize_with = "name::alias")]
    pub alias: Option<String>,
    /// What it holds: the code of an asset.
    #[serde(deserialize_with = "name::asset")]
    pub currency: String,
    /// What is on it at the start.
    #[serde(default)]
    pub opening: Option<String>,
    /// How far below zero it may go; an amount of zero or more.
    #[serde(default)]
    pub overdraft: Option<String>,
    /// The name of the key that owns it; without it, the account's own name. Accounts with the same key name
    /// have one owner. `@institution` is the institution itself.
    #[serde(default)]
    pub key: Option<String>,
}

/// The key name that stands for the institution itself.
pub const INSTITUTION_KEY: &str = "@institution";

impl PlannedAccount {
    /// The name by which payments find the account.
    pub fn name(&self) -> &str {
        self.iban.as_deref().or(self.alias.as_deref()).unwrap_or_default()
    }
    /// The name of the key that owns it.
    pub fn key_name(&self) -> &str {
        self.key.as_deref().unwrap_or_else(|| self.name())
    }
    /// Whether its institution owns it itself.
    pub fn is_owned_by_institution(&self) -> bool {
        self.key.as_deref() == Some(INSTITUTION_KEY)
    }
}

impl Plan {
    /// Reads and joins plan files.
    ///
    /// # Errors
    /// With file, line and key when a file is not a plan.
    pub fn read(files: &[impl AsRef<Path>]) -> anyhow::Result<Self> {
        let mut plan = Self::default();
        for file in files {
            plan.join(Loader::new().file(file.as_ref()).max_bytes(64 << 20).load()?);
        }
        Ok(plan)
    }

    /// The plan of the demonstration: a central bank, three banks and a depository; euro, dollar and one bond;
    /// the customers of `examples/`.
    ///
    /// # Panics
    /// Never: both files are part of the program and a test reads them.
    pub fn demo() -> Self {
        let read = |text: &str| -> Self { toml::from_str(text).expect("the built-in plan is a plan") };
        let mut plan = read(include_str!("demo.toml"));
        plan.join(read(include_str!("../../../examples/accounts.toml")));
        plan
    }

    fn join(&mut self, other: Self) {
        self.participant.extend(other.participant);
        self.asset.extend(other.asset);
        self.account.extend(other.account);
    }

    /// The asset of that code.
    pub fn asset(&self, code: &str) -> Option<&PlannedAsset> {
        self.asset.iter().find(|asset| asset.code == code)
    }

    /// Checks what one entry says of another: codes and BICs that exist, names used once, amounts that fit.
    ///
    /// # Errors
    /// Naming the entry.
    pub fn check(&self) -> anyhow::Result<()> {
        ensure!(!self.participant.is_empty(), "the plan has no [[participant]]");
        ensure!(!self.asset.is_empty(), "the plan has no [[asset]]");
        distinct("participant", self.participant.iter().map(|p| p.bic.as_str()))?;
        distinct("asset", self.asset.iter().map(|a| a.code.as_str()))?;
        for asset in &self.asset {
            self.participant_exists(&asset.settled_at).with_context(|| format!("asset {}", asset.code))?;
            ensure!(asset.exponent <= 9, "asset {}: an exponent of 0 to 9 is wanted", asset.code);
        }
        for participant in &self.participant {
            for (code, amount) in participant.reserves.iter().chain(&participant.credit) {
                self.amount(code, amount).with_context(|| format!("participant {}", participant.bic))?;
                ensure!(
                    self.asset(code).is_some_and(|asset| asset.settled_at != participant.bic),
                    "participant {}: {code} is settled in its own books, so it holds no reserves there",
                    participant.bic
                );
            }
        }
        let mut names = BTreeSet::new();
        for (position, account) in self.account.iter().enumerate() {
            let place = || format!("account {} ('{}')", position + 1, account.name());
            ensure!(account.iban.is_some() != account.alias.is_some(), "{}: give iban or alias", place());
            self.participant_exists(&account.institution).with_context(place)?;
            for amount in account.opening.iter().chain(&account.overdraft) {
                self.amount(&account.currency, amount).with_context(place)?;
            }
            ensure!(self.asset(&account.currency).is_some(), "{}: no asset {}", place(), account.currency);
            if !names.insert((account.institution.as_str(), account.name())) {
                bail!("{}: that name is taken at {}", place(), account.institution);
            }
        }
        for participant in &self.participant {
            if let Some(alias) = &participant.unidentified_account {
                ensure!(
                    names.contains(&(participant.bic.as_str(), alias.as_str())),
                    "participant {}: unidentified_account '{alias}' is not one of its accounts",
                    participant.bic
                );
            }
        }
        Ok(())
    }

    /// An amount of the asset of that code; zero or more.
    ///
    /// # Errors
    /// When there is no such asset or the text is no such amount.
    pub fn amount(&self, code: &str, text: &str) -> anyhow::Result<Amount> {
        let Some(asset) = self.asset(code) else { bail!("the plan has no asset {code}") };
        let amount = Amount::parse(text, asset.exponent)?;
        ensure!(!amount.is_debit(), "'{text}' is negative");
        Ok(amount)
    }

    fn participant_exists(&self, bic: &str) -> anyhow::Result<()> {
        ensure!(self.participant.iter().any(|p| p.bic == bic), "the plan has no participant {bic}");
        Ok(())
    }
}

#[cfg(test)]
mod tests;
