//! Votes in headers: who is a validator after a block.

use std::collections::{BTreeMap, BTreeSet};

use alloy_primitives::Address;

use crate::extra::Vote;
use crate::validators::ValidatorSet;

/// The validators after a block, and the votes that are pending.
///
/// Start from the validators in the header of an epoch block (the genesis is one) and [`Tally::apply`]
/// each block after it, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    validators: BTreeSet<Address>,
    add: BTreeMap<Address, BTreeSet<Address>>,
    remove: BTreeMap<Address, BTreeSet<Address>>,
}

impl Tally {
    /// Validators without pending votes.
    #[must_use]
    pub fn new(validators: &[Address]) -> Self {
        Self { validators: validators.iter().copied().collect(), ..Self::default() }
    }

    /// Counts the vote of block `number`, made by `proposer`.
    ///
    /// Every `epoch_length` blocks pending votes are dropped, and the vote of that block does not count.
    /// More than half of the validators decide. Votes for what already holds count as well, as in Besu
    /// (`VoteTally.addVote`): enough of them change nobody and discard what is pending about the recipient, so that
    /// a history of Besu has the same validators here. A proposer is a validator in every block that keeps the
    /// rules; a vote of another is none.
    pub fn apply(&mut self, number: u64, epoch_length: u64, proposer: Address, vote: Option<Vote>) {
        if epoch_length != 0 && number.is_multiple_of(epoch_length) {
            self.add.clear();
            self.remove.clear();
            return;
        }
        let Some(Vote { recipient, add }) = vote else { return };
        if !self.validators.contains(&proposer) {
            return;
        }
        let (agree, oppose) =
            if add { (&mut self.add, &mut self.remove) } else { (&mut self.remove, &mut self.add) };
        if let Some(voters) = oppose.get_mut(&recipient) {
            voters.remove(&proposer);
        }
        let voters = agree.entry(recipient).or_default();
        voters.insert(proposer);
        if voters.len() <= self.validators.len() / 2 {
            return;
        }
        self.add.remove(&recipient);
        self.remove.remove(&recipient);
        if add {
            self.validators.insert(recipient);
        } else {
            self.validators.remove(&recipient);
            for voters in self.add.values_mut().chain(self.remove.values_mut()) {
                voters.remove(&recipient);
            }
        }
    }

    /// Replaces the validators, as a transition of the genesis does; pending votes are dropped.
    pub fn replace(&mut self, validators: &[Address]) {
        *self = Self::new(validators);
    }

    /// The validators of the next block.
    #[must_use]
    pub fn validators(&self) -> ValidatorSet {
        ValidatorSet::new(self.validators.iter().copied().collect())
    }

    /// Whether `voter` has a vote pending that says the same.
    #[must_use]
    pub fn has_voted(&self, voter: Address, vote: Vote) -> bool {
        let side = if vote.add { &self.add } else { &self.remove };
        side.get(&vote.recipient).is_some_and(|voters| voters.contains(&voter))
    }
}

/// What a node's operator wants voted, until it holds or is discarded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Proposals(BTreeMap<Address, bool>);

impl Proposals {
    /// Wants `vote` cast in the blocks that this node proposes.
    pub fn propose(&mut self, vote: Vote) {
        self.0.insert(vote.recipient, vote.add);
    }

    /// Takes a wish back; whether there was one.
    pub fn discard(&mut self, recipient: Address) -> bool {
        self.0.remove(&recipient).is_some()
    }

    /// The wishes, by address.
    pub fn iter(&self) -> impl Iterator<Item = Vote> {
        self.0.iter().map(|(&recipient, &add)| Vote { recipient, add })
    }

