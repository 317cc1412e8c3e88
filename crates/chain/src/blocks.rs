//! The tables of blocks: headers, transactions, receipts, and where to find them.
//!
//! Only blocks of the canonical chain are in these tables, by number; a block on another branch lies in a table of its
//! own, as it came, until the chain moves to it. Transactions and receipts are single records, so that
//! reading one of them does not read its block.

mod logs;
mod record;

use std::ops::Bound;
use std::sync::Arc;

use alloy_consensus::{Eip658Value, Header, ReceiptEnvelope};
use alloy_eips::Encodable2718 as _;
use alloy_eips::eip4895::Withdrawal;
use alloy_primitives::{B256, U256};
use alloy_rlp::Encodable;
use tally_evm::{Block, Recovered};
use tally_state::{Batch, Database, Snapshot, StoreError, Table};

pub use logs::{Filter, FoundLog, LogLimits, TooMuch};
pub use record::{Damaged, Place, Receipt};

/// Reading a block failed.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The store could not be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A record is damaged.
    #[error(transparent)]
    Damaged(#[from] Damaged),
}

/// A header with what its block's record says beside it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SealedHeader {
    /// The block's hash.
    pub hash: B256,
    /// Difficulties of all blocks up to and including this one.
    pub total_difficulty: U256,
    /// Bytes of the block as RLP.
    pub size: u64,
    /// The header.
    pub header: Header,
}

/// A block whose senders are known, with its outcome.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FullBlock {
    /// Its header.
    pub sealed: SealedHeader,
    /// Its transactions.
    pub transactions: Vec<Recovered>,
    /// One for each transaction.
    pub receipts: Vec<Receipt>,
    /// Overtaken headers.
    pub ommers: Vec<Header>,
    /// Since Shanghai.
    pub withdrawals: Option<Vec<Withdrawal>>,
}

impl FullBlock {
    /// The number in its header.
    pub fn number(&self) -> u64 {
        self.sealed.header.number
    }

    /// The hashes of its transactions.
    pub fn hashes(&self) -> impl Iterator<Item = B256> + '_ {
        self.transactions.iter().map(Recovered::hash)
    }

    /// The block as RLP, as it travels and as files hold it.
    pub fn encode(&self) -> Vec<u8> {
        let mut transactions = Vec::with_capacity(usize::try_from(self.sealed.size).unwrap_or(0));
        for transaction in &self.transactions {
            tally_evm::transaction::encode_in_list(transaction, &mut transactions);
        }
        let payload = self.payload_length(transactions.len());
        let mut out = Vec::with_capacity(list(payload).length_with_payload());
        list(payload).encode(&mut out);
        self.sealed.header.encode(&mut out);
        list(transactions.len()).encode(&mut out);
        out.extend_from_slice(&transactions);
        self.ommers.encode(&mut out);
        if let Some(withdrawals) = &self.withdrawals {
            withdrawals.encode(&mut out);
        }
        out
    }

    /// The length of what [`encode`](Self::encode) gives, from its parts.
    pub(crate) fn encoded_length(&self) -> u64 {
        let transactions = self.transactions.iter().map(|transaction| transaction.network_len()).sum();
        let length = list(self.payload_length(transactions)).length_with_payload();
        u64::try_from(length).unwrap_or(u64::MAX)
    }

    /// The length of the block's list, whose transactions take `transactions` bytes.
    fn payload_length(&self, transactions: usize) -> usize {
        self.sealed.header.length()
            + list(transactions).length_with_payload()
            + self.ommers.length()
            + self.withdrawals.as_ref().map_or(0, Encodable::length)
    }

    /// About how many bytes it takes in memory.
    pub fn memory_bytes(&self) -> usize {
        let logs: usize = self
            .receipts
            .iter()
            .flat_map(|receipt| &receipt.logs)
            .map(|log| 96 + log.data.data.len() + 32 * log.topics().len())
            .sum();
        let transactions =
            self.transactions.len() * 320 + usize::try_from(self.sealed.size).unwrap_or(usize::MAX / 2);
        1_024 + transactions + self.receipts.len() * 120 + logs
    }
}

