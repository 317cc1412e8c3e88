//! Where the Ethereum tests are, and what they have in common.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::chain::Imported;
use super::{Chain, Memory};
use crate::block::{Block, Body};
use crate::genesis::Genesis;

/// The Ethereum tests, where the environment has them; `None` elsewhere.
pub(crate) fn reference(suite: &str) -> Option<PathBuf> {
    let root = std::env::var_os("ETHEREUM_TESTS").map(PathBuf::from).or_else(|| {
        let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/reference/ethereum");
        beside.is_dir().then_some(beside)
    })?;
    Some(root.join(suite))
}

/// The chain that the cases of JSON-RPC are about: it goes through every fork from Frontier to the
/// newest.
pub(crate) fn rpc_chain() -> Option<Chain> {
    let path = reference("rpc-compat")?;
    let genesis = Genesis::parse(&std::fs::read_to_string(path.join("genesis.json")).unwrap()).unwrap();
    let schedule = genesis.schedule().unwrap();
    let state = Memory::of(&genesis.alloc);
    let header = genesis.header(&schedule, state.root());
    let mut chain = Chain::new(schedule, &Block { header, body: Body::default() }, state).unwrap();
    let file = std::fs::read(path.join("chain.rlp")).unwrap();
    let mut rest = &file[..];
    while !rest.is_empty() {
        let before = rest;
        let block = Block::decode_next(&mut rest).unwrap();
        let number = block.header.number;
        if let Err(error) = chain.import(&before[..before.len() - rest.len()]) {
            panic!("block {number}: {error:?}");
        }
    }
    Some(chain)
}

impl Chain {
    /// The block that a request names.
    pub(crate) fn at(&self, tag: Option<&Value>) -> Option<&Imported> {
        let mut block = &self.blocks[&self.head];
        let Some(number) = tag.and_then(Value::as_str).and_then(|tag| tag.strip_prefix("0x")) else {
            return Some(block);
        };
        let number = u64::from_str_radix(number, 16).unwrap();
        while block.header.number > number {
            block = &self.blocks[&block.header.parent_hash];
        }
        (block.header.number == number).then_some(block)
    }
}

/// A request and its answer.
pub(crate) struct RpcCase {
    pub(crate) name: String,
    pub(crate) parameters: Vec<Value>,
    pub(crate) expected: Value,
}

impl RpcCase {
    /// Every request of the cases for a method.
    pub(crate) fn all(method: &str) -> Vec<Self> {
        let mut cases = Vec::new();
        let Some(path) = reference("rpc-compat") else { return cases };
        let mut files: Vec<_> =
            std::fs::read_dir(path.join(method)).unwrap().map(|entry| entry.unwrap().path()).collect();
        files.sort();
        for file in files {
            let name = file.file_stem().unwrap().to_string_lossy().into_owned();
            let mut parameters = Vec::new();
            for line in std::fs::read_to_string(&file).unwrap().lines() {
                if let Some(request) = line.strip_prefix(">> ") {
                    let request: Value = serde_json::from_str(request).unwrap();
                    parameters = request["params"].as_array().cloned().unwrap_or_default();
                } else if let Some(answer) = line.strip_prefix("<< ") {
                    cases.push(Self {
                        name: name.clone(),
                        parameters: std::mem::take(&mut parameters),
                        expected: serde_json::from_str(answer).unwrap(),
                    });
                }
            }
        }
        cases
    }
}
