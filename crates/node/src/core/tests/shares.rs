//! What one flow or one peer cannot do to the others of a node.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use tally_contracts::cash::{CashCommand, CashState};
use tally_contracts::{Contracts, NetworkId, PublicKey, SignedTransaction, TransactionBuilder};
use tally_flows::{Body, Context, Flow, FlowState, Host, Message, Notaries, Responder, Response, Session};

use super::*;
use crate::Network;
use crate::testing::{NETWORK, parts, party};

/// A network in which PartyB may cease to be a member.
#[derive(Default)]
struct Members {
    b_left: AtomicBool,
}

impl Network for Members {
    fn id(&self) -> NetworkId {
        NETWORK
    }

    fn transaction_limit(&self) -> u64 {
        u64::MAX
    }

    fn is_certified(&self, _: &Party) -> bool {
        true
    }

    fn party(&self, name: &Name) -> Option<Party> {
        let b = party("PartyB", 2);
        (b.name == *name && !self.b_left.load(Ordering::SeqCst)).then_some(b)
    }

    fn notaries(&self) -> Notaries {
        Notaries::default()
    }

    fn parties(&self) -> Vec<Name> {
        Vec::new()
    }

    fn keys_of(&self, name: &Name) -> Vec<PublicKey> {
        self.party(name).map(|party| party.key).into_iter().collect()
    }

    fn name_of(&self, _: &PublicKey) -> Option<Name> {
        None
    }
}

/// Records transactions as they are given, unverified.
struct Records;

impl Flow for Records {
    const NAME: &'static str = "Records";
    const VERSION: u32 = 1;
    const ARGUMENTS: &'static [(&'static str, &'static str)] = &[("transactions", "what to record")];
    type Arguments = Vec<Vec<u8>>;
    type Output = ();

    async fn run(context: Context, arguments: Vec<Vec<u8>>) -> Result<(), FlowError> {
        let decode = |bytes: Vec<u8>| SignedTransaction::decode(&bytes).map(Arc::new);
        let decoded: Result<Vec<_>, _> = arguments.into_iter().map(decode).collect();
        context.record(decoded.map_err(FlowError::invalid)?).await
    }
}

/// Records what a peer says, tells it so, and listens to it once more.
struct Listens;

impl Responder for Listens {
    const ANSWERS: &'static str = "Tells";
    const VERSION: u32 = 1;

    async fn run(context: Context, session: Session) -> Result<(), FlowError> {
        let said: Option<Vec<u8>> = session.receive().await?;
        if let Some(bytes) = said {
            let transaction = SignedTransaction::decode(&bytes).map_err(FlowError::invalid)?;
            context.record(vec![Arc::new(transaction)]).await?;
            session.send("recorded").await;
        }
        session.receive().await
    }
}

pub(crate) fn core(directory: &Path) -> Core {
    core_in(directory, Arc::new(Members::default()), Limits::default())
}

fn core_in(directory: &Path, network: Arc<dyn Network>, limits: Limits) -> Core {
    let parts = parts(directory, network);
    let registry = Registry::new().flow::<Records>().responder::<Listens>();
    Core::open(parts, registry, limits, Meters::unread()).expect("a node")
}

fn record(core: &Core, transactions: &[&SignedTransaction]) -> FlowId {
    let arguments: Vec<Vec<u8>> = transactions.iter().map(|signed| signed.encode()).collect();
    let arguments = borsh::to_vec(&arguments).expect("bytes");
    let request = Request { user: "test".to_owned(), request: None, flow: "Records".to_owned(), arguments };
    core.start(request).expect("a start").0
}

fn settle(core: &Core) {
    while core.turn() {}
}

fn outcome(core: &Core, flow: FlowId) -> Option<Outcome> {
    let row = core.store().flow(flow.0).expect("an answer")?;
    match row.status {
        FlowStatus::Ended { outcome, .. } => Some(decode_outcome(flow, &outcome).expect("an outcome")),
        FlowStatus::Unfinished(_) => None,
    }
}

fn held(core: &Core, flow: FlowId) -> String {
    match core.engine().view(flow).expect("it is under way").state {
        FlowState::Held { reason } => reason,
        other => panic!("{other:?}"),
    }
}

