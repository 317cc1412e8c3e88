//! Which block is meant: a number, a name, a hash, or an object that says which of them (EIP-1898).

use alloy_primitives::B256;
use serde::Deserialize;

use super::{FromArgument, Hexed, decode_u64, text};

/// A block by number or name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum BlockName {
    /// By number.
    Number(u64),
    /// The newest.
    #[default]
    Latest,
    /// What would come next.
    Pending,
    /// The first.
    Earliest,
    /// The newest that is safe.
    Safe,
    /// The newest that is final.
    Finalized,
}

/// A block by number, name or hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlockChoice {
    /// By number or name.
    Name(BlockName),
    /// By hash.
    Hash(B256),
}

impl Default for BlockChoice {
    fn default() -> Self {
        Self::Name(BlockName::Latest)
    }
}

fn name(text: &str) -> Result<BlockName, String> {
    Ok(match text {
        "latest" => BlockName::Latest,
        "pending" => BlockName::Pending,
        "earliest" => BlockName::Earliest,
        "safe" => BlockName::Safe,
        "finalized" => BlockName::Finalized,
        number => {
            let number = decode_u64(number)?;
            if i64::try_from(number).is_err() {
                return Err("block number larger than int64".into());
            }
            BlockName::Number(number)
        }
    })
}

impl FromArgument for BlockName {
    fn from_json(raw: &str) -> Result<Self, String> {
        name(&text(raw)?)
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Object {
    block_number: Option<Hexed<BlockName>>,
    block_hash: Option<Hexed<B256>>,
    // Every hash that is found is of the chain itself, so asking for that changes nothing.
    #[serde(rename = "requireCanonical")]
    _require_canonical: Option<bool>,
}

impl FromArgument for BlockChoice {
    fn from_json(raw: &str) -> Result<Self, String> {
        if raw.starts_with('{') {
            let object: Object = serde_json::from_str(raw).map_err(|error| error.to_string())?;
            return match (object.block_number, object.block_hash) {
                (Some(Hexed(name)), None) => Ok(Self::Name(name)),
                (None, Some(Hexed(hash))) => Ok(Self::Hash(hash)),
                (Some(_), Some(_)) => {
                    Err("cannot specify both BlockHash and BlockNumber, choose one or the other".into())
                }
                (None, None) => Err("neither blockNumber nor blockHash is given".into()),
            };
        }
        let text = text(raw)?;
        if text.len() == 66 {
            return B256::from_json(raw).map(Self::Hash);
        }
        name(&text).map(Self::Name)
    }
}
