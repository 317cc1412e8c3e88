//! What evidence proves, that nothing in it can be changed, and that the honest are never accused.

#![allow(clippy::unwrap_used, reason = "a test ends where something is not as it should be")]

#[allow(dead_code, reason = "the tests of proofs use the rest of it")]
mod support;

use proptest::prelude::*;
use std::sync::OnceLock;
use support::flip::Fields;
use support::{Ledger, NAMESAKE, NETWORK, key, keys, payment, proof};
use tally_crypto::log::{
    Checkpoint, Cosignature, MAX_TIME_S, MerkleLog, SignedTreeHead, TreeHead, Witness, leaf_hash,
};
use tally_crypto::{Hash, SigningKey, merkle};
use tally_ledger::{NetworkId, ParticipantId, Refusal, TransactionId};
use tally_proof::approval::{Answer, Sibling, Statement};
use tally_proof::evidence::{
    Act, Case, CosignedHead, LeafUnder, MAX_EVIDENCE_BYTES, Party, SettledAgainstRefusal, SignedAnswer,
    TwoAnswers, TwoCosignatures, TwoHeads, TwoLeaves, TwoReceipts,
};
use tally_proof::sequence::BatchLeaf;
use tally_proof::{
    Approval, Contents, Evidence, EvidenceError, HeadCosignature, Keys, Misconduct, ProvenLeg, Receipt,
};

const GOLDEN: &str = include_str!("golden/evidence.json");
const SCHEDULER: u64 = 1;
const BATCH: u64 = 40;
const NO: Refusal = Refusal::InsufficientFunds;

fn judged(case: impl Into<Case>) -> Result<Misconduct, EvidenceError> {
    let evidence = Evidence::new(NETWORK, case);
    let text = serde_json::to_string(&evidence).unwrap();
    assert_eq!(serde_json::from_str::<Evidence>(&text).unwrap(), evidence, "it reads what it writes");
    evidence.judge(&keys())
}

fn is_none(case: impl Into<Case>) -> bool {
    matches!(judged(case), Err(EvidenceError::NoContradiction(_)))
}

fn bank(number: u16) -> Party {
    let bic = support::BICS[usize::from(number)].to_owned();
    Party::Institution { participant: ParticipantId(number), bic }
}

/// The payment's log, and one of the same operator in which the payment was refused: they differ
/// from record 20 on.
fn ledgers() -> &'static (Ledger, Ledger) {
    static LEDGERS: OnceLock<(Ledger, Ledger)> = OnceLock::new();
    LEDGERS.get_or_init(|| (Ledger::new(0, 50), Ledger::new(NO.number(), 50)))
}

fn head(ledger: &Ledger, size: u64) -> SignedTreeHead {
    ledger.heads[usize::try_from(size).unwrap() - 1]
}

fn signed(size: u64, root: u8, timestamp_ms: u64) -> SignedTreeHead {
    SignedTreeHead::sign(TreeHead { size, root: [root; 32], timestamp_ms }, &NETWORK.0, &key(0))
}

/// The record at `index` of a log under its head of `size` records, for logs that the test made of
/// [`BatchLeaf`]s.
fn leaf_under(ledger: &Ledger, leaf: Hash, index: u64, size: u64) -> LeafUnder {
    let path = ledger.tree.inclusion_proof(index, size).unwrap();
    LeafUnder { leaf, path: path.into_iter().map(Hash::from_bytes).collect() }
}

/// The leaf hash of the payment's batch, from its receipt.
fn leaf_of(receipt: &Receipt) -> Hash {
    let Receipt { root, first, count, scheduler, batch, timestamp, .. } = *receipt;
    Hash::from_bytes(leaf_hash(&BatchLeaf { root, first, count, scheduler, batch, timestamp }.data()))
}

fn two_heads() -> TwoHeads {
    let (one, other) = ledgers();
    TwoHeads { first: head(one, 50), second: head(other, 50), leaf: None }
}

fn two_leaves(sizes: [u64; 2]) -> TwoHeads {
    let (one, other) = ledgers();
    let under = |ledger: &Ledger, size| leaf_under(ledger, leaf_of(&ledger.receipt(size)), 20, size);
    TwoHeads {
        first: head(one, sizes[0]),
        second: head(other, sizes[1]),
        leaf: Some(TwoLeaves { index: 20, first: under(one, sizes[0]), second: under(other, sizes[1]) }),
    }
}

