use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::{Value, json};
use tally_contracts::Timestamp;

use super::world::{World, name, party};
use crate::{
    Context, ControlError, DeliveryError, Flow, FlowError, FlowState, Message, Registry, Responder, Session,
    SessionId, Trouble,
};

#[derive(borsh::BorshSerialize, borsh::BorshDeserialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct To {
    to: String,
}

/// Asks another node to do as it is told, and waits no longer than a second.
struct Ask<const VERSION: u32>;

impl<const V: u32> Flow for Ask<V> {
    const NAME: &'static str = "Ask";
    const VERSION: u32 = V;
    const ARGUMENTS: &'static [(&'static str, &'static str)] = &[("to", "whom, and what it is to do")];
    type Arguments = To;
    type Output = String;

    async fn run(context: Context, arguments: To) -> Result<String, FlowError> {
        let (to, what) = arguments.to.split_once(' ').expect("two words");
        let session = context.open(&name(to)).await?;
        let deadline = Timestamp::from_millis(context.now().await.as_millis() + 1000);
        session.send(what).await;
        session.receive_until(deadline).await
    }
}

struct Obey;

static PANICS: AtomicU32 = AtomicU32::new(0);

impl Responder for Obey {
    const ANSWERS: &'static str = "Ask";
    const VERSION: u32 = 1;

    async fn run(context: Context, session: Session) -> Result<(), FlowError> {
        let order: String = session.receive().await?;
        match order.as_str() {
            "answer" => session.send("yes").await,
            "fail" => return Err(FlowError::refused("not today")),
            "leave" => {}
            "mumble" => session.send(&7_u8).await,
            "wait" => std::future::pending().await,
            "listen" => {
                let _: String = session.receive().await?;
            }
            "digest" => loop {
                let _: Vec<u8> = session.receive_kept(|all: Vec<u8>| Ok((all, Vec::new()))).await?;
            },
            "panic" => {
                PANICS.fetch_add(1, Ordering::SeqCst);
                panic!("as ordered");
            }
            "look" => {
                context.notaries().await?;
                session.send("looked").await;
            }
            other => panic!("unknown order {other}"),
        }
        Ok(())
    }
}

pub(super) fn registry() -> Registry {
    Registry::new().flow::<Ask<1>>().responder::<Obey>()
}

fn newer() -> Registry {
    Registry::new().flow::<Ask<2>>().responder::<Obey>()
}

fn ask(what: &str) -> Result<String, FlowError> {
    let world = World::new(registry);
    let flow = world.start("Alice", "Ask", &json!({ "to": what })).expect("a start");
    world.settle();
    let outcome = world.outcome("Alice", flow).expect("an end");
    outcome.map(|output| borsh::from_slice(&output).expect("a text"))
}

#[test]
fn a_counterpartys_end_is_a_typed_error() {
    assert_eq!(ask("Bob answer").as_deref(), Ok("yes"));
    assert_eq!(
        ask("Bob fail"),
        Err(FlowError::Counterparty {
            party: name("Bob"),
            kind: "refused".to_owned(),
            reason: "not today".to_owned()
        })
    );
    assert_eq!(ask("Bob leave"), Err(FlowError::SessionEnded { party: name("Bob") }));
    assert!(matches!(ask("Bob mumble"), Err(FlowError::Unexpected { party, .. }) if party == name("Bob")));
    assert_eq!(ask("Dora answer"), Err(FlowError::UnknownParty { name: name("Dora").to_string() }));
}

#[test]
fn a_node_talks_to_itself_as_to_others() {
    assert_eq!(ask("Alice answer").as_deref(), Ok("yes"));
    assert!(matches!(ask("Alice fail"), Err(FlowError::Counterparty { kind, .. }) if kind == "refused"));
    assert_eq!(ask("Alice leave"), Err(FlowError::SessionEnded { party: name("Alice") }));
    let world = World::new(newer);
    let flow = world.start("Alice", "Ask", &json!({ "to": "Alice answer" })).expect("a start");
    world.settle();
    let outcome = world.outcome("Alice", flow).expect("an end");
    assert!(matches!(outcome, Err(FlowError::Counterparty { kind, .. }) if kind == "version"));
}

