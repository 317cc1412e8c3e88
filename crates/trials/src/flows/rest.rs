//! How a network comes to rest: faults end, and everything happens that can.

use tally_contracts::Timestamp;
use tally_store::UndeliveredQuery;

use super::machine::Machine;
use super::world::World;

impl World {
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

    /// The operators of nodes that lied put good code on them, and end what the altered code had under way.
    pub(crate) fn find_out_liars(&mut self) {
        let found_out: Vec<usize> = std::mem::take(&mut self.liars).into_keys().collect();
        for node in &found_out {
            if self.runs(*node) {
                self.crash(*node);
            }
        }
        self.heal();
        for node in found_out {
            let core = self.machines[node].core.as_ref().expect("it runs");
            for view in core.engine().views(None, usize::MAX) {
                core.engine().kill(view.flow).expect("it is under way");
            }
        }
    }

    /// Lets everything happen that can, in a fixed order, until nothing is left to do.
    pub(crate) fn drain(&mut self) {
        let limit = self.events + 100_000;
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
            let due = machine
                .core
                .as_ref()?
                .engine()
                .next_deadline()
                .into_iter()
                .chain(outstanding(machine))
                .min()?;
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
                && outstanding(machine).next().is_none()
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
}

/// When a node tries again what is final and not confirmed, or not known to be final; nothing when all of it is done.
fn outstanding(machine: &Machine) -> impl Iterator<Item = Timestamp> {
    let store = machine.disk.truth();
    let query = UndeliveredQuery { limit: 1000, ..UndeliveredQuery::default() };
    let undelivered = store.undelivered(&query).expect("the truth can be read");
    let unresolved = store.unresolved(None, None, 1000).expect("the truth can be read");
    undelivered.into_iter().map(|row| row.due).chain(unresolved.into_iter().map(|row| row.due))
}
