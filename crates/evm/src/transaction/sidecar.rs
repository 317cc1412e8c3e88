//! Blob transactions with their blobs, as senders submit them (EIP-4844, EIP-7594).

use alloy_consensus::{EthereumTxEnvelope, TxEip4844WithSidecar};
use alloy_eips::eip2718::Decodable2718;
use alloy_eips::eip4844::env_settings::EnvKzgSettings;
use alloy_primitives::Bytes;

use super::{Field, Malformed, Transaction, TransactionError, decode, encode};

/// Blobs with their commitments and proofs.
pub type BlobSidecar = alloy_eips::eip7594::BlobTransactionSidecarVariant;

/// A transaction as it is submitted: a blob transaction comes with its blobs.
#[derive(Clone, Debug)]
pub struct PooledTransaction {
    /// As it will stand in a block.
    pub transaction: Transaction,
    /// Present for blob transactions only.
    pub sidecar: Option<Box<BlobSidecar>>,
}

/// Reads a submitted transaction; the proofs of its blobs are verified.
///
/// # Errors
/// As [`decode`], and blobs that are missing or do not match their proofs.
pub fn decode_pooled(bytes: &[u8]) -> Result<PooledTransaction, TransactionError> {
    const BLOB_TYPE: u8 = 3;
    if bytes.first() != Some(&BLOB_TYPE) {
        return Ok(PooledTransaction { transaction: decode(bytes)?, sidecar: None });
    }
    let malformed = |problem| TransactionError::Malformed { field: Field::Blobs, problem };
    let pooled = EthereumTxEnvelope::<TxEip4844WithSidecar<BlobSidecar>>::decode_2718_exact(bytes)
        .map_err(|_| malformed(Malformed::Bytes))?;
    let EthereumTxEnvelope::Eip4844(signed) = pooled else { return Err(malformed(Malformed::Bytes)) };
    let (with_sidecar, signature, _) = signed.into_parts();
    let (inner, sidecar) = with_sidecar.into_parts();
    sidecar
        .validate(&inner.blob_versioned_hashes, EnvKzgSettings::Default.get())
        .map_err(|error| TransactionError::BlobProof(error.to_string()))?;
    let unchecked = Transaction::Eip4844(alloy_consensus::Signed::new_unhashed(inner, signature));
    // The lenient reader above is only trusted with the blobs.
    let bytes: Bytes = encode(&unchecked);
    Ok(PooledTransaction { transaction: decode(&bytes)?, sidecar: Some(Box::new(sidecar)) })
}
