//! One HTTP request: who may send it, its body, its answer.

use std::convert::Infallible;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::body::{Body, Incoming};
use hyper::header::{self, HeaderMap, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};

use super::answer::{Outcome, write_error};
use super::connection::{Answered, Connection};
use super::stream::AnswerBody;
use super::websocket;
use crate::error::{LIMIT_EXCEEDED, RpcError, UNAUTHORIZED};

pub(super) type Answer = Response<AnswerBody>;

const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// Answers one request; never fails.
pub(super) async fn handle(
    connection: Arc<Connection>,
    request: Request<Incoming>,
) -> Result<Answer, Infallible> {
    let service = &connection.service;
    let origin = request.headers().get(header::ORIGIN).cloned();
    if !service.hosts.allow(text(request.headers(), header::HOST)) {
        service.meters.unauthorized.increment();
        return Ok(plain(StatusCode::FORBIDDEN, br#"{"message":"Host not authorized."}"#));
    }
    let allowed = match origin.as_ref().map(HeaderValue::to_str) {
        None => None,
        Some(Ok(page)) => Some(service.origins.allow(page)),
        Some(Err(_)) => Some(false),
    };
    let mut answer = if request.method() == Method::OPTIONS {
        preflight(&request)
    } else if request.method() == Method::POST && service.http {
        // Without the answer's permission a browser still sends what it calls a simple request, and not each says that it is
        // one; asking for JSON makes it ask first.
        if is_json(request.headers()) {
            call(&connection, request, origin.is_some()).await
        } else {
            service.meters.unauthorized.increment();
            plain(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                br#"{"message":"Send the header Content-Type: application/json."}"#,
            )
        }
    } else if websocket::wants(&request) && service.websocket {
        // Browsers do not ask before they open a WebSocket, so its origin is checked here.
        if allowed == Some(false) {
            service.meters.unauthorized.increment();
            return Ok(plain(StatusCode::FORBIDDEN, br#"{"message":"Origin not authorized."}"#));
        }
        websocket::accept(&connection, request, origin.is_some())
    } else if request.method() == Method::GET && matches!(request.uri().path(), "/liveness" | "/readiness") {
        plain(StatusCode::OK, br#"{"status":"UP"}"#)
    } else {
        let mut answer = plain(StatusCode::METHOD_NOT_ALLOWED, br#"{"message":"Send POST."}"#);
        answer.headers_mut().insert(header::ALLOW, HeaderValue::from_static("POST, OPTIONS"));
        answer
    };
    if let (Some(origin), Some(true)) = (origin, allowed) {
        let headers = answer.headers_mut();
        headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        headers.insert(header::VARY, HeaderValue::from_static("origin"));
    }
    Ok(answer)
}

async fn call(connection: &Arc<Connection>, request: Request<Incoming>, is_page: bool) -> Answer {
    let service = &connection.service;
    let caller = match connection.caller(text(request.headers(), header::AUTHORIZATION), is_page) {
        Ok(caller) => caller,
        Err(error) => {
            service.meters.unauthorized.increment();
            tracing::debug!(peer = %connection.peer, %error, "a caller was refused");
            return refusal(StatusCode::UNAUTHORIZED, &RpcError::new(UNAUTHORIZED, "Unauthorized"));
        }
    };
    let body = match read(connection, request.into_body()).await {
        Ok(body) => body,
        Err(answer) => return *answer,
    };
    if !connection.may_call(&body) {
        let error =
            RpcError::new(LIMIT_EXCEEDED, "limit exceeded: too many calls a second on this connection");
        return refusal(StatusCode::TOO_MANY_REQUESTS, &error);
    }
    // The body came, and the answer is read, at the client's pace.
    let working = connection.slot.working().await;
    let answered = connection.answer(body, caller, None).await;
    drop(working);
    let (body, outcome) = match answered {
        Answered::Whole(bytes, outcome) => (AnswerBody::from(bytes), outcome),
        Answered::Leaving(stream) => (AnswerBody::stream(stream), Outcome::Answered),
    };
    let body = if body.is_long() {
        // A little more than a call may send, so that it can say why the answer ends.
        body.within(connection.pace.reading(service.limits.stream + service.limits.stall))
    } else {
        body
    };
    let status = match outcome {
        Outcome::Malformed => StatusCode::BAD_REQUEST,
        Outcome::Nothing => StatusCode::NO_CONTENT,
        Outcome::Answered | Outcome::Costly(..) => StatusCode::OK,
    };
    respond(status, body)
}

/// Reads the body, as far as it is allowed to be long.
async fn read(connection: &Connection, mut body: Incoming) -> Result<Bytes, Box<Answer>> {
    let limits = &connection.service.limits;
    let too_long = || {
        connection.service.meters.refused_calls.increment();
        let error =
            RpcError::limit(format!("limit exceeded: a request has at most {} bytes", limits.request_bytes));
        let mut answer = refusal(StatusCode::PAYLOAD_TOO_LARGE, &error);
        // The rest is not read, so nothing can follow it.
        answer.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        Box::new(answer)
    };
    if body.size_hint().lower() > limits.request_bytes as u64 {
        return Err(too_long());
    }
    let reading = async {
        let mut first = Bytes::new();
        let mut rest = BytesMut::new();
        while let Some(frame) = body.frame().await {
            let Ok(frame) = frame else {
                return Err(Box::new(plain(StatusCode::BAD_REQUEST, br#"{"message":"The body is cut."}"#)));
            };
            let Ok(data) = frame.into_data() else { continue };
            if first.len() + rest.len() + data.len() > limits.request_bytes {
                return Err(too_long());
            }
            if first.is_empty() && rest.is_empty() {
                first = data;
            } else {
                if rest.is_empty() {
                    rest.extend_from_slice(&first);
                    first = Bytes::new();
                }
                rest.extend_from_slice(&data);
            }
        }
        Ok(if rest.is_empty() { first } else { rest.freeze() })
    };
    match tokio::time::timeout(limits.body, reading).await {
        Ok(read) => read,
        Err(_) => {
            let mut answer = plain(StatusCode::REQUEST_TIMEOUT, br#"{"message":"The body takes too long."}"#);
            answer.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
            Err(Box::new(answer))
        }
    }
}

fn preflight(request: &Request<Incoming>) -> Answer {
    let mut answer = respond(StatusCode::NO_CONTENT, Vec::new());
    let headers = answer.headers_mut();
    headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static("POST, OPTIONS"));
    headers.insert(header::ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("600"));
    let wanted = request.headers().get(header::ACCESS_CONTROL_REQUEST_HEADERS);
    let allowed = HeaderValue::from_static("content-type, authorization");
    headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, wanted.cloned().unwrap_or(allowed));
    answer
}

fn is_json(headers: &HeaderMap) -> bool {
    text(headers, header::CONTENT_TYPE).is_some_and(|kind| {
        kind.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case("application/json")
    })
}

pub(super) fn text(headers: &HeaderMap, name: header::HeaderName) -> Option<&str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

fn refusal(status: StatusCode, error: &RpcError) -> Answer {
    let mut out = Vec::new();
    write_error(&mut out, None, error);
    respond(status, out)
}

pub(super) fn plain(status: StatusCode, text: &'static [u8]) -> Answer {
    respond(status, Bytes::from_static(text))
}

fn respond(status: StatusCode, body: impl Into<AnswerBody>) -> Answer {
    let mut answer = Response::new(body.into());
    *answer.status_mut() = status;
    if status != StatusCode::NO_CONTENT {
        answer.headers_mut().insert(header::CONTENT_TYPE, JSON);
    }
    answer
}
