//! Why a call could not be made, and why one that was made failed.

use std::fmt;

use alloy_primitives::{Address, Bytes, U256};
use revm::context_interface::result::ExecutionResult;

use crate::execute::Refusal;
use crate::tool::message;
use crate::transaction::TransactionError;

/// Why a call could not be made.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// The sender's account, the fees or the gas do not allow the call.
    #[error("err: {message} (supplied gas {gas})")]
    Refused {
        /// The reason.
        refusal: Refusal,
        /// The reason in the words that clients are used to.
        message: String,
        /// Gas of the call.
        gas: u64,
    },
    /// The gas of a block in a simulation is used up.
    #[error("block gas limit reached: {used} >= {limit}")]
    BlockGas {
        /// By the calls before.
        used: u64,
        /// Of the block.
        limit: u64,
    },
    /// The request contradicts itself.
    #[error("{0}")]
    Request(String),
    /// An override cannot be made.
    #[error("{0}")]
    Override(String),
    /// Blocks of a simulation that do not follow each other.
    #[error("{message}")]
    Block {
        /// The code that the execution-apis give it.
        code: i32,
        /// What is wrong.
        message: String,
    },
    /// The host ended the call.
    #[error("execution aborted (timeout)")]
    Stopped,
    /// Even with all the gas there is, the call fails.
    #[error("{0}")]
    Failed(Failure),
    /// Reading the state failed.
    #[error("the state cannot be read")]
    State(#[source] Box<dyn std::error::Error + Send + Sync>),
}

impl CallError {
    /// The code that the execution-apis have for it in `eth_simulateV1`.
    pub fn simulate_code(&self) -> i32 {
        const INVALID_PARAMETERS: i32 = -32602;
        const INTERNAL: i32 = -32603;
        const OTHER: i32 = -32000;
        match self {
            Self::Refused { refusal, .. } => match refusal {
                Refusal::NonceTooLow { .. } => -38010,
                Refusal::NonceTooHigh { .. } => -38011,
                Refusal::FeeTooLow => -38012,
                Refusal::Transaction(
                    TransactionError::IntrinsicGas { .. } | TransactionError::FloorGas { .. },
                ) => -38013,
                Refusal::Funds { .. } | Refusal::FundsOverflow => -38014,
                Refusal::BlockGas { .. } | Refusal::GasAboveBlock => -38015,
                Refusal::SenderHasCode => -38024,
                Refusal::Transaction(TransactionError::InitcodeSize { .. }) => -38025,
                Refusal::Transaction(TransactionError::TipAboveFeeCap) => INVALID_PARAMETERS,
                _ => INTERNAL,
            },
            Self::BlockGas { .. } => -38015,
            Self::Block { code, .. } => *code,
            Self::Failed(failure) => failure.code(),
            Self::Request(_) | Self::Override(_) | Self::Stopped => OTHER,
            Self::State(_) => INTERNAL,
        }
    }
}

/// How code failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// It reverted, with this data.
    Revert(Bytes),
    /// It broke off, for this reason.
    Halt(String),
    /// It needs more gas than this.
    Gas(u64),
}

impl Failure {
    pub(crate) fn of(result: &ExecutionResult) -> Option<Self> {
        match result {
            ExecutionResult::Success { .. } => None,
            ExecutionResult::Revert { output, .. } => Some(Self::Revert(output.clone())),
            ExecutionResult::Halt { reason, .. } => Some(Self::Halt(message(reason.clone().into()))),
        }
    }

    /// The code that the execution-apis have for it.
    pub fn code(&self) -> i32 {
        match self {
            Self::Revert(_) => 3,
            Self::Halt(_) => -32015,
            Self::Gas(_) => -32000,
        }
    }

    /// The data of a revert.
    pub fn data(&self) -> Option<&Bytes> {
        match self {
            Self::Revert(data) => Some(data),
            Self::Halt(_) | Self::Gas(_) => None,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Revert(data) => match revert_reason(data) {
                Some(reason) => write!(formatter, "execution reverted: {reason}"),
                None => formatter.write_str("execution reverted"),
            },
            Self::Halt(reason) => formatter.write_str(reason),
            Self::Gas(limit) => write!(formatter, "gas required exceeds allowance ({limit})"),
        }
    }
}

/// The reason in Solidity's `Error(string)` or `Panic(uint256)`.
fn revert_reason(data: &[u8]) -> Option<String> {
    const ERROR: [u8; 4] = [0x08, 0xc3, 0x79, 0xa0];
    const PANIC: [u8; 4] = [0x4e, 0x48, 0x7b, 0x71];
    let (selector, arguments) = data.split_first_chunk::<4>()?;
    let word =
        |at: usize| -> Option<U256> { arguments.get(at..at.checked_add(32)?).map(U256::from_be_slice) };
    match *selector {
        ERROR => {
            let at = usize::try_from(word(0)?).ok()?;
            let length = usize::try_from(word(at)?).ok()?;
            let start = at.checked_add(32)?;
            let text = arguments.get(start..start.checked_add(length)?)?;
            Some(String::from_utf8_lossy(text).into_owned())
        }
        PANIC => {
            let code = word(0)?;
            let known = match u64::try_from(code).unwrap_or(u64::MAX) {
                0x00 => "generic panic",
                0x01 => "assert(false)",
                0x11 => "arithmetic underflow or overflow",
                0x12 => "division or modulo by zero",
                0x21 => "enum overflow",
                0x22 => "invalid encoded storage byte array accessed",
                0x31 => "out-of-bounds array access; popping on an empty array",
                0x32 => "out-of-bounds access of an array or bytesN",
                0x41 => "out of memory",
                0x51 => "uninitialized function",
                _ => return Some(format!("unknown panic code: {code:#x}")),
            };
            Some(known.to_owned())
        }
        _ => None,
    }
}

/// What clients are used to read about a refusal.
pub(super) fn describe(
    refusal: &Refusal,
    sender: Address,
    fee: u128,
    tip: Option<u128>,
    base_fee: u64,
) -> String {
    match refusal {
        Refusal::NonceTooLow { expected, found } => {
            format!("nonce too low: address {sender}, tx: {found} state: {expected}")
        }
        Refusal::NonceTooHigh { expected, found } => {
            format!("nonce too high: address {sender}, tx: {found} state: {expected}")
        }
        Refusal::Transaction(TransactionError::NonceMax) => {
            format!("nonce has max value: address {sender}, nonce: {}", u64::MAX)
        }
        Refusal::Funds { balance, needed } => {
            format!(
                "insufficient funds for gas * price + value: address {sender} have {balance} want {needed}"
            )
        }
        Refusal::FeeTooLow => format!(
            "max fee per gas less than block base fee: address {sender}, maxFeePerGas: {fee}, baseFee: {base_fee}"
        ),
        Refusal::Transaction(TransactionError::TipAboveFeeCap) => format!(
            "max priority fee per gas higher than max fee per gas: address {sender}, maxPriorityFeePerGas: {}, \
             maxFeePerGas: {fee}",
            tip.unwrap_or(0)
        ),
        other => other.to_string(),
    }
}
