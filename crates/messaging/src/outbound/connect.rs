//! From an address to an agreed place in the queue.

use tally_contracts::Name;
use tokio::io::{AsyncWriteExt, BufReader, ReadHalf, WriteHalf};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::ProtocolVersion;

use crate::error::{ConnectionError, ProtocolError};
use crate::frame::{self, CONTROL_LIMIT, Frame, Hello, PROTOCOL_VERSION, Welcome};
use crate::life::FAREWELL;
use crate::queues::QueueId;
use crate::reader::FrameReader;
use crate::shared::Shared;
use crate::tls;

/// Acknowledgements are small; the larger buffer is the receiver's.
const SOCKET_BUFFER: usize = 4 << 10;

type Stream = TlsStream<BufReader<TcpStream>>;

/// The peer is the right one and has said how far it is.
pub(super) struct Welcomed {
    frames: FrameReader<ReadHalf<Stream>>,
    write: WriteHalf<Stream>,
    welcome: Welcome,
    queue: QueueId,
}

/// Both sides agree on where the queue goes on.
pub(super) struct Agreed {
    pub(super) frames: FrameReader<ReadHalf<Stream>>,
    pub(super) write: WriteHalf<Stream>,
    pub(super) welcome: Welcome,
    /// The queue that was agreed on.
    pub(super) queue: QueueId,
    /// The last number in the outbox, asked after the peer spoke.
    pub(super) last: u64,
}

/// Connects to the first address that answers, and greets.
pub(super) async fn establish(peer: &Name, shared: &Shared) -> Result<Welcomed, ConnectionError> {
    let addresses =
        shared.directory.addresses(peer).ok_or_else(|| ConnectionError::UnknownPeer(peer.clone()))?;
    let mut error = ConnectionError::NoAddress(peer.clone());
    for address in addresses {
        match dial(&address, shared).await {
            Ok(stream) => {
                let after = shared.settings.handshake_timeout;
                return match tokio::time::timeout(after, greet(peer, shared, stream)).await {
                    Ok(result) => result,
                    Err(_) => Err(ConnectionError::Silent { after, during: "greeting" }),
                };
            }
            Err(source) => error = ConnectionError::Unreachable { address, source },
        }
    }
    Err(error)
}

async fn dial(address: &str, shared: &Shared) -> std::io::Result<TcpStream> {
    let dialed = tokio::time::timeout(shared.settings.connect_timeout, TcpStream::connect(address)).await;
    let stream = dialed.map_err(|_| std::io::Error::from(std::io::ErrorKind::TimedOut))??;
    stream.set_nodelay(true)?;
    Ok(stream)
}

async fn greet(peer: &Name, shared: &Shared, stream: TcpStream) -> Result<Welcomed, ConnectionError> {
    let connector = TlsConnector::from(tls::client(&*shared.tls));
    let buffered = BufReader::with_capacity(SOCKET_BUFFER, stream);
    let stream =
        connector.connect(shared.tls.server_name(peer), buffered).await.map_err(ConnectionError::Tls)?;
    let session = stream.get_ref().1;
    if session.protocol_version() != Some(ProtocolVersion::TLSv1_3) {
        return Err(ConnectionError::TlsVersion);
    }
    let chain = session.peer_certificates().unwrap_or_default();
    let found = shared.tls.peer_name(chain).map_err(ConnectionError::Certificate)?;
    if found != *peer {
        return Err(ConnectionError::WrongName { expected: peer.clone(), found });
    }
    let (read, mut write) = tokio::io::split(stream);
    let mut frames = FrameReader::new(read, CONTROL_LIMIT);
    let mut hello = Vec::new();
    let queue = shared.acquaintance.queue(peer);
    let standing = shared.acquaintance.standing().into();
    frame::put_hello(
        &mut hello,
        &Hello { lowest: PROTOCOL_VERSION, highest: PROTOCOL_VERSION, queue, standing },
    );
    let told = async {
        write.write_all(&hello).await?;
        write.flush().await
    };
    // A receiver that refuses closes while we write; what it said matters more than that writing failed.
    let told = told.await;
    let first = match frames.frame().await {
        Ok(Frame::Superseded(evidence)) => {
            shared.acquaintance.superseded(peer, &evidence);
            frames.frame().await
        }
        first => first,
    };
    let welcome = match first {
        Ok(Frame::Welcome(welcome)) => welcome,
        Ok(Frame::Closing { reason, text }) => {
            return Err(ConnectionError::Refused { reason, detail: text });
        }
        Ok(other) => return Err(ProtocolError::OutOfTurn(other.kind()).into()),
        Err(ConnectionError::Broken(error)) => return Err(broken(error)),
        Err(ConnectionError::Closed) => {
            return Err(told.err().map_or(ConnectionError::Closed, broken));
        }
        Err(error) => return Err(error),
    };
    if welcome.version != PROTOCOL_VERSION {
        let (lowest, highest) = (welcome.version, welcome.version);
        return Err(ProtocolError::Version { lowest, highest, ours: PROTOCOL_VERSION }.into());
    }
    Ok(Welcomed { frames, write, welcome, queue })
}

/// In TLS 1.3 the client learns only after its own handshake that the server refused its certificate: the
/// alert is then the first thing it reads.
pub(super) fn broken(error: std::io::Error) -> ConnectionError {
    let tls = error.get_ref().is_some_and(|inner| inner.is::<tokio_rustls::rustls::Error>());
    if tls { ConnectionError::Tls(error) } else { ConnectionError::Broken(error) }
}

/// Compares what the peer says it has with what the outbox says was sent.
pub(super) async fn agree(
    peer: &Name,
    shared: &Shared,
    welcomed: Welcomed,
) -> Result<Agreed, ConnectionError> {
    let Welcomed { frames, mut write, welcome, queue } = welcomed;
    let name = peer.clone();
    let agreed = match shared.meet(peer, welcome.standing.clone(), None).await {
        Ok(()) => shared.read_outbox(move |outbox| outbox.last(&name)).await,
        Err(error) => Err(error),
    };
    let agreed = match agreed {
        // What follows from the peer's standing may have set the queue anew.
        _ if shared.acquaintance.queue(peer) != queue => ConnectionError::Renewed,
        Ok(last) if welcome.accepted <= last && welcome.durable <= welcome.accepted => {
            return Ok(Agreed { frames, write, welcome, queue, last });
        }
        Ok(last) => {
            shared.acquaintance.astray(peer, queue);
            let claimed = welcome.accepted.max(welcome.durable);
            ConnectionError::from(ProtocolError::Ahead { claimed, last })
        }
        Err(error) => error,
    };
    let mut words = Vec::new();
    frame::put_last_words(&mut words, &agreed);
    tell(&mut write, words).await;
    Err(agreed)
}

/// Last words; no one minds if they are lost.
async fn tell(write: &mut WriteHalf<Stream>, out: Vec<u8>) {
    if out.is_empty() {
        return;
    }
    let words = async {
        write.write_all(&out).await?;
        write.shutdown().await
    };
    let _ = tokio::time::timeout(FAREWELL, words).await;
}
