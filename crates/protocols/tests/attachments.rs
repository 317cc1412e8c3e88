//! Attachments: they come with the transactions that name them, to those who verify these, in parts and verified; and to
//! nobody else.

#![allow(clippy::unwrap_used, reason = "a test that fails says where")]

mod crashes;

use std::time::Instant;

use borsh::{BorshDeserialize, BorshSerialize};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tally_contracts::cash::{self, Coin};
use tally_contracts::iou::{self, IouState};
use tally_contracts::limits::ATTACHMENT_BYTES;
use tally_contracts::{
    Amount, Attachment, AttachmentId, Name, Role, SignedTransaction, TimeWindow, Timestamp,
    TransactionBuilder,
};
use tally_crypto::Hash;
use tally_flows::{Body, Context, Flow, FlowError, Limits, Message, Registry, Responder, Selection, Session};
use tally_protocols::agree::collect;
use tally_protocols::check::contracts;
use tally_protocols::finalise::{self, finalise};
use tally_protocols::iou::IouCreate;
use tally_protocols::resolve::{FETCHED_ATTACHMENTS, Offer, PART_BYTES, Part, Reply};
use tally_protocols::testing::{NETWORK, Network};
use tally_protocols::{Final, agree};

use crashes::Trial;

#[derive(Clone, Debug, BorshSerialize, BorshDeserialize, Serialize, Deserialize)]
struct Attached {
    to: Name,
    attachments: Vec<AttachmentId>,
}

async fn signed(context: &Context, builder: TransactionBuilder, attached: &Attached) -> SignedTransaction {
    let builder = attached.attachments.iter().fold(builder, |builder, id| builder.attachment(*id));
    let transaction = builder.build(context.random("salt"), contracts()).unwrap();
    let signature = context.sign(&context.me().key, Role::Party, transaction.id()).await.unwrap();
    SignedTransaction::new(transaction, [signature]).unwrap()
}

/// Pays one dollar of this node's own cash, with attachments. Does not look whether they are here.
struct PayAttached;

impl Flow for PayAttached {
    const NAME: &'static str = "PayAttached";
    const VERSION: u32 = 1;
    const ARGUMENTS: &'static [(&'static str, &'static str)] = &[];
    type Arguments = Attached;
    type Output = Final;

    async fn run(context: Context, attached: Attached) -> Result<Final, FlowError> {
        let to = context.party(&attached.to).await?;
        let me = context.me().clone();
        let amount: Amount = "1.00 USD".parse().unwrap();
        let asset = cash::asset(amount.currency(), &me);
        let coins = context
            .select(Selection { asset, quantity: amount.quantity(), notary: None, wait: false })
            .await?;
        let coins: Vec<_> = coins.into_iter().map(|coin| Coin::try_from(coin).unwrap()).collect();
        let notary = context.notaries().await?.current.remove(0).party;
        let builder =
            cash::pay(TransactionBuilder::new(NETWORK, notary), &coins, amount, to.key, me.key, 1).unwrap();
        let transaction = signed(&context, builder, &attached).await;
        Ok(Final { transaction: finalise(&context, transaction, &[to], &[]).await?.id() })
    }
}

/// Makes an IOU with attachments, which the shipped [`IouCreate`] of the lender answers.
struct OweAttached;

impl Flow for OweAttached {
    const NAME: &'static str = "OweAttached";
    const VERSION: u32 = 1;
    const ARGUMENTS: &'static [(&'static str, &'static str)] = &[];
    type Arguments = Attached;
    type Output = Final;

    async fn run(context: Context, attached: Attached) -> Result<Final, FlowError> {
        let lender = context.party(&attached.to).await?;
        let notary = context.notaries().await?.current.remove(0).party;
        let linear_id = Hash::from_bytes([7; 32]);
        let iou = IouState { value: 9, lender: lender.clone(), borrower: context.me().clone(), linear_id };
        // With a time window it needs the notary.
        let window = TimeWindow::ending(Timestamp::from_millis(4_000_000_000_000));
        let builder = iou::create(TransactionBuilder::new(NETWORK, notary).time_window(window), &iou);
        let transaction = signed(&context, builder, &attached).await;
        let session = context.open_as(&lender.name, IouCreate::NAME, IouCreate::VERSION).await?;
        let transaction = collect(&context, transaction, &[(session.clone(), lender.clone())]).await?;
        Ok(Final { transaction: finalise(&context, transaction, &[lender], &[session]).await?.id() })
    }
}

