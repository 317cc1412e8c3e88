//! Answers that leave while they are made: bytes from the thread of a call to the body of a response.
//!
//! The thread waits while [`WINDOW`] bytes are not read, for a bounded time; the body's end tells whether the
//! answer is whole.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use tally_slots::Slot;
use tokio::sync::oneshot;

use super::answer::Outcome;
use super::connection::Told;
use super::reader::Reading;
use super::share::Taken;
use crate::error::{RpcError, TIMED_OUT};

/// Bytes that an answer has before it begins to leave; a shorter one is sent whole, with its length.
pub(super) const WHOLE: usize = 1 << 20;
/// Bytes that leave together, mostly.
const PORTION: usize = 64 << 10;
/// Bytes that wait for the reader, at most, beside the portion that is added.
const WINDOW: usize = 512 << 10;
/// What a stream takes of the share of all answers: what waits, what is made meanwhile, what is written.
pub(super) const HELD: usize = 2 << 20;

/// The body of a response.
pub(super) struct AnswerBody {
    kind: Kind,
    /// How long it may be read, when it is long.
    _reading: Option<Reading>,
}

enum Kind {
    /// It is in memory.
    Whole(Bytes),
    /// It is being made.
    Stream(Stream),
}

impl<B: Into<Bytes>> From<B> for AnswerBody {
    fn from(bytes: B) -> Self {
        Self { kind: Kind::Whole(bytes.into()), _reading: None }
    }
}

impl AnswerBody {
    /// A body that is being made.
    pub(super) fn stream(stream: Stream) -> Self {
        Self { kind: Kind::Stream(stream), _reading: None }
    }

    /// Whether it takes a part of what all answers share.
    pub(super) fn is_long(&self) -> bool {
        match &self.kind {
            Kind::Whole(bytes) => bytes.len() > PORTION,
            Kind::Stream(_) => true,
        }
    }

    /// Ties the body to the time that its reader has.
    pub(super) fn within(self, reading: Reading) -> Self {
        Self { _reading: Some(reading), ..self }
    }
}

/// Why the rest of an answer does not come: the connection ends before the body does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum Cut {
    /// The reader has gone or is too slow.
    #[error("the answer was cut off: it is not read")]
    Slow,
    /// The call failed where nothing can be said of it.
    #[error("the answer was cut off: the call failed")]
    Failed,
}

impl Body for AnswerBody {
    type Data = Bytes;
    type Error = Cut;

