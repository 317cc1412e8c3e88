use super::*;
use proptest::prelude::*;
use proptest::sample::subsequence;
use tally_crypto::{Hash, PublicKey, Signature};
use tally_ledger::order::AccountAction;
use tally_ledger::transaction::{Leg, Signer, Terms};
use tally_ledger::{
    AccountNumber, AccountOrder, Amount, AssetId, Header, Kind, NetworkId, NetworkTag, ParticipantId,
    Refusal, Timestamp, Transaction, TransactionBatch, Uetr,
};

/// The form is strict: what was written is read back, and nothing shorter, longer or changed has the same
/// meaning.
fn is_strict<M: Message + PartialEq + std::fmt::Debug>(message: &M) {
    let mut bytes = Vec::new();
    message.encode(&mut bytes);
    assert_eq!(M::decode(&bytes).as_ref(), Ok(message));
    for length in 0..bytes.len() {
        assert!(M::decode(&bytes[..length]).is_err(), "cut off after {length} bytes");
    }
    bytes.push(0);
    assert!(M::decode(&bytes).is_err(), "a byte follows");
    bytes.pop();
    for at in 0..bytes.len() {
        for change in [0x01, 0x80, 0xff] {
            bytes[at] ^= change;
            if let Ok(other) = M::decode(&bytes) {
                assert_ne!(&other, message, "byte {at} means nothing");
                let mut again = Vec::new();
                other.encode(&mut again);
                assert_eq!(again, bytes, "byte {at}: another form of the same");
            }
            bytes[at] ^= change;
        }
    }
}

fn hash() -> impl Strategy<Value = Hash> {
    any::<[u8; 32]>().prop_map(|bytes| tally_crypto::hash(&bytes))
}

fn key() -> impl Strategy<Value = PublicKey> {
    any::<[u8; 32]>().prop_map(PublicKey::from_bytes)
}

fn signature() -> impl Strategy<Value = Signature> {
    (any::<[u8; 32]>(), any::<[u8; 32]>()).prop_map(|(r, s)| {
        let mut bytes = [0; 64];
        bytes[..32].copy_from_slice(&r);
        bytes[32..].copy_from_slice(&s);
        Signature::from_bytes(bytes)
    })
}

fn source() -> impl Strategy<Value = Source> {
    (0u64..8, 0..u64::MAX).prop_map(|(scheduler, number)| Source::new(scheduler, number))
}

fn verdict() -> impl Strategy<Value = u16> {
    let refusals = Refusal::ALL.iter().map(|refusal| refusal.number());
    proptest::sample::select(refusals.chain(std::iter::repeat_n(0, 20)).collect::<Vec<_>>())
}

fn leg() -> impl Strategy<Value = Leg> {
    (any::<u16>(), any::<u16>(), any::<u32>(), any::<i64>()).prop_map(
        |(participant, asset, account, amount)| Leg {
            participant: ParticipantId(participant),
            asset: AssetId(asset),
            account: AccountNumber(account),
            amount: Amount(amount),
        },
    )
}

fn order() -> impl Strategy<Value = AccountOrder> {
    let action = prop_oneof![
        (any::<u32>(), any::<u16>(), key(), any::<i64>(), "[A-Zé0-9]{0,40}").prop_map(
            |(count, asset, owner, floor, alias)| {
                let (asset, floor) = (AssetId(asset), Amount(floor));
                AccountAction::Open { count, asset, owner, floor, alias }
            }
        ),
        Just(AccountAction::Freeze),
        Just(AccountAction::Release),
        Just(AccountAction::Close),
        any::<i64>().prop_map(|floor| AccountAction::SetFloor(Amount(floor))),
    ];
    (any::<u16>(), any::<u32>(), action).prop_map(|(participant, number, action)| AccountOrder {
        participant: ParticipantId(participant),
        number: AccountNumber(number),
        action,
    })
}

