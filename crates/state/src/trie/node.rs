//! Branches as they are stored.
//!
//! Only branches are stored, under their path. An extension belongs to the edge above the branch it
//! leads to, and a leaf is kept, key and value, in the branch above it: so a change reads one record
//! per branch on its way and nothing else, and a leaf's value before the change comes with it.
//!
//! ```text
//! branch: children u16 | leaves u16 | plain u16 | children in order of nibbles
//! leaf:   value length u16 | rest of the key, packed | value
//! plain:  hash of the branch below, 32 bytes
//! other:  nibbles of the extension u8, packed | reference length u8, bytes
//! ```
//! The root is an edge without a branch above: one byte for its form, then as above.

use alloy_primitives::B256;

use super::path::{self, KEY_NIBBLES, Path};
use super::rlp;
use crate::flat::StoredAccount;

/// How a node names another: its hash, or itself if its encoding has less than 32 bytes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Reference {
    bytes: [u8; 32],
    length: u8,
}

impl Reference {
    pub(crate) fn hash(hash: B256) -> Self {
        Self { bytes: hash.0, length: 32 }
    }

    /// A whole node of less than 32 bytes, or a hash.
    fn from_slice(slice: &[u8]) -> Option<Self> {
        let mut bytes = [0; 32];
        bytes.get_mut(..slice.len())?.copy_from_slice(slice);
        Some(Self { bytes, length: slice.len() as u8 })
    }

    /// Of a node with this encoding, given a way to hash it.
    pub(crate) fn of(encoding: &[u8]) -> Self {
        if encoding.len() < 32 {
            Self::from_slice(encoding).expect("shorter than 32 bytes")
        } else {
            Self::hash(alloy_primitives::keccak256(encoding))
        }
    }

    pub(crate) fn as_hash(&self) -> Option<B256> {
        (self.length == 32).then_some(B256::from(self.bytes))
    }

    pub(crate) fn as_slice(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }

    /// As an item of the node above.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        if self.length == 32 {
            out.push(0xa0);
        }
        out.extend_from_slice(self.as_slice());
    }

    fn item_length(&self) -> usize {
        usize::from(self.length) + usize::from(self.length == 32)
    }
}

impl std::fmt::Debug for Reference {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", alloy_primitives::hex::encode(self.as_slice()))
    }
}

/// What a trie's values are, and so how they stand in its leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// [`StoredAccount::encode`] is stored, its RLP is in the leaf.
    Accounts,
    /// A number without leading zeros is stored, the RLP of it is in the leaf.
    Storage,
}

impl Kind {
    /// Appends the leaf's value for a stored one.
    fn leaf_value(self, stored: &[u8], out: &mut Vec<u8>) -> Option<()> {
        match self {
            Self::Accounts => StoredAccount::decode(stored)?.rlp(out),
            Self::Storage => rlp::string(stored, out),
        }
        Some(())
    }

    /// Bytes that [`leaf_value`](Self::leaf_value) appends.
    fn leaf_value_length(self, stored: &[u8]) -> Option<usize> {
        match self {
            Self::Accounts => Some(StoredAccount::decode(stored)?.rlp_length()),
            Self::Storage => Some(rlp::string_length(stored)),
        }
    }

    fn is_sound(self, stored: &[u8]) -> bool {
        match self {
            Self::Accounts => StoredAccount::decode(stored).is_some(),
            Self::Storage => !stored.is_empty() && stored.len() <= 32,
        }
    }
}

/// Appends the encoding of a leaf for `key` whose parent ends at nibble `start`. `None` for a value that
/// is not one.
pub(crate) fn encode_leaf(
    kind: Kind,
    key: &B256,
    start: usize,
    stored: &[u8],
    out: &mut Vec<u8>,
) -> Option<()> {
    encode_leaf_tail(kind, &key[start / 2..], start, stored, out)
}

/// The same, given the key from the byte on that holds its first nibble.
fn encode_leaf_tail(kind: Kind, tail: &[u8], start: usize, stored: &[u8], out: &mut Vec<u8>) -> Option<()> {
    let prefix = 1 + (KEY_NIBBLES - start) / 2;
    let value = kind.leaf_value_length(stored)?;
    // One byte below 0x80, as a prefix of one byte is, stands for itself.
    let prefix_header = usize::from(prefix > 1);
    let value_header = if value == 1 && stored[0] < 0x80 { 0 } else { rlp::header_length(value) };
    rlp::list_header(prefix_header + prefix + value_header + value, out);
    if prefix_header > 0 {
        rlp::string_header(prefix, out);
    }
    if start.is_multiple_of(2) {
        out.push(0x20);
        out.extend_from_slice(tail);
    } else {
        let (first, rest) = tail.split_first()?;
        out.push(0x30 | first & 0xf);
        out.extend_from_slice(rest);
    }
    if value_header > 0 {
        rlp::string_header(value, out);
    }
    kind.leaf_value(stored, out)
}

