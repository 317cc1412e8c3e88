//! What two nodes know of each other's databases: a number for each, the higher the newer.

use std::collections::HashMap;
use std::sync::Mutex;

use tally_contracts::Name;
use tally_messaging::{Acquaintance, QueueId, Unfit};

pub struct Past {
    queue: QueueId,
    /// How far this node's own database has come.
    pub own: Mutex<u8>,
    /// The highest that each peer told.
    pub seen: Mutex<HashMap<Name, u8>>,
    /// Queues that were set anew.
    pub anew: Mutex<HashMap<Name, QueueId>>,
    /// What peers showed of this node's own past.
    pub shown: Mutex<Vec<u8>>,
    /// Queues that cannot go on.
    pub astray: Mutex<Vec<(Name, QueueId)>>,
    /// The queues over which peers send.
    pub senders: Mutex<HashMap<Name, QueueId>>,
}

impl Past {
    pub fn new(queue: QueueId) -> std::sync::Arc<Self> {
        let (seen, anew, shown, astray, senders) = Default::default();
        std::sync::Arc::new(Self { queue, own: Mutex::new(1), seen, anew, shown, astray, senders })
    }
}

impl Acquaintance for Past {
    fn queue(&self, peer: &Name) -> QueueId {
        self.anew.lock().unwrap().get(peer).copied().unwrap_or(self.queue)
    }

    fn standing(&self) -> Vec<u8> {
        vec![*self.own.lock().unwrap()]
    }

    fn meet(&self, peer: &Name, standing: &[u8], queue: Option<QueueId>) -> Result<(), Unfit> {
        // Peers that are written by hand say nothing.
        let Some(told) = standing.first().copied() else { return Ok(()) };
        let mut seen = self.seen.lock().unwrap();
        let highest = seen.entry(peer.clone()).or_default();
        if told < *highest {
            return Err(Unfit::Superseded(Some(vec![*highest])));
        }
        *highest = told;
        if let Some(queue) = queue {
            self.senders.lock().unwrap().insert(peer.clone(), queue);
        }
        Ok(())
    }

    fn superseded(&self, _: &Name, evidence: &[u8]) {
        self.shown.lock().unwrap().extend(evidence);
    }

    fn astray(&self, peer: &Name, queue: QueueId) {
        self.astray.lock().unwrap().push((peer.clone(), queue));
    }
}
