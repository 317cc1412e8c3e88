//! A plain trie in memory: any keys, values at branches too. It says what is right; speed is elsewhere.

use alloy_primitives::map::B256Map;
use alloy_primitives::{B256, Bytes, keccak256};

use super::EMPTY_ROOT;
use super::rlp::{self, Item};

/// A trie whose parts may be known by their hash only, as a proof leaves them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemoryTrie {
    root: Node,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum Node {
    #[default]
    Empty,
    /// Only its hash is known.
    Hidden(B256),
    Leaf(Vec<u8>, Vec<u8>),
    Extension(Vec<u8>, Box<Node>),
    Branch(Box<[Node; 16]>, Option<Vec<u8>>),
}

/// Why nodes do not prove what they should.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProofError {
    /// A node that the way to a key leads through is not among the nodes.
    #[error("the proof lacks the node {hash}")]
    Missing {
        /// The hash that its parent, or the root, has.
        hash: B256,
    },
    /// A node is not the encoding of one.
    #[error("the proof's node {hash} does not parse")]
    Malformed {
        /// Its hash.
        hash: B256,
    },
    /// The entries and the nodes at their ends give another root.
    #[error("the range gives the root {found}, not {expected}")]
    WrongRoot {
        /// The root that was to be proved.
        expected: B256,
        /// The root that the range has.
        found: B256,
    },
    /// The entries are not what a range is: ascending, from its start on, none empty.
    #[error("entry {position} of the range is out of order or empty")]
    BadEntry {
        /// Its position in the range.
        position: usize,
    },
}

impl MemoryTrie {
    /// A trie without keys.
    pub fn new() -> Self {
        Self::default()
    }

    /// The trie with this root of which nothing is known but what `nodes` show: the nodes of proofs for
    /// any number of keys.
    ///
    /// # Errors
    /// [`ProofError::Malformed`] for a node that is needed and does not parse. A node that is missing
    /// shows when a key is looked up that needs it.
    pub fn from_proof(root: B256, nodes: &[Bytes]) -> Result<Self, ProofError> {
        let known: B256Map<&Bytes> = nodes.iter().map(|node| (keccak256(node), node)).collect();
        let mut known = Known { nodes: known, left: nodes.len() * 8 + 64 };
        let root = if root == EMPTY_ROOT { Node::Empty } else { reveal(root, &mut known, 0)? };
        Ok(Self { root })
    }

    /// The value of `key`.
    ///
    /// # Errors
    /// [`ProofError::Missing`] if the way there is not known.
    pub fn get(&self, key: &[u8]) -> Result<Option<&[u8]>, ProofError> {
        let nibbles = nibbles(key);
        let mut node = &self.root;
        let mut rest = &nibbles[..];
        loop {
            match node {
                Node::Empty => return Ok(None),
                Node::Hidden(hash) => return Err(ProofError::Missing { hash: *hash }),
                Node::Leaf(path, value) => return Ok((path == rest).then_some(&value[..])),
                Node::Extension(path, below) => match rest.strip_prefix(&path[..]) {
                    Some(further) => (node, rest) = (&**below, further),
                    None => return Ok(None),
                },
                Node::Branch(children, value) => match rest.split_first() {
                    Some((at, further)) => (node, rest) = (&children[usize::from(*at)], further),
                    None => return Ok(value.as_deref()),
                },
            }
        }
    }

    /// Writes a value; an empty one removes the key.
    ///
    /// # Errors
    /// [`ProofError::Missing`] if the way there is not known; the trie is of no use then.
    pub fn insert(&mut self, key: &[u8], value: &[u8]) -> Result<(), ProofError> {
        let nibbles = nibbles(key);
        let root = std::mem::take(&mut self.root);
        self.root =
            if value.is_empty() { remove(root, &nibbles)? } else { insert(root, &nibbles, value.to_vec())? };
        Ok(())
    }

    /// Removes a key.
    ///
    /// # Errors
    /// As [`insert`](Self::insert).
    pub fn remove(&mut self, key: &[u8]) -> Result<(), ProofError> {
        self.insert(key, &[])
    }

    /// Forgets all keys from `first` to `last`, of the same length, whose values are known or not.
    /// What is left need not have the form of a trie: branches stay as they are, so that the keys put
    /// there next find the known way.
    pub(crate) fn clear_range(&mut self, first: &[u8], last: &[u8]) -> Result<(), ProofError> {
        let root = std::mem::take(&mut self.root);
        self.root = clear(root, Some(&nibbles(first)), Some(&nibbles(last)))?;
        Ok(())
    }

