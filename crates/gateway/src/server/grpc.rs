//! The same over gRPC, for volume: [`crate::grpc`] has the messages, this answers them on the port of HTTP.
//!
//! Whoever calls is recognised before anything of a message is read. Health and reflection are for everybody.

mod answers;
mod calls;
mod forms;
mod health;
mod metered;
mod places;
mod stream;
#[cfg(test)]
mod tests;

pub(super) use places::{Kept, Streams};

use super::App;
use super::caller::Credential;
use super::failure::Failure;
use crate::grpc::wire::Refused;
use crate::grpc::wire::settlement_server::{SERVICE_NAME, SettlementServer};
use crate::grpc::{DESCRIPTION, details};
use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use calls::Calls;
use health::Health;
use metered::{Memory, Metered};
use std::convert::Infallible;
use std::sync::Arc;
use tonic::{Code, Status};
use tonic_health::pb::health_server::HealthServer;
use tower_service::Service;

/// The most bytes of a message that is no request of a stream.
const MAX_QUESTION: usize = 16 << 10;

/// What answers gRPC.
pub(super) fn routes() -> Router<Arc<App>> {
    const GENERATED: &str = "the description was generated with the code";
    let description = || {
        tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(DESCRIPTION)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
    };
    let v1 = description().build_v1().expect(GENERATED).max_decoding_message_size(MAX_QUESTION);
    // Tools that are some years old ask by this name.
    let v1alpha = description().build_v1alpha().expect(GENERATED).max_decoding_message_size(MAX_QUESTION);
    let v1 = move |State(app): State<Arc<App>>, request: Request| answer(v1.clone(), app, request);
    let v1alpha = move |State(app): State<Arc<App>>, request: Request| answer(v1alpha.clone(), app, request);
    Router::new()
        .route("/tallystick.v1.Settlement/{method}", post(settlement))
        .route("/grpc.health.v1.Health/{method}", post(health))
        .route("/grpc.reflection.v1.ServerReflection/{method}", post(v1))
        .route("/grpc.reflection.v1alpha.ServerReflection/{method}", post(v1alpha))
}

/// Whether that is the head of a gRPC call.
pub(super) fn is_call(headers: &HeaderMap) -> bool {
    super::body::content_type(headers).starts_with("application/grpc")
}

/// A gRPC answer that says why there is no other.
pub(super) fn refuse(failure: Failure) -> Response {
    status(failure).into_http::<Body>()
}

/// What is answered where there is nothing, in the caller's language.
pub(super) async fn nothing_here(headers: HeaderMap) -> Response {
    if is_call(&headers) {
        return Status::unimplemented("there is no such service").into_http::<Body>();
    }
    Failure::not_found("there is nothing at this path").into_response()
}

async fn settlement(State(app): State<Arc<App>>, mut request: Request) -> Response {
    let known = Credential::of(request.headers(), request.extensions()).and_then(|credential| {
        credential.user(&app.access.current(), app.desk.now())?;
        Ok(credential)
    });
    match known {
        Err(denied) => refuse(denied.into()),
        Ok(credential) => {
            request.extensions_mut().insert(credential);
            let submits = request.uri().path().ends_with("/Submit");
            let most = if submits { app.settings.http.max_body_bytes } else { MAX_QUESTION };
            let service = SettlementServer::new(Calls(Arc::clone(&app))).max_decoding_message_size(most);
            answer(service, app, request).await
        }
    }
}

async fn health(State(app): State<Arc<App>>, request: Request) -> Response {
    let service = HealthServer::new(Health(Arc::clone(&app))).max_decoding_message_size(MAX_QUESTION);
    answer(service, app, request).await
}

/// Answers a request whose body is counted as it comes in.
async fn answer<S>(mut service: S, app: Arc<App>, request: Request) -> Response
where
    S: Service<Request<Metered>, Response = http::Response<tonic::body::Body>, Error = Infallible>,
{
    let (mut parts, body) = request.into_parts();
    let memory = Arc::new(Memory::default());
    parts.extensions.insert(Arc::clone(&memory));
    let body = Metered::new(body, memory, &app);
    match service.call(Request::from_parts(parts, body)).await {
        Ok(response) => refused_unread(&response).unwrap_or_else(|| response.map(Body::new)),
        Err(never) => match never {},
    }
}

/// What is answered in place of a response that says that the request could not be read: that is the client's doing.
///
/// Failures of the gateway's own have details, which its refusals all have; a refusal without is the library's, which has one
/// code for a message that it cannot decode and for a server that broke.
fn refused_unread<T>(response: &http::Response<T>) -> Option<Response> {
    let refused = Status::from_header_map(response.headers())?;
    let is_of_library =
        refused.details().is_empty() && matches!(refused.code(), Code::Internal | Code::OutOfRange);
    is_of_library.then(|| unread(refused, MAX_QUESTION).into_http::<Body>())
}

/// How a call ends whose message cannot be read: too large, or no message at all.
fn unread(status: Status, most: usize) -> Status {
    match status.code() {
        Code::OutOfRange => {
            self::status(Failure::new(413, "FF01", format!("the request is larger than {most} bytes")))
        }
        Code::Internal => self::status(Failure::form(status.message())),
        _ => status,
    }
}

/// What a request of a stream is answered with when it was refused.
fn refused(failure: &Failure) -> Refused {
    let status = match failure.status() {
        400 | 415 => Code::InvalidArgument,
        401 => Code::Unauthenticated,
        403 => Code::PermissionDenied,
        404 => Code::NotFound,
        408 => Code::DeadlineExceeded,
        413 | 429 => Code::ResourceExhausted,
        503 => Code::Unavailable,
        _ => Code::Internal,
    };
    Refused {
        status: status as i32,
        code: failure.code().to_owned(),
        text: failure.detail().to_owned(),
        retry_after_ms: failure.retry_after_seconds().unwrap_or_default().saturating_mul(1000),
    }
}

/// How a call ends that was refused.
fn status(failure: Failure) -> Status {
    details::status(&refused(&failure))
}

/// How what is under way ends when the server does.
fn stops() -> Failure {
    Failure::new(503, "stops", "the gateway stops; connect again")
}
