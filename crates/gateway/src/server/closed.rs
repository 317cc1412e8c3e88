//! Answers of a gateway that is not open yet: who calls learns so at once, and may go to another.

use super::failure::Failure;
use super::{Endpoint, ServeError, framing, grpc};
use crate::settings::Settings;
use crate::wire::HealthView;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use axum::{Json, Router, middleware};
use std::net::TcpListener;
use tally_ops::shutdown::Shutdown;
use tokio::sync::watch;

/// In seconds, when to come again: opening reads what came after the last snapshots.
const RETRY_AFTER: u64 = 1;

/// Answers every request on `listener` with 503 and that the gateway is being opened, until shutdown is requested.
/// `/health` says that it lives.
///
/// # Errors
/// As [`serve`](super::serve).
pub fn refuse(listener: TcpListener, settings: &Settings, shutdown: &Shutdown) -> Result<(), ServeError> {
    let endpoint = Endpoint::new(listener, settings)?;
    endpoint.serve(1, router(), shutdown, &watch::Sender::new(false))
}

fn router() -> Router {
    let health = |status| async move || (status, Json(view()));
    Router::new()
        .route("/health", get(health(StatusCode::OK)))
        .route("/ready", get(health(StatusCode::SERVICE_UNAVAILABLE)))
        .fallback(async |headers: HeaderMap| -> Response {
            let failure = Failure::new(503, "opening", view().text).retry_after(RETRY_AFTER);
            if grpc::is_call(&headers) { grpc::refuse(failure) } else { failure.into_response() }
        })
        .layer(middleware::from_fn(framing::check))
}

fn view() -> HealthView {
    HealthView { healthy: false, text: "the gateway is being opened".to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::body::Body;
    use axum::extract::Request;
    use axum::http::header;
    use tower_service::Service as _;

    async fn asked(path: &str, content: &str) -> Response {
        let request = Request::post(path).header(header::HOST, "here").header(header::CONTENT_TYPE, content);
        router().call(request.body(Body::empty()).unwrap()).await.unwrap()
    }

    #[tokio::test]
    async fn whoever_calls_is_told_at_once_and_in_their_language() {
        let answer = asked("/v1/payments", "application/json").await;
        assert_eq!(
            (answer.status().as_u16(), &answer.headers()[header::RETRY_AFTER]),
            (503, &"1".parse().unwrap())
        );
        assert_eq!(answer.headers()[header::CONTENT_TYPE], "application/problem+json");
        let answer = asked("/tallystick.settlement.v1.Settlement/Submit", "application/grpc").await;
        assert_eq!(answer.status(), 200);
        assert_eq!(answer.headers()["grpc-status"], "14", "UNAVAILABLE");
        for (path, status) in [("/health", 200), ("/ready", 503)] {
            let request = Request::get(path).header(header::HOST, "here").body(Body::empty()).unwrap();
            assert_eq!(router().call(request).await.unwrap().status(), status, "{path}");
        }
    }
}
