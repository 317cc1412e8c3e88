//! The validators of a height, their quorum, and who proposes.

use alloy_primitives::Address;

/// How the proposer follows from the one before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ProposerPolicy {
    /// Each block has the next validator as proposer.
    #[default]
    RoundRobin,
    /// The proposer stays until a round fails.
    Sticky,
}

/// The validators of one height, ascending and distinct.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ValidatorSet(Vec<Address>);

impl ValidatorSet {
    /// Sorts the addresses and drops repetitions.
    #[must_use]
    pub fn new(mut addresses: Vec<Address>) -> Self {
        addresses.sort_unstable();
        addresses.dedup();
        Self(addresses)
    }

    /// Ascending.
    #[must_use]
    pub fn addresses(&self) -> &[Address] {
        &self.0
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether an address is a validator.
    #[must_use]
    pub fn contains(&self, address: Address) -> bool {
        self.0.binary_search(&address).is_ok()
    }

    /// Votes that decide: two thirds of the validators, rounded up.
    #[must_use]
    pub fn quorum(&self) -> usize {
        quorum(self.0.len())
    }

    /// Validators that may be faulty: less than a third.
    #[must_use]
    pub fn faulty(&self) -> usize {
        self.0.len().saturating_sub(1) / 3
    }

    /// Who proposes in `round` after a block of `previous`; `None` without validators.
    ///
    /// When `previous` is no longer a validator, its successor in order takes its place.
    #[must_use]
    pub fn proposer(&self, policy: ProposerPolicy, previous: Address, round: u32) -> Option<Address> {
        let len = self.0.len() as u64;
        if len == 0 {
            return None;
        }
        let (base, offset) = match self.0.binary_search(&previous) {
            Ok(at) => (at as u64, u64::from(policy == ProposerPolicy::RoundRobin)),
            Err(next) => (next as u64, 0),
        };
        let index = (base + offset + u64::from(round)) % len;
        self.0.get(usize::try_from(index).ok()?).copied()
    }
}

/// Two thirds of `n`, rounded up: any two such sets share a correct validator while less than a third fail.
#[must_use]
pub fn quorum(n: usize) -> usize {
    n.saturating_mul(2).div_ceil(3)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(n: u8) -> Address {
        Address::repeat_byte(n)
    }

    #[test]
    fn quorums_are_besus() {
        let expected = [0, 1, 2, 2, 3, 4, 4, 5, 6, 6, 7];
        let found: Vec<usize> = (0..=10).map(quorum).collect();
        assert_eq!(found, expected);
        for n in 1..200 {
            let faulty = (n - 1) / 3;
            // Two quorums share more than the faulty, and the correct ones alone make a quorum.
            assert!(2 * quorum(n) > n + faulty, "{n}");
            assert!(quorum(n) <= n - faulty, "{n}");
        }
    }

    #[test]
    fn proposers_go_round() {
        let set = ValidatorSet::new(vec![address(5), address(1), address(3), address(3)]);
        assert_eq!(set.addresses(), [address(1), address(3), address(5)]);
        let robin =
            |previous, round| set.proposer(ProposerPolicy::RoundRobin, address(previous), round).unwrap();
        assert_eq!(robin(1, 0), address(3));
        assert_eq!(robin(5, 0), address(1));
        assert_eq!(robin(1, 1), address(5));
        assert_eq!(robin(1, u32::MAX), address(3), "2^32 is one modulo three, after address 1");
        // The one before is gone: the next in order follows, or the first.
        assert_eq!(robin(2, 0), address(3));
        assert_eq!(robin(9, 0), address(1));
        assert_eq!(robin(9, 1), address(3));
        let sticky =
            |previous, round| set.proposer(ProposerPolicy::Sticky, address(previous), round).unwrap();
        assert_eq!(sticky(1, 0), address(1));
        assert_eq!(sticky(1, 1), address(3));
        assert_eq!(sticky(4, 0), address(5));
        assert_eq!(ValidatorSet::default().proposer(ProposerPolicy::Sticky, address(1), 0), None);
    }
}
