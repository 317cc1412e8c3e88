//! Nodes, the network between them, and everything that can happen to either.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use tally_contracts::{Name, Timestamp};
use tally_flows::{Limits, Notary};
use tally_messaging::Refusal;
use tally_node::OpenError;
use tally_sim::{Rng, SimClock, Trace};
use tally_store::Store;
use tempfile::TempDir;

use super::clients::{Clients, News};
use super::disk::{Disk, Fault};
use super::machine::{Machine, Members, Wish, party};
use super::orders::View;
use super::strange;
use super::wire::Link;

/// When every simulation begins.
pub(crate) const START_MS: u64 = 1_750_000_000_000;
/// Bytes of messages that a node reads back from its store at once.
const PAGE_BYTES: usize = 4096;

/// Who is there.
pub(crate) struct Cast {
    pub(crate) institutions: usize,
    /// Kept in files, not in memory.
    pub(crate) files: bool,
    /// Which notary is the network's first.
    pub(crate) validating_first: bool,
    pub(crate) queue_bytes: u64,
}

pub(crate) struct World {
    pub(crate) clock: SimClock,
    pub(crate) members: Arc<Members>,
    pub(crate) machines: Vec<Machine>,
    links: Vec<Link>,
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
            .map(|index| Notary { party: parties[*index].clone(), validating: *index == notaries[1] })
            .collect();
        if cast.validating_first {
            known.reverse();
        }
        Self {
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
            validating_first: self.members.notaries[0].validating,
            queue_bytes: self.queue_bytes,
        };
        let mut copy = Self::new(&cast, rng);
        copy.clock.advance_ns(self.clock.now_ns() - copy.clock.now_ns());
        for (machine, from) in copy.machines.iter_mut().zip(&self.machines) {
            machine.disk = Arc::new(from.disk.copy());
        }
        copy.received.clone_from(&self.received);
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

