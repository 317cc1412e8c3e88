//! The names that the Ethereum tests have for what is wrong with a block.
//!
//! They are those of `BlockException` and `TransactionException` in ethereum/execution-spec-tests. Several of them mean
//! the same breach, seen from another side, and a test asks for any one of them.

use super::BlockError;
use super::validate::MAX_GAS_LIMIT;
use crate::transaction::TransactionError;

impl BlockError {
    /// The name that the Ethereum tests have for it, the one that says most.
    pub fn test_name(&self) -> &'static str {
        match self {
            Self::Encoding { .. } => "BlockException.RLP_STRUCTURES_ENCODING",
            Self::TransactionEncoding { source, .. } | Self::Transaction { source, .. } => source.test_name(),
            Self::Parent { found, .. } if found.is_zero() => "BlockException.UNKNOWN_PARENT_ZERO",
            Self::Parent { .. } => "BlockException.UNKNOWN_PARENT",
            Self::Number { .. } => "BlockException.INVALID_BLOCK_NUMBER",
            Self::Timestamp { .. } => "BlockException.INVALID_BLOCK_TIMESTAMP_OLDER_THAN_PARENT",
            Self::ExtraData(_) => "BlockException.EXTRA_DATA_TOO_BIG",
            Self::DaoExtraData => "BlockException.EXTRA_DATA_INVALID_DAO",
            Self::GasLimit { .. } => "BlockException.INVALID_GASLIMIT",
            Self::GasAboveLimit { .. } => "BlockException.GAS_USED_OVERFLOW",
            Self::Difficulty { .. } => "BlockException.INVALID_DIFFICULTY",
            Self::Merge { merged: true } => "BlockException.IMPORT_IMPOSSIBLE_DIFFICULTY_OVER_PARIS",
            Self::Merge { merged: false } => "BlockException.IMPORT_IMPOSSIBLE_PARIS_WRONG_POS",
            Self::AfterMerge("ommers") => "BlockException.IMPORT_IMPOSSIBLE_UNCLES_OVER_PARIS",
            Self::AfterMerge(_) | Self::NoBeaconChain(_) => "BlockException.INCORRECT_BLOCK_FORMAT",
            Self::BaseFee { .. } => "BlockException.INVALID_BASEFEE_PER_GAS",
            Self::Presence { field: "withdrawals", expected: true } => {
                "BlockException.RLP_WITHDRAWALS_NOT_READ"
            }
            Self::Presence { .. } => "BlockException.INCORRECT_BLOCK_FORMAT",
            Self::ExcessBlobGas { .. } => "BlockException.INCORRECT_EXCESS_BLOB_GAS",
            Self::BlobGasUsed { .. } => "BlockException.INCORRECT_BLOB_GAS_USED",
            Self::BlobGasLimit { .. } => "BlockException.BLOB_GAS_USED_ABOVE_LIMIT",
            Self::Seal(_) | Self::Validators(_) => "BlockException.INVALID_SEAL",
            Self::Body { part: "transactions", .. } => "BlockException.INVALID_TRANSACTIONS_ROOT",
            Self::Body { part: "withdrawals", .. } => "BlockException.INVALID_WITHDRAWALS_ROOT",
            Self::Body { .. } => "BlockException.INVALID_UNCLES_HASH",
            Self::Size { .. } => "BlockException.RLP_BLOCK_LIMIT_EXCEEDED",
            Self::TooManyOmmers(_) => "BlockException.TOO_MANY_UNCLES",
            Self::OmmerTwice(_) | Self::OmmerSibling(_) => "BlockException.UNCLE_IS_BROTHER",
            Self::OmmerKnown(_) => "BlockException.UNCLE_IN_CHAIN",
            Self::OmmerAncestor(_) => "BlockException.UNCLE_IS_ANCESTOR",
            Self::OmmerParent(_) => "BlockException.UNCLE_PARENT_INCORRECT",
            Self::Ommer(error) => error.test_name(),
            Self::Execution { test_name, .. } => test_name,
            Self::NoSystemContract(_) => "BlockException.SYSTEM_CONTRACT_EMPTY",
            Self::SystemContract(_) => "BlockException.SYSTEM_CONTRACT_CALL_FAILED",
            Self::DepositLog => "BlockException.INVALID_DEPOSIT_EVENT_LAYOUT",
            Self::Outcome { field: "stateRoot", .. } => "BlockException.INVALID_STATE_ROOT",
            Self::Outcome { field: "receiptsRoot", .. } => "BlockException.INVALID_RECEIPTS_ROOT",
            Self::Outcome { field: "logsBloom", .. } => "BlockException.INVALID_LOG_BLOOM",
            Self::Outcome { field: "gasUsed", .. } => "BlockException.INVALID_GAS_USED",
            Self::Outcome { .. } => "BlockException.INVALID_REQUESTS",
            Self::State(_) => "the state cannot be read",
        }
    }

    /// Whether `expected`, names with `|` between them, has one of those that the Ethereum tests have for it.
    pub fn is_one_of(&self, expected: &str) -> bool {
        let others = self.other_test_names();
        expected.split('|').map(str::trim).any(|name| name == self.test_name() || others.contains(&name))
    }

    /// Names that are as true of it as [`test_name`](Self::test_name).
    fn other_test_names(&self) -> &'static [&'static str] {
        match self {
            Self::Encoding { part: "withdrawal", source: alloy_rlp::Error::UnexpectedLength } => {
                &["BlockException.RLP_INVALID_ADDRESS"]
            }
            Self::Encoding { source: alloy_rlp::Error::Overflow, .. } => {
                &["BlockException.RLP_INVALID_FIELD_OVERFLOW_64"]
            }
            // A structure in the block with another form than it must have.
            Self::TransactionEncoding { .. } => &["BlockException.RLP_STRUCTURES_ENCODING"],
            Self::Transaction { source, .. } => of_transaction(source),
            Self::Parent { .. } => &["BlockException.UNKNOWN_PARENT"],
            Self::GasLimit { found, .. } if *found > MAX_GAS_LIMIT => &["BlockException.GASLIMIT_TOO_BIG"],
            Self::GasAboveLimit { .. } => &["BlockException.INVALID_GAS_USED_ABOVE_LIMIT"],
            // A block without difficulty on a chain of work.
            Self::Merge { merged: false } => &["BlockException.IMPORT_IMPOSSIBLE_PARIS_WRONG_POW"],
            Self::Difficulty { found, .. } if found.is_zero() => {
                &["BlockException.IMPORT_IMPOSSIBLE_PARIS_WRONG_POW"]
            }
            Self::Merge { merged: true } => &["BlockException.IMPORT_IMPOSSIBLE_LONDON_OVER_PARIS"],
            Self::BaseFee { expected: Some(_), found: None } => &[
                "BlockException.INCORRECT_BLOCK_FORMAT",
                "BlockException.IMPORT_IMPOSSIBLE_LEGACY",
                "BlockException.IMPORT_IMPOSSIBLE_LEGACY_WRONG_PARENT",
            ],
            Self::BaseFee { expected: None, found: Some(_) } => &[
                "BlockException.INCORRECT_BLOCK_FORMAT",
                "BlockException.IMPORT_IMPOSSIBLE_LONDON_WRONG_PARENT",
            ],
            Self::Presence { field: "withdrawals", expected: true } => {
                &["BlockException.RLP_STRUCTURES_ENCODING", "BlockException.INCORRECT_BLOCK_FORMAT"]
            }
            Self::Presence { field: "withdrawalsRoot", expected: true } => {
                &["BlockException.IMPORT_IMPOSSIBLE_PARIS_OVER_SHANGHAI"]
            }
            Self::Presence { field: "withdrawalsRoot", expected: false } => {
                &["BlockException.IMPORT_IMPOSSIBLE_SHANGHAI"]
            }
            // The sum is that of the transactions, or the header is wrong about it as well.
            Self::BlobGasLimit { .. } => &[
                "BlockException.INCORRECT_BLOB_GAS_USED",
                "TransactionException.TYPE_3_TX_MAX_BLOB_GAS_ALLOWANCE_EXCEEDED",
                "TransactionException.TYPE_3_TX_BLOB_COUNT_EXCEEDED",
            ],
            Self::OmmerTwice(_) => &["BlockException.UNCLE_IN_CHAIN"],
            Self::OmmerAncestor(_) => &["BlockException.UNCLE_IN_CHAIN"],
            Self::OmmerSibling(_) => &["BlockException.UNCLE_PARENT_INCORRECT"],
            // Beyond the ancestors in reach nobody knows whether the parent is older, or of another chain.
            Self::OmmerParent(_) => &["BlockException.UNCLE_UNKNOWN_PARENT"],
            Self::Ommer(error) => error.other_test_names(),
            Self::Execution { test_name: "TransactionException.GAS_ALLOWANCE_EXCEEDED", .. } => {
                &["BlockException.GAS_USED_OVERFLOW"]
            }
            // More than 256 bits of wei are more than anybody has.
            Self::Execution { test_name: "TransactionException.GASLIMIT_PRICE_PRODUCT_OVERFLOW", .. } => {
                &["TransactionException.INSUFFICIENT_ACCOUNT_FUNDS"]
            }
            _ => &[],
        }
    }
}

fn of_transaction(error: &TransactionError) -> &'static [&'static str] {
    match error {
        TransactionError::TypeNotSupported(1) => &["TransactionException.TYPE_1_TX_PRE_FORK"],
        TransactionError::TypeNotSupported(2) => &["TransactionException.TYPE_2_TX_PRE_FORK"],
        TransactionError::TypeNotSupported(3) => {
            &["TransactionException.TYPE_3_TX_PRE_FORK", "TransactionException.TYPE_3_TX_ZERO_BLOBS_PRE_FORK"]
        }
        TransactionError::TypeNotSupported(4) => &["TransactionException.TYPE_4_TX_PRE_FORK"],
        TransactionError::FloorGas { .. } => &["TransactionException.INTRINSIC_GAS_TOO_LOW"],
        TransactionError::GasPriceProduct => &["TransactionException.INSUFFICIENT_ACCOUNT_FUNDS"],
        TransactionError::NonceMax => &["TransactionException.NONCE_TOO_BIG"],
        TransactionError::TooManyBlobs { .. } => {
            &["TransactionException.TYPE_3_TX_MAX_BLOB_GAS_ALLOWANCE_EXCEEDED"]
        }
        _ => &[],
    }
}
