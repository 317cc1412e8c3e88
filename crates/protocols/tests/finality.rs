//! What a flow's outcome says of its transaction, whatever ends the flow: refused, unknown or final; and what is final
//! arrives.

#![allow(clippy::unwrap_used, reason = "a test that fails says where")]

use std::time::Duration;

use borsh::{BorshDeserialize, BorshSerialize};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tally_contracts::cash::{self, Coin};
use tally_contracts::{Name, Role, SignedTransaction, TimeWindow, TransactionBuilder, TransactionId};
use tally_flows::{Commit, Context, Fate, Filter, Flow, FlowError, FlowId, Registry, Responder, Session};
use tally_protocols::check::contracts;
use tally_protocols::notarise::{self, Question};
use tally_protocols::testing::Network;
use tally_protocols::{Final, finalise, registry};

struct World {
    network: Network,
    alice: Name,
    bob: Name,
    notary: Name,
}

fn world_with(bob: fn() -> Registry, notary: fn() -> Registry) -> World {
    let mut network = Network::new();
    let alice = network.party("Alice");
    let bob = network.party_with("Bob", bob);
    let notary_name = network.notary("Notary", false);
    network.restart(&notary_name, notary);
    network.run(&alice, "CashIssue", json!({ "amount": "10.00 USD" })).unwrap();
    World { network, alice, bob, notary: notary_name }
}

impl World {
    fn pay(&mut self) -> FlowId {
        let arguments = json!({ "amount": "10.00 USD", "to": self.bob });
        self.network.start(&self.alice, "CashPay", arguments).unwrap()
    }

    /// What the payment came to.
    fn outcome(&self, flow: FlowId) -> Result<Value, FlowError> {
        self.network.result(&self.alice, flow).expect("it has ended")
    }

    fn has(&self, who: &Name) -> u64 {
        self.network.cash(who, "USD", &self.alice)
    }

    fn lacking(&self) -> Vec<(Name, TransactionId)> {
        self.network.ledger(&self.alice, |ledger| ledger.undelivered.keys().cloned().collect())
    }

    fn unknown(&self) -> Vec<TransactionId> {
        self.network.ledger(&self.alice, |ledger| ledger.unresolved.keys().copied().collect())
    }

    /// Lets things happen until this holds.
    fn until(&mut self, done: impl Fn(&Self) -> bool) {
        while !done(self) {
            let event = self.network.events().first().cloned().expect("it comes so far");
            self.network.happen(&event);
        }
    }

    fn kill(&mut self, flow: FlowId) {
        self.network.engine(&self.alice).kill(flow).unwrap();
    }

    /// All that is due is done, until nothing is.
    fn deliver(&mut self) {
        for _ in 0..3 {
            let alice = self.alice.clone();
            self.network.deliver_again(&alice);
            self.network.settle();
        }
    }

    /// The payment is final and has arrived, once.
    fn arrived(&self) {
        assert_eq!((self.has(&self.alice), self.has(&self.bob)), (0, 1000));
        assert_eq!((self.lacking(), self.unknown()), (Vec::new(), Vec::new()));
    }
}

fn id(value: &Value) -> TransactionId {
    value["transaction"].as_str().unwrap().parse().unwrap()
}

/// A payee that does not record what is final.
struct Ungrateful;

impl Responder for Ungrateful {
    const ANSWERS: &'static str = finalise::NAME;
    const VERSION: u32 = finalise::VERSION;

    async fn run(_: Context, session: Session) -> Result<(), FlowError> {
        let _: tally_protocols::resolve::Offer = session.receive().await?;
        Err(FlowError::refused("nothing arrived here; pay again"))
    }
}

fn ungrateful() -> Registry {
    Registry::new().responder::<Ungrateful>()
}

#[test]
fn a_payment_that_the_payee_fails_to_record_is_final_and_arrives_later() {
    let mut world = world_with(ungrateful, registry);
    let flow = world.pay();
    world.network.settle();
    let paid = id(&world.outcome(flow).expect("it is final"));
    assert_eq!(world.lacking(), [(world.bob.clone(), paid)]);
    assert_eq!(world.has(&world.alice), 0);
    // It fails again, and is still lacking.
    world.deliver();
    assert_eq!(world.lacking(), [(world.bob.clone(), paid)]);
    let bob = world.bob.clone();
    world.network.restart(&bob, registry);
    // So does the payer's memory of it.
    let alice = world.alice.clone();
    world.network.crash(&alice);
    world.deliver();
    world.arrived();
}

