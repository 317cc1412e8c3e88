//! Many changes to tries in one pass.
//!
//! First the shape, here: from each root down along the sorted changes, which reads each touched branch once
//! and leaves a list of touched branches, children before their parents. Then the hashes, in
//! `rehash`: level by level from below, all nodes of a level of all tries at once.

use std::ops::Range;
use std::sync::Arc;

use alloy_primitives::B256;

use super::node::{Edge, Kind, Raw, Reference, raw_children};
use super::path::{Path, common, nibble};
use crate::record::Record;

/// Where an update finds the nodes as they are.
pub(crate) trait Nodes {
    type Error;

    /// The record of the trie's root edge; `None` for a trie without keys.
    fn root_record(&self, trie: &B256) -> Result<Option<Record>, Self::Error>;

    /// The record of the branch at `path`, whose hash is `hash` if it has one.
    fn branch(&self, trie: &B256, path: &Path, hash: Option<B256>) -> Result<Record, Self::Error>;

    /// A record does not parse.
    fn damaged(&self, trie: &B256, path: Option<&Path>) -> Self::Error;
}

/// Bytes within an update's buffer of values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slice {
    start: u32,
    length: u32,
}

/// One key to be written, or with no value deleted.
#[derive(Clone, Copy, Debug)]
struct Change {
    key: B256,
    value: Option<Slice>,
    /// Where to note the value before.
    number: usize,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Child {
    Empty,
    Leaf { key: B256, value: Slice },
    Branch { extension: Path, below: Below },
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Below {
    /// Not touched.
    Known(Reference),
    /// A number in the list of touched branches.
    Touched(usize),
}

/// A branch that is new or has other children than before.
pub(super) struct Touched {
    pub(super) trie: usize,
    pub(super) path: Path,
    /// What it was, if it was; children that are not in `changed` are in there.
    pub(super) record: Option<Record>,
    /// Where its changed children are in the update's list.
    pub(super) changed: Range<usize>,
}

/// What an update costs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UpdateCost {
    /// Branches that were read.
    pub branches_read: usize,
    /// Branches that were written.
    pub branches_written: usize,
    /// Keccak-256 hashes of nodes.
    pub hashes: usize,
    /// Bytes that were hashed.
    pub hashed_bytes: usize,
    /// Keccak permutations that took.
    pub permutations: usize,
}

impl std::ops::AddAssign for UpdateCost {
    fn add_assign(&mut self, other: Self) {
        self.branches_read += other.branches_read;
        self.branches_written += other.branches_written;
        self.hashes += other.hashes;
        self.hashed_bytes += other.hashed_bytes;
        self.permutations += other.permutations;
    }
}

/// A node that an update writes: its trie, its path or `None` for the root, its record or `None` when
/// it is gone.
pub(crate) struct NodeChange {
    pub(crate) trie: B256,
    pub(crate) path: Option<Path>,
    pub(crate) record: Option<Arc<[u8]>>,
    /// The node's hash, for a branch that is worth remembering: one with branches below.
    pub(crate) upper: Option<B256>,
}

/// What an update does.
pub(crate) struct Outcome {
    /// The new root of each trie, in the order in which they were added.
    pub(crate) roots: Vec<B256>,
    pub(crate) nodes: Vec<NodeChange>,
    pub(crate) cost: UpdateCost,
}

/// Changes to tries of one kind.
pub(crate) struct Update<'n, N> {
    pub(super) nodes: &'n N,
    pub(super) kind: Kind,
    pub(super) tries: Vec<B256>,
    pub(super) roots: Vec<Option<Child>>,
    values: Vec<u8>,
    pub(super) touched: Vec<Touched>,
    /// Changed children of touched branches, by nibble.
    pub(super) changed: Vec<(u8, Child)>,
    /// Those of the branches that are being looked at, innermost last.
    pending: Vec<(u8, Child)>,
    pub(super) removed: Vec<(usize, Path)>,
    before: Vec<Option<Slice>>,
    pub(super) cost: UpdateCost,
}

impl<'n, N: Nodes> Update<'n, N> {
    pub(crate) fn new(nodes: &'n N, kind: Kind) -> Self {
        Self {
            nodes,
            kind,
            tries: Vec::new(),
            roots: Vec::new(),
            values: Vec::new(),
            touched: Vec::new(),
            changed: Vec::new(),
            pending: Vec::new(),
            removed: Vec::new(),
            before: Vec::new(),
            cost: UpdateCost::default(),
        }
    }

