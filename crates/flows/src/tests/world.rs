//! Nodes in memory: what is submitted is durable at once, and a crash keeps nothing else.

use std::cell::{Cell as CellOf, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};

use tally_contracts::{Name, NetworkId, Party, Scheme, SigningKey, Timestamp};

use crate::{
    Delivered, Engine, FlowError, FlowId, Host, Limits, Mark, Notaries, Origin, Outcome, Performed, Registry,
    Request, Response, Saved, Start, Trouble, Unit,
};

pub(super) fn name(organisation: &str) -> Name {
    format!("O={organisation}, L=London, C=GB").parse().expect("a name")
}

pub(super) fn party(organisation: &str) -> Party {
    let mut seed = [0; 32];
    seed[..organisation.len()].copy_from_slice(organisation.as_bytes());
    Party {
        name: name(organisation),
        key: SigningKey::from_secret(Scheme::Ed25519, &seed).expect("a key").public_key(),
    }
}

/// What survives a crash of a node.
#[derive(Default)]
pub(super) struct Disk {
    pub(super) flows: BTreeMap<FlowId, Saved>,
    pub(super) outcomes: BTreeMap<FlowId, Outcome>,
    pub(super) outbound: VecDeque<(Name, Vec<u8>)>,
    pub(super) units: usize,
    /// Messages whose arrival is durable.
    tickets: Vec<u64>,
}

/// A host that answers parties and fails when it is told to.
pub(super) struct Desk {
    pub(super) disk: Mutex<Disk>,
    pub(super) failing: Mutex<Option<Trouble>>,
    pub(super) progress: Mutex<Vec<String>>,
    pub(super) room: Mutex<bool>,
    pub(super) performed: Mutex<usize>,
}

impl Host for Desk {
    fn perform(&self, _: FlowId, _: Timestamp, request: &Request) -> Result<Performed, Trouble> {
        if let Some(trouble) = self.failing.lock().unwrap().clone() {
            return Err(trouble);
        }
        *self.performed.lock().unwrap() += 1;
        Ok(match request {
            Request::Party(wanted) => Response::Party(
                ["Alice", "Bob", "Carol"]
                    .iter()
                    .map(|known| party(known))
                    .find(|party| party.name == *wanted),
            )
            .into(),
            Request::Notaries => Response::Notaries(Notaries::default()).into(),
            Request::Keep(transactions) if transactions.is_empty() => Response::Done.into(),
            other => panic!("the tests do not ask to {}", other.describe()),
        })
    }

    fn submit(&self, unit: Unit) {
        let mut disk = self.disk.lock().unwrap();
        disk.units += 1;
        if let Some(start) = unit.start {
            let saved = Saved { start, steps: Vec::new(), arrivals: Vec::new(), mark: Mark::Running };
            assert!(disk.flows.insert(unit.flow, saved).is_none(), "a flow starts once");
        }
        let saved = disk.flows.get_mut(&unit.flow).expect("a unit of a flow that has started");
        assert_eq!(saved.steps.len() as u64, unit.number, "units come in order");
        saved.steps.push(unit.steps);
        let tickets: Vec<_> = unit.arrivals.iter().map(|arrival| arrival.ticket).collect();
        saved.arrivals.extend(unit.arrivals);
        disk.tickets.extend(tickets);
        let saved = disk.flows.get_mut(&unit.flow).expect("it was there");
        if let Some(mark) = unit.mark {
            saved.mark = mark;
        }
        if let Some(outcome) = unit.outcome {
            disk.flows.remove(&unit.flow);
            assert!(disk.outcomes.insert(unit.flow, outcome).is_none(), "a flow ends once");
        }
        for (to, message) in unit.sends {
            disk.outbound.push_back((to, message.encode()));
        }
    }

    fn progress(&self, _: FlowId, path: &str) {
        self.progress.lock().unwrap().push(path.to_owned());
    }

    fn wake(&self) {}

    fn has_room(&self, _: &Name) -> bool {
        *self.room.lock().unwrap()
    }

    fn is_known(&self, flow: FlowId) -> Result<bool, Trouble> {
        let disk = self.disk.lock().unwrap();
        Ok(disk.outcomes.contains_key(&flow) || disk.flows.contains_key(&flow))
    }
}

pub(super) struct Node {
    pub(super) me: Party,
    pub(super) desk: Arc<Desk>,
    pub(super) engine: Engine,
}

/// Ticket, sender, receiver, bytes.
type InTransit = (u64, Name, Name, Vec<u8>);

/// Alice and Bob with the same flows, and the post between them.
pub(super) struct World {
    pub(super) nodes: BTreeMap<Name, Node>,
    pub(super) limits: Limits,
    pub(super) now: Timestamp,
    /// Deliver each message so often.
    pub(super) copies: usize,
    /// Messages that were delivered and may not be durable: ticket, sender, receiver, bytes.
    delivered: RefCell<Vec<InTransit>>,
    tickets: CellOf<u64>,
}

