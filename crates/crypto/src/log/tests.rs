use super::*;
use crate::{ProofError, SigningKey};
use proptest::prelude::*;

fn unhex<const N: usize>(text: &str) -> [u8; N] {
    crate::hex::decode(text).unwrap()
}

/// The entries of the RFC 6962 reference tests and the root after 0, 1, ... 8 of them.
fn reference_entries() -> Vec<Vec<u8>> {
    vec![
        vec![],
        vec![0x00],
        vec![0x10],
        vec![0x20, 0x21],
        vec![0x30, 0x31],
        (0x40..0x44).collect(),
        (0x50..0x58).collect(),
        (0x60..0x70).collect(),
    ]
}

const REFERENCE_ROOTS: [&str; 9] = [
    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
    "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
    "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
    "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
];

#[test]
fn reference_roots_of_rfc_6962() {
    let mut log = MerkleLog::new();
    let mut frontier = Frontier::new();
    assert_eq!(log.root(), unhex(REFERENCE_ROOTS[0]));
    assert_eq!(frontier.root(), unhex(REFERENCE_ROOTS[0]));
    assert!(log.is_empty() && frontier.is_empty());
    for (i, entry) in reference_entries().iter().enumerate() {
        assert_eq!(log.append(entry), i as u64);
        assert_eq!(frontier.append(entry), i as u64);
        assert_eq!(log.root(), unhex(REFERENCE_ROOTS[i + 1]));
        assert_eq!(frontier.root(), unhex(REFERENCE_ROOTS[i + 1]));
        assert_eq!(log.leaf(i as u64), Some(leaf_hash(entry)));
    }
    for (size, root) in REFERENCE_ROOTS.iter().enumerate() {
        assert_eq!(log.root_at(size as u64), Some(unhex(root)));
    }
    assert_eq!(log.root_at(9), None);
}

#[test]
fn reference_proofs_of_rfc_6962() {
    let log = MerkleLog::from_leaf_hashes(reference_entries().iter().map(|entry| leaf_hash(entry)));
    let hashes = |texts: &[&str]| texts.iter().map(|text| unhex(text)).collect::<Vec<LogHash>>();
    assert_eq!(
        log.inclusion_proof(0, 8).unwrap(),
        hashes(&[
            "96a296d224f285c67bee93c30f8a309157f0daa35dc5b87e410b78630a09cfc7",
            "5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e",
            "6b47aaf29ee3c2af9af889bc1fb9254dabd31177f16232dd6aab035ca39bf6e4",
        ])
    );
    assert_eq!(
        log.consistency_proof(6, 8).unwrap(),
        hashes(&[
            "0ebc5d3437fbe2db158b9f126a1d118e308181031d0a949f8dededebc558ef6a",
            "ca854ea128ed050b41b35ffc1b87b8eb2bde461e9e3b5596ece6b9d5975a0ae0",
            "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
        ])
    );
}

/// RFC 9162 section 2.1.1, word for word.
fn recursive_root(leaves: &[LogHash]) -> LogHash {
    match leaves {
        [] => empty_root(),
        [leaf] => *leaf,
        _ => {
            let (left, right) = leaves.split_at(leaves.len().next_power_of_two() / 2);
            node_hash(&recursive_root(left), &recursive_root(right))
        }
    }
}

/// `SUBPROOF` of RFC 9162 section 2.1.4.1, word for word.
fn recursive_subproof(first: usize, leaves: &[LogHash], known: bool) -> Vec<LogHash> {
    if first == leaves.len() {
        return if known { vec![] } else { vec![recursive_root(leaves)] };
    }
    let split = leaves.len().next_power_of_two() / 2;
    let (left, right) = leaves.split_at(split);
    let (mut proof, last) = if first <= split {
        (recursive_subproof(first, left, known), recursive_root(right))
    } else {
        (recursive_subproof(first - split, right, false), recursive_root(left))
    };
    proof.push(last);
    proof
}

fn leaves(count: u64) -> Vec<LogHash> {
    (0..count).map(|i| leaf_hash(&i.to_be_bytes())).collect()
}

/// Everything that can be wrong with a proof by one hash or bit.
fn tamper(proof: &[LogHash]) -> Vec<Vec<LogHash>> {
    let mut tampered = Vec::new();
    for position in 0..proof.len() {
        let mut changed = proof.to_vec();
        changed[position][position % 32] ^= 1;
        let mut removed = proof.to_vec();
        removed.remove(position);
        let mut doubled = proof.to_vec();
        doubled.insert(position, proof[position]);
        tampered.extend([changed, removed, doubled]);
        if position > 0 {
            let mut swapped = proof.to_vec();
            swapped.swap(position - 1, position);
            tampered.push(swapped);
        }
    }
    let mut longer = proof.to_vec();
    longer.push([0; 32]);
    tampered.push(longer);
    tampered
}