    /// Whether there is any key above `key`; what is known by its hash only counts.
    ///
    /// # Errors
    /// [`ProofError::Missing`] if the way to `key` is not known.
    pub(crate) fn has_above(&self, key: &[u8]) -> Result<bool, ProofError> {
        above(&self.root, &nibbles(key))
    }

    /// The root's hash.
    pub fn root(&self) -> B256 {
        match &self.root {
            Node::Empty => EMPTY_ROOT,
            Node::Hidden(hash) => *hash,
            node => keccak256(encode(node)),
        }
    }

    /// The nodes from the root on the way to `key`, as far as it leads: a proof of its value or of its
    /// absence. Nodes of less than 32 bytes are within the node above.
    pub fn proof(&self, key: &[u8]) -> Vec<Bytes> {
        let nibbles = nibbles(key);
        let mut proof = Vec::new();
        let mut node = &self.root;
        let mut rest = &nibbles[..];
        loop {
            if matches!(node, Node::Empty | Node::Hidden(_)) {
                return proof;
            }
            let encoding = encode(node);
            if encoding.len() >= 32 || proof.is_empty() {
                proof.push(encoding.into());
            }
            match node {
                Node::Extension(path, below) if rest.starts_with(path) => {
                    (node, rest) = (&**below, &rest[path.len()..]);
                }
                Node::Branch(children, _) if !rest.is_empty() => {
                    (node, rest) = (&children[usize::from(rest[0])], &rest[1..]);
                }
                _ => return proof,
            }
        }
    }

    /// All keys, which have whole bytes, with their values, in order. What is hidden is left out.
    pub fn entries(&self) -> Vec<(Vec<u8>, Vec<u8>)> {
        let mut entries = Vec::new();
        collect(&self.root, &mut Vec::new(), &mut entries);
        entries
    }
}

fn nibbles(key: &[u8]) -> Vec<u8> {
    key.iter().flat_map(|byte| [byte >> 4, byte & 0xf]).collect()
}

