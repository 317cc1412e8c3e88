//! The handshake over a connection: reading and writing its messages, and asking whether it may be.

use super::core::{Core, Opened};
use crate::handshake::{LONGEST_BODY, Opening, OpeningFault, PREFIX, Proof, Refusal, Role};
use crate::key::NodeId;
use crate::tls;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;
use tokio::io::{AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio_rustls::TlsStream;

/// The connection under TLS. The library reads 4 KiB at a time; the buffer makes that one call of the
/// system for many.
pub(super) type Link = BufReader<TcpStream>;

/// What is read from the system at a time.
const READ: usize = 32 << 10;
/// What may wait in the system, unsent, before a session is no longer told that there is room: what
/// waits there cannot be overtaken by anything urgent.
const UNSENT: u32 = 128 << 10;

/// Why there is no session.
#[derive(Debug, thiserror::Error)]
pub(super) enum OpeningError {
    #[error("the connection broke: {0}")]
    Io(#[from] io::Error),
    #[error("TLS: {0}")]
    Tls(#[from] tokio_rustls::rustls::Error),
    #[error(transparent)]
    Fault(#[from] OpeningFault),
    #[error("a message came that does not belong here")]
    Order,
    #[error("the peer refused: {0}")]
    RefusedByPeer(Refusal),
    #[error("refused the peer: {0}")]
    Refused(Refusal),
    #[error("the address belongs to another node, {found}")]
    OtherNode { found: NodeId },
    #[error("another connection to the peer came first")]
    Overtaken,
}

/// Prepares a connection of either direction.
pub(super) fn prepare(stream: TcpStream) -> io::Result<Link> {
    stream.set_nodelay(true)?;
    #[cfg(any(target_os = "linux", target_os = "android"))]
    socket2::SockRef::from(&stream).set_tcp_notsent_lowat(UNSENT)?;
    Ok(BufReader::with_capacity(READ, stream))
}

/// The responder's side.
pub(super) async fn respond(
    core: &Arc<Core>,
    stream: TcpStream,
    remote: SocketAddr,
) -> Result<(TlsStream<Link>, Opened), OpeningError> {
    let mut stream = core.tls.acceptor.accept(prepare(stream)?).await?;
    let exporter = tls::exporter(stream.get_ref().1)?;
    let Opening::Hello(proof) = read(&mut stream).await? else { return Err(OpeningError::Order) };
    let judged = judge(core, *proof, &exporter);
    let (hello, meeting) = match judged {
        Ok(judged) => judged,
        Err(refusal) => return refuse(&mut stream, refusal).await,
    };
    let answer = core.hello.sign(&core.key, Role::Responder, &exporter, &hello.id);
    send(&mut stream, &answer).await?;
    match read(&mut stream).await? {
        Opening::Accepted => {}
        Opening::Refused(why) => return Err(OpeningError::RefusedByPeer(why)),
        Opening::Hello(_) => return Err(OpeningError::Order),
    }
    Ok((stream.into(), Opened { hello, remote, meeting }))
}

/// Whether to answer a hello.
fn judge(
    core: &Arc<Core>,
    proof: Proof,
    exporter: &[u8; 32],
) -> Result<(crate::handshake::Hello, Meeting), Refusal> {
    let hello = proof.check(Role::Initiator, exporter, &core.key.id())?;
    core.hello.agrees_with(&hello)?;
    may_be_peer(core, &hello.id)?;
    if core.is_crowded() {
        return Err(Refusal::TooManyPeers);
    }
    let mut state = core.state();
    if state.is_stopping() {
        return Err(Refusal::Stopping);
    }
    let known = state.roster.contains(&hello.id);
    let answered = state.admission.answer(&hello, known);
    drop(state);
    match answered {
        Ok(()) => {
            let meeting = Meeting { core: Arc::clone(core), id: hello.id, role: Role::Responder };
            Ok((hello, meeting))
        }
        Err(refused) => {
            if refused.probe
                && let Ok(session) = core.session(&hello.id.address())
            {
                session.probe();
            }
            Err(refused.why)
        }
    }
}

/// Whether a node that has proved its key may be a peer.
fn may_be_peer(core: &Core, id: &NodeId) -> Result<(), Refusal> {
    if !core.permissions.permits_node(id) {
        return Err(Refusal::NotPermitted);
    }
    if let Some(left) = core.state().standing.exile(&id.address(), Instant::now()) {
        // Rounded up: who comes back at the second that it was told finds the door open.
        let seconds = u32::try_from(left.as_secs()).unwrap_or(u32::MAX).saturating_add(1);
        return Err(Refusal::Misbehaved { seconds });
    }
    Ok(())
}

/// The initiator's side: to the node `to` and no other.
pub(super) async fn initiate(
    core: &Arc<Core>,
    stream: TcpStream,
    remote: SocketAddr,
    to: NodeId,
) -> Result<(TlsStream<Link>, Opened), OpeningError> {
    let mut stream = core.tls.connector.connect(tls::Tls::server_name(), prepare(stream)?).await?;
    let exporter = tls::exporter(stream.get_ref().1)?;
    if !core.state().admission.propose(to) {
        return Err(OpeningError::Overtaken);
    }
    let meeting = Meeting { core: Arc::clone(core), id: to, role: Role::Initiator };
    send(&mut stream, &core.hello.sign(&core.key, Role::Initiator, &exporter, &to)).await?;
    let proof = match read(&mut stream).await? {
        Opening::Hello(proof) => proof,
        Opening::Refused(why) => return Err(OpeningError::RefusedByPeer(why)),
        Opening::Accepted => return Err(OpeningError::Order),
    };
    let hello = match proof.check(Role::Responder, &exporter, &core.key.id()) {
        Ok(hello) => hello,
        Err(refusal) => return refuse(&mut stream, refusal).await,
    };
    if hello.id != to {
        let found = hello.id;
        send(&mut stream, &Opening::refused(&Refusal::Proof)).await?;
        return Err(OpeningError::OtherNode { found });
    }
    if let Err(refusal) = core.hello.agrees_with(&hello).and_then(|()| may_be_peer(core, &to)) {
        return refuse(&mut stream, refusal).await;
    }
    send(&mut stream, &Opening::accepted()).await?;
    Ok((stream.into(), Opened { hello, remote, meeting }))
}

async fn refuse<S, T>(stream: &mut S, refusal: Refusal) -> Result<T, OpeningError>
where
    S: AsyncWrite + Unpin,
{
    send(stream, &Opening::refused(&refusal)).await?;
    stream.shutdown().await?;
    Err(OpeningError::Refused(refusal))
}

async fn send<S: AsyncWrite + Unpin>(stream: &mut S, message: &[u8]) -> io::Result<()> {
    stream.write_all(message).await?;
    stream.flush().await
}

async fn read<S: tokio::io::AsyncRead + Unpin>(stream: &mut S) -> Result<Opening, OpeningError> {
    let mut message = [0; PREFIX + LONGEST_BODY];
    let (prefix, rest) = message.split_at_mut(PREFIX);
    stream.read_exact(prefix).await?;
    let mut announced = [0; PREFIX];
    announced.copy_from_slice(prefix);
    let length = Opening::body_length(announced)?;
    stream.read_exact(&mut rest[..length]).await?;
    Ok(Opening::decode(&message[..PREFIX + length])?)
}

/// Our hello is on its way, or we have answered theirs. It lasts until the session is in the table: what
/// another connection of the two nodes asks between the last word and that must find the one or the other.
pub(super) struct Meeting {
    core: Arc<Core>,
    id: NodeId,
    /// This node's role in it.
    pub(super) role: Role,
}

impl Drop for Meeting {
    fn drop(&mut self) {
        let admission = &mut self.core.state().admission;
        match self.role {
            Role::Initiator => admission.proposed(&self.id),
            Role::Responder => admission.answered(&self.id),
        }
    }
}
