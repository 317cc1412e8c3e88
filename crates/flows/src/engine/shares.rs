//! What each peer uses of this node: flows that it started here, and bytes of its messages that are kept for flows.

use std::collections::HashMap;

use tally_contracts::Name;

/// The use that peers make of a node. Names without any use take no memory.
#[derive(Default)]
pub(crate) struct Shares {
    peers: HashMap<Name, Share>,
    flows: usize,
}

#[derive(Default)]
struct Share {
    flows: usize,
    bytes: usize,
}

impl Shares {
    /// Counts a flow that `peer` starts.
    ///
    /// # Errors
    /// The limit in force: that of each peer, or that of all peers together. Nothing was counted.
    pub(crate) fn start(&mut self, peer: &Name, of_each: usize, of_all: usize) -> Result<(), usize> {
        if self.flows >= of_all {
            return Err(of_all);
        }
        let used = self.peers.get(peer).map_or(0, |share| share.flows);
        if used >= of_each {
            return Err(of_each);
        }
        self.restore(peer);
        Ok(())
    }

    /// Counts a flow of the journal, whatever the limits are now.
    pub(crate) fn restore(&mut self, peer: &Name) {
        self.peers.entry(peer.clone()).or_default().flows += 1;
        self.flows += 1;
    }

    /// A flow that `peer` started has ended.
    pub(crate) fn end(&mut self, peer: &Name) {
        self.flows = self.flows.saturating_sub(1);
        self.change(peer, |share| share.flows = share.flows.saturating_sub(1));
    }

    /// Is there room for so many bytes more of this peer's messages?
    pub(crate) fn has_room(&self, peer: &Name, bytes: usize, limit: usize) -> bool {
        self.peers.get(peer).map_or(0, |share| share.bytes).saturating_add(bytes) <= limit
    }

    /// The bytes kept for one session changed.
    pub(crate) fn keep(&mut self, peer: &Name, before: usize, now: usize) {
        if before != now {
            self.change(peer, |share| share.bytes = share.bytes.saturating_sub(before).saturating_add(now));
        }
    }

    /// Flows and bytes of this peer.
    pub(crate) fn of(&self, peer: &Name) -> (usize, usize) {
        self.peers.get(peer).map_or((0, 0), |share| (share.flows, share.bytes))
    }

    /// The peers that have flows under way here.
    pub(crate) fn starters(&self) -> Vec<Name> {
        self.peers.iter().filter(|(_, share)| share.flows > 0).map(|(peer, _)| peer.clone()).collect()
    }

    fn change(&mut self, peer: &Name, change: impl FnOnce(&mut Share)) {
        let share = match self.peers.get_mut(peer) {
            Some(share) => share,
            None => self.peers.entry(peer.clone()).or_default(),
        };
        change(share);
        if share.flows == 0 && share.bytes == 0 {
            self.peers.remove(peer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(organisation: &str) -> Name {
        format!("O={organisation}, L=London, C=GB").parse().expect("a name")
    }

    #[test]
    fn each_peer_has_its_share_and_gets_it_back() {
        let (alice, bob, carol) = (name("Alice"), name("Bob"), name("Carol"));
        let mut shares = Shares::default();
        assert_eq!(shares.start(&alice, 2, 3), Ok(()));
        assert_eq!(shares.start(&alice, 2, 3), Ok(()));
        assert_eq!(shares.start(&alice, 2, 3), Err(2), "as many as each may have");
        assert_eq!(shares.start(&bob, 2, 3), Ok(()));
        assert_eq!(shares.start(&carol, 2, 3), Err(3), "as many as all may have");
        shares.end(&alice);
        assert_eq!(shares.start(&carol, 2, 3), Ok(()));
        shares.keep(&bob, 0, 70);
        assert!(shares.has_room(&bob, 30, 100) && !shares.has_room(&bob, 31, 100));
        assert!(shares.has_room(&alice, 100, 100), "of others nothing is taken");
        shares.keep(&bob, 70, 0);
        for peer in [&alice, &bob, &carol] {
            shares.end(peer);
            assert_eq!(shares.of(peer), (0, 0));
        }
        assert!(shares.peers.is_empty() && shares.flows == 0);
    }
}
