//! Values in rows: how each is kept, and what is refused when it is read.

use crate::session::{Columns, Mistyped};
use crate::{Aside, Result, StoreError};
use borsh::BorshDeserialize;
use std::fmt::Write as _;
use tally_contracts::{Name, StateRef, Timestamp, TransactionId};

/// Lower-case hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        // Writing to a string does not fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// A state's transaction, then its index, big-endian.
pub(crate) fn state_ref_bytes(state: &StateRef) -> [u8; 36] {
    let mut bytes = [0; 36];
    bytes[..32].copy_from_slice(state.transaction.as_bytes());
    bytes[32..].copy_from_slice(&state.index.to_be_bytes());
    bytes
}

/// The opposite of [`state_ref_bytes`].
pub(crate) fn state_ref(bytes: &[u8]) -> Option<StateRef> {
    let (transaction, index) = bytes.split_first_chunk::<32>()?;
    Some(StateRef {
        transaction: TransactionId::from_bytes(*transaction),
        index: u32::from_be_bytes(index.try_into().ok()?),
    })
}

/// A quantity as a number that SQL has, in the same order.
pub(crate) fn ordered(quantity: u64) -> i64 {
    quantity.cast_signed() ^ i64::MIN
}

/// The opposite of [`ordered`].
pub(crate) fn quantity(ordered: i64) -> u64 {
    (ordered ^ i64::MIN).cast_unsigned()
}

/// Why a state is set aside, as a number.
pub(crate) fn aside(aside: &Aside) -> i64 {
    match aside {
        Aside::Encumbered => 0,
        Aside::Lost { .. } => 1,
    }
}

/// The longest value that is a part of an index; half of what PostgreSQL takes.
const INDEXED_BYTES: usize = 1300;

/// A number of at most so many bits.
pub(crate) fn bounded(what: &'static str, value: u64, bits: u32) -> Result<i64> {
    let limit = (1 << bits) - 1;
    i64::try_from(value).ok().filter(|signed| signed.unsigned_abs() <= limit).ok_or(StoreError::Range {
        what,
        value,
        limit,
    })
}

/// Refuses what no index takes.
pub(crate) fn short(what: &'static str, value: &[u8]) -> Result<()> {
    if value.len() <= INDEXED_BYTES {
        return Ok(());
    }
    Err(StoreError::Range { what, value: value.len() as u64, limit: INDEXED_BYTES as u64 })
}

/// A summary's details as JSON, nothing for null.
pub(crate) fn details(details: &serde_json::Value) -> Option<Vec<u8>> {
    // A value of JSON can be written as JSON.
    (!details.is_null()).then(|| serde_json::to_vec(details).unwrap_or_default())
}

/// A row of a table, whose faults name the table and the row.
#[derive(Clone, Copy)]
pub(crate) struct Row<'a> {
    columns: &'a dyn Columns,
    table: &'static str,
}

impl<'a> Row<'a> {
    /// `columns` of `table`; the first one is the row's key.
    pub(crate) fn new(table: &'static str, columns: &'a dyn Columns) -> Self {
        Self { columns, table }
    }

    /// What is wrong with this row.
    pub(crate) fn fault(&self, reason: impl std::fmt::Display) -> StoreError {
        let key = match (self.columns.integer(0), self.columns.bytes(0)) {
            (Ok(Some(number)), _) => number.to_string(),
            (_, Ok(Some(bytes))) => hex(bytes),
            _ => "?".to_owned(),
        };
        StoreError::row(self.table, key, reason)
    }

    fn typed<T>(&self, value: Result<T, Mistyped>) -> Result<T> {
        value.map_err(|mistyped| self.fault(mistyped))
    }

    fn present<T>(&self, column: usize, value: Option<T>) -> Result<T> {
        value.ok_or_else(|| self.fault(format_args!("column {column} is missing")))
    }

    pub(crate) fn integer_if(&self, column: usize) -> Result<Option<i64>> {
        self.typed(self.columns.integer(column))
    }

    pub(crate) fn integer(&self, column: usize) -> Result<i64> {
        self.present(column, self.integer_if(column)?)
    }

    pub(crate) fn unsigned(&self, column: usize) -> Result<u64> {
        let value = self.integer(column)?;
        u64::try_from(value).map_err(|_| self.fault(format_args!("column {column} is {value}")))
    }

    pub(crate) fn time(&self, column: usize) -> Result<Timestamp> {
        self.unsigned(column).map(Timestamp::from_millis)
    }

    pub(crate) fn bytes_if(&self, column: usize) -> Result<Option<&'a [u8]>> {
        self.typed(self.columns.bytes(column))
    }

    pub(crate) fn bytes(&self, column: usize) -> Result<&'a [u8]> {
        self.present(column, self.bytes_if(column)?)
    }

    pub(crate) fn array<const N: usize>(&self, column: usize) -> Result<[u8; N]> {
        let bytes = self.bytes(column)?;
        bytes
            .try_into()
            .map_err(|_| self.fault(format_args!("column {column} has {} bytes instead of {N}", bytes.len())))
    }

    pub(crate) fn transaction(&self, column: usize) -> Result<TransactionId> {
        self.array(column).map(TransactionId::from_bytes)
    }

    pub(crate) fn text(&self, column: usize) -> Result<&'a str> {
        std::str::from_utf8(self.bytes(column)?)
            .map_err(|error| self.fault(format_args!("column {column}: {error}")))
    }

    pub(crate) fn name(&self, column: usize) -> Result<Name> {
        self.text(column)?.parse().map_err(|error| self.fault(format_args!("column {column}: {error}")))
    }

    pub(crate) fn borsh<T: BorshDeserialize>(&self, column: usize) -> Result<T> {
        borsh::from_slice(self.bytes(column)?)
            .map_err(|error| self.fault(format_args!("column {column}: {error}")))
    }
}
