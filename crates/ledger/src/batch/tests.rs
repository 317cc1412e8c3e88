use super::*;
use crate::amount::Amount;
use crate::id::{AccountNumber, AssetId, NetworkId, NetworkTag, ParticipantId, Timestamp, Uetr};
use crate::order::{AccountAction, AccountOrder};
use crate::transaction::{Kind, Terms, leg_hash};
use proptest::prelude::*;
use tally_crypto::SigningKey;

const NETWORK: NetworkId = NetworkId([7; 32]);

fn terms(uetr: u8, seed: u8) -> Terms {
    Terms {
        network: NETWORK,
        uetr: Uetr([uetr; 16]),
        expiry: Timestamp(1_000),
        details: Hash::ZERO,
        seed: [seed; 16],
    }
}

fn leg(participant: u16, account: u32, amount: i64) -> Leg {
    Leg {
        participant: ParticipantId(participant),
        asset: AssetId(0),
        account: AccountNumber(account),
        amount: Amount(amount),
    }
}

fn order() -> AccountOrder {
    AccountOrder {
        participant: ParticipantId(1),
        number: AccountNumber(3),
        action: AccountAction::Open {
            count: 1,
            asset: AssetId(0),
            owner: SigningKey::from_seed([1; 32]).public_key(),
            floor: Amount(-5),
            alias: "DE89370400440532013000".into(),
        },
    }
}

fn batch(legs: &[u8]) -> TransactionBatch {
    let mut batch = TransactionBatch::default();
    for (i, count) in (0u8..).zip(legs) {
        let mut transaction = match count {
            0 => Transaction::account(&terms(i, i), order()),
            n => Transaction::new(
                Kind::Transfer,
                &terms(i, i),
                (0..*n).map(|k| leg(u16::from(k % (i % 31 + 1)), u32::from(k), i64::from(k) + 1)).collect(),
            ),
        };
        if i % 2 == 0 {
            transaction.sign(&NETWORK, &SigningKey::from_seed([i; 32]));
        }
        assert!(batch.push(&transaction));
    }
    batch
}

/// The layout is for ever: ids are signed by clients.
#[test]
fn the_id_of_a_known_transaction() {
    let transaction = Transaction::new(Kind::Transfer, &terms(1, 2), vec![leg(0, 1, -100), leg(0, 2, 100)]);
    assert_eq!(
        transaction.id(&NETWORK).to_string(),
        "6e176d014c1cf5846647d4508c52c40798002f7fe91322461766e6cad3313b11"
    );
}

#[test]
fn an_id_commits_to_every_part_but_the_signatures_and_the_tag() {
    let base = Transaction::new(Kind::Transfer, &terms(1, 2), vec![leg(0, 1, -100), leg(0, 2, 100)]);
    let mut same = base.clone();
    same.sign(&NETWORK, &SigningKey::from_seed([9; 32]));
    // The id commits to the whole network instead.
    same.header.network = NetworkTag(8);
    assert_eq!(same.id(&NETWORK), base.id(&NETWORK));
    let changes: [fn(&mut Transaction); 9] = [
        |t| t.header.kind = 2,
        |t| t.header.participants = 2,
        |t| t.header.expiry = Timestamp(1_001),
        |t| t.header.uetr = Uetr([3; 16]),
        |t| t.header.details = tally_crypto::hash(b"x"),
        |t| t.seed[15] ^= 1,
        |t| t.legs[1].amount = Amount(101),
        |t| t.legs.swap(0, 1),
        |t| t.legs[0].participant = ParticipantId(1),
    ];
    for change in changes {
        let mut changed = base.clone();
        change(&mut changed);
        assert_ne!(changed.id(&NETWORK), base.id(&NETWORK));
    }
    for byte in 0..32 {
        let mut other = NETWORK;
        other.0[byte] ^= 1;
        assert_ne!(base.id(&other), base.id(&NETWORK), "byte {byte} of the network's id");
    }
}

/// By the text of the specification and nothing else, with BLAKE3's plain interface.
fn specified(network: &NetworkId, header: &Header, participants: &[u16], legs: &[Hash]) -> Hash {
    let mut input = bytemuck::bytes_of(header).to_vec();
    input[3] = 0;
    let listed: Vec<u8> = participants.iter().flat_map(|participant| participant.to_le_bytes()).collect();
    if participants.len() <= 2 {
        let mut both = [0xff; 4];
        both[..listed.len()].copy_from_slice(&listed);
        input[4..8].copy_from_slice(&both);
    } else {
        input[4..8].copy_from_slice(&[0; 4]);
        input.extend_from_slice(&listed);
        input.resize(input.len().next_multiple_of(64), 0xff);
    }
    input.extend(legs.iter().flat_map(|leg| *leg.as_bytes()));
    input.resize(input.len().next_multiple_of(64), 0);
    let key = tally_crypto::derive_key("tallystick settlement v2 transaction", &network.0);
    tally_crypto::keyed(&key, &input)
}

