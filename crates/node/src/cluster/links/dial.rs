//! The connection to another member: made, used, made again.

use std::sync::Arc;
use std::time::Duration;

use tally_identity::{server_name, tls};
use tokio::io::{BufReader, ReadHalf, WriteHalf};
use tokio::net::TcpStream;
use tokio::time::Instant;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::pki_types::CertificateDer;

use super::{Links, Peer};
use crate::cluster::error::LinkError;
use crate::cluster::frame::{self, Frame, Limits, Reader};

/// The longest wait is so many of the shortest.
const WAITS: u32 = 50;
/// rustls asks the socket for 4 KiB at a time otherwise.
const SOCKET_BUFFER: usize = 32 << 10;

type Stream = TlsStream<BufReader<TcpStream>>;

struct Link {
    frames: Reader<ReadHalf<Stream>>,
    write: WriteHalf<Stream>,
    chain: Vec<CertificateDer<'static>>,
}

/// Keeps a link to a member until this node stops.
pub(super) async fn keep(links: Arc<Links>, peer: Arc<Peer>) {
    let mut wait = links.times.reconnect;
    loop {
        let began = Instant::now();
        let error = tokio::select! {
            () = links.stopped() => LinkError::Stopping,
            end = link(&links, &peer) => end,
        };
        if peer.line.is_connected() {
            peer.line.connect(false);
            links.intake.link(peer.voter, false);
        }
        if matches!(error, LinkError::Stopping) {
            return;
        }
        links.ended(&peer, "to", &error);
        // A link that stood for long was no failed attempt.
        if began.elapsed() >= links.times.reconnect * WAITS {
            wait = links.times.reconnect;
        }
        tokio::select! {
            () = links.stopped() => return,
            () = tokio::time::sleep(in_upper_half(wait)) => {}
        }
        wait = (wait * 2).min(links.times.reconnect * WAITS);
    }
}

/// Half of a wait and a random part of the other half, so that members do not come back all at once.
fn in_upper_half(wait: Duration) -> Duration {
    let random = getrandom::u32().unwrap_or(u32::MAX);
    wait / 2 + (wait / 2).mul_f64(f64::from(random) / f64::from(u32::MAX))
}

/// One connection from the first packet to its end.
async fn link(links: &Links, peer: &Peer) -> LinkError {
    let made = match tokio::time::timeout(links.times.silence, connect(links, peer)).await {
        Ok(made) => made,
        Err(_) => Err(LinkError::Silent(links.times.silence)),
    };
    let Link { mut frames, mut write, chain } = match made {
        Ok(link) => link,
        Err(error) => return error,
    };
    tracing::info!(member = %peer.name, "a link to a member of the cluster is made");
    peer.line.connect(true);
    links.intake.link(peer.voter, true);
    let writes = async {
        loop {
            let waiting = tokio::time::timeout(links.times.heartbeat, peer.line.take());
            let waiting = waiting.await.unwrap_or_else(|_| vec![frame::heartbeat()]);
            for frame in waiting {
                if let Err(error) = links.write(&mut write, &frame).await {
                    return error;
                }
            }
        }
    };
    let reads = async {
        loop {
            match frames.next(Limits::FIRST, links.times.silence).await {
                Ok(Frame::Heartbeat) => {}
                Ok(other) => return LinkError::OutOfTurn(other.kind()),
                Err(error) => return error,
            }
        }
    };
    tokio::select! {
        end = writes => end,
        end = reads => end,
        end = links.recheck(&chain) => end,
    }
}

async fn connect(links: &Links, peer: &Peer) -> Result<Link, LinkError> {
    let unreachable = |source| LinkError::Unreachable { address: peer.socket.clone(), source };
    let stream = TcpStream::connect(&peer.socket).await.map_err(unreachable)?;
    stream.set_nodelay(true).map_err(LinkError::Broken)?;
    let stream = BufReader::with_capacity(SOCKET_BUFFER, stream);
    let connector = TlsConnector::from(Arc::clone(&links.client));
    let stream = connector.connect(server_name(&peer.name), stream).await.map_err(LinkError::Tls)?;
    let chain = stream.get_ref().1.peer_certificates().unwrap_or_default().to_vec();
    let found = tls::peer_name(&chain)?;
    if found != peer.name {
        return Err(LinkError::WrongName { expected: peer.name.clone(), found });
    }
    let (read, mut write) = tokio::io::split(stream);
    let mut frames = Reader::new(read);
    // What the other side says of itself matters more than that it closed while this side wrote.
    let written = links.write(&mut write, &frame::hello(links.hello)).await;
    match frames.next(Limits::FIRST, links.times.silence).await? {
        Frame::Hello(hello) => links.check(hello)?,
        other => return Err(LinkError::OutOfTurn(other.kind())),
    }
    written?;
    Ok(Link { frames, write, chain })
}
