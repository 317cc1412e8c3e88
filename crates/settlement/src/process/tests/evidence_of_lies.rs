//! What members and the operator sign against themselves is found, and nobody else is accused.

use super::*;
use crate::message::{ApprovalBatch, ApprovalSigner, CosignatureBatch, CosignedHead, Message, SequenceBatch};
use crate::process::evidence::{Collected, Faults, Finding, collect, collect_within};
use tally_crypto::Signature;
use tally_crypto::log::{Checkpoint, Cosignature, SignedTreeHead};
use tally_ledger::TransactionId;
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

/// What bank `number` signs about a batch that nobody accepted, an item for each answer.
fn answers(number: u16, source: Source, answers: &[(u32, u16)]) -> ApprovalBatch {
    let mut batch = ApprovalBatch {
        source,
        source_len: 8,
        participant: ParticipantId(number),
        indices: answers.iter().map(|(index, _)| *index).collect(),
        ids: answers.iter().map(|(index, _)| id(*index)).collect(),
        verdicts: answers.iter().map(|(_, verdict)| *verdict).collect(),
        leaves: Vec::new(),
        signature: Signature::from_bytes([0; 64]),
    };
    ApprovalSigner::new(NETWORK).sign(&mut batch, &key(number));
    batch
}

fn id(index: u32) -> TransactionId {
    TransactionId::from_bytes([u8::try_from(index).unwrap() + 1; 32])
}

const YES: u16 = 0;

fn no() -> u16 {
    Refusal::InsufficientFunds.number()
}

/// The second answer contradicts no answer of the first batch about that source, but one of a later
/// batch.
#[test]
fn two_answers_are_found_after_an_answer_to_something_else() {
    let world = world();
    let partition = world.layout.approvals(ParticipantId(1), 0);
    let position = world.cluster.peek(&partition, Offset(0)).len() as u64;
    let source = Source::new(7, 1 << 40);
    for said in [&[(0, YES)][..], &[(1, YES)], &[(1, no())], &[(0, YES), (1, no()), (2, YES)]] {
        append(&world, (Role::Approver, 1), &partition, &encoded(&answers(1, source, said)));
    }
    let found = collected(&world).findings;
    let [Finding { misconduct, places, .. }] = &found[..] else { panic!("{found:?}") };
    assert_eq!(misconduct.by, party(1));
    let Act::TwoAnswers { batch, index, answers, .. } = &misconduct.act else { panic!("{misconduct}") };
    assert_eq!((*batch, *index), (1 << 40, 1));
    assert_eq!(*answers, [(id(1), Ok(())), (id(1), Err(Refusal::InsufficientFunds))]);
    assert_eq!(*places, [(partition.clone(), position + 1), (partition, position + 2)]);
}

/// Of a bank that answered several transactions of one batch in one record: that record, and where
/// it lies.
fn answered_together(world: &World) -> (u16, Partition, Offset, ApprovalBatch) {
    for bank in 1..=BANKS {
        let partition = world.layout.approvals(ParticipantId(bank), 0);
        for (position, batch) in (0..).zip(records::<ApprovalBatch>(world, &partition)) {
            if batch.verdicts.len() > 1 && batch.verdicts.iter().all(|verdict| *verdict == YES) {
                return (bank, partition, Offset(position), batch);
            }
        }
    }
    panic!("nobody answered two at once");
}

/// The answers at these items alone, signed anew.
fn part(batch: &ApprovalBatch, items: std::ops::Range<usize>, bank: u16) -> ApprovalBatch {
    let mut part = ApprovalBatch {
        indices: batch.indices[items.clone()].to_vec(),
        ids: batch.ids[items.clone()].to_vec(),
        verdicts: batch.verdicts[items].to_vec(),
        leaves: Vec::new(),
        ..batch.clone()
    };
    ApprovalSigner::new(NETWORK).sign(&mut part, &key(bank));
    part
}

/// A world in which a bank answers in two records, and the operator settles what it refuses in the
/// second one.
fn refused_in_a_second_record() -> (World, u16, ApprovalBatch) {
    let world = world();
    let (bank, partition, position, mut batch) = answered_together(&world);
    assert!(world.cluster.alter(&partition, position, encoded(&part(&batch, 0..1, bank)).into()));
    batch.verdicts[1] = no();
    let second = part(&batch, 1..2, bank);
    append(&world, (Role::Approver, bank), &partition, &encoded(&second));
    (world, bank, second)
}

