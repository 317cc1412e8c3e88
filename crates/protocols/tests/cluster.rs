//! A clustered notary: its members are asked one after the other, and none is believed without proof.

#![allow(clippy::unwrap_used, reason = "a test that fails says where")]

use serde_json::{Value, json};
use tally_contracts::cash::{self, Coin};
use tally_contracts::{
    CompositeKey, Name, Role, Scheme, SignedTransaction, SigningKey, StateRef, Timestamp, TransactionBuilder,
    TransactionId, encode, sign,
};
use tally_flows::{Context, Fate, FlowError, Registry, Responder, Session};
use tally_notary::{Answer as Said, Cluster, Commit, Judge, Outcome, Request, TransactionForm};
use tally_protocols::notarise::{self, Answer, BlindJudge, Question};
use tally_protocols::testing::{NETWORK, Network};
use tally_protocols::{check, finalise, registry};

const MEMBERS: [&str; 4] = ["Member 1", "Member 2", "Member 3", "Member 4"];

struct World {
    network: Network,
    alice: Name,
    bob: Name,
    members: Vec<Name>,
}

/// Alice has a hundred coins of a dollar each.
fn world_with(first: fn() -> Registry) -> World {
    let mut network = Network::new();
    let alice = network.party("Alice");
    let bob = network.party("Bob");
    let members =
        MEMBERS.map(|member| if member == MEMBERS[0] { (member, first) } else { (member, registry as _) });
    let members = network.cluster_with("Cluster", &members);
    network.run(&alice, "CashIssue", json!({ "amount": "100.00 USD", "outputs": 100 })).unwrap();
    World { network, alice, bob, members }
}

fn world() -> World {
    world_with(registry)
}

impl World {
    fn pay(&mut self) -> Result<Value, FlowError> {
        let arguments = json!({ "amount": "1.00 USD", "to": self.bob });
        self.network.run(&self.alice, "CashPay", arguments)
    }

    fn has(&self, who: &Name) -> u64 {
        self.network.cash(who, "USD", &self.alice)
    }

    fn cut(&mut self, member: usize, cut: bool) {
        let (alice, member) = (self.alice.clone(), self.members[member].clone());
        self.network.set_cut(&alice, &member, cut);
    }
}

#[test]
fn cash_is_paid_and_paid_back_and_each_transaction_proves_its_attestation() {
    let mut world = world();
    let paid = world.pay().unwrap();
    assert_eq!((world.has(&world.alice), world.has(&world.bob)), (9_900, 100));
    let (alice, bob) = (world.alice.clone(), world.bob.clone());
    world.network.run(&bob, "CashPay", json!({ "amount": "1.00 USD", "to": alice })).unwrap();
    assert_eq!((world.has(&alice), world.has(&bob)), (10_000, 0));
    let id: TransactionId = paid["transaction"].as_str().unwrap().parse().unwrap();
    for who in [&alice, &bob] {
        let found = world.network.transaction(who, &id).unwrap();
        let decoded = SignedTransaction::decode(&found.encode()).unwrap();
        decoded.verify_signatures().unwrap();
        assert_eq!(decoded.composite().map(CompositeKey::threshold), Some(3));
        assert_eq!(decoded.attestations().count(), 3);
    }
    // A member pays through its own cluster like anybody else.
    let member = world.members[2].clone();
    world.network.run(&member, "CashIssue", json!({ "amount": "1.00 USD" })).unwrap();
    world.network.run(&member, "CashPay", json!({ "amount": "1.00 USD", "to": bob })).unwrap();
    assert_eq!(world.network.cash(&bob, "USD", &member), 100);
}

#[test]
fn payments_go_on_without_any_one_member() {
    for away in 0..MEMBERS.len() {
        let mut world = world();
        world.cut(away, true);
        for _ in 0..8 {
            world.pay().unwrap();
        }
        assert_eq!(world.has(&world.bob), 800);
    }
}

