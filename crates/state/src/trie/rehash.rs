//! The second half of an update: hashes, level by level from below.

use std::sync::Arc;

use alloy_primitives::{B256, keccak256};

use super::EMPTY_ROOT;
use super::hashing::Messages;
use super::node::{
    BranchWriter, Edge, Kind, Raw, Reference, encode_branch, encode_extension, encode_leaf, raw_children,
};
use super::path::KEY_NIBBLES;
use super::update::{Below, Child, NodeChange, Nodes, Outcome, Touched, Update, UpdateCost};

impl<N: Nodes> Update<'_, N> {
    /// Hashes what was touched.
    pub(crate) fn finish(mut self) -> Result<Outcome, N::Error> {
        let mut levels: Vec<Vec<usize>> = (0..=KEY_NIBBLES).map(|_| Vec::new()).collect();
        for (number, touched) in self.touched.iter().enumerate() {
            levels[touched.path.len()].push(number);
        }
        let mut references: Vec<Option<Reference>> = vec![None; self.touched.len()];
        let mut nodes = Vec::with_capacity(self.touched.len() + self.removed.len() + self.tries.len());
        for (trie, path) in &self.removed {
            nodes.push(NodeChange { trie: self.tries[*trie], path: Some(*path), record: None, upper: None });
        }
        for level in levels.iter().rev().filter(|level| !level.is_empty()) {
            self.level(level, &mut references, &mut nodes)?;
        }
        let mut roots = Vec::with_capacity(self.tries.len());
        for (trie, root) in self.tries.iter().zip(&self.roots) {
            let edge = root.as_ref().map(|child| self.resolve(child, &references));
            let hash = match &edge {
                Some(edge) => root_hash(self.kind, edge).ok_or_else(|| self.nodes.damaged(trie, None))?,
                None => {
                    let record = self.nodes.root_record(trie)?;
                    let edge = record
                        .as_deref()
                        .map_or(Some(Edge::Empty), |record| Edge::decode_root(self.kind, record));
                    edge.and_then(|edge| root_hash(self.kind, &edge))
                        .ok_or_else(|| self.nodes.damaged(trie, None))?
                }
            };
            roots.push(hash);
            if let Some(edge) = edge {
                let record = (edge != Edge::Empty).then(|| {
                    let mut record = Vec::new();
                    edge.encode_root(&mut record);
                    Arc::from(record)
                });
                nodes.push(NodeChange { trie: *trie, path: None, record, upper: None });
            }
        }
        self.cost.branches_written = self.touched.len();
        Ok(Outcome { roots, nodes, cost: self.cost })
    }

    fn resolve<'a>(&'a self, child: &Child, references: &[Option<Reference>]) -> Edge<'a> {
        match child {
            Child::Empty => Edge::Empty,
            Child::Leaf { key, value } => Edge::Leaf { key: *key, value: self.value(*value) },
            Child::Branch { extension, below } => Edge::Branch {
                extension: *extension,
                below: match below {
                    Below::Known(reference) => *reference,
                    Below::Touched(number) => references[*number].expect("hashed with its level"),
                },
            },
        }
    }

    /// Hashes the touched branches of one level, and the leaves in them.
    fn level(
        &mut self,
        level: &[usize],
        references: &mut [Option<Reference>],
        nodes: &mut Vec<NodeChange>,
    ) -> Result<(), N::Error> {
        /// Branches that are taken together: enough to fill the lanes of the hash function, few enough
        /// for the processor's cache.
        const TOGETHER: usize = 128;
        let mut cost = self.cost;
        let mut messages = Messages::default();
        let mut writer = BranchWriter::default();
        for part in level.chunks(TOGETHER) {
            messages.clear();
            let mut short = Vec::new();
            let mut branches = Vec::with_capacity(part.len());
            for number in part {
                let touched = &self.touched[*number];
                let children = self
                    .children(touched, references, &mut messages, &mut short)
                    .ok_or_else(|| self.nodes.damaged(&self.tries[touched.trie], Some(&touched.path)))?;
                branches.push(children);
            }
            cost.take(&messages);
            let hashes = messages.hash();
            messages.clear();
            for (_, own) in &branches {
                let children = own.each_ref().map(|own| match own {
                    Own::Nothing => None,
                    Own::Stored(hash) => Some(*hash),
                    Own::Touched(number) => references[*number].as_ref().map(Reference::as_slice),
                    Own::Short(number) => Some(short[*number].as_slice()),
                    Own::Message(number) => Some(hashes[*number].as_slice()),
                });
                encode_branch(&children, &mut messages.bytes);
                messages.end();
            }
            cost.take(&messages);
            let hashes = messages.hash();
            for (position, (number, (raw, _))) in part.iter().zip(&branches).enumerate() {
                let touched = &self.touched[*number];
                let encoding = messages.message(position);
                let reference = match encoding.len() < 32 {
                    true => Reference::of(encoding),
                    false => Reference::hash(hashes[position]),
                };
                references[*number] = Some(reference);
                let mut changed = self.changed[touched.changed.clone()].iter().peekable();
                writer.begin();
                for (at, raw) in raw.iter().enumerate() {
                    match changed.next_if(|(changed, _)| usize::from(*changed) == at) {
                        Some((_, child)) => {
                            writer.add(at as u8, touched.path.len(), &self.resolve(child, references));
                        }
                        None => writer.add_raw(at as u8, *raw),
                    }
                }
                nodes.push(NodeChange {
                    trie: self.tries[touched.trie],
                    path: Some(touched.path),
                    upper: reference.as_hash().filter(|_| writer.has_branches()),
                    record: Some(Arc::from(writer.record())),
                });
            }
        }
        self.cost = cost;
        Ok(())
    }

    /// The children of a touched branch, as they were and how they are named now. Nodes that are to be
    /// hashed for that are added to `messages`, those that stand for themselves to `short`.
    fn children<'a>(
        &'a self,
        touched: &'a Touched,
        references: &[Option<Reference>],
        messages: &mut Messages,
        short: &mut Vec<Reference>,
    ) -> Option<([Raw<'a>; 16], [Own<'a>; 16])> {
        let depth = touched.path.len();
        let raw = match &touched.record {
            Some(record) => raw_children(depth, record)?,
            None => [Raw::Empty; 16],
        };
        let mut own = [Own::Nothing; 16];
        let mut changed = self.changed[touched.changed.clone()].iter().peekable();
        for (at, (own, raw)) in own.iter_mut().zip(&raw).enumerate() {
            let start = messages.start();
            match changed.next_if(|(changed, _)| usize::from(*changed) == at) {
                Some((_, Child::Empty)) => continue,
                Some((_, Child::Leaf { key, value })) => {
                    encode_leaf(self.kind, key, depth + 1, self.value(*value), &mut messages.bytes)?;
                }
                Some((_, Child::Branch { extension, below: Below::Touched(number) }))
                    if extension.is_empty() =>
                {
                    *own = Own::Touched(*number);
                    continue;
                }
                Some((_, child)) => {
                    let Edge::Branch { extension, below } = self.resolve(child, references) else {
                        return None;
                    };
                    if extension.is_empty() {
                        *own = Own::Short(short.len());
                        short.push(below);
                        continue;
                    }
                    encode_extension(&extension, &below, &mut messages.bytes);
                }
                None => match raw {
                    Raw::Empty => continue,
                    Raw::Plain(hash) => {
                        *own = Own::Stored(hash);
                        continue;
                    }
                    Raw::Leaf(bytes) => Raw::encode_leaf(bytes, self.kind, depth, &mut messages.bytes)?,
                    Raw::Other(_) => {
                        let Edge::Branch { extension, below } =
                            raw.edge(self.kind, &touched.path, at as u8)?
                        else {
                            return None;
                        };
                        if extension.is_empty() {
                            *own = Own::Short(short.len());
                            short.push(below);
                            continue;
                        }
                        encode_extension(&extension, &below, &mut messages.bytes);
                    }
                },
            }
            *own = if messages.bytes.len() - start < 32 {
                short.push(Reference::of(&messages.bytes[start..]));
                messages.bytes.truncate(start);
                Own::Short(short.len() - 1)
            } else {
                Own::Message(messages.end())
            };
        }
        Some((raw, own))
    }
}

/// How a branch names a child.
#[derive(Clone, Copy)]
enum Own<'a> {
    Nothing,
    /// By the hash in its record.
    Stored(&'a [u8]),
    /// By the reference of a touched branch.
    Touched(usize),
    /// By one of a list of references.
    Short(usize),
    /// By the hash of a message.
    Message(usize),
}

impl UpdateCost {
    fn take(&mut self, messages: &Messages) {
        self.hashes += messages.len();
        self.hashed_bytes += messages.bytes.len();
        self.permutations += messages.permutations();
    }
}

/// The hash of the node that a root's edge stands for.
pub(crate) fn root_hash(kind: Kind, edge: &Edge<'_>) -> Option<B256> {
    let mut encoding = Vec::new();
    match edge {
        Edge::Empty => return Some(EMPTY_ROOT),
        Edge::Leaf { key, value } => encode_leaf(kind, key, 0, value, &mut encoding)?,
        Edge::Branch { extension, below } if extension.is_empty() => match below.as_hash() {
            Some(hash) => return Some(hash),
            None => encoding.extend_from_slice(below.as_slice()),
        },
        Edge::Branch { extension, below } => encode_extension(extension, below, &mut encoding),
    }
    Some(keccak256(encoding))
}