#[test]
fn an_id_is_the_specified_hash() {
    for participants in 0..=30u16 {
        for legs in participants..=30 {
            let legs: Vec<Leg> = (0..legs)
                .map(|n| leg(1000 - 7 * (n % participants.max(1)), u32::from(n), i64::from(n) + 1))
                .collect();
            if legs.is_empty() || participants == 0 {
                continue;
            }
            let transaction = Transaction::new(Kind::Transfer, &terms(1, 2), legs.clone());
            let mut listed: Vec<u16> = legs.iter().map(|leg| leg.participant.0).collect();
            listed.sort_unstable();
            listed.dedup();
            assert_eq!(listed.len(), usize::from(participants));
            let hashes: Vec<Hash> = (0u8..)
                .zip(&legs)
                .map(|(position, leg)| {
                    leg_hash(&crate::transaction::leg_salt(&transaction.seed, position), leg, position)
                })
                .collect();
            let wanted = specified(&NETWORK, &transaction.header, &listed, &hashes);
            assert_eq!(transaction.id(&NETWORK), wanted, "{participants} participants");
        }
    }
    let opening = Transaction::account(&terms(1, 2), order());
    assert_eq!(opening.id(&NETWORK), specified(&NETWORK, &opening.header, &[1], &[]));
}

/// Most payments are inside one institution: their ids hash the header's block and one block for
/// both legs.
#[test]
fn a_payment_inside_one_institution_hashes_two_blocks() {
    assert_eq!(preimage_length(1, 2), 2 * 64);
    assert_eq!(preimage_length(2, 2), 2 * 64);
    assert_eq!(preimage_length(2, 4), 3 * 64);
    // One block for all participants of a payment between two banks over a third.
    assert_eq!(preimage_length(3, 4), 4 * 64);
    assert_eq!(preimage_length(30, 30), 17 * 64);
    assert_eq!(preimage_length(1, 0), 64);
}

/// Who approves is signed: to name one institution more, fewer or another makes another id.
#[test]
fn the_same_legs_with_other_participants_have_another_id() {
    let base = Transaction::new(Kind::Transfer, &terms(1, 2), vec![leg(3, 1, -100), leg(5, 2, 100)]);
    let hashes: Vec<Hash> = (0u8..4).map(|n| tally_crypto::hash(&[n])).collect();
    let key = IdKey::new(&NETWORK);
    let sets: [&[u16]; 9] =
        [&[3], &[5], &[3, 5], &[3, 6], &[2, 5], &[3, 4, 5], &[3, 4, 6], &[2, 4, 5], &[2, 3, 4, 5]];
    let mut seen = std::collections::BTreeSet::new();
    for set in sets {
        let set: Vec<ParticipantId> = set.iter().copied().map(ParticipantId).collect();
        // Also where the header states the same count.
        assert!(seen.insert(transaction_id(&key, &base.header, &set, &hashes)), "{set:?}");
    }
}

#[test]
fn a_push_that_disagrees_with_itself_adds_nothing() {
    let mut transaction = Transaction::new(Kind::Transfer, &terms(1, 2), vec![leg(0, 1, -1), leg(0, 2, 1)]);
    transaction.header.legs = 3;
    let mut batch = TransactionBatch::default();
    assert!(!batch.push(&transaction));
    assert_eq!(batch, TransactionBatch::default());
}

/// A transaction of one of two kinds and any set of participants, whose number its header may
/// misstate.
fn any_transaction() -> impl Strategy<Value = (u8, Vec<u16>, Option<u8>)> {
    (1u8..=3, prop::collection::vec(0u16..6, 1..5), prop::option::of(0u8..6))
}

fn made((kind, participants, stated): &(u8, Vec<u16>, Option<u8>)) -> Transaction {
    let legs =
        (0u32..).zip(participants).map(|(account, participant)| leg(*participant, account, 1)).collect();
    let mut transaction = Transaction::new(Kind::from_number(*kind).unwrap(), &terms(1, 1), legs);
    transaction.header.participants = stated.unwrap_or(transaction.header.participants);
    transaction
}

