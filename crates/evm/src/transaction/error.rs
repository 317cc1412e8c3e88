//! Why a transaction was refused, before any state was looked at.

use std::fmt;

use alloy_eips::eip7825::MAX_TX_GAS_LIMIT_OSAKA;

/// A part of an encoded transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "each is named as the transaction's own field")]
pub enum Field {
    Transaction,
    ChainId,
    Nonce,
    GasPrice,
    MaxPriorityFeePerGas,
    MaxFeePerGas,
    GasLimit,
    To,
    Value,
    Data,
    AccessList,
    AccessListAddress,
    AccessListStorageKey,
    MaxFeePerBlobGas,
    BlobVersionedHashes,
    AuthorizationList,
    V,
    R,
    S,
    Blobs,
}

impl fmt::Display for Field {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Transaction => "transaction",
            Self::ChainId => "chainId",
            Self::Nonce => "nonce",
            Self::GasPrice => "gasPrice",
            Self::MaxPriorityFeePerGas => "maxPriorityFeePerGas",
            Self::MaxFeePerGas => "maxFeePerGas",
            Self::GasLimit => "gasLimit",
            Self::To => "to",
            Self::Value => "value",
            Self::Data => "data",
            Self::AccessList => "accessList",
            Self::AccessListAddress => "accessList.address",
            Self::AccessListStorageKey => "accessList.storageKeys",
            Self::MaxFeePerBlobGas => "maxFeePerBlobGas",
            Self::BlobVersionedHashes => "blobVersionedHashes",
            Self::AuthorizationList => "authorizationList",
            Self::V => "v",
            Self::R => "r",
            Self::S => "s",
            Self::Blobs => "blobs",
        })
    }
}

/// How an encoding breaks the rules of RLP or of the field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// The bytes end before the item does.
    #[error("the bytes end too early")]
    TooShort,
    /// Bytes follow after the end.
    #[error("bytes are left over")]
    LeftOver,
    /// Fewer fields than the type has.
    #[error("fields are missing")]
    TooFewFields,
    /// A number begins with a zero byte.
    #[error("the number has leading zeros")]
    LeadingZeros,
    /// A byte below 128, or a length, is not written in its shortest form.
    #[error("the encoding is not the shortest")]
    NotShortest,
    /// A length begins with a zero byte.
    #[error("the length has leading zeros")]
    LengthLeadingZeros,
    /// A list where bytes belong.
    #[error("a list stands where bytes belong")]
    List,
    /// Bytes where a list belongs.
    #[error("bytes stand where a list belongs")]
    Bytes,
    /// A number with more bits than the field has.
    #[error("the number is too large")]
    Overflow,
    /// An address or hash with another length than it must have: this many bytes.
    #[error("the length of {0} bytes is wrong")]
    Length(usize),
}