/// Appends the encoding of an extension to the branch that `below` names.
pub(crate) fn encode_extension(nibbles: &Path, below: &Reference, out: &mut Vec<u8>) {
    let mut prefix = Vec::with_capacity(33);
    path::hex_prefix(&nibbles.low_key(), 0, nibbles.len(), false, &mut prefix);
    rlp::list_header(rlp::string_length(&prefix) + below.item_length(), out);
    rlp::string(&prefix, out);
    below.write(out);
}

/// Appends the encoding of a branch without a value; children are hashes or whole short nodes.
pub(crate) fn encode_branch(children: &[Option<&[u8]>; 16], out: &mut Vec<u8>) {
    let item = |child: &[u8]| child.len() + usize::from(child.len() == 32);
    let length = 1 + children.iter().map(|child| child.map_or(1, item)).sum::<usize>();
    rlp::list_header(length, out);
    for child in children {
        match child {
            Some(child) => {
                if child.len() == 32 {
                    out.push(0xa0);
                }
                out.extend_from_slice(child);
            }
            None => out.push(0x80),
        }
    }
    out.push(0x80);
}

/// What hangs below a place in the trie.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Edge<'a> {
    Empty,
    Leaf { key: B256, value: &'a [u8] },
    Branch { extension: Path, below: Reference },
}

const NO_EDGE: u8 = 0;
const LEAF_EDGE: u8 = 1;
const BRANCH_EDGE: u8 = 2;

impl<'a> Edge<'a> {
    /// The record of a root.
    pub(crate) fn encode_root(&self, out: &mut Vec<u8>) {
        match self {
            Self::Empty => out.push(NO_EDGE),
            Self::Leaf { key, value } => {
                out.push(LEAF_EDGE);
                write_leaf(key, 0, value, out);
            }
            Self::Branch { extension, below } => {
                out.push(BRANCH_EDGE);
                write_other(extension, below, out);
            }
        }
    }

    pub(crate) fn decode_root(kind: Kind, bytes: &'a [u8]) -> Option<Self> {
        let (&form, rest) = bytes.split_first()?;
        let (edge, rest) = match form {
            NO_EDGE => (Self::Empty, rest),
            LEAF_EDGE => read_leaf(kind, &Path::EMPTY, rest)?,
            BRANCH_EDGE => read_other(rest)?,
            _ => return None,
        };
        rest.is_empty().then_some(edge)
    }
}

fn write_leaf(key: &B256, start: usize, value: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&(value.len() as u16).to_le_bytes());
    // The byte that holds the first nibble, whole: what is above is known and masked when read.
    out.extend_from_slice(&key[start / 2..]);
    out.extend_from_slice(value);
}

fn read_leaf<'a>(kind: Kind, above: &Path, bytes: &'a [u8]) -> Option<(Edge<'a>, &'a [u8])> {
    let (length, rest) = bytes.split_at_checked(2)?;
    let length = usize::from(u16::from_le_bytes(length.try_into().ok()?));
    let whole = above.len() / 2;
    let (tail, rest) = rest.split_at_checked(32 - whole)?;
    let (value, rest) = rest.split_at_checked(length)?;
    let mut key = above.low_key();
    key[whole..].copy_from_slice(tail);
    let sound = kind.is_sound(value) && Path::prefix(&key, above.len()) == *above;
    sound.then_some((Edge::Leaf { key, value }, rest))
}

fn write_other(extension: &Path, below: &Reference, out: &mut Vec<u8>) {
    out.push(extension.len() as u8);
    out.extend_from_slice(extension.packed());
    out.push(below.length);
    out.extend_from_slice(below.as_slice());
}

fn read_other(bytes: &[u8]) -> Option<(Edge<'_>, &[u8])> {
    let (&nibbles, rest) = bytes.split_first()?;
    let nibbles = usize::from(nibbles);
    let extension = Path::unpack(rest, nibbles)?;
    let (&length, rest) = rest[nibbles.div_ceil(2)..].split_first()?;
    let (below, rest) = rest.split_at_checked(usize::from(length))?;
    Some((Edge::Branch { extension, below: Reference::from_slice(below)? }, rest))
}

/// Builds the record of a branch in a buffer that is used again, children in order.
#[derive(Default)]
pub(crate) struct BranchWriter {
    children: u16,
    leaves: u16,
    plain: u16,
    record: Vec<u8>,
}

const MASKS: usize = 6;

impl BranchWriter {
    pub(crate) fn begin(&mut self) {
        (self.children, self.leaves, self.plain) = (0, 0, 0);
        self.record.clear();
        self.record.resize(MASKS, 0);
    }

