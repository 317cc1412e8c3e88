//! Logs by address and topics.
//!
//! A header's bloom has 2,048 bits and is full after a few hundred logs. Instead, a table has a key for each value
//! that occurs in a block: a digest of position and value, then the block's number. A query walks the few
//! keys of its values and reads only blocks that hold them; digests may collide, so what is read is checked.

use std::collections::BTreeSet;
use std::ops::{Bound, RangeInclusive};

use alloy_primitives::{Address, B256, Log};
use tally_state::Snapshot;

use super::{Blocks, Damaged, FullBlock, Place, ReadError, Receipt, record};

/// Ranges of at most this many blocks are read without a look at the index.
const FEW_BLOCKS: u64 = 4;

/// Which logs are wanted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Of any of these contracts; of all when there are none.
    pub addresses: Vec<Address>,
    /// For each topic the values it may have; an empty list takes any, but the topic must be there.
    pub topics: Vec<Vec<B256>>,
}

impl Filter {
    /// Whether a log is wanted.
    pub fn matches(&self, log: &Log) -> bool {
        let topics = log.topics();
        (self.addresses.is_empty() || self.addresses.contains(&log.address))
            && self.topics.len() <= topics.len()
            && self
                .topics
                .iter()
                .zip(topics)
                .all(|(wanted, topic)| wanted.is_empty() || wanted.contains(topic))
    }

    /// Whether it names any value by which blocks can be found.
    fn is_selective(&self) -> bool {
        !self.addresses.is_empty() || self.topics.iter().any(|wanted| !wanted.is_empty())
    }

    fn criteria(&self) -> impl Iterator<Item = Vec<u64>> + '_ {
        let addresses = (!self.addresses.is_empty())
            .then(|| self.addresses.iter().map(|address| digest(0, address.into_word())).collect());
        let topics = self
            .topics
            .iter()
            .zip(1..)
            .filter(|(wanted, _)| !wanted.is_empty())
            .map(|(wanted, position)| wanted.iter().map(|topic| digest(position, *topic)).collect());
        addresses.into_iter().chain(topics)
    }
}

/// How much a query may cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogLimits {
    /// Blocks that are looked at, where no address or topic leads to the right ones.
    pub blocks: u64,
    /// Logs in the answer.
    pub logs: usize,
}

/// A query asks for more than is allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TooMuch {
    /// More blocks than may be searched.
    #[error("the range has {blocks} blocks, the limit is {limit}; name an address or topic, or ask for less")]
    Blocks {
        /// In the range.
        blocks: u64,
        /// Allowed.
        limit: u64,
    },
    /// More logs than may be given.
    #[error("more than {limit} logs match; the first {limit} go up to block {until}")]
    Logs {
        /// Allowed.
        limit: usize,
        /// The block in which the limit was reached.
        until: u64,
    },
}

/// A log and where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundLog {
    /// The log.
    pub log: Log,
    /// Its transaction's place.
    pub place: Place,
    /// Its index in the block.
    pub index: u64,
}

/// 64 bits of a value at a position. Values that collide cost time and nothing else.
fn digest(position: u64, value: B256) -> u64 {
    let mut mixed = position.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x51_7c_c1_b7_27_22_0a_95;
    for word in value.as_chunks::<8>().0 {
        let product = u128::from(mixed ^ u64::from_le_bytes(*word)) * 0xd6e8_feb8_6659_fd93_u128;
        mixed = (product as u64) ^ ((product >> 64) as u64);
    }
    mixed
}

fn key(digest: u64, block: u64) -> [u8; 16] {
    let mut key = [0; 16];
    key[..8].copy_from_slice(&digest.to_be_bytes());
    key[8..].copy_from_slice(&block.to_be_bytes());
    key
}

/// The keys under which a block's logs are found, each once.
pub(super) fn keys(block: &FullBlock) -> Vec<[u8; 16]> {
    let mut digests: Vec<u64> = block
        .receipts
        .iter()
        .flat_map(|receipt| &receipt.logs)
        .flat_map(|log| {
            let topics = log.topics().iter().zip(1..).map(|(topic, position)| digest(position, *topic));
            std::iter::once(digest(0, log.address.into_word())).chain(topics)
        })
        .collect();
    digests.sort_unstable();
    digests.dedup();
    digests.into_iter().map(|digest| key(digest, block.number())).collect()
}

/// The logs of a block that a filter wants.
pub(super) fn of_receipts<'a>(
    filter: &'a Filter,
    number: u64,
    receipts: impl IntoIterator<Item = (u32, &'a Receipt)> + 'a,
) -> impl Iterator<Item = FoundLog> + 'a {
    receipts.into_iter().flat_map(move |(index, receipt)| {
        receipt.logs.iter().zip(receipt.first_log..).filter(|(log, _)| filter.matches(log)).map(
            move |(log, at)| FoundLog { log: log.clone(), place: Place { block: number, index }, index: at },
        )
    })
}

impl FullBlock {
    /// The logs that a filter wants, in order.
    pub fn logs<'a>(&'a self, filter: &'a Filter) -> impl Iterator<Item = FoundLog> + 'a {
        of_receipts(filter, self.number(), (0..).zip(&self.receipts))
    }
}

impl Blocks {
    /// Which blocks of a range can hold logs that a filter wants, in order; every block where the filter names neither
    /// address nor topic.
    ///
    /// # Errors
    /// The store's, a damaged record, and [`TooMuch::Blocks`] as the inner error.
    pub fn candidates(
        &self,
        at: &Snapshot,
        filter: &Filter,
        range: RangeInclusive<u64>,
        limits: LogLimits,
    ) -> Result<Result<Vec<u64>, TooMuch>, ReadError> {
        let (first, last) = range.into_inner();
        let Some(span) = last.checked_sub(first) else { return Ok(Ok(Vec::new())) };
        if span < FEW_BLOCKS || (!filter.is_selective() && span < limits.blocks) {
            return Ok(Ok((first..=last).collect()));
        }
        if !filter.is_selective() {
            return Ok(Err(TooMuch::Blocks { blocks: span.saturating_add(1), limit: limits.blocks }));
        }
        let mut wanted: Option<BTreeSet<u64>> = None;
        for digests in filter.criteria() {
            let mut found = BTreeSet::new();
            for digest in digests {
                let (from, to) = (key(digest, first), key(digest, last));
                for entry in at.range(self.logs, Bound::Included(&from), Bound::Included(&to)) {
                    let (found_key, _) = entry?;
                    let number = found_key
                        .last_chunk::<8>()
                        .ok_or_else(|| Damaged::new("the index of logs", &found_key, "too short"))?;
                    let number = u64::from_be_bytes(*number);
                    if wanted.as_ref().is_none_or(|wanted| wanted.contains(&number)) {
                        found.insert(number);
                    }
                }
            }
            let none_left = found.is_empty();
            wanted = Some(found);
            if none_left {
                break;
            }
        }
        Ok(Ok(wanted.unwrap_or_default().into_iter().collect()))
    }

    /// The logs of one canonical block that a filter wants, read from its receipts alone.
    ///
    /// # Errors
    /// The store's, and a damaged record.
    pub fn logs(&self, at: &Snapshot, filter: &Filter, number: u64) -> Result<Vec<FoundLog>, ReadError> {
        let receipts = self.of_block(at, self.receipts, number, |place, bytes| {
            let receipt: Receipt = record::read("a receipt", place, bytes)?;
            Ok((place.index, receipt))
        })?;
        Ok(of_receipts(filter, number, receipts.iter().map(|(index, receipt)| (*index, receipt))).collect())
    }
}