/// Receipts in the form in which they are kept.
pub fn receipts(envelopes: &[ReceiptEnvelope]) -> Vec<Receipt> {
    let mut gas_before = 0;
    let mut logs_before = 0;
    envelopes
        .iter()
        .map(|envelope| {
            let receipt = envelope.as_receipt().expect("an Ethereum receipt has a receipt");
            let kept = Receipt {
                outcome: receipt.status,
                cumulative_gas_used: receipt.cumulative_gas_used,
                gas_used: receipt.cumulative_gas_used.saturating_sub(gas_before),
                first_log: logs_before,
                logs: receipt.logs.clone(),
            };
            gas_before = receipt.cumulative_gas_used;
            logs_before += receipt.logs.len() as u64;
            kept
        })
        .collect()
}

/// Whether the transaction went through, where its receipt says so.
pub fn succeeded(outcome: &Eip658Value) -> Option<bool> {
    match outcome {
        Eip658Value::Eip658(success) => Some(*success),
        Eip658Value::PostState(_) => None,
    }
}

/// The tables.
#[derive(Clone, Copy, Debug)]
pub struct Blocks {
    headers: Table,
    numbers: Table,
    hashes: Table,
    transactions: Table,
    receipts: Table,
    places: Table,
    rest: Table,
    logs: Table,
    branches: Table,
}

impl Blocks {
    /// The tables of a store, made where they are missing.
    ///
    /// # Errors
    /// The store's.
    pub fn open(database: &Database) -> Result<Self, StoreError> {
        Ok(Self {
            headers: database.table("headers")?,
            numbers: database.table("numbers")?,
            hashes: database.table("hashes")?,
            transactions: database.table("transactions")?,
            receipts: database.table("receipts")?,
            places: database.table("places")?,
            rest: database.table("rest")?,
            logs: database.table("logs")?,
            branches: database.table("branches")?,
        })
    }

    /// Adds a block of the canonical chain.
    pub fn put(&self, batch: &mut Batch, block: &FullBlock) {
        let number = block.number();
        let key = number.to_be_bytes();
        batch.put(self.headers, key, record::write_header(&block.sealed));
        batch.put(self.numbers, block.sealed.hash, key);
        let mut hashes = Vec::with_capacity(32 * block.transactions.len());
        for (index, transaction) in block.transactions.iter().enumerate() {
            let place =
                Place { block: number, index: u32::try_from(index).expect("a block's length is limited") };
            let hash = transaction.hash();
            hashes.extend_from_slice(hash.as_slice());
            batch.put(self.transactions, place.key(), record::write_transaction(transaction));
            batch.put(self.places, hash, place.key());
        }
        if !hashes.is_empty() {
            batch.put(self.hashes, key, hashes);
        }
        for (index, receipt) in block.receipts.iter().enumerate() {
            let place =
                Place { block: number, index: u32::try_from(index).expect("a block's length is limited") };
            batch.put(self.receipts, place.key(), alloy_rlp::encode(receipt));
        }
        if !block.ommers.is_empty() || block.withdrawals.is_some() {
            let rest = record::Rest { ommers: block.ommers.clone(), withdrawals: block.withdrawals.clone() };
            batch.put(self.rest, key, alloy_rlp::encode(&rest));
        }
        for key in logs::keys(block) {
            batch.put(self.logs, key, []);
        }
    }

    /// Takes a block out of the canonical chain.
    pub fn remove(&self, batch: &mut Batch, block: &FullBlock) {
        let number = block.number();
        let key = number.to_be_bytes();
        batch.delete(self.headers, key);
        batch.delete(self.numbers, block.sealed.hash);
        batch.delete(self.hashes, key);
        batch.delete(self.rest, key);
        for (index, transaction) in block.transactions.iter().enumerate() {
            let place =
                Place { block: number, index: u32::try_from(index).expect("a block's length is limited") };
            batch.delete(self.transactions, place.key());
            batch.delete(self.receipts, place.key());
            batch.delete(self.places, transaction.hash());
        }
        for key in logs::keys(block) {
            batch.delete(self.logs, key);
        }
    }

