//! Messages in, acknowledgements out, over one connection.

use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use tally_contracts::Name;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::sync::Notify;

use super::accept::Halves;
use super::slot::{Claim, Inbound, Turn};
use crate::error::{ConnectionError, ProtocolError};
use crate::frame::{self, Frame, Hello, PROTOCOL_VERSION, Welcome};
use crate::life::{FAREWELL, Life};
use crate::metrics::Counters;
use crate::queues::Refusal;
use crate::reader::FrameReader;
use crate::shared::Shared;

/// Receives until the connection ends. `Ok`: the peer knows why; `Err`: it is still to be told.
pub(super) async fn converse(
    shared: &Shared,
    peer: &Name,
    address: SocketAddr,
    hello: Hello,
    claim: Claim,
    mut turn: Turn,
    halves: &mut Halves,
) -> Result<ConnectionError, ConnectionError> {
    shared.meet(peer, hello.standing, Some(hello.queue)).await?;
    // Asked only now that the older connection delivers no more.
    let position = shared.inbox.position(peer, hello.queue);
    let durable = position.durable.min(position.accepted);
    let inbound = Arc::new(Inbound {
        address,
        queue: hello.queue,
        accepted: AtomicU64::new(position.accepted),
        durable: AtomicU64::new(durable),
        told: AtomicU64::new(durable),
        paused: AtomicBool::new(false),
        wake: Notify::new(),
        room: Notify::new(),
    });
    claim.occupy(&inbound);
    // What became durable between the question and `occupy` told nobody.
    inbound.acknowledge(shared.inbox.position(peer, hello.queue).durable);
    let mut first = Vec::new();
    frame::put_welcome(
        &mut first,
        &Welcome {
            version: PROTOCOL_VERSION,
            accepted: position.accepted,
            durable,
            message_limit: u32::try_from(shared.settings.message_limit).unwrap_or(u32::MAX),
            standing: shared.acquaintance.standing().into(),
        },
    );
    shared.counters.connections_accepted.fetch_add(1, Relaxed);
    shared.changed();
    let life = Life::default();
    let mut writer = pin!(write(shared, &life, &inbound, first, &mut halves.write));
    let end = {
        let reader = pin!(read(shared, &life, peer, &inbound, turn.clone(), &mut halves.frames));
        tokio::select! {
            end = reader => end,
            end = &mut writer => return Ok(end.map_or_else(ConnectionError::Broken, |()| ConnectionError::Closed)),
            end = life.watch(&shared.settings, || inbound.wake.notify_one()) => end,
            () = tokio::time::sleep(shared.settings.connection_age) => ConnectionError::Renewed,
            () = turn.over() => ConnectionError::Replaced,
            () = shared.stopped() => ConnectionError::Stopping,
        }
    };
    // The last message of this connection is delivered: the next connection may begin.
    drop(claim);
    let mut words = Vec::new();
    frame::put_last_words(&mut words, &end);
    if !words.is_empty() {
        life.close(words);
        inbound.wake.notify_one();
        let _ = tokio::time::timeout(FAREWELL, writer).await;
    }
    Ok(end)
}

/// Writes acknowledgements, at most one in a write, until told to close.
async fn write(
    shared: &Shared,
    life: &Life,
    inbound: &Inbound,
    mut out: Vec<u8>,
    io: &mut (impl AsyncWrite + Unpin),
) -> std::io::Result<()> {
    let mut told = inbound.told.load(Relaxed);
    loop {
        let closing = life.closing();
        let durable = inbound.durable.load(Relaxed);
        if durable > told {
            frame::put_acknowledged(&mut out, durable);
            told = durable;
            inbound.told.store(told, Relaxed);
            shared.counters.acknowledgements_sent.fetch_add(1, Relaxed);
        }
        if life.take_ping() {
            frame::put_ping(&mut out);
        }
        if let Some(words) = &closing {
            out.extend_from_slice(words);
        }
        if !out.is_empty() {
            io.write_all(&out).await?;
            io.flush().await?;
            out.clear();
            life.has_written();
        }
        if closing.is_some() {
            return io.shutdown().await;
        }
        inbound.wake.notified().await;
        if inbound.durable.load(Relaxed) > told && !shared.settings.acknowledge_delay.is_zero() {
            tokio::time::sleep(shared.settings.acknowledge_delay).await;
        }
    }
}

