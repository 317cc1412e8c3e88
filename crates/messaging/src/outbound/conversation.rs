//! Delivery over one connection: messages out, acknowledgements in.

use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::sync::watch;

use super::Outbound;
use super::connect::{Agreed, broken};
use super::queue::Next;
use crate::error::{ConnectionError, ProtocolError};
use crate::frame::{self, Frame};
use crate::life::{FAREWELL, Life};
use crate::queues::QueueId;
use crate::reader::FrameReader;
use crate::shared::{Shared, lock};

/// Bytes put together into one write.
const WRITE: usize = 64 << 10;
/// A message of this size is written from where it lies instead of being copied beside others.
const ALONE: usize = 32 << 10;
/// Bytes asked of the outbox at once.
const OUTBOX_READ: usize = 256 << 10;

impl Outbound {
    /// Delivers until the connection ends.
    pub(super) async fn converse(
        &self,
        shared: &Shared,
        agreed: Agreed,
        mut cut: watch::Receiver<u64>,
        epoch: u64,
    ) -> ConnectionError {
        let Agreed { mut frames, write, welcome, queue, .. } = agreed;
        if welcome.durable > 0 {
            shared.outbox.acknowledged(&self.name, queue, welcome.durable);
        }
        let life = Life::default();
        let written = AtomicU64::new(welcome.accepted);
        let limit = shared.settings.message_limit.min(welcome.message_limit as usize);
        let mut writer = pin!(self.write(shared, &life, write, &written, (queue, limit, epoch)));
        let end = {
            let mut reader = pin!(self.read(shared, &life, &mut frames, &written, (queue, welcome.durable)));
            tokio::select! {
                end = &mut reader => end,
                end = &mut writer => {
                    let end = end.err().unwrap_or(ConnectionError::Closed);
                    if !matches!(end, ConnectionError::Broken(_) | ConnectionError::Tls(_)) {
                        return end;
                    }
                    // The peer's reason, if it gave one, explains more than a failed write.
                    return match tokio::time::timeout(FAREWELL, reader).await {
                        Ok(refused @ ConnectionError::Refused { .. }) => refused,
                        _ => end,
                    };
                }
                end = life.watch(&shared.settings, || self.wake.notify_one()) => end,
                end = self.idle(shared) => end,
                () = tokio::time::sleep(shared.settings.connection_age) => ConnectionError::Renewed,
                _ = cut.changed() => ConnectionError::Renewed,
                () = shared.stopped() => ConnectionError::Stopping,
            }
        };
        let mut words = Vec::new();
        frame::put_last_words(&mut words, &end);
        if !words.is_empty() {
            life.close(words);
            self.wake.notify_one();
            let _ = tokio::time::timeout(FAREWELL, writer).await;
        }
        end
    }

    /// Writes messages in their order until told to close. Only ever dropped with the connection, so a frame
    /// is never cut short by a later one.
    async fn write(
        &self,
        shared: &Shared,
        life: &Life,
        mut io: impl AsyncWrite + Unpin,
        written: &AtomicU64,
        (queue, limit, epoch): (QueueId, usize, u64),
    ) -> Result<(), ConnectionError> {
        let mut out = Vec::new();
        let mut batch = Vec::new();
        loop {
            if let Some(words) = life.closing() {
                out.extend_from_slice(&words);
                io.write_all(&out).await.map_err(broken)?;
                return io.shutdown().await.map_err(broken);
            }
            if self.announces.swap(false, Relaxed) {
                frame::put_standing(&mut out, &shared.acquaintance.standing());
                self.flush(life, &mut io, &mut out).await?;
            }
            let next = written.load(Relaxed) + 1;
            let found = lock(&self.queue).take(epoch, next, WRITE, &mut batch);
            match found {
                Next::Taken => {}
                Next::Elsewhere => {
                    if let Err(error) = self.read_back(shared, next, &mut batch).await {
                        if matches!(error, ConnectionError::OutboxGap { .. }) {
                            shared.acquaintance.astray(&self.name, queue);
                        }
                        return self.refuse(io, error).await;
                    }
                    // The outbox may have answered with messages put there after the cut.
                    if lock(&self.queue).epoch() != epoch {
                        batch.clear();
                        continue;
                    }
                }
                Next::Cut => {
                    self.wake.notified().await;
                    continue;
                }
                Next::Nothing => {
                    if life.take_ping() {
                        frame::put_ping(&mut out);
                        self.flush(life, &mut io, &mut out).await?;
                    }
                    self.wake.notified().await;
                    continue;
                }
            }
            let count = batch.len();
            let mut bytes = 0;
            for (number, message) in batch.drain(..) {
                if message.len() > limit {
                    let (bytes, limit) = (message.len() as u64, limit as u64);
                    self.flush(life, &mut io, &mut out).await?;
                    return self.refuse(io, ConnectionError::MessageTooLarge { number, bytes, limit }).await;
                }
                bytes += message.len();
                frame::put_message_header(&mut out, number, message.len());
                // An acknowledgement can only come after the write.
                written.store(number, Relaxed);
                if message.len() >= ALONE {
                    io.write_all(&out).await.map_err(broken)?;
                    io.write_all(&message).await.map_err(broken)?;
                    out.clear();
                    life.has_written();
                    continue;
                }
                out.extend_from_slice(&message);
                if out.len() >= WRITE {
                    io.write_all(&out).await.map_err(broken)?;
                    out.clear();
                    life.has_written();
                }
            }
            self.flush(life, &mut io, &mut out).await?;
            let counters = &shared.counters;
            counters.messages_sent.fetch_add(count as u64, Relaxed);
            counters.bytes_sent.fetch_add(bytes as u64, Relaxed);
            counters.writes.fetch_add(1, Relaxed);
        }
    }

