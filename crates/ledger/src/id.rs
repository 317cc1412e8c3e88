//! Identifiers. All are dense small integers inside the network, so that a table is an array and a
//! lookup is one memory access; names (BIC, IBAN, alias) are resolved to them once, at the edge.

use bytemuck::{Pod, Zeroable};
use serde::{Deserialize, Serialize};
use std::fmt;

/// A participant: its position in the network's configuration, which only ever grows.
#[repr(transparent)]
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Pod, Zeroable, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct ParticipantId(pub u16);

impl ParticipantId {
    /// The position as an array index.
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// An asset: its position in the network's configuration, which only ever grows.
#[repr(transparent)]
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Pod, Zeroable, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct AssetId(pub u16);

impl AssetId {
    /// The position as an array index.
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// A network: the BLAKE3 hash of its genesis file. Every signed form commits to the whole of it, so
/// that a signature is worth nothing on another network.
///
/// Text and serde form: 64 lower-case hexadecimal digits.
#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Pod, Zeroable)]
pub struct NetworkId(pub [u8; 32]);

impl NetworkId {
    /// The first four bytes, as headers of transactions have them.
    pub fn tag(&self) -> NetworkTag {
        let [a, b, c, d, ..] = self.0;
        NetworkTag(u32::from_le_bytes([a, b, c, d]))
    }
}

impl fmt::Display for NetworkId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&tally_crypto::Hash::from_bytes(self.0), f)
    }
}

impl fmt::Debug for NetworkId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A text that is no network's id.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum NotNetworkId {
    /// It is one of version 1 of the signed forms, which had four bytes of it.
    #[error(
        "'{0}' is a network's id of 8 digits: an older version of this program made that network, and this one \
         does not read its signed forms; start a new network, and read or hand over the old one with that version"
    )]
    Earlier(String),
    /// It is none of any version.
    #[error("'{0}' is not a network's id: 64 lower-case hexadecimal digits are wanted")]
    Form(String),
}

impl std::str::FromStr for NetworkId {
    type Err = NotNetworkId;
    fn from_str(text: &str) -> Result<Self, NotNetworkId> {
        let digits = text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        match text.parse::<tally_crypto::Hash>() {
            Ok(hash) if digits => Ok(Self(*hash.as_bytes())),
            _ if digits && text.len() == 8 => Err(NotNetworkId::Earlier(text.to_owned())),
            _ => Err(NotNetworkId::Form(text.chars().take(80).collect())),
        }
    }
}

impl Serialize for NetworkId {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for NetworkId {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// The first four bytes of a [`NetworkId`], little-endian: tells most transactions of other
/// networks without hashing. No signed form has it; the id that is signed commits to the whole
/// [`NetworkId`].
#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Pod, Zeroable)]
pub struct NetworkTag(pub u32);

/// The number of an account inside one participant's partition.
///
/// Customers' accounts count from 0 in the order in which they are opened. The institution's own
/// accounts carry the top bit and follow from asset and role, so that configuration alone names
/// them: `1 | asset (15 bits) | slot (16 bits)`, slot 0 for issuance, 1 for own funds, `2 + p` for
/// the settlement account that participant `p` holds there.
#[repr(transparent)]
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Pod, Zeroable, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct AccountNumber(pub u32);

/// What an account is for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum AccountRole {
    /// A customer's account.
    Customer,
    /// The counter-account of what the institution issued: minus its balance is the amount issued.
    Issuance(AssetId),
    /// The institution's own funds.
    Own(AssetId),
    /// The account that a participant holds at the asset's settlement institution.
    Settlement(AssetId, ParticipantId),
}

impl AccountNumber {
    const INSTITUTION: u32 = 1 << 31;
    /// The most assets that account numbers can name.
    pub const MAX_ASSETS: usize = 1 << 15;
    /// The most participants that account numbers can name.
    pub const MAX_PARTICIPANTS: usize = (1 << 16) - 2;
    /// The most customers' accounts in one partition.
    pub const MAX_CUSTOMERS: u32 = 1 << 31;

    #[expect(clippy::as_conversions, reason = "widening in a const fn")]
    const fn institution(asset: AssetId, slot: u32) -> Self {
        Self(Self::INSTITUTION | ((asset.0 as u32) << 16) | slot)
    }
    /// The account against which the institution issues `asset`.
    pub const fn issuance(asset: AssetId) -> Self {
        Self::institution(asset, 0)
    }
    /// The institution's own funds in `asset`.
    pub const fn own(asset: AssetId) -> Self {
        Self::institution(asset, 1)
    }
    /// The account in `asset` that `holder` has at the asset's settlement institution.
    pub fn settlement(asset: AssetId, holder: ParticipantId) -> Self {
        Self::institution(asset, u32::from(holder.0).saturating_add(2))
    }
    /// Whether this is one of the institution's own accounts.
    pub const fn is_institution(self) -> bool {
        self.0 & Self::INSTITUTION != 0
    }
    /// What the account is for, read from its number.
    pub fn role(self) -> AccountRole {
        if !self.is_institution() {
            return AccountRole::Customer;
        }
        let [slot_low, slot_high, asset_low, asset_high] = self.0.to_le_bytes();
        let asset = AssetId(u16::from_le_bytes([asset_low, asset_high & 0x7f]));
        match u16::from_le_bytes([slot_low, slot_high]) {
            0 => AccountRole::Issuance(asset),
            1 => AccountRole::Own(asset),
            slot => AccountRole::Settlement(asset, ParticipantId(slot.saturating_sub(2))),
        }
    }
}

/// An account of the network.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct AccountId {
    /// Whose liability the account is.
    pub participant: ParticipantId,
    /// The account in that participant's partition.
    pub number: AccountNumber,
}

