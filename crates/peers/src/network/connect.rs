//! The tasks that listen and connect.

use super::core::{Core, Opened};
use super::opening::{Link, OpeningError, initiate, respond};
use crate::enode::{Enode, Host};
use crate::frame::Control;
use crate::handshake::Refusal;
use crate::session::part;
use bytes::BytesMut;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::net::{TcpListener, TcpStream, lookup_host};
use tokio::sync::oneshot;
use tokio::time::{sleep, sleep_until, timeout};
use tokio_rustls::TlsStream;
use tracing::{debug, warn};

/// How long to wait when the system has no more file descriptors.
const EXHAUSTED: Duration = Duration::from_millis(100);
/// Addresses of one name that are tried.
const MOST_ADDRESSES: usize = 8;
/// How long a node that this one does not permit is not tried.
const NOT_PERMITTED: Duration = Duration::from_secs(60);

/// Takes in connections until the node stops.
pub(super) async fn accept(core: Arc<Core>, listener: TcpListener) {
    loop {
        let accepted = tokio::select! {
            biased;
            () = core.until_stopped() => return,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, remote)) => take_in(&core, stream, remote),
            Err(error) => {
                // Of one connection, or of the whole process: both pass.
                warn!(%error, "cannot take in a connection");
                sleep(EXHAUSTED).await;
            }
        }
    }
}

fn take_in(core: &Arc<Core>, stream: TcpStream, remote: SocketAddr) {
    let ip = remote.ip().to_canonical();
    let number = core.number();
    {
        let mut state = core.state();
        if state.is_stopping() || !state.admission.enter(ip) {
            return;
        }
    }
    let entered = Entered { core: Arc::clone(core), ip, number };
    let (listed, until_listed) = oneshot::channel::<()>();
    // Not spawned under the lock, which the task takes when it ends, at once if the runtime does.
    let task = core.spawn(async move {
        let core = &entered.core;
        if until_listed.await.is_err() {
            return;
        }
        match timeout(core.timing.handshake, respond(core, stream, remote)).await {
            Ok(Ok((stream, opened))) => {
                core.state().handshakes.remove(&number);
                run(core, stream, opened).await;
            }
            Ok(Err(error)) => debug!(%remote, %error, "handshake of another failed"),
            Err(_) => debug!(%remote, "handshake of another took too long"),
        }
    });
    let mut state = core.state();
    if state.handshakes.len() >= core.most_handshakes
        && let Some((_, oldest)) = state.handshakes.pop_first()
    {
        oldest.abort();
    }
    state.handshakes.insert(number, task);
    drop(state);
    if listed.send(()).is_err() {
        core.state().handshakes.remove(&number);
    }
}

/// A connection that counts for its address.
struct Entered {
    core: Arc<Core>,
    ip: std::net::IpAddr,
    number: u64,
}

impl Drop for Entered {
    fn drop(&mut self) {
        let mut state = self.core.state();
        state.admission.leave(self.ip);
        state.handshakes.remove(&self.number);
    }
}

/// Carries on a session, if the connection may be one.
async fn run(core: &Core, mut stream: TlsStream<Link>, opened: Opened) {
    let id = opened.hello.id;
    match core.open(opened) {
        Ok(session) => {
            let reason = session.run(stream).await;
            core.close(&session, reason);
        }
        Err(reason) => {
            core.failed(&id, Duration::ZERO, reason.to_string());
            if let Some(goodbye) = reason.goodbye() {
                let mut farewell = BytesMut::new();
                Control::Goodbye(goodbye).encode(&mut farewell);
                part(&mut stream, farewell).await;
            }
        }
    }
}

/// Connects to known peers when they are due, until the node stops.
pub(super) async fn dial(core: Arc<Core>) {
    loop {
        let (due, next) = {
            let mut state = core.state();
            (state.roster.due(Instant::now()), state.roster.next_due())
        };
        for enode in due {
            let dialling = Arc::clone(&core);
            core.spawn(async move {
                let reached = tokio::select! {
                    biased;
                    () = dialling.until_stopped() => None,
                    reached = reach(&dialling, enode) => reached,
                };
                // Not broken off when the node stops: a session says goodbye.
                if let Some((stream, opened)) = reached {
                    run(&dialling, stream, opened).await;
                }
            });
        }
        let wait = async {
            match next {
                Some(at) => sleep_until(at.into()).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = core.until_stopped() => return,
            () = core.redial.notified() => {}
            () = wait => {}
        }
    }
}

/// One attempt to connect.
async fn reach(core: &Arc<Core>, enode: Enode) -> Option<(TlsStream<Link>, Opened)> {
    let id = enode.id;
    let (not_before, why) = match attempt(core, &enode).await {
        Ok(reached) => return Some(reached),
        Err(failure) => failure,
    };
    core.failed(&id, not_before, why);
    None
}

/// What one attempt leads to; when not, how long there is to be none, and why.
async fn attempt(core: &Arc<Core>, enode: &Enode) -> Result<(TlsStream<Link>, Opened), (Duration, String)> {
    let id = enode.id;
    if !core.permissions.permits_node(&id) {
        return Err((NOT_PERMITTED, "the node is not on the list of permitted nodes".to_owned()));
    }
    let exile = core.state().standing.exile(&id.address(), Instant::now());
    if let Some(left) = exile {
        return Err((left, format!("the node misbehaved, and is not tried for {} s", left.as_secs())));
    }
    let (stream, remote) = match timeout(core.timing.connect, connect(enode)).await {
        Ok(Ok(connected)) => connected,
        Ok(Err(error)) => return Err((Duration::ZERO, error.to_string())),
        Err(_) => return Err((Duration::ZERO, "no connection was made in time".to_owned())),
    };
    match timeout(core.timing.handshake, initiate(core, stream, remote, id)).await {
        Ok(Ok(reached)) => Ok(reached),
        Ok(Err(error)) => {
            let not_before = match error {
                // What a peer says does not keep this node away for longer than a minute.
                OpeningError::RefusedByPeer(Refusal::Misbehaved { seconds }) => {
                    Duration::from_secs(u64::from(seconds.min(60)))
                }
                _ => Duration::ZERO,
            };
            Err((not_before, error.to_string()))
        }
        Err(_) => Err((Duration::ZERO, "the handshake took too long".to_owned())),
    }
}

async fn connect(enode: &Enode) -> io::Result<(TcpStream, SocketAddr)> {
    let addresses: Vec<SocketAddr> = match &enode.host {
        Host::Ip(ip) => vec![SocketAddr::new(*ip, enode.port)],
        Host::Name(name) => lookup_host((name.as_str(), enode.port)).await?.take(MOST_ADDRESSES).collect(),
    };
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for address in addresses {
        match TcpStream::connect(address).await {
            Ok(stream) => return Ok((stream, address)),
            Err(error) => last = error,
        }
    }
    Err(last)
}
