//! What an error of PostgreSQL means for a caller.

use crate::StoreError;
use tally_contracts::{StateRef, TransactionId};
use tokio_postgres::error::{DbError, SqlState};

/// Codes that the function `refuse` is called with.
pub(super) const TWICE: &str = "TY001";
pub(super) const CONFLICT: &str = "TY002";
pub(super) const MISSING: &str = "TY003";

/// See PostgreSQL's appendix "Error Codes".
pub(super) fn error(error: tokio_postgres::Error) -> StoreError {
    let Some(refusal) = error.as_db_error() else {
        // The server said nothing: either the connection failed, or an argument could not be sent.
        let cause =
            std::error::Error::source(&error).and_then(|cause| cause.downcast_ref::<std::io::Error>());
        if let Some(refused) = cause.and_then(|cause| cause.get_ref()).and_then(|cause| cause.downcast_ref())
        {
            let refused: &tokio_rustls::rustls::Error = refused;
            return StoreError::Configuration {
                reason: format!("the server's certificate is refused: {refused}"),
            };
        }
        let sendable = std::error::Error::source(&error).is_none_or(|cause| cause.is::<std::io::Error>());
        return if error.is_closed() || sendable {
            StoreError::Unreachable(error.into())
        } else {
            StoreError::Database(error.into())
        };
    };
    if let Some(own) = own(refusal) {
        return own;
    }
    let code = refusal.code();
    if [SqlState::DISK_FULL, SqlState::IO_ERROR].contains(code) {
        return StoreError::Full(error.into());
    }
    if [SqlState::DATA_CORRUPTED, SqlState::INDEX_CORRUPTED].contains(code) {
        return StoreError::Corrupt(error.into());
    }
    match code.code().get(..2) {
        // Transaction rollback (deadlock, serialization), object in use.
        Some("40" | "55") => StoreError::Busy(error.into()),
        // Connection, insufficient resources, operator intervention, read-only transaction (a standby).
        Some("08" | "53" | "57" | "25") => StoreError::Unreachable(error.into()),
        // Authorization, catalog name, insufficient privilege.
        Some("28" | "3D") => StoreError::Configuration { reason: refusal.message().to_owned() },
        _ if *code == SqlState::INSUFFICIENT_PRIVILEGE => {
            StoreError::Configuration { reason: refusal.message().to_owned() }
        }
        _ => StoreError::Database(error.into()),
    }
}

/// A refusal by one of our own statements.
fn own(refusal: &DbError) -> Option<StoreError> {
    let mut words = refusal.message().splitn(3, ' ');
    let (first, second, third) = (words.next()?, words.next(), words.next());
    Some(match refusal.code().code() {
        TWICE => {
            let (transaction, index) = first.split_once(':')?;
            StoreError::Twice {
                state: StateRef { transaction: transaction.parse().ok()?, index: index.parse().ok()? },
                by: second?.parse::<TransactionId>().ok()?,
                again: third?.parse().ok()?,
            }
        }
        CONFLICT => StoreError::Conflict { table: table(first), key: second?.to_owned() },
        MISSING => StoreError::Missing { table: table(first), key: second?.to_owned() },
        _ => return None,
    })
}

fn table(name: &str) -> &'static str {
    ["flow", "part", "outbound"].into_iter().find(|table| *table == name).unwrap_or("?")
}