fn registry() -> Registry {
    tally_protocols::registry().flow::<PayAttached>().flow::<OweAttached>()
}

/// How [`Nosy`] asks.
mod how {
    pub(crate) const ANOTHER: u8 = 0;
    pub(crate) const TWICE: u8 = 1;
    pub(crate) const OUT_OF_ORDER: u8 = 2;
    pub(crate) const BEYOND: u8 = 3;
}

/// Receives a payment and asks for what it must not.
struct Nosy<const HOW: u8>;

impl<const HOW: u8> Responder for Nosy<HOW> {
    const ANSWERS: &'static str = finalise::NAME;
    const VERSION: u32 = finalise::VERSION;

    async fn run(_: Context, session: Session) -> Result<(), FlowError> {
        let offer: Offer = session.receive().await?;
        let id = offer.transaction.transaction().attachments()[0];
        let asks = match HOW {
            how::ANOTHER => vec![(secret().id(), 0)],
            how::TWICE => vec![(id, 0), (id, 0)],
            how::OUT_OF_ORDER => vec![(id, 1)],
            _ => vec![(id, 0), (id, 1)],
        };
        for (id, number) in asks {
            let _: Option<Part> = session.exchange(&Reply::<()>::Part(id, number)).await?;
        }
        session.send(&Reply::Answer(())).await;
        Ok(())
    }
}

fn nosy<const HOW: u8>() -> Registry {
    Registry::new().responder::<Nosy<HOW>>()
}

/// Signs an IOU, and asks for its attachment where there is nothing to fetch any more.
struct AsksAfterwards;

impl Responder for AsksAfterwards {
    const ANSWERS: &'static str = IouCreate::NAME;
    const VERSION: u32 = IouCreate::VERSION;

    async fn run(context: Context, session: Session) -> Result<(), FlowError> {
        agree::review(&context, &session, |_| Ok(())).await?;
        let offer: Offer = session.receive().await?;
        let id = offer.transaction.transaction().attachments()[0];
        let _: Option<Part> = session.exchange(&Reply::<()>::Part(id, 0)).await?;
        Ok(())
    }
}

fn asks_afterwards() -> Registry {
    Registry::new().responder::<AsksAfterwards>()
}

/// Bytes that differ from each other, so that no part passes for another.
fn document(length: usize, seed: u64) -> Attachment {
    let mut rng = tally_sim::Rng::new(seed);
    let content: Vec<u8> = (0..length).map(|_| u8::try_from(rng.index(256)).unwrap()).collect();
    Attachment::new(content).unwrap()
}

fn secret() -> Attachment {
    Attachment::new(b"what only Alice is to know".to_vec()).unwrap()
}

struct World {
    network: Network,
    alice: Name,
    bob: Name,
    notary: Name,
}

fn world_of(validating: bool, bob: fn() -> Registry) -> World {
    let mut network = Network::with(registry);
    let (alice, bob) = (network.party("Alice"), network.party_with("Bob", bob));
    let notary = network.notary("Notary", validating);
    network.run(&alice, "CashIssue", json!({ "amount": "10.00 USD" })).unwrap();
    World { network, alice, bob, notary }
}

fn world(validating: bool) -> World {
    world_of(validating, registry)
}

fn to(who: &Name, attachments: &[&Attachment]) -> Value {
    json!({ "to": who, "attachments": attachments.iter().map(|found| found.id()).collect::<Vec<_>>() })
}

fn has(network: &Network, who: &Name, attachment: &Attachment) -> bool {
    network.ledger(who, |ledger| ledger.attachments.get(&attachment.id()) == Some(attachment))
}

fn recorded(network: &Network, who: &Name) -> usize {
    network.ledger(who, |ledger| ledger.transactions.len())
}

/// Does a node have neither a transaction nor an attachment, nor a part of one?
fn has_nothing(network: &Network, who: &Name) -> bool {
    network.ledger(who, |ledger| {
        ledger.transactions.is_empty()
            && ledger.attachments.is_empty()
            && ledger.parts.is_empty()
            && ledger.consumed.is_empty()
            && ledger.flows.is_empty()
    })
}

/// Runs a flow that its notary makes final and that Bob does not record; gives why he does not.
#[track_caller]
fn lost(network: &mut Network, alice: &Name, flow: &str, arguments: Value) -> String {
    network.run(alice, flow, arguments).expect("it is final");
    let lacking = network.undelivered(alice);
    let [(_, _, reason)] = lacking.as_slice() else { panic!("{lacking:?}") };
    reason.clone()
}

