//! From an HTTP request to the service that answers it, within its deadline.

use std::convert::Infallible;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::{HeaderMap, Request, Response};
use hyper::body::Incoming;
use tokio::time::{Instant, Sleep, sleep_until, timeout_at};
use tonic::Status;
use tonic::body::Body;
use tonic::server::NamedService;
use tower_service::Service;

use super::gateway::Gateway;
use crate::convert::status;
use crate::refusal::{Refusal, RefusalCode};
use crate::service::NodeService;
use crate::wire::node_server::NodeServer;

/// What a call knows about its connection and its time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CallContext {
    pub(crate) peer: SocketAddr,
    deadline: Option<Instant>,
}

impl CallContext {
    pub(super) fn of<T>(request: &tonic::Request<T>) -> Result<Self, Status> {
        let context = request.extensions().get::<Self>().copied();
        context.ok_or_else(|| status(Refusal::new(RefusalCode::Internal, "the call has no connection")))
    }

    /// The future's output, or a refusal once the deadline has passed.
    pub(super) async fn within<T>(&self, future: impl Future<Output = T>) -> Result<T, Refusal> {
        match self.deadline {
            None => Ok(future.await),
            Some(deadline) => timeout_at(deadline, future).await.map_err(|_| too_late()),
        }
    }

    pub(super) fn check(&self) -> Result<(), Refusal> {
        match self.deadline {
            Some(deadline) if deadline <= Instant::now() => Err(too_late()),
            _ => Ok(()),
        }
    }
}

fn too_late() -> Refusal {
    Refusal::new(RefusalCode::DeadlineExceeded, "the call's deadline passed; what it started may go on")
}

/// What answers requests under one path.
pub(super) type Route = Arc<dyn Fn(Request<Incoming>) -> Call + Send + Sync>;
type Call = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

/// The services of a server: the node's own, then the standard ones.
pub(super) struct Routes<N: NodeService> {
    node: NodeServer<Gateway<N>>,
    others: Vec<(String, Route)>,
    message_limit: usize,
}

impl<N: NodeService> Routes<N> {
    pub(super) fn new(gateway: Gateway<N>, message_limit: usize) -> Self {
        let node = NodeServer::new(gateway).max_decoding_message_size(message_limit);
        Self { node, others: Vec::new(), message_limit }
    }

    /// Adds a service under the path of its name.
    pub(super) fn with<S>(mut self, service: S) -> Self
    where
        S: Service<Request<Incoming>, Response = Response<Body>, Error = Infallible>
            + NamedService
            + Clone
            + Send
            + Sync
            + 'static,
        S::Future: Send + 'static,
    {
        let route: Route = Arc::new(move |request| Box::pin(service.clone().call(request)));
        self.others.push((format!("/{}/", S::NAME), route));
        self
    }

    fn route(&self, request: Request<Incoming>) -> Option<Call> {
        let path = request.uri().path();
        let own = path.strip_prefix('/').and_then(|path| path.strip_prefix(<NodeServer<Gateway<N>>>::NAME));
        if own.is_some_and(|method| method.starts_with('/')) {
            return Some(self.node.clone().call(request));
        }
        let (_, route) = self.others.iter().find(|(prefix, _)| path.starts_with(prefix))?;
        Some(route(request))
    }

    /// Answers a request of this peer.
    pub(super) fn answer(&self, peer: SocketAddr, mut request: Request<Incoming>) -> Answer {
        let deadline = match timeout(request.headers()) {
            Ok(limit) => limit.and_then(|limit| Instant::now().checked_add(limit)),
            Err(refusal) => return Answer::refused(refusal),
        };
        request.extensions_mut().insert(CallContext { peer, deadline });
        match self.route(request) {
            Some(call) => Answer {
                call,
                deadline: deadline.map(|deadline| Box::pin(sleep_until(deadline))),
                message_limit: self.message_limit,
            },
            None => Answer::with(Status::unimplemented(
                "there is no such service; reflection lists those there are",
            )),
        }
    }
}

/// The answer to a request in the making.
pub(super) struct Answer {
    call: Call,
    deadline: Option<Pin<Box<Sleep>>>,
    message_limit: usize,
}

impl Answer {
    pub(super) fn refused(refusal: Refusal) -> Self {
        Self::with(status(refusal))
    }

    fn with(status: Status) -> Self {
        Self { call: Box::pin(std::future::ready(Ok(status.into_http()))), deadline: None, message_limit: 0 }
    }
}

impl Future for Answer {
    type Output = Result<Response<Body>, Infallible>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if let Poll::Ready(answer) = self.call.as_mut().poll(context) {
            return Poll::Ready(answer.map(|answer| typed(answer, self.message_limit)));
        }
        match &mut self.deadline {
            Some(deadline) => deadline.as_mut().poll(context).map(|()| Ok(status(too_late()).into_http())),
            None => Poll::Pending,
        }
    }
}

/// The library refuses messages by their length before our code sees them; its answer gets our code here.
fn typed(answer: Response<Body>, message_limit: usize) -> Response<Body> {
    match answer.headers().get(Status::GRPC_STATUS) {
        Some(code) if tonic::Code::from_bytes(code.as_bytes()) == tonic::Code::OutOfRange => {
            status(message_too_large(message_limit)).into_http()
        }
        _ => answer,
    }
}

/// As [`typed`], for a status met while reading a stream of the client's.
pub(super) fn typed_status(met: Status, message_limit: usize) -> Status {
    if met.code() == tonic::Code::OutOfRange { status(message_too_large(message_limit)) } else { met }
}

fn message_too_large(limit: usize) -> Refusal {
    Refusal::new(
        RefusalCode::MessageTooLarge,
        format!("a message has at most {limit} bytes; this one has more"),
    )
}

/// The time that `grpc-timeout` gives a call: at most 8 digits and a unit (gRPC over HTTP/2, "Timeout").
fn timeout(headers: &HeaderMap) -> Result<Option<Duration>, Refusal> {
    let Some(value) = headers.get("grpc-timeout") else {
        return Ok(None);
    };
    let parsed = value.to_str().ok().and_then(|text| {
        let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
        if digits.len() > 8 || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        let count: u64 = digits.parse().ok()?;
        Some(match unit {
            "H" => Duration::from_secs(count * 3600),
            "M" => Duration::from_secs(count * 60),
            "S" => Duration::from_secs(count),
            "m" => Duration::from_millis(count),
            "u" => Duration::from_micros(count),
            "n" => Duration::from_nanos(count),
            _ => return None,
        })
    });
    match parsed {
        Some(limit) => Ok(Some(limit)),
        None => Err(Refusal::new(
            RefusalCode::RequestInvalid,
            "`grpc-timeout` is not of the form that gRPC gives it",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timeout_is_digits_and_a_unit() {
        let read = |text: &str| {
            let mut headers = HeaderMap::new();
            headers.insert("grpc-timeout", http::HeaderValue::from_str(text).unwrap());
            timeout(&headers)
        };
        assert_eq!(read("250m"), Ok(Some(Duration::from_millis(250))));
        assert_eq!(read("99999999H"), Ok(Some(Duration::from_secs(99_999_999 * 3600))));
        assert_eq!(read("1n"), Ok(Some(Duration::from_nanos(1))));
        assert_eq!(timeout(&HeaderMap::new()), Ok(None));
        for wrong in ["", "m", "1", "1s", "-1m", "123456789m", "1.5S", "+1m"] {
            assert_eq!(
                read(wrong).map_err(|refusal| refusal.code),
                Err(RefusalCode::RequestInvalid),
                "{wrong}"
            );
        }
    }
}
