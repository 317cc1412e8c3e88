use super::*;
use tally_crypto::log::{Checkpoint, Cosignature, Frontier, SignedTreeHead, TreeHead};
use tally_crypto::{Signature, SigningKey};
use tally_ledger::{NetworkId, Participant, SignaturePolicy};
use tally_proof::evidence::Party;
use tally_proof::{Evidence, Keys};

fn key(number: u8) -> SigningKey {
    SigningKey::from_seed([number; 32])
}

fn network() -> Arc<Network> {
    let participant = |number: u8| Participant {
        bic: format!("BANK{number}DEFF"),
        name: String::new(),
        key: key(number).public_key(),
        settlement_floors: Vec::new(),
    };
    Arc::new(Network {
        id: NetworkId([6; 32]),
        participants: (0..4).map(participant).collect(),
        assets: Vec::new(),
        signatures: SignaturePolicy::Required,
        longest_validity_ms: 1,
    })
}

/// A record of the sequence as the last of so many, in the history of that number.
fn record(size: u64, history: u8) -> SequenceBatch {
    let mut tree = Frontier::new();
    // What nothing is compared with has any root.
    for at in 1..=size.min(9) {
        tree.append(&[if at == size { history } else { 0 }]);
    }
    let head = TreeHead { size, root: tree.root(), timestamp_ms: size };
    SequenceBatch {
        first: size,
        count: 1,
        source: crate::message::Source::new(0, size),
        timestamp: tally_ledger::Timestamp(size),
        runs: Vec::new(),
        root: tally_crypto::Hash::ZERO,
        tree_root: head.root,
        tree_size: size,
        signature: SignedTreeHead::sign(head, &[6; 32], &key(0)).signature,
    }
}

/// What a witness appends that has read those records.
fn cosigned(witness: u8, records: &[SequenceBatch]) -> CosignatureBatch {
    let heads = records.iter().map(|record| {
        let head = record.tree_head();
        let checkpoint = Checkpoint::of(&head.head, &[6; 32]);
        let signed = Cosignature::sign(&checkpoint, 5, &key(witness)).unwrap();
        CosignedHead {
            size: head.head.size,
            timestamp_ms: head.head.timestamp_ms,
            time_s: signed.time_s,
            root: head.head.root,
            operator: head.signature,
            cosignature: signed.signature,
        }
    });
    CosignatureBatch { participant: ParticipantId(witness.into()), heads: heads.collect() }
}

fn read(witnesses: &mut Witnesses, records: &[SequenceBatch]) {
    for record in records {
        assert_eq!(witnesses.read(record), []);
    }
}

fn hear(witnesses: &mut Witnesses, of: u16, batch: CosignatureBatch) -> Vec<WitnessFault> {
    witnesses.hear(ParticipantId(of), &Arc::new(batch))
}

#[test]
fn as_many_witnesses_as_required_have_to_cosign() {
    let records: Vec<_> = (1..=3).map(|size| record(size, 0)).collect();
    let mut witnesses = Witnesses::new(&network(), 2);
    assert_eq!(Witnesses::new(&network(), 0).size(), u64::MAX);
    read(&mut witnesses, &records);
    assert_eq!(witnesses.size(), 0);
    assert_eq!(hear(&mut witnesses, 1, cosigned(1, &records)), []);
    assert_eq!(witnesses.size(), 0, "one is not two");
    // The same again is still one.
    assert_eq!(hear(&mut witnesses, 1, cosigned(1, &records)), []);
    assert_eq!(witnesses.size(), 0);
    assert_eq!(hear(&mut witnesses, 3, cosigned(3, &records[..2])), []);
    assert_eq!(witnesses.size(), 2, "both have cosigned two records");
    assert_eq!(hear(&mut witnesses, 2, cosigned(2, &records)), []);
    assert_eq!(witnesses.size(), 3);
}

#[test]
fn neither_the_operator_nor_a_member_in_anothers_name_is_a_witness() {
    let records = [record(1, 0)];
    let mut witnesses = Witnesses::new(&network(), 1);
    read(&mut witnesses, &records);
    for (of, batch) in [(0, cosigned(0, &records)), (2, cosigned(1, &records)), (9, cosigned(9, &records))] {
        let faults = hear(&mut witnesses, of, batch);
        assert_eq!(faults, [WitnessFault::NotAWitness(ParticipantId(of))]);
    }
    let mut forged = cosigned(1, &records);
    forged.heads[0].cosignature = Signature::from_bytes([1; 64]);
    assert_eq!(hear(&mut witnesses, 1, forged), [WitnessFault::WrongSignature(ParticipantId(1), 1)]);
    assert_eq!(witnesses.size(), 0);
}

