//! `GET /v1/events`: outcomes as they become final, as server-sent events (WHATWG HTML, section 9.2).

use super::asked::Asked;
use super::caller::{By, Credential, Reads};
use super::failure::Failure;
use super::grpc::Kept;
use super::refusals::Refusals;
use super::{App, blocking, document, outcome};
use axum::body::Body;
use axum::extract::State;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use serde::Deserialize;
use std::convert::Infallible;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tally_settlement::outcomes::{Outcomes, Place};
use tokio::sync::watch;
use utoipa::IntoParams;

/// How often it is looked whether more was decided, and whether the user may still read.
const LOOK: Duration = Duration::from_millis(20);
/// After how long without an event the client is told how far it was looked for it, so that nobody in between takes
/// the connection for dead.
const KEEP_ALIVE: Duration = Duration::from_secs(10);
/// In seconds, when to ask again where there are too many streams.
const FULL: u64 = 5;
/// Bytes of events that are sent together.
const CHUNK: usize = 32 << 10;
/// The header by which a client that comes again says what it was told last.
const LAST_EVENT_ID: &str = "last-event-id";

/// From where on, and how far.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Range {
    /// Outcomes from this sequence number on, if no header says more; else those from now on.
    from: Option<u64>,
    /// The stream ends before this sequence number, once it is reached; without it, it has no end.
    until: Option<u64>,
}

/// Outcomes as they become final
///
/// A stream of server-sent events: one named `outcome` for each transaction with an account at an institution that the
/// user acts for, in the one global order. Its id is the sequence number, its data the outcome. A client that comes again
/// says by `Last-Event-ID` what it was told last, and misses nothing.
#[utoipa::path(
    get,
    path = "/v1/events",
    operation_id = "events",
    tag = "payments",
    params(
        Range,
        ("last-event-id" = Option<u64>, Header, description = "Outcomes after this sequence number")
    ),
    responses(
        (status = 200, description = "Events, each of this shape", content_type = "text/event-stream", body = document::EventView),
        Refusals
    )
)]
pub(super) async fn events(
    State(app): State<Arc<App>>,
    by: By<Reads>,
    Asked(asked): Asked<Range>,
    parts: Parts,
) -> Result<Response, Failure> {
    let next = told_last(&parts.headers)?.map(|last| last.saturating_add(1)).or(asked.from);
    let place = Place::before(next.unwrap_or_else(|| app.desk.sequenced()));
    let kept = app.streams.keep(&by.user().name, &parts.extensions);
    let kept = kept.map_err(|full| full.retry_after(FULL))?;
    let following = Following {
        credential: Credential::of(&parts.headers, &parts.extensions)?,
        by,
        place,
        until: asked.until.unwrap_or(u64::MAX).max(place.next()),
        has_ended: false,
        read: None,
        stop: app.stop.subscribe(),
        said: None,
        _kept: kept,
        app,
    };
    let body = Body::from_stream(futures_util::stream::unfold(following, Following::next));
    let mut response = body.into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(response)
}

fn told_last(headers: &HeaderMap) -> Result<Option<u64>, Failure> {
    let Some(value) = headers.get(LAST_EVENT_ID) else { return Ok(None) };
    let number = value.to_str().ok().and_then(|text| text.parse::<u64>().ok());
    // In the document, as everywhere, whole numbers have 63 bits.
    let number = number.filter(|number| i64::try_from(*number).is_ok());
    number.map(Some).ok_or_else(|| Failure::form("last-event-id: the sequence number of an event is wanted"))
}

/// One client that is told of outcomes.
struct Following {
    app: Arc<App>,
    credential: Credential,
    by: By<Reads>,
    place: Place,
    /// Before which sequence number it ends.
    until: u64,
    /// Whether the client was told that it has come there.
    has_ended: bool,
    /// Outcomes that were read, and how many of them were looked at.
    read: Option<(Outcomes, usize)>,
    stop: watch::Receiver<bool>,
    /// When something was sent last; none before the first.
    said: Option<Instant>,
    _kept: Kept,
}

impl Following {
    /// The next events, waiting for them. The stream ends where it was asked to, or when the server stops, the user may read no
    /// more, or the journal cannot be read: the client comes again, and is told why.
    async fn next(mut self) -> Option<(Result<Bytes, Infallible>, Self)> {
        while !*self.stop.borrow() {
            self.by = By::still(&self.app, &self.credential).ok()?;
            if let Some(text) = self.events() {
                self.said = Some(Instant::now());
                return Some((Ok(text.into()), self));
            }
            if self.place.next() >= self.until {
                // Where nothing of the last was for it, it would not know that it has all.
                return (!std::mem::replace(&mut self.has_ended, true))
                    .then(|| (Ok(self.reached().into()), self));
            }
            // At once too: a client whose connection breaks before the first event knows where to go on.
            if self.said.is_none_or(|said| said.elapsed() >= KEEP_ALIVE) {
                self.said = Some(Instant::now());
                return Some((Ok(self.reached().into()), self));
            }
            if self.read().await.ok()? {
                continue;
            }
            tokio::select! {
                () = tokio::time::sleep(LOOK) => {}
                _ = self.stop.changed() => {}
            }
        }
        None
    }

    /// How far the client has been told, also where none of it was for it: an id without data moves its place, and is no event.
    fn reached(&self) -> String {
        let next = self.place.next().min(self.until);
        next.checked_sub(1).map_or_else(|| ":\n\n".to_owned(), |last| format!("id: {last}\n\n"))
    }

    /// The events of what was read and concerns the user, as many as are sent together.
    fn events(&mut self) -> Option<String> {
        let (outcomes, looked_at) = self.read.as_mut()?;
        let mut text = String::new();
        for one in &outcomes[*looked_at..] {
            if text.len() >= CHUNK {
                return Some(text);
            }
            *looked_at += 1;
            if one.sequence >= self.until {
                break;
            }
            if one.participants.iter().any(|participant| self.by.user().acts_for(*participant)) {
                let data =
                    serde_json::to_string(&outcome::view(&one.answer)).expect("an outcome is plain data");
                write!(text, "id: {}\nevent: outcome\ndata: {data}\n\n", one.sequence)
                    .expect("a string takes all");
            }
        }
        self.read = None;
        (!text.is_empty()).then_some(text)
    }

    /// Reads on; whether there was anything.
    async fn read(&mut self) -> Result<bool, Failure> {
        if self.place.next() >= self.app.desk.sequenced() {
            return Ok(false);
        }
        let mut place = self.place;
        let (place, read) = blocking(Arc::clone(&self.app), move |app| {
            let read = app.desk.outcomes(&mut place)?;
            Ok((place, read))
        })
        .await?;
        self.place = place;
        self.read = read.map(|read| (read, 0));
        Ok(self.read.is_some())
    }
}