proptest! {
    /// Owners, issuers and institutions sign the id: what they signed for one network, role and set
    /// of institutions is worth nothing for another.
    #[test]
    fn two_networks_kinds_or_sets_of_participants_share_no_id_and_no_signature(
        (network, byte, change) in (any::<[u8; 32]>(), 0usize..32, 1u8..),
        (one, other) in (any_transaction(), any_transaction()),
    ) {
        let network = NetworkId(network);
        let mut another = network;
        another.0[byte] ^= change;
        let key = SigningKey::from_seed([1; 32]);
        let (mut one, other) = (made(&one), made(&other));
        one.sign(&network, &key);
        let verifies = |transaction: &Transaction, network: &NetworkId| {
            tally_crypto::verify(&key.public_key(), transaction.id(network).as_bytes(), &one.signers[0].signature).is_ok()
        };
        prop_assert!(verifies(&one, &network));
        prop_assert!(!verifies(&one, &another));
        let differs = one.header.kind != other.header.kind || one.participants() != other.participants();
        prop_assert!(!differs || (one.id(&network) != other.id(&network) && !verifies(&other, &network)));
    }

    #[test]
    fn ids_of_columns_are_those_of_transactions(legs in prop::collection::vec(0u8..=30, 0..40)) {
        let batch = batch(&legs);
        let (mut hasher, mut hashed, mut ids) = (Hasher::new(&NETWORK), Hashed::default(), Vec::new());
        hasher.hash(&batch, &mut hashed);
        let participants: Vec<ParticipantId> =
            (0..batch.len()).flat_map(|index| batch.transaction(index).unwrap().participants()).collect();
        hasher.ids(&batch.headers, &participants, &hashed.legs, &mut ids);
        prop_assert_eq!(ids, hashed.ids);
    }

    #[test]
    fn hashing_a_batch_is_hashing_each(legs in prop::collection::vec(0u8..=30, 0..40)) {
        let batch = batch(&legs);
        let mut hashed = Hashed::default();
        Hasher::new(&NETWORK).hash(&batch, &mut hashed);
        for (index, id) in hashed.ids.iter().enumerate() {
            prop_assert_eq!(batch.transaction(index).unwrap().id(&NETWORK), *id);
        }
    }

    #[test]
    fn what_is_written_is_read_and_nothing_shorter(legs in prop::collection::vec(0u8..5, 0..6)) {
        let batch = batch(&legs);
        let mut bytes = Vec::new();
        batch.encode(&mut bytes);
        let mut reader = Reader::new("batch", &bytes);
        prop_assert_eq!(&TransactionBatch::decode(&mut reader).unwrap(), &batch);
        reader.end().unwrap();
        for length in 0..bytes.len() {
            prop_assert!(TransactionBatch::decode(&mut Reader::new("batch", &bytes[..length])).is_err());
        }
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..600), small in any::<bool>()) {
        let mut bytes = bytes;
        if small && bytes.len() > 20 {
            bytes[0] = 1;
            for i in [2, 3, 4, 6, 7, 8, 10, 11, 12, 14, 15, 16] {
                bytes[i] = 0;
            }
        }
        let _ = TransactionBatch::decode(&mut Reader::new("batch", &bytes));
    }
}

/// The scheduler refuses them; it hashes them beside the others all the same.
#[test]
fn what_the_scheduler_refuses_has_an_id() {
    let mut batch = TransactionBatch::default();
    for count in [0u16, 1, 31, 33, 64, 255] {
        let legs = (0..count).map(|n| leg(n, 1, 1)).collect();
        let mut transaction = Transaction::new(Kind::Transfer, &terms(1, 1), legs);
        transaction.header.participants = 2;
        assert!(batch.push(&transaction));
    }
    let mut order = Transaction::account(&terms(1, 1), order());
    order.legs = vec![leg(4, 1, 1); 2];
    order.header.legs = 2;
    assert!(batch.push(&order));
    let mut hashed = Hashed::default();
    Hasher::new(&NETWORK).hash(&batch, &mut hashed);
    for (index, id) in hashed.ids.iter().enumerate() {
        assert_eq!(batch.transaction(index).unwrap().id(&NETWORK), *id);
    }
}

#[test]
fn more_legs_than_the_form_can_count_have_an_id_and_no_place_in_a_batch() {
    for count in [255, 256, 300, 1000] {
        let legs = (0..count).map(|account| leg(1, account, 1)).collect();
        let mut transaction = Transaction::new(Kind::Transfer, &terms(1, 1), legs);
        transaction.sign(&NETWORK, &SigningKey::from_seed([1; 32]));
        assert_eq!(TransactionBatch::default().push(&transaction), count == 255);
    }
}
