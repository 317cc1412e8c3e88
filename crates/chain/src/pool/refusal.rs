//! Why the pool does not take a transaction.

use alloy_primitives::U256;
use thiserror::Error;

/// Why the pool does not take a transaction. The order of the variants is the order in which they are checked; the
/// words before the colon are those that other clients use, since wallets look for them.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Refusal {
    /// It is here already.
    #[error("already known")]
    Known,
    /// A legacy transaction without a chain id, which every chain takes on which its sender has an account (EIP-155).
    #[error(
        "only replay-protected (EIP-155) transactions are allowed: this one names no chain id; \
         strict-tx-replay-protection-enabled = false allows it"
    )]
    Unprotected,
    /// No block could follow one with it, when it was last tried.
    #[error(
        "transaction rejected: no block could follow one with it: {reason}; tried again in {again_ms} ms"
    )]
    NoValidators {
        /// What the contract that names the validators did.
        reason: String,
        /// Until it is taken again.
        again_ms: u64,
    },
    /// Longer than one transaction may be.
    #[error("oversized data: transaction of {bytes} bytes, limit {limit}")]
    TooLarge {
        /// In its network encoding.
        bytes: usize,
        /// What is allowed.
        limit: usize,
    },
    /// No block could hold it.
    #[error("exceeds block gas limit: gas limit {gas} is above the block's {limit}")]
    GasLimit {
        /// The transaction's.
        gas: u64,
        /// The block's.
        limit: u64,
    },
    /// Less than this node asks for.
    #[error("transaction underpriced: gas price {price} is below this node's minimum {least}")]
    GasPrice {
        /// Offered, in wei.
        price: u128,
        /// The minimum, in wei.
        least: u128,
    },
    /// The sender has used this nonce.
    #[error("nonce too low: next nonce {next}, tx nonce {nonce}")]
    NonceTooLow {
        /// The transaction's.
        nonce: u64,
        /// The sender's next.
        next: u64,
    },
    /// No account can use the last nonce (EIP-2681).
    #[error("nonce has max value: 2^64-1 cannot be used (EIP-2681)")]
    NonceTooHigh,
    /// The sender could not pay for it.
    #[error("insufficient funds for gas * price + value: balance {balance}, tx cost {cost}")]
    Funds {
        /// The sender's, in wei.
        balance: U256,
        /// The most it can take, in wei.
        cost: U256,
    },
    /// The sender could not pay for it beside what it has here already.
    #[error(
        "insufficient funds for gas * price + value: balance {balance}, {held} of it for what waits, tx cost {cost}"
    )]
    Overdraft {
        /// The sender's, in wei.
        balance: U256,
        /// The most that what waits can take, in wei.
        held: U256,
        /// The most that this one can take, in wei.
        cost: U256,
    },
    /// Another with this nonce waits, and this one does not pay enough more.
    #[error(
        "replacement transaction underpriced: fee {fee} against {waiting} of the one that waits, both fees must rise by {bump} %"
    )]
    Underpriced {
        /// Offered, in wei.
        fee: u128,
        /// What the other pays, in wei.
        waiting: u128,
        /// Percent.
        bump: u32,
    },
    /// The sender has too many here.
    #[error("account limit exceeded: this sender has {limit} transactions waiting")]
    SenderFull {
        /// What is allowed.
        limit: usize,
    },
    /// The sender has too many that wait for a nonce before them.
    #[error(
        "nonce too far ahead: nonce {nonce}, next {next}, and {limit} of this sender wait for a gap to close"
    )]
    TooManyGapped {
        /// The transaction's.
        nonce: u64,
        /// The first that is missing.
        next: u64,
        /// What is allowed.
        limit: usize,
    },
    /// The pool has as many that wait for a nonce before them as it may, and no sender has more of them than this one.
    #[error("txpool is full: {limit} transactions wait for a nonce before them; send the missing one first")]
    TooManyDormant {
        /// What is allowed.
        limit: usize,
    },
    /// The pool is full of transactions that pay as much or more.
    #[error(
        "txpool is full: {transactions} transactions, {bytes} bytes, none of which pays less; try again later"
    )]
    Full {
        /// How many.
        transactions: usize,
        /// Their size.
        bytes: usize,
    },
}
