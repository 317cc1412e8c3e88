//! Turns at work that others wait for: so many at once, and of each institution fewer, so that none keeps the others waiting.

use super::failure::Failure;
use crate::access::{Scope, User};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore};

/// The turns there are.
pub(super) struct Turns {
    all: Arc<Semaphore>,
    /// How many one institution may have; the operator counts as one.
    most_of_one: usize,
    /// There are no more than participants.
    of: Mutex<HashMap<Scope, Arc<Semaphore>>>,
}

/// A turn; it ends when this goes.
pub(super) struct Turn {
    _own: OwnedSemaphorePermit,
    _all: OwnedSemaphorePermit,
}

impl Turns {
    pub(super) fn new(most: usize, most_of_one: usize) -> Self {
        Self { all: Arc::new(Semaphore::new(most)), most_of_one, of: Mutex::default() }
    }

    /// A turn for the user's institution; waits for it at most so long. Whoever waits for one of its own institution's
    /// is not in the row of the others.
    pub(super) async fn take(&self, user: &User, limit: Duration) -> Result<Turn, Failure> {
        let own = {
            let mut of = self.of.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(of.entry(user.scope).or_insert_with(|| Arc::new(Semaphore::new(self.most_of_one))))
        };
        let turn = async {
            let own = own.acquire_owned().await?;
            Ok::<_, AcquireError>(Turn { _own: own, _all: Arc::clone(&self.all).acquire_owned().await? })
        };
        let taken = tokio::time::timeout(limit, turn).await;
        taken.ok().and_then(Result::ok).ok_or_else(|| {
            let text = "too much is asked for by this institution, or by all; ask again later";
            Failure::new(503, "AB10", text).retry_after(1)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::tests::user_of;

    #[test]
    fn an_institution_keeps_the_others_from_nothing() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let (turns, soon) = (Turns::new(3, 1), Duration::from_millis(5));
            let [alpha, beta, operator] = ["ALPHDEFF", "TSCBDEFF", ""].map(user_of);
            let held = turns.take(&alpha, soon).await.unwrap();
            let waits: Vec<_> = (0..20).map(|_| turns.take(&alpha, Duration::from_secs(60))).collect();
            let crowd = tokio::time::timeout(soon, futures_util::future::join_all(waits));
            let (crowd, other, one) =
                tokio::join!(crowd, turns.take(&beta, soon), turns.take(&operator, soon));
            assert!(
                crowd.is_err() && other.is_ok() && one.is_ok(),
                "a crowd of one's own keeps nobody else waiting"
            );
            let refused = turns.take(&alpha, soon).await.err().unwrap();
            assert_eq!((refused.status(), refused.retry_after_seconds()), (503, Some(1)));
            drop(held);
            assert!(turns.take(&alpha, soon).await.is_ok(), "and it is served again");
        });
    }
}
