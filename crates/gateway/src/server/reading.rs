//! Memory for messages while they are read: the tree of one takes many times its bytes.

use super::failure::Failure;
use std::sync::Arc;
use std::time::Duration;
use tally_iso20022::Limits;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Bytes that a piece of a message takes at most, see [`Limits::nodes`].
const NODE: usize = 140;
/// The fewest bytes that a piece of markup has.
const MARKUP: usize = 4;
/// Messages whose trees take more wait for each other, and not before small ones.
const SMALL: usize = 16 << 20;
/// For all small messages at once, and for all large ones, in bytes.
const MAX_SMALL: usize = 256 << 20;
const MAX_LARGE: usize = 384 << 20;

/// The memory that there is.
pub(super) struct Reading {
    small: Arc<Semaphore>,
    large: Arc<Semaphore>,
}

impl Reading {
    pub(super) fn new() -> Self {
        Self { small: Arc::new(Semaphore::new(MAX_SMALL)), large: Arc::new(Semaphore::new(MAX_LARGE)) }
    }

    /// Memory for the tree of a message of so many bytes, held while there is what is returned; waits for it at most so long.
    pub(super) async fn memory(
        &self,
        bytes: usize,
        limit: Duration,
    ) -> Result<OwnedSemaphorePermit, Failure> {
        let tree = tree(bytes);
        let all = if tree > SMALL { &self.large } else { &self.small };
        let share = u32::try_from(tree.min(MAX_LARGE)).unwrap_or(u32::MAX);
        let held = tokio::time::timeout(limit, Arc::clone(all).acquire_many_owned(share)).await;
        held.ok().and_then(Result::ok).ok_or_else(|| {
            Failure::new(503, "AB10", "too many large messages are read at once; send it again later")
        })
    }
}

/// The most bytes that the tree of a message of so many bytes takes.
fn tree(bytes: usize) -> usize {
    let most = usize::try_from(Limits::default().nodes).unwrap_or(usize::MAX);
    (bytes / MARKUP).min(most).saturating_mul(NODE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_messages_wait_for_each_other_and_small_ones_do_not() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let (reading, soon) = (Reading::new(), Duration::from_millis(1));
            let first = reading.memory(16 << 20, soon).await.unwrap();
            assert!(reading.memory(16 << 20, soon).await.is_err());
            let small = reading.memory(100_000, soon).await;
            assert!(small.is_ok());
            drop(first);
            assert!(reading.memory(16 << 20, soon).await.is_ok());
        });
    }

    #[test]
    fn a_tree_fits_what_there_is_for_it() {
        assert!(tree(usize::MAX) <= MAX_LARGE);
        assert_eq!(tree(4000), 140_000);
    }
}