#[test]
fn a_member_that_is_away_holds_nobody_up_once_that_is_known() {
    let mut clocks = Vec::new();
    for (away, is_full) in (0..=MEMBERS.len()).flat_map(|away| [(away, true), (away, false)]) {
        let mut world = world();
        if let Some(member) = world.members.get(away).cloned() {
            let alice = world.alice.clone();
            if !is_full {
                world.cut(away, true);
            }
            world.network.switch(&alice, |switches| {
                if is_full { &mut switches.no_room_for } else { &mut switches.silent }.insert(member);
            });
        }
        for _ in 0..8 {
            world.pay().unwrap();
        }
        assert_eq!(world.has(&world.bob), 800);
        clocks.push(world.network.now());
    }
    // The last world is one in which nobody is away.
    clocks.dedup();
    assert_eq!(clocks.len(), 1, "no time was lost: {clocks:?}");
}

/// It was this node that could not be heard for a while: nobody has taken anything, and everybody is asked.
#[test]
fn members_that_are_all_silent_are_asked_all_the_same() {
    let mut world = world();
    let paid = |world: &mut World| {
        let before = world.network.now();
        world.pay().unwrap();
        world.network.now().since(before)
    };
    let usual = paid(&mut world);
    let (alice, members) = (world.alice.clone(), world.members.clone());
    world.network.switch(&alice, |switches| switches.silent.extend(members));
    assert_eq!((paid(&mut world), world.has(&world.bob)), (usual, 200));
}

#[test]
fn signatures_of_members_count_in_the_size_of_a_transaction() {
    let mut world = world();
    let paid = world.pay().unwrap();
    let id: TransactionId = paid["transaction"].as_str().unwrap().parse().unwrap();
    let bytes = world.network.transaction(&world.alice, &id).unwrap().encode().len() as u64;
    // Two of three signatures fewer would do.
    world.network.set_transaction_limit(bytes - 1);
    let signed = world.network.signed(&world.alice).len();
    let error = world.pay().unwrap_err();
    assert!(matches!(error, FlowError::TooLarge { .. }), "{error}");
    assert_eq!(world.network.signed(&world.alice).len(), signed);
    world.network.set_transaction_limit(bytes + 100);
    world.pay().unwrap();
}

#[test]
fn the_limit_of_a_request_is_that_of_the_members() {
    assert_eq!(notarise::REQUEST_BYTES, tally_notary::Config::default().request_bytes);
}

/// Lies of a member, each in its turn.
const LIES: u8 = 10;

/// A member that answers whatever it likes, and signs it with its own keys.
struct Liar;

impl Responder for Liar {
    const ANSWERS: &'static str = notarise::NAME;
    const VERSION: u32 = notarise::VERSION;

    async fn run(context: Context, session: Session) -> Result<(), FlowError> {
        let question: Question = session.receive().await?;
        let Question::Part { tear_off, .. } = &question else { return Err(FlowError::Killed) };
        let view = tear_off.for_notary().unwrap();
        let (id, inputs) = (view.id, view.inputs.to_vec());
        let notaries = context.notaries().await?;
        let members = notaries.current[0].kind.members();
        let own = members.iter().find(|member| member.name == context.me().name).unwrap().key;
        let network = tally_crypto::Hash::from_bytes(*NETWORK.as_bytes());
        let cluster = Cluster::new(network, members.to_vec()).unwrap();
        let state = inputs.first().copied().unwrap_or(StateRef { transaction: id, index: 0 });
        let consumed_by = TransactionId::from_bytes([6; 32]);
        let refusal = Said { transaction: id, outcome: Outcome::Conflict { state, consumed_by } };
        let key = service(&context.me().name);
        let mine = TransactionForm.sign(&cluster, &key, refusal);
        let attestation = context.sign(&own, Role::Notary, id).await?;
        let answer = match id.as_bytes()[31] % LIES {
            0 => Answer::Attested(vec![attestation; 3]),
            1 => {
                // Its own signature under the others' names.
                let forged = members
                    .iter()
                    .map(|member| tally_contracts::TransactionSignature { by: member.key, ..attestation });
                Answer::Attested(forged.collect())
            }
            2 => Answer::Attested(vec![context.sign(&context.me().key, Role::Party, id).await?; 3]),
            3 => Answer::Signed(attestation),
            4 => Answer::Conflict { state, consumed_by },
            5 => Answer::OutsideTimeWindow { at: Timestamp::MAX },
            6 => Answer::Proven(vec![mine; 4]),
            7 => {
                let forged =
                    members.iter().map(|member| tally_notary::SignedAnswer { by: member.key, ..mine });
                Answer::Proven(forged.collect())
            }
            8 => return Err(FlowError::invalid("the transaction is no good")),
            _ => return Err(FlowError::refused("you are not welcome")),
        };
        session.send(&answer).await;
        Ok(())
    }
}