fn cosign(head: &SignedTreeHead, participant: u8, time_s: u64) -> CosignedHead {
    let checkpoint = Checkpoint::of(&head.head, &NETWORK.0);
    CosignedHead::of(&head.head, &Cosignature::sign(&checkpoint, time_s, &key(participant)).unwrap())
}

fn cosigned(heads: &TwoHeads, participant: u8, times: [u64; 2]) -> TwoCosignatures {
    TwoCosignatures {
        participant: ParticipantId(u16::from(participant)),
        first: cosign(&heads.first, participant, times[0]),
        second: cosign(&heads.second, participant, times[1]),
        leaf: heads.leaf.clone(),
    }
}

/// An answer, in a batch of answers with `others` about other places.
#[derive(Clone, Copy)]
struct Said {
    network: NetworkId,
    participant: u8,
    id: TransactionId,
    verdict: u16,
    index: u32,
    batch: u64,
    others: u8,
}

fn yes(participant: u8) -> Said {
    let id = payment().id(&NETWORK);
    Said { network: NETWORK, participant, id, verdict: 0, index: 5, batch: BATCH, others: 3 }
}

fn no(participant: u8) -> Said {
    Said { verdict: NO.number(), ..yes(participant) }
}

fn answer(said: Said) -> SignedAnswer {
    let Said { network, participant, id, verdict, index, batch, others } = said;
    let mut leaves: Vec<Hash> = (0..others)
        .map(|n| Answer { id: tally_crypto::hash(&[n]), index: u32::from(n), verdict: 0 }.leaf())
        .collect();
    leaves.push(Answer { id, index, verdict }.leaf());
    let statement = Statement {
        root: merkle::root(&leaves),
        scheduler: SCHEDULER,
        batch,
        participant: ParticipantId(u16::from(participant)),
        batch_len: 9,
    };
    let approval = Approval {
        participant: statement.participant,
        verdict,
        index,
        batch_len: 9,
        path: Sibling::path(&leaves, usize::from(others)).unwrap(),
        signature: key(participant).sign(statement.hash(&network).as_bytes()),
    };
    SignedAnswer { id, approval }
}

fn two_answers(one: Said, other: Said) -> TwoAnswers {
    TwoAnswers { scheduler: SCHEDULER, batch: BATCH, first: answer(one), second: answer(other) }
}

fn settled_against_refusal() -> SettledAgainstRefusal {
    SettledAgainstRefusal {
        transaction: Contents::of(NETWORK, &payment(), |_| false),
        receipt: ledgers().0.receipt(50),
        refusal: answer(no(2)).approval,
    }
}

/// A log of the operator that holds one decision in each batch: `(id, verdict)`, from place `first`
/// on.
fn receipt_of(decisions: &[(TransactionId, u16)], first: u64, of: usize) -> Receipt {
    let mut tree = MerkleLog::new();
    let mut batches = Vec::new();
    for (sequence, (id, verdict)) in (first..).zip(decisions) {
        let root = tally_proof::sequence::leaf(id, sequence, *verdict);
        let leaf = BatchLeaf {
            root: merkle::root(&[root]),
            first: sequence,
            count: 1,
            scheduler: SCHEDULER,
            batch: sequence,
            timestamp: tally_ledger::Timestamp(1_750_000_000_000),
        };
        tree.append(&leaf.data());
        batches.push(leaf);
    }
    let size = tree.len();
    let head = TreeHead { size, root: tree.root(), timestamp_ms: 1_750_000_000_000 };
    let (leaf, at) = (batches[of], u64::try_from(of).unwrap());
    Receipt {
        id: decisions[of].0,
        sequence: leaf.first,
        verdict: decisions[of].1,
        first: leaf.first,
        count: 1,
        scheduler: leaf.scheduler,
        batch: leaf.batch,
        timestamp: leaf.timestamp,
        decision_path: Vec::new(),
        root: leaf.root,
        leaf: at,
        tree_path: tree.inclusion_proof(at, size).unwrap().into_iter().map(Hash::from_bytes).collect(),
        head: SignedTreeHead::sign(head, &NETWORK.0, &key(0)),
        cosignatures: Vec::new(),
    }
}

fn two_receipts() -> TwoReceipts {
    let (one, other) = ledgers();
    TwoReceipts { first: one.receipt(50), second: other.receipt(50) }
}