fn header() -> impl Strategy<Value = Header> {
    (0u8..6, 0u8..40, any::<u32>(), any::<u64>(), any::<[u8; 16]>(), hash()).prop_map(
        |(kind, participants, network, expiry, uetr, details)| Header {
            kind,
            legs: 0,
            participants,
            signers: 0,
            network: NetworkTag(network),
            expiry: Timestamp(expiry),
            uetr: Uetr(uetr),
            details,
        },
    )
}

fn transaction() -> impl Strategy<Value = Transaction> {
    let signer = (key(), signature()).prop_map(|(key, signature)| Signer { key, signature });
    let legs = prop::collection::vec(leg(), 0..5);
    (header(), any::<[u8; 16]>(), legs, prop::collection::vec(signer, 0..3), order()).prop_map(
        |(mut header, seed, legs, signers, order)| {
            header.legs = u8::try_from(legs.len()).unwrap();
            header.signers = u8::try_from(signers.len()).unwrap();
            let order = (header.kind == Kind::Account.number()).then_some(order);
            Transaction { header, seed, legs, signers, order }
        },
    )
}

fn transactions() -> impl Strategy<Value = TransactionBatch> {
    prop::collection::vec(transaction(), 0..5).prop_map(|transactions| {
        let mut batch = TransactionBatch::default();
        assert!(transactions.iter().all(|transaction| batch.push(transaction)));
        batch
    })
}

/// Positions that ascend within a source, and its length.
fn positions() -> impl Strategy<Value = (Vec<u32>, u32)> {
    (1u32..12).prop_flat_map(|len| {
        let all: Vec<u32> = (0..len).collect();
        (subsequence(all, 0..=len as usize), Just(len))
    })
}

fn proposals() -> impl Strategy<Value = ProposalBatch> {
    let item = || (transaction(), any::<u8>(), any::<[u8; 16]>(), any::<u8>(), hash(), any::<u16>());
    (source(), any::<u16>(), positions()).prop_flat_map(
        move |(source, participant, (indices, source_len))| {
            prop::collection::vec(item(), indices.len()).prop_map(move |items| {
                let mut batch = ProposalBatch {
                    source,
                    source_len,
                    participant: ParticipantId(participant),
                    indices: indices.clone(),
                    ..ProposalBatch::default()
                };
                for (transaction, shown, salt, position, hidden, first) in items {
                    let legs = transaction.legs.len();
                    let shown = usize::from(shown) % (legs + 1);
                    batch.headers.push(transaction.header);
                    let all = usize::from(transaction.header.participants);
                    batch.participants.extend(std::iter::repeat_n(ParticipantId(first), all));
                    batch.shown.push(u8::try_from(shown).unwrap());
                    batch.legs.extend_from_slice(&transaction.legs[..shown]);
                    batch.salts.extend(std::iter::repeat_n(salt, shown));
                    batch.positions.extend(std::iter::repeat_n(position, shown));
                    batch.hidden.extend(std::iter::repeat_n(hidden, legs - shown));
                    batch.signers.extend_from_slice(&transaction.signers);
                    batch.orders.extend(transaction.order);
                }
                batch
            })
        },
    )
}

fn approvals() -> impl Strategy<Value = ApprovalBatch> {
    let item = || (hash(), verdict());
    (source(), any::<u16>(), positions(), signature()).prop_flat_map(
        move |(source, participant, (indices, source_len), signature)| {
            let order: Vec<u16> = (0..).take(indices.len()).collect();
            let items = prop::collection::vec(item(), indices.len());
            (items, Just(order).prop_shuffle()).prop_map(move |(items, order)| ApprovalBatch {
                source,
                source_len,
                participant: ParticipantId(participant),
                indices: indices.clone(),
                ids: items.iter().map(|item| item.0).collect(),
                verdicts: items.iter().map(|item| item.1).collect(),
                leaves: if order.is_sorted() { Vec::new() } else { order },
                signature,
            })
        },
    )
}

fn decisions() -> impl Strategy<Value = DecisionBatch> {
    (source(), prop::collection::vec((any::<u32>(), hash(), verdict()), 0..12)).prop_map(|(source, items)| {
        DecisionBatch {
            source,
            indices: items.iter().map(|item| item.0).collect(),
            ids: items.iter().map(|item| item.1).collect(),
            verdicts: items.iter().map(|item| item.2).collect(),
        }
    })
}