    fn poll_frame(self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Cut>>> {
        match &mut self.get_mut().kind {
            // In portions: the connection copies what it is given, and the answer would be held twice, once of
            // them without being counted.
            Kind::Whole(bytes) if bytes.len() > PORTION => {
                Poll::Ready(Some(Ok(Frame::data(bytes.split_to(PORTION)))))
            }
            Kind::Whole(bytes) if bytes.is_empty() => Poll::Ready(None),
            Kind::Whole(bytes) => Poll::Ready(Some(Ok(Frame::data(std::mem::take(bytes))))),
            Kind::Stream(stream) => stream.poll(task),
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(&self.kind, Kind::Whole(bytes) if bytes.is_empty())
    }

    fn size_hint(&self) -> SizeHint {
        match &self.kind {
            Kind::Whole(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Kind::Stream(_) => SizeHint::default(),
        }
    }
}

#[derive(Debug, Default)]
struct State {
    portions: VecDeque<Bytes>,
    bytes: usize,
    waker: Option<Waker>,
    end: Option<Result<(), Cut>>,
    unread: bool,
}

#[derive(Debug, Default)]
struct Pipe {
    state: Mutex<State>,
    moved: Condvar,
}

impl Pipe {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a portion once there is room, until then at the latest.
    fn send(&self, portion: Vec<u8>, until: Instant) -> bool {
        let mut state = self.lock();
        while state.bytes > WINDOW && !state.unread {
            let Some(left) = until.checked_duration_since(Instant::now()).filter(|left| !left.is_zero())
            else {
                return false;
            };
            state = self.moved.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        if state.unread {
            return false;
        }
        state.bytes += portion.len();
        state.portions.push_back(portion.into());
        if let Some(waker) = state.waker.take() {
            waker.wake();
        }
        true
    }

    fn end(&self, end: Result<(), Cut>) {
        let mut state = self.lock();
        if state.end.is_some() {
            return;
        }
        state.end = Some(end);
        if end.is_err() {
            state.portions.clear();
        }
        if let Some(waker) = state.waker.take() {
            waker.wake();
        }
    }
}

/// The reader's end of a stream. Dropping it tells the call that nobody reads.
pub(super) struct Stream {
    pipe: Arc<Pipe>,
    /// What waits is counted until it is read, also when the call has ended.
    _taken: Arc<Taken>,
    /// Set once it is known.
    reader: Option<(Told, Arc<Slot>)>,
}

impl Stream {
    /// Says what becomes of the call when this is dropped, and whose connection reads.
    pub(super) fn read_by(mut self, told: Told, slot: Arc<Slot>) -> Self {
        self.reader = Some((told, slot));
        self
    }

    fn poll(&mut self, task: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Cut>>> {
        let mut state = self.pipe.lock();
        if let Some(portion) = state.portions.pop_front() {
            state.bytes -= portion.len();
            drop(state);
            self.pipe.moved.notify_one();
            // Who reads is not who has been waited for longest.
            drop(self.reader.as_ref().map(|(_, slot)| slot.try_working()));
            return Poll::Ready(Some(Ok(Frame::data(portion))));
        }
        match state.end {
            Some(Ok(())) => Poll::Ready(None),
            Some(Err(cut)) => Poll::Ready(Some(Err(cut))),
            None => {
                state.waker = Some(task.waker().clone());
                Poll::Pending
            }
        }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        let mut state = self.pipe.lock();
        state.unread = true;
        state.portions.clear();
        drop(state);
        self.pipe.moved.notify_all();
    }
}

/// What comes back from the thread of a call.
pub(super) enum Reply {
    /// The answer, in memory.
    Whole(Vec<u8>, Outcome),
    /// The answer is longer and leaves while it is made.
    Stream(Stream),
}

/// How long an answer may be that leaves while it is made, and how long that may take.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    /// Bytes in all.
    pub(super) bytes: u64,
    /// From its first byte to its last.
    pub(super) time: Duration,
    /// From one portion until there is room for the next.
    pub(super) stall: Duration,
}

/// The sender's end: where the answer of one request goes.
pub(super) struct Outgoing {
    sender: Mutex<Option<oneshot::Sender<Reply>>>,
    pipe: Arc<Pipe>,
    taken: Arc<Taken>,
    bounds: Bounds,
    progress: Mutex<Progress>,
    cut: AtomicBool,
}

#[derive(Debug, Default)]
struct Progress {
    until: Option<Instant>,
    sent: u64,
}

impl std::fmt::Debug for Outgoing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Outgoing").field("bounds", &self.bounds).finish_non_exhaustive()
    }
}

impl Outgoing {
    pub(super) fn new(sender: oneshot::Sender<Reply>, taken: Arc<Taken>, bounds: Bounds) -> Self {
        Self {
            sender: Mutex::new(Some(sender)),
            pipe: Arc::default(),
            taken,
            bounds,
            progress: Mutex::default(),
            cut: AtomicBool::new(false),
        }
    }

    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Until when the answer must have left, once it has begun to.
    pub(super) fn until(&self) -> Option<Instant> {
        self.progress().until
    }

    /// Whether the rest of the answer is not sent.
    pub(super) fn is_cut(&self) -> bool {
        self.cut.load(Ordering::Relaxed)
    }

    /// Ends the body before its end.
    pub(super) fn cut(&self, why: Cut) {
        self.cut.store(true, Ordering::Relaxed);
        self.pipe.end(Err(why));
    }

    /// Sends text in portions, each as soon as there is room, and at the latest when `until` says.
    fn send(&self, text: Vec<u8>, until: impl Fn() -> Instant) -> bool {
        let sent = !self.is_cut()
            && if text.len() <= 2 * PORTION {
                self.pipe.send(text, until())
            } else {
                // Copies, so that what waits holds no more than itself.
                text.chunks(PORTION).all(|portion| self.pipe.send(portion.to_vec(), until()))
            };
        if !sent {
            self.cut(Cut::Slow);
        }
        sent
    }

    /// Lets `out` leave, when it is long enough. False when it is not, and it has not begun to leave.
    pub(super) fn pass_on(&self, out: &mut Vec<u8>) -> Result<bool, RpcError> {
        let begun = self.until();
        if out.len() < if begun.is_some() { PORTION } else { WHOLE } {
            return Ok(begun.is_some());
        }
        if self.is_cut() {
            return Err(unread());
        }
        let until = begun.unwrap_or_else(|| Instant::now() + self.bounds.time);
        // What was made in one piece is in memory until all of it has left.
        if !self.taken.raise_to(HELD + out.len().saturating_sub(WHOLE)) {
            return Err(RpcError::answers_full());
        }
        let length = out.len() as u64;
        if self.progress().sent.saturating_add(length) > self.bounds.bytes {
            return Err(RpcError::limit(format!(
                "limit exceeded: the answer has more than {} bytes, ask for less",
                self.bounds.bytes
            )));
        }
        if begun.is_none() {
            self.progress().until = Some(until);
            let sender = self.sender.lock().unwrap_or_else(PoisonError::into_inner).take();
            let stream = Stream { pipe: self.pipe.clone(), _taken: self.taken.clone(), reader: None };
            if sender.is_none_or(|sender| sender.send(Reply::Stream(stream)).is_err()) {
                self.cut(Cut::Slow);
                return Err(unread());
            }
        }
        let text = std::mem::replace(out, Vec::with_capacity(PORTION + (PORTION >> 2)));
        // A portion that has begun to leave may take as long as its reader may take nothing: whose time is up is told so
        // in the answer's end, and only who does not read is cut off.
        let stall = self.bounds.stall;
        if !self.send(text, || (until + stall).min(Instant::now() + stall)) {
            return Err(unread());
        }
        self.taken.lower_to(HELD);
        self.progress().sent += length;
        Ok(true)
    }

    /// Sends the rest, or all of it.
    pub(super) fn finish(&self, out: Vec<u8>, outcome: Outcome) {
        let Some(until) = self.until() else {
            let sender = self.sender.lock().unwrap_or_else(PoisonError::into_inner).take();
            if let Some(sender) = sender {
                // Nobody may wait for it anymore.
                let _ = sender.send(Reply::Whole(out, outcome));
            }
            return;
        };
        // The last portions may wait as long as any other, so that they can say why the answer ends.
        let until = || {
            let now = Instant::now();
            until.max(now).min(now + self.bounds.stall) + Duration::from_secs(1)
        };
        if self.send(out, until) {
            self.pipe.end(Ok(()));
        }
    }
}

impl Drop for Outgoing {
    fn drop(&mut self) {
        // Does nothing when the answer has ended: a reader does not wait for what nobody sends.
        self.pipe.end(Err(Cut::Failed));
    }
}

/// The reader has gone, or is too slow.
fn unread() -> RpcError {
    RpcError::new(TIMED_OUT, "the answer is not read")
}
