//! Customers who pay on through whichever gateway answers, whatever happens to it.

use super::history::History;
use super::network::{Network, eventually};
use super::payments::{Random, World, told};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;
use tally::client::Client;
use tally_ledger::{TransactionBatch, Uetr};

const CLIENTS: usize = 3;
const BATCH: u64 = 12;
/// The balances that a client asks for after each batch, at most.
const READS: u64 = 3;

/// Clients that pay and ask.
pub(crate) struct Load {
    shared: Arc<Shared>,
    clients: Vec<JoinHandle<()>>,
}

struct Shared {
    world: Arc<World>,
    history: History,
    stop: AtomicBool,
    gateways: Mutex<Vec<Client>>,
    answered: AtomicU64,
}

impl Load {
    pub(crate) fn start(world: &Arc<World>, network: &Network, random: &mut Random) -> Self {
        let shared = Arc::new(Shared {
            world: Arc::clone(world),
            history: History::new(),
            stop: AtomicBool::new(false),
            gateways: Mutex::new(network.clients()),
            answered: AtomicU64::new(0),
        });
        let client = |client| {
            let (shared, random) = (Arc::clone(&shared), Random(random.next()));
            std::thread::spawn(move || shared.pay(client, random))
        };
        let clients = (0..CLIENTS).map(client).collect();
        Self { shared, clients }
    }

    /// Tells the customers which gateways there are now.
    pub(crate) fn moved(&self, network: &Network) {
        *self.shared.gateways.lock().unwrap() = network.clients();
    }

    /// Waits until so many more payments were answered with their outcome.
    #[track_caller]
    pub(crate) fn goes_on(&self, payments: u64, after: &str) {
        let enough = self.shared.answered.load(Ordering::Relaxed) + payments;
        eventually(format!("payments go on after: {after}"), || {
            (self.shared.answered.load(Ordering::Relaxed) >= enough).then_some(())
        });
    }

    /// Waits until everything is answered, and has the history checked.
    #[track_caller]
    pub(crate) fn end(self, name: &str) {
        self.shared.stop.store(true, Ordering::Relaxed);
        for client in self.clients {
            client.join().unwrap();
        }
        self.shared.history.check(&self.shared.world, name);
    }
}

impl Shared {
    fn gateway(&self, random: &mut Random) -> Client {
        let gateways = self.gateways.lock().unwrap();
        gateways[random.below(gateways.len() as u64) as usize].clone()
    }

    /// Sends batches; what was not answered is sent again, to any gateway, until it is. Nothing new is sent before that:
    /// with what is under way at the same time the search for an explanation grows beyond all bounds.
    fn pay(&self, client: usize, mut random: Random) {
        let mut unknown: Vec<(Uetr, u64)> = Vec::new();
        loop {
            let gateway = self.gateway(&mut random);
            let stopping = self.stop.load(Ordering::Relaxed);
            if stopping && unknown.is_empty() {
                return;
            }
            if unknown.is_empty() {
                let new: Vec<_> =
                    (0..=random.below(BATCH)).map(|_| self.world.transaction(&mut random)).collect();
                self.world.remember(&new);
                let now = self.history.now();
                unknown.extend(new.iter().map(|sent| (sent.transaction.header.uetr, now)));
            }
            if !self.send(client, &gateway, &mut unknown) {
                std::thread::sleep(Duration::from_millis(20));
                continue;
            }
            for _ in 0..random.below(READS + 1) {
                let customer = random.below(self.world.customers.len() as u64) as usize;
                let gateway = self.gateway(&mut random);
                self.ask(client, &gateway, customer);
            }
        }
    }

    /// Sends what is not answered; whether there was an answer.
    fn send(&self, client: usize, gateway: &Client, unknown: &mut Vec<(Uetr, u64)>) -> bool {
        let mut batch = TransactionBatch::default();
        {
            let all = self.world.sent.lock().unwrap();
            for (uetr, _) in &*unknown {
                assert!(batch.push(&all[uetr].transaction));
            }
        }
        let Ok(body) = gateway.submit(&batch) else { return false };
        let mut still = Vec::new();
        for ((uetr, call), outcome) in unknown.iter().zip(&body.outcomes) {
            let Some(told) = told(outcome) else {
                still.push((*uetr, *call));
                continue;
            };
            self.world.acknowledge(uetr, outcome);
            let code = outcome.reason.as_ref().map(|reason| reason.code.as_str());
            assert_eq!(told.settled, code.is_none(), "{outcome:?}");
            let sent = self.world.sent.lock().unwrap()[uetr].clone();
            self.history.paid(client, *call, &self.world, &sent, code);
            self.answered.fetch_add(1, Ordering::Relaxed);
        }
        *unknown = still;
        true
    }

    /// Asks for a balance. A question that is not answered changes nothing, and is not asked again.
    fn ask(&self, client: usize, gateway: &Client, customer: usize) {
        let account = self.world.customers[customer].account;
        let bic = &self.world.network.participants[account.participant.index()].bic;
        let call = self.history.now();
        if let Ok(body) = gateway.account(bic, &account.number.0.to_string()) {
            self.history.balance(client, call, &self.world, customer, body.minor_units);
        }
    }
}
