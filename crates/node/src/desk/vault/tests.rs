//! Who gets which coin, and who waits for how long.

use tally_contracts::cash::{self, CashState};
use tally_contracts::{Amount, Contracts, Name, Party, Scheme, SigningKey, State, TransactionId};
use tally_store::{Produced, Recorded, Sqlite, SqliteOptions, Write};

use super::*;

const PATIENCE: Duration = Duration::from_secs(30);

struct World {
    _directory: tempfile::TempDir,
    store: Sqlite,
    vault: Vault,
    bank: Party,
    notary: Party,
    now: Timestamp,
}

fn party(number: u8) -> Party {
    let key = SigningKey::from_secret(Scheme::Ed25519, &[number; 32]).expect("a key");
    let name = Name::new(&format!("Party{number}"), "London", "GB").expect("a name");
    Party { name, key: key.public_key() }
}

fn flow(number: u8) -> FlowId {
    FlowId([number; 16])
}

fn id(number: u8) -> TransactionId {
    TransactionId::from_bytes([number; 32])
}

fn coin(number: u8) -> StateRef {
    StateRef { transaction: id(number), index: 0 }
}

impl World {
    fn new() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let store = Sqlite::open(&SqliteOptions::new(directory.path().join("node.db"))).expect("a database");
        Self {
            _directory: directory,
            store,
            vault: Vault::default(),
            bank: party(1),
            notary: party(2),
            now: Timestamp::from_millis(1_000_000),
        }
    }

    /// Records a coin of the bank itself, which a transaction makes out of others.
    fn record(&mut self, number: u8, quantity: u64, consumed: &[StateRef], encumbrance: Option<u32>) {
        let amount = Amount::new(quantity, "USD".parse().expect("a currency")).expect("an amount");
        let cash = CashState { amount, issuer: self.bank.clone(), owner: self.bank.key };
        let state = State { encumbrance, ..State::new(&cash, self.notary.clone()) };
        let summary = Contracts::shipped().describe(&state).expect("a state").expect("a known contract");
        self.write(Write::Transaction(Recorded {
            id: id(number),
            bytes: vec![number],
            consumed: consumed.to_vec(),
            produced: vec![Produced { index: 0, state, summary }],
            at: self.now,
        }));
        self.vault.consumed(consumed);
        self.vault.wake_first();
    }

    fn write(&self, write: Write) {
        self.store.apply(&[write]).expect("the database takes it");
    }

    fn ask(&mut self, number: u8, quantity: u64, wait: bool) -> Selected {
        let asset = cash::asset("USD".parse().expect("a currency"), &self.bank);
        let selection = Selection { asset, quantity, notary: Some(self.notary.clone()), wait };
        let owners = [self.bank.key];
        let asked = Asked { flow: flow(number), owners: &owners, now: self.now, patience: PATIENCE };
        self.vault.select(&self.store, &asked, &selection).expect("the database answers")
    }

    fn gets(&mut self, number: u8, quantity: u64) -> Vec<StateRef> {
        match self.ask(number, quantity, true) {
            Selected::States(states) => states.into_iter().map(|state| state.reference).collect(),
            Selected::Later(until) => panic!("flow {number} waits until {until}"),
            Selected::Refused(error) => panic!("flow {number}: {error}"),
        }
    }

    fn waits(&mut self, number: u8, quantity: u64) {
        assert!(matches!(self.ask(number, quantity, true), Selected::Later(_)), "flow {number} waits");
    }

    fn is_refused(&mut self, number: u8, quantity: u64) -> (u64, u64) {
        match self.ask(number, quantity, true) {
            Selected::Refused(FlowError::Insufficient { available, held, .. }) => (available, held),
            _ => panic!("flow {number} is not refused"),
        }
    }

    fn woken(&mut self) -> Vec<FlowId> {
        self.vault.take_ready()
    }
}

