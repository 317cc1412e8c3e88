//! Nodes, the network between them, and everything that can happen to either.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use tally_contracts::{Name, Timestamp};
use tally_flows::{Limits, Notary, NotaryKind};
use tally_node::OpenError;
use tally_sim::{Rng, SimClock, Trace};
use tally_store::Store;
use tempfile::TempDir;

use super::clients::{Clients, News};
use super::disk::{Disk, Fault};
use super::liars::{self, Role};
use super::machine::{Machine, Members, Wish, party, service};
use super::orders::View;
use super::strange;
use super::wire::Link;

/// When every simulation begins.
pub(crate) const START_MS: u64 = 1_750_000_000_000;
/// Who is there.
pub(crate) struct Cast {
    pub(crate) institutions: usize,
    /// Kept in files, not in memory.
    pub(crate) files: bool,
    /// Which notary is the network's first.
    pub(crate) validating_first: bool,
    pub(crate) queue_bytes: u64,
    /// Nodes that run altered code.
    pub(crate) liars: BTreeMap<usize, Role>,
}

pub(crate) struct World {
    /// Nodes that run altered code, until they are found out.
    pub(crate) liars: BTreeMap<usize, Role>,
    /// Nodes that ever did.
    pub(crate) lied: BTreeSet<usize>,
    pub(crate) clock: SimClock,
    pub(crate) members: Arc<Members>,
    pub(crate) machines: Vec<Machine>,
    pub(super) links: Vec<Link>,
    pub(crate) clients: Clients,
    pub(crate) trace: Trace,
    pub(crate) institutions: usize,
    /// The non-validating one, then the validating one.
    pub(crate) notaries: [usize; 2],
    pub(crate) oracle: usize,
    /// What reached each node, by sender and number.
    pub(crate) received: Vec<BTreeMap<(usize, u64), Bytes>>,
    limits: Limits,
    queue_bytes: u64,
    entropy: Rng,
    /// Things that happened.
    pub(crate) events: u64,
    /// Files of the nodes.
    _directory: Option<TempDir>,
}

const ORGANISATIONS: [&str; 4] = ["Alpha", "Beta", "Gamma", "Delta"];

impl World {
    pub(crate) fn new(cast: &Cast, mut rng: Rng) -> Self {
        let clock = SimClock::new(START_MS * 1_000_000);
        let mut organisations: Vec<&str> = ORGANISATIONS[..cast.institutions].to_vec();
        organisations.extend(["Notary", "Validator", "Oracle"]);
        let directory = cast.files.then(|| {
            let made =
                tempfile::Builder::new().prefix("tally-sim-").tempdir_in(crate::simulation::temporary());
            made.expect("a temporary directory can be made")
        });
        let machines: Vec<Machine> = organisations
            .iter()
            .map(|organisation| {
                let disk = match &directory {
                    Some(directory) => Disk::file(directory.path().join(format!("{organisation}.sqlite"))),
                    None => {
                        let mut queue = [0; 16];
                        rng.fill(&mut queue);
                        Disk::memory(queue)
                    }
                };
                Machine::new(organisation, disk, clock.clone())
            })
            .collect();
        let count = machines.len();
        let notaries = [cast.institutions, cast.institutions + 1];
        let parties: Vec<_> = organisations.iter().map(|organisation| party(organisation)).collect();
        let mut known: Vec<_> = notaries
            .iter()
            .map(|index| Notary {
                party: service(organisations[*index]),
                kind: NotaryKind::alone(*index == notaries[1]),
            })
            .collect();
        if cast.validating_first {
            known.reverse();
        }
        Self {
            liars: cast.liars.clone(),
            lied: cast.liars.keys().copied().collect(),
            clock,
            members: Arc::new(Members { parties, notaries: known }),
            machines,
            links: std::iter::repeat_with(Link::default).take(count * count).collect(),
            clients: Clients::default(),
            trace: Trace::new(),
            institutions: cast.institutions,
            notaries,
            oracle: cast.institutions + 2,
            received: vec![BTreeMap::new(); count],
            limits: Limits { longest_retry_ms: 2_000, ..Limits::default() },
            queue_bytes: cast.queue_bytes,
            entropy: rng,
            events: 0,
            _directory: directory,
        }
    }

