//! One flow, with a crash at every unit of it: all ends the same.

use serde_json::Value;
use tally_contracts::{AttachmentId, Name, StateRef, TransactionId};
use tally_protocols::testing::Network;

/// All that is left at a node in the end.
#[derive(Debug, PartialEq)]
struct Left {
    who: Name,
    states: Vec<StateRef>,
    transactions: Vec<TransactionId>,
    attachments: Vec<AttachmentId>,
    consumed: Vec<(StateRef, TransactionId)>,
    ended: usize,
    unresolved: Vec<TransactionId>,
    undelivered: Vec<(Name, TransactionId)>,
}

fn left(network: &Network) -> Vec<Left> {
    let of = |who: Name| {
        network.ledger(&who, |ledger| {
            assert!(ledger.flows.is_empty(), "{who} has flows under way: {:?}", network.views(&who));
            assert!(
                ledger.held.is_empty() && ledger.kept.is_empty() && ledger.parts.is_empty(),
                "flows of {who} left something behind"
            );
            assert!(
                ledger.outbound.values().all(|messages| messages.is_empty()),
                "{who} has messages to send"
            );
            Left {
                who: who.clone(),
                states: ledger.states.keys().copied().collect(),
                transactions: ledger.transactions.keys().copied().collect(),
                attachments: ledger.attachments.keys().copied().collect(),
                consumed: ledger.consumed.iter().map(|(state, (by, _))| (*state, *by)).collect(),
                ended: ledger.outcomes.len(),
                unresolved: ledger.unresolved.keys().copied().collect(),
                undelivered: ledger.undelivered.keys().cloned().collect(),
            }
        })
    };
    network.names().into_iter().map(of).collect()
}

/// The flow under test.
pub(crate) struct Trial<'a> {
    pub(crate) what: &'a str,
    pub(crate) network: &'a dyn Fn() -> Network,
    pub(crate) who: Name,
    pub(crate) flow: &'a str,
    pub(crate) arguments: &'a dyn Fn(&Network) -> Value,
    /// Does it come to something, or to a failure?
    pub(crate) succeeds: bool,
}

impl Trial<'_> {
    fn run(&self, network: &mut Network) -> (Result<Value, String>, Vec<Left>) {
        let arguments = (self.arguments)(network);
        let flow = network.start_as(&self.who, self.flow, arguments, "the flow under test").unwrap();
        network.settle();
        let result = network.result(&self.who, flow).unwrap_or_else(|| panic!("{} does not end", self.what));
        (result.map_err(|error| error.to_string()), left(network))
    }

    /// Crashes at every unit, with and without losing it; gives how often.
    pub(crate) fn crash_everywhere(&self, copies: usize) -> usize {
        let mut crashes = 0;
        let mut whole = (self.network)();
        whole.set_copies(copies);
        let first = whole.all_commits();
        let expected = self.run(&mut whole);
        assert_eq!(expected.0.is_ok(), self.succeeds, "{}: {:?}", self.what, expected.0);
        for at in first..whole.all_commits() {
            for lost in [false, true] {
                let mut network = (self.network)();
                network.set_copies(copies);
                assert_eq!(network.all_commits(), first);
                network.crash_at(at, lost);
                let found = self.run(&mut network);
                assert_eq!(found, expected, "{}, crash at {at} (first {first}), lost: {lost}", self.what);
                crashes += 1;
            }
        }
        crashes
    }
}