fn key(organisation: &str) -> SigningKey {
    let secret = tally_crypto::hash(organisation.as_bytes());
    SigningKey::from_secret(Scheme::Ed25519, secret.as_bytes()).unwrap()
}

fn service(name: &Name) -> SigningKey {
    key(&format!("{}, notary service", name.organisation()))
}

fn lying() -> Registry {
    Registry::new().responder::<Liar>().responder::<finalise::Finalise>()
}

#[test]
fn a_member_that_lies_costs_time_and_nothing_else() {
    let mut world = world_with(lying);
    let lies = |world: &World| world.network.outcomes(&world.members[0]).len();
    for _ in 0..60 {
        world.pay().unwrap();
    }
    assert_eq!((world.has(&world.alice), world.has(&world.bob)), (4_000, 6_000));
    assert!(lies(&world) >= 8, "it was asked {} times", lies(&world));
}

#[test]
fn a_second_consumer_is_refused_with_proof() {
    let mut network = Network::new();
    let alice = network.party("Alice");
    let bob = network.party("Bob");
    network.cluster_with(
        "Cluster",
        &MEMBERS.map(|member| {
            if member == MEMBERS[0] { (member, lying as fn() -> Registry) } else { (member, registry as _) }
        }),
    );
    network.run(&alice, "CashIssue", json!({ "amount": "1.00 USD" })).unwrap();
    network.switch(&alice, |switches| switches.ignores_locks = true);
    let pay = json!({ "amount": "1.00 USD", "to": bob });
    let flows = [0, 1].map(|_| network.start(&alice, "CashPay", pay.clone()).unwrap());
    network.settle();
    let results = flows.map(|flow| network.result(&alice, flow).unwrap());
    assert_eq!(results.iter().filter(|result| result.is_ok()).count(), 1, "{results:?}");
    let refused = results.iter().find_map(|result| result.as_ref().err()).unwrap();
    assert!(matches!(refused, FlowError::Conflict { .. }), "{refused:?}");
    assert_eq!(refused.fate(), Fate::Refused);
    assert_eq!(network.cash(&bob, "USD", &alice), 100);
}

#[test]
fn a_payment_that_no_member_answers_is_unknown_until_one_does() {
    let mut world = world();
    (0..4).for_each(|member| world.cut(member, true));
    let error = world.pay().unwrap_err();
    let Fate::Unknown(id) = error.fate() else { panic!("{error:?}") };
    let unknown = |world: &World| world.network.ledger(&world.alice, |ledger| ledger.unresolved.len());
    assert_eq!((unknown(&world), world.has(&world.bob)), (1, 0));
    (0..4).for_each(|member| world.cut(member, false));
    let alice = world.alice.clone();
    for _ in 0..2 {
        world.network.deliver_again(&alice);
        world.network.settle();
    }
    assert_eq!((unknown(&world), world.has(&world.bob)), (0, 100));
    assert!(world.network.transaction(&alice, &id).unwrap().is_attested());
}

/// A payment of Alice's coin as its notary is asked for it, with what may be altered.
struct Asked {
    judge: BlindJudge,
    commit: Commit,
    part: Question,
}