/// A coin of PartyA's own, and two transactions that spend it.
fn spent_twice() -> (SignedTransaction, SignedTransaction, SignedTransaction) {
    let (me, notary) = (party("PartyA", 1), party("Notary", 9));
    let cash =
        CashState { amount: "1.00 USD".parse().expect("an amount"), issuer: me.clone(), owner: me.key };
    let build = |builder: TransactionBuilder, salt: u8| {
        let transaction = builder.build([salt; 32], &Contracts::shipped()).expect("a transaction");
        SignedTransaction::new(transaction, []).expect("without signatures")
    };
    let builder = || TransactionBuilder::new(NETWORK, notary.clone());
    let issue = build(builder().output(&cash).command(&CashCommand::Issue { nonce: 0 }, [me.key]), 1);
    let coin = issue.transaction().output(0).expect("a coin");
    let spend =
        |salt| build(builder().input(coin.clone()).output(&cash).command(&CashCommand::Move, [me.key]), salt);
    (issue.clone(), spend(2), spend(3))
}

#[test]
fn a_flow_whose_unit_the_store_refuses_is_held_alone() {
    let directory = tempfile::tempdir().expect("a directory");
    let (issue, first, second) = spent_twice();
    let poison = {
        let core = core(directory.path());
        let flows = [record(&core, &[&issue]), record(&core, &[&first])];
        let poison = record(&core, &[&second]);
        let others: Vec<_> = (0..20).map(|_| record(&core, &[])).collect();
        settle(&core);
        assert!(core.commit().expect("the batch is written"), "with one unit less");
        for flow in flows.iter().chain(&others) {
            assert_eq!(outcome(&core, *flow), Some(Ok(Vec::new())));
        }
        let reason = held(&core, poison);
        assert!(reason.contains("is consumed by"), "{reason}");
        assert!(core.available().is_ok());
        // Nothing of it is seen by others, and the node works on.
        assert!(!core.desk.is_recent(&second.id()));
        let later = record(&core, &[]);
        settle(&core);
        core.commit().expect("a batch");
        assert_eq!(outcome(&core, later), Some(Ok(Vec::new())));
        poison
    };
    // So it does after a restart; a person who retries it finds it held again, and one who ends it is rid of it.
    let core = core(directory.path());
    assert!(held(&core, poison).contains("is consumed by"));
    core.engine().retry(poison).expect("a retry");
    settle(&core);
    core.commit().expect("a batch");
    assert!(held(&core, poison).contains("is consumed by"));
    core.engine().kill(poison).expect("an end");
    settle(&core);
    core.commit().expect("a batch");
    assert_eq!(outcome(&core, poison), Some(Err(FlowError::Killed)));
    assert!(core.engine().is_empty());
}

/// Nobody could end a recovery whose flow is held, so that it hears of a state that a notary gave to two transactions.
#[test]
fn a_recovery_is_refused_what_contradicts_the_vault_and_is_not_held() {
    let directory = tempfile::tempdir().expect("a directory");
    let core = core(directory.path());
    let (issue, first, second) = spent_twice();
    record(&core, &[&issue]);
    record(&core, &[&first]);
    settle(&core);
    core.commit().expect("a batch");
    let perform = |signed: &SignedTransaction| {
        let request = tally_flows::Request::Record(vec![Arc::new(signed.clone())]);
        let performed = core.desk.perform(FlowId([9; 16]), core.now(), &request).expect("no trouble");
        performed.response
    };
    assert!(matches!(perform(&second), Response::Done), "a node that works holds the flow later");
    lock(&core.desk.past).need("its database was lost".to_owned());
    let state = first.transaction().inputs()[0];
    let conflict = FlowError::Conflict { state, consumed_by: first.id() };
    assert!(matches!(perform(&second), Response::Refused(error) if error == conflict));
    // What it has already is no contradiction.
    assert!(matches!(perform(&first), Response::Done));
}

/// The node's standing and new names of queues are written before the units of a batch; a unit that is set aside takes
/// nothing of them with it, and nothing of its neighbours.
#[test]
fn what_a_batch_begins_with_stays_when_a_unit_is_set_aside() {
    let directory = tempfile::tempdir().expect("a directory");
    let (issue, first, second) = spent_twice();
    let core = core(directory.path());
    core.begin().expect("a standing");
    let flows = [record(&core, &[&issue]), record(&core, &[&first])];
    let poison = record(&core, &[&second]);
    let others: Vec<_> = (0..5).map(|_| record(&core, &[])).collect();
    settle(&core);
    core.beat();
    core.desk.queue.write_standing();
    let peer = party("PartyB", 2).name;
    let anew = Write::QueueAnew { peer: peer.clone(), queue: [7; 16] };
    core.desk.queue.change(vec![anew], Box::new(|| ()));
    assert!(core.commit().expect("the batch is written"), "with one unit less");
    for flow in flows.iter().chain(&others) {
        assert_eq!(outcome(&core, *flow), Some(Ok(Vec::new())));
    }
    assert!(held(&core, poison).contains("is consumed by"));
    let after = core.store().past().expect("an answer");
    assert!(after.standing.is_some());
    assert_eq!(after.queues, [(peer, [7; 16])].into());
    let stored = core.store().transactions(&[issue.id(), first.id(), second.id()]).expect("an answer");
    assert_eq!(stored.iter().map(Option::is_some).collect::<Vec<_>>(), [true, true, false]);
}

