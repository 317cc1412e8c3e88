//! What a stream answers with, in order, until it ends.

use crate::grpc::wire::SubmitResponse;
use futures_util::Stream;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker, ready};
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tonic::Status;

/// What a request holds until its response is taken by the connection.
pub(super) struct Held {
    pub(super) _place: OwnedSemaphorePermit,
    pub(super) memory: Option<OwnedSemaphorePermit>,
}

/// A response, or how the stream ends.
pub(super) type Next = Result<(SubmitResponse, Held), Status>;

/// The responses of a stream, as its connection takes them.
pub(in crate::server) struct Answers(Outlet);

/// The same from the other side: what waits to be taken can be thrown away, also when the connection takes nothing.
#[derive(Clone)]
pub(super) struct Outlet(Arc<Mutex<Shared>>);

struct Shared {
    next: Option<mpsc::Receiver<Next>>,
    cut: Option<Status>,
    taken: u64,
    waker: Option<Waker>,
}

impl Answers {
    pub(super) fn new(next: mpsc::Receiver<Next>) -> (Self, Outlet) {
        let shared = Shared { next: Some(next), cut: None, taken: 0, waker: None };
        let outlet = Outlet(Arc::new(Mutex::new(shared)));
        (Self(outlet.clone()), outlet)
    }
}

impl Outlet {
    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the stream with that status, whatever waits.
    pub(super) fn cut(&self, status: Status) {
        let mut shared = self.lock();
        shared.next = None;
        shared.cut = Some(status);
        if let Some(waker) = shared.waker.take() {
            waker.wake();
        }
    }

    /// How many responses wait, and how many were taken before.
    pub(super) fn progress(&self) -> (usize, u64) {
        let shared = self.lock();
        (shared.next.as_ref().map_or(0, mpsc::Receiver::len), shared.taken)
    }
}

impl Stream for Answers {
    type Item = Result<SubmitResponse, Status>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let mut shared = self.0.lock();
        if let Some(status) = shared.cut.take() {
            return Poll::Ready(Some(Err(status)));
        }
        shared.waker = Some(context.waker().clone());
        let Some(next) = &mut shared.next else { return Poll::Ready(None) };
        let next = ready!(next.poll_recv(context));
        shared.taken += 1;
        // What the request held is free now: the connection has room for its response.
        Poll::Ready(next.map(|next| next.map(|(response, _)| response)))
    }
}

impl Drop for Answers {
    fn drop(&mut self) {
        self.0.lock().next = None;
    }
}
