//! Bodies: whether the bytes beside a header are those that the header stands for.

use alloy_consensus::proofs::ordered_trie_root_encoded;
use alloy_primitives::{B256, keccak256};

use crate::block::Block;
use crate::rlp::{Reader, Result, value};

/// The form of the bodies of a chain's blocks, and how its headers commit to them.
///
/// Votes, verdicts and seals name a block by the hash of its header. Only what is bound like this is
/// one sequence of bytes for one hash, so that a verdict on a hash is a verdict on bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Bodies {
    /// Ethereum's: transactions, ommers and, where the header has `withdrawalsRoot`, withdrawals.
    #[default]
    Ethereum,
    /// One string of bytes, whose keccak-256 is the header's `transactionsRoot`.
    OneString,
}

/// The highest first byte of a typed transaction (EIP-2718); above it a legacy one begins.
const LAST_TYPE: u8 = 0x7f;

impl Bodies {
    /// Checks that the body of a block is the one that its header stands for, to the byte. What the
    /// body says is not looked at.
    ///
    /// # Errors
    /// Another form than the chain's, or the first part that is not the header's.
    pub fn check(self, block: &Block) -> Result<()> {
        match self {
            Self::Ethereum => ethereum(block),
            Self::OneString => one_string(block),
        }
    }
}

fn ethereum(block: &Block) -> Result<()> {
    let header = block.header();
    let mut body = Reader::new(block.body());
    if transactions_root(&mut body)? != header.transactions_root {
        return Err(value("block.transactions", "not those of the header"));
    }
    let ommers = body.raw("block.ommers")?;
    if keccak256(ommers) != header.ommers_hash {
        return Err(value("block.ommers", "not those of the header"));
    }
    if let Some(root) = header.withdrawals_root {
        let mut list = body.list("block.withdrawals")?;
        let mut withdrawals = Vec::new();
        while !list.is_empty() {
            withdrawals.push(list.raw("block.withdrawals")?);
        }
        if ordered_trie_root_encoded(&withdrawals) != root {
            return Err(value("block.withdrawals", "not those of the header"));
        }
    }
    body.end("block.body")
}

/// A typed transaction is a string, of which the root covers the content; one that held a list would
/// have the root of a legacy transaction and be other bytes.
fn transactions_root(body: &mut Reader<'_>) -> Result<B256> {
    let mut list = body.list("block.transactions")?;
    let mut transactions = Vec::new();
    while !list.is_empty() {
        let (is_list, raw, content) = list.both("block.transactions")?;
        if is_list {
            transactions.push(raw);
        } else if content.first().is_some_and(|first| *first <= LAST_TYPE) {
            transactions.push(content);
        } else {
            return Err(value("block.transactions", "a string that is no typed transaction"));
        }
    }
    Ok(ordered_trie_root_encoded(&transactions))
}

fn one_string(block: &Block) -> Result<()> {
    let mut body = Reader::new(block.body());
    if keccak256(body.bytes("block.body")?) != block.header().transactions_root {
        return Err(value("block.body", "not that of the header"));
    }
    body.end("block.body")
}