#[test]
fn a_payee_that_has_left_does_not_undo_a_payment() {
    // Nothing answers a final transaction there.
    let mut world = world_with(Registry::new, registry);
    let flow = world.pay();
    world.network.settle();
    assert!(world.outcome(flow).is_ok());
    assert_eq!(world.lacking().len(), 1);
}

#[test]
fn a_flow_killed_before_its_notary_was_asked_has_done_nothing() {
    let mut world = world_with(registry, registry);
    let alice = world.alice.clone();
    world.network.switch(&alice, |switches| switches.no_room = true);
    let flow = world.pay();
    world.network.settle();
    world.kill(flow);
    world.network.settle();
    assert_eq!(world.outcome(flow), Err(FlowError::Killed));
    world.network.switch(&alice, |switches| switches.no_room = false);
    world.deliver();
    assert_eq!((world.has(&world.alice), world.has(&world.bob)), (1000, 0));
    world.network.ledger(&world.notary, |ledger| assert!(ledger.consumed.is_empty()));
}

#[test]
fn a_flow_killed_before_its_notary_answered_is_unknown_until_the_notary_is_asked_again() {
    for (commits, crash) in [(false, false), (true, false), (true, true)] {
        let mut world = world_with(registry, registry);
        let (alice, notary) = (world.alice.clone(), world.notary.clone());
        let flow = world.pay();
        if commits {
            world.until(|world| world.network.ledger(&notary, |ledger| !ledger.consumed.is_empty()));
        } else {
            world.until(|world| {
                world.network.ledger(&alice, |ledger| {
                    ledger.outbound.get(&notary).is_some_and(|messages| !messages.is_empty())
                })
            });
        }
        world.network.set_cut(&alice, &notary, true);
        if crash {
            // It has not run over its journal yet when it is killed.
            world.network.crash(&alice);
        }
        world.kill(flow);
        world.network.settle();
        let Err(error) = world.outcome(flow) else { panic!("it was killed") };
        let Fate::Unknown(paid) = error.fate() else { panic!("{error}") };
        assert!(error.to_string().contains(&paid.to_string()), "{error}");
        assert_eq!(world.unknown(), [paid]);
        world.network.set_cut(&alice, &notary, false);
        world.deliver();
        world.arrived();
    }
}

#[test]
fn a_flow_killed_before_the_payee_answered_is_final() {
    let mut world = world_with(registry, registry);
    let (alice, bob) = (world.alice.clone(), world.bob.clone());
    world.network.set_cut(&alice, &bob, true);
    let flow = world.pay();
    world.network.settle();
    world.kill(flow);
    world.network.settle();
    let error = world.outcome(flow).unwrap_err();
    let Fate::Final(paid) = error.fate() else { panic!("{error}") };
    assert_eq!(world.lacking(), [(bob.clone(), paid)]);
    assert_eq!(world.has(&world.alice), 0);
    world.network.set_cut(&alice, &bob, false);
    world.network.settle();
    world.deliver();
    world.arrived();
}

/// A notary that commits and then says nothing of use.
struct Forgetful;

impl Responder for Forgetful {
    const ANSWERS: &'static str = notarise::NAME;
    const VERSION: u32 = notarise::VERSION;

    async fn run(context: Context, session: Session) -> Result<(), FlowError> {
        let Question::Part { tear_off, .. } = session.receive().await? else {
            return Err(FlowError::refused("only tear-offs are shown in this test"));
        };
        let view = tear_off.for_notary().unwrap();
        let commit = Commit {
            inputs: view.inputs.to_vec(),
            references: Vec::new(),
            transaction: view.id,
            time_window: None,
            requester: session.peer().clone(),
        };
        context.commit(commit).await?;
        Err(FlowError::Killed)
    }
}

fn forgetful() -> Registry {
    Registry::new().responder::<Forgetful>()
}

