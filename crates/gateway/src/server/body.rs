//! Bodies of requests, within the limits of size, time and memory.

use super::App;
use super::failure::Failure;
use axum::body::HttpBody as _;
use axum::extract::{FromRequest, Request};
use axum::http::{HeaderMap, header};
use http_body_util::BodyExt as _;
use serde::de::DeserializeOwned;
use std::sync::Arc;
use std::time::Duration;
use tally_slots::Slot;
use tokio::sync::OwnedSemaphorePermit;

/// The body of a request.
pub(super) struct Body {
    pub(super) bytes: Vec<u8>,
    /// Its share of the memory for bodies.
    _memory: Option<OwnedSemaphorePermit>,
}

impl Body {
    /// What it says in JSON.
    pub(super) fn json<T: DeserializeOwned>(&self) -> Result<T, Failure> {
        serde_json::from_slice(&self.bytes).map_err(|error| Failure::form(error.to_string()))
    }
}

impl FromRequest<Arc<App>> for Body {
    type Rejection = Failure;

    async fn from_request(request: Request, app: &Arc<App>) -> Result<Self, Failure> {
        let limit = Duration::from_millis(app.settings.http.request_timeout_ms);
        let slot = request.extensions().get::<Arc<Slot>>().cloned();
        // The body comes at the client's pace.
        if let Some(slot) = &slot {
            slot.waits();
        }
        let read = tokio::time::timeout(limit, read_body(request, app)).await;
        if let Some(slot) = &slot {
            slot.works().await;
        }
        read.unwrap_or_else(|_| Err(Failure::new(408, "timeout", "the request's body did not come in time")))
    }
}

/// Memory is counted as bytes arrive, so that a client that announces much and sends little takes little.
async fn read_body(request: Request, app: &App) -> Result<Body, Failure> {
    let most = app.settings.http.max_body_bytes;
    let mut body = Body { bytes: Vec::new(), _memory: None };
    let mut stream = request.into_body();
    let too_large = || Failure::new(413, "FF01", format!("the request is larger than {most} bytes"));
    // What is announced as too large is not waited for.
    if usize::try_from(stream.size_hint().lower()).map_or(true, |announced| announced > most) {
        return Err(too_large());
    }
    while let Some(frame) = stream.frame().await {
        let frame = frame.map_err(|_| Failure::new(400, "FF01", "the request's body cannot be read"))?;
        let Some(data) = frame.data_ref() else { continue };
        if body.bytes.len().saturating_add(data.len()) > most {
            return Err(too_large());
        }
        let busy = |_| Failure::new(503, "AB10", "the network is busy; send it again later");
        let share = u32::try_from(data.len()).unwrap_or(u32::MAX);
        let memory = Arc::clone(&app.bodies).try_acquire_many_owned(share).map_err(busy)?;
        match &mut body._memory {
            Some(held) => held.merge(memory),
            none => *none = Some(memory),
        }
        body.bytes.extend_from_slice(data);
    }
    Ok(body)
}

/// What kind of body a request says that it has, without parameters; empty when it does not say.
pub(super) fn content_type(headers: &HeaderMap) -> &str {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    kind.split(';').next().unwrap_or_default().trim()
}