/// Reads messages and hands them to the inbox until the connection ends.
async fn read(
    shared: &Shared,
    life: &Life,
    peer: &Name,
    inbound: &Inbound,
    turn: Turn,
    frames: &mut FrameReader<impl AsyncRead + Unpin>,
) -> ConnectionError {
    let mut accepted = inbound.accepted.load(Relaxed);
    let mut batch = Vec::new();
    loop {
        let mut standing = None;
        let end = collect(shared, peer, frames, accepted, &mut batch, &mut standing);
        if let Some(standing) = standing
            && let Err(error) = shared.meet(peer, standing, Some(inbound.queue)).await
        {
            return error;
        }
        while !batch.is_empty() {
            if !turn.is_mine() {
                return ConnectionError::Replaced;
            }
            let (count, bytes) = (batch.len(), batch.iter().map(|(_, bytes)| bytes.len()).sum::<usize>());
            let refusal = shared.inbox.receive(peer, inbound.queue, &mut batch).err();
            if refusal.is_none() {
                batch.clear();
            }
            let left = batch.iter().map(|(_, bytes)| bytes.len()).sum();
            accepted += (count - batch.len()) as u64;
            inbound.accepted.store(accepted, Relaxed);
            Counters::add(&shared.counters.messages_received, count - batch.len());
            Counters::add(&shared.counters.bytes_received, bytes.saturating_sub(left));
            match refusal {
                None => {}
                Some(Refusal::Busy) => {
                    shared.counters.pauses.fetch_add(1, Relaxed);
                    inbound.paused.store(true, Relaxed);
                    life.pause(true);
                    shared.changed();
                    inbound.room.notified().await;
                    inbound.paused.store(false, Relaxed);
                    life.pause(false);
                    shared.changed();
                }
                Some(Refusal::Stopping) => return ConnectionError::Stopping,
                Some(Refusal::Invalid(reason)) => return ConnectionError::Invalid(reason),
            }
        }
        if let Some(end) = end {
            return end;
        }
        match frames.fill().await {
            Ok(0) => return ConnectionError::Closed,
            Ok(_) => {
                life.has_read();
                shared.counters.reads.fetch_add(1, Relaxed);
            }
            Err(error) => return ConnectionError::Broken(error),
        }
    }
}

/// Takes the messages that are here; returns why there will be no more, if so.
fn collect(
    shared: &Shared,
    peer: &Name,
    frames: &mut FrameReader<impl AsyncRead + Unpin>,
    accepted: u64,
    batch: &mut Vec<(u64, bytes::Bytes)>,
    standing: &mut Option<bytes::Bytes>,
) -> Option<ConnectionError> {
    let mut expected = accepted.checked_add(1)?;
    loop {
        match frames.next() {
            Ok(Some(Frame::Message { number, bytes })) => {
                if number < expected {
                    shared.counters.messages_repeated.fetch_add(1, Relaxed);
                } else if number > expected {
                    return Some(ProtocolError::Gap { expected, found: number }.into());
                } else {
                    batch.push((number, bytes));
                    expected = expected.saturating_add(1);
                }
            }
            Ok(Some(Frame::Ping)) => {}
            // Of several only the last counts.
            Ok(Some(Frame::Standing(told))) => *standing = Some(told),
            Ok(Some(Frame::Superseded(evidence))) => shared.acquaintance.superseded(peer, &evidence),
            Ok(Some(Frame::Closing { reason, text })) => {
                return Some(ConnectionError::Refused { reason, detail: text });
            }
            Ok(Some(other)) => return Some(ProtocolError::OutOfTurn(other.kind()).into()),
            Ok(None) => return None,
            Err(error) => return Some(error.into()),
        }
    }
}