    fn note(&mut self, what: &str, node: usize, detail: u64) {
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
        let machine = &mut self.machines[node];
        let started =
            machine.start(&self.members, strange::registry(), &self.limits, self.queue_bytes, entropy);
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
            self.note("tick", node, 0);
            self.collect(node, false);
        }
    }

    /// Takes to the network what a process wants done.
    fn collect(&mut self, node: usize, loses: bool) {
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

    fn is_durable(&self, from: usize, to: usize, number: u64, bytes: &[u8]) {
        let audit = self.machines[from].disk.audit();
        let place = usize::try_from(number - 1).expect("small");
        let durable = audit.sent.get(&self.members.parties[to].name).and_then(|queue| queue.get(place));
        assert_eq!(durable.map(Vec::as_slice), Some(bytes), "message {number} left and is not durable");
    }

    /// The sender opens a connection, and goes on where the receiver has got to.
    pub(crate) fn connect(&mut self, from: usize, to: usize) -> bool {
        let link = self.link(from, to);
        if link.cut || link.connected {
            return false;
        }
        let (sender, receiver) = (&self.machines[from], &self.machines[to]);
        let (Some(sending), Some(receiving)) = (&sender.core, &receiver.core) else { return false };
        let position = receiving.position(&sender.me.name, sending.queue());
        let last = sending.last(&receiver.me.name);
        assert!(position.durable <= position.accepted && position.accepted <= last, "{position:?} of {last}");
        if position.durable > 0 {
            sending.acknowledged(&receiver.me.name, position.durable);
        }
        let link = self.link(from, to);
        link.connected = true;
        link.sent = position.accepted;
        self.note("connect", from, (to as u64) << 32 | position.accepted);
        true
    }

    /// Is there something for this connection that has not been put on the wire?
    pub(crate) fn is_behind(&self, from: usize, to: usize) -> bool {
        let link = &self.links[from * self.machines.len() + to];
        let Some(core) = &self.machines[from].core else { return false };
        link.connected && !link.stuck && link.sent < core.last(&self.members.parties[to].name)
    }

    /// Messages are read back from the sender's store.
    pub(crate) fn read_back(&mut self, from: usize, to: usize) {
        if !self.is_behind(from, to) {
            return;
        }
        let peer = self.members.parties[to].name.clone();
        let sent = self.link(from, to).sent;
        let Some(core) = &self.machines[from].core else { return };
        let last = core.last(&peer);
        let Ok(messages) = core.outbound(&peer, sent, PAGE_BYTES) else { return };
        self.note("read back", from, (to as u64) << 32 | sent);
        for (number, bytes) in messages.into_iter().take_while(|(number, _)| *number <= last) {
            self.is_durable(from, to, number, &bytes);
            let link = self.link(from, to);
            assert_eq!(number, link.sent + 1, "messages are read back without a gap");
            link.sent = number;
            link.wire.push((number, bytes.into()));
        }
    }

    /// A message arrives, with those that follow it and are on the wire too, up to `most`. What messaging makes of
    /// repeats and gaps is made of them here.
    pub(crate) fn deliver(&mut self, from: usize, to: usize, place: usize, most: usize) {
        let (number, bytes) = self.link(from, to).wire.remove(place);
        let sender = &self.machines[from];
        let (Some(sending), Some(receiving)) = (&sender.core, &self.machines[to].core) else { return };
        let (peer, queue) = (sender.me.name.clone(), sending.queue());
        let accepted = receiving.position(&peer, queue).accepted;
        if number != accepted + 1 {
            let mut unexpected = vec![(number, bytes.clone())];
            let refused = receiving.receive(&peer, queue, &mut unexpected);
            // A node that has no room says so before it looks.
            assert!(matches!(refused, Err(Refusal::Invalid(_) | Refusal::Busy)), "{refused:?}");
            assert_eq!(
                receiving.position(&peer, queue).accepted,
                accepted,
                "a refused message changes nothing"
            );
            self.note(if number <= accepted { "repeat" } else { "gap" }, to, number);
            if number > accepted {
                self.link(from, to).close();
            }
            return;
        }
        let mut messages = vec![(number, bytes)];
        while messages.len() < most {
            let wire = &mut self.links[from * self.machines.len() + to].wire;
            let next = number + messages.len() as u64;
            let Some(found) = wire.iter().position(|(number, _)| *number == next) else { break };
            messages.push(wire.remove(found));
        }
        let all = messages.clone();
        let Some(receiving) = &self.machines[to].core else { return };
        let result = receiving.receive(&peer, queue, &mut messages);
        match result {
            Ok(()) => assert!(messages.is_empty(), "all were taken"),
            Err(Refusal::Busy) => {}
            Err(refusal) => panic!("messages {number} and after from {peer} to node {to}: {refusal:?}"),
        }
        let taken = all.len() - messages.len();
        let after = receiving.position(&peer, queue).accepted;
        assert_eq!(after, accepted + taken as u64, "what was taken is accepted");
        for (number, bytes) in all {
            self.trace.record("arrives", &bytes);
            // It reached the node whether or not that had room for it.
            let before = self.received[to].insert((from, number), bytes.clone());
            assert!(before.is_none_or(|before| before == bytes), "a message never changes");
        }
        self.link(from, to).wire.splice(0..0, messages);
        self.note("deliver", to, (from as u64) << 32 | number << 8 | taken as u64);
        self.collect(to, false);
    }

    /// An acknowledgement gets back to the sender.
    pub(crate) fn acknowledge(&mut self, from: usize, to: usize, place: usize) {
        let up_to = self.link(from, to).acks.remove(place);
        if let Some(core) = &self.machines[from].core {
            core.acknowledged(&self.members.parties[to].name, up_to);
            self.note("acknowledged", from, (to as u64) << 32 | up_to);
            self.collect(from, false);
        }
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

    /// Everything is well from now on: nodes run, disks work, nothing is cut or paused.
    pub(crate) fn heal(&mut self) {
        self.note("heal", 0, 0);
        for node in 0..self.len() {
            self.machines[node].disk.heal();
            if !self.runs(node) {
                assert!(self.start(node), "a node starts on a disk that works");
            }
            for other in 0..self.len() {
                self.link(node, other).cut = false;
                self.link(node, other).close();
            }
            let core = self.machines[node].core.as_ref().expect("it runs");
            for view in core.engine().views(None, usize::MAX) {
                if view.state == tally_flows::FlowState::Paused {
                    core.engine().retry(view.flow).expect("it was paused");
                }
            }
        }
    }

    /// Lets everything happen that can, in a fixed order, until nothing is left to do.
    pub(crate) fn drain(&mut self) {
        let limit = self.events + 400_000;
        loop {
            assert!(self.events < limit, "the network does not come to rest: {}", self.unfinished());
            let mut progress = false;
            for node in 0..self.len() {
                for index in self.clients.unattended(node) {
                    self.hand_in(index);
                }
                progress |= self.settle(node);
            }
            self.listen();
            if progress {
                continue;
            }
            if self.is_at_rest() {
                return;
            }
            let next = self.next_deadline();
            let Some(wait_ms) = next else { panic!("nothing happens any more: {}", self.unfinished()) };
            self.clock.advance_ms(wait_ms.max(1));
            for node in 0..self.len() {
                self.tick(node);
            }
        }
    }

    /// Lets one node do what it can.
    fn settle(&mut self, node: usize) -> bool {
        let mut progress = false;
        self.tick(node);
        while self.turn(node) {
            progress = true;
        }
        while self.commit(node, false) {
            progress = true;
        }
        for to in 0..self.len() {
            if to == node {
                continue;
            }
            if !self.link(node, to).connected {
                progress |= self.connect(node, to);
            }
            self.read_back(node, to);
            let waiting = self.link(node, to).wire.len();
            for _ in 0..waiting {
                if !self.link(node, to).wire.is_empty() {
                    progress = true;
                    self.deliver(node, to, 0, 16);
                }
            }
            while !self.link(node, to).acks.is_empty() {
                progress = true;
                self.acknowledge(node, to, 0);
            }
        }
        progress
    }

    /// How long until a flow somewhere wants to be woken.
    pub(crate) fn next_deadline(&self) -> Option<u64> {
        let waits = self.machines.iter().filter_map(|machine| {
            let due = machine.core.as_ref()?.engine().next_deadline()?;
            Some(due.as_millis().saturating_sub(machine.now().as_millis()))
        });
        waits.min()
    }

    fn is_at_rest(&self) -> bool {
        self.machines.iter().all(|machine| {
            machine
                .core
                .as_ref()
                .is_some_and(|core| core.engine().is_empty() && core.unacknowledged().is_empty())
        }) && self.clients.asked.iter().all(|asked| !asked.is_open())
    }

    fn unfinished(&self) -> String {
        let mut text = String::new();
        for machine in &self.machines {
            let Some(core) = &machine.core else { continue };
            for view in core.engine().views(None, 20) {
                text.push_str(&format!("\n{}: {view:?}", machine.me.name));
            }
            for peer in core.unacknowledged() {
                text.push_str(&format!("\n{}: messages to {peer} wait", machine.me.name));
            }
        }
        for (index, asked) in self.clients.asked.iter().enumerate().filter(|(_, asked)| asked.is_open()) {
            text.push_str(&format!("\norder {index}: {:?}", asked.order));
        }
        text
    }

    /// The store of a node, without faults.
    pub(crate) fn truth(&self, node: usize) -> Arc<dyn Store> {
        self.machines[node].disk.truth()
    }
}
