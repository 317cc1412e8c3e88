//! The gateway: how institutions and their systems reach settlement, whoever runs the stages.
//!
//! Reading order: [`payments`] turns payment messages into transactions, [`references`] names those that have no name, [`wire`] is what passes over HTTP, [`server`]
//! answers it for a [`tally_settlement::desk::Settlement`], [`grpc`] is the same in volume, [`access`] says who may do what,
//! [`settings`] is what an operator sets.

pub mod access;
pub mod account_name;
pub mod codec;
pub mod grpc;
pub mod payments;
pub mod references;
pub mod server;
pub mod settings;
pub mod tls;
pub mod wire;

use tally_ledger::Uetr;

/// The operating system gave no random bytes.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("the operating system's random source failed")]
pub struct NoRandomness(#[source] getrandom::Error);

/// Random bytes.
///
/// # Errors
/// When the operating system has none.
pub fn random<const N: usize>() -> Result<[u8; N], NoRandomness> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(NoRandomness)?;
    Ok(bytes)
}

/// A random reference: a UUID of version 4 (RFC 9562, section 5.4), as the standard has UETRs.
///
/// # Errors
/// When the operating system has no random bytes.
pub fn random_uetr() -> Result<Uetr, NoRandomness> {
    random().map(|bytes| uuid(bytes, 4))
}

/// A UUID of that version (RFC 9562, section 4).
pub(crate) fn uuid(mut bytes: [u8; 16], version: u8) -> Uetr {
    bytes[6] = version << 4 | bytes[6] & 0x0F;
    bytes[8] = 0x80 | bytes[8] & 0x3F;
    Uetr(bytes)
}