/// Why a transaction was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TransactionError {
    /// The encoding is wrong.
    #[error("{field}: {problem}")]
    Malformed {
        /// Where.
        field: Field,
        /// What is wrong there.
        problem: Malformed,
    },
    /// The type is unknown, or comes with a later fork.
    #[error("transaction type {0} not supported")]
    TypeNotSupported(u8),
    /// The chain identifier is of another chain, or `v` is none that EIP-155 has.
    #[error("invalid chain id")]
    InvalidChainId,
    /// `v`, `r` or `s` is out of range, or `s` is in the upper half since Homestead (EIP-2).
    #[error("invalid signature: v, r or s out of range")]
    InvalidSignature,
    /// A chain identifier in a legacy transaction before EIP-155.
    #[error("replay-protected transaction before EIP-155")]
    ProtectedTooEarly,
    /// No key gives this signature.
    #[error("no sender can be recovered from the signature")]
    Unrecoverable,
    /// The nonce is the largest there is, so that no later one could follow (EIP-2681).
    #[error("nonce has max value")]
    NonceMax,
    /// The gas limit times the price is above 256 bits, more than a balance holds.
    #[error("gas limit times gas price is above 256 bits")]
    GasPriceProduct,
    /// The tip is above the whole fee.
    #[error("max priority fee per gas higher than max fee per gas")]
    TipAboveFeeCap,
    /// The gas limit does not pay for the transaction itself.
    #[error("intrinsic gas too low: have {gas_limit}, want {needed}")]
    IntrinsicGas {
        /// The transaction's gas limit.
        gas_limit: u64,
        /// What it costs before it runs.
        needed: u64,
    },
    /// The gas limit does not cover the floor of EIP-7623.
    #[error("insufficient gas for floor data gas cost: have {gas_limit}, want {needed}")]
    FloorGas {
        /// The transaction's gas limit.
        gas_limit: u64,
        /// The least gas its data costs.
        needed: u64,
    },
    /// The gas limit is above the cap of EIP-7825.
    #[error("transaction gas limit too high: {gas_limit}, at most {MAX_TX_GAS_LIMIT_OSAKA}")]
    GasLimitCap {
        /// The transaction's gas limit.
        gas_limit: u64,
    },
    /// More init code than EIP-3860 allows.
    #[error("max initcode size exceeded: code size {size} limit {limit}")]
    InitcodeSize {
        /// Bytes of init code.
        size: usize,
        /// Bytes allowed.
        limit: usize,
    },
    /// A blob transaction without blobs.
    #[error("blob transaction missing blob hashes")]
    NoBlobs,
    /// More blobs than a transaction may have.
    #[error("blob transaction has too many blobs: {count}, at most {limit}")]
    TooManyBlobs {
        /// Blobs it has.
        count: usize,
        /// Blobs it may have.
        limit: u64,
    },
    /// A blob hash of a version other than 1.
    #[error("blob hash with an unknown version")]
    BlobVersion,
    /// The blobs, their commitments and proofs do not belong together.
    #[error("the blobs do not match their proofs: {0}")]
    BlobProof(String),
    /// A transaction of type 4 without authorizations.
    #[error("empty authorization list")]
    NoAuthorizations,
}

impl TransactionError {
    pub(super) fn malformed(field: Field, problem: Malformed) -> Self {
        Self::Malformed { field, problem }
    }