    async fn flush(
        &self,
        life: &Life,
        io: &mut (impl AsyncWrite + Unpin),
        out: &mut Vec<u8>,
    ) -> Result<(), ConnectionError> {
        io.write_all(out).await.map_err(broken)?;
        io.flush().await.map_err(broken)?;
        out.clear();
        life.has_written();
        Ok(())
    }

    /// Ends the conversation from the writer's side, telling the peer why.
    async fn refuse(
        &self,
        mut io: impl AsyncWrite + Unpin,
        error: ConnectionError,
    ) -> Result<(), ConnectionError> {
        let mut out = Vec::new();
        frame::put_last_words(&mut out, &error);
        if !out.is_empty() {
            io.write_all(&out).await.map_err(broken)?;
            io.shutdown().await.map_err(broken)?;
        }
        Err(error)
    }

    /// Messages that memory had no room for, from the outbox.
    async fn read_back(
        &self,
        shared: &Shared,
        next: u64,
        batch: &mut Vec<(u64, Bytes)>,
    ) -> Result<(), ConnectionError> {
        let name = self.name.clone();
        let found = shared.read_outbox(move |outbox| outbox.after(&name, next - 1, OUTBOX_READ)).await?;
        let mut wanted = next;
        for (number, bytes) in found {
            if number != wanted {
                return Err(ConnectionError::OutboxGap { wanted, found: Some(number) });
            }
            batch.push((number, Bytes::from(bytes)));
            wanted += 1;
        }
        if batch.is_empty() {
            return Err(ConnectionError::OutboxGap { wanted, found: None });
        }
        Ok(())
    }

    /// Reads acknowledgements until the connection ends.
    async fn read(
        &self,
        shared: &Shared,
        life: &Life,
        frames: &mut FrameReader<impl AsyncRead + Unpin>,
        written: &AtomicU64,
        (queue, mut durable): (QueueId, u64),
    ) -> ConnectionError {
        loop {
            let mut newest = durable;
            let mut end = None;
            loop {
                match frames.next() {
                    Ok(Some(Frame::Acknowledged { up_to })) => {
                        shared.counters.acknowledgements_received.fetch_add(1, Relaxed);
                        newest = newest.max(up_to);
                    }
                    Ok(Some(Frame::Ping)) => {}
                    Ok(Some(Frame::Superseded(evidence))) => {
                        shared.acquaintance.superseded(&self.name, &evidence);
                    }
                    Ok(Some(Frame::Closing { reason, text })) => {
                        end = Some(ConnectionError::Refused { reason, detail: text });
                        break;
                    }
                    Ok(Some(other)) => {
                        end = Some(ProtocolError::OutOfTurn(other.kind()).into());
                        break;
                    }
                    Ok(None) => break,
                    Err(error) => {
                        end = Some(error.into());
                        break;
                    }
                }
            }
            let last = written.load(Relaxed);
            if newest > last {
                return ProtocolError::Ahead { claimed: newest, last }.into();
            }
            if newest > durable {
                durable = newest;
                lock(&self.queue).acknowledge(durable);
                shared.outbox.acknowledged(&self.name, queue, durable);
            }
            if let Some(end) = end {
                return end;
            }
            match frames.fill().await {
                Ok(0) => return ConnectionError::Closed,
                Ok(_) => life.has_read(),
                Err(error) => return broken(error),
            }
        }
    }

    /// Returns when nothing was sent for a while and nothing waits for an acknowledgement.
    async fn idle(&self, shared: &Shared) -> ConnectionError {
        let mut before = lock(&self.queue).announced();
        loop {
            tokio::time::sleep(shared.settings.linger).await;
            let queue = lock(&self.queue);
            let now = queue.announced();
            if now == before && queue.acknowledged() >= now {
                return ConnectionError::Idle;
            }
            before = now;
        }
    }
}