    /// Another world in which the same is on the disks, and nothing runs.
    pub(crate) fn copy(&self, rng: Rng) -> Self {
        let cast = Cast {
            institutions: self.institutions,
            files: false,
            validating_first: self.members.notaries[0].kind.is_validating(),
            queue_bytes: self.queue_bytes,
            liars: BTreeMap::new(),
        };
        let mut copy = Self::new(&cast, rng);
        copy.clock.advance_ns(self.clock.now_ns() - copy.clock.now_ns());
        for (machine, from) in copy.machines.iter_mut().zip(&self.machines) {
            machine.disk = Arc::new(from.disk.copy());
        }
        copy.received.clone_from(&self.received);
        copy.clients.before = self.clients.before + self.clients.asked.len();
        copy
    }

    pub(crate) fn view(&self) -> View<'_> {
        View {
            parties: &self.members.parties,
            institutions: self.institutions,
            notaries: &self.notaries,
            oracle: self.oracle,
            now: Timestamp::from_millis(self.clock.now_ms()),
            disks: self.machines.iter().map(|machine| machine.disk.truth()).collect(),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.machines.len()
    }

    pub(crate) fn index(&self, name: &Name) -> usize {
        let found = self.members.parties.iter().position(|party| party.name == *name);
        found.unwrap_or_else(|| panic!("there is no {name}"))
    }

    pub(crate) fn link(&mut self, from: usize, to: usize) -> &mut Link {
        let place = from * self.machines.len() + to;
        &mut self.links[place]
    }

    pub(super) fn note(&mut self, what: &str, node: usize, detail: u64) {
        self.events += 1;
        self.trace.record_number(what, (node as u64) << 56 | detail & ((1 << 56) - 1));
    }

    pub(crate) fn runs(&self, node: usize) -> bool {
        self.machines[node].core.is_some()
    }

    /// Starts a node's process; `false` when its disk did not let it.
    pub(crate) fn start(&mut self, node: usize) -> bool {
        let mut entropy = [0; 32];
        self.entropy.fill(&mut entropy);
        let registry = match self.liars.get(&node) {
            Some(role) => liars::registry(*role),
            None if self.lied.contains(&node) => strange::registry().flow::<liars::Lie>(),
            None => strange::registry(),
        };
        let machine = &mut self.machines[node];
        let started = machine.start(&self.members, registry, &self.limits, self.queue_bytes, entropy);
        match started {
            Ok(()) => {}
            Err(OpenError::Store(error)) if error.is_transient() => return false,
            Err(error) => panic!("node {node} does not start: {error:?}"),
        }
        let flows = machine.core.as_ref().map_or(0, |core| core.engine().len());
        self.note("start", node, flows as u64);
        true
    }

    /// The process dies, with all that is not on its disk.
    pub(crate) fn crash(&mut self, node: usize) {
        self.note("crash", node, 0);
        self.machines[node].crash();
        self.clients.node_is_gone(node);
        for other in 0..self.len() {
            self.link(node, other).close();
            self.link(other, node).close();
        }
    }

    /// One flow runs until it waits.
    pub(crate) fn turn(&mut self, node: usize) -> bool {
        let Some(core) = &self.machines[node].core else { return false };
        let ran = core.turn();
        if ran {
            self.note("turn", node, 0);
            self.collect(node, false);
        }
        ran
    }

