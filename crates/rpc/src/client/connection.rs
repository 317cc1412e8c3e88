//! One HTTP/2 connection over TLS, as the generated client wants it.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use base64::Engine;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use bytes::Bytes;
use http::uri::{Authority, Uri};
use http::{HeaderMap, Request, Response};
use http_body::Frame;
use hyper::body::Incoming;
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::ClientConfig;
use tokio_rustls::rustls::pki_types::ServerName;
use tonic::Status;
use tonic::body::Body;
use tower_service::Service;

use super::{ClientError, ClientSettings};

const STREAM_WINDOW: u32 = 1024 * 1024;
const CONNECTION_WINDOW: u32 = 4 * 1024 * 1024;

/// How to reach a server.
pub(super) struct Connector {
    address: String,
    name: ServerName<'static>,
    tls: TlsConnector,
    origin: Uri,
    limit: Duration,
    http: http2::Builder<TokioExecutor>,
}

impl Connector {
    pub(super) fn new(
        address: &str,
        name: ServerName<'static>,
        tls: Arc<ClientConfig>,
        settings: &ClientSettings,
    ) -> Result<Self, ClientError> {
        let mut tls = ClientConfig::clone(&tls);
        tls.alpn_protocols = vec![b"h2".to_vec()];
        let origin = Authority::try_from(address)
            .map(|authority| Uri::builder().scheme("https").authority(authority).path_and_query("/").build());
        let origin = match origin {
            Ok(Ok(origin)) => origin,
            _ => {
                let source = io::Error::new(io::ErrorKind::InvalidInput, "the address is not `host:port`");
                return Err(ClientError::Connect { address: address.to_owned(), source });
            }
        };
        let mut http = http2::Builder::new(TokioExecutor::new());
        http.timer(TokioTimer::new())
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .keep_alive_interval(settings.ping_every)
            .keep_alive_timeout(settings.ping_every);
        let tls = TlsConnector::from(Arc::new(tls));
        Ok(Self { address: address.to_owned(), name, tls, origin, limit: settings.connect_limit, http })
    }

    pub(super) fn origin(&self) -> &Uri {
        &self.origin
    }

    pub(super) async fn connect(&self) -> Result<Channel, ClientError> {
        let connected = async {
            let stream = TcpStream::connect(&self.address).await?;
            stream.set_nodelay(true)?;
            let stream = self.tls.connect(self.name.clone(), stream).await?;
            let (send, connection) =
                self.http.handshake(TokioIo::new(stream)).await.map_err(io::Error::other)?;
            tokio::spawn(async move {
                // The calls that it fails say so themselves.
                let _ = connection.await;
            });
            Ok(Channel(send))
        };
        let connected = timeout(self.limit, connected).await.unwrap_or_else(|_| {
            let limit = self.limit.as_millis();
            Err(io::Error::new(io::ErrorKind::TimedOut, format!("no connection within {limit} ms")))
        });
        connected.map_err(|source| ClientError::Connect { address: self.address.clone(), source })
    }
}

/// An open connection.
#[derive(Clone)]
pub(crate) struct Channel(http2::SendRequest<Body>);

impl Channel {
    pub(crate) fn is_open(&self) -> bool {
        !self.0.is_closed()
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
    const LENIENT: GeneralPurpose = GeneralPurpose::new(
        &STANDARD,
        GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
    );
    if let Some(details) = headers.get(Status::GRPC_STATUS_DETAILS)
        && LENIENT.decode(details.as_bytes()).is_err()
    {
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
