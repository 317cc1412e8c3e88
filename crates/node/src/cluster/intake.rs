//! What waits for the replica, from each member in turn.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use alloy_primitives::Address;
use tally_notary::{Inbox, Input, Told};
use tokio::sync::Notify;

use crate::desk::lock;

/// Inputs that may wait of one source.
const INPUTS: usize = 4_096;

/// Inputs of each member and of this node itself.
///
/// A source that says too much waits itself: its link is not read while its share is full. Of those
/// that have something here, the one that has cost the host's thread least time is next, so that a
/// member that floods gets no more of the thread than any other that has something to say.
pub(super) struct Intake {
    /// Bytes that may wait of one source; one input always may.
    bytes: usize,
    state: Mutex<State>,
    ready: Condvar,
    room: BTreeMap<Address, Notify>,
}

struct State {
    queues: BTreeMap<Address, Queue>,
    /// Members that are connected, or no longer, and whose replica has not heard of it.
    links: BTreeMap<Address, bool>,
    ended: bool,
}

#[derive(Default)]
struct Queue {
    inputs: VecDeque<(Input, usize)>,
    bytes: usize,
    /// Time of the host's thread that went into its inputs; never less than that of a source that
    /// was served while it had nothing here.
    spent: Duration,
}

impl Intake {
    /// `sources` are all members, this node with them.
    pub(super) fn new(sources: impl IntoIterator<Item = Address>, bytes: usize) -> Self {
        let sources: Vec<Address> = sources.into_iter().collect();
        Self {
            bytes,
            state: Mutex::new(State {
                queues: sources.iter().map(|source| (*source, Queue::default())).collect(),
                links: BTreeMap::new(),
                ended: false,
            }),
            ready: Condvar::new(),
            room: sources.iter().map(|source| (*source, Notify::new())).collect(),
        }
    }

    /// Takes an input of `bytes` if its source has room for it; gives it back otherwise. Once the
    /// host has ended, nothing waits any more.
    pub(super) fn offer(&self, source: Address, input: Input, bytes: usize) -> Result<(), Box<Input>> {
        let mut state = lock(&self.state);
        if state.ended {
            return Ok(());
        }
        let least = state.queues.values().filter(|queue| !queue.inputs.is_empty()).map(|queue| queue.spent);
        let least = least.min();
        let Some(queue) = state.queues.get_mut(&source) else { return Err(Box::new(input)) };
        let full =
            queue.inputs.len() >= INPUTS || !queue.inputs.is_empty() && queue.bytes + bytes > self.bytes;
        if full {
            return Err(Box::new(input));
        }
        if queue.inputs.is_empty() {
            queue.spent = queue.spent.max(least.unwrap_or_default());
        }
        queue.bytes += bytes;
        queue.inputs.push_back((input, bytes));
        drop(state);
        self.ready.notify_one();
        Ok(())
    }

    /// As [`Self::offer`], and waits for room. One waits for each source at a time.
    pub(super) async fn put(&self, source: Address, mut input: Input, bytes: usize) {
        let Some(room) = self.room.get(&source) else { return };
        while let Err(back) = self.offer(source, input, bytes) {
            input = *back;
            room.notified().await;
        }
    }

    /// A member is connected, or no longer.
    pub(super) fn link(&self, member: Address, connected: bool) {
        lock(&self.state).links.insert(member, connected);
        self.ready.notify_one();
    }

    /// The host is to end, or has.
    pub(super) fn end(&self) {
        let mut state = lock(&self.state);
        state.ended = true;
        state.queues.values_mut().for_each(|queue| *queue = Queue::default());
        drop(state);
        self.ready.notify_all();
        self.room.values().for_each(Notify::notify_one);
    }

    /// The host's end of it.
    pub(super) fn inbox(self: &Arc<Self>) -> Turns {
        Turns { intake: Arc::clone(self), served: None }
    }
}

/// Takes inputs out, and notes what they cost.
pub(super) struct Turns {
    intake: Arc<Intake>,
    /// Whose input the host's thread is at, and since when.
    served: Option<(Address, Instant)>,
}

