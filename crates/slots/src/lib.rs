//! Slots of connections: a client keeps its own against newcomers only while the server works for it.
//!
//! Handshake, head, body, and reading the answer go at the client's pace. When all slots are taken, the connection whose client
//! has been waited for longest gives its slot up to a newcomer, strangers before users, so that whoever opens connections
//! and says nothing keeps nobody out. The gateway of settlement and the JSON-RPC server of a chain's node have their
//! connections in such slots.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

/// How long a client is waited for at least: a handshake that goes on is not cut off by a crowd.
const SPARED: Duration = Duration::from_millis(100);

/// The slots there are.
pub struct Slots {
    most: usize,
    held: Mutex<Held>,
    left: Notify,
}

#[derive(Default)]
struct Held {
    count: usize,
    turns: u64,
    /// Whose client is waited for: strangers first, then who waits longest.
    waiting: BTreeMap<Turn, Waiting>,
}

/// When the waiting for a client began, in order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Turn {
    is_user: bool,
    number: u64,
}

struct Waiting {
    since: Instant,
    given_up: Arc<Notify>,
}

/// The slot of one connection.
pub struct Slot {
    slots: Arc<Slots>,
    given_up: Arc<Notify>,
    standing: Mutex<Standing>,
}

struct Standing {
    is_user: bool,
    /// How many of its requests the server works for; over HTTP/2 there are many at once.
    working: usize,
    /// None while the server works for it.
    turn: Option<Turn>,
}

/// The server works for a request as long as there is this.
pub struct Working(Arc<Slot>);

impl Slots {
    /// So many, at least one.
    pub fn new(most: usize) -> Arc<Self> {
        Arc::new(Self { most: most.max(1), held: Mutex::default(), left: Notify::new() })
    }

    /// A slot for a newcomer: a free one, or that of the connection whose client is waited for longest. Waits while the server
    /// works for all of them.
    pub async fn enter(self: &Arc<Self>) -> Arc<Slot> {
        loop {
            let left = self.left.notified();
            match self.try_enter(Instant::now()) {
                Ok(slot) => return slot,
                Err(None) => left.await,
                Err(Some(until)) => tokio::select! {
                    () = left => {}
                    () = sleep_until(until) => {}
                },
            }
        }
    }

    /// A slot, or when the next one can be taken from its client, if there is such a one.
    fn try_enter(self: &Arc<Self>, now: Instant) -> Result<Arc<Slot>, Option<Instant>> {
        let mut held = self.lock();
        if held.count >= self.most {
            let first = held.waiting.first_entry().ok_or(None)?;
            let spared = first.get().since + SPARED;
            if now < spared {
                return Err(Some(spared));
            }
            // It does not count any more, see `Slot::drop`.
            first.remove().given_up.notify_one();
            held.count -= 1;
        }
        held.count += 1;
        let given_up = Arc::new(Notify::new());
        let turn = held.wait(false, &given_up, now);
        let standing = Mutex::new(Standing { is_user: false, working: 0, turn: Some(turn) });
        Ok(Arc::new(Slot { slots: Arc::clone(self), given_up, standing }))
    }

    fn lock(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Held {
    fn wait(&mut self, is_user: bool, given_up: &Arc<Notify>, since: Instant) -> Turn {
        self.turns += 1;
        let turn = Turn { is_user, number: self.turns };
        self.waiting.insert(turn, Waiting { since, given_up: Arc::clone(given_up) });
        turn
    }
}

impl Slot {
    /// Ends when the slot is another's.
    pub async fn given_up(&self) {
        self.given_up.notified().await;
    }

    /// The client belongs to a user.
    pub fn is_users(&self) {
        self.standing().is_user = true;
    }

    /// From now on the server works for one request more. Does not end when the slot is another's: the connection is closed
    /// in a moment.
    pub async fn works(&self) {
        if !self.try_work() {
            std::future::pending::<()>().await;
        }
    }

    /// The server works for a request until what is returned is gone; as [`Self::works`].
    pub async fn working(self: &Arc<Self>) -> Working {
        self.works().await;
        Working(Arc::clone(self))
    }

    /// As [`Self::working`], if the slot is still the connection's.
    pub fn try_working(self: &Arc<Self>) -> Option<Working> {
        self.try_work().then(|| Working(Arc::clone(self)))
    }

    /// From now on the server works for one request less, and when there is none more, the client's pace counts.
    pub fn waits(&self) {
        let mut standing = self.standing();
        standing.working = standing.working.saturating_sub(1);
        if standing.working == 0 && standing.turn.is_none() {
            let turn = self.slots.lock().wait(standing.is_user, &self.given_up, Instant::now());
            standing.turn = Some(turn);
            // Whoever waits for a slot looks when this one can be taken.
            self.slots.left.notify_one();
        }
    }

    fn try_work(&self) -> bool {
        let mut standing = self.standing();
        if let Some(turn) = standing.turn {
            if self.slots.lock().waiting.remove(&turn).is_none() {
                return false;
            }
            standing.turn = None;
        }
        standing.working += 1;
        true
    }

    fn standing(&self) -> MutexGuard<'_, Standing> {
        self.standing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Working {
    fn drop(&mut self) {
        self.0.waits();
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        // A turn that is not there any more: the slot is another's already.
        if self.try_work() {
            self.slots.lock().count -= 1;
            self.slots.left.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn soon(now: Instant) -> Instant {
        now + SPARED
    }

    #[test]
    fn who_is_waited_for_longest_gives_its_slot_up() {
        let (slots, now) = (Slots::new(2), Instant::now());
        let first = slots.try_enter(now).ok().unwrap();
        let second = slots.try_enter(now).ok().unwrap();
        assert_eq!(slots.try_enter(now).err(), Some(Some(soon(now))), "both are spared yet");
        let third = slots.try_enter(soon(now)).ok().unwrap();
        assert!(
            !first.try_work() && second.try_work() && third.try_work(),
            "the first one's is the third one's"
        );
        assert_eq!(slots.try_enter(soon(soon(now))).err(), Some(None), "the server works for both");
        second.waits();
        drop(first);
        assert_eq!(slots.lock().count, 2, "a slot that was given up is not left once more");
        drop(third);
        assert!(slots.try_enter(now).is_ok());
    }

    #[test]
    fn users_outlast_strangers() {
        let (slots, now) = (Slots::new(2), Instant::now());
        let user = slots.try_enter(now).ok().unwrap();
        assert!(user.try_work());
        user.is_users();
        user.waits();
        let stranger = slots.try_enter(now).ok().unwrap();
        let later = soon(Instant::now());
        let newcomer = slots.try_enter(later).ok().unwrap();
        assert!(!stranger.try_work() && user.try_work());
        user.waits();
        assert!(newcomer.try_work());
        assert!(slots.try_enter(soon(soon(later))).is_ok(), "a user who is waited for gives way as the last");
        assert!(!user.try_work());
    }

    #[test]
    fn a_connection_works_until_its_last_request_is_answered() {
        let (slots, now) = (Slots::new(1), Instant::now());
        let slot = slots.try_enter(now).ok().unwrap();
        let (one, two) = (slot.try_working(), slot.try_working());
        drop(one);
        assert_eq!(slots.try_enter(soon(soon(Instant::now()))).err(), Some(None));
        drop(two);
        assert!(slots.try_enter(soon(soon(Instant::now()))).is_ok());
    }
}