/// One of each kind and form.
fn all() -> Vec<Evidence> {
    let time = TwoHeads { first: signed(7, 1, 10), second: signed(8, 2, 9), leaf: None };
    let cases: [Case; 10] = [
        two_heads().into(),
        two_leaves([40, 50]).into(),
        time.into(),
        cosigned(&two_heads(), 2, [1, 2]).into(),
        cosigned(&two_leaves([40, 50]), 2, [1, 2]).into(),
        cosigned(&TwoHeads { first: signed(7, 1, 10), second: signed(8, 2, 10), leaf: None }, 2, [2, 1])
            .into(),
        two_answers(yes(1), no(1)).into(),
        settled_against_refusal().into(),
        two_receipts().into(),
        settled_twice().into(),
    ];
    cases.map(|case| Evidence::new(NETWORK, case)).into()
}

fn settled_twice() -> TwoReceipts {
    let id = payment().id(&NETWORK);
    let log = [(id, 0), (tally_crypto::hash(b"other"), 0), (id, 0)];
    TwoReceipts { first: receipt_of(&log, 7, 0), second: receipt_of(&log, 7, 2) }
}

#[test]
fn the_form_is_the_published_one() {
    let text = serde_json::to_string_pretty(&Evidence::new(NETWORK, two_heads())).unwrap() + "\n";
    if std::env::var_os("TALLY_WRITE_GOLDEN").is_some() {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/evidence.json");
        std::fs::write(file, &text).unwrap();
    }
    assert_eq!(text, GOLDEN);
    let evidence: Evidence = serde_json::from_str(GOLDEN).unwrap();
    assert_eq!(evidence.judge(&keys()).unwrap().act, Act::TwoRoots { size: 50 });
}

#[test]
fn an_operator_with_two_histories_is_proven() {
    let misconduct = judged(two_heads()).unwrap();
    assert_eq!(misconduct, Misconduct { by: Party::Operator, act: Act::TwoRoots { size: 50 } });
    let misconduct = judged(two_leaves([40, 50])).unwrap();
    assert_eq!(misconduct.act, Act::TwoLeaves { index: 20, sizes: [40, 50] });
    assert_eq!(judged(two_leaves([50, 21])).unwrap().act, Act::TwoLeaves { index: 20, sizes: [50, 21] });
    for [first, second] in [[signed(7, 1, 10), signed(8, 2, 9)], [signed(8, 2, 9), signed(7, 1, 10)]] {
        let act = judged(TwoHeads { first, second, leaf: None }).unwrap().act;
        let (sizes, times) =
            ([first.head.size, second.head.size], [first.head.timestamp_ms, second.head.timestamp_ms]);
        assert_eq!(act, Act::TimeWentBack { sizes, times });
    }
    let sentences: Vec<String> = all().iter().map(|e| e.judge(&keys()).unwrap().to_string()).collect();
    assert_eq!(
        sentences[2],
        "The operator signed a head of its log of 7 records as of 10 ms since 1970 and one of 8 records as of 9 ms: the \
         larger one is earlier."
    );
    assert_eq!(
        sentences[4],
        "BANKFRPP cosigned two heads of the log, of 40 and of 50 records, that have two different records at place 20: \
         they are of two histories."
    );
}

#[test]
fn a_witness_of_two_histories_is_proven() {
    let by = bank(2);
    let act = Act::TwoRoots { size: 50 };
    assert_eq!(judged(cosigned(&two_heads(), 2, [1, 1])).unwrap(), Misconduct { by: by.clone(), act });
    let misconduct = judged(cosigned(&two_leaves([40, 50]), 2, [1, 2])).unwrap();
    assert_eq!(misconduct, Misconduct { by, act: Act::TwoLeaves { index: 20, sizes: [40, 50] } });
    // It says that each was the largest that it knew: at 9 s it knew 30 records, and at 10 s only
    // 29.
    let (one, _) = ledgers();
    let back = TwoHeads { first: head(one, 29), second: head(one, 30), leaf: None };
    let misconduct = judged(cosigned(&back, 3, [10, 9])).unwrap();
    let act = Act::TimeWentBack { sizes: [29, 30], times: [10, 9] };
    assert_eq!(misconduct, Misconduct { by: bank(3), act });
}