    /// Keeps a block that is not of the canonical chain, with the difficulties up to and including it.
    pub fn put_branch(&self, batch: &mut Batch, hash: B256, total_difficulty: U256, rlp: &[u8]) {
        let mut record = total_difficulty.to_be_bytes::<32>().to_vec();
        record.extend_from_slice(rlp);
        batch.put(self.branches, hash, record);
    }

    /// Takes a block out that is now of the canonical chain.
    pub fn remove_branch(&self, batch: &mut Batch, hash: B256) {
        batch.delete(self.branches, hash);
    }

    /// A block that is not of the canonical chain, and the difficulties up to and including it.
    ///
    /// # Errors
    /// The store's, and a damaged record.
    pub fn branch(&self, at: &Snapshot, hash: B256) -> Result<Option<(U256, Block)>, ReadError> {
        let Some(record) = at.get(self.branches, hash)? else { return Ok(None) };
        let damaged = |reason: &dyn std::fmt::Display| Damaged::new("a block", hash, reason.to_string());
        let (total, rlp) = record.split_first_chunk::<32>().ok_or_else(|| damaged(&"too short"))?;
        let block = Block::decode(rlp).map_err(|error| damaged(&error))?;
        Ok(Some((U256::from_be_bytes(*total), block)))
    }

    /// The number of the canonical block with this hash.
    ///
    /// # Errors
    /// The store's, and a damaged record.
    pub fn number(&self, at: &Snapshot, hash: B256) -> Result<Option<u64>, ReadError> {
        let Some(record) = at.get(self.numbers, hash)? else { return Ok(None) };
        let number = <[u8; 8]>::try_from(&record[..])
            .map_err(|_| Damaged::new("a block's number", hash, "not eight bytes"))?;
        Ok(Some(u64::from_be_bytes(number)))
    }

    /// The header of a canonical block.
    ///
    /// # Errors
    /// The store's, and a damaged record.
    pub fn header(&self, at: &Snapshot, number: u64) -> Result<Option<SealedHeader>, ReadError> {
        match at.get(self.headers, number.to_be_bytes())? {
            Some(record) => Ok(Some(record::read_header(number, &record)?)),
            None => Ok(None),
        }
    }

    /// The hash of a canonical block.
    ///
    /// # Errors
    /// The store's, and a damaged record.
    pub fn hash(&self, at: &Snapshot, number: u64) -> Result<Option<B256>, ReadError> {
        match at.get(self.headers, number.to_be_bytes())? {
            Some(record) => Ok(Some(record::read_hash(number, &record)?)),
            None => Ok(None),
        }
    }

    /// The newest canonical block.
    ///
    /// # Errors
    /// The store's, and a damaged record.
    pub fn newest(&self, at: &Snapshot) -> Result<Option<SealedHeader>, ReadError> {
        let Some((key, record)) = at.last(self.headers)? else { return Ok(None) };
        let number = <[u8; 8]>::try_from(&key[..])
            .map_err(|_| Damaged::new("a header", &key, "its key is not a number"))?;
        Ok(Some(record::read_header(u64::from_be_bytes(number), &record)?))
    }

    /// Hashes of the transactions of a canonical block, 32 bytes each, one after the other.
    ///
    /// # Errors
    /// The store's.
    pub fn hashes(&self, at: &Snapshot, number: u64) -> Result<Vec<u8>, ReadError> {
        Ok(at.get(self.hashes, number.to_be_bytes())?.map_or_else(Vec::new, |value| value.to_vec()))
    }

