//! Which sessions may be: how many, from where, and one only between any two nodes.
//!
//! Two nodes that connect to each other at the same time must not end with two sessions, nor with none.
//! While both have sent their hello, the connection of the node with the smaller key stands. A node
//! says hello only while it has no session with the other, so a hello that finds a session
//! here says that the other has lost it, unless it was sent before the other had that session.

use crate::handshake::{Hello, Refusal, Role};
use crate::key::NodeId;
use std::collections::{HashMap, HashSet};
use std::net::IpAddr;

/// The table of what is and of what is being opened.
#[derive(Debug)]
pub(crate) struct Admission {
    own: NodeId,
    most_peers: usize,
    most_from_address: usize,
    sessions: HashMap<NodeId, Held>,
    /// Our hello is on its way to them.
    proposing: HashSet<NodeId>,
    /// We have said hello to theirs, and wait for their word.
    answering: HashMap<NodeId, u32>,
    from: HashMap<IpAddr, usize>,
}

/// A session.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Held {
    pub(crate) connection: u64,
    /// This node's role in it.
    pub(crate) role: Role,
    pub(crate) instance: u64,
}

/// Why a hello is not answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Refused {
    pub(crate) why: Refusal,
    /// The session in its way, if it should be seen whether that is still alive.
    pub(crate) probe: bool,
}

impl Admission {
    pub(crate) fn new(own: NodeId, most_peers: usize, most_from_address: usize) -> Self {
        Self {
            own,
            most_peers,
            most_from_address,
            sessions: HashMap::new(),
            proposing: HashSet::new(),
            answering: HashMap::new(),
            from: HashMap::new(),
        }
    }

    /// Counts a connection from an address; whether there may be another. Each that is let in is
    /// given back by [`Self::leave`].
    pub(crate) fn enter(&mut self, address: IpAddr) -> bool {
        let count = self.from.entry(address).or_default();
        if *count >= self.most_from_address {
            return false;
        }
        *count += 1;
        true
    }

    pub(crate) fn leave(&mut self, address: IpAddr) {
        if let Some(count) = self.from.get_mut(&address) {
            *count -= 1;
            if *count == 0 {
                self.from.remove(&address);
            }
        }
    }

    /// Whether to say hello to a node now. If so, [`Self::proposed`] ends it.
    pub(crate) fn propose(&mut self, id: NodeId) -> bool {
        let free = !self.sessions.contains_key(&id) && !self.answering.contains_key(&id);
        free && self.proposing.insert(id)
    }

    pub(crate) fn proposed(&mut self, id: &NodeId) {
        self.proposing.remove(id);
    }

    /// Whether to answer a hello. If so, [`Self::answered`] ends it.
    pub(crate) fn answer(&mut self, hello: &Hello, known: bool) -> Result<(), Refused> {
        self.judge(hello, known)?;
        *self.answering.entry(hello.id).or_default() += 1;
        Ok(())
    }

    pub(crate) fn answered(&mut self, id: &NodeId) {
        if let Some(count) = self.answering.get_mut(id) {
            *count -= 1;
            if *count == 0 {
                self.answering.remove(id);
            }
        }
    }

    fn judge(&self, hello: &Hello, known: bool) -> Result<(), Refused> {
        let smaller = self.own < hello.id;
        match self.sessions.get(&hello.id) {
            Some(held) => {
                // Its hello may have been sent before it had the session that we opened; but a process
                // that has restarted has lost it.
                let crossed = smaller && held.role == Role::Initiator && held.instance == hello.instance;
                if crossed {
                    return Err(Refused { why: Refusal::AlreadyConnected, probe: true });
                }
                Ok(())
            }
            None if smaller && self.proposing.contains(&hello.id) => {
                Err(Refused { why: Refusal::AlreadyConnected, probe: false })
            }
            None if !known && self.sessions.len() >= self.most_peers => {
                Err(Refused { why: Refusal::TooManyPeers, probe: false })
            }
            None => Ok(()),
        }
    }

    /// Whether a session with a node that is not known finds room at this moment.
    pub(crate) fn has_room(&self, id: &NodeId) -> bool {
        self.sessions.contains_key(id) || self.sessions.len() < self.most_peers
    }

    /// There is a session; the one whose place it takes.
    pub(crate) fn opened(&mut self, id: NodeId, held: Held) -> Option<Held> {
        self.sessions.insert(id, held)
    }

    /// A session has ended; whether it was the one that counted.
    pub(crate) fn closed(&mut self, id: &NodeId, connection: u64) -> bool {
        let current = self.sessions.get(id).is_some_and(|held| held.connection == connection);
        if current {
            self.sessions.remove(id);
        }
        current
    }
}

#[cfg(test)]
mod tests;