/// Has PartyB say something in its session `number`.
fn say(core: &Core, queue: QueueId, at: u64, number: u8, place: u64, body: Body) -> Result<(), Refusal> {
    let message = Message { session: SessionId([number; 16]), number: place, last: false, body };
    let mut messages = vec![(at, Bytes::from(message.encode()))];
    core.receive(&party("PartyB", 2).name, queue, &mut messages)
}

fn open(said: Option<&SignedTransaction>) -> Body {
    let said = said.map(SignedTransaction::encode);
    Body::Open { flow: "Tells".to_owned(), version: 1, payload: Some(borsh::to_vec(&said).expect("bytes")) }
}

#[test]
fn what_arrived_for_a_flow_that_is_set_aside_is_kept_and_its_sender_is_not_held_up() {
    let directory = tempfile::tempdir().expect("a directory");
    let (issue, first, second) = spent_twice();
    let (peer, queue) = (party("PartyB", 2).name, QueueId([5; 16]));
    let flow = FlowId::of_session(&peer, SessionId([1; 16]));
    {
        let core = core(directory.path());
        record(&core, &[&issue, &first]);
        say(&core, queue, 1, 1, 0, open(Some(&second))).expect("taken");
        settle(&core);
        // It goes on in a second unit, before the first is written.
        say(&core, queue, 2, 1, 1, Body::Data(borsh::to_vec(&()).expect("bytes"))).expect("taken");
        say(&core, queue, 3, 2, 0, open(None)).expect("taken");
        settle(&core);
        core.commit().expect("a batch");
        assert!(held(&core, flow).contains("is consumed by"));
        core.commit().expect("what was left");
        assert_eq!(core.position(&peer, queue).durable, 3, "all that it said is durable");
        // What it was to be told has numbers: messages that say nothing have them now, and none is missing.
        let told = core.store().outbound(&peer, 0, 1 << 20).expect("messages");
        for ((number, bytes), expected) in told.iter().zip(1..) {
            let message = Message::decode(bytes).expect("a message");
            assert_eq!((*number, message.session, message.body), (expected, SessionId([0; 16]), Body::End));
        }
        assert_eq!(told.len(), 2);
        assert_eq!(core.engine().share_of(&peer).0, 2, "both flows are under way");
        let other = FlowId::of_session(&peer, SessionId([2; 16]));
        assert!(matches!(core.engine().view(other).expect("under way").state, FlowState::Running));
    }
    let core = core(directory.path());
    assert!(held(&core, flow).contains("is consumed by"));
    core.engine().retry(flow).expect("a retry");
    settle(&core);
    core.commit().expect("a batch");
    assert!(held(&core, flow).contains("is consumed by"), "what it was told is there: it fails as before");
    core.engine().kill(flow).expect("an end");
    settle(&core);
    core.commit().expect("a batch");
    assert_eq!(outcome(&core, flow), Some(Err(FlowError::Killed)));
}

#[test]
fn a_flow_whose_journal_is_damaged_keeps_no_other_from_going_on() {
    let directory = tempfile::tempdir().expect("a directory");
    let (peer, queue) = (party("PartyB", 2).name, QueueId([5; 16]));
    let flow = |number| FlowId::of_session(&peer, SessionId([number; 16]));
    {
        let core = core(directory.path());
        for number in 1..=3 {
            say(&core, queue, number.into(), number, 0, open(None)).expect("taken");
        }
        settle(&core);
        core.commit().expect("a batch");
        let damage = [
            // What is no step, and a unit that is missing.
            Write::Steps { flow: flow(1).0, unit: 1, entries: vec![255; 9] },
            Write::Steps { flow: flow(2).0, unit: 5, entries: Vec::new() },
        ];
        core.store().apply(&damage).expect("written");
    }
    let core = core(directory.path());
    assert!(held(&core, flow(1)).contains("damaged"));
    assert!(held(&core, flow(2)).contains("unit 1 is missing"));
    say(&core, queue, 4, 3, 1, Body::Data(borsh::to_vec(&()).expect("bytes"))).expect("taken");
    settle(&core);
    core.commit().expect("a batch");
    assert_eq!(outcome(&core, flow(3)), Some(Ok(Vec::new())));
    for number in [1, 2] {
        core.engine().retry(flow(number)).expect("a retry");
        settle(&core);
        held(&core, flow(number));
        core.engine().kill(flow(number)).expect("an end");
    }
    settle(&core);
    core.commit().expect("a batch");
    assert_eq!(outcome(&core, flow(1)), Some(Err(FlowError::Killed)));
}