    /// Adds the child at `nibble` of a branch at `depth`.
    pub(crate) fn add(&mut self, nibble: u8, depth: usize, edge: &Edge<'_>) {
        let bit = 1u16 << nibble;
        match edge {
            Edge::Empty => return,
            Edge::Leaf { key, value } => {
                self.leaves |= bit;
                write_leaf(key, depth + 1, value, &mut self.record);
            }
            Edge::Branch { extension, below } if extension.is_empty() && below.length == 32 => {
                self.plain |= bit;
                self.record.extend_from_slice(&below.bytes);
            }
            Edge::Branch { extension, below } => write_other(extension, below, &mut self.record),
        }
        self.children |= bit;
    }

    /// Adds a child as it was.
    pub(crate) fn add_raw(&mut self, nibble: u8, raw: Raw<'_>) {
        let bit = 1u16 << nibble;
        let bytes = match raw {
            Raw::Empty => return,
            Raw::Leaf(bytes) => {
                self.leaves |= bit;
                bytes
            }
            Raw::Plain(bytes) => {
                self.plain |= bit;
                bytes
            }
            Raw::Other(bytes) => bytes,
        };
        self.children |= bit;
        self.record.extend_from_slice(bytes);
    }

    /// Whether it has children that are not leaves.
    pub(crate) fn has_branches(&self) -> bool {
        self.children & !self.leaves != 0
    }

    pub(crate) fn record(&mut self) -> &[u8] {
        for (at, mask) in [self.children, self.leaves, self.plain].into_iter().enumerate() {
            self.record[at * 2..at * 2 + 2].copy_from_slice(&mask.to_le_bytes());
        }
        &self.record
    }
}

/// A child as it stands in the record of a branch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Raw<'a> {
    Empty,
    Leaf(&'a [u8]),
    Plain(&'a [u8]),
    Other(&'a [u8]),
}

impl<'a> Raw<'a> {
    /// The child of a branch at `path`. `None` when it does not parse.
    pub(crate) fn edge(self, kind: Kind, path: &Path, nibble: u8) -> Option<Edge<'a>> {
        let (edge, rest) = match self {
            Self::Empty => return Some(Edge::Empty),
            Self::Leaf(bytes) => {
                let mut above = *path;
                above.push(nibble);
                read_leaf(kind, &above, bytes)?
            }
            Self::Plain(hash) => {
                let below = Reference::hash(B256::try_from(hash).ok()?);
                (Edge::Branch { extension: Path::EMPTY, below }, &[][..])
            }
            Self::Other(bytes) => read_other(bytes)?,
        };
        rest.is_empty().then_some(edge)
    }

    /// Appends the encoding of a leaf below a branch at `depth`.
    pub(crate) fn encode_leaf(bytes: &[u8], kind: Kind, depth: usize, out: &mut Vec<u8>) -> Option<()> {
        let (tail, value) = bytes.get(2..)?.split_at_checked(32 - depth.div_ceil(2))?;
        encode_leaf_tail(kind, tail, depth + 1, value, out)
    }
}

/// Where the children of a branch at `depth` stand in its record. `None` when it does not parse.
pub(crate) fn raw_children(depth: usize, record: &[u8]) -> Option<[Raw<'_>; 16]> {
    let (masks, mut rest) = record.split_at_checked(MASKS)?;
    let mask = |at: usize| u16::from_le_bytes([masks[at], masks[at + 1]]);
    let (children, leaves, plain) = (mask(0), mask(2), mask(4));
    if depth >= KEY_NIBBLES || leaves & !children != 0 || plain & !children != 0 {
        return None;
    }
    let mut raw = [Raw::Empty; 16];
    for (nibble, raw) in raw.iter_mut().enumerate() {
        let bit = 1u16 << nibble;
        if children & bit == 0 {
            continue;
        }
        let length = if leaves & bit != 0 {
            let value = u16::from_le_bytes([*rest.first()?, *rest.get(1)?]);
            2 + 32 - depth.div_ceil(2) + usize::from(value)
        } else if plain & bit != 0 {
            32
        } else {
            let nibbles = usize::from(*rest.first()?).div_ceil(2);
            2 + nibbles + usize::from(*rest.get(1 + nibbles)?)
        };
        let (bytes, after) = rest.split_at_checked(length)?;
        rest = after;
        *raw = match (leaves & bit != 0, plain & bit != 0) {
            (true, _) => Raw::Leaf(bytes),
            (_, true) => Raw::Plain(bytes),
            _ => Raw::Other(bytes),
        };
    }
    rest.is_empty().then_some(raw)
}

/// The children of a stored branch at `path`. `None` when the record does not parse.
pub(crate) fn read_branch<'a>(kind: Kind, path: &Path, record: &'a [u8]) -> Option<[Edge<'a>; 16]> {
    let mut edges = [const { Edge::Empty }; 16];
    for (nibble, raw) in raw_children(path.len(), record)?.into_iter().enumerate() {
        edges[nibble] = raw.edge(kind, path, nibble as u8)?;
    }
    Some(edges)
}
