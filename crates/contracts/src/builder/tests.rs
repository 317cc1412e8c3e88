use super::*;
use crate::cash::CashCommand;
use crate::fixture::{alice, at, bank, bob, builder, cash, notary};
use crate::{Contract, DecodeError, Involved, LedgerTransaction, Summary, Violation};

/// Cash whose code knows these versions.
struct Versions(VersionRange);

impl Contract for Versions {
    fn name(&self) -> ContractName {
        crate::cash::NAME
    }
    fn versions(&self) -> VersionRange {
        self.0
    }
    fn verify(&self, _: u32, _: &LedgerTransaction) -> Result<(), Violation> {
        Ok(())
    }
    fn involved(&self, state: &State) -> Result<Involved, DecodeError> {
        crate::cash::Cash.involved(state)
    }
    fn describe(&self, state: &State) -> Result<Summary, DecodeError> {
        crate::cash::Cash.describe(state)
    }
}

#[test]
fn the_highest_version_that_all_allow_is_named() {
    let build = |known: VersionRange, input: VersionRange, output: VersionRange| {
        let state =
            |versions, owner| State { versions, ..State::new(&cash("1 USD", &bank(), &owner), notary()) };
        builder()
            .input(at(3, state(input, alice())))
            .output_state(state(output, bob()))
            .command(&CashCommand::Move, [alice().key])
            .build([9; 32], &Contracts::new().with(Versions(known)))
            .map(|transaction| transaction.contracts().to_vec())
    };
    let range = VersionRange::new;
    let named = |version| Ok(vec![(crate::cash::NAME, version)]);
    assert_eq!(build(range(1, 3), range(1, 2), range(2, 9)), named(2));
    assert_eq!(build(range(1, 3), range(1, 9), range(2, 9)), named(3));
    assert_eq!(build(range(1, 1), range(1, 9), range(0, 9)), named(1));
    for (known, input, output) in [
        (range(1, 3), range(1, 1), range(2, 2)),
        (range(2, 3), range(1, 1), range(1, 3)),
        (range(1, 3), range(4, 5), range(4, 5)),
    ] {
        let contract = crate::cash::NAME;
        assert_eq!(build(known, input, output), Err(BuildError::NoVersion { contract, known }));
    }
}

#[test]
fn ranges_meet_where_they_overlap() {
    let range = VersionRange::new;
    assert_eq!(range(1, 3).intersection(range(2, 5)), Some(range(2, 3)));
    assert_eq!(range(1, 3).intersection(range(3, 3)), Some(range(3, 3)));
    assert_eq!(range(1, 3).intersection(range(4, 5)), None);
    assert_eq!(range(3, 1).intersection(range(0, 5)), None, "an empty range stays empty");
}