#[test]
fn a_flow_that_is_killed_before_it_ran_again_hangs_up() {
    let mut world = World::new(registry);
    let flow = world.start("Alice", "Ask", &json!({ "to": "Bob listen" })).expect("a start");
    world.settle();
    assert_eq!(world.node("Bob").engine.len(), 1);
    world.restart("Alice", registry);
    world.node("Alice").engine.kill(flow).expect("a kill");
    world.settle();
    assert_eq!(world.outcome("Alice", flow), Some(Err(FlowError::Killed)));
    assert!(world.node("Bob").engine.is_empty(), "the flow that answers ends too");
}

#[test]
fn others_hear_of_a_failure_what_is_their_business() {
    let (bob, carol) = (name("Bob"), name("Carol"));
    let poor = FlowError::Insufficient { asset: "USD".to_owned(), wanted: 100, available: 41, held: 17 };
    // Bob asked, and hears that there is too little, not how much there is.
    let told = poor.told(&bob, false);
    assert_eq!(told, FlowError::Short { asset: "USD".to_owned(), wanted: 100 });
    assert_eq!(told.code(), poor.code());
    assert!(!told.to_string().contains("41") && !told.to_string().contains("17"));
    let of_carol = FlowError::Timeout { party: carol.clone() };
    assert!(!of_carol.told(&bob, false).to_string().contains("Carol"));
    assert_eq!(of_carol.told(&carol, false), of_carol);
    let refused = FlowError::refused("not today");
    assert_eq!(refused.told(&bob, false), refused);
    // Bob was asked, and hears no more than that it is over, and why in a word.
    for error in [&poor, &of_carol, &refused] {
        let FlowError::Refused { reason } = error.told(&bob, true) else { panic!("a refusal") };
        assert_eq!(reason, format!("the flow that asked failed ({})", error.code()));
    }
    assert_eq!(FlowError::Killed.told(&bob, true), FlowError::Killed);
}

#[test]
fn a_flow_that_is_not_installed_is_refused_by_name_and_version() {
    let world = World::new(registry);
    assert_eq!(
        world.start("Alice", "Asks", &Value::Null),
        Err(FlowError::UnknownFlow { flow: "Asks".to_owned() })
    );
    let wrong =
        world.start("Alice", "Ask", &json!({ "too": "Bob" })).expect_err("an argument of another name");
    assert!(wrong.to_string().contains("too"), "{wrong}");

    let world = World::new(newer);
    let flow = world.start("Alice", "Ask", &json!({ "to": "Bob answer" })).expect("a start");
    world.settle();
    let Some(Err(FlowError::Counterparty { kind, reason, .. })) = world.outcome("Alice", flow) else {
        panic!("Bob does not speak version 2")
    };
    assert_eq!(kind, "version");
    assert_eq!(reason, "version 2 of flow `Ask` is not installed here; installed: 1");
}

#[test]
fn a_deadline_passes_and_the_late_answer_is_dropped() {
    let mut world = World::new(registry);
    let flow = world.start("Alice", "Ask", &json!({ "to": "Bob wait" })).expect("a start");
    world.settle();
    assert_eq!(world.outcome("Alice", flow), None);
    world.now = Timestamp::from_millis(world.now.as_millis() + 1000);
    world.settle();
    assert_eq!(world.outcome("Alice", flow), Some(Err(FlowError::Timeout { party: name("Bob") })));
}

#[test]
fn panics_are_held_for_a_person_who_may_retry_or_kill() {
    let world = World::new(registry);
    let flow = world.start("Alice", "Ask", &json!({ "to": "Bob panic" })).expect("a start");
    world.settle();
    let bob = &world.node("Bob").engine;
    let held = bob.views(None, 10).remove(0);
    let FlowState::Held { reason } = &held.state else { panic!("held") };
    assert!(reason.contains("as ordered"), "{reason}");
    assert_eq!(bob.in_hospital(), 1);
    let before = PANICS.load(Ordering::SeqCst);
    bob.retry(held.flow).expect("a retry");
    world.settle();
    assert!(PANICS.load(Ordering::SeqCst) > before);
    bob.kill(held.flow).expect("a kill");
    world.settle();
    assert!(bob.is_empty());
    assert_eq!(bob.kill(held.flow), Err(ControlError::Unknown(held.flow)));
    let outcome = world.outcome("Alice", flow).expect("an end");
    assert!(matches!(outcome, Err(FlowError::Counterparty { kind, .. }) if kind == "killed"));
}

