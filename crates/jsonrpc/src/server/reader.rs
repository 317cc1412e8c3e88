//! How long the reader of an answer may take, whatever holds the answer meanwhile.
//!
//! A connection on which nothing moves for a while is closed, and one on which a long answer is not read in
//! time: the answer takes its part of the [`share`](super::share) of all until its reader has it.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep_until};

use super::stream::Cut;

/// What the reader of one connection may take.
#[derive(Debug)]
pub(super) struct Pace {
    /// From one byte that the reader takes to the next, while bytes wait.
    stall: Duration,
    /// Until when the long answer that is being sent must be read.
    until: Mutex<Option<Instant>>,
}

impl Pace {
    pub(super) fn new(stall: Duration) -> Arc<Self> {
        Arc::new(Self { stall, until: Mutex::default() })
    }

    /// A long answer must be read within this time, as long as what is returned is there.
    pub(super) fn reading(self: &Arc<Self>, time: Duration) -> Reading {
        *self.lock() = Instant::now().checked_add(time);
        Reading(self.clone())
    }

    /// When the next byte must be taken, at the latest.
    fn next(&self) -> Instant {
        let stalled = Instant::now() + self.stall;
        self.lock().map_or(stalled, |until| until.min(stalled))
    }

    fn lock(&self) -> MutexGuard<'_, Option<Instant>> {
        self.until.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A long answer is being read.
#[derive(Debug)]
pub(super) struct Reading(Arc<Pace>);

impl Drop for Reading {
    fn drop(&mut self) {
        *self.0.lock() = None;
    }
}

/// The reader took nothing for too long, or not enough in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the reader is too slow")]
struct TooSlow;

/// Whether a connection ended because its reader was too slow.
pub(super) fn was_too_slow(error: &(dyn std::error::Error + 'static)) -> bool {
    let mut next = Some(error);
    while let Some(error) = next {
        let inner = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        if inner.is_some_and(|inner| inner.is::<TooSlow>()) || error.downcast_ref() == Some(&Cut::Slow) {
            return true;
        }
        next = error.source();
    }
    false
}

/// The bytes of a connection, with a bound on how long what is written waits for the reader.
pub(super) struct Paced<S> {
    stream: S,
    pace: Arc<Pace>,
    /// Runs while something waits.
    alarm: Option<Pin<Box<Sleep>>>,
}

impl<S> Paced<S> {
    pub(super) fn new(stream: S, pace: Arc<Pace>) -> Self {
        Self { stream, pace, alarm: None }
    }

    fn written(
        &mut self,
        task: &mut Context<'_>,
        written: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        if written.is_ready() {
            self.alarm = None;
            return written;
        }
        let pace = &self.pace;
        let alarm = self.alarm.get_or_insert_with(|| Box::pin(sleep_until(pace.next().into())));
        ready!(alarm.as_mut().poll(task));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, TooSlow)))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Paced<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        task: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(task, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Paced<S> {
    fn poll_write(mut self: Pin<&mut Self>, task: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(task, bytes);
        self.written(task, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        task: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(task, parts);
        self.written(task, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(task)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(task)
    }
}
