//! Why a transaction was not executed.

use alloy_primitives::U256;
use revm::context_interface::result::{EVMError, InvalidTransaction};

use super::ReadError;
use crate::block::BlockError;
use crate::transaction::TransactionError;

/// Why a transaction was not executed; nothing changed.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    /// The fork does not take it, in whatever block.
    #[error(transparent)]
    Transaction(#[from] TransactionError),
    /// The block has not that much gas left. Another block may.
    #[error("gas limit reached: the block has {left} gas left, the transaction may use {needed}")]
    BlockGas {
        /// What the block has left.
        left: u64,
        /// The transaction's gas limit.
        needed: u64,
    },
    /// The transaction's gas limit is above that of a whole block.
    #[error("exceeds block gas limit")]
    GasAboveBlock,
    /// The block has no room for that many blobs. Another block may.
    #[error("blob gas limit reached: the block has room for {left} blobs, the transaction has {needed}")]
    BlobGas {
        /// Blobs that still fit.
        left: u64,
        /// Blobs of the transaction.
        needed: u64,
    },
    /// The nonce was used before.
    #[error("nonce too low: next nonce {expected}, tx nonce {found}")]
    NonceTooLow {
        /// The sender's next.
        expected: u64,
        /// The transaction's.
        found: u64,
    },
    /// Earlier transactions of the sender are missing.
    #[error("nonce too high: next nonce {expected}, tx nonce {found}")]
    NonceTooHigh {
        /// The sender's next.
        expected: u64,
        /// The transaction's.
        found: u64,
    },
    /// The sender cannot pay for gas and value.
    #[error("insufficient funds for gas * price + value: have {balance} want {needed}")]
    Funds {
        /// Of the sender, in wei.
        balance: U256,
        /// In wei.
        needed: U256,
    },
    /// Gas and value together are above 256 bits.
    #[error("insufficient funds for gas * price + value: the sum is above 256 bits")]
    FundsOverflow,
    /// The sender is a contract (EIP-3607).
    #[error("sender not an eoa")]
    SenderHasCode,
    /// The fee is below the block's base fee.
    #[error("max fee per gas less than block base fee")]
    FeeTooLow,
    /// The fee for blobs is below the block's.
    #[error("max fee per blob gas less than block blob gas fee")]
    BlobFeeTooLow,
    /// Reading the state failed.
    #[error("the state cannot be read")]
    State(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// Anything else that the machine refuses.
    #[error("{0}")]
    Other(String),
}

impl Refusal {
    /// The name that the Ethereum tests have for it.
    pub fn test_name(&self) -> &'static str {
        match self {
            Self::Transaction(error) => error.test_name(),
            Self::BlockGas { .. } | Self::GasAboveBlock => "TransactionException.GAS_ALLOWANCE_EXCEEDED",
            Self::BlobGas { .. } => "TransactionException.TYPE_3_TX_MAX_BLOB_GAS_ALLOWANCE_EXCEEDED",
            Self::NonceTooLow { .. } => "TransactionException.NONCE_MISMATCH_TOO_LOW",
            Self::NonceTooHigh { .. } => "TransactionException.NONCE_MISMATCH_TOO_HIGH",
            Self::Funds { .. } => "TransactionException.INSUFFICIENT_ACCOUNT_FUNDS",
            Self::FundsOverflow => "TransactionException.GASLIMIT_PRICE_PRODUCT_OVERFLOW",
            Self::SenderHasCode => "TransactionException.SENDER_NOT_EOA",
            Self::FeeTooLow => "TransactionException.INSUFFICIENT_MAX_FEE_PER_GAS",
            Self::BlobFeeTooLow => "TransactionException.INSUFFICIENT_MAX_FEE_PER_BLOB_GAS",
            Self::State(_) => "the state cannot be read",
            Self::Other(_) => "TransactionException.UNDEFINED",
        }
    }

    /// Whether the transaction may be executed later, in another block.
    pub fn may_pass_later(&self) -> bool {
        !matches!(self, Self::Transaction(_) | Self::NonceTooLow { .. })
    }

    pub(super) fn in_block(self, index: usize) -> BlockError {
        match self {
            Self::Transaction(source) => BlockError::Transaction { index, source },
            Self::State(source) => BlockError::State(source),
            other => {
                BlockError::Execution { index, test_name: other.test_name(), problem: other.to_string() }
            }
        }
    }
}

impl From<ReadError> for Refusal {
    fn from(error: ReadError) -> Self {
        Self::State(error.0)
    }
}

impl From<ReadError> for BlockError {
    fn from(error: ReadError) -> Self {
        Self::State(error.0)
    }
}

impl From<EVMError<ReadError>> for Refusal {
    fn from(error: EVMError<ReadError>) -> Self {
        match error {
            EVMError::Transaction(invalid) => invalid.into(),
            EVMError::Database(error) => error.into(),
            other => Self::Other(other.to_string()),
        }
    }
}

impl From<InvalidTransaction> for Refusal {
    fn from(invalid: InvalidTransaction) -> Self {
        use InvalidTransaction as I;
        let transaction = match invalid {
            I::PriorityFeeGreaterThanMaxFee => TransactionError::TipAboveFeeCap,
            I::GasPriceLessThanBasefee => return Self::FeeTooLow,
            I::CallerGasLimitMoreThanBlock => return Self::GasAboveBlock,
            I::CallGasCostMoreThanGasLimit { initial_gas, gas_limit } => {
                TransactionError::IntrinsicGas { gas_limit, needed: initial_gas }
            }
            I::GasFloorMoreThanGasLimit { gas_floor, gas_limit } => {
                TransactionError::FloorGas { gas_limit, needed: gas_floor }
            }
            I::RejectCallerWithCode => return Self::SenderHasCode,
            I::LackOfFundForMaxFee { fee, balance } => {
                return Self::Funds { balance: *balance, needed: *fee };
            }
            I::OverflowPaymentInTransaction => return Self::FundsOverflow,
            I::NonceOverflowInTransaction => TransactionError::NonceMax,
            I::NonceTooHigh { tx, state } => return Self::NonceTooHigh { expected: state, found: tx },
            I::NonceTooLow { tx, state } => return Self::NonceTooLow { expected: state, found: tx },
            I::InvalidChainId | I::MissingChainId => TransactionError::InvalidChainId,
            I::TxGasLimitGreaterThanCap { gas_limit, .. } => TransactionError::GasLimitCap { gas_limit },
            I::BlobGasPriceGreaterThanMax { .. } => return Self::BlobFeeTooLow,
            I::EmptyBlobs => TransactionError::NoBlobs,
            I::TooManyBlobs { have, max } => {
                TransactionError::TooManyBlobs { count: have, limit: max as u64 }
            }
            I::BlobVersionNotSupported => TransactionError::BlobVersion,
            I::EmptyAuthorizationList => TransactionError::NoAuthorizations,
            I::Eip2930NotSupported => TransactionError::TypeNotSupported(1),
            I::Eip1559NotSupported => TransactionError::TypeNotSupported(2),
            I::Eip4844NotSupported => TransactionError::TypeNotSupported(3),
            I::Eip7702NotSupported => TransactionError::TypeNotSupported(4),
            other => return Self::Other(other.to_string()),
        };
        Self::Transaction(transaction)
    }
}