#[test]
fn passing_trouble_heals_later_and_later() {
    let mut world = World::new(registry);
    *world.node("Bob").desk.failing.lock().unwrap() =
        Some(Trouble::Passing("the database is away".to_owned()));
    let flow = world.start("Alice", "Ask", &json!({ "to": "Bob look" })).expect("a start");
    world.settle();
    let mut pauses = Vec::new();
    for _ in 0..3 {
        let view = world.node("Bob").engine.views(None, 1).remove(0);
        let FlowState::Healing { until, reason, .. } = view.state else { panic!("healing") };
        assert_eq!(reason, "the database is away");
        pauses.push(until.as_millis() - world.now.as_millis());
        world.now = until;
        world.settle();
    }
    assert_eq!(pauses, [100, 200, 400]);
    *world.node("Bob").desk.failing.lock().unwrap() = None;
    world.now = Timestamp::from_millis(world.now.as_millis() + 800);
    // Alice's second has passed too, but the answer came first: it was there when she looked.
    world.settle();
    assert!(world.outcome("Alice", flow).is_some());
    assert!(world.node("Bob").engine.is_empty());
}

#[test]
fn a_paused_flow_keeps_what_arrives_even_through_a_crash() {
    let mut world = World::new(registry);
    let flow = world.start("Alice", "Ask", &json!({ "to": "Bob answer" })).expect("a start");
    let alice = &world.node("Alice").engine;
    alice.run(alice.next().expect("a turn"), world.now);
    alice.pause(flow).expect("a pause");
    world.settle();
    assert_eq!(world.outcome("Alice", flow), None);
    world.restart("Alice", registry);
    world.settle();
    let alice = &world.node("Alice").engine;
    assert_eq!(alice.view(flow).expect("under way").state, FlowState::Paused);
    alice.retry(flow).expect("a retry");
    world.settle();
    assert!(matches!(world.outcome("Alice", flow), Some(Ok(_))));
}

#[test]
fn a_flow_in_flight_waits_for_its_version_and_then_finishes() {
    let mut world = World::new(registry);
    let flow = world.start("Alice", "Ask", &json!({ "to": "Bob answer" })).expect("a start");
    let alice = &world.node("Alice").engine;
    alice.run(alice.next().expect("a turn"), world.now);
    world.restart("Alice", newer);
    world.settle();
    let FlowState::Held { reason } = world.node("Alice").engine.view(flow).expect("under way").state else {
        panic!("held")
    };
    assert_eq!(reason, "version 1 of flow `Ask` is not installed here; installed: 2");
    world.restart("Alice", || Registry::new().flow::<Ask<1>>().flow::<Ask<2>>().responder::<Obey>());
    world.node("Alice").engine.retry(flow).expect("a retry");
    world.settle();
    assert!(matches!(world.outcome("Alice", flow), Some(Ok(_))));
}

struct Hasty;

static ROUND: AtomicU32 = AtomicU32::new(0);

impl Flow for Hasty {
    const NAME: &'static str = "Hasty";
    const VERSION: u32 = 1;
    const ARGUMENTS: &'static [(&'static str, &'static str)] = &[];
    type Arguments = ();
    type Output = ();

    async fn run(context: Context, (): ()) -> Result<(), FlowError> {
        let session = context.open(&name("Bob")).await?;
        if ROUND.fetch_add(1, Ordering::SeqCst) == 0 {
            session.send("listen").await;
        } else {
            context.now().await;
        }
        session.receive().await
    }
}

#[test]
fn code_that_does_something_else_than_before_is_held() {
    let mut world = World::new(|| registry().flow::<Hasty>());
    let flow = world.start("Alice", "Hasty", &Value::Null).expect("a start");
    let alice = &world.node("Alice").engine;
    alice.run(alice.next().expect("a turn"), world.now);
    world.restart("Alice", || registry().flow::<Hasty>());
    world.settle();
    let FlowState::Held { reason } = world.node("Alice").engine.view(flow).expect("under way").state else {
        panic!("held")
    };
    assert!(reason.contains("the journal says") && reason.contains("ask for the time"), "{reason}");
}

#[test]
fn a_full_queue_makes_the_flow_wait() {
    let world = World::new(registry);
    *world.node("Alice").desk.room.lock().unwrap() = false;
    let flow = world.start("Alice", "Ask", &json!({ "to": "Bob answer" })).expect("a start");
    world.settle();
    let alice = world.node("Alice");
    assert!(alice.engine.view(flow).expect("under way").waits_for.contains("room in the queue"));
    *alice.desk.room.lock().unwrap() = true;
    alice.engine.room();
    world.settle();
    assert!(matches!(world.outcome("Alice", flow), Some(Ok(_))));
}