fn engine(registry: Registry, limits: &Limits, me: &Party, desk: &Arc<Desk>) -> Engine {
    let network = NetworkId::from_bytes([0x4e; 32]);
    Engine::new(registry, limits.clone(), me.clone(), network, desk.clone())
}

impl World {
    pub(super) fn new(registry: fn() -> Registry) -> Self {
        Self::with_limits(registry, Limits::default())
    }

    pub(super) fn with_limits(registry: fn() -> Registry, limits: Limits) -> Self {
        let nodes = ["Alice", "Bob"]
            .into_iter()
            .map(|who| {
                let me = party(who);
                let desk = Arc::new(Desk {
                    disk: Mutex::default(),
                    failing: Mutex::new(None),
                    progress: Mutex::default(),
                    room: Mutex::new(true),
                    performed: Mutex::new(0),
                });
                let engine = engine(registry(), &limits, &me, &desk);
                (me.name.clone(), Node { me, desk, engine })
            })
            .collect();
        Self {
            nodes,
            limits,
            now: Timestamp::from_millis(1_000_000),
            copies: 1,
            delivered: RefCell::default(),
            tickets: CellOf::new(0),
        }
    }

    pub(super) fn node(&self, who: &str) -> &Node {
        &self.nodes[&name(who)]
    }

    pub(super) fn start(
        &self,
        who: &str,
        flow: &str,
        arguments: &serde_json::Value,
    ) -> Result<FlowId, FlowError> {
        let node = self.node(who);
        let registry = node.engine.registry();
        let id = FlowId::of_request("test", &format!("{who} {flow} {arguments}"));
        let start = Start {
            flow: id,
            name: registry.newest(flow)?.0.into(),
            version: registry.newest(flow)?.1,
            arguments: registry.arguments_from_json(flow, arguments)?,
            origin: Origin::User { name: "test".to_owned() },
            seed: *tally_crypto::hash(&id.0).as_bytes(),
            at: self.now,
        };
        node.engine.start(start).map_err(FlowError::refused)?;
        Ok(id)
    }

    /// Runs one thing that is to do; `false` when there is none.
    pub(super) fn turn(&self) -> bool {
        for node in self.nodes.values() {
            node.engine.tick(self.now);
            if let Some(turn) = node.engine.next() {
                node.engine.run(turn, self.now);
                return true;
            }
            let sent = node.desk.disk.lock().unwrap().outbound.pop_front();
            if let Some((to, bytes)) = sent {
                if !self.nodes.contains_key(&to) {
                    return true;
                }
                let ticket = self.tickets.get() + 1;
                self.tickets.set(ticket);
                self.delivered.borrow_mut().push((ticket, node.me.name.clone(), to.clone(), bytes.clone()));
                for copy in 0..self.copies {
                    let to = &self.nodes[&to];
                    let delivered = to
                        .engine
                        .deliver(
                            &node.me.name,
                            bytes.clone(),
                            ticket,
                            *tally_crypto::hash(&bytes).as_bytes(),
                            self.now,
                        )
                        .expect("a good message");
                    assert!(copy == 0 || delivered == Delivered::Late, "a message is taken once");
                }
                return true;
            }
        }
        false
    }

    pub(super) fn settle(&self) {
        while self.turn() {}
    }

    /// Ends a node's process and starts it again with `registry`. What it had not made durable comes again.
    pub(super) fn restart(&mut self, who: &str, registry: fn() -> Registry) {
        let receiver = name(who);
        let durable = self.nodes[&receiver].desk.disk.lock().unwrap().tickets.clone();
        let (lost, kept): (Vec<InTransit>, Vec<InTransit>) = self
            .delivered
            .take()
            .into_iter()
            .partition(|(ticket, _, to, _)| *to == receiver && !durable.contains(ticket));
        *self.delivered.borrow_mut() = kept;
        for (_, from, to, bytes) in lost.into_iter().rev() {
            self.nodes[&from].desk.disk.lock().unwrap().outbound.push_front((to, bytes));
        }
        let node = self.nodes.get_mut(&name(who)).expect("a node");
        node.engine = engine(registry(), &self.limits, &node.me, &node.desk);
        let saved: Vec<_> = node.desk.disk.lock().unwrap().flows.values().cloned().collect();
        for saved in saved {
            node.engine.restore(saved).expect("a good journal");
        }
    }

    pub(super) fn outcome(&self, who: &str, flow: FlowId) -> Option<Outcome> {
        self.node(who).desk.disk.lock().unwrap().outcomes.get(&flow).cloned()
    }

    pub(super) fn units(&self) -> usize {
        self.nodes.values().map(|node| node.desk.disk.lock().unwrap().units).sum()
    }
}
