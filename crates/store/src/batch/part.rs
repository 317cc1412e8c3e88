//! What a flow holds while it runs, under keys that sort as the flow reads them.

use crate::row::{hex, state_ref_bytes};
use crate::write::{FlowKey, SessionKey};
use tally_contracts::{StateRef, TransactionId};

/// One row of the table of parts.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Part<'a> {
    pub(crate) flow: FlowKey,
    pub(crate) key: PartKey,
    pub(crate) bytes: &'a [u8],
}

impl std::fmt::Display for Part<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {:?} {}", hex(&self.flow), self.key.kind, hex(self.key.as_bytes()))
    }
}

/// What a part is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(crate) enum Kind {
    /// Key: the unit, big-endian.
    Step = 0,
    /// Key: the session, then the number, big-endian.
    Arrival = 1,
    /// Key: the state's transaction, then its index, big-endian.
    Lock = 2,
    /// Key: the transaction.
    Dependency = 3,
}

impl Kind {
    /// The number that the table has for it.
    pub(crate) fn number(self) -> i64 {
        i64::from(self as u8)
    }

    /// Whether what is written again must be the same bytes. A transaction may come again with more signatures.
    pub(crate) fn is_fixed(self) -> bool {
        self != Self::Dependency
    }
}

/// A part's place among those of its flow: its kind, then bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PartKey {
    pub(crate) kind: Kind,
    bytes: [u8; 36],
    length: u8,
}

impl PartKey {
    fn new(kind: Kind, pieces: &[&[u8]]) -> Self {
        let mut key = Self { kind, bytes: [0; 36], length: 0 };
        for piece in pieces {
            let from = usize::from(key.length);
            key.bytes[from..from + piece.len()].copy_from_slice(piece);
            key.length += piece.len().to_le_bytes()[0];
        }
        key
    }

    pub(crate) fn step(unit: u64) -> Self {
        Self::new(Kind::Step, &[&unit.to_be_bytes()])
    }

    pub(crate) fn arrival(session: &SessionKey, number: u64) -> Self {
        Self::new(Kind::Arrival, &[session, &number.to_be_bytes()])
    }

    pub(crate) fn lock(state: &StateRef) -> Self {
        Self::new(Kind::Lock, &[&state_ref_bytes(state)])
    }

    pub(crate) fn dependency(id: &TransactionId) -> Self {
        Self::new(Kind::Dependency, &[id.as_bytes()])
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }
}