#[test]
fn all_inclusion_proofs_up_to_size_40() {
    let leaves = leaves(40);
    let log = MerkleLog::from_leaf_hashes(leaves.iter().copied());
    for size in 0..=40u64 {
        let root = log.root_at(size).unwrap();
        assert_eq!(root, recursive_root(&leaves[..size as usize]));
        assert_eq!(log.inclusion_proof(size, size), Err(ProofError::OutOfRange { index: size, count: size }));
        for index in 0..size {
            let leaf = &leaves[index as usize];
            let proof = log.inclusion_proof(index, size).unwrap();
            verify_inclusion(&root, size, index, leaf, &proof).unwrap();
            for tampered in tamper(&proof) {
                assert!(verify_inclusion(&root, size, index, leaf, &tampered).is_err());
            }
            for other in (0..size).filter(|other| *other != index) {
                assert!(verify_inclusion(&root, size, other, leaf, &proof).is_err());
                assert!(verify_inclusion(&root, size, index, &leaves[other as usize], &proof).is_err());
            }
        }
    }
    assert_eq!(log.inclusion_proof(0, 41), Err(ProofError::Future { size: 41, len: 40 }));
}

#[test]
fn all_consistency_proofs_up_to_size_40() {
    let leaves = leaves(40);
    let log = MerkleLog::from_leaf_hashes(leaves.iter().copied());
    let roots: Vec<LogHash> = (0..=40).map(|size| log.root_at(size).unwrap()).collect();
    for second in 0..=40u64 {
        for first in 0..=second {
            let (first_root, second_root) = (&roots[first as usize], &roots[second as usize]);
            let proof = log.consistency_proof(first, second).unwrap();
            if first > 0 {
                let expected = recursive_subproof(first as usize, &leaves[..second as usize], true);
                assert_eq!(proof, expected, "{first} to {second}");
            }
            verify_consistency(first, first_root, second, second_root, &proof).unwrap();
            for tampered in tamper(&proof) {
                assert!(verify_consistency(first, first_root, second, second_root, &tampered).is_err());
            }
            for other in (0..=40).filter(|other| *other != first as usize) {
                assert!(verify_consistency(first, &roots[other], second, second_root, &proof).is_err());
            }
            // Nothing says more about the later root than that it extends the empty log.
            if first > 0 {
                for other in (0..=40).filter(|other| *other != second as usize) {
                    assert!(verify_consistency(first, first_root, second, &roots[other], &proof).is_err());
                }
            }
        }
    }
    assert_eq!(log.consistency_proof(3, 2), Err(ProofError::Shrunk { first: 3, second: 2 }));
    assert_eq!(log.consistency_proof(3, 41), Err(ProofError::Future { size: 41, len: 40 }));
    assert_eq!(
        verify_consistency(3, &roots[3], 2, &roots[2], &[]),
        Err(ProofError::Shrunk { first: 3, second: 2 })
    );
}

#[test]
fn a_rewritten_log_is_not_consistent() {
    let honest = MerkleLog::from_leaf_hashes(leaves(30));
    let mut rewritten = leaves(40);
    rewritten[7] = [0; 32];
    let rewritten = MerkleLog::from_leaf_hashes(rewritten);
    for first in 8..=30 {
        let proof = rewritten.consistency_proof(first, 40).unwrap();
        let first_root = honest.root_at(first).unwrap();
        assert_eq!(
            verify_consistency(first, &first_root, 40, &rewritten.root(), &proof),
            Err(ProofError::Root)
        );
    }
}

#[test]
fn frontier_decoder_is_strict() {
    assert_eq!(Frontier::from_bytes(&[]), Err(FrontierError::Length { expected: 9, got: 0 }));
    let empty = Frontier::new().to_bytes();
    assert_eq!(empty, [1, 0, 0, 0, 0, 0, 0, 0, 0]);
    let mut other = empty.clone();
    other[0] = 2;
    assert_eq!(Frontier::from_bytes(&other), Err(FrontierError::Version(2)));
    let mut huge = empty.clone();
    huge[1] = 0xff;
    assert_eq!(Frontier::from_bytes(&huge), Err(FrontierError::Size(0xff << 56)));
    let mut longer = empty.clone();
    longer.push(0);
    assert_eq!(Frontier::from_bytes(&longer), Err(FrontierError::Length { expected: 9, got: 10 }));
    let mut largest = empty;
    largest[1] = 0x40;
    largest.extend([7; 32]);
    let mut largest = Frontier::from_bytes(&largest).unwrap();
    assert_eq!(largest.append(b"one more"), 1 << 62);
    assert_eq!(largest.len(), (1 << 62) + 1);
}

const NETWORK: [u8; 32] = [0xa5; 32];

fn head() -> TreeHead {
    TreeHead { size: 8, root: unhex(REFERENCE_ROOTS[8]), timestamp_ms: 1_767_225_600_000 }
}

