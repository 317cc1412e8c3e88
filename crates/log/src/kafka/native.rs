//! The calls of librdkafka that its Rust layer lacks or wraps in a way that waits too long.
#![allow(unsafe_code, reason = "calls into C; each block says why it is sound")]

use super::context::Context;
use rdkafka::bindings as sys;
use rdkafka::client::Client;
use rdkafka::types::RDKafkaErrorCode;
use std::ffi::CStr;
use std::time::Duration;

/// What a transactional call said.
#[derive(Debug)]
pub(super) struct TransactionError {
    pub(super) code: RDKafkaErrorCode,
    pub(super) text: String,
    pub(super) fatal: bool,
    pub(super) retriable: bool,
    pub(super) abort: bool,
}

fn millis(limit: Duration) -> i32 {
    i32::try_from(limit.as_millis()).unwrap_or(i32::MAX)
}

/// Takes the error that a transactional call returned; none for null.
///
/// # Safety
/// `error` is null or an error owned by the caller, who does not use it again.
unsafe fn taken(error: *mut sys::rd_kafka_error_t) -> Result<(), TransactionError> {
    if error.is_null() {
        return Ok(());
    }
    // SAFETY: it is not null, and valid until it is destroyed, once, below. The text belongs to it and is copied.
    unsafe {
        let taken = TransactionError {
            code: sys::rd_kafka_error_code(error).into(),
            text: CStr::from_ptr(sys::rd_kafka_error_string(error)).to_string_lossy().into_owned(),
            fatal: sys::rd_kafka_error_is_fatal(error) != 0,
            retriable: sys::rd_kafka_error_is_retriable(error) != 0,
            abort: sys::rd_kafka_error_txn_requires_abort(error) != 0,
        };
        sys::rd_kafka_error_destroy(error);
        Err(taken)
    }
}

/// Commits the transaction. The wrapper of the Rust layer sleeps in steps of 100 ms while messages are on their way; this
/// returns as soon as the commit is known. After a time-out the next call goes on with the same commit.
pub(super) fn commit(client: &Client<Context>, limit: Duration) -> Result<(), TransactionError> {
    // SAFETY: the client lives as long as it is borrowed; the call may be made from any thread; its result is owned.
    unsafe { taken(sys::rd_kafka_commit_transaction(client.native_ptr(), millis(limit))) }
}

/// Aborts the transaction.
pub(super) fn abort(client: &Client<Context>, limit: Duration) -> Result<(), TransactionError> {
    // SAFETY: as in `commit`.
    unsafe { taken(sys::rd_kafka_abort_transaction(client.native_ptr(), millis(limit))) }
}
