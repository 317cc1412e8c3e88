//! What every store must do: one suite, run on each of them.

mod batches;
mod delivery;
mod flows;
mod ledger;
mod migrated;
mod queues;
mod vault;

pub use migrated::{SCHEMA_1, check_migrated};

use crate::{
    FlowPage, FlowQuery, NewFlow, Queues, Result, SavedFlow, StatePage, Store, Undelivered, UndeliveredQuery,
    UnresolvedRow, Write,
};
use std::sync::Arc;
use tally_contracts::{Name, PublicKey, StateRef, Timestamp, TransactionId};

/// Opens one store; again after it was dropped.
pub type Open = Box<dyn Fn() -> Result<Arc<dyn Store>>>;

/// Runs the whole suite. `fresh` gives the way to an empty store, another one each time it is called.
///
/// # Panics
/// If the store breaks a promise.
pub fn check(fresh: &dyn Fn() -> Open) {
    let suites = [flows::TESTS, queues::TESTS, ledger::TESTS, vault::TESTS, batches::TESTS, delivery::TESTS];
    for test in suites.concat() {
        test(&Subject::new(fresh));
    }
}

/// A store under test.
struct Subject<'a> {
    fresh: &'a dyn Fn() -> Open,
    open: Open,
    store: std::cell::RefCell<Option<Arc<dyn Store>>>,
}

type Test = fn(&Subject<'_>);

impl<'a> Subject<'a> {
    fn new(fresh: &'a dyn Fn() -> Open) -> Self {
        let open = fresh();
        let store = open().expect("an empty store opens");
        Self { fresh, open, store: std::cell::RefCell::new(Some(store)) }
    }

    /// Another store of the same kind.
    fn another(&self) -> Self {
        Self::new(self.fresh)
    }

    fn store(&self) -> Arc<dyn Store> {
        self.store.borrow().clone().expect("it is open")
    }

    /// Closes the store and opens it again.
    fn reopen(&self) {
        self.store.borrow_mut().take();
        *self.store.borrow_mut() = Some((self.open)().expect("a store opens again"));
    }

    /// Applies a batch; then again, as after a lost answer, which must change nothing.
    fn apply(&self, writes: &[Write]) {
        let store = self.store();
        store.apply(writes).expect("the batch keeps its promises");
        let before = self.seen();
        store.apply(writes).expect("a batch can be applied again");
        assert!(self.seen() == before, "applying a batch again changed something: {writes:?}");
    }

    /// What can be seen of a store without naming anything.
    fn seen(&self) -> Seen {
        let store = self.store();
        Seen {
            unfinished: store.unfinished_flows(None, usize::MAX).expect("flows"),
            flows: store.flows(&FlowQuery { page_size: 1000, ..FlowQuery::default() }).expect("flows"),
            queues: store.queues().expect("queues"),
            locks: store.locks().expect("locks"),
            states: store.states(&vault::everything()).expect("states"),
            undelivered: store
                .undelivered(&UndeliveredQuery { limit: 1000, ..UndeliveredQuery::default() })
                .expect("rows"),
            unresolved: store.unresolved(None, None, 1000).expect("rows"),
        }
    }
}

#[derive(Debug, PartialEq)]
struct Seen {
    unfinished: Vec<SavedFlow>,
    flows: FlowPage,
    queues: Queues,
    locks: Vec<(StateRef, [u8; 16])>,
    states: StatePage,
    undelivered: Vec<Undelivered>,
    unresolved: Vec<UnresolvedRow>,
}

fn flow(id: u8) -> NewFlow {
    NewFlow {
        flow: [id; 16],
        name: format!("Flow{}", id % 3),
        version: u32::from(id),
        arguments: vec![id; 3],
        origin: vec![0, id],
        seed: [id; 32],
        at: at(u64::from(id)),
    }
}

fn at(millis: u64) -> Timestamp {
    Timestamp::from_millis(millis)
}

fn name(organisation: &str) -> Name {
    Name::new(organisation, "London", "GB").expect("a name")
}

fn key(id: u8) -> PublicKey {
    PublicKey::Ed25519(tally_crypto::sign::PublicKey::from_bytes([id; 32]))
}

fn transaction(id: u8) -> TransactionId {
    TransactionId::from_bytes([id; 32])
}

fn state_ref(id: u8, index: u32) -> StateRef {
    StateRef { transaction: transaction(id), index }
}
