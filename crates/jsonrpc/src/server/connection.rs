//! Connections: accepting them, and what each knows.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use bytes::Bytes;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tally_slots::{Slot, Slots};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{oneshot, watch};

use super::access::{Hosts, Origins};
use super::answer::{Answering, Caller, Outcome, calls_in, write_error};
use super::authentication::{Authenticator, Permissions, Refused};
use super::configuration::{Endpoint, Limits, Namespaces, Options};
use super::listener::{Listener, Peer, Stream as Socket};
use super::meters::Meters;
use super::pool::Pool;
use super::rate::Bucket;
use super::reader::{Pace, Paced, was_too_slow};
use super::registry::{Lane, Place, Registry};
use super::share::{Counted, Gate, STEP, Share, Taken};
use super::stream::{Bounds, Outgoing, Reply, Stream};
use super::websocket::Session;
use crate::error::RpcError;

/// Bytes that a request's head may have.
const HEAD_BYTES: usize = 64 << 10;

/// Where costly calls run.
#[derive(Debug, Clone)]
pub(super) struct Pools {
    pub(super) work: Arc<Pool>,
    pub(super) wait: Arc<Pool>,
}

/// What all answers of a server share.
#[derive(Debug, Clone)]
pub(super) struct Shares {
    pub(super) answers: Arc<Share>,
    pub(super) traces: Arc<Gate>,
}

/// What all connections to one endpoint share.
pub(super) struct Service {
    pub(super) registry: Arc<Registry>,
    pools: Pools,
    answers: Arc<Share>,
    pub(super) gate: Arc<Gate>,
    pub(super) meters: Meters,
    pub(super) http: bool,
    pub(super) websocket: bool,
    pub(super) namespaces: Namespaces,
    pub(super) origins: Origins,
    pub(super) hosts: Hosts,
    pub(super) authentication: Option<Authenticator>,
    pub(super) free_methods: HashSet<String>,
    pub(super) limits: Limits,
    slots: Arc<Slots>,
    call: Duration,
    open: AtomicUsize,
}

impl std::fmt::Debug for Service {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Service").field("open", &self.open()).finish_non_exhaustive()
    }
}

impl Service {
    pub(super) fn new(
        endpoint: Endpoint,
        registry: Arc<Registry>,
        (pools, shares): (Pools, Shares),
        meters: Meters,
        options: &Options,
    ) -> Arc<Self> {
        Arc::new(Self {
            registry,
            pools,
            answers: shares.answers,
            gate: shares.traces,
            meters,
            http: endpoint.http,
            websocket: endpoint.websocket,
            namespaces: endpoint.namespaces,
            origins: endpoint.origins,
            hosts: endpoint.hosts,
            authentication: endpoint.authentication,
            free_methods: endpoint.free_methods,
            slots: Slots::new(endpoint.limits.connections),
            limits: endpoint.limits,
            call: options.call,
            open: AtomicUsize::new(0),
        })
    }

    /// Connections now.
    pub(super) fn open(&self) -> usize {
        self.open.load(Ordering::Relaxed)
    }
}

/// One connection.
pub(super) struct Connection {
    pub(super) service: Arc<Service>,
    pub(super) peer: Peer,
    pub(super) stopped: watch::Receiver<bool>,
    /// Its place among the connections; a newcomer's when its client has been waited for longest.
    pub(super) slot: Arc<Slot>,
    /// How long its reader may take.
    pub(super) pace: Arc<Pace>,
    bucket: Mutex<Bucket>,
    token: Mutex<Option<(Box<str>, Arc<Permissions>)>>,
}

impl Connection {
    fn new(service: Arc<Service>, peer: Peer, stopped: watch::Receiver<bool>, slot: Arc<Slot>) -> Self {
        let limits = &service.limits;
        let bucket = Bucket::new(limits.calls_per_second, limits.burst, Instant::now());
        service.open.fetch_add(1, Ordering::Relaxed);
        service.meters.connections.add(1);
        let pace = Pace::new(limits.stall);
        Self { bucket: Mutex::new(bucket), token: Mutex::new(None), service, peer, stopped, slot, pace }
    }