#[test]
fn the_name_of_a_flow_that_is_not_here_is_kept_as_text_that_every_database_takes() {
    let directory = tempfile::tempdir().expect("a directory");
    let core = core(directory.path());
    let name = format!("No\0such\n{}", "x".repeat(1000));
    let body = Body::Open { flow: name, version: 1, payload: None };
    say(&core, QueueId([5; 16]), 1, 1, 0, body).expect("taken");
    core.commit().expect("a batch");
    let flow = FlowId::of_session(&party("PartyB", 2).name, SessionId([1; 16]));
    let row = core.store().flow(flow.0).expect("an answer").expect("a row");
    assert_eq!(row.flow.name, format!("Nosuch{}", "x".repeat(194)));
    assert!(matches!(outcome(&core, flow), Some(Err(FlowError::UnknownFlow { .. }))));
}

#[test]
fn a_peer_whose_messages_are_not_durable_waits_alone() {
    let directory = tempfile::tempdir().expect("a directory");
    let core = core(directory.path());
    let (queue, other) = (QueueId([5; 16]), QueueId([6; 16]));
    // None of them is for anybody, and each has to be remembered.
    let stray = || Body::Data(Vec::new());
    for number in 1..=PEER_MESSAGES {
        say(&core, queue, number, 1, 1, stray()).expect("taken");
    }
    assert!(matches!(say(&core, queue, PEER_MESSAGES + 1, 1, 1, stray()), Err(Refusal::Busy)));
    let message = Message { session: SessionId([1; 16]), number: 1, last: false, body: stray() };
    let mut messages = vec![(1, Bytes::from(message.encode()))];
    core.receive(&party("PartyC", 3).name, other, &mut messages).expect("another is heard");
    record(&core, &[]);
    settle(&core);
    core.commit().expect("a batch");
    say(&core, queue, PEER_MESSAGES + 1, 1, 1, stray()).expect("it is heard again");
}

#[test]
fn flows_of_a_peer_that_is_no_member_any_more_end_and_those_of_a_map_being_written_do_not() {
    let directory = tempfile::tempdir().expect("a directory");
    let members = Arc::new(Members::default());
    let core = core_in(directory.path(), members.clone(), Limits::default());
    let (peer, queue) = (party("PartyB", 2).name, QueueId([5; 16]));
    say(&core, queue, 1, 1, 0, open(None)).expect("taken");
    settle(&core);
    core.commit().expect("a batch");
    let flow = FlowId::of_session(&peer, SessionId([1; 16]));
    let review = || {
        core.review_members();
        settle(&core);
        core.commit().expect("a batch");
        outcome(&core, flow)
    };
    members.b_left.store(true, Ordering::SeqCst);
    assert_eq!(review(), None);
    members.b_left.store(false, Ordering::SeqCst);
    assert_eq!(review(), None);
    members.b_left.store(true, Ordering::SeqCst);
    assert_eq!(review(), None);
    assert_eq!(review(), Some(Err(FlowError::UnknownParty { name: peer.to_string() })));
    assert!(core.engine().is_empty());
}

#[test]
fn a_probe_uses_the_database() {
    let directory = tempfile::tempdir().expect("a directory");
    let core = core(directory.path());
    let probe = || {
        let (answer, answered) = std::sync::mpsc::channel();
        core.probe(move |result| answer.send(result).expect("a listener"));
        core.answer_probes();
        answered.recv().expect("an answer")
    };
    assert_eq!(probe(), Ok(()));
    let (other, wal) = (directory.path().join("node.db"), directory.path().join("node.db-wal"));
    let length = std::fs::metadata(&other).expect("a file").len();
    std::fs::write(&wal, []).expect("an empty file");
    std::fs::write(&other, vec![0x5a; usize::try_from(length).expect("a length")]).expect("a damaged file");
    let reason = probe().expect_err("it is damaged");
    assert!(reason.contains("damaged") || reason.contains("database"), "{reason}");
}