fn sequence() -> impl Strategy<Value = SequenceBatch> {
    let decided = prop::collection::vec((0u32..1000, verdict()), 0..12);
    let tree = (any::<[u8; 32]>(), any::<u64>(), signature());
    (0u64..1 << 60, source(), any::<u64>(), decided, hash(), tree).prop_map(
        |(first, source, timestamp, decided, root, (tree_root, tree_size, signature))| {
            let (indices, verdicts): (Vec<_>, Vec<_>) = decided.into_iter().unzip();
            SequenceBatch {
                first,
                count: u32::try_from(indices.len()).unwrap(),
                source,
                timestamp: Timestamp(timestamp),
                runs: SequenceBatch::runs_of(&indices, &verdicts),
                root,
                tree_root,
                tree_size,
                signature,
            }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn submissions_have_one_form(origin: u64, batch in transactions()) {
        is_strict(&Submission { origin, batch });
    }

    #[test]
    fn accepted_batches_have_one_form(at: u64, batch in transactions()) {
        is_strict(&AcceptedBatch { accepted_at: Timestamp(at), batch });
    }

    #[test]
    fn proposals_have_one_form(batch in proposals()) {
        is_strict(&batch);
        let shown: usize = batch.iter().map(|proposal| proposal.legs.len()).sum();
        prop_assert_eq!(shown, batch.legs.len());
        for (item, index) in batch.indices.iter().enumerate() {
            prop_assert_eq!(batch.position(*index), Some(item));
        }
        prop_assert_eq!(batch.position(batch.source_len), None);
        // A header that counts more than the columns have.
        let shorter: [fn(&mut ProposalBatch) -> bool; 5] = [
            |batch| batch.participants.pop().is_some(),
            |batch| batch.salts.pop().is_some() && batch.positions.pop().is_some() && batch.legs.pop().is_some(),
            |batch| batch.hidden.pop().is_some(),
            |batch| batch.signers.pop().is_some(),
            |batch| batch.orders.pop().is_some(),
        ];
        for (column, shorten) in shorter.iter().enumerate() {
            let mut wrong = batch.clone();
            if shorten(&mut wrong) {
                let mut bytes = Vec::new();
                wrong.encode(&mut bytes);
                prop_assert!(ProposalBatch::decode(&bytes).is_err(), "column {}", column);
            }
        }
    }

    #[test]
    fn approvals_have_one_form(batch in approvals()) {
        is_strict(&batch);
    }

    #[test]
    fn participations_have_one_form(
        source in source(),
        items in prop::collection::vec((hash(), any::<u64>(), prop::collection::btree_set(any::<u16>(), 1..5)), 0..12),
    ) {
        let batch = ParticipationBatch {
            source,
            ids: items.iter().map(|item| item.0).collect(),
            expiries: items.iter().map(|item| Timestamp(item.1)).collect(),
            counts: items.iter().map(|item| u8::try_from(item.2.len()).unwrap()).collect(),
            participants: items.iter().flat_map(|item| item.2.iter().copied().map(ParticipantId)).collect(),
        };
        is_strict(&batch);
        let mut wrong = batch.clone();
        wrong.participants.reverse();
        let mut bytes = Vec::new();
        wrong.encode(&mut bytes);
        prop_assert_eq!(ParticipationBatch::decode(&bytes).is_ok(), wrong.participants == batch.participants || {
            let mut rest = wrong.participants.as_slice();
            wrong.counts.iter().all(|count| {
                let (own, after) = rest.split_at(usize::from(*count));
                rest = after;
                own.windows(2).all(|pair| pair[0] < pair[1])
            })
        });
    }

    #[test]
    fn cosignatures_have_one_form(
        participant: u16,
        heads in prop::collection::btree_map(any::<u64>(), (any::<u64>(), any::<u64>(), any::<[u8; 32]>(), signature(), signature()), 0..6),
    ) {
        let head = |(size, (timestamp_ms, time_s, root, operator, cosignature))| CosignedHead {
            size, timestamp_ms, time_s, root, operator, cosignature,
        };
        let heads = heads.into_iter().map(head).collect();
        is_strict(&CosignatureBatch { participant: ParticipantId(participant), heads });
    }

    #[test]
    fn decisions_have_one_form(batch in decisions()) {
        is_strict(&batch);
    }

    #[test]
    fn withdrawals_have_one_form(source in source(), index in 0u32..1 << 16) {
        is_strict(&Withdrawal { source, index });
    }

    #[test]
    fn the_annex_has_one_form(at: u64, items in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..5)) {
        is_strict(&AnnexBatch { kept_at: Timestamp(at), items });
    }

    #[test]
    fn the_sequence_has_one_form(batch in sequence()) {
        is_strict(&batch);
    }

    #[test]
    fn runs_name_the_same_decisions(decided in prop::collection::vec((0u32..40, 0u16..3), 0..200)) {
        let (indices, verdicts): (Vec<_>, Vec<_>) = decided.iter().copied().unzip();
        let runs = SequenceBatch::runs_of(&indices, &verdicts);
        let each = |run: &Run| (run.index..run.index + u32::from(run.count)).map(|index| (index, run.verdict)).collect::<Vec<_>>();
        prop_assert_eq!(runs.iter().flat_map(each).collect::<Vec<_>>(), decided);
    }

    #[test]
    fn noise_is_refused_or_read_and_never_more(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let _ = Submission::decode(&bytes);
        let _ = AcceptedBatch::decode(&bytes);
        let _ = ProposalBatch::decode(&bytes);
        let _ = ApprovalBatch::decode(&bytes);
        let _ = DecisionBatch::decode(&bytes);
        let _ = SequenceBatch::decode(&bytes);
        let _ = Withdrawal::decode(&bytes);
        let _ = AnnexBatch::decode(&bytes);
        let _ = ConsentBatch::decode(&bytes);
    }

    #[test]
    fn an_approval_is_signed_in_every_part(
        batch in approvals(),
        (network, seed) in any::<([u8; 32], [u8; 32])>(),
        part in 0u8..7,
        byte in 0usize..32,
    ) {
        let key = tally_crypto::SigningKey::from_seed(seed);
        let mut signer = ApprovalSigner::new(NetworkId(network));
        let mut batch = batch;
        signer.sign(&mut batch, &key);
        prop_assert!(signer.verifies(&batch, &key.public_key()));
        match (part, batch.indices.is_empty()) {
            (0, _) => batch.source.number ^= 1,
            (1, _) => batch.source.scheduler ^= 1,
            (2, _) => batch.source_len += 1,
            (3, _) => batch.participant.0 ^= 1,
            (4, false) => batch.verdicts[0] ^= 1,
            (5, false) => batch.ids[0] = tally_crypto::hash(batch.ids[0].as_bytes()),
            (6, _) => {
                let mut other = network;
                other[byte] ^= 1;
                signer = ApprovalSigner::new(NetworkId(other));
            }
            _ => return Ok(()),
        }
        prop_assert!(!signer.verifies(&batch, &key.public_key()));
    }
}

#[test]
fn counts_beyond_the_largest_batch_are_refused() {
    let approval = ApprovalBatch {
        source: Source::new(0, 0),
        source_len: u32::MAX,
        participant: ParticipantId(0),
        indices: Vec::new(),
        ids: Vec::new(),
        verdicts: Vec::new(),
        leaves: Vec::new(),
        signature: Signature::from_bytes([0; 64]),
    };
    let mut bytes = Vec::new();
    approval.encode(&mut bytes);
    assert!(ApprovalBatch::decode(&bytes).is_err());
    bytes.clear();
    ProposalBatch { source_len: u32::MAX, ..ProposalBatch::default() }.encode(&mut bytes);
    assert!(ProposalBatch::decode(&bytes).is_err());
    bytes.clear();
    let runs = vec![Run { index: 0, count: u16::MAX, verdict: 0 }; 3];
    let batch = SequenceBatch {
        first: 0,
        count: 3 * u32::from(u16::MAX),
        source: Source::new(0, 0),
        timestamp: Timestamp(0),
        runs,
        root: Hash::ZERO,
        tree_root: [0; 32],
        tree_size: 1,
        signature: Signature::from_bytes([0; 64]),
    };
    batch.encode(&mut bytes);
    assert!(SequenceBatch::decode(&bytes).is_err());
}

proptest! {
    #[test]
    fn intake_is_strict(
        results in prop::collection::vec((0u8..3, 0u32..6, source()), 0..12),
        (origin, expires, ticket) in any::<(u64, u64, u64)>(),
        accepted in prop::option::of(source()),
    ) {
        let refusals: Vec<Refusal> = Refusal::ALL.iter().copied().take(2).collect();
        let results = results.into_iter().map(|(kind, index, first)| match kind {
            0 => Intake::Accepted(index),
            1 => Intake::Duplicate(first, index),
            _ => Intake::Refused(refusals[index as usize % refusals.len()]),
        });
        is_strict(&IntakeBatch {
            origin,
            source: accepted,
            ticket: tally_log::Ticket(ticket),
            expires: Timestamp(expires),
            results: results.collect(),
        });
    }
}

#[test]
fn each_transaction_of_a_batch_is_named_once_and_is_one_of_it() {
    fn read<M: Message>(message: &M) -> bool {
        let mut bytes = Vec::new();
        message.encode(&mut bytes);
        M::decode(&bytes).is_ok()
    }
    let approval = |indices: &[u32], verdict| ApprovalBatch {
        source: Source::new(0, 0),
        source_len: 3,
        participant: ParticipantId(0),
        indices: indices.to_vec(),
        ids: vec![Hash::ZERO; indices.len()],
        verdicts: vec![verdict; indices.len()],
        leaves: Vec::new(),
        signature: Signature::from_bytes([0; 64]),
    };
    let header = |at| {
        let terms = Terms {
            network: NetworkId([5; 32]),
            uetr: Uetr([at; 16]),
            expiry: Timestamp(0),
            details: Hash::ZERO,
            seed: [0; 16],
        };
        Transaction::new(Kind::Transfer, &terms, Vec::new()).header
    };
    let proposal = |indices: &[u32]| ProposalBatch {
        source_len: 3,
        indices: indices.to_vec(),
        headers: indices.iter().map(|_| header(1)).collect(),
        shown: vec![0; indices.len()],
        ..ProposalBatch::default()
    };
    assert!(read(&approval(&[0, 2], 24)) && read(&proposal(&[0, 2])));
    for wrong in [&[0, 0][..], &[2, 1], &[0, 3]] {
        assert!(!read(&approval(wrong, 0)), "{wrong:?}");
        assert!(!read(&proposal(wrong)), "{wrong:?}");
    }
    assert!(!read(&approval(&[0], 9_999)), "an unknown verdict");
    let asks = |counts: &[u8], participants: &[u16]| {
        read(&ParticipationBatch {
            source: Source::new(0, 0),
            ids: vec![Hash::ZERO; counts.len()],
            expiries: vec![Timestamp(0); counts.len()],
            counts: counts.to_vec(),
            participants: participants.iter().copied().map(ParticipantId).collect(),
        })
    };
    assert!(asks(&[2, 1], &[0, 1, 0]));
    assert!(!asks(&[2, 1], &[0, 0, 0]), "asked twice");
    assert!(!asks(&[2, 1], &[1, 0, 0]), "another form of the same");
    assert!(!asks(&[3, 0], &[0, 1, 2]), "nobody is asked");
}

#[test]
fn approvals_and_consents_have_one_form() {
    fn read<M: Message + PartialEq + std::fmt::Debug>(message: &M) -> bool {
        let mut bytes = Vec::new();
        message.encode(&mut bytes);
        let decoded = M::decode(&bytes);
        assert!(decoded.as_ref().is_err() || decoded.as_ref() == Ok(message));
        decoded.is_ok()
    }
    let grouped = |leaves: &[u16]| ApprovalBatch {
        source: Source::new(0, 0),
        source_len: 3,
        participant: ParticipantId(0),
        indices: vec![0, 1, 2],
        ids: vec![Hash::ZERO; 3],
        verdicts: vec![0; 3],
        leaves: leaves.to_vec(),
        signature: Signature::from_bytes([0; 64]),
    };
    assert!(read(&grouped(&[])) && read(&grouped(&[2, 0, 1])));
    for wrong in [&[0, 1, 2][..], &[1, 0], &[1, 0, 0], &[1, 0, 3], &[1, 0, 2, 3]] {
        assert!(!read(&grouped(wrong)), "{wrong:?}");
    }
    let consents = |answers, positions: &[u32], indices: &[u32]| ConsentBatch {
        source: Source::new(0, 0),
        source_len: 3,
        participant: ParticipantId(0),
        answers,
        positions: positions.to_vec(),
        indices: indices.to_vec(),
        beside: vec![Hash::ZERO],
        signature: Signature::from_bytes([0; 64]),
    };
    assert!(read(&consents(2, &[0, 1], &[2, 0])));
    assert!(!read(&consents(4, &[0, 1], &[2, 0])), "more answers than the batch has transactions");
    assert!(!read(&consents(2, &[], &[])), "nothing agreed to");
    assert!(!read(&consents(2, &[1, 0], &[2, 0])), "out of order");
    assert!(!read(&consents(2, &[0, 2], &[2, 0])), "no such answer");
    assert!(!read(&consents(2, &[0, 1], &[3, 0])), "no such transaction");
}

#[test]
fn a_batch_is_named_by_its_number_and_then_its_scheduler() {
    let mut bytes = Vec::new();
    Withdrawal { source: Source::new(2, 1), index: 3 }.encode(&mut bytes);
    assert_eq!(bytes, [1, 1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0]);
}

/// Stages keep the position after a batch. The last number has none after it.
#[test]
fn no_message_names_a_batch_with_the_last_number() {
    fn read<M: Message>(message: &M) -> bool {
        let mut bytes = Vec::new();
        message.encode(&mut bytes);
        M::decode(&bytes).is_ok()
    }
    let (participant, signature) = (ParticipantId(0), Signature::from_bytes([0; 64]));
    let intake = |source, results| IntakeBatch {
        origin: 0,
        source,
        ticket: tally_log::Ticket(0),
        expires: Timestamp(0),
        results,
    };
    for (number, is_read) in [(u64::MAX - 1, true), (u64::MAX, false)] {
        let source = Source::new(0, number);
        assert_eq!(read(&ProposalBatch { source, ..ProposalBatch::default() }), is_read);
        assert_eq!(read(&ParticipationBatch { source, ..ParticipationBatch::default() }), is_read);
        assert_eq!(read(&DecisionBatch { source, ..DecisionBatch::default() }), is_read);
        assert_eq!(read(&Withdrawal { source, index: 0 }), is_read);
        assert_eq!(read(&intake(Some(source), Vec::new())), is_read);
        assert_eq!(read(&intake(None, vec![Intake::Duplicate(source, 0)])), is_read);
        let approval = ApprovalBatch {
            source,
            source_len: 1,
            participant,
            indices: vec![0],
            ids: vec![Hash::ZERO],
            verdicts: vec![24],
            leaves: Vec::new(),
            signature,
        };
        assert_eq!(read(&approval), is_read);
        let consents = ConsentBatch {
            source,
            source_len: 1,
            participant,
            answers: 1,
            positions: vec![0],
            indices: vec![0],
            beside: Vec::new(),
            signature,
        };
        assert_eq!(read(&consents), is_read);
        let sequence = SequenceBatch {
            first: 0,
            count: 1,
            source,
            timestamp: Timestamp(0),
            runs: vec![Run { index: 0, count: 1, verdict: 0 }],
            root: Hash::ZERO,
            tree_root: [0; 32],
            tree_size: 1,
            signature,
        };
        assert_eq!(read(&sequence), is_read);
    }
}
