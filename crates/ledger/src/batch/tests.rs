use super::*;
use crate::amount::Amount;
use crate::id::{AccountNumber, AssetId, NetworkId, ParticipantId, Timestamp, Uetr};
use crate::order::{AccountAction, AccountOrder};
use crate::transaction::{Kind, Terms};
use proptest::prelude::*;
use tally_crypto::SigningKey;

fn terms(uetr: u8, seed: u8) -> Terms {
    Terms {
        network: NetworkId(7),
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
                (0..*n).map(|k| leg(u16::from(k % 3), u32::from(k), i64::from(k) + 1)).collect(),
            ),
        };
        if i % 2 == 0 {
            transaction.sign(&SigningKey::from_seed([i; 32]));
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
        transaction.id().to_string(),
        "b67d7cf277e0e5fee2fc1daac6227931ad0dfdff96401d8500cbe8907899cfdd"
    );
}

#[test]
fn an_id_commits_to_every_part_but_the_signatures() {
    let base = Transaction::new(Kind::Transfer, &terms(1, 2), vec![leg(0, 1, -100), leg(0, 2, 100)]);
    let mut signed = base.clone();
    signed.sign(&SigningKey::from_seed([9; 32]));
    assert_eq!(signed.id(), base.id());
    let changes: [fn(&mut Transaction); 9] = [
        |t| t.header.kind = 2,
        |t| t.header.participants = 2,
        |t| t.header.network = NetworkId(8),
        |t| t.header.expiry = Timestamp(1_001),
        |t| t.header.uetr = Uetr([3; 16]),
        |t| t.header.details = tally_crypto::hash(b"x"),
        |t| t.seed[15] ^= 1,
        |t| t.legs[1].amount = Amount(101),
        |t| t.legs.swap(0, 1),
    ];
    for change in changes {
        let mut changed = base.clone();
        change(&mut changed);
        assert_ne!(changed.id(), base.id());
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

proptest! {
    #[test]
    fn hashing_a_batch_is_hashing_each(legs in prop::collection::vec(0u8..=30, 0..40)) {
        let batch = batch(&legs);
        let mut hashed = Hashed::default();
        Hasher::default().hash(&batch, &mut hashed);
        for (index, id) in hashed.ids.iter().enumerate() {
            prop_assert_eq!(batch.transaction(index).unwrap().id(), *id);
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

#[test]
fn more_legs_than_the_form_can_count_have_an_id_and_no_place_in_a_batch() {
    for count in [255, 256, 300, 1000] {
        let legs = (0..count).map(|account| leg(1, account, 1)).collect();
        let mut transaction = Transaction::new(Kind::Transfer, &terms(1, 1), legs);
        transaction.sign(&SigningKey::from_seed([1; 32]));
        assert_eq!(TransactionBatch::default().push(&transaction), count == 255);
    }
}
