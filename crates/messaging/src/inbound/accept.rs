//! From the listener to a peer that is who it says it is.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::time::Duration;

use tally_contracts::Name;
use tokio::io::{AsyncWriteExt, BufReader, ReadHalf, WriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ProtocolVersion;
use tokio_rustls::server::TlsStream;

use super::slot::Slot;
use crate::error::{ConnectionError, ProtocolError};
use crate::frame::{self, CONTROL_LIMIT, Frame, Hello};
use crate::life::FAREWELL;
use crate::reader::FrameReader;
use crate::shared::Shared;
use crate::tls;

/// rustls asks the socket for 4 KiB at a time; this saves seven of eight system calls under load.
const SOCKET_BUFFER: usize = 32 << 10;
/// When the system has no more file handles, others need a moment to give some back.
const ACCEPT_RETRY: Duration = Duration::from_millis(50);

pub(super) type Stream = TlsStream<BufReader<TcpStream>>;

/// The two halves of a connection.
pub(super) struct Halves {
    pub(super) frames: FrameReader<ReadHalf<Stream>>,
    pub(super) write: WriteHalf<Stream>,
}

/// Accepts connections until the node stops.
pub(crate) async fn listen(listener: TcpListener, shared: Arc<Shared>) {
    loop {
        let accepted = tokio::select! {
            () = shared.stopped() => return,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, address)) => {
                let connection = connection(Arc::clone(&shared), stream, address);
                shared.spawn(connection);
            }
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(ACCEPT_RETRY).await;
            }
        }
    }
}

async fn connection(shared: Arc<Shared>, stream: TcpStream, address: SocketAddr) {
    let wanted = Arc::new(Notify::new());
    let close = Arc::clone(&wanted);
    // Those that have not shown who they are never keep a newcomer out.
    let Some(entered) = shared.pending.enter(address.ip(), move || close.notify_one()) else { return };
    let place = entered.place;
    if entered.evicted {
        shared.counters.handshakes_evicted.fetch_add(1, Relaxed);
    }
    let after = shared.settings.handshake_timeout;
    let epoch = shared.epoch.load(SeqCst);
    let deadline = tokio::time::Instant::now() + after;
    let late = |during| ConnectionError::Silent { after, during };
    let secured = tokio::select! {
        () = shared.stopped() => return,
        () = wanted.notified() => Err(late("making room for newer handshakes")),
        secured = tokio::time::timeout_at(deadline, secure(&shared, stream)) => {
            secured.unwrap_or_else(|_| Err(late("in the TLS handshake")))
        }
    };
    let (mut halves, peer) = match secured {
        Ok(secured) => secured,
        Err(error) => return shared.refused(address, None, error),
    };
    let greeted = tokio::select! {
        () = shared.stopped() => Err(ConnectionError::Stopping),
        () = wanted.notified() => Err(late("making room for newer handshakes")),
        greeted = tokio::time::timeout_at(deadline, greet(&shared, &peer, &mut halves)) => {
            greeted.unwrap_or_else(|_| Err(late("waiting for a hello")))
        }
    };
    let end = match greeted {
        Ok((hello, slot)) => {
            let claimed = tokio::select! {
                () = shared.stopped() => Err(ConnectionError::Stopping),
                claimed = slot.claim(&shared, epoch) => claimed,
            };
            // From here on the connection is counted, and bounded, as that of a peer.
            drop(place);
            match claimed {
                Ok((claim, turn)) => {
                    super::conversation::converse(&shared, &peer, address, hello, claim, turn, &mut halves)
                        .await
                }
                Err(error) => Err(error),
            }
        }
        Err(error) => Err(error),
    };
    // `Ok`: the conversation has said its last words itself.
    let mut words = Vec::new();
    let error = match end {
        Ok(error) => error,
        Err(error) => {
            frame::put_last_words(&mut words, &error);
            error
        }
    };
    let farewell = async {
        halves.write.write_all(&words).await?;
        halves.write.shutdown().await?;
        halves.frames.drain().await;
        std::io::Result::Ok(())
    };
    // The refusal is on record before the peer can learn of it.
    let gone = matches!(error, ConnectionError::Closed | ConnectionError::Broken(_));
    shared.refused(address, Some(peer), error);
    if !gone {
        let _ = tokio::time::timeout(FAREWELL, farewell).await;
    }
}

/// TLS, and whose certificate it is.
async fn secure(shared: &Shared, stream: TcpStream) -> Result<(Halves, Name), ConnectionError> {
    stream.set_nodelay(true).map_err(ConnectionError::Broken)?;
    let buffered = BufReader::with_capacity(SOCKET_BUFFER, stream);
    let stream =
        TlsAcceptor::from(tls::server(&*shared.tls)).accept(buffered).await.map_err(ConnectionError::Tls)?;
    let session = stream.get_ref().1;
    if session.protocol_version() != Some(ProtocolVersion::TLSv1_3) {
        return Err(ConnectionError::TlsVersion);
    }
    let chain = session.peer_certificates().unwrap_or_default();
    let peer = shared.tls.peer_name(chain).map_err(ConnectionError::Certificate)?;
    let (read, write) = tokio::io::split(stream);
    Ok((Halves { frames: FrameReader::new(read, CONTROL_LIMIT), write }, peer))
}

/// Membership, version, and the peer's slot.
async fn greet(
    shared: &Shared,
    peer: &Name,
    halves: &mut Halves,
) -> Result<(Hello, Arc<Slot>), ConnectionError> {
    if shared.directory.addresses(peer).is_none() {
        return Err(ConnectionError::UnknownPeer(peer.clone()));
    }
    let hello = match halves.frames.frame().await? {
        Frame::Hello(hello) => hello,
        other => return Err(ProtocolError::OutOfTurn(other.kind()).into()),
    };
    halves.frames.set_limit(shared.settings.message_limit);
    Ok((hello, shared.slot(peer)))
}
