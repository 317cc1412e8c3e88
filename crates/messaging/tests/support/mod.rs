//! Nodes, hostile peers and a bad line, for the tests of delivery.
#![allow(dead_code, unreachable_pub, reason = "each test file uses a part")]

pub mod authority;
pub mod line;
pub mod past;
pub mod raw;
pub mod store;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tally_contracts::Name;
use tally_messaging::{Bytes, ConnectionError, Directory, Messaging, Node, QueueId, Reason, Settings};

use authority::{Authority, Credentials};
use past::Past;
use store::{Life, Store};

pub fn name(organisation: &str) -> Name {
    format!("O={organisation}, L=London, C=GB").parse().unwrap()
}

/// Fails a test that hangs.
pub async fn within<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(30), what).await.expect("it takes too long")
}

/// Short times, so that a test of a limit takes no longer than the limit.
pub fn settings() -> Settings {
    Settings {
        retry_floor: Duration::from_millis(1),
        retry_ceiling: Duration::from_millis(20),
        acknowledge_delay: Duration::ZERO,
        ..Settings::default()
    }
}

#[derive(Default)]
pub struct Addresses(Mutex<HashMap<Name, Vec<String>>>);

impl Addresses {
    pub fn set(&self, name: &Name, address: impl ToString) {
        self.0.lock().unwrap().insert(name.clone(), vec![address.to_string()]);
    }

    pub fn remove(&self, name: &Name) {
        self.0.lock().unwrap().remove(name);
    }
}

impl Directory for Addresses {
    fn addresses(&self, peer: &Name) -> Option<Vec<String>> {
        self.0.lock().unwrap().get(peer).cloned()
    }
}

/// A network of nodes in one process.
pub struct Network {
    pub authority: Authority,
    pub directory: Arc<Addresses>,
}

impl Network {
    pub fn new() -> Self {
        Self { authority: Authority::new(), directory: Arc::default() }
    }

    pub async fn node(&self, organisation: &str) -> Party {
        self.node_with(organisation, settings()).await
    }

    pub async fn node_with(&self, organisation: &str, settings: Settings) -> Party {
        let name = name(organisation);
        let credentials = self.authority.credentials(&name);
        let party = Party::start(name, Store::new(), credentials, self, settings, true).await;
        self.directory.set(&party.name, party.messaging.local_addr());
        party
    }
}

pub struct Party {
    pub name: Name,
    pub queue: QueueId,
    pub store: Arc<Store>,
    pub life: Arc<Life>,
    pub past: Arc<Past>,
    pub credentials: Arc<Credentials>,
    pub messaging: Arc<Messaging>,
}

impl Party {
    pub async fn start(
        name: Name,
        store: Arc<Store>,
        credentials: Arc<Credentials>,
        network: &Network,
        settings: Settings,
        automatic: bool,
    ) -> Self {
        let life = Life::new(&store, automatic);
        let random = AtomicU64::new(1);
        let queue = QueueId([7; 16]);
        let past = Past::new(queue);
        let node = Node {
            tls: credentials.clone(),
            directory: network.directory.clone(),
            inbox: life.clone(),
            outbox: store.clone(),
            acquaintance: past.clone(),
            random: Arc::new(move || random.fetch_add(0x9e37_79b9_7f4a_7c15, Relaxed)),
        };
        let messaging = Arc::new(Messaging::start(settings, node).await.unwrap());
        life.bind(&messaging);
        Self { name, queue, store, life, past, credentials, messaging }
    }

    pub fn send(&self, peer: &Name, bytes: &[u8]) -> u64 {
        let number = self.store.put(peer, bytes);
        self.messaging.send(peer, number, Bytes::copy_from_slice(bytes));
        number
    }

    /// Waits until messaging stands as wished.
    pub async fn until(&self, wish: impl Fn(&Messaging) -> bool) {
        let mut changes = self.messaging.changes();
        while !wish(&self.messaging) {
            changes.changed().await.unwrap();
        }
    }

    /// Waits until this many messages of a peer are durable here.
    pub async fn until_received(&self, from: &Party, count: usize) {
        let key = (from.name.clone(), from.queue);
        self.store.until(|state| state.received.get(&key).is_some_and(|held| held.len() >= count)).await;
    }

    /// Waits until this many messages of a peer are accepted in this life, durable or not.
    pub async fn until_accepted(&self, from: &Party, count: u64) {
        use tally_messaging::Inbox;
        self.store.until_changed(|| self.life.position(&from.name, from.queue).accepted >= count).await;
    }

    pub async fn until_acknowledged(&self, by: &Name, number: u64) {
        self.store.until(|state| state.acknowledged.get(by).is_some_and(|held| *held >= number)).await;
    }

    pub fn received(&self, from: &Party) -> Vec<Vec<u8>> {
        self.store.received_from(&from.name, from.queue)
    }

    /// Waits until the way to a peer fails, and returns why.
    pub async fn problem(&self, peer: &Name) -> Arc<ConnectionError> {
        let problem = || self.messaging.peer(peer).outbound.and_then(|outbound| outbound.problem);
        self.until(|_| problem().is_some()).await;
        problem().unwrap()
    }

    /// Waits until a connection to this node is refused for this reason.
    pub async fn refusal(&self, reason: Reason) -> Arc<ConnectionError> {
        let find = || {
            let refusals = self.messaging.refusals();
            refusals.into_iter().find(|refused| refused.error.reason() == Some(reason))
        };
        self.until(|_| find().is_some()).await;
        find().unwrap().error
    }

    pub fn counted(&self, reason: Reason) -> u64 {
        let refused = self.messaging.metrics().refused;
        refused.iter().find(|(known, _)| *known == reason).map_or(0, |(_, count)| *count)
    }
}
