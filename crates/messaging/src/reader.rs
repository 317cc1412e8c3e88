//! Frames from a stream.

use std::future::{Future, poll_fn};
use std::io;
use std::pin::pin;
use std::task::Poll;

use bytes::BytesMut;
use tokio::io::{AsyncRead, AsyncReadExt};

use crate::error::ProtocolError;
use crate::frame::{self, Frame, Front};

/// Read at once, and kept for a connection that has little to say.
const SMALL: usize = 4 << 10;
/// Read at once from a connection that has much to say.
const LARGE: usize = 64 << 10;

/// Cuts a stream into frames. Holds at most twice what has arrived of a frame, whatever length it claims.
pub(crate) struct FrameReader<R> {
    io: R,
    buffer: BytesMut,
    limit: usize,
    /// Size of the next read; follows what comes.
    target: usize,
    /// Whole size of the frame at the front, if it is not all here.
    due: usize,
    /// Met behind bytes that had to be handled first.
    broken: Option<io::Error>,
}

impl<R: AsyncRead + Unpin> FrameReader<R> {
    pub(crate) fn new(io: R, limit: usize) -> Self {
        Self { io, buffer: BytesMut::new(), limit, target: SMALL, due: 0, broken: None }
    }

    /// From now on, the largest message.
    pub(crate) fn set_limit(&mut self, limit: usize) {
        self.limit = limit;
    }

    /// The next frame that is here already.
    pub(crate) fn next(&mut self) -> Result<Option<Frame>, ProtocolError> {
        match frame::take(&mut self.buffer, self.limit)? {
            Front::Frame(frame) => Ok(Some(frame)),
            Front::Partial(whole) => {
                self.due = whole;
                Ok(None)
            }
        }
    }

    /// Waits for bytes, then takes what else is ready without waiting. Returns how many came; 0 at the end.
    pub(crate) async fn fill(&mut self) -> io::Result<usize> {
        if let Some(error) = self.broken.take() {
            return Err(error);
        }
        let here = self.buffer.len();
        // A claimed length makes room only as fast as its bytes come.
        let missing = self.due.saturating_sub(here).min(here.max(LARGE));
        let room = self.target.max(missing);
        self.buffer.reserve(room);
        let mut came = self.io.read_buf(&mut self.buffer).await?;
        if came == 0 {
            return Ok(0);
        }
        // One TLS record holds at most 16 KiB; a batch may be larger.
        while came < room {
            let more = poll_fn(|context| {
                let read = pin!(self.io.read_buf(&mut self.buffer));
                Poll::Ready(match read.poll(context) {
                    Poll::Ready(result) => Some(result),
                    Poll::Pending => None,
                })
            });
            match more.await {
                // The end shows again at the next call.
                None | Some(Ok(0)) => break,
                Some(Ok(count)) => came += count,
                Some(Err(error)) => {
                    self.broken = Some(error);
                    break;
                }
            }
        }
        if came >= self.target {
            self.target = (self.target * 4).min(LARGE);
        } else if came < self.target / 8 {
            self.target = (self.target / 2).max(SMALL);
        }
        Ok(came)
    }

    /// Waits for one frame.
    pub(crate) async fn frame(&mut self) -> Result<Frame, crate::ConnectionError> {
        loop {
            if let Some(frame) = self.next()? {
                return Ok(frame);
            }
            if self.fill().await.map_err(crate::ConnectionError::Broken)? == 0 {
                return Err(crate::ConnectionError::Closed);
            }
        }
    }

    /// Reads and forgets until the other side closes, so that our last words are not lost to a reset.
    pub(crate) async fn drain(&mut self) {
        self.buffer = BytesMut::with_capacity(SMALL);
        while matches!(self.io.read_buf(&mut self.buffer).await, Ok(1..)) {
            self.buffer.clear();
        }
    }
}