    /// Ends when the connection's slot is a newcomer's.
    pub(super) async fn given_up(&self) {
        self.slot.given_up().await;
        self.service.meters.refused_connections.increment();
        tracing::debug!(peer = %self.peer, "a connection gave its slot up to a newcomer");
    }

    /// Whether the request may be answered now, by the rate of this connection.
    pub(super) fn may_call(&self, body: &[u8]) -> bool {
        let mut bucket = self.bucket.lock().unwrap_or_else(PoisonError::into_inner);
        let may = !bucket.counts() || bucket.take(calls_in(body), Instant::now());
        if !may {
            self.service.meters.refused_calls.increment();
        }
        may
    }

    /// Who calls with this `Authorization` header; `is_page` when a browser says that a page of some origin does.
    pub(super) fn caller(&self, header: Option<&str>, is_page: bool) -> Result<Caller, Refused> {
        let Some(authenticator) = &self.service.authentication else {
            return Ok(if is_page { Caller::Page } else { Caller::Anyone });
        };
        let token = header.and_then(|header| header.strip_prefix("Bearer ")).map(str::trim);
        let Some(token) = token else {
            return if self.service.free_methods.is_empty() {
                Err(Refused::Missing)
            } else {
                Ok(Caller::Nobody)
            };
        };
        let now = SystemTime::now();
        let mut known = self.token.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((text, permissions)) = &*known
            && text.as_ref() == token
            && !permissions.expired(now)
        {
            self.slot.is_users();
            return Ok(Caller::Holder(permissions.clone()));
        }
        let permissions = Arc::new(authenticator.verify(token, now)?);
        self.slot.is_users();
        *known = Some((token.into(), permissions.clone()));
        Ok(Caller::Holder(permissions))
    }

    /// Answers a request: inline, or by the pool for what is costly. When the future is dropped, or the body that
    /// it gave, the pool is told that nobody waits.
    ///
    /// Only an answer that goes to no session may leave while it is made.
    pub(super) async fn answer(
        &self,
        body: Bytes,
        caller: Caller,
        session: Option<Arc<Session>>,
    ) -> Answered {
        static NEVER: AtomicBool = AtomicBool::new(false);
        let service = &self.service;
        let deadline = Instant::now() + service.call;
        let mut out = Vec::with_capacity(512);
        let taken = Arc::new(Taken::of(&service.answers));
        let outcome = Answering {
            service,
            caller: &caller,
            session: session.as_ref(),
            place: Place::Inline,
            deadline,
            stop: &NEVER,
            taken: &taken,
            outgoing: None,
        }
        .request(&body, 0, &mut out);
        let Outcome::Costly(from, lane) = outcome else { return Answered::whole(out, outcome, taken) };

        let stop = Arc::new(AtomicBool::new(false));
        let told = Told(stop.clone());
        let (sender, receiver) = oneshot::channel();
        let job = {
            let (service, stop, taken) = (service.clone(), stop.clone(), taken.clone());
            let limits = &service.limits;
            let bounds = Bounds { bytes: limits.stream_bytes, time: limits.stream, stall: limits.stall };
            let outgoing = Outgoing::new(sender, taken.clone(), bounds);
            move |place| {
                let answering = Answering {
                    service: &service,
                    caller: &caller,
                    session: session.as_ref(),
                    place,
                    deadline,
                    stop: &stop,
                    taken: &taken,
                    outgoing: session.is_none().then_some(&outgoing),
                };
                let outcome = answering.request(&body, from, &mut out);
                outgoing.finish(out, outcome);
            }
        };
        let pool = match lane {
            Lane::Work => &service.pools.work,
            Lane::Wait => &service.pools.wait,
        };
        if let Err(job) = pool.submit(job) {
            job(Place::Refused);
        }
        service.meters.waiting.set(i64::try_from(pool.waiting()).unwrap_or(i64::MAX));
        let mut receiver = receiver;
        let answered = match tokio::time::timeout_at(deadline.into(), &mut receiver).await {
            Ok(answered) => answered,
            Err(_) => {
                stop.store(true, Ordering::Relaxed);
                receiver.await
            }
        };
        match answered {
            Ok(Reply::Whole(out, outcome)) => Answered::whole(out, outcome, taken),
            Ok(Reply::Stream(stream)) => Answered::Leaving(stream.read_by(told, self.slot.clone())),
            Err(_) => {
                let mut out = Vec::new();
                write_error(&mut out, None, &RpcError::internal("Internal error"));
                Answered::whole(out, Outcome::Answered, taken)
            }
        }
    }
}