fn asked() -> Asked {
    let mut network = Network::new();
    let alice = network.party("Alice");
    let members = network.cluster("Cluster", &MEMBERS);
    network.run(&alice, "CashIssue", json!({ "amount": "1.00 USD" })).unwrap();
    let (coin, _) = network.vault(&alice).remove(0);
    let issue = network.transaction(&alice, &coin.reference.transaction).unwrap();
    let coin = Coin::try_from(coin).unwrap();
    let notary = issue.transaction().notary().clone();
    let me = network.identity(&alice);
    let builder = TransactionBuilder::new(NETWORK, notary.clone());
    let builder =
        cash::pay(builder, std::slice::from_ref(&coin), coin.cash.amount, me.key, me.key, 1).unwrap();
    let payment = builder.build([3; 32], check::contracts()).unwrap();
    let consent = sign(&key("Alice"), Role::Party, payment.id());
    let part = Question::Part {
        tear_off: payment.tear_off_for_notary().unwrap(),
        consumed: vec![issue.transaction().tear_off_of_consumers(&[payment.inputs()[0].index]).unwrap()],
        consents: vec![consent],
    };
    let commit = Commit {
        inputs: payment.inputs().to_vec(),
        references: Vec::new(),
        transaction: payment.id(),
        time_window: None,
        requester: members[0].clone(),
    };
    Asked { judge: BlindJudge::new(NETWORK, notary), commit, part }
}

impl Asked {
    fn verdict(&self, change: impl FnOnce(&mut Commit, &mut Question)) -> bool {
        let (mut commit, mut part) = (self.commit.clone(), self.part.clone());
        change(&mut commit, &mut part);
        self.judge.judge(&Request { commit, evidence: encode(&part) }).is_ok()
    }
}

#[test]
fn the_verdict_follows_from_the_bytes_and_evidence_that_shows_something_else_is_unfounded() {
    let asked = asked();
    assert!(asked.verdict(|_, _| ()));
    assert!(asked.verdict(|commit, _| commit.requester = Name::new("Member 3", "London", "GB").unwrap()));
    let other = StateRef { transaction: TransactionId::from_bytes([1; 32]), index: 0 };
    assert!(!asked.verdict(|commit, _| commit.inputs.clear()));
    assert!(!asked.verdict(|commit, _| commit.inputs.push(other)));
    assert!(!asked.verdict(|commit, _| commit.inputs[0] = other));
    assert!(!asked.verdict(|commit, _| commit.references.push(other)));
    assert!(!asked.verdict(|commit, _| commit.transaction = TransactionId::from_bytes([1; 32])));
    let window = tally_contracts::TimeWindow::ending(Timestamp::MAX);
    assert!(!asked.verdict(|commit, _| commit.time_window = Some(window)));
    let without = |change: fn(&mut Question)| !asked.verdict(|_, part| change(part));
    assert!(without(|part| {
        let Question::Part { consents, .. } = part else { return };
        consents.clear();
    }));
    assert!(without(|part| {
        let Question::Part { consents, .. } = part else { return };
        consents[0].role = Role::Oracle;
    }));
    assert!(without(|part| {
        let Question::Part { consents, tear_off, .. } = part else { return };
        consents[0] = sign(&key("Bob"), Role::Party, tear_off.id());
    }));
    assert!(without(|part| {
        let Question::Part { consents, tear_off, .. } = part else { return };
        let strangers = ["Bob", "Carol"].map(|who| sign(&key(who), Role::Party, tear_off.id()));
        consents.extend(strangers);
    }));
    assert!(without(|part| {
        let Question::Part { consumed, .. } = part else { return };
        consumed.clear();
    }));
    let mut garbage = encode(&asked.part);
    garbage.push(0);
    let request = Request { commit: asked.commit.clone(), evidence: garbage };
    assert!(asked.judge.judge(&request).is_err());
    let elsewhere = BlindJudge::new(tally_contracts::NetworkId::from_bytes([1; 32]), {
        let Question::Part { tear_off, .. } = &asked.part else { panic!("a part") };
        tear_off.notary().unwrap().clone()
    });
    let request = Request { commit: asked.commit.clone(), evidence: encode(&asked.part) };
    assert!(elsewhere.judge(&request).is_err());
}
