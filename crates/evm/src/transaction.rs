//! Signed transactions: strict decoding, senders, what each fork asks of them.
//!
//! A [`Transaction`] is only well formed; a [`Recovered`] one has a known sender. [`Recovered::check`]
//! says whether a fork takes it, whatever the state.

mod decode;
mod error;
mod intrinsic;
mod recover;
mod sidecar;
#[cfg(test)]
mod tests;

use alloy_consensus::{EthereumTxEnvelope, TxEip4844};

pub(crate) use decode::decode_any_price;
pub use decode::{decode, decode_in_list, encode, encode_in_list};
pub use error::{Field, Malformed, TransactionError};
pub use intrinsic::{IntrinsicGas, intrinsic_gas};
pub use recover::{Recovered, recover, recover_all};
pub(crate) use recover::{recover_authorization, recover_from};
pub use sidecar::{BlobSidecar, PooledTransaction, decode_pooled};

/// A signed transaction of any type, as it stands in a block: blob transactions without their blobs.
pub type Transaction = EthereumTxEnvelope<TxEip4844>;
