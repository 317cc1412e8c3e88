//! Who takes part and what is held: the configuration on which every stage agrees.

use crate::amount::Amount;
use crate::id::{AssetId, NetworkId, ParticipantId, Timestamp};
use serde::{Deserialize, Serialize};
use tally_crypto::PublicKey;

/// Which transactions need the signatures of the debited accounts' owners.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, Default)]
#[serde(rename_all = "kebab-case")]
pub enum SignaturePolicy {
    /// Every one: what a network in use has.
    #[default]
    Required,
    /// Only what institutions order (issue, redeem, accounts), as in the published experiment: for benchmarks.
    InstitutionsOnly,
}

/// What an asset is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AssetKind {
    /// Money, named by its ISO 4217 code.
    Currency,
    /// A security, named by its ISIN.
    Security,
}

/// An asset and where it is settled.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Asset {
    /// ISO 4217 code or ISIN.
    pub code: String,
    /// What it is.
    pub kind: AssetKind,
    /// How many decimals its minor unit has.
    pub exponent: u8,
    /// In whose partition the others hold settlement accounts for it.
    pub settled_at: ParticipantId,
    /// The largest amount of one leg.
    pub largest_payment: Amount,
}

/// A regulated institution.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Participant {
    /// BIC, 8 or 11 characters (ISO 9362).
    pub bic: String,
    /// X.500 distinguished name.
    pub name: String,
    /// The key with which it signs approvals and orders.
    pub key: PublicKey,
    /// How far below zero its settlement account may go in each asset: agreed intraday credit.
    pub settlement_floors: Vec<(AssetId, Amount)>,
}

/// The configuration on which every stage agrees. Participants and assets are only ever added.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Network {
    /// See [`NetworkId`].
    pub id: NetworkId,
    /// By [`ParticipantId`].
    pub participants: Vec<Participant>,
    /// By [`AssetId`].
    pub assets: Vec<Asset>,
    /// Whose signatures are needed.
    pub signatures: SignaturePolicy,
    /// How far ahead an expiry may lie, in milliseconds; so long is every reference remembered.
    pub longest_validity_ms: u64,
}

impl Network {
    /// The asset of that code.
    pub fn asset(&self, code: &str) -> Option<(AssetId, &Asset)> {
        (0u16..).map(AssetId).zip(&self.assets).find(|(_, asset)| asset.code == code)
    }
    /// The participant of that BIC; `XXX` names the head office and may be left out (ISO 9362).
    pub fn participant(&self, bic: &str) -> Option<(ParticipantId, &Participant)> {
        let head = |bic: &str| match bic.len() {
            11 => bic.strip_suffix("XXX").unwrap_or(bic).to_owned(),
            _ => bic.to_owned(),
        };
        let wanted = head(bic);
        (0u16..).map(ParticipantId).zip(&self.participants).find(|(_, p)| head(&p.bic) == wanted)
    }
    /// The latest expiry that a transaction written at `now` should have. A tenth of the longest validity, a minute at most,
    /// is left for the clock of the scheduler, which may be behind and refuses what expires too far ahead.
    pub fn latest_expiry(&self, now: Timestamp) -> Timestamp {
        let longest_ms = self.longest_validity_ms;
        now.plus_ms(longest_ms.saturating_sub((longest_ms / 10).min(60_000)))
    }
    /// How far below zero a participant's settlement account may go.
    pub fn settlement_floor(&self, holder: ParticipantId, asset: AssetId) -> Amount {
        self.participants
            .get(holder.index())
            .and_then(|p| p.settlement_floors.iter().find(|(of, _)| *of == asset))
            .map_or(Amount::ZERO, |(_, floor)| *floor)
    }
}
