//! How far a state has been taken, as it is kept on disk. It goes into the same batch as what was taken.

use alloy_primitives::B256;
use tally_state::{Batch, Durability, Snapshot, Table};

use super::segment::Segment;
use crate::blocks::{Damaged, ReadError};
use crate::error::ChainError;
use crate::node::Node;

/// The block whose state is taken.
const PIVOT: &[u8] = b"pivot";
/// The first account whose code and storage may be missing.
const CONTRACTS: &[u8] = b"contracts";
/// Before the number of a part of the accounts.
const ACCOUNTS: &[u8] = b"a";
/// Before the hash of an address, and the number of a part of its storage.
const STORAGE: u8 = b's';

/// The record, in a table of its own.
#[derive(Clone, Copy)]
pub(super) struct Record {
    table: Table,
}

/// Where the parts of an account's storage are noted; of the accounts themselves without one.
pub(super) fn prefix(account: Option<&B256>) -> Vec<u8> {
    match account {
        None => ACCOUNTS.to_vec(),
        Some(account) => [&[STORAGE], account.as_slice()].concat(),
    }
}

impl Record {
    pub(super) fn open(node: &Node) -> Result<Self, ChainError> {
        Ok(Self { table: node.chain().table("fast_sync")? })
    }

    fn snapshot(node: &Node) -> Snapshot {
        node.chain().database().snapshot()
    }

    /// Begins with the state after a block.
    pub(super) fn begin(&self, node: &Node, pivot: u64) -> Result<(), ChainError> {
        let mut batch = Batch::new();
        self.clear(node, &mut batch);
        batch.put(self.table, PIVOT, pivot.to_be_bytes());
        for segment in Segment::split(B256::ZERO) {
            self.put(&mut batch, None, &segment);
        }
        Ok(node.chain().database().commit(batch, Durability::Buffered)?)
    }

    /// Forgets all of it. What cannot be read is left, and is not of the next one: that begins by writing over it.
    pub(super) fn clear(&self, node: &Node, batch: &mut Batch) {
        for (key, _) in Self::snapshot(node).prefix(self.table, &[]).flatten() {
            batch.delete(self.table, key);
        }
    }

    pub(super) fn pivot(&self, node: &Node) -> Result<Option<u64>, ChainError> {
        let number = self.hash_or_number::<8>(node, PIVOT)?;
        Ok(number.map(u64::from_be_bytes))
    }

    pub(super) fn contracts(&self, node: &Node) -> Result<B256, ChainError> {
        Ok(self.hash_or_number::<32>(node, CONTRACTS)?.unwrap_or_default().into())
    }

    fn hash_or_number<const N: usize>(
        &self,
        node: &Node,
        key: &'static [u8],
    ) -> Result<Option<[u8; N]>, ChainError> {
        let Some(value) = Self::snapshot(node).get(self.table, key)? else { return Ok(None) };
        let found = value[..].try_into().map_err(|_| damaged(key, "it has another length"))?;
        Ok(Some(found))
    }

    /// Notes that code and storage of all accounts before `next` are there, and forgets the parts of `storages`.
    pub(super) fn put_contracts(&self, node: &Node, batch: &mut Batch, next: B256, storages: &[B256]) {
        batch.put(self.table, CONTRACTS, next);
        let snapshot = Self::snapshot(node);
        for account in storages {
            for (key, _) in snapshot.prefix(self.table, &prefix(Some(account))).flatten() {
                batch.delete(self.table, key);
            }
        }
    }

    /// The parts of an account's storage, or of the accounts.
    pub(super) fn segments(&self, node: &Node, account: Option<&B256>) -> Result<Vec<Segment>, ChainError> {
        let prefix = prefix(account);
        let mut found = Vec::new();
        for entry in Self::snapshot(node).prefix(self.table, &prefix) {
            let (key, value) = entry?;
            let segment = match key[prefix.len()..] {
                [id] => Segment::decode(id, &value),
                _ => None,
            };
            found.push(segment.ok_or_else(|| damaged(&key, "it is no part of a trie"))?);
        }
        Ok(found)
    }

    pub(super) fn put(&self, batch: &mut Batch, account: Option<&B256>, segment: &Segment) {
        let mut key = prefix(account);
        key.push(segment.id);
        batch.put(self.table, key, segment.encode());
    }
}

fn damaged(key: &[u8], reason: &str) -> ReadError {
    Damaged::new("how far a fast sync has come", key, reason).into()
}
