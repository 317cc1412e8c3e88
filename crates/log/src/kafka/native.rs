//! The calls of librdkafka that its Rust layer lacks or wraps in a way that waits too long.
#![allow(unsafe_code, reason = "calls into C; each block says why it is sound")]

use super::access::{Grant, Name, Operation, Resource};
use super::context::Context;
use rdkafka::bindings as sys;
use rdkafka::client::Client;
use rdkafka::types::RDKafkaErrorCode;
use std::ffi::{CStr, CString};
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

/// Waits until nothing is on its way, and says whether that is so. Here too the wrapper sleeps in steps of 100 ms.
pub(super) fn flush(client: &Client<Context>, limit: Duration) -> bool {
    // SAFETY: as in `commit`.
    let code = unsafe { sys::rd_kafka_flush(client.native_ptr(), millis(limit)) };
    code == sys::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR_NO_ERROR
}

/// Aborts the transaction.
pub(super) fn abort(client: &Client<Context>, limit: Duration) -> Result<(), TransactionError> {
    // SAFETY: as in `commit`.
    unsafe { taken(sys::rd_kafka_abort_transaction(client.native_ptr(), millis(limit))) }
}

fn text(text: &str) -> Result<CString, String> {
    CString::new(text).map_err(|_| format!("{text:?} holds a zero byte"))
}

/// One entry of an access list, freed when dropped.
struct Entry(*mut sys::rd_kafka_AclBinding_t);

impl Entry {
    fn new(grant: &Grant, operation: Operation) -> Result<Self, String> {
        use sys::{
            rd_kafka_AclOperation_t as Acl, rd_kafka_ResourcePatternType_t as Pattern,
            rd_kafka_ResourceType_t as Kind,
        };
        let kind = match grant.resource {
            Resource::Topic => Kind::RD_KAFKA_RESOURCE_TOPIC,
            Resource::Group => Kind::RD_KAFKA_RESOURCE_GROUP,
            Resource::Writer => Kind::RD_KAFKA_RESOURCE_TRANSACTIONAL_ID,
        };
        let operation = match operation {
            Operation::Read => Acl::RD_KAFKA_ACL_OPERATION_READ,
            Operation::Write => Acl::RD_KAFKA_ACL_OPERATION_WRITE,
            Operation::Delete => Acl::RD_KAFKA_ACL_OPERATION_DELETE,
            Operation::Describe => Acl::RD_KAFKA_ACL_OPERATION_DESCRIBE,
            Operation::DescribeSettings => Acl::RD_KAFKA_ACL_OPERATION_DESCRIBE_CONFIGS,
        };
        let (name, pattern) = match &grant.name {
            Name::Is(name) => (text(name)?, Pattern::RD_KAFKA_RESOURCE_PATTERN_LITERAL),
            Name::StartsWith(name) => (text(name)?, Pattern::RD_KAFKA_RESOURCE_PATTERN_PREFIXED),
        };
        let principal = text(&grant.principal)?;
        let mut error = [0; 256];
        // SAFETY: the texts end with a zero byte and outlive the call, which copies them; the buffer is as long as said.
        let made = unsafe {
            sys::rd_kafka_AclBinding_new(
                kind,
                name.as_ptr(),
                pattern,
                principal.as_ptr(),
                c"*".as_ptr(),
                operation,
                sys::rd_kafka_AclPermissionType_t::RD_KAFKA_ACL_PERMISSION_TYPE_ALLOW,
                error.as_mut_ptr(),
                error.len(),
            )
        };
        if made.is_null() {
            // SAFETY: the call that failed wrote a text with a zero byte at its end into the buffer.
            return Err(unsafe { CStr::from_ptr(error.as_ptr()) }.to_string_lossy().into_owned());
        }
        Ok(Self(made))
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        // SAFETY: made by `new`, owned by this alone.
        unsafe { sys::rd_kafka_AclBinding_destroy(self.0) }
    }
}

/// Adds entries to the access lists, and waits for the answer.
pub(super) fn create_access(
    client: &Client<Context>,
    grants: &[Grant],
    limit: Duration,
) -> Result<(), String> {
    let mut entries = Vec::new();
    for grant in grants {
        for operation in &grant.operations {
            entries.push(Entry::new(grant, *operation)?);
        }
    }
    if entries.is_empty() {
        return Ok(());
    }
    let mut pointers: Vec<_> = entries.iter().map(|entry| entry.0).collect();
    // SAFETY: the client is alive while it is borrowed. The queue is made and destroyed here, and the event that comes from it
    // in `access_answer`. The entries live until after the call, which copies them; null options are the default ones.
    unsafe {
        let queue = sys::rd_kafka_queue_new(client.native_ptr());
        sys::rd_kafka_CreateAcls(
            client.native_ptr(),
            pointers.as_mut_ptr(),
            pointers.len(),
            std::ptr::null(),
            queue,
        );
        let event = sys::rd_kafka_queue_poll(queue, millis(limit));
        let answer = if event.is_null() { Err("no answer in time".to_owned()) } else { access_answer(event) };
        sys::rd_kafka_queue_destroy(queue);
        answer
    }
}

/// What the brokers said to new entries.
///
/// # Safety
/// `event` answers `rd_kafka_CreateAcls` and is owned by the caller, who does not use it again.
unsafe fn access_answer(event: *mut sys::rd_kafka_event_t) -> Result<(), String> {
    // SAFETY: every pointer below belongs to the event, which is destroyed last; texts are copied before.
    unsafe {
        let mut said = Ok(());
        let code = sys::rd_kafka_event_error(event);
        if code != sys::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR_NO_ERROR {
            let text = sys::rd_kafka_event_error_string(event);
            said = Err(if text.is_null() {
                RDKafkaErrorCode::from(code).to_string()
            } else {
                CStr::from_ptr(text).to_string_lossy().into_owned()
            });
        } else {
            let result = sys::rd_kafka_event_CreateAcls_result(event);
            let mut count = 0;
            let results = if result.is_null() {
                std::ptr::null_mut()
            } else {
                sys::rd_kafka_CreateAcls_result_acls(result, &raw mut count)
            };
            for at in 0..count {
                let error = sys::rd_kafka_acl_result_error(*results.add(at));
                if !error.is_null() && said.is_ok() {
                    said =
                        Err(CStr::from_ptr(sys::rd_kafka_error_string(error)).to_string_lossy().into_owned());
                }
            }
        }
        sys::rd_kafka_event_destroy(event);
        said
    }
}
