//! Connections from other members, and from those who are none.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use tally_identity::tls;
use tally_notary::{Client, Input};
use tally_ops::connections::Places;
use tokio::io::{AsyncWriteExt, BufReader, ReadHalf, WriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::server::TlsStream;

use super::{Links, Peer};
use crate::cluster::asker::{Heard, Word};
use crate::cluster::error::LinkError;
use crate::cluster::frame::{self, Frame, Limits, Reader};

/// Connections that have not shown whose they are; one more pushes out the oldest.
const STRANGERS: usize = 64;
/// How many of them may be from one address.
const STRANGERS_OF_ADDRESS: usize = 32;
/// When the system has no more file handles, others need a moment to give some back.
const ACCEPT_RETRY: Duration = Duration::from_millis(50);
const SOCKET_BUFFER: usize = 32 << 10;
/// What an input takes beside its bytes.
const BESIDE: usize = 256;

type Stream = TlsStream<BufReader<TcpStream>>;

struct Link {
    peer: Arc<Peer>,
    frames: Reader<ReadHalf<Stream>>,
    write: WriteHalf<Stream>,
    chain: Vec<CertificateDer<'static>>,
}

/// Lets members in until this node stops.
pub(super) async fn listen(listener: TcpListener, links: Arc<Links>) {
    let places = Places::new(STRANGERS, STRANGERS_OF_ADDRESS);
    loop {
        let accepted = tokio::select! {
            () = links.stopped() => return,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, address)) => {
                links.spawn(connection(Arc::clone(&links), places.clone(), stream, address));
            }
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection for the clustered notary");
                tokio::time::sleep(ACCEPT_RETRY).await;
            }
        }
    }
}

async fn connection(links: Arc<Links>, places: Places, stream: TcpStream, address: SocketAddr) {
    let crowded = Arc::new(Notify::new());
    let close = Arc::clone(&crowded);
    let Some(entered) = places.enter(address.ip(), move || close.notify_one()) else { return };
    let silence = links.times.silence;
    let admitted = tokio::select! {
        () = links.stopped() => return,
        () = crowded.notified() => Err(LinkError::Crowded),
        admitted = tokio::time::timeout(silence, admit(&links, stream)) => {
            admitted.unwrap_or(Err(LinkError::Silent(silence)))
        }
    };
    let link = match admitted {
        Ok(link) => link,
        Err(error) => {
            if matches!(error, LinkError::Stranger(_)) {
                links.figures.strangers.fetch_add(1, Relaxed);
            }
            let error = crate::desk::full_text(&error);
            tracing::info!(%address, error, "a connection for the clustered notary was refused");
            return;
        }
    };
    // From here on it is counted, and bounded, as that of a member.
    drop(entered);
    let peer = Arc::clone(&link.peer);
    let error = tokio::select! {
        () = links.stopped() => return,
        end = serve(&links, link) => end,
    };
    if error.is_fault() {
        peer.bar();
    }
    links.ended(&peer, "from", &error);
}

/// TLS, whose certificate it is, and of which cluster. Nothing is read of who is no member.
async fn admit(links: &Links, stream: TcpStream) -> Result<Link, LinkError> {
    stream.set_nodelay(true).map_err(LinkError::Broken)?;
    let stream = BufReader::with_capacity(SOCKET_BUFFER, stream);
    let stream = TlsAcceptor::from(Arc::clone(&links.server)).accept(stream).await.map_err(LinkError::Tls)?;
    let chain = stream.get_ref().1.peer_certificates().unwrap_or_default().to_vec();
    let name = tls::peer_name(&chain)?;
    let Some(peer) = links.named(&name) else { return Err(LinkError::Stranger(name)) };
    if peer.is_barred() {
        return Err(LinkError::Barred(name));
    }
    let (read, mut write) = tokio::io::split(stream);
    let mut frames = Reader::new(read);
    links.write(&mut write, &frame::hello(links.hello)).await?;
    match frames.next(Limits::FIRST, links.times.silence).await? {
        Frame::Hello(hello) => links.check(hello)?,
        other => return Err(LinkError::OutOfTurn(other.kind())),
    }
    Ok(Link { peer: Arc::clone(peer), frames, write, chain })
}

/// Hands in what a member says until its connection ends, or a newer one takes its place.
async fn serve(links: &Links, link: Link) -> LinkError {
    let Link { peer, mut frames, mut write, chain } = link;
    peer.newest.send_modify(|newest| *newest += 1);
    let mut newest = peer.newest.subscribe();
    let end = tokio::select! {
        end = hear(links, &peer, &mut frames) => end,
        end = links.beat(&mut write) => end,
        end = links.recheck(&chain) => end,
        _ = newest.changed() => if peer.is_barred() { LinkError::Faulty } else { LinkError::Replaced },
    };
    let _ = tokio::time::timeout(Duration::from_millis(100), write.shutdown()).await;
    end
}

async fn hear(links: &Links, peer: &Peer, frames: &mut Reader<ReadHalf<Stream>>) -> LinkError {
    loop {
        let frame = match frames.next(links.limits, links.times.silence).await {
            Ok(frame) => frame,
            Err(error) => return error,
        };
        match frame {
            Frame::Heartbeat => {}
            Frame::Message(bytes) => {
                let size = bytes.len() + BESIDE;
                links.intake.put(peer.voter, Input::Message { from: peer.voter, bytes }, size).await;
            }
            Frame::Request { conversation, request } => {
                let states = request.commit.inputs.len() + request.commit.references.len();
                let size = request.evidence.len() + 64 * states + BESIDE;
                let client = Client { name: peer.name.clone(), conversation };
                links.intake.put(peer.voter, Input::Request { client, request }, size).await;
            }
            Frame::Answer { conversation, answer } => {
                let word = Word::Answer(answer);
                links.asker.hear(Heard { from: peer.voter, conversation, word }).await;
            }
            Frame::Rejection { conversation, transaction, reason } => {
                let word = Word::Rejection { transaction, reason };
                links.asker.hear(Heard { from: peer.voter, conversation, word }).await;
            }
            Frame::Hello(_) => return LinkError::OutOfTurn(frame.kind()),
        }
    }
}
