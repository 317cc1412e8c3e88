//! Why something could not be sent, and requests that wait for their answer.

use crate::frame::Unanswered;
use crate::session::Session;
use alloy_primitives::Address;
use bytes::Bytes;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::time::Sleep;

/// Why a message was not sent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// There is no session with the peer.
    #[error("there is no session with {peer}")]
    NotConnected {
        /// The peer.
        peer: Address,
    },
    /// The peer has not taken in the bulk that was sent before: send less, or later.
    #[error("{peer} takes in bulk too slowly: there is no room for more now")]
    Full {
        /// The peer.
        peer: Address,
    },
    /// The peer has not taken in the urgent messages that were sent before, and is disconnected.
    #[error("{peer} takes in urgent messages too slowly and was disconnected")]
    Slow {
        /// The peer.
        peer: Address,
    },
    /// Longer than the kind allows.
    #[error("a message of kind {kind:#04x} has at most {longest} bytes, this one has {found}")]
    Long {
        /// The kind.
        kind: u8,
        /// Bytes allowed.
        longest: u32,
        /// Bytes found.
        found: usize,
    },
    /// Not a kind of the protocol, or not one that is sent in this way.
    #[error("kind {kind:#04x} is not sent in this way")]
    Kind {
        /// The kind.
        kind: u8,
    },
}

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// The request was not sent.
    #[error(transparent)]
    Send(#[from] SendError),
    /// Not in time.
    #[error("no answer came in time")]
    Timeout,
    /// The peer will not answer.
    #[error("the peer gives no answer: {0}")]
    Unanswered(Unanswered),
    /// The session ended first.
    #[error("the session ended before the answer came")]
    Disconnected,
}

/// A request that was sent: a future of the answer. When it is dropped, the answer is no longer waited
/// for.
pub struct Pending {
    state: State,
    handle: Handle,
}

enum State {
    Failed(Option<SendError>),
    Sent {
        answer: oneshot::Receiver<Result<Bytes, RequestError>>,
        timeout: Pin<Box<Sleep>>,
        session: Arc<Session>,
        number: u64,
    },
}

impl Pending {
    pub(crate) const fn failed(error: SendError, handle: Handle) -> Self {
        Self { state: State::Failed(Some(error)), handle }
    }

    pub(crate) const fn sent(
        answer: oneshot::Receiver<Result<Bytes, RequestError>>,
        timeout: Pin<Box<Sleep>>,
        session: Arc<Session>,
        number: u64,
        handle: Handle,
    ) -> Self {
        Self { state: State::Sent { answer, timeout, session, number }, handle }
    }

    /// Waits for the answer, on a thread that is not the runtime's.
    ///
    /// # Errors
    /// [`RequestError`].
    ///
    /// # Panics
    /// On a thread of an asynchronous runtime, which must not be held up.
    pub fn wait(self) -> Result<Bytes, RequestError> {
        self.handle.clone().block_on(self)
    }

    /// Waits for the answer as [`wait`](Self::wait), for so long at most; `None` when it has not come yet.
    ///
    /// # Panics
    /// As [`wait`](Self::wait).
    pub fn wait_for(&mut self, time: Duration) -> Option<Result<Bytes, RequestError>> {
        self.handle.clone().block_on(async { tokio::time::timeout(time, &mut *self).await.ok() })
    }
}

impl Future for Pending {
    type Output = Result<Bytes, RequestError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut self.state {
            State::Failed(error) => {
                Poll::Ready(Err(error.take().map_or(RequestError::Disconnected, Into::into)))
            }
            State::Sent { answer, timeout, .. } => {
                if let Poll::Ready(answer) = Pin::new(answer).poll(context) {
                    return Poll::Ready(answer.unwrap_or(Err(RequestError::Disconnected)));
                }
                timeout.as_mut().poll(context).map(|()| Err(RequestError::Timeout))
            }
        }
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        if let State::Sent { session, number, .. } = &self.state {
            session.forget(*number);
        }
    }
}

impl fmt::Debug for Pending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pending").finish_non_exhaustive()
    }
}