#[test]
fn two_answers_to_one_question_are_proven() {
    let id = yes(1).id;
    let misconduct = judged(two_answers(yes(1), Said { others: 6, ..no(1) })).unwrap();
    let act = |answers| Act::TwoAnswers { scheduler: SCHEDULER, batch: BATCH, index: 5, answers };
    assert_eq!(misconduct, Misconduct { by: bank(1), act: act([(id, Ok(())), (id, Err(NO))]) });
    assert_eq!(
        misconduct.to_string(),
        format!(
            "BANKDEFF gave two answers about transaction 5 of batch 40 of scheduler 1: {id} approved, and {id} refused \
             with AM04."
        )
    );
    // Another transaction at the same place.
    let other = tally_crypto::hash(b"another");
    let misconduct = judged(two_answers(yes(1), Said { id: other, ..yes(1) })).unwrap();
    assert_eq!(misconduct.act, act([(id, Ok(())), (other, Ok(()))]));
}

#[test]
fn an_operator_that_settled_a_refused_payment_is_proven() {
    let case = settled_against_refusal();
    let act = Act::SettledAgainstRefusal {
        id: case.receipt.id,
        sequence: 144,
        institution: ParticipantId(2),
        bic: "BANKFRPP".into(),
        refusal: NO,
    };
    assert_eq!(judged(case.clone()).unwrap(), Misconduct { by: Party::Operator, act });
    let with = |change: &dyn Fn(&mut SettledAgainstRefusal)| {
        let mut case = settled_against_refusal();
        change(&mut case);
        judged(case)
    };
    let none = |result| matches!(result, Err(EvidenceError::NoContradiction(_)));
    // An institution that the payment does not concern is not asked, whatever it signs.
    assert!(none(with(&|case| case.refusal = answer(no(3)).approval)));
    // It approved, or the payment was refused.
    assert!(none(with(&|case| case.refusal = answer(yes(2)).approval)));
    assert!(none(with(&|case| case.receipt = ledgers().1.receipt(50))));
    // A refusal of another batch, of another transaction, in another network.
    let unproven = |said: Said| {
        let result = with(&|case| case.refusal = answer(said).approval);
        matches!(result, Err(EvidenceError::Answer { .. }))
    };
    assert!(unproven(Said { batch: 41, ..no(2) }));
    assert!(unproven(Said { id: tally_crypto::hash(b"another"), ..no(2) }));
    assert!(unproven(Said { network: NAMESAKE, ..no(2) }));
    assert!(unproven(Said { verdict: 9_999, ..no(2) }));
    let result = with(&|case| case.transaction.kind ^= 1);
    assert!(matches!(result, Err(EvidenceError::Form(_))));
    // The institution cannot be put into the list: the id commits to it.
    let result = with(&|case| {
        case.refusal = answer(no(3)).approval;
        case.transaction.participants.push(ParticipantId(3));
    });
    assert!(matches!(result, Err(EvidenceError::Form(_))));
    let result = with(&|case| case.transaction.participants.swap(0, 1));
    assert!(matches!(result, Err(EvidenceError::Form(_))));
    let result = with(&|case| case.transaction.legs = vec![ProvenLeg::Hidden(Hash::ZERO); 256]);
    assert!(matches!(result, Err(EvidenceError::Form(_))));
    let result = with(&|case| case.transaction.network = NAMESAKE);
    assert!(matches!(result, Err(EvidenceError::Network { .. })));
}

/// An institution that approves, and refuses when the payment is settled, accuses the operator with
/// its own second answer: the operator shows the first one.
#[test]
fn an_operator_that_is_framed_shows_the_approval() {
    let framed = settled_against_refusal();
    assert!(judged(framed.clone()).is_ok());
    let approval = answer(yes(2));
    let answer = TwoAnswers {
        scheduler: framed.receipt.scheduler,
        batch: framed.receipt.batch,
        first: SignedAnswer { id: framed.receipt.id, approval: framed.refusal },
        second: approval,
    };
    assert_eq!(judged(answer).unwrap().by, bank(2));
}

#[test]
fn two_decisions_at_one_place_and_one_payment_at_two_are_proven() {
    let id = payment().id(&NETWORK);
    let act = Act::TwoDecisions { sequence: 144, decisions: [(id, Ok(())), (id, Err(NO))] };
    assert_eq!(judged(two_receipts()).unwrap(), Misconduct { by: Party::Operator, act });
    let act = Act::SettledTwice { id, sequences: [7, 9] };
    assert_eq!(judged(settled_twice()).unwrap(), Misconduct { by: Party::Operator, act });
}