    /// The name that the Ethereum tests have for it (`TransactionException.…`).
    pub fn test_name(&self) -> &'static str {
        use Field as F;
        use Malformed as M;
        match self {
            Self::Malformed { field, problem } => match (field, problem) {
                (F::Nonce, M::LeadingZeros) => "TransactionException.RLP_LEADING_ZEROS_NONCE",
                (F::Nonce, M::NotShortest) => "TransactionException.RLP_LEADING_ZEROS_NONCE_SIZE",
                (F::Nonce, M::Overflow) => "TransactionException.NONCE_OVERFLOW",
                (F::Nonce, M::List) => "TransactionException.RLP_INVALID_NONCE",
                (F::GasPrice, M::LeadingZeros) => "TransactionException.RLP_LEADING_ZEROS_GASPRICE",
                (F::GasPrice, M::Overflow) => "TransactionException.GASPRICE_OVERFLOW",
                (F::GasLimit, M::LeadingZeros) => "TransactionException.RLP_LEADING_ZEROS_GASLIMIT",
                (F::GasLimit, M::Overflow) => "TransactionException.GASLIMIT_OVERFLOW",
                (F::GasLimit, M::List) => "TransactionException.RLP_INVALID_GASLIMIT",
                (F::MaxFeePerGas, M::LeadingZeros) => "TransactionException.RLP_LEADING_ZEROS_BASEFEE",
                (F::MaxPriorityFeePerGas, M::LeadingZeros) => {
                    "TransactionException.RLP_LEADING_ZEROS_PRIORITY_FEE"
                }
                (F::MaxPriorityFeePerGas, M::Overflow) => "TransactionException.PRIORITY_OVERFLOW",
                (F::MaxFeePerGas, M::Overflow) => "TransactionException.MAX_FEE_PER_GAS_OVERFLOW",
                (F::To, M::List) => "TransactionException.RLP_INVALID_TO",
                // In other types nobody at all is a creation.
                (F::To, M::Length(0)) => "TransactionException.TYPE_3_TX_CONTRACT_CREATION",
                (F::To, M::Length(..20)) => "TransactionException.ADDRESS_TOO_SHORT",
                (F::To, M::Length(_)) => "TransactionException.ADDRESS_TOO_LONG",
                (F::Value, M::LeadingZeros) => "TransactionException.RLP_LEADING_ZEROS_VALUE",
                (F::Value, M::Overflow) => "TransactionException.VALUE_OVERFLOW",
                (F::AccessListAddress, M::Length(..20)) => {
                    "TransactionException.RLP_INVALID_ACCESS_LIST_ADDRESS_TOO_SHORT"
                }
                (F::AccessListAddress, M::Length(_)) => {
                    "TransactionException.RLP_INVALID_ACCESS_LIST_ADDRESS_TOO_LONG"
                }
                (F::AccessListStorageKey, M::Length(..32)) => {
                    "TransactionException.RLP_INVALID_ACCESS_LIST_STORAGE_TOO_SHORT"
                }
                (F::AccessListStorageKey, M::Length(_)) => {
                    "TransactionException.RLP_INVALID_ACCESS_LIST_STORAGE_TOO_LONG"
                }
                (F::V, M::LeadingZeros) => "TransactionException.RLP_LEADING_ZEROS_V",
                (F::R, M::LeadingZeros) => "TransactionException.RLP_LEADING_ZEROS_R",
                (F::S, M::LeadingZeros) => "TransactionException.RLP_LEADING_ZEROS_S",
                (F::R, M::List) => "TransactionException.RLP_INVALID_SIGNATURE_R",
                (F::S, M::List) => "TransactionException.RLP_INVALID_SIGNATURE_S",
                (F::R | F::S, M::Overflow) => "TransactionException.INVALID_SIGNATURE_VRS",
                (F::V | F::ChainId, M::Overflow) => "TransactionException.INVALID_CHAINID",
                (_, M::LengthLeadingZeros) => "TransactionException.RLP_ERROR_SIZE_LEADING_ZEROS",
                (_, M::TooFewFields) => "TransactionException.RLP_TOO_FEW_ELEMENTS",
                (_, M::TooShort) => "TransactionException.RLP_ERROR_EOF",
                _ => "TransactionException.RLP_ERROR_SIZE",
            },
            Self::TypeNotSupported(_) => "TransactionException.TYPE_NOT_SUPPORTED",
            Self::InvalidChainId => "TransactionException.INVALID_CHAINID",
            Self::InvalidSignature | Self::ProtectedTooEarly => "TransactionException.INVALID_SIGNATURE_VRS",
            Self::Unrecoverable => "TransactionException.EC_RECOVERY_FAIL",
            Self::NonceMax => "TransactionException.NONCE_IS_MAX",
            Self::GasPriceProduct => "TransactionException.GASLIMIT_PRICE_PRODUCT_OVERFLOW",
            Self::TipAboveFeeCap => "TransactionException.PRIORITY_GREATER_THAN_MAX_FEE_PER_GAS",
            Self::IntrinsicGas { .. } => "TransactionException.INTRINSIC_GAS_TOO_LOW",
            Self::FloorGas { .. } => "TransactionException.INTRINSIC_GAS_BELOW_FLOOR_GAS_COST",
            Self::GasLimitCap { .. } => "TransactionException.GAS_LIMIT_EXCEEDS_MAXIMUM",
            Self::InitcodeSize { .. } => "TransactionException.INITCODE_SIZE_EXCEEDED",
            Self::NoBlobs => "TransactionException.TYPE_3_TX_ZERO_BLOBS",
            Self::TooManyBlobs { .. } => "TransactionException.TYPE_3_TX_BLOB_COUNT_EXCEEDED",
            Self::BlobVersion => "TransactionException.TYPE_3_TX_INVALID_BLOB_VERSIONED_HASH",
            Self::BlobProof(_) => "TransactionException.TYPE_3_TX_INVALID_BLOB_PROOF",
            Self::NoAuthorizations => "TransactionException.TYPE_4_EMPTY_AUTHORIZATION_LIST",
        }
    }
}