    /// Where a transaction stands.
    ///
    /// # Errors
    /// The store's, and a damaged record.
    pub fn place(&self, at: &Snapshot, hash: B256) -> Result<Option<Place>, ReadError> {
        let Some(record) = at.get(self.places, hash)? else { return Ok(None) };
        let place = Place::from_key(&record)
            .ok_or_else(|| Damaged::new("a transaction's place", hash, "not twelve bytes"))?;
        Ok(Some(place))
    }

    /// The transaction at a place.
    ///
    /// # Errors
    /// The store's, and a damaged record.
    pub fn transaction(&self, at: &Snapshot, place: Place) -> Result<Option<Recovered>, ReadError> {
        match at.get(self.transactions, place.key())? {
            Some(record) => Ok(Some(record::read_transaction(place, &record)?)),
            None => Ok(None),
        }
    }

    /// The receipt of the transaction at a place.
    ///
    /// # Errors
    /// The store's, and a damaged record.
    pub fn receipt(&self, at: &Snapshot, place: Place) -> Result<Option<Receipt>, ReadError> {
        match at.get(self.receipts, place.key())? {
            Some(record) => Ok(Some(record::read("a receipt", place, &record)?)),
            None => Ok(None),
        }
    }

    /// The receipts of a canonical block, in order.
    ///
    /// # Errors
    /// The store's, and a damaged record.
    pub fn receipts(&self, at: &Snapshot, number: u64) -> Result<Vec<Receipt>, ReadError> {
        self.of_block(at, self.receipts, number, |place, bytes| record::read("a receipt", place, bytes))
    }

    /// Ommers and withdrawals of a canonical block.
    ///
    /// # Errors
    /// The store's, and a damaged record.
    pub fn rest(
        &self,
        at: &Snapshot,
        number: u64,
    ) -> Result<(Vec<Header>, Option<Vec<Withdrawal>>), ReadError> {
        let Some(record) = at.get(self.rest, number.to_be_bytes())? else { return Ok((Vec::new(), None)) };
        let rest: record::Rest = record::read("a block's ommers and withdrawals", number, &record)?;
        Ok((rest.ommers, rest.withdrawals))
    }

    /// A canonical block.
    ///
    /// # Errors
    /// The store's, and a damaged record.
    pub fn block(&self, at: &Snapshot, number: u64) -> Result<Option<Arc<FullBlock>>, ReadError> {
        let Some(sealed) = self.header(at, number)? else { return Ok(None) };
        let transactions = self.of_block(at, self.transactions, number, record::read_transaction)?;
        let receipts = self.receipts(at, number)?;
        let (ommers, withdrawals) = self.rest(at, number)?;
        Ok(Some(Arc::new(FullBlock { sealed, transactions, receipts, ommers, withdrawals })))
    }

    fn of_block<T>(
        &self,
        at: &Snapshot,
        table: Table,
        number: u64,
        read: impl Fn(Place, &[u8]) -> Result<T, Damaged>,
    ) -> Result<Vec<T>, ReadError> {
        let first = Place { block: number, index: 0 }.key();
        let last = Place { block: number, index: u32::MAX }.key();
        let mut found = Vec::new();
        for entry in at.range(table, Bound::Included(&first), Bound::Included(&last)) {
            let (key, value) = entry?;
            let place =
                Place::from_key(&key).ok_or_else(|| Damaged::new("a place", &key, "not twelve bytes"))?;
            found.push(read(place, &value)?);
        }
        Ok(found)
    }

    /// The block with its header's hash, from its parts.
    pub fn assemble(
        block: Block,
        hash: B256,
        total_difficulty: U256,
        size: u64,
        transactions: Vec<Recovered>,
        receipts: Vec<Receipt>,
    ) -> FullBlock {
        FullBlock {
            sealed: SealedHeader { hash, total_difficulty, size, header: block.header },
            transactions,
            receipts,
            ommers: block.body.ommers,
            withdrawals: block.body.withdrawals,
        }
    }
}

fn list(payload_length: usize) -> alloy_rlp::Header {
    alloy_rlp::Header { list: true, payload_length }
}