#[test]
fn an_honest_log_has_no_two_receipts() {
    let id = payment().id(&NETWORK);
    let other = tally_crypto::hash(b"other");
    // A copy without the owner's signature was refused before, and the payment itself is
    // resubmitted and told its outcome.
    let log = [(id, NO.number()), (id, 0), (other, 0), (id, NO.number())];
    for one in 0..log.len() {
        for two in 0..log.len() {
            let case = TwoReceipts { first: receipt_of(&log, 7, one), second: receipt_of(&log, 7, two) };
            assert!(is_none(case), "{one} {two}");
        }
    }
    // The same decision under two heads.
    let (ledger, _) = ledgers();
    assert!(is_none(TwoReceipts { first: ledger.receipt(21), second: ledger.receipt(50) }));
}

/// A restarted approver answers identically, in other batches of answers too.
#[test]
fn an_honest_approver_is_never_accused() {
    assert!(is_none(two_answers(yes(1), yes(1))));
    assert!(is_none(two_answers(no(1), Said { others: 6, ..no(1) })));
    assert!(is_none(two_answers(yes(1), no(2))), "two institutions may differ");
    assert!(is_none(two_answers(yes(1), Said { index: 6, ..no(1) })), "two places are two questions");
    // What it said to another batch, in another network, or what it never said.
    for said in [Said { batch: 41, ..no(1) }, Said { network: NAMESAKE, ..no(1) }] {
        let result = judged(two_answers(yes(1), said));
        assert!(matches!(result, Err(EvidenceError::Answer { .. })), "{result:?}");
    }
    let mut forged = two_answers(yes(1), yes(1));
    forged.second.approval.verdict = NO.number();
    assert!(matches!(judged(forged), Err(EvidenceError::Answer { .. })));
    let mut renamed = two_answers(yes(1), no(1));
    (renamed.first.approval.participant, renamed.second.approval.participant) =
        (ParticipantId(2), ParticipantId(2));
    assert!(matches!(judged(renamed), Err(EvidenceError::Answer { .. })));
    let mut long = two_answers(yes(1), no(1));
    long.first.approval.path = vec![Sibling::Left(Hash::ZERO); 17];
    assert!(matches!(judged(long), Err(EvidenceError::Answer { .. })));
    let mut unknown = two_answers(yes(1), no(1));
    (unknown.first.approval.participant, unknown.second.approval.participant) =
        (ParticipantId(9), ParticipantId(9));
    assert_eq!(judged(unknown), Err(EvidenceError::UnknownInstitution(ParticipantId(9))));
}

#[test]
fn heads_of_two_networks_are_no_evidence() {
    let heads = two_heads();
    let of_other = SignedTreeHead::sign(heads.second.head, &NAMESAKE.0, &key(0));
    let case = TwoHeads { second: of_other, ..heads.clone() };
    assert!(matches!(judged(case), Err(EvidenceError::Head { size: 50, .. })));
    let mut case = cosigned(&heads, 2, [1, 1]);
    let checkpoint = Checkpoint::of(&heads.second.head, &NAMESAKE.0);
    case.second = CosignedHead::of(&heads.second.head, &Cosignature::sign(&checkpoint, 1, &key(2)).unwrap());
    assert!(matches!(judged(case), Err(EvidenceError::Cosignature { size: 50, .. })));
    // A file about that network, against the keys of this one.
    let error = Evidence::new(NAMESAKE, two_heads()).judge(&keys()).unwrap_err();
    assert_eq!(error, EvidenceError::Network { evidence: NAMESAKE, keys: NETWORK });
    let mut later = Evidence::new(NETWORK, two_heads());
    later.version = 2;
    assert_eq!(later.judge(&keys()), Err(EvidenceError::Version(2)));
}