fn shared(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

fn empty_children() -> Box<[Node; 16]> {
    Box::new([const { Node::Empty }; 16])
}

/// A node above `below`, by way of `path`.
fn extend(path: &[u8], below: Node) -> Node {
    if path.is_empty() {
        return below;
    }
    match below {
        Node::Empty => Node::Empty,
        Node::Leaf(further, value) => Node::Leaf([path, &further].concat(), value),
        Node::Extension(further, below) => Node::Extension([path, &further].concat(), below),
        other => Node::Extension(path.to_vec(), Box::new(other)),
    }
}

fn insert(node: Node, path: &[u8], value: Vec<u8>) -> Result<Node, ProofError> {
    Ok(match node {
        Node::Empty => Node::Leaf(path.to_vec(), value),
        Node::Hidden(hash) => return Err(ProofError::Missing { hash }),
        Node::Leaf(own, _) if own == path => Node::Leaf(own, value),
        Node::Leaf(own, old) => {
            let common = shared(&own, path);
            let mut branch = Node::Branch(empty_children(), None);
            branch = insert(branch, &own[common..], old)?;
            branch = insert(branch, &path[common..], value)?;
            extend(&path[..common], branch)
        }
        Node::Extension(own, below) => {
            let common = shared(&own, path);
            if common == own.len() {
                return Ok(extend(&own, insert(*below, &path[common..], value)?));
            }
            let mut children = empty_children();
            children[usize::from(own[common])] = extend(&own[common + 1..], *below);
            let branch = insert(Node::Branch(children, None), &path[common..], value)?;
            extend(&path[..common], branch)
        }
        Node::Branch(mut children, old) => match path.split_first() {
            None => Node::Branch(children, Some(value)),
            Some((at, rest)) => {
                let child = std::mem::take(&mut children[usize::from(*at)]);
                children[usize::from(*at)] = insert(child, rest, value)?;
                Node::Branch(children, old)
            }
        },
    })
}

fn remove(node: Node, path: &[u8]) -> Result<Node, ProofError> {
    Ok(match node {
        Node::Empty => Node::Empty,
        Node::Hidden(hash) => return Err(ProofError::Missing { hash }),
        Node::Leaf(own, _) if own == path => Node::Empty,
        Node::Leaf(own, value) => Node::Leaf(own, value),
        Node::Extension(own, below) => match path.strip_prefix(&own[..]) {
            Some(rest) => extend(&own, remove(*below, rest)?),
            None => Node::Extension(own, below),
        },
        Node::Branch(mut children, value) => {
            let value = match path.split_first() {
                None => None,
                Some((at, rest)) => {
                    let child = std::mem::take(&mut children[usize::from(*at)]);
                    children[usize::from(*at)] = remove(child, rest)?;
                    value
                }
            };
            shrink(children, value)?
        }
    })
}

/// The form of a branch that may have lost a child.
fn shrink(mut children: Box<[Node; 16]>, value: Option<Vec<u8>>) -> Result<Node, ProofError> {
    let mut left = (0..16).filter(|at| children[*at] != Node::Empty);
    let (first, second) = (left.next(), left.next());
    Ok(match (first, second, value) {
        (None, _, None) => Node::Empty,
        (None, _, Some(value)) => Node::Leaf(Vec::new(), value),
        (Some(at), None, None) => {
            let child = std::mem::take(&mut children[at]);
            if let Node::Hidden(hash) = child {
                // Whether it is a leaf, an extension or a branch decides what it becomes.
                return Err(ProofError::Missing { hash });
            }
            extend(&[at as u8], child)
        }
        (_, _, value) => Node::Branch(children, value),
    })
}

/// Without the keys between two bounds; a bound of `None` is beyond the node on that side.
fn clear(node: Node, first: Option<&[u8]>, last: Option<&[u8]>) -> Result<Node, ProofError> {
    if first.is_none() && last.is_none() {
        return Ok(Node::Empty);
    }
    Ok(match node {
        Node::Empty => Node::Empty,
        Node::Hidden(hash) => return Err(ProofError::Missing { hash }),
        Node::Leaf(own, value) => {
            let inside =
                first.is_none_or(|first| &own[..] >= first) && last.is_none_or(|last| &own[..] <= last);
            if inside { Node::Empty } else { Node::Leaf(own, value) }
        }
        Node::Extension(own, below) => {
            // On which side of all keys below the bound lies, or within them.
            let place = |bound: &[u8]| own[..].cmp(&bound[..own.len().min(bound.len())]);
            use std::cmp::Ordering::{Equal, Greater, Less};
            let (low, high) = (first.map(place), last.map(place));
            if low == Some(Less) || high == Some(Greater) {
                return Ok(Node::Extension(own, below));
            }
            let within = |bound: Option<&[u8]>, side| match side {
                Some(Equal) => bound.map(|bound| bound[own.len()..].to_vec()),
                _ => None,
            };
            let (first, last) = (within(first, low), within(last, high));
            match clear(*below, first.as_deref(), last.as_deref())? {
                Node::Empty => Node::Empty,
                below => Node::Extension(own, Box::new(below)),
            }
        }
        Node::Branch(mut children, value) => {
            let low = first.map_or(0, |first| usize::from(first[0]));
            let high = last.map_or(15, |last| usize::from(last[0]));
            for at in low..=high {
                let child = std::mem::take(&mut children[at]);
                let first = first.filter(|_| at == low).map(|first| &first[1..]);
                let last = last.filter(|_| at == high).map(|last| &last[1..]);
                children[at] = clear(child, first, last)?;
            }
            Node::Branch(children, value)
        }
    })
}

fn above(node: &Node, path: &[u8]) -> Result<bool, ProofError> {
    match node {
        Node::Empty => Ok(false),
        Node::Hidden(hash) => Err(ProofError::Missing { hash: *hash }),
        Node::Leaf(own, _) => Ok(&own[..] > path),
        Node::Extension(own, below) => match path.strip_prefix(&own[..]) {
            Some(rest) => above(below, rest),
            None => Ok(&own[..] > path),
        },
        Node::Branch(children, _) => match path.split_first() {
            None => Ok(children.iter().any(|child| *child != Node::Empty)),
            Some((at, rest)) => {
                let at = usize::from(*at);
                Ok(children[at + 1..].iter().any(|child| *child != Node::Empty)
                    || above(&children[at], rest)?)
            }
        },
    }
}

fn collect(node: &Node, path: &mut Vec<u8>, entries: &mut Vec<(Vec<u8>, Vec<u8>)>) {
    let key = |path: &[u8]| path.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect();
    let length = path.len();
    match node {
        Node::Empty | Node::Hidden(_) => {}
        Node::Leaf(own, value) => {
            path.extend_from_slice(own);
            entries.push((key(path), value.clone()));
        }
        Node::Extension(own, below) => {
            path.extend_from_slice(own);
            collect(below, path, entries);
        }
        Node::Branch(children, value) => {
            if let Some(value) = value {
                entries.push((key(path), value.clone()));
            }
            for (at, child) in children.iter().enumerate() {
                path.push(at as u8);
                collect(child, path, entries);
                path.pop();
            }
        }
    }
    path.truncate(length);
}

fn hex_prefix(path: &[u8], leaf: bool) -> Vec<u8> {
    let flag = if leaf { 0x20 } else { 0 };
    let (head, rest) = match path.split_first() {
        Some((first, rest)) if path.len() % 2 == 1 => (flag | 0x10 | first, rest),
        _ => (flag, path),
    };
    std::iter::once(head).chain(rest.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1])).collect()
}