#[test]
fn attachments_of_any_length_arrive_with_everybody_who_verifies() {
    let lengths = [0, 1, PART_BYTES - 1, PART_BYTES, PART_BYTES + 1, 3 * PART_BYTES + 17, 4 * PART_BYTES];
    let documents: Vec<_> = lengths.iter().zip(1..).map(|(length, seed)| document(*length, seed)).collect();
    let named: Vec<_> = documents.iter().collect();
    for validating in [false, true] {
        for flow in ["PayAttached", "OweAttached"] {
            let World { mut network, alice, bob, notary } = world(validating);
            for document in &documents {
                network.attach(&alice, document.clone());
            }
            network.run(&alice, flow, to(&bob, &named)).unwrap();
            assert_eq!(network.vault(&bob).len(), 1, "{flow}");
            for document in &documents {
                assert!(has(&network, &bob, document), "{flow}, {} bytes", document.content().len());
                assert_eq!(has(&network, &notary, document), validating, "{flow}");
            }
            // What is here is not fetched again.
            let before = network.received(&bob).len();
            network.run(&alice, "PayAttached", to(&bob, &named)).unwrap();
            assert_eq!(network.received(&bob).len() - before, 1, "the payment, and nothing else");
        }
    }
}

#[test]
fn the_largest_attachments_arrive() {
    let World { mut network, alice, bob, .. } = world(false);
    // Together they are more than a session may hold unread.
    let largest = [document(ATTACHMENT_BYTES, 1), document(ATTACHMENT_BYTES, 2)];
    assert!(2 * ATTACHMENT_BYTES > Limits::default().session_bytes);
    for document in &largest {
        network.attach(&alice, document.clone());
    }
    let began = Instant::now();
    network.run(&alice, "PayAttached", to(&bob, &[&largest[0], &largest[1]])).unwrap();
    println!("2 of {ATTACHMENT_BYTES} bytes: {:?}", began.elapsed());
    assert!(largest.iter().all(|document| has(&network, &bob, document)));
    assert_eq!(network.received(&bob).len(), 1 + 2 * ATTACHMENT_BYTES / PART_BYTES);
}

#[test]
fn an_attachment_two_transactions_back_comes_with_the_history() {
    for validating in [false, true] {
        let World { mut network, alice, bob, notary } = world(validating);
        let carol = network.party("Carol");
        let document = document(2 * PART_BYTES + 5, 1);
        network.attach(&alice, document.clone());
        network.run(&alice, "PayAttached", to(&bob, &[&document])).unwrap();
        let pay = |to: &Name| json!({ "amount": "1.00 USD", "to": to, "issuer": alice });
        network.run(&bob, "CashPay", pay(&bob)).unwrap();
        network.run(&bob, "CashPay", pay(&carol)).unwrap();
        assert_eq!(network.cash(&carol, "USD", &alice), 100);
        assert!(has(&network, &carol, &document));
        assert_eq!(has(&network, &notary, &document), validating);
        // From a long history, which is fetched, it comes as well.
        let dave = network.party("Dave");
        for _ in 0..30 {
            network.run(&carol, "CashPay", pay(&carol)).unwrap();
        }
        network.run(&carol, "CashPay", pay(&dave)).unwrap();
        assert_eq!(network.cash(&dave, "USD", &alice), 100);
        assert!(has(&network, &dave, &document));
    }
}

#[test]
fn neither_a_notary_that_does_not_validate_nor_an_oracle_nor_anybody_else_sees_any_of_it() {
    let World { mut network, alice, bob, notary } = world(false);
    let (carol, oracle) = (network.party("Carol"), network.party("Oracle"));
    network.set_rate(&oracle, "EUR", "USD", 1_250_000_000);
    let document = document(PART_BYTES + 100, 1);
    network.attach(&alice, document.clone());
    network.run(&alice, "PayAttached", to(&bob, &[&document])).unwrap();
    network.run(&alice, "OweAttached", to(&bob, &[&document])).unwrap();
    // The change of that payment is spent again: its history has the attachment.
    let pay = json!({ "amount": "1.00 EUR", "currency": "USD", "to": bob, "oracle": oracle });
    network.run(&alice, "CashPayAtRate", pay).unwrap();
    let contains = |who: &Name, needle: &[u8]| {
        let received = network.received(who);
        received.iter().any(|message| message.bytes.windows(needle.len()).any(|window| window == needle))
    };
    let content = document.content();
    for needle in [document.id().as_bytes().as_slice(), &content[..32], &content[content.len() - 32..]] {
        assert!(contains(&bob, needle), "the search finds what was sent");
        for who in [&notary, &oracle, &carol] {
            assert!(!contains(who, needle), "{who} received something of the attachment");
        }
    }
}