/// What became of a request, and its answer.
pub(super) enum Answered {
    /// The answer is there.
    Whole(Bytes, Outcome),
    /// The answer is being made.
    Leaving(Stream),
}

impl Answered {
    /// An answer that takes its part of what all share until its bytes are gone.
    fn whole(mut text: Vec<u8>, outcome: Outcome, taken: Arc<Taken>) -> Self {
        taken.lower_to(if text.len() > STEP { text.len() } else { 0 });
        let bytes = if text.len() > STEP {
            text.shrink_to_fit();
            Bytes::from_owner(Counted { text, _taken: taken })
        } else {
            Bytes::from(text)
        };
        Self::Whole(bytes, outcome)
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.service.open.fetch_sub(1, Ordering::Relaxed);
        self.service.meters.connections.add(-1);
    }
}

/// Tells a costly call, by being dropped, that nobody waits.
pub(super) struct Told(Arc<AtomicBool>);

impl Drop for Told {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Accepts connections until told to stop.
pub(super) async fn accept(listener: Listener, service: Arc<Service>, mut stopped: watch::Receiver<bool>) {
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = told(&mut stopped) => return,
        };
        match accepted {
            Ok((stream, peer)) => {
                let slot = tokio::select! {
                    slot = service.slots.enter() => slot,
                    () = told(&mut stopped) => return,
                };
                let connection = Arc::new(Connection::new(service.clone(), peer, stopped.clone(), slot));
                match stream {
                    Socket::Tcp(stream) => tokio::spawn(serve(stream, connection)),
                    Socket::Unix(stream) => tokio::spawn(serve(stream, connection)),
                };
            }
            Err(error) => {
                // Out of descriptors, mostly: what is open must get the time to close.
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }
}

/// Ends when the server stops.
pub(super) async fn told(stopped: &mut watch::Receiver<bool>) {
    // An error says that the server is gone already.
    let _ = stopped.wait_for(|stopped| *stopped).await;
}

async fn serve(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static, connection: Arc<Connection>) {
    let paced = Paced::new(stream, connection.pace.clone());
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(connection.service.limits.idle)
        // Also what is written and not yet read, beside one portion of a body. With `pipeline_flush` hyper reads
        // bodies to their end whatever the client takes: answers would be held without being counted.
        .max_buf_size(HEAD_BYTES);
    let mut stopped = connection.stopped.clone();
    let service = service_fn(|request| super::http::handle(connection.clone(), request));
    let served = builder.serve_connection(TokioIo::new(paced), service).with_upgrades();
    let mut served = std::pin::pin!(served);
    let ended = tokio::select! {
        ended = &mut served => ended,
        () = told(&mut stopped) => {
            served.as_mut().graceful_shutdown();
            served.await
        }
        () = connection.given_up() => return,
    };
    if let Err(error) = ended {
        if was_too_slow(&error) {
            connection.service.meters.slow_readers.increment();
        }
        tracing::debug!(peer = %connection.peer, %error, "a connection ended early");
    }
}
