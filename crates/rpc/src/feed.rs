use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use futures_util::Stream;

use crate::refusal::{Refusal, RefusalCode};

/// Where a node puts what a client follows. Bounded; offering never waits: a client that does not keep up loses the
/// feed, and learns why, and the node goes on.
#[derive(Debug)]
pub struct Feed<T>(Arc<Shared<T>>);

/// The client's end of a [`Feed`]: a stream of items that ends with the reason why there are no more.
#[derive(Debug)]
pub struct FeedReader<T>(Arc<Shared<T>>);

/// Why a feed takes nothing any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FeedClosed {
    /// The buffer was full; the client is being told that it was too slow.
    #[error("the client does not keep up")]
    Slow,
    /// The client went away.
    #[error("the client is gone")]
    Gone,
}

#[derive(Debug)]
struct Shared<T>(Mutex<State<T>>);

#[derive(Debug)]
struct State<T> {
    items: VecDeque<T>,
    capacity: usize,
    end: Option<Refusal>,
    slow: bool,
    reader_gone: bool,
    waker: Option<Waker>,
}

impl<T> Shared<T> {
    // No code that can panic runs under the lock, so a poisoned one is still whole.
    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Feed<T> {
    /// A feed that holds at most `capacity` items (at least one) that its reader has not taken.
    pub fn pair(capacity: usize) -> (Self, FeedReader<T>) {
        let state = State {
            items: VecDeque::new(),
            capacity: capacity.max(1),
            end: None,
            slow: false,
            reader_gone: false,
            waker: None,
        };
        let shared = Arc::new(Shared(Mutex::new(state)));
        (Self(shared.clone()), FeedReader(shared))
    }

    /// Puts an item into the feed without waiting. After an error the feed takes nothing any more and is best
    /// dropped.
    pub fn offer(&self, item: T) -> Result<(), FeedClosed> {
        let mut state = self.0.lock();
        if state.reader_gone {
            return Err(FeedClosed::Gone);
        }
        if state.slow {
            return Err(FeedClosed::Slow);
        }
        let waker = state.waker.take();
        let dropped = if state.items.len() == state.capacity {
            state.slow = true;
            state.end = Some(Refusal::new(
                RefusalCode::ClientSlow,
                format!(
                    "{} items waited for this client, as many as the node keeps; follow again, and read faster",
                    state.capacity
                ),
            ));
            // What waited is of no use with a gap behind it, and need not take memory until the client reads.
            Some(std::mem::take(&mut state.items))
        } else {
            state.items.push_back(item);
            None
        };
        let slow = state.slow;
        drop(state);
        drop(dropped);
        if let Some(waker) = waker {
            waker.wake();
        }
        if slow { Err(FeedClosed::Slow) } else { Ok(()) }
    }

    /// Ends the feed: the client gets what waits for it and then this reason.
    pub fn close(self, reason: Refusal) {
        self.0.lock().end.get_or_insert(reason);
    }

    /// Whether the client went away or was too slow.
    pub fn is_closed(&self) -> bool {
        let state = self.0.lock();
        state.reader_gone || state.slow
    }
}

impl<T> Drop for Feed<T> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.end.get_or_insert_with(|| {
            Refusal::new(RefusalCode::Unavailable, "the node stopped following this; ask again")
        });
        let waker = state.waker.take();
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl<T> FeedReader<T> {
    /// The next item; after the last the reason why the feed ended, each time.
    pub fn poll_take(&mut self, context: &mut Context<'_>) -> Poll<Result<T, Refusal>> {
        let mut state = self.0.lock();
        if let Some(item) = state.items.pop_front() {
            return Poll::Ready(Ok(item));
        }
        if let Some(end) = &state.end {
            return Poll::Ready(Err(end.clone()));
        }
        match &mut state.waker {
            Some(waker) => waker.clone_from(context.waker()),
            none => *none = Some(context.waker().clone()),
        }
        Poll::Pending
    }
}

/// Yields items, then never ends: the reason repeats. Take from it until the first error.
impl<T> Stream for FeedReader<T> {
    type Item = Result<T, Refusal>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.poll_take(context).map(Some)
    }
}

impl<T> Drop for FeedReader<T> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.reader_gone = true;
        let items = std::mem::take(&mut state.items);
        drop(state);
        drop(items);
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use super::*;

    fn take<T>(reader: &mut FeedReader<T>) -> Option<Result<T, Refusal>> {
        let mut context = Context::from_waker(Waker::noop());
        match pin!(reader).poll_take(&mut context) {
            Poll::Ready(item) => Some(item),
            Poll::Pending => None,
        }
    }

    #[test]
    fn a_reader_that_keeps_up_gets_everything_in_order_and_then_the_reason() {
        let (feed, mut reader) = Feed::pair(2);
        for n in 0..10 {
            assert_eq!(feed.offer(n), Ok(()));
            assert_eq!(feed.offer(n + 100), Ok(()));
            assert_eq!(take(&mut reader), Some(Ok(n)));
            assert_eq!(take(&mut reader), Some(Ok(n + 100)));
            assert_eq!(take(&mut reader), None);
        }
        assert_eq!(feed.offer(7), Ok(()));
        feed.close(Refusal::new(RefusalCode::Internal, "because"));
        assert_eq!(take(&mut reader), Some(Ok(7)));
        assert_eq!(take(&mut reader), Some(Err(Refusal::new(RefusalCode::Internal, "because"))));
    }

    #[test]
    fn a_slow_reader_loses_the_feed_and_learns_why() {
        let (feed, mut reader) = Feed::pair(2);
        assert_eq!(feed.offer(1), Ok(()));
        assert_eq!(feed.offer(2), Ok(()));
        assert_eq!(feed.offer(3), Err(FeedClosed::Slow));
        assert_eq!(feed.offer(4), Err(FeedClosed::Slow));
        assert!(feed.is_closed());
        let code = take(&mut reader).and_then(Result::err).map(|refusal| refusal.code);
        assert_eq!(code, Some(RefusalCode::ClientSlow));
    }

    #[test]
    fn a_dropped_end_is_seen_at_the_other() {
        let (feed, reader) = Feed::pair(2);
        drop(reader);
        assert_eq!(feed.offer(1), Err(FeedClosed::Gone));
        let (feed, mut reader) = Feed::<u8>::pair(2);
        drop(feed);
        let code = take(&mut reader).and_then(Result::err).map(|refusal| refusal.code);
        assert_eq!(code, Some(RefusalCode::Unavailable));
    }
}