    /// The vote to cast in block `number`: one that would change something and is not yet pending. With
    /// several, blocks take turns.
    #[must_use]
    pub fn next(&self, tally: &Tally, voter: Address, number: u64) -> Option<Vote> {
        let useful: Vec<Vote> = self
            .iter()
            .filter(|vote| {
                tally.validators.contains(&vote.recipient) != vote.add && !tally.has_voted(voter, *vote)
            })
            .collect();
        let turn = number.checked_rem(useful.len() as u64)?;
        useful.get(usize::try_from(turn).ok()?).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EPOCH: u64 = 100;

    fn address(n: u8) -> Address {
        Address::repeat_byte(n)
    }

    fn vote(n: u8, add: bool) -> Option<Vote> {
        Some(Vote { recipient: address(n), add })
    }

    fn four() -> Tally {
        Tally::new(&[address(1), address(2), address(3), address(4)])
    }

    #[test]
    fn more_than_half_decide() {
        let mut tally = four();
        for (number, proposer) in [(1, 1), (2, 2), (3, 2)] {
            tally.apply(number, EPOCH, address(proposer), vote(9, true));
            assert_eq!(tally.validators().len(), 4, "two distinct votes of four are not more than half");
        }
        tally.apply(4, EPOCH, address(3), vote(9, true));
        assert!(tally.validators().contains(address(9)));
        for (number, proposer) in [(5, 1), (6, 2)] {
            tally.apply(number, EPOCH, address(proposer), vote(9, false));
            assert!(tally.validators().contains(address(9)));
        }
        tally.apply(7, EPOCH, address(3), vote(9, false));
        assert!(!tally.validators().contains(address(9)));
    }

    #[test]
    fn an_epoch_forgets() {
        let mut tally = four();
        tally.apply(98, EPOCH, address(1), vote(9, true));
        tally.apply(99, EPOCH, address(2), vote(9, true));
        tally.apply(100, EPOCH, address(3), vote(9, true));
        tally.apply(101, EPOCH, address(3), vote(9, true));
        assert_eq!(tally.validators().len(), 4);
    }

    #[test]
    fn a_changed_mind_counts_once() {
        let mut tally = four();
        tally.apply(1, EPOCH, address(1), vote(2, false));
        tally.apply(2, EPOCH, address(3), vote(2, false));
        tally.apply(3, EPOCH, address(1), vote(2, true));
        tally.apply(4, EPOCH, address(4), vote(2, false));
        assert!(tally.validators().contains(address(2)), "one of three took its vote back");
        tally.apply(5, EPOCH, address(1), vote(2, false));
        assert!(!tally.validators().contains(address(2)));
    }

    /// Besu's `VoteTally` records every vote, and forgets all about a recipient once one side is decided.
    #[test]
    fn votes_for_what_holds_count_as_in_besu() {
        let mut tally = four();
        tally.apply(1, EPOCH, address(1), vote(4, false));
        tally.apply(2, EPOCH, address(2), vote(4, false));
        for (number, proposer) in [(3, 3), (4, 4)] {
            tally.apply(number, EPOCH, address(proposer), vote(4, true));
        }
        assert!(tally.has_voted(address(1), Vote { recipient: address(4), add: false }), "still pending");
        // The first changes its mind: three of four want what holds, and the other vote is gone with the rest.
        tally.apply(5, EPOCH, address(1), vote(4, true));
        assert!(!tally.has_voted(address(2), Vote { recipient: address(4), add: false }));
        assert!(!tally.has_voted(address(3), Vote { recipient: address(4), add: true }));
        tally.apply(6, EPOCH, address(1), vote(4, false));
        tally.apply(7, EPOCH, address(3), vote(4, false));
        assert!(tally.validators().contains(address(4)), "two of four, as the second has to vote again");
        tally.apply(8, EPOCH, address(2), vote(4, false));
        assert!(!tally.validators().contains(address(4)));
        // To remove who is no validator: recorded, and discards a vote to add.
        tally.apply(9, EPOCH, address(1), vote(9, true));
        tally.apply(10, EPOCH, address(2), vote(9, false));
        tally.apply(11, EPOCH, address(3), vote(9, false));
        assert!(!tally.has_voted(address(1), Vote { recipient: address(9), add: true }));
        assert_eq!(tally.validators().len(), 3);
    }

    #[test]
    fn who_is_gone_has_no_votes() {
        let mut tally = four();
        tally.apply(1, EPOCH, address(4), vote(9, true));
        for proposer in 1..=3 {
            tally.apply(2, EPOCH, address(proposer), vote(4, false));
        }
        assert_eq!(tally.validators().len(), 3);
        tally.apply(5, EPOCH, address(1), vote(9, true));
        assert!(!tally.validators().contains(address(9)), "one of three is not more than half");
        tally.apply(6, EPOCH, address(7), vote(9, true));
        assert!(!tally.validators().contains(address(9)), "strangers have no vote");
        tally.apply(7, EPOCH, address(2), vote(9, true));
        assert!(tally.validators().contains(address(9)));
    }

    #[test]
    fn proposals_are_cast_until_they_hold() {
        let mut tally = four();
        let mut wishes = Proposals::default();
        assert_eq!(wishes.next(&tally, address(1), 1), None);
        wishes.propose(Vote { recipient: address(9), add: true });
        wishes.propose(Vote { recipient: address(2), add: true });
        assert_eq!(wishes.next(&tally, address(1), 1), vote(9, true), "the other already holds");
        tally.apply(1, EPOCH, address(1), vote(9, true));
        assert_eq!(wishes.next(&tally, address(1), 2), None, "pending");
        assert_eq!(wishes.next(&tally, address(3), 2), vote(9, true));
        assert!(wishes.discard(address(9)));
        assert!(!wishes.discard(address(9)));
    }
}