/// Both heads, if that is what was found.
fn two_histories(faults: &[WitnessFault]) -> (u16, TwoHeads) {
    let [WitnessFault::TwoHistories { participant, heads }] = faults else { panic!("{faults:?}") };
    (participant.0, (**heads).clone())
}

#[test]
fn two_histories_of_the_operator_are_evidence_and_a_witness_alone_cannot_make_one_up() {
    let mut witnesses = Witnesses::new(&network(), 1);
    read(&mut witnesses, &[record(1, 0), record(2, 0)]);
    // The operator signed both.
    let (participant, heads) =
        two_histories(&hear(&mut witnesses, 1, cosigned(1, &[record(1, 0), record(2, 9)])));
    assert_eq!((participant, heads.first.head.size), (1, 2));
    let keys = Keys::of(&network()).unwrap();
    let misconduct = Evidence::new(network().id, heads).judge(&keys).unwrap();
    assert_eq!(misconduct.by, Party::Operator);
    // The witness signed it alone.
    let mut made_up = cosigned(2, &[record(2, 9)]);
    made_up.heads[0].operator = Signature::from_bytes([1; 64]);
    assert_eq!(hear(&mut witnesses, 2, made_up), [WitnessFault::NotTheOperators(ParticipantId(2), 2)]);
}

#[test]
fn every_head_of_a_witness_is_compared() {
    let mut witnesses = Witnesses::new(&network(), 1);
    read(&mut witnesses, &(1..=3).map(|size| record(size, 0)).collect::<Vec<_>>());
    let forked = cosigned(1, &[record(1, 0), record(2, 9), record(3, 0)]);
    let (_, heads) = two_histories(&hear(&mut witnesses, 1, forked));
    assert_eq!(heads.second.head.size, 2);
}

#[test]
fn what_is_cosigned_before_it_was_read_here_counts_when_it_is_read_and_is_the_same() {
    let mut witnesses = Witnesses::new(&network(), 1);
    read(&mut witnesses, &[record(1, 0)]);
    // A head that nobody has compared counts for nothing, whoever signed it.
    assert_eq!(hear(&mut witnesses, 1, cosigned(1, &[record(2, 0), record(3, 9)])), []);
    assert_eq!(witnesses.size(), 0);
    read(&mut witnesses, &[record(2, 0)]);
    assert_eq!(witnesses.size(), 2);
    let (participant, heads) = two_histories(&witnesses.read(&record(3, 0)));
    assert_eq!((participant, heads.second.head.size), (1, 3));
    assert_eq!(witnesses.size(), 2);
}

#[test]
fn a_head_that_was_put_before_a_cosigned_one_is_verified_itself() {
    let mut witnesses = Witnesses::new(&network(), 1);
    read(&mut witnesses, &[record(1, 0)]);
    let mut heads = cosigned(1, &[record(2, 0), record(4, 0)]);
    heads.heads[0].cosignature = Signature::from_bytes([1; 64]);
    assert_eq!(hear(&mut witnesses, 1, heads), []);
    assert_eq!(witnesses.read(&record(2, 0)), [WitnessFault::WrongSignature(ParticipantId(1), 2)]);
    assert_eq!(witnesses.size(), 0);
}

#[test]
fn a_witness_that_is_far_ahead_waits_and_one_beyond_the_log_is_read_on_after_it() {
    let mut witnesses = Witnesses::new(&network(), 1);
    read(&mut witnesses, &[record(1, 0)]);
    let far = COMPARED as u64 + 3;
    assert_eq!(hear(&mut witnesses, 1, cosigned(1, &[record(2, 0), record(far, 0)])), []);
    assert!(witnesses.waits(1) && !witnesses.waits(2) && witnesses.is_any_far_ahead());
    // The log has as many.
    assert_eq!(witnesses.give_up_beyond(far), []);
    read(&mut witnesses, &[record(2, 0)]);
    assert!(witnesses.waits(1), "it is still too far");
    read(&mut witnesses, &[record(3, 0)]);
    assert!(!witnesses.waits(1) && !witnesses.is_any_far_ahead());
    assert_eq!(witnesses.size(), 2);
    // It makes a head up of more records than there are, and then says what is so.
    assert_eq!(hear(&mut witnesses, 2, cosigned(2, &[record(u64::MAX, 0)])), []);
    assert!(witnesses.waits(2));
    let beyond = WitnessFault::NotInTheLog(ParticipantId(2), u64::MAX);
    assert_eq!(witnesses.give_up_beyond(far), [beyond]);
    assert!(!witnesses.waits(2));
    assert_eq!(hear(&mut witnesses, 2, cosigned(2, &[record(3, 0)])), []);
    assert_eq!(witnesses.size(), 3);
}