#[test]
fn a_notary_that_fails_after_it_has_committed_is_asked_again() {
    let mut world = world_with(registry, forgetful);
    let flow = world.pay();
    world.network.settle();
    let error = world.outcome(flow).unwrap_err();
    assert!(matches!(error.fate(), Fate::Unknown(_)), "{error}");
    // As long as it says nothing, it is asked again, and nothing is made of it.
    world.deliver();
    assert_eq!((world.unknown().len(), world.has(&world.bob)), (1, 0));
    let notary = world.notary.clone();
    world.network.restart(&notary, registry);
    world.deliver();
    world.arrived();
}

/// Pays all of the node's cash, from an hour after it was started on.
struct PayLater;

impl Flow for PayLater {
    const NAME: &'static str = "PayLater";
    const VERSION: u32 = 1;
    const ARGUMENTS: &'static [(&'static str, &'static str)] = &[("to", "to whom")];
    type Arguments = Payee;
    type Output = Final;

    async fn run(context: Context, Payee { to }: Payee) -> Result<Final, FlowError> {
        let to = context.party(&to).await?;
        let found = context.find(Filter { hold: true, limit: 1, ..Filter::default() }).await?;
        let notary = found[0].state.notary.clone();
        let coin = Coin::try_from(found[0].clone()).unwrap();
        let amount = coin.cash.amount;
        let me = context.me().key;
        let from = context.now().await.saturating_add(HOUR);
        let builder =
            TransactionBuilder::new(context.network(), notary).time_window(TimeWindow::starting(from));
        let builder = cash::pay(builder, &[coin], amount, to.key, me, 1).unwrap();
        let transaction = builder.build(context.random("salt"), contracts()).unwrap();
        let signature = context.sign(&me, Role::Party, transaction.id()).await?;
        let signed = SignedTransaction::new(transaction, [signature]).unwrap();
        let transaction = finalise::finalise(&context, signed, &[to], &[]).await?;
        Ok(Final { transaction: transaction.id() })
    }
}

const HOUR: Duration = Duration::from_secs(3600);

#[derive(Clone, Debug, BorshSerialize, BorshDeserialize, Serialize, Deserialize)]
struct Payee {
    to: Name,
}

#[test]
fn what_a_notary_refuses_before_its_window_is_unknown_until_the_window_opens() {
    for validating in [false, true] {
        let mut world = world_with(registry, registry);
        let alice = world.network.party_with("Early", || registry().flow::<PayLater>());
        let notary = world.network.notary("Another", validating);
        world.network.run(&alice, "CashIssue", json!({ "amount": "10.00 USD", "notary": notary })).unwrap();
        let flow = world.network.start(&alice, "PayLater", json!({ "to": world.bob })).unwrap();
        world.network.settle();
        let error = world.network.result(&alice, flow).unwrap().unwrap_err();
        assert!(matches!(error.fate(), Fate::Unknown(_)), "{error}");
        let unknown = |world: &World| world.network.ledger(&alice, |ledger| ledger.unresolved.len());
        let again = |world: &mut World| {
            world.network.deliver_again(&alice);
            world.network.settle();
        };
        // The notary remembers nothing of it, so that it may become final at any time after this.
        again(&mut world);
        assert_eq!((unknown(&world), world.network.cash(&world.bob, "USD", &alice)), (1, 0));
        world.network.advance(3_600_000);
        again(&mut world);
        again(&mut world);
        assert_eq!((unknown(&world), world.network.cash(&world.bob, "USD", &alice)), (0, 1000));
    }
}

/// A notary of another kind than the network says.
struct OfAnotherKind;

impl Responder for OfAnotherKind {
    const ANSWERS: &'static str = notarise::NAME;
    const VERSION: u32 = notarise::VERSION;

    async fn run(_: Context, session: Session) -> Result<(), FlowError> {
        let _: Question = session.receive().await?;
        Err(FlowError::OtherForm { wanted: "the whole transaction".to_owned() })
    }
}