#[test]
fn what_was_settled_against_a_refusal_in_a_second_record_is_the_operators_doing() {
    let (world, bank, second) = refused_in_a_second_record();
    let found = collected(&world).findings;
    let [Finding { misconduct, .. }] = &found[..] else { panic!("{found:?}") };
    assert_eq!(misconduct.by, Party::Operator);
    let Act::SettledAgainstRefusal { id, institution, .. } = &misconduct.act else { panic!("{misconduct}") };
    assert_eq!((*id, *institution), (second.ids[0], ParticipantId(bank)));
}

/// A member that is not asked refuses the same place, under another id: that proves nothing, and
/// hides nothing.
#[test]
fn a_refusal_is_not_hidden_by_one_of_a_member_that_was_not_asked() {
    let world = world();
    let answers_of = |bank: u16| {
        let partition = world.layout.approvals(ParticipantId(bank), 0);
        (0..).map(Offset).zip(records::<ApprovalBatch>(&world, &partition)).collect::<Vec<_>>()
    };
    let is_asked = |bank: u16, source: Source, index: u32| {
        let mut answers = answers_of(bank).into_iter();
        answers.any(|(_, batch)| batch.source == source && batch.indices.binary_search(&index).is_ok())
    };
    // Members are read in the order of their numbers.
    let (bank, position, item, mut batch) = (1..=BANKS)
        .flat_map(|bank| answers_of(bank).into_iter().map(move |(position, batch)| (bank, position, batch)))
        .find_map(|(bank, position, batch)| {
            let item = (0..batch.indices.len()).find(|item| {
                batch.verdicts[*item] == YES && !is_asked(bank - 1, batch.source, batch.indices[*item])
            })?;
            Some((bank, position, item, batch))
        })
        .unwrap();
    let made_up = ApprovalBatch { participant: ParticipantId(bank - 1), ..batch.clone() };
    let mut made_up = part(&made_up, item..item + 1, bank - 1);
    (made_up.ids[0], made_up.verdicts[0]) = (id(0), no());
    ApprovalSigner::new(NETWORK).sign(&mut made_up, &key(bank - 1));
    let partition = world.layout.approvals(ParticipantId(bank - 1), 0);
    append(&world, (Role::Approver, bank - 1), &partition, &encoded(&made_up));

    batch.verdicts[item] = no();
    ApprovalSigner::new(NETWORK).sign(&mut batch, &key(bank));
    let partition = world.layout.approvals(ParticipantId(bank), 0);
    assert!(world.cluster.alter(&partition, position, encoded(&batch).into()));
    let found = collected(&world).findings;
    let [Finding { misconduct, .. }] = &found[..] else { panic!("{found:?}") };
    assert_eq!(misconduct.by, Party::Operator);
}

/// However little is kept at a time, the same is found, and counted once.
#[test]
fn what_does_not_fit_into_memory_is_read_again() {
    let (world, _, _) = refused_in_a_second_record();
    let partition = world.layout.approvals(ParticipantId(2), 0);
    append(&world, (Role::Approver, 2), &partition, b"noise");
    for number in [3, 1, 2] {
        let source = Source::new(7, number << 40);
        for said in [&[(0, YES)][..], &[(1, YES)], &[(1, no())], &[(0, no())]] {
            append(&world, (Role::Approver, 2), &partition, &encoded(&answers(2, source, said)));
        }
    }
    let whole = collected(&world);
    let two = |case: &Case| matches!(case, Case::TwoAnswers(_));
    assert_eq!(whole.findings.iter().filter(|finding| two(&finding.evidence.case)).count(), 6);
    assert_eq!((whole.findings.len(), whole.faults.len()), (7, 1));
    for kept in [0, 1, 5, 40] {
        let parts = collect_within(&world.cluster, &world.layout, &world.network, kept).unwrap();
        let sorted = |findings: &[Finding]| {
            let mut cases: Vec<_> = findings.iter().map(|finding| format!("{finding:?}")).collect();
            cases.sort();
            cases
        };
        assert_eq!(sorted(&parts.findings), sorted(&whole.findings), "{kept}");
        assert_eq!((parts.more, parts.records), (0, whole.records), "{kept}");
        assert_eq!(parts.faults, whole.faults, "{kept}");
    }
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