    /// Applies changes with ascending keys, none twice, to the trie named `trie`; an empty value
    /// deletes. Returns the numbers under which [`before`](Self::before) has the values before.
    pub(crate) fn apply<'c>(
        &mut self,
        trie: B256,
        changes: impl Iterator<Item = (B256, &'c [u8])>,
    ) -> Result<Range<usize>, N::Error> {
        let first = self.before.len();
        let changes: Vec<Change> = changes
            .enumerate()
            .map(|(at, (key, value))| {
                let value = (!value.is_empty()).then(|| self.keep(value));
                Change { key, value, number: first + at }
            })
            .collect();
        debug_assert!(changes.is_sorted_by(|a, b| a.key < b.key));
        self.before.resize(first + changes.len(), None);
        self.tries.push(trie);
        let root = match self.nodes.root_record(&trie)? {
            None => Child::Empty,
            Some(record) => {
                let edge =
                    Edge::decode_root(self.kind, &record).ok_or_else(|| self.nodes.damaged(&trie, None))?;
                self.child(&edge)
            }
        };
        let root = if changes.is_empty() { None } else { self.edge(root, 0, &changes)? };
        self.roots.push(root);
        Ok(first..self.before.len())
    }

    /// The stored value that a change replaced.
    pub(crate) fn before(&self, number: usize) -> Option<&[u8]> {
        self.before[number].map(|slice| self.value(slice))
    }

    fn keep(&mut self, value: &[u8]) -> Slice {
        let start = self.values.len() as u32;
        self.values.extend_from_slice(value);
        Slice { start, length: value.len() as u32 }
    }

    pub(super) fn value(&self, slice: Slice) -> &[u8] {
        &self.values[slice.start as usize..(slice.start + slice.length) as usize]
    }

    fn child(&mut self, edge: &Edge<'_>) -> Child {
        match edge {
            Edge::Empty => Child::Empty,
            Edge::Leaf { key, value } => Child::Leaf { key: *key, value: self.keep(value) },
            Edge::Branch { extension, below } => {
                Child::Branch { extension: *extension, below: Below::Known(*below) }
            }
        }
    }

    /// What comes in the place of `child`, which hangs at `depth`; `None` if it stays as it is.
    fn edge(&mut self, child: Child, depth: usize, changes: &[Change]) -> Result<Option<Child>, N::Error> {
        match child {
            Child::Empty => {
                let inserted = inserts(changes);
                Ok((!inserted.is_empty()).then(|| self.build(depth, &inserted)))
            }
            Child::Leaf { key, value } => Ok(self.leaf(key, value, depth, changes)),
            Child::Branch { extension, below: Below::Known(below) } => {
                self.branch(extension, below, depth, changes)
            }
            Child::Branch { below: Below::Touched(_), .. } => {
                unreachable!("each edge is visited once")
            }
        }
    }

    fn leaf(&mut self, key: B256, value: Slice, depth: usize, changes: &[Change]) -> Option<Child> {
        let mut inserted = inserts(changes);
        match changes.binary_search_by(|change| change.key.cmp(&key)) {
            Ok(own) => {
                let change = &changes[own];
                self.before[change.number] = Some(value);
                let same = change.value.is_some_and(|new| self.value(new) == self.value(value));
                if same && inserted.len() == 1 {
                    return None;
                }
            }
            Err(_) if inserted.is_empty() => return None,
            Err(_) => {
                let at = inserted.partition_point(|(other, _)| *other < key);
                inserted.insert(at, (key, value));
            }
        }
        Some(self.build(depth, &inserted))
    }

    /// A subtree of these leaves alone, at `depth`.
    fn build(&mut self, depth: usize, leaves: &[(B256, Slice)]) -> Child {
        let (key, value) = match leaves {
            [] => return Child::Empty,
            [leaf] => *leaf,
            [first, .., last] => {
                let fork = common(&first.0, &last.0, depth);
                let pending = self.pending.len();
                for group in leaves.chunk_by(|a, b| nibble(&a.0, fork) == nibble(&b.0, fork)) {
                    let child = self.build(fork + 1, group);
                    self.pending.push((nibble(&group[0].0, fork), child));
                }
                let path = Path::prefix(&first.0, fork);
                let below = self.touch(path, None, pending);
                return Child::Branch { extension: Path::of(&first.0, depth, fork), below };
            }
        };
        Child::Leaf { key, value }
    }

    /// Notes a branch whose changed children are pending from `pending` on.
    fn touch(&mut self, path: Path, record: Option<Record>, pending: usize) -> Below {
        let trie = self.tries.len() - 1;
        let start = self.changed.len();
        self.changed.extend(self.pending.drain(pending..));
        let changed = start..self.changed.len();
        self.touched.push(Touched { trie, path, record, changed });
        Below::Touched(self.touched.len() - 1)
    }

