//! Why a block was refused.

use alloy_primitives::{Address, B256, U256};

use crate::transaction::TransactionError;

/// Why a block was refused.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the fields are what the messages say")]
pub enum BlockError {
    /// A part of the block is no valid RLP, or not of the right form.
    #[error("the encoding of the {part} is wrong")]
    Encoding { part: &'static str, source: alloy_rlp::Error },
    /// A transaction in the block has a wrong encoding.
    #[error("the encoding of transaction {index} is wrong")]
    TransactionEncoding { index: usize, source: TransactionError },
    /// The parent is another block.
    #[error("the parent is {expected}, not {found}")]
    Parent { expected: B256, found: B256 },
    /// The number does not follow the parent's.
    #[error("the number is {found}, expected {expected}")]
    Number { expected: u64, found: u64 },
    /// The block is not later than its parent.
    #[error("the timestamp {found} is not after the parent's {parent}")]
    Timestamp { parent: u64, found: u64 },
    /// More than 32 bytes of extra data.
    #[error("{0} bytes of extra data, at most 32")]
    ExtraData(usize),
    /// The ten blocks from the DAO fork on must say which side they take (EIP-779).
    #[error("the extra data does not fit the DAO fork")]
    DaoExtraData,
    /// The gas limit moved too far, or is out of all bounds.
    #[error("the gas limit {found} is out of bounds after the parent's {parent}")]
    GasLimit { parent: u64, found: u64 },
    /// More gas used than the limit.
    #[error("{used} gas used, above the limit of {limit}")]
    GasAboveLimit { limit: u64, used: u64 },
    /// The difficulty is not what the parent's and the time between them give.
    #[error("the difficulty is {found}, expected {expected}")]
    Difficulty { expected: U256, found: U256 },
    /// A block of work after the terminal total difficulty, or the reverse.
    #[error("the block has {} difficulty {} the merge", if *.merged { "a" } else { "no" }, if *.merged { "after" } else { "before" })]
    Merge { merged: bool },
    /// Ommers, or a nonce, in a block without work.
    #[error("{0} in a block without proof of work")]
    AfterMerge(&'static str),
    /// A field that a beacon chain fills, in a block that validators seal.
    #[error("{0} in a block of a chain that has no beacon chain")]
    NoBeaconChain(&'static str),
    /// The base fee is not what the parent gives.
    #[error("the base fee is {found:?}, expected {expected:?}")]
    BaseFee { expected: Option<u64>, found: Option<u64> },
    /// A header field that the fork does not have, or lacks.
    #[error("the header field `{field}` {}", if *.expected { "is missing" } else { "comes with a later fork" })]
    Presence { field: &'static str, expected: bool },
    /// The excess blob gas does not follow from the parent.
    #[error("the excess blob gas is {found}, expected {expected}")]
    ExcessBlobGas { expected: u64, found: u64 },
    /// The blob gas used is not that of the transactions, or above the limit.
    #[error("{found} blob gas used, expected {expected}")]
    BlobGasUsed { expected: u64, found: u64 },
    /// More blobs than the fork allows.
    #[error("{found} blob gas used, at most {limit}")]
    BlobGasLimit { limit: u64, found: u64 },
    /// What seals the header is wrong.
    #[error("the seal is wrong")]
    Seal(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// After the block nobody could seal the next one.
    #[error("no validators could be told after the block")]
    Validators(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The body is not the one that the header has the root of.
    #[error("the {part} of the body do not match the header: {found}, expected {expected}")]
    Body { part: &'static str, expected: B256, found: B256 },
    /// The block is larger than EIP-7934 allows.
    #[error("the block has {size} bytes, at most {limit}")]
    Size { size: usize, limit: usize },
    /// More ommers than two.
    #[error("{0} ommers, at most 2")]
    TooManyOmmers(usize),
    /// The block lists an ommer twice.
    #[error("ommer {0} is listed twice")]
    OmmerTwice(B256),
    /// An ancestor has listed the ommer already.
    #[error("ommer {0} was listed by an ancestor")]
    OmmerKnown(B256),
    /// An ommer is an ancestor of the block.
    #[error("ommer {0} is an ancestor")]
    OmmerAncestor(B256),
    /// An ommer has the block's own parent.
    #[error("ommer {0} is a sibling of the block")]
    OmmerSibling(B256),
    /// An ommer's parent is no ancestor in reach.
    #[error("ommer {0} has no parent among the ancestors in reach")]
    OmmerParent(B256),
    /// An ommer's own header is wrong.
    #[error("the header of an ommer is wrong")]
    Ommer(#[source] Box<BlockError>),
    /// A transaction that the fork does not take.
    #[error("transaction {index} is invalid")]
    Transaction { index: usize, source: TransactionError },
    /// A transaction that the state, or the block's gas, does not allow.
    #[error("transaction {index} cannot be executed: {problem}")]
    Execution { index: usize, problem: String, test_name: &'static str },
    /// A system contract has no code.
    #[error("the system contract at {0} has no code")]
    NoSystemContract(Address),
    /// A system contract failed.
    #[error("the system contract {0}")]
    SystemContract(String),
    /// A deposit log has another form than EIP-6110's.
    #[error("a deposit log is malformed")]
    DepositLog,
    /// Executing the block gave another result than its header has.
    #[error("executing the block gave {found} as {field}, the header has {expected}")]
    Outcome { field: &'static str, expected: String, found: String },
    /// Reading the state failed: nothing is said about the block.
    #[error("the state cannot be read")]
    State(#[source] Box<dyn std::error::Error + Send + Sync>),
}

impl BlockError {
    /// Whether the block itself is at fault, rather than this node.
    pub fn is_invalid(&self) -> bool {
        !matches!(self, Self::State(_))
    }
}
