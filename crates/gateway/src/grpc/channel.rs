//! One HTTP/2 connection, as the generated client wants it.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};
use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use http_body::Frame;
use hyper::body::Incoming;
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tonic::Status;
use tonic::body::Body;
use tower_service::Service;

/// What one call, and one connection, may be sent ahead of being read, in bytes.
const STREAM_WINDOW: u32 = 256 << 10;
const CONNECTION_WINDOW: u32 = 1 << 20;
/// How often the server is asked whether it is there, and how long that may take.
const PING: Duration = Duration::from_secs(20);

/// An open connection.
#[derive(Clone, Debug)]
pub(crate) struct Channel(http2::SendRequest<Body>);

impl Channel {
    pub(crate) async fn open(
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    ) -> io::Result<Self> {
        let opened = http2::Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .keep_alive_interval(PING)
            .keep_alive_timeout(PING)
            .handshake(TokioIo::new(stream))
            .await;
        let (send, connection) = opened.map_err(io::Error::other)?;
        tokio::spawn(async move {
            // The calls that it fails say so themselves.
            let _ = connection.await;
        });
        Ok(Self(send))
    }
}

impl Service<Request<Body>> for Channel {
    type Response = Response<Checked>;
    type Error = hyper::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Checked>, hyper::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<hyper::Result<()>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let answer = self.0.send_request(request);
        Box::pin(async move {
            let mut answer = answer.await?;
            check(answer.headers_mut());
            Ok(answer.map(Checked))
        })
    }
}

/// A body whose trailers the gRPC library can read: it panics on status details that are not base64, and these come
/// from outside.
#[derive(Debug)]
pub(crate) struct Checked(Incoming);

impl http_body::Body for Checked {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let mut frame = ready!(Pin::new(&mut self.0).poll_frame(context));
        if let Some(Ok(frame)) = &mut frame
            && let Some(trailers) = frame.trailers_mut()
        {
            check(trailers);
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_end_stream()
    }

    fn size_hint(&self) -> http_body::SizeHint {
        self.0.size_hint()
    }
}

fn check(headers: &mut HeaderMap) {
    let is_base64 = |bytes: &[u8]| STANDARD.decode(bytes).is_ok() || STANDARD_NO_PAD.decode(bytes).is_ok();
    if headers.get(Status::GRPC_STATUS_DETAILS).is_some_and(|details| !is_base64(details.as_bytes())) {
        headers.remove(Status::GRPC_STATUS_DETAILS);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn details_that_are_not_base64_are_not_shown_to_the_library() {
        for (details, stays) in [("AAECAw==", true), ("AAECAw", true), ("", true), ("A", false), ("*", false)]
        {
            let mut headers = HeaderMap::new();
            headers.insert("grpc-status", http::HeaderValue::from_static("5"));
            headers.insert(Status::GRPC_STATUS_DETAILS, http::HeaderValue::from_static(details));
            check(&mut headers);
            assert_eq!(headers.contains_key(Status::GRPC_STATUS_DETAILS), stays, "{details}");
            assert!(Status::from_header_map(&headers).is_some());
        }
    }
}