#[test]
fn what_others_signed_accuses_nobody() {
    let heads = two_heads();
    // An institution cannot make heads, nor one institution the cosignatures of another.
    let second = SignedTreeHead::sign(heads.second.head, &NETWORK.0, &key(1));
    assert!(matches!(judged(TwoHeads { second, ..heads.clone() }), Err(EvidenceError::Head { .. })));
    let case = TwoCosignatures { participant: ParticipantId(1), ..cosigned(&heads, 2, [1, 1]) };
    assert!(matches!(judged(case), Err(EvidenceError::Cosignature { .. })));
    let case = TwoCosignatures { participant: ParticipantId(9), ..cosigned(&heads, 2, [1, 1]) };
    assert_eq!(judged(case), Err(EvidenceError::UnknownInstitution(ParticipantId(9))));
    // A head's signature is no cosignature, also by the operator's own institution.
    let mut case = cosigned(&heads, 0, [1, 1]);
    case.first.signature = heads.first.signature;
    assert!(matches!(judged(case), Err(EvidenceError::Cosignature { .. })));
    // Nor are a time that the form does not have, a path that is too long, or a record that is not
    // needed.
    let mut case = cosigned(&heads, 2, [1, 1]);
    case.first.time_s = MAX_TIME_S + 1;
    assert!(matches!(judged(case), Err(EvidenceError::Cosignature { .. })));
    let mut case = two_leaves([40, 50]);
    case.leaf.as_mut().unwrap().first.path = vec![Hash::ZERO; 65];
    assert!(matches!(judged(case), Err(EvidenceError::Form(_))));
    assert!(matches!(judged(two_leaves([50, 50])), Err(EvidenceError::Form(_))));
    let mut case = two_leaves([40, 50]);
    case.leaf.as_mut().unwrap().index = u64::MAX;
    assert!(matches!(judged(case), Err(EvidenceError::Leaf { size: 40, .. })));
    // An inner node is no record: its path is shorter than the log's shape needs.
    let mut case = two_leaves([40, 50]);
    case.leaf.as_mut().unwrap().first.path.remove(0);
    assert!(matches!(judged(case), Err(EvidenceError::Leaf { size: 40, .. })));
}

#[test]
fn a_receipt_in_evidence_needs_no_witnesses_and_none_that_are_false() {
    let mut keys = keys();
    keys.witnesses = 3;
    let judge = |case: SettledAgainstRefusal, keys: &Keys| Evidence::new(NETWORK, case).judge(keys);
    assert!(judge(settled_against_refusal(), &keys).is_ok());
    let mut case = settled_against_refusal();
    let CosignedHead { time_s, signature, .. } = cosign(&case.receipt.head, 1, 5);
    case.receipt.cosignatures = vec![HeadCosignature { participant: ParticipantId(1), time_s, signature }];
    assert!(judge(case.clone(), &keys).is_ok());
    case.receipt.cosignatures[0].time_s += 1;
    assert!(matches!(judge(case, &keys), Err(EvidenceError::Witnesses(_))));
}

#[test]
fn unknown_kinds_and_fields_are_not_read() {
    let value = serde_json::to_value(Evidence::new(NETWORK, two_heads())).unwrap();
    for (field, new) in
        [("kind", "two_heads_more".into()), ("more", 1.into()), ("leaf", 7.into()), ("version", (-1).into())]
    {
        let mut value = value.clone();
        value[field] = new;
        assert!(serde_json::from_value::<Evidence>(value).is_err(), "{field}");
    }
    for field in ["kind", "version", "network", "first", "second"] {
        let mut value = value.clone();
        value.as_object_mut().unwrap().remove(field);
        assert!(serde_json::from_value::<Evidence>(value).is_err(), "{field}");
    }
}

#[test]
fn the_largest_evidence_is_within_the_limit() {
    let mut case = settled_against_refusal();
    let shown = Contents::of(NETWORK, &payment(), |_| true);
    case.transaction.legs = vec![shown.legs[1]; 255];
    case.refusal.path = vec![Sibling::Right(Hash::ZERO); 16];
    let signature = case.refusal.signature;
    let cosignature = HeadCosignature { participant: ParticipantId(u16::MAX), time_s: MAX_TIME_S, signature };
    case.receipt.cosignatures = vec![cosignature; 255];
    case.receipt.tree_path = vec![Hash::ZERO; 64];
    let text = serde_json::to_string_pretty(&Evidence::new(NETWORK, case)).unwrap();
    assert!(text.len() as u64 <= MAX_EVIDENCE_BYTES, "{}", text.len());
}

fn changed(fields: &Fields, path: &str, bit: usize) -> Result<(), String> {
    let Ok(evidence) = serde_json::from_value::<Evidence>(fields.flipped(path, bit)) else { return Ok(()) };
    match evidence.judge(&keys()) {
        Ok(misconduct) => Err(format!("bit {bit} of {path} means nothing: {misconduct}")),
        Err(_) => Ok(()),
    }
}

