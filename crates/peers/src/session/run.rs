//! What a session does: reads, writes, and sees whether the other side is still there.

use super::{Session, lock};
use crate::event::{DisconnectReason, Event, Responder, cost};
use crate::frame::{CHUNK, Control, Decoder, Form, Frame, Piece, START_COST, Unanswered};
use crate::kind::Lane;
use bytes::BytesMut;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, split};
use tokio::time::{sleep_until, timeout};

/// How much is encrypted and handed to the system before more urgent chunks are looked for.
const BATCH: usize = 64 << 10;
/// Room for a whole chunk with its header, and for the beginning of the next.
const READ: usize = CHUNK + (16 << 10);
/// How long a goodbye may take.
const GOODBYE: Duration = Duration::from_secs(1);
/// How long a peer that has just said hello in another connection has to answer in this one.
const PROBE: Duration = Duration::from_secs(2);

/// Says what is left to say, in the time that a goodbye may take. A peer that cannot be reached learns it
/// when the connection breaks.
pub(crate) async fn part<S>(stream: &mut S, mut last: BytesMut)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let farewell = async {
        stream.write_all_buf(&mut last).await?;
        stream.shutdown().await?;
        // A socket that is closed with something unread resets the connection, and the peer may never see
        // what was said last (RFC 9293 section 3.6).
        let mut unread = [0; 4096];
        while stream.read(&mut unread).await? > 0 {}
        io::Result::Ok(())
    };
    drop(timeout(GOODBYE, farewell).await);
}

/// When what happened, for the task that watches.
struct Watch {
    began: Instant,
    /// Milliseconds since `began` when something came last.
    last_in: AtomicU64,
    /// Nothing is read, because the host does not take what came.
    paused: AtomicBool,
    /// Milliseconds since `began`, plus one, when the write under way began or last went on; 0 when
    /// there is none.
    writing: AtomicU64,
    ping: std::sync::Mutex<Option<(u64, Instant)>>,
}

impl Watch {
    fn now(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}

impl Session {
    /// Carries the session on until it ends; why it did.
    pub(crate) async fn run<S>(self: &Arc<Self>, stream: S) -> DisconnectReason
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let (mut input, mut output) = split(stream);
        let watch = Watch {
            began: Instant::now(),
            last_in: AtomicU64::new(0),
            paused: AtomicBool::new(false),
            writing: AtomicU64::new(0),
            ping: std::sync::Mutex::new(None),
        };
        // Kept outside of the writing, which may be broken off in the middle of a chunk.
        let mut unsent = BytesMut::new();
        let reason = tokio::select! {
            biased;
            reason = self.until_ended() => reason,
            reason = self.watch(&watch) => reason,
            reason = self.write(&mut output, &mut unsent, &watch) => reason,
            reason = self.read(&mut input, &watch) => reason,
        };
        self.end(reason);
        let reason = lock(&self.end).clone().unwrap_or(DisconnectReason::Closed);
        if let Some(goodbye) = reason.goodbye() {
            if reason == DisconnectReason::Stopping {
                lock(&self.outbox).fill(&mut unsent, BATCH);
            }
            Control::Goodbye(goodbye).encode(&mut unsent);
            part(&mut input.unsplit(output), unsent).await;
        }
        reason
    }

    async fn until_ended(&self) -> DisconnectReason {
        loop {
            if let Some(reason) = lock(&self.end).clone() {
                return reason;
            }
            self.ended.notified().await;
        }
    }

    async fn write<W>(&self, output: &mut W, unsent: &mut BytesMut, watch: &Watch) -> DisconnectReason
    where
        W: AsyncWrite + Unpin,
    {
        loop {
            let grant = lock(&self.flow).grant();
            let finished = {
                let mut outbox = lock(&self.outbox);
                if let Some(bytes) = grant {
                    Control::Credit(bytes).encode(unsent);
                }
                outbox.fill(unsent, BATCH)
            };
            if unsent.is_empty() {
                self.wake.notified().await;
                continue;
            }
            self.traffic.bytes_out.fetch_add(unsent.len() as u64, Ordering::Relaxed);
            self.traffic.messages_out.fetch_add(finished, Ordering::Relaxed);
            let written: io::Result<()> = async {
                while !unsent.is_empty() {
                    watch.writing.store(watch.now() + 1, Ordering::Relaxed);
                    output.write_buf(unsent).await?;
                }
                output.flush().await
            }
            .await;
            watch.writing.store(0, Ordering::Relaxed);
            if let Err(error) = written {
                return DisconnectReason::Broken(error.to_string());
            }
        }
    }

