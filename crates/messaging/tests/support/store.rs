//! A store of messages in memory, of which one part survives a restart and the other does not.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, Weak};

use tally_contracts::Name;
use tally_messaging::{Bytes, Cause, Inbox, Messaging, Outbox, Position, QueueId, Refusal};
use tokio::sync::watch;

/// Messages by sender and queue; number 1 first.
pub type Received = HashMap<(Name, QueueId), Vec<Vec<u8>>>;

/// What survives.
pub struct Store {
    state: Mutex<State>,
    changes: watch::Sender<u64>,
}

#[derive(Default)]
pub struct State {
    /// All messages ever sent, by peer; number 1 first.
    pub sent: HashMap<Name, Vec<Vec<u8>>>,
    pub acknowledged: HashMap<Name, u64>,
    /// All messages ever made durable.
    pub received: Received,
    /// How often the outbox was read.
    pub reads: usize,
    /// The outbox fails.
    pub broken: bool,
}

impl Store {
    pub fn new() -> Arc<Self> {
        Arc::new(Self { state: Mutex::default(), changes: watch::Sender::new(0) })
    }

    pub fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// Makes a message durable; returns its number.
    pub fn put(&self, peer: &Name, bytes: &[u8]) -> u64 {
        let mut state = self.state();
        let sent = state.sent.entry(peer.clone()).or_default();
        sent.push(bytes.to_vec());
        sent.len() as u64
    }

    pub fn acknowledged_by(&self, peer: &Name) -> u64 {
        self.state().acknowledged.get(peer).copied().unwrap_or(0)
    }

    pub fn received_from(&self, peer: &Name, queue: QueueId) -> Vec<Vec<u8>> {
        self.state().received.get(&(peer.clone(), queue)).cloned().unwrap_or_default()
    }

    fn changed(&self) {
        self.changes.send_modify(|count| *count += 1);
    }

    /// Waits until the store is as wished.
    pub async fn until(&self, wish: impl Fn(&State) -> bool) {
        self.until_changed(|| wish(&self.state())).await;
    }

    pub async fn until_changed(&self, wish: impl Fn() -> bool) {
        let mut changes = self.changes.subscribe();
        while !wish() {
            changes.changed().await.unwrap();
        }
    }
}

impl Outbox for Store {
    fn last(&self, peer: &Name) -> Result<u64, Cause> {
        let state = self.state();
        if state.broken {
            return Err("the database is gone".into());
        }
        Ok(state.sent.get(peer).map_or(0, |sent| sent.len() as u64))
    }

    fn after(&self, peer: &Name, number: u64, limit: usize) -> Result<Vec<(u64, Vec<u8>)>, Cause> {
        let mut state = self.state();
        if state.broken {
            return Err("the database is gone".into());
        }
        state.reads += 1;
        let acknowledged = state.acknowledged.get(peer).copied().unwrap_or(0);
        let mut room = limit;
        let kept = state.sent.get(peer).into_iter().flatten().zip(1..);
        let kept = kept.filter(|(_, n)| *n > number && *n > acknowledged);
        let taken = kept.take_while(|(bytes, _)| {
            let fits = room > 0;
            room = room.saturating_sub(bytes.len());
            fits
        });
        Ok(taken.map(|(bytes, n)| (n, bytes.clone())).collect())
    }

    fn acknowledged(&self, peer: &Name, _: QueueId, up_to: u64) {
        let mut state = self.state();
        assert!(up_to <= state.sent.get(peer).map_or(0, |sent| sent.len() as u64), "acknowledged unsent");
        let acknowledged = state.acknowledged.entry(peer.clone()).or_default();
        *acknowledged = up_to.max(*acknowledged);
        drop(state);
        self.changed();
    }
}

/// One life of a receiving process: what is accepted and not committed is lost with it.
pub struct Life {
    store: Arc<Store>,
    messaging: OnceLock<Weak<Messaging>>,
    volatile: Mutex<Received>,
    /// Peers whose messages find no room.
    pub busy: Mutex<HashSet<Name>>,
    /// Accepting makes durable at once.
    automatic: bool,
}

impl Life {
    pub fn new(store: &Arc<Store>, automatic: bool) -> Arc<Self> {
        let (messaging, volatile, busy) = Default::default();
        Arc::new(Self { store: Arc::clone(store), messaging, volatile, busy, automatic })
    }

    pub fn bind(&self, messaging: &Arc<Messaging>) {
        self.messaging.set(Arc::downgrade(messaging)).unwrap();
    }

    /// Makes everything accepted durable, and acknowledges it.
    pub fn commit(&self) {
        for ((peer, queue), messages) in self.volatile.lock().unwrap().drain() {
            let mut state = self.store.state();
            let received = state.received.entry((peer.clone(), queue)).or_default();
            received.extend(messages);
            let up_to = received.len() as u64;
            drop(state);
            if let Some(messaging) = self.messaging.get().and_then(Weak::upgrade) {
                messaging.acknowledge(&peer, queue, up_to);
            }
        }
        self.store.changed();
    }
}

impl Inbox for Life {
    fn position(&self, peer: &Name, queue: QueueId) -> Position {
        let volatile = self.volatile.lock().unwrap();
        let key = (peer.clone(), queue);
        let durable = self.store.state().received.get(&key).map_or(0, |received| received.len() as u64);
        Position { accepted: durable + volatile.get(&key).map_or(0, |held| held.len() as u64), durable }
    }

    fn receive(&self, peer: &Name, queue: QueueId, messages: &mut Vec<(u64, Bytes)>) -> Result<(), Refusal> {
        let accepted = self.position(peer, queue).accepted;
        if self.busy.lock().unwrap().contains(peer) {
            return Err(Refusal::Busy);
        }
        let mut volatile = self.volatile.lock().unwrap();
        let held = volatile.entry((peer.clone(), queue)).or_default();
        for ((number, bytes), due) in messages.drain(..).zip(accepted + 1..) {
            assert_eq!(number, due, "messages come in order, without gap or repeat");
            if bytes == "refuse me" {
                return Err(Refusal::Invalid("a message that says `refuse me`".to_owned()));
            }
            held.push(bytes.to_vec());
        }
        drop(volatile);
        if self.automatic {
            self.commit();
        } else {
            self.store.changed();
        }
        Ok(())
    }
}
