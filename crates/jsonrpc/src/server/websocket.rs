//! WebSocket connections (RFC 6455): calls, answers in the order in which they are ready, notifications.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures_util::{SinkExt, StreamExt};
use hyper::body::Incoming;
use hyper::header::{self, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::sync::Semaphore;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::frame::Utf8Bytes;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Error as SocketError, Message};

use super::answer::{Caller, Outcome, write_error};
use super::connection::{Answered, Connection, Service, told};
use super::http::{Answer, plain, text};
use super::share::STEP;
use super::subscription::{Outbox, Sink};
use crate::error::{METHOD_NOT_FOUND, RpcError, SERVER_ERROR, UNAUTHORIZED};
use crate::params::Params;

/// How often a silent client is asked whether it is there; it is dropped when it has not answered by the next.
const PING: Duration = Duration::from_secs(30);

/// What a WebSocket has beyond a connection.
#[derive(Debug)]
pub(super) struct Session {
    outbox: Arc<Outbox>,
    sinks: Mutex<HashMap<u64, Sink>>,
    held: Mutex<Vec<Sink>>,
}

impl Session {
    fn new(backlog_bytes: usize) -> Self {
        Self { outbox: Arc::new(Outbox::new(backlog_bytes)), sinks: Mutex::default(), held: Mutex::default() }
    }

    /// Answers `eth_subscribe` and `eth_unsubscribe`.
    pub(super) fn subscribe_or_not(
        &self,
        service: &Service,
        name: &str,
        params: Params<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), RpcError> {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let Some(subscriptions) = service.registry.subscriptions() else {
            return Err(RpcError::new(METHOD_NOT_FOUND, "notifications not supported"));
        };
        let mut sinks = self.sinks.lock().unwrap_or_else(PoisonError::into_inner);
        if name == "eth_subscribe" {
            if sinks.len() >= service.limits.subscriptions {
                let most = service.limits.subscriptions;
                return Err(RpcError::limit(format!(
                    "limit exceeded: a connection has at most {most} subscriptions"
                )));
            }
            let sink = Sink::new(NEXT.fetch_add(1, Ordering::Relaxed), self.outbox.clone());
            subscriptions.subscribe(params, sink.clone())?;
            crate::write::quantity(out, sink.id());
            self.held.lock().unwrap_or_else(PoisonError::into_inner).push(sink.clone());
            sinks.insert(sink.id(), sink);
            service.meters.subscriptions.add(1);
            return Ok(());
        }
        let [id] = params.take::<1>()?;
        let Some(sink) = sinks.remove(&id.required::<u64>()?) else {
            return Err(RpcError::new(SERVER_ERROR, "subscription not found"));
        };
        sink.close();
        service.meters.subscriptions.add(-1);
        out.extend_from_slice(b"true");
        Ok(())
    }

    /// Queues an answer, and lets the subscriptions that it names begin.
    fn answered(&self, out: impl Into<Bytes>) {
        self.outbox.push(out.into());
        let held = std::mem::take(&mut *self.held.lock().unwrap_or_else(PoisonError::into_inner));
        for sink in held {
            sink.open();
        }
    }

    fn end(&self, service: &Service) {
        self.outbox.close();
        let sinks = std::mem::take(&mut *self.sinks.lock().unwrap_or_else(PoisonError::into_inner));
        for sink in sinks.values() {
            sink.close();
        }
        service.meters.subscriptions.add(-i64::try_from(sinks.len()).unwrap_or(0));
    }
}

/// Whether the request asks for a WebSocket.
pub(super) fn wants(request: &Request<Incoming>) -> bool {
    request.method() == Method::GET
        && text(request.headers(), header::UPGRADE)
            .is_some_and(|value| value.eq_ignore_ascii_case("websocket"))
}

