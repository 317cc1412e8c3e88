//! Which validators seem to be away.

use std::collections::BTreeSet;

use alloy_primitives::Address;

use crate::validators::ValidatorSet;

/// Validators that are disconnected, or let their turn pass and have been silent since.
#[derive(Debug, Default)]
pub(super) struct Absent {
    gone: BTreeSet<Address>,
    silent: BTreeSet<Address>,
}

impl Absent {
    pub(super) fn connected(&mut self, peer: Address) {
        self.gone.remove(&peer);
        self.silent.remove(&peer);
    }

    pub(super) fn disconnected(&mut self, peer: Address) {
        self.gone.insert(peer);
    }

    pub(super) fn heard(&mut self, author: Address) {
        // It lives, even if only through others.
        self.gone.remove(&author);
        self.silent.remove(&author);
    }

    pub(super) fn missed_turn(&mut self, proposer: Address) {
        self.silent.insert(proposer);
    }

    /// Whether a proposer is not to be waited for. When more than `f` seem away it is more likely this
    /// node that is, and nobody is given up.
    pub(super) fn contains(&self, validators: &ValidatorSet, proposer: Address) -> bool {
        let away = |address: &Address| self.gone.contains(address) || self.silent.contains(address);
        away(&proposer)
            && validators.addresses().iter().filter(|address| away(address)).count() <= validators.faulty()
    }

    /// Forgets who is no longer a validator, so that the sets stay as small as the network.
    pub(super) fn retain(&mut self, validators: &ValidatorSet) {
        self.gone.retain(|address| validators.contains(*address));
        self.silent.retain(|address| validators.contains(*address));
    }
}
