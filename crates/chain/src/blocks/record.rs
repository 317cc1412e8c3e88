//! What the tables of blocks hold, as bytes. Only this program reads them; what it cannot read is damage.

use alloy_consensus::Eip658Value;
use alloy_primitives::{Address, B256, Log, U256};
use alloy_rlp::{Decodable, Encodable, Header as RlpHeader, RlpDecodable, RlpEncodable};
use tally_evm::transaction::{self, Recovered, Transaction};

use super::SealedHeader;

/// A record that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the record of {what} at {key} is damaged: {reason}")]
pub struct Damaged {
    /// What it was to be.
    pub what: &'static str,
    /// Where it lies.
    pub key: String,
    /// What is wrong.
    pub reason: String,
}

impl Damaged {
    pub(crate) fn new(what: &'static str, key: impl std::fmt::Debug, reason: impl ToString) -> Self {
        Self { what, key: format!("{key:?}"), reason: reason.to_string() }
    }
}

/// Where a transaction stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Place {
    /// The block's number.
    pub block: u64,
    /// Its index in the block.
    pub index: u32,
}

impl Place {
    /// Number and index, big endian: in the order of the chain.
    pub(super) fn key(self) -> [u8; 12] {
        let mut key = [0; 12];
        key[..8].copy_from_slice(&self.block.to_be_bytes());
        key[8..].copy_from_slice(&self.index.to_be_bytes());
        key
    }

    pub(super) fn from_key(key: &[u8]) -> Option<Self> {
        let (block, index) = key.split_first_chunk::<8>()?;
        Some(Self { block: u64::from_be_bytes(*block), index: u32::from_be_bytes(index.try_into().ok()?) })
    }
}

/// The outcome of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Receipt {
    /// Success or failure; before Byzantium the state root afterwards.
    pub outcome: Eip658Value,
    /// Gas of the block up to and including this transaction.
    pub cumulative_gas_used: u64,
    /// Gas of this transaction.
    pub gas_used: u64,
    /// The index in the block of its first log.
    pub first_log: u64,
    /// Its logs.
    pub logs: Vec<Log>,
}

impl Encodable for Receipt {
    fn encode(&self, out: &mut dyn alloy_rlp::BufMut) {
        self.rlp_header().encode(out);
        self.outcome.encode(out);
        self.cumulative_gas_used.encode(out);
        self.gas_used.encode(out);
        self.first_log.encode(out);
        self.logs.encode(out);
    }

    fn length(&self) -> usize {
        self.rlp_header().length_with_payload()
    }
}

impl Receipt {
    fn rlp_header(&self) -> RlpHeader {
        RlpHeader {
            list: true,
            payload_length: self.outcome.length()
                + self.cumulative_gas_used.length()
                + self.gas_used.length()
                + self.first_log.length()
                + self.logs.length(),
        }
    }
}

impl Decodable for Receipt {
    fn decode(bytes: &mut &[u8]) -> alloy_rlp::Result<Self> {
        let mut payload = RlpHeader::decode_bytes(bytes, true)?;
        let receipt = Self {
            outcome: Decodable::decode(&mut payload)?,
            cumulative_gas_used: Decodable::decode(&mut payload)?,
            gas_used: Decodable::decode(&mut payload)?,
            first_log: Decodable::decode(&mut payload)?,
            logs: Decodable::decode(&mut payload)?,
        };
        if payload.is_empty() { Ok(receipt) } else { Err(alloy_rlp::Error::UnexpectedLength) }
    }
}

/// What a block has beside header and transactions, where it has any of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, RlpEncodable, RlpDecodable)]
#[rlp(trailing)]
pub(super) struct Rest {
    /// Overtaken headers.
    pub(super) ommers: Vec<alloy_consensus::Header>,
    /// Since Shanghai.
    pub(super) withdrawals: Option<Vec<alloy_eips::eip4895::Withdrawal>>,
}

/// The sender before the encoding, so that reading a block recovers no keys.
pub(super) fn write_transaction(transaction: &Recovered) -> Vec<u8> {
    let encoded = transaction::encode(transaction.transaction());
    let mut out = Vec::with_capacity(20 + encoded.len());
    out.extend_from_slice(transaction.sender().as_slice());
    out.extend_from_slice(&encoded);
    out
}

pub(super) fn read_transaction(place: Place, bytes: &[u8]) -> Result<Recovered, Damaged> {
    let (sender, encoded) =
        bytes.split_first_chunk::<20>().ok_or_else(|| Damaged::new("a transaction", place, "too short"))?;
    let transaction: Transaction =
        transaction::decode(encoded).map_err(|error| Damaged::new("a transaction", place, error))?;
    Ok(Recovered::new_unchecked(transaction, Address::from(*sender)))
}

/// Hash, total difficulty and size before the header's RLP, so that reading them hashes nothing.
pub(super) fn write_header(sealed: &SealedHeader) -> Vec<u8> {
    let mut out = Vec::with_capacity(72 + sealed.header.length());
    out.extend_from_slice(sealed.hash.as_slice());
    out.extend_from_slice(&sealed.total_difficulty.to_be_bytes::<32>());
    out.extend_from_slice(&sealed.size.to_be_bytes());
    sealed.header.encode(&mut out);
    out
}

pub(super) fn read_hash(number: u64, bytes: &[u8]) -> Result<B256, Damaged> {
    let hash = bytes.first_chunk::<32>().ok_or_else(|| Damaged::new("a header", number, "too short"))?;
    Ok(B256::from(*hash))
}

pub(super) fn read_header(number: u64, bytes: &[u8]) -> Result<SealedHeader, Damaged> {
    let short = || Damaged::new("a header", number, "too short");
    let (hash, rest) = bytes.split_first_chunk::<32>().ok_or_else(short)?;
    let (total, rest) = rest.split_first_chunk::<32>().ok_or_else(short)?;
    let (size, rlp) = rest.split_first_chunk::<8>().ok_or_else(short)?;
    Ok(SealedHeader {
        hash: B256::from(*hash),
        total_difficulty: U256::from_be_bytes(*total),
        size: u64::from_be_bytes(*size),
        header: read("a header", number, rlp)?,
    })
}

pub(super) fn read<T: Decodable>(
    what: &'static str,
    key: impl std::fmt::Debug,
    mut bytes: &[u8],
) -> Result<T, Damaged> {
    let value = T::decode(&mut bytes).map_err(|error| Damaged::new(what, &key, error))?;
    if bytes.is_empty() { Ok(value) } else { Err(Damaged::new(what, key, "bytes follow it")) }
}
