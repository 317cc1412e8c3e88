//! The record of a trie's node, wherever it came from.

use std::ops::Deref;
use std::sync::Arc;

use crate::store::Value;

/// Shared bytes: cheap to clone.
#[derive(Clone, Debug)]
pub(crate) enum Record {
    Stored(Value),
    Shared(Arc<[u8]>),
}

impl Deref for Record {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Stored(value) => value,
            Self::Shared(bytes) => bytes,
        }
    }
}
