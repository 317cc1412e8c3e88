//! What members and the operator sign against themselves is found, and nobody else is accused.

use super::*;
use crate::message::{ApprovalBatch, ApprovalSigner, CosignatureBatch, CosignedHead, Message, SequenceBatch};
use crate::process::evidence::{Collected, Faults, Finding, collect};
use tally_crypto::Signature;
use tally_crypto::log::{Checkpoint, Cosignature, SignedTreeHead};
use tally_log::cluster::{Binding, Cluster as _, Partition};
use tally_log::{Offset, TopicId};
use tally_proof::evidence::{Act, Case, Party};

/// A network in which some payments were made and one was refused, and every witness has cosigned.
fn world() -> World {
    let mut world = World::new(7);
    world.found();
    for _ in 0..30 {
        world.pay();
        world.step();
    }
    world.settle();
    for _ in 0..3_000 {
        world.step();
    }
    world
}

fn records<T: Message>(world: &World, partition: &Partition) -> Vec<T> {
    let records = world.cluster.peek(partition, Offset(0));
    records.iter().map(|record| T::decode(&record.payload).unwrap()).collect()
}

fn append(world: &World, writer: (Role, u16), partition: &Partition, payload: &[u8]) {
    let binding = Binding { id: TopicId(0), partition: partition.clone(), writes: true };
    let log = world.cluster.open(&world.layout.writer(writer.0, writer.1), &[binding]).unwrap();
    log.append(TopicId(0), &[payload]).unwrap();
    log.sync().unwrap();
}

fn encoded(message: &impl Message) -> Vec<u8> {
    let mut payload = Vec::new();
    message.encode(&mut payload);
    payload
}

fn collected(world: &World) -> Collected {
    let collected = collect(&world.cluster, &world.layout, &world.network).unwrap();
    assert!(collected.unread.is_empty() && collected.more == 0);
    let keys = tally_proof::Keys::of(&world.network).unwrap();
    for Finding { evidence, misconduct, .. } in &collected.findings {
        let file = serde_json::to_string(evidence).unwrap();
        let read: tally_proof::Evidence = serde_json::from_str(&file).unwrap();
        assert_eq!(read.judge(&keys).unwrap(), *misconduct);
    }
    collected
}

fn party(number: u16) -> Party {
    Party::Institution { participant: ParticipantId(number), bic: format!("BANK{number}DEFF") }
}

/// An answer of bank 1 to what was made, with a refusal in its place, signed.
fn contradiction(world: &World) -> (Partition, ApprovalBatch) {
    let partition = world.layout.approvals(ParticipantId(1), 0);
    let mut batch: ApprovalBatch = records(world, &partition)
        .into_iter()
        .find(|batch: &ApprovalBatch| batch.verdicts.first() == Some(&0))
        .unwrap();
    batch.verdicts[0] = Refusal::InsufficientFunds.number();
    ApprovalSigner::new(NETWORK).sign(&mut batch, &key(1));
    (partition, batch)
}

#[test]
fn two_answers_are_found_and_are_not_held_against_the_operator() {
    let world = world();
    assert!(collected(&world).findings.is_empty());
    let (partition, batch) = contradiction(&world);
    append(&world, (Role::Approver, 1), &partition, &encoded(&batch));
    let found = collected(&world).findings;
    let [Finding { misconduct, places, .. }] = &found[..] else { panic!("{found:?}") };
    assert_eq!(misconduct.by, party(1));
    assert!(matches!(misconduct.act, Act::TwoAnswers { .. }), "{misconduct}");
    assert!(places.len() == 2 && places.iter().all(|(of, _)| *of == partition));
}

#[test]
fn what_proves_nothing_is_counted_where_it_lies() {
    let world = world();
    let (partition, mut batch) = contradiction(&world);
    let position = world.cluster.peek(&partition, Offset(0)).len() as u64;
    append(&world, (Role::Approver, 1), &partition, b"noise");
    batch.verdicts[0] = Refusal::ClosedAccount.number();
    append(&world, (Role::Approver, 1), &partition, &encoded(&batch));
    batch.participant = ParticipantId(2);
    ApprovalSigner::new(NETWORK).sign(&mut batch, &key(1));
    append(&world, (Role::Approver, 1), &partition, &encoded(&batch));
    let collected = collected(&world);
    assert!(collected.findings.is_empty());
    let wanted = Faults { unreadable: 1, unsigned: 2, made_up: 0, first: position };
    assert_eq!(collected.faults.into_iter().collect::<Vec<_>>(), [(partition, wanted)]);
}

/// A refusal of bank 1 that was the first answer, of a payment that the operator settles.
#[test]
fn what_was_settled_against_a_refusal_is_the_operators_doing() {
    let world = world();
    // In the place of the honest answers: what bank 1 refused, the operator settled.
    let (partition, batch) = contradiction(&world);
    let position = records::<ApprovalBatch>(&world, &partition)
        .iter()
        .position(|answered| answered.source == batch.source)
        .unwrap();
    assert!(world.cluster.alter(&partition, Offset(position as u64), encoded(&batch).into()));
    let found = collected(&world).findings;
    let [Finding { misconduct, evidence, .. }] = &found[..] else { panic!("{found:?}") };
    assert_eq!(misconduct.by, Party::Operator);
    assert!(matches!(evidence.case, Case::SettledAgainstRefusal(_)), "{misconduct}");
}

/// What bank `witness` cosigns of the last head with another root, which the operator signed as well, or not.
fn cosigned(world: &World, witness: u16, by_operator: bool) -> (Partition, CosignatureBatch) {
    let last: SequenceBatch = records(world, &world.layout.sequence()).pop().unwrap();
    let mut head = last.tree_head().head;
    head.root[3] ^= 1;
    let operator = if by_operator {
        SignedTreeHead::sign(head, &NETWORK.0, &key(0)).signature
    } else {
        Signature::from_bytes([1; 64])
    };
    let signed = Cosignature::sign(&Checkpoint::of(&head, &NETWORK.0), 9, &key(witness)).unwrap();
    let head = CosignedHead {
        size: head.size,
        timestamp_ms: head.timestamp_ms,
        time_s: 9,
        root: head.root,
        operator,
        cosignature: signed.signature,
    };
    let participant = ParticipantId(witness);
    (world.layout.cosignatures(participant), CosignatureBatch { participant, heads: vec![head] })
}

#[test]
fn two_histories_are_the_operators_doing() {
    let world = world();
    let (partition, batch) = cosigned(&world, 2, true);
    append(&world, (Role::Updater, 2), &partition, &encoded(&batch));
    let found = collected(&world).findings;
    let [Finding { misconduct, evidence, places }] = &found[..] else { panic!("{found:?}") };
    assert_eq!(misconduct.by, Party::Operator);
    assert!(matches!(evidence.case, Case::TwoHeads(_)));
    assert_eq!(places[0].0, world.layout.sequence());
}

#[test]
fn a_head_that_a_witness_made_up_is_its_own_doing() {
    let world = world();
    let (partition, batch) = cosigned(&world, 2, false);
    append(&world, (Role::Updater, 2), &partition, &encoded(&batch));
    let collected = collected(&world);
    let [Finding { misconduct, evidence, .. }] = &collected.findings[..] else { panic!("{collected:?}") };
    assert_eq!(misconduct.by, party(2));
    assert!(matches!(evidence.case, Case::TwoCosignatures(_)));
    assert_eq!(collected.faults[&partition].made_up, 1);
}
