//! Bodies of gRPC requests: counted as they arrive, and not waited for for ever once a message has begun.

use super::super::App;
use axum::body::Body;
use bytes::Bytes;
use http_body::Frame;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore};
use tokio::time::Sleep;
use tonic::Status;

/// What has arrived of a body and is not answered yet, as its share of the memory for bodies.
#[derive(Default)]
pub(super) struct Memory(Mutex<Option<OwnedSemaphorePermit>>);

impl Memory {
    fn hold(&self, share: OwnedSemaphorePermit) {
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match held.as_mut() {
            Some(held) => held.merge(share),
            None => *held = Some(share),
        }
    }

    /// The share of what has arrived since the last call.
    pub(super) fn take(&self) -> Option<OwnedSemaphorePermit> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// Waits for a share of the memory.
type Share = Pin<Box<dyn Future<Output = Result<OwnedSemaphorePermit, AcquireError>> + Send>>;

/// A body that takes memory before it gives bytes. Where there is none it waits, and the client with it.
pub(super) struct Metered {
    body: Body,
    memory: Arc<Memory>,
    bodies: Arc<Semaphore>,
    /// What arrived and has no memory yet.
    waits: Option<(Bytes, Share)>,
    messages: Messages,
    patience: Duration,
    /// When the present message has to be complete.
    late: Option<Pin<Box<Sleep>>>,
}

impl Metered {
    pub(super) fn new(body: Body, memory: Arc<Memory>, app: &App) -> Self {
        Self {
            body,
            memory,
            bodies: Arc::clone(&app.bodies),
            waits: None,
            messages: Messages::default(),
            patience: Duration::from_millis(app.settings.http.request_timeout_ms),
            late: None,
        }
    }

    /// Nothing comes now. Between messages that may last, within one it may not: it holds memory.
    fn wait(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        if self.waits.is_none() && self.messages.between() {
            return Poll::Pending;
        }
        let late = self.late.get_or_insert_with(|| Box::pin(tokio::time::sleep(self.patience)));
        ready!(late.as_mut().poll(context));
        let text = match self.waits {
            Some(_) => "the gateway has no memory for this message; send it again later",
            None => "a message did not come to its end in time",
        };
        Poll::Ready(Some(Err(Status::resource_exhausted(text))))
    }
}

impl http_body::Body for Metered {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let this = &mut *self;
        if this.waits.is_none() {
            let frame = match Pin::new(&mut this.body).poll_frame(context) {
                Poll::Pending => return this.wait(context),
                Poll::Ready(None) => return Poll::Ready(None),
                Poll::Ready(Some(Err(error))) => {
                    return Poll::Ready(Some(Err(Status::from_error(error.into_inner()))));
                }
                Poll::Ready(Some(Ok(frame))) => frame,
            };
            match frame.into_data() {
                Err(trailers) => return Poll::Ready(Some(Ok(trailers))),
                Ok(data) => {
                    let share = u32::try_from(data.len()).unwrap_or(u32::MAX);
                    let share = Arc::clone(&this.bodies).acquire_many_owned(share);
                    this.waits = Some((data, Box::pin(share)));
                }
            }
        }
        let Some((_, share)) = &mut this.waits else { return this.wait(context) };
        match share.as_mut().poll(context) {
            Poll::Pending => this.wait(context),
            Poll::Ready(Err(_)) => Poll::Ready(Some(Err(Status::unavailable("the gateway stops")))),
            Poll::Ready(Ok(share)) => {
                this.memory.hold(share);
                let data = this.waits.take().map(|(data, _)| data).unwrap_or_default();
                if this.messages.advance(&data) {
                    this.late = None;
                }
                Poll::Ready(Some(Ok(Frame::data(data))))
            }
        }
    }
}

/// Where in the messages of a body it is: each has a byte that says whether it is compressed, its length in 4 bytes
/// (big-endian), and that many bytes ("gRPC over HTTP2", `Length-Prefixed-Message`).
#[derive(Default)]
struct Messages {
    prefix: [u8; 5],
    /// How many bytes of the prefix have come.
    come: usize,
    /// How many bytes of the message are to come.
    left: usize,
}

impl Messages {
    /// Whether no message has begun that has not ended.
    fn between(&self) -> bool {
        self.come == 0 && self.left == 0
    }

    /// Goes on by these bytes; whether a message ended in them.
    fn advance(&mut self, mut bytes: &[u8]) -> bool {
        let mut ended = false;
        while !bytes.is_empty() {
            if self.left > 0 {
                let taken = self.left.min(bytes.len());
                self.left -= taken;
                bytes = &bytes[taken..];
                ended |= self.left == 0;
                continue;
            }
            self.prefix[self.come] = bytes[0];
            self.come += 1;
            bytes = &bytes[1..];
            if let [_, length @ ..] = self.prefix
                && self.come == self.prefix.len()
            {
                self.come = 0;
                self.left = usize::try_from(u32::from_be_bytes(length)).unwrap_or(usize::MAX);
                ended |= self.left == 0;
            }
        }
        ended
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_end_where_their_lengths_say_however_they_are_cut() {
        let body = [&[0, 0, 0, 0, 3, 9, 9, 9][..], &[0, 0, 0, 0, 0], &[0, 0, 0, 1, 0], &[7; 256]].concat();
        let ends = [8, 13, 13 + 5 + 256];
        for step in 1..body.len() {
            let (mut messages, mut at) = (Messages::default(), 0);
            for piece in body.chunks(step) {
                let ended = messages.advance(piece);
                let passed = at + 1..=at + piece.len();
                at += piece.len();
                assert_eq!(ended, ends.iter().any(|end| passed.contains(end)), "{step} {at}");
                assert_eq!(messages.between(), ends.contains(&at), "{step} {at}");
            }
        }
    }
}
