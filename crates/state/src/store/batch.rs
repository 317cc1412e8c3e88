//! Changes that become visible and durable together.

use super::{StoreError, Table};

/// The longest key that is taken.
pub const KEY_LIMIT: usize = 1024;
/// The longest value that is taken.
pub const VALUE_LIMIT: usize = 256 << 20;
/// The most bytes that one batch can hold.
pub const BATCH_LIMIT: usize = 1 << 30;

/// Says in an operation's length field that the key goes away.
pub(super) const TOMBSTONE: u32 = u32::MAX;
/// Table, length of key, length of value.
pub(super) const OPERATION_HEADER: usize = 2 + 2 + 4;

/// Puts and deletes over any tables, in order; the last one of a key counts.
///
/// The buffer is at once what goes to the journal and what reads look at before the flush.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    bytes: Vec<u8>,
    operations: usize,
    refused: Option<StoreError>,
}

impl Batch {
    /// An empty batch.
    pub fn new() -> Self {
        Self::default()
    }

    /// Writes `value` under `key`. A key or value that is too long makes the commit fail.
    pub fn put(&mut self, table: Table, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) {
        let value = value.as_ref();
        if value.len() > VALUE_LIMIT {
            self.refuse(table, "value", value.len(), VALUE_LIMIT);
            return;
        }
        self.add(table, key.as_ref(), value.len() as u32, value);
    }

    /// Removes `key`, whether it is there or not.
    pub fn delete(&mut self, table: Table, key: impl AsRef<[u8]>) {
        self.add(table, key.as_ref(), TOMBSTONE, &[]);
    }

    /// Whether nothing is to be changed.
    pub fn is_empty(&self) -> bool {
        self.operations == 0
    }

    /// Puts and deletes so far.
    pub fn len(&self) -> usize {
        self.operations
    }

    /// Bytes so far, as the journal will hold them.
    pub fn size_bytes(&self) -> usize {
        self.bytes.len()
    }

    fn add(&mut self, table: Table, key: &[u8], length: u32, value: &[u8]) {
        if key.len() > KEY_LIMIT {
            self.refuse(table, "key", key.len(), KEY_LIMIT);
            return;
        }
        let grown = self.bytes.len() + OPERATION_HEADER + key.len() + value.len();
        if grown > BATCH_LIMIT {
            self.refuse(table, "batch", grown, BATCH_LIMIT);
            return;
        }
        self.bytes.extend_from_slice(&table.0.to_le_bytes());
        self.bytes.extend_from_slice(&(key.len() as u16).to_le_bytes());
        self.bytes.extend_from_slice(&length.to_le_bytes());
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(value);
        self.operations += 1;
    }

    fn refuse(&mut self, table: Table, what: &'static str, length: usize, limit: usize) {
        let table = format!("#{}", table.0);
        self.refused.get_or_insert(StoreError::TooLong { what, table, length, limit });
    }

    pub(super) fn into_bytes(self) -> Result<Vec<u8>, StoreError> {
        match self.refused {
            Some(refusal) => Err(refusal),
            None => Ok(self.bytes),
        }
    }
}

/// One operation of a batch's bytes: where its key and value lie.
pub(super) struct Operation {
    pub(super) table: Table,
    pub(super) key: usize,
    pub(super) key_length: u16,
    /// [`TOMBSTONE`] for a delete.
    pub(super) value_length: u32,
}

/// Walks over the bytes of a batch. Yields `None` inside when they do not parse, which a checksum that
/// held excludes for all but a program error.
pub(super) fn operations(bytes: &[u8]) -> impl Iterator<Item = Option<Operation>> + '_ {
    let mut at = 0;
    std::iter::from_fn(move || {
        if at == bytes.len() {
            return None;
        }
        let operation = parse(bytes, at);
        match &operation {
            Some(operation) => {
                let value = if operation.value_length == TOMBSTONE { 0 } else { operation.value_length };
                at = operation.key + usize::from(operation.key_length) + value as usize;
            }
            None => at = bytes.len(),
        }
        Some(operation)
    })
}

fn parse(bytes: &[u8], at: usize) -> Option<Operation> {
    let header = bytes.get(at..at + OPERATION_HEADER)?;
    let table = Table(u16::from_le_bytes(header[0..2].try_into().ok()?));
    let key_length = u16::from_le_bytes(header[2..4].try_into().ok()?);
    let value_length = u32::from_le_bytes(header[4..8].try_into().ok()?);
    let key = at + OPERATION_HEADER;
    let value = if value_length == TOMBSTONE { 0 } else { value_length as usize };
    (key + usize::from(key_length) + value <= bytes.len()).then_some(Operation {
        table,
        key,
        key_length,
        value_length,
    })
}

/// Whether bytes from the disk are a batch over the first `tables` tables.
pub(super) fn is_sound(bytes: &[u8], tables: usize) -> bool {
    operations(bytes).all(|operation| operation.is_some_and(|it| usize::from(it.table.0) < tables))
}