#[test]
fn bad_messages_change_nothing() {
    let world = World::new(registry);
    world.start("Alice", "Ask", &json!({ "to": "Bob wait" })).expect("a start");
    world.settle();
    let session = {
        let disk = world.node("Bob").desk.disk.lock().unwrap();
        disk.flows.values().next().expect("a flow").arrivals[0].session
    };
    let units = world.units();
    let bob = &world.node("Bob").engine;
    let deliver = |from: &str, bytes: Vec<u8>| bob.deliver(&party(from).name, bytes, 0, [0; 32], world.now);
    let message = Message { session, number: 1, last: false, body: crate::Body::Data(vec![1]) };
    assert!(
        matches!(deliver("Carol", message.encode()), Err(DeliveryError::Foreign(foreign)) if foreign == session)
    );
    let mut long = message.encode();
    long.push(0);
    assert!(matches!(deliver("Alice", long), Err(DeliveryError::Undecodable(_))));
    let bytes = message.encode();
    for length in 0..bytes.len() {
        assert!(matches!(deliver("Alice", bytes[..length].to_vec()), Err(DeliveryError::Undecodable(_))));
    }
    let stray = Message { session: SessionId([9; 16]), ..message };
    assert!(matches!(deliver("Alice", stray.encode()), Ok(crate::Delivered::Late)));
    world.settle();
    assert_eq!(world.units(), units);
}

/// Draining: starts are refused, what is under way ends, what peers begin waits and is not lost over a restart.
#[test]
fn a_drained_node_ends_what_is_under_way_and_begins_nothing() {
    let mut world = World::new(registry);
    let bob = |world: &World| world.node("Bob").engine.drained();
    // Under way at Bob: his own, waiting for Alice, who waits for him.
    let own = world.start("Bob", "Ask", &json!({ "to": "Alice answer" })).expect("a start");
    world.node("Bob").engine.drain();
    assert!(bob(&world).draining && !bob(&world).is_empty());
    let refused = world.start("Bob", "Ask", &json!({ "to": "Alice look" })).expect_err("nothing new begins");
    assert!(refused.to_string().contains("drained"), "{refused}");
    // The same request as before is answered.
    assert_eq!(world.start("Bob", "Ask", &json!({ "to": "Alice answer" })), Ok(own));
    let asked = world.start("Alice", "Ask", &json!({ "to": "Bob wait" })).expect("a start");
    world.settle();
    assert_eq!(world.outcome("Bob", own), Some(Ok(borsh::to_vec("yes").expect("bytes"))));
    assert_eq!(world.outcome("Alice", asked), None);
    assert_eq!(bob(&world).under_way, 1, "its end is not known to be durable");
    world.node("Bob").engine.forget(own);
    let drained = bob(&world);
    assert!(drained.is_empty(), "{drained:?}");
    assert_eq!((drained.under_way, drained.for_a_person, drained.waiting), (0, 0, 1));
    assert_eq!(world.node("Bob").engine.views(None, 10)[0].state, FlowState::Paused);

    // What waits begins when draining is over.
    world.node("Bob").engine.resume();
    world.settle();
    let view = &world.node("Bob").engine.views(None, 10)[0];
    assert_eq!((&view.state, bob(&world).waiting), (&FlowState::Running, 0));

    // It is durable: a restart ends draining, and begins it too.
    world.node("Bob").engine.drain();
    let asked = world.start("Alice", "Ask", &json!({ "to": "Bob answer" })).expect("a start");
    world.settle();
    assert_eq!(world.outcome("Alice", asked), None);
    world.restart("Bob", registry);
    world.settle();
    assert_eq!(world.outcome("Alice", asked), Some(Ok(borsh::to_vec("yes").expect("bytes"))));
}

/// A person who pauses or kills what waits decides about it.
#[test]
fn what_a_person_decided_is_not_undone_when_draining_is_over() {
    let world = World::new(registry);
    world.node("Bob").engine.drain();
    world.start("Alice", "Ask", &json!({ "to": "Bob answer" })).expect("a start");
    world.settle();
    let engine = &world.node("Bob").engine;
    let waiting = engine.views(None, 10)[0].flow;
    engine.pause(waiting).expect("it is under way");
    assert_eq!((engine.drained().waiting, engine.drained().for_a_person), (0, 1));
    engine.resume();
    world.settle();
    assert_eq!(engine.view(waiting).map(|view| view.state), Some(FlowState::Paused));
    engine.kill(waiting).expect("it is under way");
    world.settle();
    engine.forget(waiting);
    assert_eq!(engine.drained(), crate::Drain::default());
}
