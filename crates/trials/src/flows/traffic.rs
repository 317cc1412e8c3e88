//! What goes over the connections between nodes.

use tally_messaging::Refusal;

use super::world::World;

/// Bytes of messages that a node reads back from its store at once.
const PAGE_BYTES: usize = 4096;

impl World {
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
}