#[test]
fn nobody_gets_an_attachment_that_he_was_not_offered() {
    for (bob, says) in [
        (nosy::<{ how::ANOTHER }> as fn() -> Registry, "not part of what it was offered"),
        (nosy::<{ how::TWICE }>, "the next one is 1"),
        (nosy::<{ how::OUT_OF_ORDER }>, "the next one is 0"),
        (nosy::<{ how::BEYOND }>, "which has fewer"),
    ] {
        let World { mut network, alice, bob, .. } = world_of(false, bob);
        let document = document(1_000, 1);
        network.attach(&alice, document.clone());
        network.attach(&alice, secret());
        // The secret is in a transaction of Alice's, of which Bob is not offered anything.
        let carol = network.party("Carol");
        network.run(&alice, "OweAttached", to(&carol, &[&secret()])).unwrap();
        let reason = lost(&mut network, &alice, "PayAttached", to(&bob, &[&document]));
        assert!(reason.contains("Bob") && reason.contains(says), "{reason}");
        let needle = secret().content().to_vec();
        let received = network.received(&bob);
        assert!(
            received.iter().all(|message| !message.bytes.windows(needle.len()).any(|part| part == needle)),
            "{says}"
        );
    }
}

#[test]
fn what_was_agreed_to_is_not_offered_again() {
    let World { mut network, alice, bob, .. } = world_of(false, asks_afterwards);
    let document = document(1_000, 1);
    network.attach(&alice, document.clone());
    let reason = lost(&mut network, &alice, "OweAttached", to(&bob, &[&document]));
    assert!(reason.contains("Bob") && reason.contains("not expected"), "{reason}");
}

#[test]
fn what_the_sender_does_not_have_is_refused() {
    for flow in ["PayAttached", "OweAttached"] {
        for validating in [false, true] {
            let World { mut network, alice, bob, notary } = world(validating);
            let missing = document(10, 1);
            // Only what nobody verifies before its notary signs is final.
            let reason = if flow == "PayAttached" && !validating {
                lost(&mut network, &alice, flow, to(&bob, &[&missing]))
            } else {
                network.run(&alice, flow, to(&bob, &[&missing])).unwrap_err().to_string()
            };
            assert!(
                reason.contains("(unexpected)") && reason.contains("does not have attachment"),
                "{flow}: {reason}"
            );
            assert!(has_nothing(&network, &bob), "{flow}");
            if validating {
                assert!(has_nothing(&network, &notary) && network.signed(&notary).is_empty(), "{flow}");
            }
        }
    }
}

#[test]
fn a_history_with_more_attachments_than_anybody_fetches_is_refused() {
    let World { mut network, alice, bob, .. } = world(false);
    let mut left = FETCHED_ATTACHMENTS;
    let mut seed = 0;
    while left > 0 {
        let count = left.min(64);
        left -= count;
        let documents: Vec<_> = (0..count).map(|index| document(20, seed + index as u64)).collect();
        seed += 64;
        for document in &documents {
            network.attach(&alice, document.clone());
        }
        network.run(&alice, "PayAttached", to(&alice, &documents.iter().collect::<Vec<_>>())).unwrap();
    }
    let last = document(20, seed);
    network.attach(&alice, last.clone());
    let began = Instant::now();
    let reason = lost(&mut network, &alice, "PayAttached", to(&bob, &[&last]));
    println!("{FETCHED_ATTACHMENTS} attachments: {:?}", began.elapsed());
    assert!(
        reason.contains("(invalid)") && reason.contains("attachments that are not at this node"),
        "{reason}"
    );
    assert_eq!(network.cash(&bob, "USD", &alice), 0);
    // One less is as many as are fetched.
    network.run(&alice, "CashPay", json!({ "amount": "1.00 USD", "to": bob })).unwrap();
    assert_eq!(network.cash(&bob, "USD", &alice), 100);
}