#[test]
fn golden_tree_head() {
    let bytes = head().signing_bytes(&NETWORK);
    assert_eq!(&bytes[..32], b"tallystick 2026 log tree head v2");
    assert_eq!(bytes[32..64], NETWORK);
    assert_eq!(bytes[64..72], [0, 0, 0, 0, 0, 0, 0, 8]);
    assert_eq!(bytes[72..80], [0, 0, 0x01, 0x9b, 0x76, 0xda, 0xa8, 0x00]);
    assert_eq!(bytes[80..], unhex::<32>(REFERENCE_ROOTS[8]));

    let key = SigningKey::from_seed([3; 32]);
    let signed = SignedTreeHead::sign(head(), &NETWORK, &key);
    assert_eq!(
        signed.signature.to_string(),
        "bed0a32f4d007de901a01ba4fe01f23169cd701458de0a4295f782901af92594ea3d9ebbe52673b95e7f347852a6a8e43bee4ca5bb3d9a4c8849e989b6bb3a03"
    );
    assert_eq!(signed.verify(&NETWORK, &key.public_key()), Ok(&head()));
    let json = serde_json::to_string(&signed).unwrap();
    assert!(json.contains(REFERENCE_ROOTS[8]), "{json}");
    assert_eq!(serde_json::from_str::<SignedTreeHead>(&json).unwrap(), signed);
}

#[test]
fn a_changed_head_another_network_or_another_key_does_not_verify() {
    let key = SigningKey::from_seed([3; 32]);
    let signed = SignedTreeHead::sign(head(), &NETWORK, &key);
    let changes: [fn(&mut TreeHead); 3] =
        [|head| head.size += 1, |head| head.timestamp_ms += 1, |head| head.root[31] ^= 1];
    for change in changes {
        let mut changed = signed;
        change(&mut changed.head);
        assert!(changed.verify(&NETWORK, &key.public_key()).is_err());
    }
    // Any byte of the network's id: also networks whose ids begin alike are two.
    for byte in 0..32 {
        let mut other = NETWORK;
        other[byte] ^= 1;
        assert!(signed.verify(&other, &key.public_key()).is_err());
    }
    assert!(signed.verify(&NETWORK, &SigningKey::from_seed([4; 32]).public_key()).is_err());
}

proptest! {
    #[test]
    fn log_and_frontier_agree(size in 0u64..2000, cut in 0u64..2000) {
        let leaves = leaves(size);
        let log = MerkleLog::from_leaf_hashes(leaves.iter().copied());
        prop_assert_eq!(log.root(), recursive_root(&leaves));
        let cut = cut.min(size);
        let (before, after) = leaves.split_at(cut as usize);
        let mut frontier = MerkleLog::from_leaf_hashes(before.iter().copied()).frontier();
        prop_assert_eq!(frontier.len(), cut);
        prop_assert_eq!(Some(frontier.root()), log.root_at(cut));
        frontier = Frontier::from_bytes(&frontier.to_bytes()).unwrap();
        for leaf in after {
            frontier.append_leaf_hash(*leaf);
        }
        prop_assert_eq!(&frontier, &log.frontier());
        prop_assert_eq!(frontier.root(), log.root());
    }

    #[test]
    fn random_proofs_never_panic(
        root: [u8; 32], first: u64, second: u64, proof in prop::collection::vec(any::<[u8; 32]>(), 0..70),
    ) {
        prop_assert!(verify_inclusion(&root, second, first, &[1; 32], &proof).is_err());
        prop_assert!(verify_consistency(first, &root, second, &[1; 32], &proof).is_err());
    }

    #[test]
    fn proofs_of_the_right_length_with_random_hashes_fail(
        root: [u8; 32], size in 2u64.., index: u64, filler: [u8; 32],
    ) {
        let index = index % size;
        for length in 0..=64 {
            let proof = vec![filler; length];
            prop_assert!(verify_inclusion(&root, size, index, &filler, &proof).is_err());
            prop_assert!(verify_consistency(index + 1, &root, size, &filler, &proof).is_err());
        }
    }

    #[test]
    fn random_frontiers_decode_to_themselves_or_fail(
        mut bytes in prop::collection::vec(any::<u8>(), 0..200), size in 0u64..64,
    ) {
        if let Ok(frontier) = Frontier::from_bytes(&bytes) {
            prop_assert_eq!(frontier.to_bytes(), bytes.clone());
        }
        if bytes.len() >= 9 {
            bytes[0] = 1;
            bytes[1..9].copy_from_slice(&size.to_be_bytes());
            if let Ok(mut frontier) = Frontier::from_bytes(&bytes) {
                prop_assert_eq!(frontier.to_bytes(), bytes);
                frontier.append(b"next");
                frontier.root();
            }
        }
    }
}
