//! What an engine says of a flow whose end is durable before the turn that reached it is over.

use std::sync::{Arc, Mutex, OnceLock, Weak};

use tally_contracts::{Name, NetworkId, Timestamp};

use super::world::party;
use crate::{
    Bearer, Body, Context, Engine, Flow, FlowError, FlowId, FormerKey, Host, Limits, Message, Origin,
    Performed, Registry, Request, Responder, Session, SessionId, Start, Started, Trouble, Unit,
};

/// Makes everything durable at once, and looks what the engine then says.
#[derive(Default)]
struct AtOnce {
    engine: OnceLock<Weak<Engine>>,
    /// For each flow that ended: whether it was under way with its end durable.
    ended: Mutex<Vec<bool>>,
    /// Started and run to its end while somebody else asks whether it was started.
    quicker: Mutex<Option<Start>>,
}

impl Host for AtOnce {
    fn perform(&self, _: FlowId, _: Timestamp, request: &Request) -> Result<Performed, Trouble> {
        panic!("the flow does not ask to {}", request.describe());
    }

    fn submit(&self, unit: Unit) {
        let engine = self.engine.get().and_then(Weak::upgrade).expect("it runs");
        if unit.outcome.is_some() {
            assert!(engine.holds(unit.flow) && engine.unfinished() == 1, "its end is not durable yet");
            engine.forget(unit.flow);
            let lingers = engine.holds(unit.flow) || engine.unfinished() > 0;
            self.ended.lock().unwrap().push(lingers);
        }
    }

    fn progress(&self, _: FlowId, _: &str) {}

    fn wake(&self) {}

    fn has_room(&self, _: &Name) -> bool {
        true
    }

    fn is_known(&self, _: FlowId) -> Result<bool, Trouble> {
        let quicker = self.quicker.lock().unwrap().take();
        if let Some(start) = quicker {
            let engine = self.engine.get().and_then(Weak::upgrade).expect("it runs");
            let now = start.at;
            assert_eq!(engine.start(start).unwrap(), Started::New);
            let turn = engine.next().unwrap();
            engine.run(turn, now);
        }
        // As a database answers that was read before the flow was written.
        Ok(false)
    }
}

struct Brief;

impl Flow for Brief {
    const NAME: &'static str = "Brief";
    const VERSION: u32 = 1;
    const ARGUMENTS: &'static [(&'static str, &'static str)] = &[];
    type Arguments = ();
    type Output = ();

    async fn run(_: Context, (): ()) -> Result<(), FlowError> {
        Ok(())
    }
}

/// What answers it.
struct Answer;

impl Responder for Answer {
    const ANSWERS: &'static str = Brief::NAME;
    const VERSION: u32 = Brief::VERSION;

    async fn run(_: Context, _: Session) -> Result<(), FlowError> {
        Ok(())
    }
}

fn engine() -> (Arc<AtOnce>, Arc<Engine>) {
    engine_of(party("Alice"))
}

fn engine_of(me: impl Into<Bearer>) -> (Arc<AtOnce>, Arc<Engine>) {
    let host = Arc::new(AtOnce::default());
    let registry = Registry::new().flow::<Brief>().responder::<Answer>();
    let engine = Arc::new(Engine::new(
        registry,
        Limits::default(),
        me,
        NetworkId::from_bytes([0x4e; 32]),
        host.clone(),
    ));
    host.engine.set(Arc::downgrade(&engine)).unwrap();
    (host, engine)
}

const NOW: Timestamp = Timestamp::from_millis(1);

fn start() -> Start {
    Start {
        flow: FlowId([1; 16]),
        name: Brief::NAME.into(),
        version: Brief::VERSION,
        arguments: Vec::new(),
        origin: Origin::User { name: "test".to_owned() },
        seed: [0; 32],
        at: NOW,
    }
}

#[test]
fn a_flow_whose_end_is_durable_is_not_under_way() {
    let (host, engine) = engine();
    engine.start(start()).unwrap();
    let turn = engine.next().unwrap();
    engine.run(turn, NOW);
    assert_eq!(*host.ended.lock().unwrap(), [false]);
    assert_eq!(engine.unfinished(), 0);
}

/// Two threads bring one request: the second asks the database before the first has written anything, and is answered
/// when the first is done.
#[test]
fn what_began_and_ended_while_the_host_was_asked_does_not_begin_again() {
    let (host, engine) = engine();
    *host.quicker.lock().unwrap() = Some(start());
    assert_eq!(engine.start(start()).unwrap(), Started::Before);
    assert!(engine.next().is_none(), "it runs once");
    assert_eq!(host.ended.lock().unwrap().len(), 1);
    // Nothing of it is kept: asked again, the host's answer alone counts.
    assert_eq!(engine.start(start()).unwrap(), Started::New);
}

/// The clock was ahead when the key was rotated, and is right again: no flow goes on with the key that was given up.
#[test]
fn what_begins_after_a_rotation_begins_under_the_present_key_whatever_the_clock_says() {
    let until = Timestamp::from_millis(1_000_000);
    let former = FormerKey { key: party("Alice before").key, until };
    let (_, engine) = engine_of(Bearer::new(party("Alice"), &[former]));
    engine.start(start()).unwrap();
    let open = Message {
        session: SessionId([7; 16]),
        number: 0,
        last: false,
        body: Body::Open { flow: "Brief".to_owned(), version: 1, payload: None },
    };
    engine.deliver(&party("Bob").name, open.encode(), 1, [0; 32], NOW).unwrap();
    let began: Vec<_> = engine.views(None, 10).iter().map(|view| view.at).collect();
    assert_eq!(began, [until, until]);
}