fn encode(node: &Node) -> Vec<u8> {
    let mut out = Vec::new();
    match node {
        Node::Empty => rlp::string(&[], &mut out),
        Node::Hidden(hash) => rlp::string(hash.as_slice(), &mut out),
        Node::Leaf(path, value) => {
            rlp::string(&hex_prefix(path, true), &mut out);
            rlp::string(value, &mut out);
            rlp::wrap_list(0, &mut out);
        }
        Node::Extension(path, below) => {
            rlp::string(&hex_prefix(path, false), &mut out);
            refer(below, &mut out);
            rlp::wrap_list(0, &mut out);
        }
        Node::Branch(children, value) => {
            for child in children.iter() {
                refer(child, &mut out);
            }
            rlp::string(value.as_deref().unwrap_or_default(), &mut out);
            rlp::wrap_list(0, &mut out);
        }
    }
    out
}

/// The node as an item of the one above.
fn refer(node: &Node, out: &mut Vec<u8>) {
    let encoding = encode(node);
    match node {
        Node::Empty | Node::Hidden(_) => out.extend_from_slice(&encoding),
        _ if encoding.len() < 32 => out.extend_from_slice(&encoding),
        _ => rlp::string(keccak256(&encoding).as_slice(), out),
    }
}

/// Nodes below a trie's deepest possible one are refused, whatever their hashes.
const DEPTH_LIMIT: usize = 128;

/// The nodes of a proof.
struct Known<'a> {
    nodes: B256Map<&'a Bytes>,
    /// How many may be placed yet. A few nodes that name each other often make a trie that no memory
    /// holds; in an honest proof a node is hardly ever in two places.
    left: usize,
}

fn reveal(hash: B256, known: &mut Known<'_>, depth: usize) -> Result<Node, ProofError> {
    let Some(bytes) = known.nodes.get(&hash).copied() else { return Ok(Node::Hidden(hash)) };
    if depth > DEPTH_LIMIT || known.left == 0 {
        return Err(ProofError::Malformed { hash });
    }
    known.left -= 1;
    decode(bytes, known, depth)?.ok_or(ProofError::Malformed { hash })
}

/// Inner `None` when the bytes are not a node.
fn decode(bytes: &[u8], known: &mut Known<'_>, depth: usize) -> Result<Option<Node>, ProofError> {
    let Some(items) = rlp::items(bytes) else { return Ok(None) };
    let mut child = |item: &Item<'_>| -> Result<Option<Node>, ProofError> {
        match item {
            Item::String([]) => Ok(Some(Node::Empty)),
            Item::String(hash) => match B256::try_from(*hash) {
                Ok(hash) => reveal(hash, known, depth + 1).map(Some),
                Err(_) => Ok(None),
            },
            Item::List(node) if node.len() < 32 && depth <= DEPTH_LIMIT => decode(node, known, depth + 1),
            Item::List(_) => Ok(None),
        }
    };
    match &items[..] {
        [Item::String(prefix), below] => {
            let Some((path, leaf)) = unprefix(prefix) else { return Ok(None) };
            if leaf {
                return Ok(match below {
                    Item::String(value) if !value.is_empty() => Some(Node::Leaf(path, value.to_vec())),
                    _ => None,
                });
            }
            Ok(child(below)?
                .filter(|below| !path.is_empty() && matches!(below, Node::Branch(..) | Node::Hidden(_)))
                .map(|below| Node::Extension(path, Box::new(below))))
        }
        [items @ .., Item::String(value)] if items.len() == 16 => {
            let mut children = empty_children();
            for (place, item) in children.iter_mut().zip(items) {
                match child(item)? {
                    Some(node) => *place = node,
                    None => return Ok(None),
                }
            }
            Ok(Some(Node::Branch(children, (!value.is_empty()).then(|| value.to_vec()))))
        }
        _ => Ok(None),
    }
}

fn unprefix(prefix: &[u8]) -> Option<(Vec<u8>, bool)> {
    let (head, rest) = prefix.split_first()?;
    let odd = head & 0x10 != 0;
    if head & 0xc0 != 0 || (!odd && head & 0xf != 0) {
        return None;
    }
    let first = odd.then_some(head & 0xf);
    Some((first.into_iter().chain(nibbles(rest)).collect(), head & 0x20 != 0))
}
