use super::*;
use proptest::prelude::*;

/// RFC 9162 section 2.1.1, word for word.
fn recursive_root(leaves: &[Hash]) -> Hash {
    match leaves {
        [] => hash(b""),
        [leaf] => *leaf,
        _ => {
            let split = leaves.len().next_power_of_two() / 2;
            node(&recursive_root(&leaves[..split]), &recursive_root(&leaves[split..]))
        }
    }
}

/// RFC 9162 section 2.1.3.1, word for word.
fn recursive_path(leaves: &[Hash], index: usize) -> Vec<Hash> {
    if leaves.len() == 1 {
        return Vec::new();
    }
    let split = leaves.len().next_power_of_two() / 2;
    let (left, right) = leaves.split_at(split);
    let (mut path, sibling) = if index < split {
        (recursive_path(left, index), recursive_root(right))
    } else {
        (recursive_path(right, index - split), recursive_root(left))
    };
    path.push(sibling);
    path
}

fn leaves(count: usize) -> Vec<Hash> {
    (0..count).map(|i| hash(&i.to_le_bytes())).collect()
}

#[test]
fn node_key_is_derived_from_its_context() {
    assert_eq!(NODE_KEY, blake3::derive_key("tallystick 2026 merkle node v1", b""));
}

#[test]
fn golden_roots() {
    let golden = |count: usize| root(&leaves(count)).to_string();
    assert_eq!(golden(0), "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262");
    assert_eq!(golden(1), hash(&0u64.to_le_bytes()).to_string());
    assert_eq!(golden(2), "429133c4661fd1726cd93d56e1fb9ed6a4b25a38580c1071b990f4946284bbc4");
    assert_eq!(golden(7), "6d790cb81cb6ac1dd716bf327c736e35e04020028f5700a9a94d0c7570981441");
    assert_eq!(golden(8192), "e508b2f852875faa173b8f72470e246831429befecb22c0bea3c99bc3e45b75c");
}

#[test]
fn shape_is_that_of_rfc_9162_for_every_small_size() {
    let mut builder = RootBuilder::new();
    for count in 0..=130 {
        let leaves = leaves(count);
        let expected = recursive_root(&leaves);
        assert_eq!(root(&leaves), expected);
        assert_eq!(builder.root(&leaves), expected);
        let tree = Tree::new(&leaves);
        assert_eq!((tree.root(), tree.len(), tree.is_empty()), (expected, count, count == 0));
        assert_eq!(tree.path(count), None);
        assert_eq!(path(&leaves, count), None);
        for (index, leaf) in leaves.iter().enumerate() {
            let path = tree.path(index).unwrap();
            assert_eq!(path, recursive_path(&leaves, index));
            verify_path(&expected, count as u64, index as u64, leaf, &path).unwrap();
        }
    }
}

#[test]
fn huge_claims_are_refused_cheaply() {
    let leaf = hash(b"leaf");
    assert_eq!(verify_path(&leaf, 0, 0, &leaf, &[]), Err(ProofError::OutOfRange { index: 0, count: 0 }));
    assert_eq!(
        verify_path(&leaf, u64::MAX, u64::MAX - 1, &leaf, &[]),
        Err(ProofError::Length { expected: 63, got: 0 })
    );
}

proptest! {
    #[test]
    fn shape_is_that_of_rfc_9162(count in 0usize..3000) {
        let leaves = leaves(count);
        prop_assert_eq!(root(&leaves), recursive_root(&leaves));
    }

    #[test]
    fn any_tampering_fails(
        count in 1usize..200,
        index: prop::sample::Index,
        victim: prop::sample::Index,
        other_index: prop::sample::Index,
        bit in 0usize..256,
    ) {
        let leaves = leaves(count);
        let index = index.index(count);
        let path = path(&leaves, index).unwrap();
        let root = root(&leaves);
        let check = |root: &Hash, index: usize, leaf: &Hash, path: &[Hash]| {
            verify_path(root, count as u64, index as u64, leaf, path)
        };
        prop_assert_eq!(check(&root, index, &leaves[index], &path), Ok(()));

        let flip = |hash: &Hash| {
            let mut bytes = *hash.as_bytes();
            bytes[bit / 8] ^= 1 << (bit % 8);
            Hash::from_bytes(bytes)
        };
        prop_assert!(check(&flip(&root), index, &leaves[index], &path).is_err());
        prop_assert!(check(&root, index, &flip(&leaves[index]), &path).is_err());
        let other = other_index.index(count);
        if other != index {
            prop_assert!(check(&root, other, &leaves[index], &path).is_err());
        }
        if !path.is_empty() {
            let mut tampered = path.clone();
            let victim = victim.index(path.len());
            tampered[victim] = flip(&tampered[victim]);
            prop_assert!(check(&root, index, &leaves[index], &tampered).is_err());
            prop_assert!(check(&root, index, &leaves[index], &path[1..]).is_err());
        }
        let mut longer = path.clone();
        longer.push(root);
        prop_assert!(check(&root, index, &leaves[index], &longer).is_err());
    }

    #[test]
    fn random_proofs_never_panic(root: [u8; 32], count: u64, index: u64, path: Vec<[u8; 32]>) {
        let path: Vec<Hash> = path.into_iter().map(Hash::from).collect();
        let root = Hash::from(root);
        prop_assert!(verify_path(&root, count, index, &hash(b""), &path).is_err());
    }
}

proptest! {
    #[test]
    fn a_part_leads_to_the_root(
        (count, positions) in (1usize..200).prop_flat_map(|count| {
            let all: Vec<u32> = (0..u32::try_from(count).unwrap()).collect();
            (Just(count), prop::sample::subsequence(all, 1..=count))
        }),
        victim: prop::sample::Index,
    ) {
        let leaves = leaves(count);
        let part: Vec<Hash> = positions.iter().map(|at| leaves[*at as usize]).collect();
        let beside = Tree::new(&leaves).beside(&positions).unwrap();
        let count = u32::try_from(count).unwrap();
        let root = root(&leaves);
        prop_assert_eq!(root_of_part(count, &positions, &part, &beside), Ok(root));
        if let [position] = positions[..] {
            prop_assert_eq!(&beside, &path(&leaves, position as usize).unwrap());
        }
        let mut other = part.clone();
        let victim = victim.index(other.len());
        other[victim] = hash(b"another");
        prop_assert_ne!(root_of_part(count, &positions, &other, &beside), Ok(root));
        let mut longer = beside.clone();
        longer.push(root);
        let wrong = ProofError::Length { expected: beside.len(), got: longer.len() };
        prop_assert_eq!(root_of_part(count, &positions, &part, &longer), Err(wrong));
        if !beside.is_empty() {
            let wrong = ProofError::Length { expected: beside.len(), got: beside.len() - 1 };
            prop_assert_eq!(root_of_part(count, &positions, &part, &beside[1..]), Err(wrong));
        }
    }
}

#[test]
fn a_part_that_there_is_not_has_no_root() {
    let leaves = leaves(5);
    let tree = Tree::new(&leaves);
    for positions in [&[][..], &[5], &[1, 1], &[2, 1], &[0, 5]] {
        assert_eq!(tree.beside(positions), None, "{positions:?}");
        let part = vec![leaves[0]; positions.len()];
        let root = root_of_part(5, positions, &part, &leaves);
        assert!(matches!(root, Err(ProofError::OutOfRange { count: 5, .. })), "{positions:?}");
    }
    assert!(matches!(root_of_part(5, &[0, 1], &leaves[..1], &[]), Err(ProofError::OutOfRange { .. })));
}