impl fmt::Display for AccountId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.number.role() {
            AccountRole::Customer => write!(f, "{}/{}", self.participant.0, self.number.0),
            AccountRole::Issuance(asset) => write!(f, "{}/issuance:{}", self.participant.0, asset.0),
            AccountRole::Own(asset) => write!(f, "{}/own:{}", self.participant.0, asset.0),
            AccountRole::Settlement(asset, holder) => {
                write!(f, "{}/settlement:{}:{}", self.participant.0, asset.0, holder.0)
            }
        }
    }
}

/// Milliseconds since the Unix epoch.
#[repr(transparent)]
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Pod, Zeroable, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Timestamp(pub u64);

impl Timestamp {
    /// This time and `ms` milliseconds more, at most the end of time.
    pub fn plus_ms(self, ms: u64) -> Self {
        Self(self.0.saturating_add(ms))
    }
}

/// Unique End-to-end Transaction Reference: a UUID that the payer's side chooses (ISO 20022 `UETR`).
#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Pod, Zeroable)]
pub struct Uetr(pub [u8; 16]);

impl fmt::Display for Uetr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, byte) in self.0.iter().enumerate() {
            if matches!(i, 4 | 6 | 8 | 10) {
                f.write_str("-")?;
            }
            write!(f, "{byte:02x}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Uetr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The text is not a UUID of 32 hexadecimal digits in groups of 8-4-4-4-12.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("'{0}' is not a UETR: a UUID such as 97ed4827-7b6f-4491-a06f-b548d5a7512d is wanted")]
pub struct NotUetr(pub String);

impl std::str::FromStr for Uetr {
    type Err = NotUetr;
    fn from_str(text: &str) -> Result<Self, NotUetr> {
        let refuse = || NotUetr(text.chars().take(64).collect());
        if text.len() != 36 {
            return Err(refuse());
        }
        let mut digits = Vec::with_capacity(32);
        for (i, c) in text.bytes().enumerate() {
            match (matches!(i, 8 | 13 | 18 | 23), c) {
                (true, b'-') => {}
                (false, _) => {
                    let digit = char::from(c).to_digit(16).ok_or_else(refuse)?;
                    digits.push(u8::try_from(digit).map_err(|_| refuse())?);
                }
                _ => return Err(refuse()),
            }
        }
        let mut bytes = [0; 16];
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            *byte = (pair[0] << 4) | pair[1];
        }
        Ok(Self(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn account_numbers_say_their_role() {
        let (asset, bank) = (AssetId(0x7abc), ParticipantId(0xfff0));
        assert_eq!(AccountNumber(7).role(), AccountRole::Customer);
        assert_eq!(AccountNumber::issuance(asset).role(), AccountRole::Issuance(asset));
        assert_eq!(AccountNumber::own(asset).role(), AccountRole::Own(asset));
        assert_eq!(AccountNumber::settlement(asset, bank).role(), AccountRole::Settlement(asset, bank));
    }

    #[test]
    fn a_network_id_reads_what_it_prints_and_nothing_else() {
        let id = NetworkId(*tally_crypto::hash(b"genesis").as_bytes());
        let text = id.to_string();
        assert_eq!(text.parse(), Ok(id));
        assert_eq!(format!("{id:?}"), text);
        let short = text[..8].to_owned();
        assert_eq!(short.parse::<NetworkId>(), Err(NotNetworkId::Earlier(short)));
        for bad in ["", "7a11000", "7A110001", &text[1..], &format!("{text}0"), &text.to_uppercase()] {
            assert_eq!(bad.parse::<NetworkId>(), Err(NotNetworkId::Form(bad.to_owned())), "{bad}");
        }
    }

    #[test]
    fn the_tag_is_the_first_four_bytes() {
        let mut id = NetworkId([9; 32]);
        id.0[..4].copy_from_slice(&[1, 2, 3, 4]);
        assert_eq!(id.tag(), NetworkTag(0x0403_0201));
        assert_eq!(bytemuck::bytes_of(&id.tag()), [1, 2, 3, 4]);
    }

    #[test]
    fn uetr_reads_what_it_prints_and_nothing_else() {
        let text = "97ed4827-7b6f-4491-a06f-b548d5a7512d";
        assert_eq!(text.parse::<Uetr>().unwrap().to_string(), text);
        for bad in [
            "",
            "97ed4827-7b6f-4491-a06f-b548d5a7512",
            "97ed4827x7b6f-4491-a06f-b548d5a7512d",
            "é7ed4827-7b6f-4491-a06f-b548d5a7512",
        ] {
            assert!(bad.parse::<Uetr>().is_err(), "{bad}");
        }
    }
}