    /// A batch becomes durable, if there is anything to make durable. With `loses`, what it lets out goes nowhere.
    pub(crate) fn commit(&mut self, node: usize, loses: bool) -> bool {
        let Some(core) = &self.machines[node].core else { return false };
        let done = match core.commit() {
            Ok(done) => done,
            Err(error) if error.is_transient() => {
                self.note("commit fails", node, 0);
                return true;
            }
            Err(error) => panic!("the store of node {node} refuses a batch for good: {error:?}"),
        };
        if done {
            let batches = self.machines[node].disk.audit().batches;
            self.note("commit", node, batches);
            self.machines[node].check_changes();
        }
        self.collect(node, loses);
        done
    }

    /// The batch is made durable, and then the process dies before anybody hears of it.
    pub(crate) fn commit_and_crash(&mut self, node: usize) {
        self.machines[node].disk.fail_batches([Fault::AnswerLost]);
        self.commit(node, true);
        self.machines[node].disk.heal();
        self.crash(node);
    }

    pub(crate) fn tick(&mut self, node: usize) {
        if let Some(core) = &self.machines[node].core {
            core.tick();
            core.resume();
            // A disk that fails now is asked again at the next tick.
            let started = core.deliver_due().unwrap_or_default();
            self.note("tick", node, started as u64);
            self.collect(node, false);
        }
    }

    /// Takes to the network what a process wants done.
    pub(super) fn collect(&mut self, node: usize, loses: bool) {
        for wish in self.machines[node].tray.take() {
            match wish {
                Wish::Send(messages) => {
                    for (to, number, bytes) in messages {
                        let to = self.index(&to);
                        self.is_durable(node, to, number, &bytes);
                        let link = self.link(node, to);
                        // What is lost here is read back from the store.
                        if link.connected && !link.stuck && link.sent + 1 == number && !loses {
                            link.sent = number;
                            link.wire.push((number, bytes));
                        }
                    }
                }
                Wish::Acknowledge(peer, up_to) => {
                    let received = self.machines[node].disk.audit().received.get(&peer).copied();
                    assert!(received >= Some(up_to), "what is acknowledged to {peer} is durable");
                    let peer = self.index(&peer);
                    let link = self.link(peer, node);
                    if link.connected && !loses {
                        link.acks.push(up_to);
                    }
                }
            }
        }
    }

    pub(super) fn is_durable(&self, from: usize, to: usize, number: u64, bytes: &[u8]) {
        let audit = self.machines[from].disk.audit();
        let place = usize::try_from(number - 1).expect("small");
        let durable = audit.sent.get(&self.members.parties[to].name).and_then(|queue| queue.get(place));
        assert_eq!(durable.map(Vec::as_slice), Some(bytes), "message {number} left and is not durable");
    }

    /// Users hear the news, which has to be true.
    pub(crate) fn listen(&mut self) {
        for (index, news) in self.clients.listen() {
            let asked = &self.clients.asked[index];
            let flow = asked.flow.expect("it was handed in").0;
            let machine = &self.machines[asked.order.node];
            let audit = machine.disk.audit();
            match news {
                News::Started => {
                    assert!(
                        audit.begun.contains_key(&flow),
                        "order {index} is said to have begun, and has not"
                    );
                    self.trace.record_number("begun", index as u64);
                }
                News::Ended(outcome) => {
                    let written = audit.ended.get(&flow).map(Vec::as_slice);
                    let told = borsh::to_vec(&outcome).expect("an outcome is written to memory");
                    assert_eq!(written, Some(told.as_slice()), "order {index} is said to have ended so");
                    self.trace.record("ended", &told);
                }
            }
        }
    }

    /// Hands an order in, or asks again what became of it.
    pub(crate) fn hand_in(&mut self, index: usize) {
        let node = self.clients.asked[index].order.node;
        if let Some(core) = &self.machines[node].core {
            let done = self.clients.hand_in(index, core);
            self.note("hand in", node, (index as u64) << 1 | u64::from(done));
        }
    }

    /// The store of a node, without faults.
    pub(crate) fn truth(&self, node: usize) -> Arc<dyn Store> {
        self.machines[node].disk.truth()
    }
}
