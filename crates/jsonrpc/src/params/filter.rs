//! Which logs are wanted (execution-apis, schemas/filter).

use alloy_primitives::{Address, B256};
use serde::Deserialize;
use serde_json::value::RawValue;
use tally_chain::blocks::Filter;

use super::{BlockName, FromArgument, Hexed};

/// The most addresses, and the most values of one topic.
const MOST_VALUES: usize = 1000;

/// Where logs are looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogRange {
    /// In one block.
    Block(B256),
    /// In a range; absent ends are the newest block.
    Range(Option<BlockName>, Option<BlockName>),
}

/// A query for logs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogQuery {
    /// Where.
    pub range: LogRange,
    /// Which.
    pub filter: Filter,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Object<'a> {
    from_block: Option<Hexed<BlockName>>,
    to_block: Option<Hexed<BlockName>>,
    block_hash: Option<Hexed<B256>>,
    #[serde(borrow)]
    address: Option<&'a RawValue>,
    #[serde(borrow)]
    topics: Option<Vec<&'a RawValue>>,
}

/// One value, or a list of them; null is any.
fn values<T: FromArgument>(raw: &str) -> Result<Vec<T>, String> {
    if raw == "null" {
        return Ok(Vec::new());
    }
    if !raw.starts_with('[') {
        return T::from_json(raw).map(|value| vec![value]);
    }
    let list: Vec<&RawValue> = serde_json::from_str(raw).map_err(|error| error.to_string())?;
    if list.len() > MOST_VALUES {
        return Err("exceed max addresses or topics per search position".into());
    }
    // A null among the values lets any pass.
    if list.iter().any(|value| value.get() == "null") {
        return Ok(Vec::new());
    }
    list.into_iter().map(|value| T::from_json(value.get())).collect()
}

impl FromArgument for LogQuery {
    fn from_json(raw: &str) -> Result<Self, String> {
        let object: Object<'_> = serde_json::from_str(raw).map_err(|error| error.to_string())?;
        let range = match object.block_hash {
            Some(_) if object.from_block.is_some() || object.to_block.is_some() => {
                return Err(
                    "cannot specify both BlockHash and FromBlock/ToBlock, choose one or the other".into()
                );
            }
            Some(Hexed(hash)) => LogRange::Block(hash),
            None => LogRange::Range(
                object.from_block.map(|Hexed(name)| name),
                object.to_block.map(|Hexed(name)| name),
            ),
        };
        let addresses = object.address.map_or(Ok(Vec::new()), |raw| values::<Address>(raw.get()))?;
        let topics = object.topics.unwrap_or_default();
        if topics.len() > 4 {
            return Err("exceed max topics".into());
        }
        let topics = topics.into_iter().map(|raw| values::<B256>(raw.get())).collect::<Result<_, _>>()?;
        Ok(Self { range, filter: Filter { addresses, topics } })
    }
}