fn documents() -> &'static Vec<Fields> {
    static DOCUMENTS: OnceLock<Vec<Fields>> = OnceLock::new();
    let of = |evidence: &Evidence| {
        assert!(evidence.judge(&keys()).is_ok(), "{evidence:?}");
        Fields::of(serde_json::to_value(evidence).unwrap())
    };
    DOCUMENTS.get_or_init(|| all().iter().map(of).collect())
}

#[test]
fn every_field_is_proven() {
    for fields in documents() {
        assert!(fields.paths.len() >= 11, "{:?}", fields.paths);
        for path in &fields.paths {
            for bit in 0..8 {
                changed(fields, path, bit).unwrap();
            }
        }
    }
}

/// A log that only grows, with heads signed now and then, and witnesses that follow it under clocks
/// of their own.
fn honest_log(records: &[u8], clock: &[u64]) -> (MerkleLog, Vec<SignedTreeHead>) {
    let (mut tree, mut heads, mut now) = (MerkleLog::new(), Vec::new(), 0);
    for (record, time) in records.iter().zip(clock) {
        tree.append(&[*record]);
        // The operator's clock stands still instead of going back.
        now = *time.max(&now);
        let head = TreeHead { size: tree.len(), root: tree.root(), timestamp_ms: now };
        heads.push(SignedTreeHead::sign(head, &NETWORK.0, &key(0)));
    }
    (tree, heads)
}

proptest! {
    #[test]
    fn every_bit_is_proven(document: prop::sample::Index, field: prop::sample::Index, bit in 0usize..512) {
        let fields = &documents()[document.index(documents().len())];
        let path = &fields.paths[field.index(fields.paths.len())];
        prop_assert_eq!(changed(fields, path, bit), Ok(()));
    }

    #[test]
    fn any_text_is_an_error_or_evidence(text in "\\PC{0,200}") {
        prop_assert!(serde_json::from_str::<Evidence>(&text).is_err());
    }

    #[test]
    fn an_honest_operator_is_never_accused(
        records in prop::collection::vec(any::<u8>(), 1..24),
        clock in prop::collection::vec(0u64..9, 24),
        picks: [prop::sample::Index; 3],
    ) {
        let (tree, heads) = honest_log(&records, &clock);
        let [first, second] = [picks[0], picks[1]].map(|pick| heads[pick.index(heads.len())]);
        let case = TwoHeads { first, second, leaf: None };
        prop_assert!(is_none(case));
        if first.head.size != second.head.size {
            let both = first.head.size.min(second.head.size);
            let index = u64::try_from(picks[2].index(usize::try_from(both).unwrap())).unwrap();
            let leaf = Hash::from_bytes(leaf_hash(&[records[usize::try_from(index).unwrap()]]));
            let under = |size| {
                let path = tree.inclusion_proof(index, size).unwrap();
                LeafUnder { leaf, path: path.into_iter().map(Hash::from_bytes).collect() }
            };
            let (first_leaf, second_leaf) = (under(first.head.size), under(second.head.size));
            let leaf = Some(TwoLeaves { index, first: first_leaf, second: second_leaf });
            let case = TwoHeads { first, second, leaf };
            prop_assert!(is_none(case));
        }
    }

    #[test]
    fn an_honest_witness_is_never_accused(
        records in prop::collection::vec(any::<u8>(), 1..24),
        clock in prop::collection::vec(0u64..9, 24),
        // Which head comes, what the witness's clock says, and whether it was started again before.
        visits in prop::collection::vec((any::<prop::sample::Index>(), 0u64..9, any::<bool>()), 1..24),
    ) {
        let (_, heads) = honest_log(&records, &clock);
        let key: SigningKey = key(2);
        let (mut witness, mut said) = (Witness::default(), Vec::new());
        for (pick, now_s, restarts) in visits {
            if restarts {
                witness = Witness::new(witness.last());
            }
            let head = &heads[pick.index(heads.len())].head;
            if let Ok(cosignature) = witness.cosign(&Checkpoint::of(head, &NETWORK.0), now_s, &key) {
                said.push(CosignedHead::of(head, &cosignature));
            }
        }
        for first in &said {
            for second in &said {
                let case = TwoCosignatures {
                    participant: ParticipantId(2), first: *first, second: *second, leaf: None,
                };
                prop_assert!(is_none(case));
            }
        }
    }
}

#[test]
fn a_proof_is_no_evidence() {
    let text = serde_json::to_string(&proof()).unwrap();
    assert!(serde_json::from_str::<Evidence>(&text).is_err());
}