impl Turns {
    fn take(state: &mut State) -> Option<(Address, Input)> {
        let waiting = state.queues.iter_mut().filter(|(_, queue)| !queue.inputs.is_empty());
        let (source, queue) = waiting.min_by_key(|(_, queue)| queue.spent)?;
        let (input, bytes) = queue.inputs.pop_front()?;
        queue.bytes -= bytes;
        Some((*source, input))
    }
}

impl Inbox for Turns {
    fn next(&mut self, wait: Duration) -> Option<Told> {
        let until = Instant::now() + wait;
        let mut state = lock(&self.intake.state);
        if let Some((source, since)) = self.served.take()
            && let Some(queue) = state.queues.get_mut(&source)
        {
            queue.spent += since.elapsed();
        }
        loop {
            if state.ended {
                return Some(Told::Stop);
            }
            if let Some((member, connected)) = state.links.pop_first() {
                let input = if connected { Input::Connected(member) } else { Input::Disconnected(member) };
                return Some(Told::Input(input));
            }
            if let Some((source, input)) = Self::take(&mut state) {
                drop(state);
                if let Some(room) = self.intake.room.get(&source) {
                    room.notify_one();
                }
                self.served = Some((source, Instant::now()));
                return Some(Told::Input(input));
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return None;
            }
            state = self.intake.ready.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(n: u8) -> Address {
        Address::repeat_byte(n)
    }

    fn message(n: u8, byte: u8) -> Input {
        Input::Message { from: member(n), bytes: vec![byte] }
    }

    fn from(told: Option<Told>) -> Option<(Address, u8)> {
        match told {
            Some(Told::Input(Input::Message { from, bytes })) => Some((from, bytes[0])),
            None => None,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn who_floods_waits_and_costs_the_others_no_turn() {
        let intake = Arc::new(Intake::new([1, 2].map(member), 100));
        for byte in 0..10 {
            intake.offer(member(1), message(1, byte), 10).expect("room");
        }
        assert!(intake.offer(member(1), message(1, 10), 10).is_err(), "its share is full");
        let mut inbox = intake.inbox();
        let mut next = || {
            let next = from(inbox.next(Duration::ZERO));
            // What the host does with it takes its time.
            std::thread::sleep(Duration::from_millis(5));
            next
        };
        assert_eq!(next(), Some((member(1), 0)));
        intake.offer(member(2), message(2, 0), 10).expect("a share of its own");
        intake.offer(member(2), message(2, 1), 10).expect("a share of its own");
        assert_eq!(next(), Some((member(2), 0)), "it has cost nothing yet");
        let both = [next(), next()];
        assert!(both.contains(&Some((member(2), 1))), "{both:?}");
        for _ in 0..8 {
            assert_eq!(next().expect("one more").0, member(1));
        }
        assert_eq!(next(), None);
        // One larger than the share passes alone.
        intake.offer(member(1), message(1, 0), 1_000).expect("alone");
        assert!(intake.offer(member(1), message(1, 0), 1).is_err());
    }

    #[tokio::test]
    async fn a_source_that_waits_for_room_goes_on_and_an_end_frees_it() {
        let intake = Arc::new(Intake::new([member(1)], 10));
        intake.offer(member(1), message(1, 0), 10).expect("room");
        let waits = {
            let intake = Arc::clone(&intake);
            tokio::spawn(async move {
                for byte in 1..=3 {
                    intake.put(member(1), message(1, byte), 10).await;
                }
            })
        };
        let mut inbox = intake.inbox();
        for byte in 0..2 {
            let told = loop {
                tokio::task::yield_now().await;
                match from(inbox.next(Duration::ZERO)) {
                    None => {}
                    told => break told,
                }
            };
            assert_eq!(told, Some((member(1), byte)));
        }
        intake.end();
        waits.await.expect("it has ended");
        assert!(matches!(inbox.next(Duration::ZERO), Some(Told::Stop)));
    }

    #[test]
    fn of_links_only_the_present_state_is_told() {
        let intake = Arc::new(Intake::new([member(1)], 10));
        for _ in 0..1_000 {
            intake.link(member(1), true);
            intake.link(member(1), false);
        }
        let mut inbox = intake.inbox();
        assert!(matches!(inbox.next(Duration::ZERO), Some(Told::Input(Input::Disconnected(_)))));
        assert!(inbox.next(Duration::ZERO).is_none());
    }
}