/// Changes the parts of attachments on their way from Alice.
fn alter(world: &mut World, change: impl Fn(&mut Option<Part>) + 'static) {
    let alice = world.alice.clone();
    world.network.set_tamper(Some(Box::new(move |sender, _, bytes| {
        if *sender != alice {
            return;
        }
        let mut message = Message::decode(bytes).unwrap();
        let Body::Data(payload) = &mut message.body else { return };
        if let Ok(mut part) = borsh::from_slice::<Option<Part>>(payload) {
            change(&mut part);
            *payload = borsh::to_vec(&part).unwrap();
        }
        *bytes = message.encode();
    })));
}

#[test]
fn parts_that_are_not_what_they_should_be_are_refused() {
    type Change = fn(&mut Part);
    let last: Change = |part| {
        if part.bytes.len() < PART_BYTES {
            part.bytes[7] ^= 1;
        }
    };
    let cases: [(&str, &str, &str, Change); 8] = [
        ("a bit of the first part", "invalid", "are another", |part| part.bytes[0] ^= 1),
        ("a bit of the last part", "invalid", "are another", last),
        ("too many bytes", "unexpected", "instead of", |part| part.bytes.push(0)),
        ("too few bytes", "unexpected", "instead of", |part| part.bytes.truncate(99)),
        ("shorter than it is", "invalid", "are another", |part| {
            (part.length, part.bytes) = (8, part.bytes[..8].to_vec());
        }),
        ("longer than it is", "unexpected", "instead of", |part| part.length += 1),
        ("longer than any", "too_large", "more than the", |part| {
            part.length = ATTACHMENT_BYTES as u64 + 1;
        }),
        ("of changing length", "unexpected", "length", |part| {
            if part.bytes.len() < PART_BYTES {
                part.length = 10 * PART_BYTES as u64;
            }
        }),
    ];
    for (what, kind, says, change) in cases {
        for validating in [false, true] {
            let mut world = world(validating);
            let document = document(2 * PART_BYTES + 100, 1);
            world.network.attach(&world.alice, document.clone());
            alter(&mut world, move |part| part.iter_mut().for_each(change));
            let arguments = to(&world.bob, &[&document]);
            let reason = if validating {
                world.network.run(&world.alice, "PayAttached", arguments).unwrap_err().to_string()
            } else {
                lost(&mut world.network, &world.alice, "PayAttached", arguments)
            };
            assert!(reason.contains(&format!("({kind})")) && reason.contains(says), "{what}: {reason}");
            assert!(has_nothing(&world.network, &world.bob), "{what}");
            if validating {
                assert!(has_nothing(&world.network, &world.notary), "{what}");
                assert_eq!(recorded(&world.network, &world.alice), 1, "{what}");
            }
        }
    }
}

#[test]
fn a_denied_attachment_is_refused() {
    let mut world = world(false);
    let document = document(2 * PART_BYTES, 1);
    world.network.attach(&world.alice, document.clone());
    alter(&mut world, |part| *part = None);
    let arguments = to(&world.bob, &[&document]);
    let reason = lost(&mut world.network, &world.alice, "PayAttached", arguments);
    assert!(reason.contains("(unexpected)"), "{reason}");
    assert!(has_nothing(&world.network, &world.bob));
}

fn crash_everywhere(validating: bool, copies: usize) {
    for (flow, missing) in [("PayAttached", false), ("OweAttached", false), ("PayAttached", true)] {
        let (one, other, none) = (document(2 * PART_BYTES + 3, 1), document(1, 2), document(0, 3));
        let network = || {
            let World { mut network, alice, .. } = world(validating);
            network.attach(&alice, one.clone());
            network.attach(&alice, none.clone());
            if !missing {
                network.attach(&alice, other.clone());
            }
            network
        };
        let bob = Name::new("Bob", "London", "GB").unwrap();
        let trial = Trial {
            what: flow,
            network: &network,
            who: Name::new("Alice", "London", "GB").unwrap(),
            flow,
            arguments: &|_| to(&bob, &[&one, &other, &none]),
            // Without a notary that validates, nobody looks for it before the payment is final.
            succeeds: !missing || !validating,
        };
        let crashes = trial.crash_everywhere(copies);
        println!("{flow}, validating: {validating}, missing: {missing}: {crashes} crashes");
        assert!(crashes > 20, "{crashes} crashes are not all there should be");
    }
}

#[test]
fn crash_at_every_unit() {
    crash_everywhere(false, 1);
}

#[test]
fn crash_at_every_unit_with_a_validating_notary() {
    crash_everywhere(true, 1);
}

#[test]
fn crash_at_every_unit_with_every_message_twice() {
    crash_everywhere(false, 2);
}
