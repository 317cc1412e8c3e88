//! Errors as JSON-RPC 2.0 (section 5.1) and the execution-apis' error groups number them.

use std::borrow::Cow;

/// The text is not JSON.
pub const PARSE_ERROR: i32 = -32700;
/// The JSON is not a request.
pub const INVALID_REQUEST: i32 = -32600;
/// No method has that name.
pub const METHOD_NOT_FOUND: i32 = -32601;
/// The method's namespace is not enabled on this endpoint (Besu's number).
pub const METHOD_NOT_ENABLED: i32 = -32604;
/// The parameters are not those of the method.
pub const INVALID_PARAMS: i32 = -32602;
/// The node failed, not the caller.
pub const INTERNAL_ERROR: i32 = -32603;
/// What was asked makes no sense here, or failed.
pub const SERVER_ERROR: i32 = -32000;
/// What was asked for is not there.
pub const RESOURCE_NOT_FOUND: i32 = -32001;
/// The answer took longer than it may.
pub const TIMED_OUT: i32 = -32002;
/// A transaction was refused.
pub const TRANSACTION_REJECTED: i32 = -32003;
/// The method exists in the standard, and this node has nothing behind it.
pub const METHOD_NOT_SUPPORTED: i32 = -32004;
/// A limit of this node was reached.
pub const LIMIT_EXCEEDED: i32 = -32005;
/// The caller has not shown who it is, or may not call this (Besu's number).
pub const UNAUTHORIZED: i32 = -40100;
/// The EVM reverted; `data` holds what it returned.
pub const EXECUTION_REVERTED: i32 = 3;
/// Blocks, receipts or state that were asked for are pruned.
pub const PRUNED_HISTORY: i32 = 4444;

/// An error of one call, as it is answered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message} ({code})")]
pub struct RpcError {
    /// The standard's number.
    pub code: i32,
    /// One sentence.
    pub message: Cow<'static, str>,
    /// The `data` member, as JSON text.
    pub data: Option<Box<str>>,
    costly: bool,
}

impl RpcError {
    /// An error with this number and sentence.
    pub fn new(code: i32, message: impl Into<Cow<'static, str>>) -> Self {
        Self { code, message: message.into(), data: None, costly: false }
    }

    /// The same with a `data` member, given as JSON text.
    #[must_use]
    pub fn with_data(mut self, json: impl Into<Box<str>>) -> Self {
        self.data = Some(json.into());
        self
    }

    /// -32602: the parameters are not those of the method.
    pub fn params(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(INVALID_PARAMS, message)
    }

    /// -32000: it makes no sense here, or failed.
    pub fn server(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(SERVER_ERROR, message)
    }

    /// -32603: the node failed, not the caller.
    pub fn internal(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(INTERNAL_ERROR, message)
    }

    /// -32005: a limit of this node.
    pub fn limit(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(LIMIT_EXCEEDED, message)
    }

    /// Not an error: a method called on an IO thread says that it is going to take long. The server
    /// calls it again on the pool for costly calls, or refuses it when that is full.
    pub fn costly() -> Self {
        Self { costly: true, ..Self::limit("limit exceeded: too many costly calls wait, try again later") }
    }

    /// -32005: what all answers may take together is taken.
    pub(crate) fn answers_full() -> Self {
        Self::limit(
            "limit exceeded: other answers and traces take what all may take together, try again later",
        )
    }

    /// Whether this is [`RpcError::costly`].
    #[must_use]
    pub fn is_costly(&self) -> bool {
        self.costly
    }

    /// Writes the `error` member's object.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"{\"code\":");
        out.extend_from_slice(self.code.to_string().as_bytes());
        out.extend_from_slice(b",\"message\":");
        crate::write::string(out, &self.message);
        if let Some(data) = &self.data {
            out.extend_from_slice(b",\"data\":");
            out.extend_from_slice(data.as_bytes());
        }
        out.push(b'}');
    }
}
