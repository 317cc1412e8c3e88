//! Bytes that a read found, without a copy of their own.

use std::ops::{Deref, Range};
use std::sync::Arc;

/// A value of the store: cheap to clone. It keeps the block or batch it lies in in memory, so a value
/// that is kept for long should be copied.
#[derive(Clone)]
pub struct Value {
    buffer: Arc<Vec<u8>>,
    range: Range<u32>,
}

impl Value {
    pub(super) fn new(buffer: Arc<Vec<u8>>, range: Range<u32>) -> Self {
        debug_assert!(range.end as usize <= buffer.len());
        Self { buffer, range }
    }
}

impl Deref for Value {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.buffer[self.range.start as usize..self.range.end as usize]
    }
}

impl AsRef<[u8]> for Value {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl std::fmt::Debug for Value {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl PartialEq for Value {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for Value {}

/// What one layer of the store knows of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// It was put.
    Value(Value),
    /// It was deleted: older layers do not count.
    Deleted,
}

impl Found {
    pub(super) fn value(self) -> Option<Value> {
        match self {
            Self::Value(value) => Some(value),
            Self::Deleted => None,
        }
    }
}
