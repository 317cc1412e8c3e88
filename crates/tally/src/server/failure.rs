//! Answers that are errors.

use crate::wire::{ErrorBody, Problem};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use tally_settlement::engine::EngineError;

/// A request that is not answered, and why.
#[derive(Debug)]
pub(super) struct Failure {
    status: u16,
    problem: Problem,
}

impl Failure {
    pub(super) fn new(status: u16, code: &str, text: impl Into<String>) -> Self {
        Self { status, problem: Problem { code: code.to_owned(), text: text.into() } }
    }

    pub(super) fn not_found(text: impl Into<String>) -> Self {
        Self::new(404, "not-found", text)
    }

    /// A request whose form is wrong.
    pub(super) fn form(text: impl Into<String>) -> Self {
        Self::new(400, "FF01", text)
    }
}

impl From<EngineError> for Failure {
    fn from(error: EngineError) -> Self {
        match &error {
            EngineError::Busy(_) => Self::new(503, "AB10", error.to_string()),
            EngineError::Behind => Self::new(503, "behind", error.to_string()),
            EngineError::Stopped(_) => Self::new(503, "AB04", error.to_string()),
            _ => {
                tracing::error!(%error, "the engine failed");
                Self::new(500, "failed", error.to_string())
            }
        }
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut response = axum::Json(ErrorBody { error: self.problem }).into_response();
        *response.status_mut() = status;
        if matches!(self.status, 408 | 413) {
            // What is left of the request is not read.
            response.headers_mut().insert(header::CONNECTION, header::HeaderValue::from_static("close"));
        }
        response
    }
}