/// Answers the handshake, and serves the socket that comes of it.
pub(super) fn accept(connection: &Arc<Connection>, mut request: Request<Incoming>, is_page: bool) -> Answer {
    let headers = request.headers();
    let caller = match connection.caller(text(headers, header::AUTHORIZATION), is_page) {
        Ok(caller) => caller,
        Err(_) => {
            connection.service.meters.unauthorized.increment();
            let mut out = Vec::new();
            write_error(&mut out, None, &RpcError::new(UNAUTHORIZED, "Unauthorized"));
            let mut answer = Response::new(out.into());
            *answer.status_mut() = StatusCode::UNAUTHORIZED;
            return answer;
        }
    };
    if text(headers, header::SEC_WEBSOCKET_VERSION) != Some("13") {
        let mut answer = plain(StatusCode::UPGRADE_REQUIRED, br#"{"message":"Use version 13."}"#);
        answer.headers_mut().insert(header::SEC_WEBSOCKET_VERSION, HeaderValue::from_static("13"));
        return answer;
    }
    let key = headers.get(header::SEC_WEBSOCKET_KEY).map(|key| derive_accept_key(key.as_bytes()));
    let Some(Ok(key)) = key.map(HeaderValue::try_from) else {
        return plain(StatusCode::BAD_REQUEST, br#"{"message":"The key is missing."}"#);
    };
    let upgrade = hyper::upgrade::on(&mut request);
    let connection = connection.clone();
    tokio::spawn(async move {
        if let Ok(stream) = upgrade.await {
            serve(stream, connection, caller).await;
        }
    });
    let mut answer = Response::new(Bytes::new().into());
    *answer.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let headers = answer.headers_mut();
    headers.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
    headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
    headers.insert(header::SEC_WEBSOCKET_ACCEPT, key);
    answer
}

async fn serve(stream: hyper::upgrade::Upgraded, connection: Arc<Connection>, caller: Caller) {
    let service = connection.service.clone();
    let limits = &service.limits;
    let config = WebSocketConfig::default()
        .read_buffer_size(16 << 10)
        .write_buffer_size(16 << 10)
        .max_message_size(Some(limits.request_bytes))
        .max_frame_size(Some(limits.request_bytes));
    let socket = WebSocketStream::from_raw_socket(TokioIo::new(stream), Role::Server, Some(config)).await;
    let session = Arc::new(Session::new(limits.backlog_bytes));
    let (mut writer, mut reader) = socket.split();
    let reading = {
        let (connection, session) = (connection.clone(), session.clone());
        async move {
            let free = Arc::new(Semaphore::new(connection.service.limits.concurrent_calls.max(1)));
            let mut silent = false;
            loop {
                let message = match tokio::time::timeout(PING, reader.next()).await {
                    Ok(Some(Ok(message))) => message,
                    Ok(Some(Err(SocketError::Capacity(_)))) => {
                        let mut out = Vec::new();
                        write_error(
                            &mut out,
                            None,
                            &RpcError::limit("limit exceeded: the message is too long"),
                        );
                        session.answered(out);
                        return;
                    }
                    Ok(Some(Err(_)) | None) => return,
                    Err(_) if silent => return,
                    Err(_) => {
                        silent = true;
                        // An empty message stands for a ping.
                        session.outbox.push(Bytes::new());
                        continue;
                    }
                };
                silent = false;
                let body: Bytes = match message {
                    Message::Text(text) => text.into(),
                    Message::Binary(bytes) => bytes,
                    Message::Close(_) => return,
                    Message::Ping(_) | Message::Pong(_) | Message::Frame(_) => continue,
                };
                take(&connection, &caller, &session, &free, body).await;
            }
        }
    };
    let writing = write(&connection, &session.outbox, &mut writer, limits.stall);
    let mut stopped = connection.stopped.clone();
    tokio::select! {
        () = reading => {}
        () = writing => {}
        // More waits than may.
        () = session.outbox.gone() => {}
        () = told(&mut stopped) => {}
        () = connection.given_up() => {}
    }
    if session.outbox.overflown() {
        service.meters.slow_readers.increment();
        tracing::info!(peer = %connection.peer, "a WebSocket was dropped: it does not read what waits for it");
    } else {
        // What was answered before the end is still sent, and the close with it.
        session.outbox.close();
        let rest = async {
            for message in session.outbox.take() {
                writer.feed(encode(message)).await?;
            }
            writer.close().await
        };
        let _ = tokio::time::timeout(Duration::from_secs(1), rest).await;
    }
    session.end(&service);
}

/// Takes one message in: answers what is cheap at once, and lets costly calls overtake each other.
async fn take(
    connection: &Arc<Connection>,
    caller: &Caller,
    session: &Arc<Session>,
    free: &Arc<Semaphore>,
    body: Bytes,
) {
    if !connection.may_call(&body) {
        let mut out = Vec::new();
        let error = RpcError::limit("limit exceeded: too many calls a second on this connection");
        write_error(&mut out, None, &error);
        return session.answered(out);
    }
    // A place among the concurrent calls is taken before the next message is read: who sends without an end
    // waits, and holds nothing.
    let Ok(place) = free.clone().acquire_owned().await else { return };
    let working = connection.slot.working().await;
    let answering = {
        let (connection, session, caller) = (connection.clone(), session.clone(), caller.clone());
        async move {
            let answered = connection.answer(body, caller, Some(session.clone())).await;
            if let Answered::Whole(bytes, outcome) = answered
                && outcome != Outcome::Nothing
            {
                session.answered(bytes);
            }
            drop((place, working));
        }
    };
    let mut answering = Box::pin(answering);
    // Cheap calls are done after the first poll.
    let done =
        std::future::poll_fn(|context| std::task::Poll::Ready(answering.as_mut().poll(context).is_ready()));
    if !done.await {
        let outbox = session.outbox.clone();
        tokio::spawn(async move {
            tokio::select! {
                () = answering => {}
                () = outbox.gone() => {}
            }
        });
    }
}

async fn write(
    connection: &Connection,
    outbox: &Outbox,
    writer: &mut futures_util::stream::SplitSink<WebSocketStream<TokioIo<hyper::upgrade::Upgraded>>, Message>,
    stall: Duration,
) {
    loop {
        outbox.ready.notified().await;
        loop {
            let messages = outbox.take();
            if messages.is_empty() {
                break;
            }
            for message in messages {
                // The writer copies: what is long counts until it is written.
                let counted = message.clone();
                let feeding = async {
                    writer.feed(encode(message)).await?;
                    if counted.len() > STEP { writer.flush().await } else { Ok(()) }
                };
                match tokio::time::timeout(stall, feeding).await {
                    Ok(Ok(())) => outbox.written(counted.len()),
                    _ => return,
                }
            }
            if !matches!(tokio::time::timeout(stall, writer.flush()).await, Ok(Ok(()))) {
                return;
            }
            // Who takes what it subscribed to is not who has been waited for longest.
            drop(connection.slot.try_working());
        }
        if outbox.closed() {
            return;
        }
    }
}

fn encode(message: Bytes) -> Message {
    if message.is_empty() {
        return Message::Ping(Bytes::new());
    }
    match Utf8Bytes::try_from(message) {
        Ok(text) => Message::Text(text),
        // Answers repeat bytes of the request only inside of JSON that was read as UTF-8.
        Err(_) => Message::Close(None),
    }
}