    fn branch(
        &mut self,
        extension: Path,
        below: Reference,
        depth: usize,
        changes: &[Change],
    ) -> Result<Option<Child>, N::Error> {
        let path = Path::prefix(&changes[0].key, depth).join(&extension);
        let low = path.low_key();
        let shared = |change: &Change| common(&change.key, &low, depth).min(path.len());
        let fork = changes.iter().filter(|change| change.value.is_some()).map(shared).min();
        match fork {
            Some(fork) if fork < path.len() => {
                let child = Child::Branch { extension: path.from(fork + 1), below: Below::Known(below) };
                let extension = extension.truncated(fork - depth);
                let stays = path.nibble(fork);
                let changes = reaching(changes, fork, shared);
                self.fork(path.truncated(fork), extension, stays, child, &changes)
            }
            _ => {
                let reached = reaching(changes, path.len(), shared);
                if reached.is_empty() { Ok(None) } else { self.descend(path, extension, below, &reached) }
            }
        }
    }

    /// A new branch at `path`, within what was an extension; what was below it is `child` now, at the
    /// nibble `stays`.
    fn fork(
        &mut self,
        path: Path,
        extension: Path,
        stays: u8,
        child: Child,
        changes: &[Change],
    ) -> Result<Option<Child>, N::Error> {
        let mut children = [Child::Empty; 16];
        children[usize::from(stays)] = child;
        for group in groups(changes, path.len()) {
            let at = usize::from(nibble(&group[0].key, path.len()));
            if let Some(new) = self.edge(children[at], path.len() + 1, group)? {
                children[at] = new;
            }
        }
        let pending = self.pending.len();
        let numbered = children.iter().enumerate().map(|(at, child)| (at as u8, *child));
        self.pending.extend(numbered.filter(|(_, child)| !matches!(child, Child::Empty)));
        match self.pending[pending..] {
            [] => return Ok(Some(Child::Empty)),
            [(at, only)] => {
                self.pending.truncate(pending);
                return Ok(Some(pulled_up(extension, at, only)));
            }
            _ => {}
        }
        let below = self.touch(path, None, pending);
        Ok(Some(Child::Branch { extension, below }))
    }

    /// Into the branch at `path`, which all changes lie below.
    fn descend(
        &mut self,
        path: Path,
        extension: Path,
        below: Reference,
        changes: &[Change],
    ) -> Result<Option<Child>, N::Error> {
        let trie = self.tries[self.tries.len() - 1];
        let record = self.nodes.branch(&trie, &path, below.as_hash())?;
        self.cost.branches_read += 1;
        let held = record.clone();
        let damaged = |this: &Self| this.nodes.damaged(&trie, Some(&path));
        let raw = raw_children(path.len(), &held).ok_or_else(|| damaged(self))?;
        let pending = self.pending.len();
        for group in groups(changes, path.len()) {
            let at = nibble(&group[0].key, path.len());
            let edge = raw[usize::from(at)].edge(self.kind, &path, at).ok_or_else(|| damaged(self))?;
            let child = self.child(&edge);
            if let Some(new) = self.edge(child, path.len() + 1, group)? {
                self.pending.push((at, new));
            }
        }
        if self.pending.len() == pending {
            return Ok(None);
        }
        let mut left: u16 = 0;
        for (at, raw) in raw.iter().enumerate() {
            left |= u16::from(*raw != Raw::Empty) << at;
        }
        for (at, child) in &self.pending[pending..] {
            let bit = 1 << at;
            left = if matches!(child, Child::Empty) { left & !bit } else { left | bit };
        }
        if left.count_ones() < 2 {
            self.removed.push((self.tries.len() - 1, path));
            let at = left.trailing_zeros() as u8;
            let only = match self.pending[pending..].iter().find(|(changed, _)| *changed == at) {
                _ if left == 0 => None,
                Some((_, child)) => Some(*child),
                None => {
                    let edge =
                        raw[usize::from(at)].edge(self.kind, &path, at).ok_or_else(|| damaged(self))?;
                    Some(self.child(&edge))
                }
            };
            self.pending.truncate(pending);
            return Ok(Some(only.map_or(Child::Empty, |only| pulled_up(extension, at, only))));
        }
        let below = self.touch(path, Some(record), pending);
        Ok(Some(Child::Branch { extension, below }))
    }
}

fn inserts(changes: &[Change]) -> Vec<(B256, Slice)> {
    changes.iter().filter_map(|change| Some((change.key, change.value?))).collect()
}

fn groups(changes: &[Change], depth: usize) -> impl Iterator<Item = &[Change]> {
    changes.chunk_by(move |a, b| nibble(&a.key, depth) == nibble(&b.key, depth))
}

/// Without deletes of keys that leave the way before `depth`, and so do not exist.
fn reaching(changes: &[Change], depth: usize, shared: impl Fn(&Change) -> usize) -> Vec<Change> {
    changes.iter().filter(|change| shared(change) >= depth).copied().collect()
}

/// The only child of a branch takes its place.
fn pulled_up(extension: Path, at: u8, child: Child) -> Child {
    match child {
        Child::Branch { extension: further, below } => {
            let mut joined = extension;
            joined.push(at);
            Child::Branch { extension: joined.join(&further), below }
        }
        other => other,
    }
}
