//! Answers that are errors: problem details (RFC 9457).

use crate::access::{Denied, whole_seconds};
use crate::wire::ProblemDetails;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use tally_iso20022::StatusReason;
use tally_settlement::engine::EngineError;

/// A request that is not answered, and why.
#[derive(Debug)]
pub(super) struct Failure {
    status: u16,
    code: String,
    detail: String,
    /// Seconds after which it may be sent again.
    retry_after: Option<u64>,
    /// Nothing more is read of the connection.
    closes: bool,
}

impl Failure {
    pub(super) fn new(status: u16, code: &str, detail: impl Into<String>) -> Self {
        Self {
            status,
            code: code.to_owned(),
            detail: detail.into(),
            retry_after: None,
            closes: matches!(status, 408 | 413),
        }
    }

    pub(super) fn not_found(detail: impl Into<String>) -> Self {
        Self::new(404, "not-found", detail)
    }

    /// A request whose form is wrong.
    pub(super) fn form(detail: impl Into<String>) -> Self {
        Self::new(400, "FF01", detail)
    }

    /// Something failed that the client has no part in.
    pub(super) fn internal(error: &(dyn std::error::Error + 'static)) -> Self {
        tracing::error!(error, "a request failed");
        Self::new(500, "failed", "the request could not be answered; see the gateway's log")
    }

    /// What was wrong with this request.
    pub(super) fn detail(&self) -> &str {
        &self.detail
    }

    /// The HTTP status.
    pub(super) fn status(&self) -> u16 {
        self.status
    }

    /// The code of the problem.
    pub(super) fn code(&self) -> &str {
        &self.code
    }

    /// Seconds after which it may be sent again.
    pub(super) fn retry_after_seconds(&self) -> Option<u64> {
        self.retry_after
    }

    fn title(&self) -> &str {
        match StatusReason::from_code(&self.code) {
            Some(reason) => reason.sentence(),
            None => match self.status {
                400 => "The request is malformed",
                401 => "Nobody was recognised",
                403 => "This is not allowed",
                404 => "There is no such thing",
                405 => "The path has another method",
                406 => "There is no such representation",
                408 => "The request took too long",
                409 | 422 => "It does not fit what was sent before",
                429 => "More was sent than agreed",
                503 => "The network cannot answer now",
                _ => "The gateway failed",
            },
        }
    }
}

impl From<EngineError> for Failure {
    fn from(error: EngineError) -> Self {
        match &error {
            EngineError::Busy(_) | EngineError::Share(_) => {
                Self::new(503, "AB10", error.to_string()).retry_after(1)
            }
            EngineError::Behind => Self::new(503, "behind", error.to_string()).retry_after(1),
            EngineError::NotKept(_) => Self::new(503, "AB10", error.to_string()).retry_after(1),
            EngineError::Stopped(_) => Self::new(503, "AB04", error.to_string()),
            _ => Self::internal(&error),
        }
    }
}

impl From<Denied> for Failure {
    fn from(denied: Denied) -> Self {
        let detail = denied.to_string();
        match denied {
            Denied::Nobody | Denied::Unknown | Denied::Expired { .. } => Self::new(401, "unknown", detail),
            Denied::Role { .. } | Denied::Institution { .. } => Self::new(403, "forbidden", detail),
            Denied::Quota { wait, .. } => Self::new(429, "quota", detail).retry_after(whole_seconds(wait)),
        }
    }
}

impl Failure {
    /// After which nothing more is read of the connection.
    pub(super) fn closing(self) -> Self {
        Self { closes: true, ..self }
    }

    /// After so many seconds it may be sent again.
    pub(super) fn retry_after(self, seconds: u64) -> Self {
        Self { retry_after: Some(seconds), ..self }
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let details = ProblemDetails {
            kind: format!("urn:tallystick:problem:{}", self.code),
            title: self.title().to_owned(),
            status: status.as_u16(),
            detail: self.detail,
            code: self.code,
        };
        let mut response = (status, axum::Json(details)).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if let Some(seconds) = self.retry_after {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        if self.status == 401 {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer realm=\"tallystick\""));
        }
        if self.closes {
            headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        response
    }
}