#[test]
fn whoever_came_first_gets_the_change_first() {
    let mut world = World::new();
    world.record(1, 100, &[], None);
    assert_eq!(world.gets(1, 30), [coin(1)]);
    for number in [2, 3, 4] {
        world.waits(number, 30);
    }
    assert!(world.woken().is_empty());
    // The change is durable, and then the payment has ended.
    world.record(2, 70, &[coin(1)], None);
    assert_eq!(world.woken(), [flow(2)]);
    world.waits(3, 30);
    world.waits(5, 1);
    assert_eq!(world.gets(2, 30), [coin(2)]);
    assert_eq!(world.woken(), [flow(3)], "there may be more for the next");
    world.waits(3, 30);
    world.vault.release_all(flow(1), false);
    world.record(3, 40, &[coin(2)], None);
    world.vault.release_all(flow(2), false);
    assert_eq!(world.gets(3, 30), [coin(3)]);
    assert_eq!(world.woken(), [flow(3), flow(4)]);
    // Ten are left in the end, which is too little for one and enough for the next.
    world.record(4, 10, &[coin(3)], None);
    world.vault.release_all(flow(3), false);
    assert_eq!(world.is_refused(4, 30), (10, 0));
    assert_eq!(world.woken(), [flow(4), flow(5)]);
    assert_eq!(world.gets(5, 1), [coin(4)]);
    assert!(world.vault.waiting.is_empty());
}

#[test]
fn nobody_waits_for_what_will_not_come() {
    let mut world = World::new();
    world.record(1, 100, &[], None);
    assert_eq!(world.is_refused(1, 101), (100, 0));
    assert_eq!(world.gets(1, 30), [coin(1)]);
    assert_eq!(world.is_refused(2, 101), (0, 100), "all together is too little");
    assert!(matches!(world.ask(2, 30, false), Selected::Refused(_)), "it was not to wait");
    // Its own coins do not come back to a flow that waits.
    assert_eq!(world.is_refused(1, 30), (0, 0));
    assert!(world.vault.waiting.is_empty());
}

#[test]
fn waiting_ends_in_time_and_leaves_no_place() {
    let mut world = World::new();
    world.record(1, 100, &[], None);
    assert_eq!(world.gets(1, 30), [coin(1)]);
    world.waits(2, 30);
    world.now = world.now.saturating_add(PATIENCE / 2);
    world.waits(3, 30);
    world.now = world.now.saturating_add(PATIENCE / 2);
    assert_eq!(world.is_refused(2, 30), (0, 100));
    assert_eq!(world.woken(), [flow(3)]);
    world.waits(3, 30);
    // A flow that stands still is passed over when its time is over.
    world.waits(4, 30);
    world.now = world.now.saturating_add(PATIENCE / 2);
    world.record(2, 70, &[coin(1)], None);
    assert_eq!(world.gets(4, 30), [coin(2)]);
    assert!(world.vault.waiting.is_empty());
}

#[test]
fn a_flow_that_ends_or_lets_go_makes_room() {
    let mut world = World::new();
    world.record(1, 100, &[], None);
    assert_eq!(world.gets(1, 30), [coin(1)]);
    world.waits(2, 30);
    world.waits(3, 30);
    world.vault.release_all(flow(2), false);
    world.vault.release(flow(1), &[coin(1)]);
    assert_eq!(world.woken(), [flow(3)]);
    assert_eq!(world.gets(3, 30), [coin(1)]);
}

#[test]
fn what_is_encumbered_or_lost_is_passed_over() {
    let mut world = World::new();
    world.record(1, 100, &[], Some(1));
    world.record(2, 5, &[], None);
    world.record(3, 7, &[], None);
    world.write(Write::Lost { state: coin(2), by: id(9) });
    assert_eq!(world.gets(1, 6), [coin(3)]);
    assert_eq!(world.is_refused(2, 8), (0, 7));
}

#[test]
fn what_a_failed_flow_held_is_chosen_last() {
    let mut world = World::new();
    for number in [1, 2, 3] {
        world.record(number, 10, &[], None);
    }
    assert_eq!(world.gets(1, 10), [coin(1)]);
    world.vault.release_all(flow(1), true);
    // A peer may have found the first one dead: it is taken when nothing else will do.
    for _ in 0..2 {
        let chosen = world.gets(2, 20);
        assert_eq!(chosen.len(), 2);
        assert!(!chosen.contains(&coin(1)), "{chosen:?}");
        world.vault.release_all(flow(2), false);
    }
    assert_eq!(world.gets(3, 30).len(), 3);
    world.vault.release_all(flow(3), false);
    // It was good after all.
    world.vault.consumed(&[coin(1)]);
    assert!(world.vault.doubtful.is_empty());
}
