//! What WebSockets are told: `eth_subscribe` to heads, logs, waiting transactions and the state of synchronisation.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use alloy_primitives::B256;
use tally_chain::blocks::{Filter, FullBlock};
use tally_chain::{Event, Node};
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;

use super::blocks::placed;
use super::client;
use crate::error::RpcError;
use crate::params::{LogQuery, Params};
use crate::server::{Sink, Subscriptions};
use crate::write;

/// Everyone who listens, by what for.
#[derive(Debug, Default)]
pub(super) struct Hub {
    heads: Mutex<Vec<Sink>>,
    logs: Mutex<Vec<(Filter, Sink)>>,
    hashes: Mutex<Vec<Sink>>,
    syncing: Mutex<Vec<Sink>>,
    /// What was last told of the state of synchronisation, so that it is told again only when it has changed.
    stands: Mutex<Vec<u8>>,
}

/// How often it is looked how far a node is behind.
const LOOK: Duration = Duration::from_millis(500);

impl Hub {
    fn new() -> Self {
        Self { stands: Mutex::new(b"false".to_vec()), ..Self::default() }
    }

    /// Listens to the node, on threads that end with its channels, and looks how far it is behind while it runs.
    pub(super) fn start(node: &Node) -> Arc<dyn Subscriptions> {
        let hub = Arc::new(Self::new());
        let (events, pending) = (node.chain().subscribe(), node.subscribe_pending());
        let (first, second) = (hub.clone(), hub.clone());
        let (third, watched) = (hub.clone(), node.downgrade());
        let look = move || {
            while let Some(node) = watched.upgrade() {
                third.look(&node);
                drop(node);
                std::thread::sleep(LOOK);
            }
        };
        let threads = [
            std::thread::Builder::new()
                .name("jsonrpc-heads".into())
                .spawn(move || listen(events, |event| first.event(&event))),
            std::thread::Builder::new()
                .name("jsonrpc-pending".into())
                .spawn(move || listen(pending, |hash| second.pending(hash))),
            std::thread::Builder::new().name("jsonrpc-syncing".into()).spawn(look),
        ];
        for thread in threads {
            if let Err(error) = thread {
                tracing::error!(%error, "subscriptions stay silent: the system gives no thread");
            }
        }
        hub
    }

    fn event(&self, event: &Event) {
        match event {
            Event::Head(block) => {
                tell(&self.heads, |out| write::header(out, block.sealed.hash, &block.sealed.header));
                self.tell_logs(block, false);
            }
            Event::Removed(blocks) => {
                for block in blocks.iter() {
                    self.tell_logs(block, true);
                }
            }
        }
    }

    fn tell_logs(&self, block: &FullBlock, removed: bool) {
        let mut listeners = self.logs.lock().unwrap_or_else(PoisonError::into_inner);
        listeners.retain(|(filter, sink)| {
            for (index, (signed, receipt)) in (0..).zip(block.transactions.iter().zip(&block.receipts)) {
                for (log, position) in receipt.logs.iter().zip(receipt.first_log..) {
                    if filter.matches(log) {
                        let mut out = Vec::with_capacity(1024);
                        let placed = placed(&block.sealed, index);
                        write::log(&mut out, log, &placed, signed.hash(), position, removed);
                        if sink.send(&out).is_err() {
                            return false;
                        }
                    }
                }
            }
            !sink.ended()
        });
    }

    /// Tells how far the node is behind if that has changed.
    fn look(&self, node: &Node) {
        let mut now = Vec::with_capacity(128);
        client::write_syncing(node, &mut now);
        self.stands_at(now);
    }

    fn stands_at(&self, now: Vec<u8>) {
        // Held while it is told, so that who subscribes at this moment is told neither twice nor not at all.
        let mut stands = self.stands.lock().unwrap_or_else(PoisonError::into_inner);
        if *stands != now {
            tell(&self.syncing, |out| out.extend_from_slice(&now));
            *stands = now;
        }
    }

    fn pending(&self, hash: B256) {
        tell(&self.hashes, |out| write::data(out, hash.as_slice()));
    }
}

/// Tells everyone the same, and forgets who has gone.
fn tell(listeners: &Mutex<Vec<Sink>>, write: impl FnOnce(&mut Vec<u8>)) {
    let mut listeners = listeners.lock().unwrap_or_else(PoisonError::into_inner);
    if listeners.is_empty() {
        return;
    }
    let mut out = Vec::with_capacity(2048);
    write(&mut out);
    listeners.retain(|sink| sink.send(&out).is_ok());
}

fn listen<T: Clone>(mut receiver: Receiver<T>, mut tell: impl FnMut(T)) {
    loop {
        match receiver.blocking_recv() {
            Ok(value) => tell(value),
            Err(RecvError::Lagged(missed)) => {
                tracing::warn!(
                    missed,
                    "subscribers were not told of some events: there were too many at once"
                );
            }
            Err(RecvError::Closed) => return,
        }
    }
}

impl Subscriptions for Hub {
    fn subscribe(&self, params: Params<'_>, sink: Sink) -> Result<(), RpcError> {
        let [kind, query] = params.take::<2>()?;
        match kind.required::<String>()?.as_str() {
            "newHeads" => push(&self.heads, sink),
            "newPendingTransactions" => push(&self.hashes, sink),
            "logs" => {
                let filter = query.optional::<LogQuery>()?.map(|query| query.filter).unwrap_or_default();
                push(&self.logs, (filter, sink));
            }
            "syncing" => {
                // Where it stands now, then each change.
                let stands = self.stands.lock().unwrap_or_else(PoisonError::into_inner);
                sink.send(&stands).map_err(|_| RpcError::internal("the connection has ended"))?;
                push(&self.syncing, sink);
            }
            other => {
                let name = other.chars().take(64).collect::<String>();
                return Err(RpcError::params(format!("no \"{name}\" subscription in eth namespace")));
            }
        }
        Ok(())
    }
}

fn push<T>(listeners: &Mutex<Vec<T>>, listener: T) {
    listeners.lock().unwrap_or_else(PoisonError::into_inner).push(listener);
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    #[test]
    fn who_asks_for_the_state_of_synchronisation_is_told_each_change_once() {
        let hub = Hub::new();
        let (early, to_early) = Sink::alone();
        hub.subscribe(Params::new(Some(r#"["syncing"]"#)), early).unwrap();
        let behind = json!({"startingBlock": "0x1", "currentBlock": "0x1", "highestBlock": "0x9"});
        // What is the same twice is told once.
        for now in [json!(false), behind.clone(), behind.clone()] {
            hub.stands_at(now.to_string().into_bytes());
        }
        let (late, to_late) = Sink::alone();
        hub.subscribe(Params::new(Some(r#"["syncing"]"#)), late).unwrap();
        hub.stands_at(b"false".to_vec());
        let told = |sent: Vec<Value>| -> Vec<Value> {
            sent.into_iter().map(|text| text["params"]["result"].clone()).collect()
        };
        assert_eq!(told(to_early()), [json!(false), behind.clone(), json!(false)]);
        assert_eq!(told(to_late()), [behind, json!(false)]);
    }
}
