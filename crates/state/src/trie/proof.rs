//! The nodes on the way to a key, from stored branches.

use alloy_primitives::{B256, Bytes};

use super::node::{Edge, Kind, Reference, encode_branch, encode_extension, encode_leaf, read_branch};
use super::path::{Path, nibble};
use super::update::Nodes;

/// The nodes from the root on the way to `key`, as far as it leads (EIP-1186). Nodes of less than 32
/// bytes are within the node above.
pub(crate) fn prove<N: Nodes>(
    nodes: &N,
    kind: Kind,
    trie: &B256,
    key: &B256,
) -> Result<Vec<Bytes>, N::Error> {
    let mut proof: Vec<Bytes> = Vec::new();
    let mut add = |encoding: Vec<u8>| {
        if encoding.len() >= 32 || proof.is_empty() {
            proof.push(encoding.into());
        }
    };
    let Some(mut record) = nodes.root_record(trie)? else { return Ok(proof) };
    let mut edge =
        Edge::decode_root(kind, &record).ok_or_else(|| nodes.damaged(trie, None)).map(Step::from_edge)?;
    let mut depth = 0;
    loop {
        match edge {
            Step::Nothing => return Ok(proof),
            Step::Leaf(key, value) => {
                let mut encoding = Vec::new();
                encode_leaf(kind, &key, depth, &value, &mut encoding)
                    .ok_or_else(|| nodes.damaged(trie, None))?;
                add(encoding);
                return Ok(proof);
            }
            Step::Branch(extension, below) => {
                if !extension.is_empty() {
                    let mut encoding = Vec::new();
                    encode_extension(&extension, &below, &mut encoding);
                    add(encoding);
                }
                let path = Path::prefix(key, depth).join(&extension);
                if Path::prefix(key, path.len()) != path {
                    return Ok(proof);
                }
                record = nodes.branch(trie, &path, below.as_hash())?;
                let children =
                    read_branch(kind, &path, &record).ok_or_else(|| nodes.damaged(trie, Some(&path)))?;
                let references = children.each_ref().map(|child| reference(kind, child, path.len() + 1));
                let mut encoding = Vec::new();
                encode_branch(
                    &references.each_ref().map(|child| child.as_ref().map(Reference::as_slice)),
                    &mut encoding,
                );
                add(encoding);
                edge = Step::from_edge(children[usize::from(nibble(key, path.len()))].clone());
                depth = path.len() + 1;
            }
        }
    }
}

/// An edge that outlives the record it was in.
enum Step {
    Nothing,
    Leaf(B256, Vec<u8>),
    Branch(Path, Reference),
}

impl Step {
    fn from_edge(edge: Edge<'_>) -> Self {
        match edge {
            Edge::Empty => Self::Nothing,
            Edge::Leaf { key, value } => Self::Leaf(key, value.to_vec()),
            Edge::Branch { extension, below } => Self::Branch(extension, below),
        }
    }
}

/// How the node above names what hangs at `depth`.
fn reference(kind: Kind, edge: &Edge<'_>, depth: usize) -> Option<Reference> {
    let mut encoding = Vec::new();
    match edge {
        Edge::Empty => return None,
        Edge::Leaf { key, value } => encode_leaf(kind, key, depth, value, &mut encoding)?,
        Edge::Branch { extension, below } if extension.is_empty() => return Some(*below),
        Edge::Branch { extension, below } => encode_extension(extension, below, &mut encoding),
    }
    Some(Reference::of(&encoding))
}
