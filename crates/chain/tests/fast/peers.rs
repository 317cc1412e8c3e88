//! A peer that passes on what an honest node answers, or something else.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use alloy_primitives::Address;
use bytes::Bytes;
use tally_chain::Node;
use tally_chain::protocol::{self, BLOCK, HEAD, Head};
use tally_peers::{Enode, Event, Network};

use crate::world::{World, key, wait_until};

const TIMEOUT: Duration = Duration::from_secs(30);
/// A request that was sent is received within this time, also on a busy machine.
const QUIET: Duration = Duration::from_millis(500);

pub(crate) struct Proxy {
    network: Network,
    source: Address,
    asked: Arc<AtomicU64>,
    answered: Arc<AtomicU64>,
}

impl Proxy {
    /// `pass` is given the kind and the honest answer, and says what is answered; `None` for no answer.
    pub(crate) fn start(
        world: &World,
        number: u8,
        source: &Node,
        pass: impl Fn(u8, &[u8]) -> Option<Vec<u8>> + Send + 'static,
    ) -> Self {
        Self::start_with(world, number, source, move |kind, _, answer| pass(kind, answer))
    }

    /// As [`start`](Self::start); `pass` is given the request as well.
    pub(crate) fn start_with(
        world: &World,
        number: u8,
        source: &Node,
        pass: impl Fn(u8, &[u8], &[u8]) -> Option<Vec<u8>> + Send + 'static,
    ) -> Self {
        Self::start_boasting(world, number, source, 0, pass)
    }

    /// As [`start_with`](Self::start_with); says that it has so many blocks more than the honest node.
    pub(crate) fn start_boasting(
        world: &World,
        number: u8,
        source: &Node,
        more: u64,
        pass: impl Fn(u8, &[u8], &[u8]) -> Option<Vec<u8>> + Send + 'static,
    ) -> Self {
        let known = vec![source.network().unwrap().enode().unwrap()];
        let (network, events) = world.network(key(number), source.chain().genesis_hash(), known);
        let of = source.network().unwrap().address();
        let asked = Arc::new(AtomicU64::new(0));
        let answered = Arc::new(AtomicU64::new(0));
        let proxy = Self {
            network: network.clone(),
            source: of,
            asked: Arc::clone(&asked),
            answered: Arc::clone(&answered),
        };
        let chain = source.chain().clone();
        std::thread::spawn(move || {
            while let Some(event) = events.recv() {
                let head = chain.head();
                let head = protocol::encode(&Head { number: head.number() + more, hash: head.hash() });
                match event {
                    Event::Connected { peer, .. } if peer != of => {
                        let _ = network.send(&peer, HEAD, head);
                    }
                    Event::Message { peer, kind: HEAD | BLOCK, .. } if peer == of => {
                        network.broadcast(HEAD, &head);
                    }
                    Event::Request { peer, kind, payload, respond } if peer != of => {
                        asked.fetch_add(1, Ordering::SeqCst);
                        let answer = network.request(&of, kind, payload.clone(), TIMEOUT).wait();
                        if let Some(answer) = answer.ok().and_then(|answer| pass(kind, &payload, &answer)) {
                            let _ = respond.send(answer.into());
                        }
                        answered.fetch_add(1, Ordering::SeqCst);
                    }
                    _ => {}
                }
            }
        });
        wait_until("the proxy is connected", || proxy.network.is_connected(&of));
        proxy
    }

    pub(crate) fn enode(&self) -> Enode {
        self.network.enode().unwrap()
    }

    /// Requests that came.
    pub(crate) fn asked(&self) -> u64 {
        self.asked.load(Ordering::SeqCst)
    }

    /// Waits until all requests are answered and no other has come for [`QUIET`]; gives how many came.
    pub(crate) fn asked_in_all(&self) -> u64 {
        let seen = Cell::new((self.asked(), Instant::now()));
        wait_until("all requests are answered", || {
            let (asked, since) = seen.get();
            if !self.is_idle() || self.asked() != asked {
                seen.set((self.asked(), Instant::now()));
                return false;
            }
            since.elapsed() > QUIET
        });
        seen.get().0
    }

    /// Whether all that was asked is answered.
    pub(crate) fn is_idle(&self) -> bool {
        self.answered.load(Ordering::SeqCst) == self.asked()
    }

    /// Asks the honest node itself.
    pub(crate) fn request(&self, kind: u8, request: Bytes) -> Vec<u8> {
        self.network.request(&self.source, kind, request, TIMEOUT).wait().unwrap().to_vec()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.network.stop_and_wait();
    }
}