    async fn read<R>(self: &Arc<Self>, input: &mut R, watch: &Watch) -> DisconnectReason
    where
        R: AsyncRead + Unpin,
    {
        let mut decoder = Decoder::new(self.around.kinds.clone());
        let mut buffer = BytesMut::with_capacity(READ);
        // What the bulk message under way has cost so far.
        let mut bulk = 0;
        loop {
            loop {
                match decoder.next(&mut buffer) {
                    Ok(None) => break,
                    Err(fault) => return DisconnectReason::Violation(fault),
                    Ok(Some(decoded)) => {
                        if decoded.cost > 0 {
                            let mut flow = lock(&self.flow);
                            if let Err(fault) = flow.received(decoded.cost) {
                                return DisconnectReason::Violation(fault);
                            }
                            if flow.is_due() {
                                self.wake.notify_one();
                            }
                            bulk += decoded.cost;
                        }
                        match decoded.piece {
                            Piece::Part => {}
                            Piece::Control(control) => {
                                if let Some(reason) = self.on_control(control, watch) {
                                    return reason;
                                }
                            }
                            Piece::Frame(frame) => {
                                let cost = match frame.lane {
                                    Lane::Urgent => cost(&frame.payload),
                                    Lane::Bulk => std::mem::take(&mut bulk),
                                };
                                self.on_frame(frame, cost);
                            }
                        }
                    }
                }
                while self.urgent_waiting.load(Ordering::Acquire) > self.around.most_urgent {
                    watch.paused.store(true, Ordering::Relaxed);
                    self.urgent_taken.notified().await;
                    watch.last_in.store(watch.now(), Ordering::Relaxed);
                    watch.paused.store(false, Ordering::Relaxed);
                }
            }
            buffer.reserve(READ - buffer.len().min(READ));
            match input.read_buf(&mut buffer).await {
                Ok(0) => return DisconnectReason::Closed,
                Ok(read) => {
                    watch.last_in.store(watch.now(), Ordering::Relaxed);
                    self.traffic.bytes_in.fetch_add(read as u64, Ordering::Relaxed);
                }
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                    return DisconnectReason::Closed;
                }
                Err(error) => return DisconnectReason::Broken(error.to_string()),
            }
        }
    }

    fn on_frame(self: &Arc<Self>, frame: Frame, cost: u64) {
        let Frame { form, kind, lane, payload } = frame;
        self.traffic.messages_in.fetch_add(1, Ordering::Relaxed);
        let peer = self.peer;
        let event = match form {
            Form::Message => Event::Message { peer, kind, payload },
            Form::Request(number) => {
                if self.answering.load(Ordering::Relaxed) >= self.around.most_requests {
                    self.control(Control::Unanswered(number, Unanswered::Busy));
                    return;
                }
                self.answering.fetch_add(1, Ordering::Relaxed);
                Event::Request {
                    peer,
                    kind,
                    payload,
                    respond: Responder::new(Arc::clone(self), number, kind),
                }
            }
            Form::Response(number) => {
                let mut requests = lock(&self.requests);
                // An answer that came too late, or that nobody asked for, has no effect.
                if requests.open.get(&number).is_some_and(|(asked, _)| *asked == kind)
                    && let Some((_, answer)) = requests.open.remove(&number)
                {
                    drop(answer.send(Ok(payload)));
                }
                return;
            }
        };
        match lane {
            Lane::Urgent => {
                self.urgent_waiting.fetch_add(cost, Ordering::AcqRel);
            }
            Lane::Bulk => lock(&self.flow).completed(cost),
        }
        self.around.events.push_from(event, Arc::clone(self), lane, cost);
    }

    fn on_control(&self, control: Control, watch: &Watch) -> Option<DisconnectReason> {
        match control {
            Control::Ping(number) => self.control(Control::Pong(number)),
            Control::Pong(number) => {
                let mut ping = lock(&watch.ping);
                if let Some((_, sent)) = ping.filter(|(asked, _)| *asked == number) {
                    *ping = None;
                    let measured = u64::try_from(sent.elapsed().as_micros()).unwrap_or(u64::MAX).max(1);
                    // Smoothed as in RFC 6298 section 2.
                    let smoothed = match self.round_trip.load(Ordering::Relaxed) {
                        0 => measured,
                        before => before - before / 8 + measured / 8,
                    };
                    self.round_trip.store(smoothed.max(1), Ordering::Relaxed);
                }
            }
            Control::Credit(bytes) => {
                lock(&self.outbox).add_credit(bytes);
                self.wake.notify_one();
            }
            Control::Unanswered(number, why) => {
                if let Some((_, answer)) = lock(&self.requests).open.remove(&number) {
                    drop(answer.send(Err(crate::send::RequestError::Unanswered(why))));
                }
            }
            Control::Goodbye(why) => return Some(DisconnectReason::Said(why)),
        }
        None
    }

    async fn watch(&self, watch: &Watch) -> DisconnectReason {
        let timing = &self.around.timing;
        let mut number = 0_u64;
        let mut next_ping = watch.began;
        let mut probed: Option<Instant> = None;
        loop {
            let now = Instant::now();
            if now >= next_ping {
                number = number.wrapping_add(1);
                *lock(&watch.ping) = Some((number, now));
                self.control(Control::Ping(number));
                next_ping = now + timing.ping;
            }
            let last_in = watch.began + Duration::from_millis(watch.last_in.load(Ordering::Relaxed));
            // A silence that is our own does not count.
            let last_in = if watch.paused.load(Ordering::Relaxed) { now } else { last_in };
            if probed.is_some_and(|at| last_in > at) {
                probed = None;
            }
            let silent = last_in + timing.silence;
            let silent = probed.map_or(silent, |at| silent.min(at + PROBE));
            if now >= silent {
                return DisconnectReason::Silent;
            }
            let mut until = next_ping.min(silent);
            let writing = watch.writing.load(Ordering::Relaxed);
            if writing > 0 {
                let stalled = watch.began + Duration::from_millis(writing) + timing.silence;
                if now >= stalled {
                    return DisconnectReason::Slow;
                }
                until = until.min(stalled);
            }
            tokio::select! {
                () = sleep_until(until.into()) => {}
                () = self.probe.notified() => {
                    probed = Some(Instant::now());
                    next_ping = watch.began;
                }
            }
        }
    }
}

const _: () = assert!(READ > CHUNK + START_COST as usize, "a chunk fits in the buffer");
