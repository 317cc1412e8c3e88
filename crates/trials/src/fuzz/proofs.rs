//! Proofs that auditors are handed: whatever was changed in one, it proves nothing that was not so.

use super::damage::{damage, damaged};
use super::small::Small;
use serde::de::DeserializeOwned;
use std::sync::OnceLock;
use tally_crypto::log::{MerkleLog, SignedTreeHead, TreeHead};
use tally_crypto::{Hash, SigningKey};
use tally_ledger::NetworkId;
use tally_proof::{Consistency, Evidence, Keys, Proof};
use tally_sim::Rng;

const PROOF: &str = include_str!("../../../proof/tests/golden/proof.json");
const KEYS: &str = include_str!("../../../proof/tests/golden/keys.json");
const EVIDENCE: &str = include_str!("../../../proof/tests/golden/evidence.json");
const LOG: u64 = 40;
const NETWORK: NetworkId = NetworkId([5; 32]);

/// The text, damaged: often only in digits, so that it can still be read.
fn changed(rng: &mut Rng, text: &str) -> Vec<u8> {
    if rng.chance(1, 4) {
        return damaged(rng, &[text.as_bytes().to_vec()]);
    }
    let mut bytes = text.as_bytes().to_vec();
    for _ in 0..=rng.below(3) {
        let at = rng.index(bytes.len());
        if bytes[at].is_ascii_hexdigit() {
            bytes[at] = b"0123456789abcdef"[rng.index(16)];
        }
    }
    if rng.chance(1, 10) {
        damage(rng, &mut bytes, text.as_bytes());
    }
    bytes
}

fn read<T: DeserializeOwned>(bytes: &[u8]) -> Option<T> {
    serde_json::from_slice(bytes).ok()
}

pub(super) fn proof(rng: &mut Rng, _: &Small) {
    static TRUE: OnceLock<(Proof, Keys)> = OnceLock::new();
    let (truth, keys) = TRUE.get_or_init(|| {
        let truth = read::<Proof>(PROOF.as_bytes()).expect("the golden proof is one");
        (truth, read(KEYS.as_bytes()).expect("the golden keys are keys"))
    });
    let Some(proof) = read::<Proof>(&changed(rng, PROOF)) else { return };
    let text = serde_json::to_vec(&proof).expect("what was read can be written");
    assert!(read::<Proof>(&text).as_ref() == Some(&proof), "written and read again, it is another");
    let Ok(verified) = proof.verify_finality(keys) else { return };
    assert!(proof.receipt == truth.receipt, "another receipt verifies");
    assert_eq!(proof.transaction.id(), truth.transaction.id());
    assert!(proof.transaction.shown().all(|leg| truth.transaction.shown().any(|true_leg| true_leg == leg)));
    assert!(proof.approvals.iter().all(|approval| truth.approvals.contains(approval)), "another approval");
    assert_eq!(verified.not_shown() == 0, proof.verify(keys).is_ok());
}

pub(super) fn keys(rng: &mut Rng, _: &Small) {
    let Some(keys) = read::<Keys>(&changed(rng, KEYS)) else { return };
    let text = serde_json::to_vec(&keys).expect("what was read can be written");
    assert!(read::<Keys>(&text).as_ref() == Some(&keys), "written and read again, it is another");
}

pub(super) fn evidence(rng: &mut Rng, _: &Small) {
    static TRUE: OnceLock<(Evidence, Keys)> = OnceLock::new();
    let (truth, keys) = TRUE.get_or_init(|| {
        let truth = read::<Evidence>(EVIDENCE.as_bytes()).expect("the golden evidence is evidence");
        (truth, read(KEYS.as_bytes()).expect("the golden keys are keys"))
    });
    let Some(evidence) = read::<Evidence>(&changed(rng, EVIDENCE)) else { return };
    let text = serde_json::to_vec(&evidence).expect("what was read can be written");
    assert!(read::<Evidence>(&text).as_ref() == Some(&evidence), "written and read again, it is another");
    if evidence.judge(keys).is_ok() {
        assert!(evidence == *truth, "somebody is accused of what nobody signed");
    }
}

fn operator() -> SigningKey {
    SigningKey::from_seed([3; 32])
}

/// The heads of a log, and the log.
fn log() -> &'static (MerkleLog, Vec<SignedTreeHead>) {
    static LOG_AND_HEADS: OnceLock<(MerkleLog, Vec<SignedTreeHead>)> = OnceLock::new();
    LOG_AND_HEADS.get_or_init(|| {
        let mut tree = MerkleLog::new();
        let heads = (0..LOG).map(|number| {
            tree.append(&number.to_le_bytes());
            let head = TreeHead { size: tree.len(), root: tree.root(), timestamp_ms: number };
            SignedTreeHead::sign(head, &NETWORK.0, &operator())
        });
        let heads = heads.collect();
        (tree, heads)
    })
}

pub(super) fn consistency(rng: &mut Rng, _: &Small) {
    let (tree, heads) = log();
    let second = 1 + rng.below(LOG);
    let first = 1 + rng.below(second);
    let head = |size: u64| heads[usize::try_from(size - 1).expect("the log is short")];
    let path = tree.consistency_proof(first, second).expect("the log has both sizes");
    let path = path.into_iter().map(Hash::from_bytes).collect();
    let truth = Consistency {
        first: head(first),
        second: head(second),
        path,
        first_cosignatures: Vec::new(),
        second_cosignatures: Vec::new(),
    };
    let operator = operator().public_key();
    let keys = Keys { network: NETWORK, operator, witnesses: 0, institutions: Vec::new() };
    let text = serde_json::to_string(&truth).expect("it can be written");
    let Some(shown) = read::<Consistency>(&changed(rng, &text)) else { return };
    if shown.verify(&keys).is_ok() {
        assert!(shown == truth, "another verifies");
    }
}