#[test]
fn a_notary_that_changes_its_kind_makes_nothing_of_what_it_may_have_committed() {
    // It commits as the one kind and is asked again as the other.
    let mut world = world_with(registry, forgetful);
    world.pay();
    world.network.settle();
    let notary = world.notary.clone();
    world.network.restart(&notary, || Registry::new().responder::<OfAnotherKind>());
    world.deliver();
    assert_eq!((world.unknown().len(), world.has(&world.alice), world.has(&world.bob)), (1, 1000, 0));
    world.network.restart(&notary, registry);
    world.deliver();
    world.arrived();
    // One that is asked for the first time has not looked.
    let mut world = world_with(registry, || Registry::new().responder::<OfAnotherKind>());
    let flow = world.pay();
    world.network.settle();
    let error = world.outcome(flow).unwrap_err();
    assert_eq!(error.fate(), Fate::Refused, "{error}");
    assert!(error.to_string().contains("the whole transaction"), "{error}");
}

/// A notary that refuses.
struct Refusing;

impl Responder for Refusing {
    const ANSWERS: &'static str = notarise::NAME;
    const VERSION: u32 = notarise::VERSION;

    async fn run(_: Context, session: Session) -> Result<(), FlowError> {
        let _: Question = session.receive().await?;
        Err(FlowError::refused("not today"))
    }
}

#[test]
fn what_the_notary_refuses_is_refused_and_may_be_tried_again() {
    let mut world = world_with(registry, || Registry::new().responder::<Refusing>());
    let flow = world.pay();
    world.network.settle();
    let error = world.outcome(flow).unwrap_err();
    assert_eq!(error.fate(), Fate::Refused, "{error}");
    assert!(world.unknown().is_empty());
    let notary = world.notary.clone();
    world.network.restart(&notary, registry);
    let flow = world.pay();
    world.network.settle();
    assert!(world.outcome(flow).is_ok());
    world.arrived();
}

#[test]
fn a_transaction_of_unknown_fate_that_lost_its_coin_is_refused_in_the_end() {
    let mut world = world_with(registry, || Registry::new().responder::<Silent>());
    let (alice, notary) = (world.alice.clone(), world.notary.clone());
    let flow = world.pay();
    world.network.settle();
    assert!(matches!(world.outcome(flow).unwrap_err().fate(), Fate::Unknown(_)));
    // The notary committed nothing, and the next payment takes the coin.
    world.network.restart(&notary, registry);
    let carol = world.network.party("Carol");
    world.network.run(&alice, "CashPay", json!({ "amount": "10.00 USD", "to": carol })).unwrap();
    world.deliver();
    assert_eq!((world.unknown(), world.has(&world.bob), world.has(&carol)), (Vec::new(), 0, 1000));
}

/// A notary whose flows are killed before they do anything.
struct Silent;

impl Responder for Silent {
    const ANSWERS: &'static str = notarise::NAME;
    const VERSION: u32 = notarise::VERSION;

    async fn run(_: Context, session: Session) -> Result<(), FlowError> {
        let _: Question = session.receive().await?;
        Err(FlowError::Killed)
    }
}

/// A lender that signs and does not record.
struct Absent;

impl Responder for Absent {
    const ANSWERS: &'static str = "IouCreate";
    const VERSION: u32 = 1;

    async fn run(context: Context, session: Session) -> Result<(), FlowError> {
        tally_protocols::agree::review(&context, &session, |_| Ok(())).await?;
        Err(FlowError::refused("it forgot what it has signed"))
    }
}

#[test]
fn an_iou_that_its_lender_has_signed_and_lost_arrives() {
    let lender = || Registry::new().responder::<Absent>();
    let mut world = world_with(lender, registry);
    let (alice, bob) = (world.alice.clone(), world.bob.clone());
    let made = world.network.run(&alice, "IouCreate", json!({ "value": 7, "lender": bob })).expect("final");
    assert_eq!(world.lacking(), [(bob.clone(), id(&made))]);
    world.network.restart(&bob, registry);
    world.deliver();
    assert!(world.lacking().is_empty());
    assert!(world.network.transaction(&bob, &id(&made)).is_some());
}

#[test]
fn nobody_but_the_node_has_a_transaction_delivered() {
    let mut world = world_with(registry, registry);
    let alice = world.alice.clone();
    let flow = world.pay();
    world.network.settle();
    let paid = id(&world.outcome(flow).unwrap());
    let carol = world.network.party("Carol");
    let arguments = json!({ "party": carol, "transactions": [paid.to_string()] });
    let error = world.network.run(&alice, "Deliver", arguments).unwrap_err();
    assert!(error.to_string().contains("started by its node"), "{error}");
    assert!(world.network.received(&carol).is_empty());
}
