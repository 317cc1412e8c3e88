use super::*;
use crate::message::participation::NEVER;
use crate::message::{
    ApprovalBatch, ApprovalSigner, ConsentBatch, DecisionBatch, ParticipationBatch, Withdrawal,
};
use crate::stage::Assembler;
use crate::stage::assembler::NotCounted;
use proptest::prelude::*;
use std::collections::BTreeMap;
use tally_ledger::Refusal;

/// One transaction: who is concerned (a set of three), and everybody's verdict.
type Item = ([bool; 3], [u16; 3]);

fn concerned((who, _): &Item) -> impl Iterator<Item = usize> + '_ {
    (0..3).filter(|participant| who[*participant] || (!who.contains(&true) && *participant == 0))
}

fn transaction_id(index: u32) -> Hash {
    tally_crypto::hash(&index.to_le_bytes())
}

/// What the scheduler says of one accepted batch.
fn participation(number: u64, items: &[Item], expiry: Timestamp) -> Arc<ParticipationBatch> {
    let all: Vec<Vec<usize>> = items.iter().map(|item| concerned(item).collect()).collect();
    let participant = |number: &usize| ParticipantId(u16::try_from(*number).unwrap());
    Arc::new(ParticipationBatch {
        source: Source::new(0, number),
        ids: (0u32..).take(items.len()).map(transaction_id).collect(),
        expiries: vec![expiry; items.len()],
        counts: all.iter().map(|concerned| u8::try_from(concerned.len()).unwrap()).collect(),
        participants: all.iter().flatten().map(participant).collect(),
    })
}

/// An assembler that was told of one accepted batch.
fn asked(number: u64, items: &[Item], expiry: Timestamp) -> Assembler {
    let mut assembler = Assembler::new(network(), []);
    assert!(assembler.ask(participation(number, items, expiry)).indices.is_empty());
    assembler
}

/// Everybody's answers to one accepted batch.
fn approvals(number: u64, items: &[Item]) -> Vec<Arc<ApprovalBatch>> {
    let mut all = Vec::new();
    for participant in 0..3usize {
        let mine = (0u32..).zip(items).filter(|(_, item)| concerned(item).any(|who| who == participant));
        let mine: Vec<_> = mine.collect();
        if mine.is_empty() {
            continue;
        }
        let mut batch = ApprovalBatch {
            source: Source::new(0, number),
            source_len: u32::try_from(items.len()).unwrap(),
            participant: ParticipantId(u16::try_from(participant).unwrap()),
            indices: mine.iter().map(|(index, _)| *index).collect(),
            ids: mine.iter().map(|(index, _)| transaction_id(*index)).collect(),
            verdicts: mine.iter().map(|(_, item)| item.1[participant]).collect(),
            leaves: Vec::new(),
            signature: Signature::from_bytes([0; 64]),
        };
        sign(&mut batch);
        all.push(Arc::new(batch));
    }
    all
}

/// Signs answers with the key of the participant whom they name.
fn sign(batch: &mut ApprovalBatch) {
    let key = key(u8::try_from(batch.participant.0).unwrap());
    ApprovalSigner::new(NETWORK).sign(batch, &key);
}

fn items() -> impl Strategy<Value = Vec<Item>> {
    let verdict = prop_oneof![3 => Just(0u16), 1 => Just(20u16), 1 => Just(24u16)];
    prop::collection::vec((any::<[bool; 3]>(), [verdict.clone(), verdict.clone(), verdict]), 1..8)
}

fn note(decided: &mut BTreeMap<u32, u16>, batch: &DecisionBatch) {
    for ((index, id), verdict) in batch.indices.iter().zip(&batch.ids).zip(&batch.verdicts) {
        assert_eq!(*id, transaction_id(*index));
        assert_eq!(decided.insert(*index, *verdict), None, "transaction {index} is decided twice");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn the_verdict_does_not_depend_on_the_order_of_answers(items in items(), letters in prop::collection::vec(any::<u8>(), 0..20)) {
        let all = approvals(0, &items);
        let mut assembler = asked(0, &items, NOW.plus_ms(1000));
        let mut decided = BTreeMap::new();
        // Some letters arrive again and again, then all that are left.
        let some = letters.iter().map(|letter| usize::from(*letter) % all.len());
        for at in some.chain(0..all.len()) {
            note(&mut decided, &assembler.count(NOW, &all[at]).unwrap());
        }
        for (index, item) in (0u32..).zip(&items) {
            let refusals = concerned(item).map(|participant| item.1[participant]).filter(|verdict| *verdict > 0);
            prop_assert_eq!(decided.get(&index), Some(&refusals.min().unwrap_or(0)));
        }
        prop_assert_eq!(assembler.open(), 0);
        for letter in &all {
            prop_assert!(assembler.count(NOW, letter).unwrap().indices.is_empty(), "late letters change nothing");
        }
        prop_assert!(assembler.expire(Timestamp(u64::MAX)).is_empty());
    }

    #[test]
    fn what_expires_is_decided_then_and_never_again(items in items(), letters in prop::collection::vec(any::<u8>(), 1..4)) {
        let expiry = NOW.plus_ms(1000);
        let all = approvals(0, &items);
        let mut assembler = asked(0, &items, expiry);
        let mut decided = BTreeMap::new();
        let mut answered = [false; 3];
        for letter in letters {
            let letter = &all[usize::from(letter) % all.len()];
            answered[letter.participant.index()] = true;
            note(&mut decided, &assembler.count(NOW, letter).unwrap());
        }
        // An answer given in time may take two seconds more.
        prop_assert!(assembler.expire(expiry.plus_ms(2000)).is_empty());
        let before = decided.clone();
        assembler.expire(expiry.plus_ms(2001)).iter().for_each(|batch| note(&mut decided, batch));
        for (index, item) in (0u32..).zip(&items) {
            let alone = concerned(item).count() == 1;
            prop_assert!(!alone || answered[concerned(item).next().unwrap()] == before.contains_key(&index));
            let wanted = before.get(&index).copied().unwrap_or(Refusal::ApprovalTimeout.number());
            prop_assert_eq!(decided.get(&index).copied(), Some(wanted));
        }
        for letter in &all {
            note(&mut decided, &assembler.count(NOW.plus_ms(9000), letter).unwrap());
        }
        prop_assert_eq!(decided.len(), items.len());
        prop_assert_eq!(assembler.open(), 0);
    }

    #[test]
    fn what_is_withdrawn_in_time_is_refused_once_and_nothing_else_is(
        items in items(), letters in prop::collection::vec(any::<u8>(), 0..12), asked in prop::collection::vec((0u8..12, 0u8..10), 0..6),
        opens in 0usize..4,
    ) {
        let all = approvals(0, &items);
        let mut assembler = Assembler::new(network(), []);
        let mut decided = BTreeMap::new();
        let mut withdrawn = std::collections::BTreeSet::new();
        let some = letters.iter().map(|letter| usize::from(*letter) % all.len()).chain(0..all.len());
        for (step, at) in some.enumerate() {
            if step == opens.min(letters.len()) {
                note(&mut decided, &assembler.ask(participation(0, &items, NOW.plus_ms(1000))));
                for index in &withdrawn {
                    prop_assert!(decided.contains_key(index), "what was withdrawn before is refused with the batch");
                }
            }
            for (when, index) in &asked {
                // One of them is of no transaction.
                let index = u32::from(*index) % (u32::try_from(items.len()).unwrap() + 1);
                if usize::from(*when) == step {
                    let batch = assembler.withdraw(NOW, &Withdrawal { source: Source::new(0, 0), index });
                    let several = items.get(index as usize).is_some_and(|item| concerned(item).count() > 1);
                    let open = several && !decided.contains_key(&index);
                    let is_asked = assembler.knows(Source::new(0, 0));
                    prop_assert_eq!(!batch.indices.is_empty(), open && is_asked, "at once where the batch is known");
                    note(&mut decided, &batch);
                    if open {
                        withdrawn.insert(index);
                    }
                }
            }
            if !assembler.knows(Source::new(0, 0)) {
                let unknown = NotCounted::UnknownBatch(all[at].participant, Source::new(0, 0));
                prop_assert_eq!(assembler.count(NOW, &all[at]), Err(unknown));
                continue;
            }
            note(&mut decided, &assembler.count(NOW, &all[at]).unwrap());
        }
        for letter in &all {
            note(&mut decided, &assembler.count(NOW, letter).unwrap());
        }
        for (index, item) in (0u32..).zip(&items) {
            let refusals = concerned(item).map(|participant| item.1[participant]).filter(|verdict| *verdict > 0);
            let wanted = if withdrawn.contains(&index) {
                Refusal::Withdrawn.number()
            } else {
                refusals.min().unwrap_or(0)
            };
            prop_assert_eq!(decided.get(&index), Some(&wanted), "{} {:?}", index, item);
        }
        prop_assert_eq!(assembler.open(), 0);
        for letter in &all {
            prop_assert!(assembler.count(NOW, letter).unwrap().indices.is_empty(), "late letters change nothing");
        }
        for index in 0..9 {
            let late = assembler.withdraw(NOW, &Withdrawal { source: Source::new(0, 0), index });
            prop_assert!(late.indices.is_empty(), "what is decided stays");
        }
    }

    #[test]
    fn a_forged_answer_counts_for_nothing(items in items(), which: u8, part in 0u8..4) {
        let all = approvals(0, &items);
        let mut forged = (*all[usize::from(which) % all.len()]).clone();
        match part {
            0 => forged.verdicts[0] ^= 24,
            1 => forged.participant.0 = (forged.participant.0 + 1) % 3,
            2 => forged.indices.iter_mut().for_each(|index| *index = 0),
            _ => forged.ids[0] = Hash::ZERO,
        }
        prop_assume!(part != 2 || forged.indices[0] != all[usize::from(which) % all.len()].indices[0]);
        let mut assembler = asked(0, &items, NOW.plus_ms(1000));
        prop_assert_eq!(
            assembler.count(NOW, &Arc::new(forged.clone())),
            Err(NotCounted::WrongSignature(forged.participant, forged.source))
        );
        forged.participant = ParticipantId(3);
        prop_assert_eq!(
            assembler.count(NOW, &Arc::new(forged)),
            Err(NotCounted::UnknownParticipant(ParticipantId(3)))
        );
        // Everybody's own answers count as if nothing had been forged.
        let mut decided = BTreeMap::new();
        all.iter().for_each(|letter| note(&mut decided, &assembler.count(NOW, letter).unwrap()));
        prop_assert_eq!(decided.len(), items.len());
    }

    /// One participant signs whatever it likes. Transactions that do not concern it have the outcome that they have without
    /// it, and those that do are never made against another's refusal, nor before another's answer.
    #[test]
    fn a_participant_that_lies_decides_nothing_of_others(
        items in items(), liar in 0u16..3, order in prop::collection::vec(any::<u8>(), 8), lies in prop::collection::vec(
            (0u8..7, any::<u8>(), any::<u16>()), 1..6),
    ) {
        let honest: Vec<_> =
            approvals(0, &items).into_iter().filter(|batch| batch.participant.0 != liar).collect();
        let mut assembler = asked(0, &items, NOW.plus_ms(1000));
        let mut decided = BTreeMap::new();
        let mut letters: Vec<Arc<ApprovalBatch>> = honest;
        for (kind, at, number) in lies {
            let len = u32::try_from(items.len()).unwrap();
            let index = u32::from(at) % len;
            let mut lie = ApprovalBatch {
                source: Source::new(0, 0),
                source_len: len,
                participant: ParticipantId(liar),
                indices: vec![index],
                ids: vec![transaction_id(index)],
                verdicts: vec![0],
                leaves: Vec::new(),
                signature: Signature::from_bytes([0; 64]),
            };
            match kind {
                // Yes to everything, whether asked or not.
                0 => {
                    lie.indices = (0..len).collect();
                    lie.ids = (0..len).map(transaction_id).collect();
                    lie.verdicts = vec![0; items.len()];
                }
                1 => lie.verdicts[0] = 24,
                // About a batch that does not exist.
                2 => lie.source.number = 1 + u64::from(number),
                3 => lie.source.scheduler = u64::from(number),
                4 => lie.source_len += u32::from(number) + 1,
                5 => lie.ids[0] = Hash::ZERO,
                // In another's name, with its own key.
                _ => lie.participant = ParticipantId((liar + 1) % 3),
            }
            let key = key(u8::try_from(liar).unwrap());
            ApprovalSigner::new(NETWORK).sign(&mut lie, &key);
            let place = usize::from(order[usize::from(at) % order.len()]) % (letters.len() + 1);
            letters.insert(place, Arc::new(lie));
        }
        for letter in &letters {
            if let Ok(batch) = assembler.count(NOW, letter) {
                note(&mut decided, &batch);
            }
        }
        let liar = usize::from(liar);
        for (index, item) in (0u32..).zip(&items) {
            let others: Vec<u16> = concerned(item).filter(|who| *who != liar).map(|who| item.1[who]).collect();
            let refusals = others.iter().copied().filter(|verdict| *verdict > 0);
            if concerned(item).any(|who| who == liar) {
                if decided.get(&index) == Some(&0) {
                    prop_assert_eq!(refusals.count(), 0, "made against another's refusal");
                }
            } else {
                prop_assert_eq!(decided.get(&index).copied(), Some(refusals.min().unwrap_or(0)));
            }
        }
        // Nothing waits for a batch that does not exist.
        prop_assert!(assembler.open() <= 1);
        assembler.expire(NOW.plus_ms(9000)).iter().for_each(|batch| note(&mut decided, batch));
        for (index, item) in (0u32..).zip(&items) {
            prop_assert!(decided.contains_key(&index), "transaction {} {:?} stays undecided", index, item);
        }
        prop_assert_eq!(assembler.open(), 0, "nothing is kept for who does not answer");
    }

    #[test]
    fn after_recovery_only_what_is_undecided_is_decided(items in items(), done in any::<[bool; 8]>()) {
        let mut assembler = Assembler::new(network(), [(0, 3)]);
        let len = u32::try_from(items.len()).unwrap();
        assembler.reopen(participation(3, &items, NOW.plus_ms(1000)), |index| done[index as usize]);
        let mut decided = BTreeMap::new();
        for letter in &approvals(3, &items) {
            note(&mut decided, &assembler.count(NOW, letter).unwrap());
        }
        let wanted: Vec<u32> = (0..len).filter(|index| !done[*index as usize]).collect();
        prop_assert_eq!(decided.into_keys().collect::<Vec<_>>(), wanted);
        prop_assert!(assembler.ask(participation(3, &items, NOW.plus_ms(1000))).indices.is_empty());
        for number in [2, 3] {
            for letter in &approvals(number, &items) {
                prop_assert!(assembler.count(NOW, letter).unwrap().indices.is_empty(), "it was decided before");
            }
        }
        prop_assert_eq!(assembler.open(), 0);
    }
}

const BOTH: [bool; 3] = [true, true, false];

/// An account that an institution opens has its number once it has answered, however late that comes.
#[test]
fn an_order_waits_for_its_institution_and_for_nothing_else() {
    let items = [([true, false, false], [0; 3]), ([true, false, false], [0; 3])];
    let mut participation = ParticipationBatch::clone(&participation(0, &items, NOW.plus_ms(1000)));
    participation.expiries[1] = NEVER;
    let mut assembler = Assembler::new(network(), []);
    assembler.ask(Arc::new(participation));
    let expired = assembler.expire(Timestamp(u64::MAX));
    assert_eq!(expired.iter().map(|batch| &batch.indices[..]).collect::<Vec<_>>(), [&[0][..]]);
    let answered = assembler.count(NOW, &approvals(0, &items)[0]).unwrap();
    assert_eq!((answered.indices, answered.verdicts, assembler.open()), (vec![1], vec![0], 0));
}

#[test]
fn participants_who_saw_different_transactions_do_not_agree() {
    let items = [(BOTH, [0, 0, 0])];
    let all = approvals(0, &items);
    let mut other = (*all[1]).clone();
    other.ids[0] = Hash::ZERO;
    sign(&mut other);
    let mut assembler = asked(0, &items, NOW.plus_ms(1000));
    assert!(assembler.count(NOW, &all[0]).unwrap().indices.is_empty());
    let decided = assembler.count(NOW, &Arc::new(other)).unwrap();
    assert_eq!(decided.verdicts, [Refusal::ApprovalConflict.number()]);
    assert_eq!(decided.ids, [transaction_id(0)]);
}

#[test]
fn a_participant_that_gives_two_answers_leaves_evidence_and_the_first_counts() {
    let items = [(BOTH, [0, 0, 0])];
    let all = approvals(0, &items);
    let mut other = (*all[1]).clone();
    other.verdicts[0] = Refusal::InsufficientFunds.number();
    sign(&mut other);
    let other = Arc::new(other);
    let mut assembler = asked(0, &items, NOW.plus_ms(1000));
    assert!(assembler.count(NOW, &all[1]).unwrap().indices.is_empty());
    let (first, second) = (Arc::clone(&all[1]), Arc::clone(&other));
    assert_eq!(assembler.count(NOW, &other), Err(NotCounted::Contradiction { index: 0, first, second }));
    assert!(assembler.count(NOW, &all[1]).unwrap().indices.is_empty(), "the same again is no contradiction");
    assert_eq!(assembler.count(NOW, &all[0]).unwrap().verdicts, [0]);
}

#[test]
fn withdrawals_of_batches_that_never_come_make_room_for_others() {
    let mut assembler = Assembler::new(network(), []);
    let items = [(BOTH, [0, 0, 0])];
    for number in 0..70_000 {
        assembler.withdraw(NOW, &Withdrawal { source: Source::new(9, number), index: 0 });
    }
    assembler.withdraw(NOW, &Withdrawal { source: Source::new(9, 70_000), index: 0 });
    let mut first = (*participation(0, &items, NOW)).clone();
    first.source.scheduler = 9;
    assert!(assembler.ask(Arc::new(first)).verdicts.is_empty(), "the earliest made room");
    let mut known = (*participation(70_000, &items, NOW)).clone();
    known.source.scheduler = 9;
    assert_eq!(assembler.ask(Arc::new(known)).verdicts, [Refusal::Withdrawn.number()]);
}

#[test]
fn answers_to_a_batch_of_another_length_count_for_nothing() {
    let items = [(BOTH, [0, 0, 0])];
    let all = approvals(0, &items);
    let mut longer = (*all[1]).clone();
    longer.source_len = 2;
    longer.indices = vec![1];
    sign(&mut longer);
    let mut assembler = asked(0, &items, NOW.plus_ms(1000));
    let wrong = NotCounted::WrongLength(longer.participant, longer.source);
    assert_eq!(assembler.count(NOW, &Arc::new(longer.clone())), Err(wrong.clone()));
    longer.indices = vec![0];
    sign(&mut longer);
    assert_eq!(assembler.count(NOW, &Arc::new(longer)), Err(wrong));
}

#[test]
fn the_only_participant_asked_decides_no_other_transaction() {
    let items = [([true, false, false], [0, 0, 0]); 2];
    let mut other = (*approvals(0, &items)[0]).clone();
    other.ids[1] = Hash::ZERO;
    sign(&mut other);
    let mut assembler = asked(0, &items, NOW.plus_ms(1000));
    let decided = assembler.count(NOW, &Arc::new(other)).unwrap();
    assert_eq!(decided.ids, [transaction_id(0), transaction_id(1)]);
    assert_eq!(decided.verdicts, [0, Refusal::ApprovalConflict.number()]);
}

#[test]
fn transactions_of_one_batch_expire_each_at_its_time() {
    let mut two = (*participation(0, &[(BOTH, [0, 0, 0]); 2], NOW)).clone();
    two.expiries[1] = NOW.plus_ms(1000);
    let mut assembler = Assembler::new(network(), []);
    assembler.ask(Arc::new(two));
    let mut expired = |after| -> Vec<u32> {
        let all = assembler.expire(NOW.plus_ms(after));
        all.iter().flat_map(|batch| batch.indices.clone()).collect()
    };
    assert!(expired(2000).is_empty());
    assert_eq!(expired(2001), [0]);
    assert!(expired(3000).is_empty());
    assert_eq!(expired(3001), [1]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// Whatever the order of the answers and of the leaves under them: when a transaction is made, each of its participants
    /// has been shown the signature of each other one, and nobody is shown more than concerns it.
    #[test]
    fn institutions_are_shown_what_others_agreed_to(items in items(), first in 0usize..3, is_grouped: bool) {
        let mut all = approvals(0, &items);
        let len = all.len();
        all.rotate_left(first % len);
        let mut assembler = asked(0, &items, NOW.plus_ms(1000)).with_consents();
        let mut shown: Vec<(ParticipantId, ConsentBatch)> = Vec::new();
        for letter in &mut all {
            if is_grouped {
                let letter = Arc::make_mut(letter);
                let of = |index: &u32| concerned(&items[*index as usize]).map(|at| ParticipantId(at.try_into().unwrap()));
                let of: Vec<Vec<ParticipantId>> = letter.indices.iter().map(|index| of(index).collect()).collect();
                letter.group(&of.iter().map(Vec::as_slice).collect::<Vec<_>>());
                sign(letter);
            }
            let decisions = assembler.count(NOW, letter).unwrap();
            shown.extend(assembler.take_consents());
            for (index, verdict) in decisions.indices.iter().zip(&decisions.verdicts) {
                let others = |own| concerned(&items[*index as usize]).filter(move |other| *other != own);
                let missing = concerned(&items[*index as usize]).flat_map(|own| others(own).map(move |other| (own, other)));
                let mut missing = missing.filter(|(own, other)| !shown.iter().any(|(to, consents)| {
                    to.index() == *own && consents.participant.index() == *other && consents.indices.contains(index)
                }));
                prop_assert!(*verdict != 0 || missing.next().is_none());
            }
        }
        for (to, consents) in &shown {
            let own = consents.participant;
            prop_assert_ne!(*to, own);
            for index in &consents.indices {
                let item = &items[*index as usize];
                prop_assert!(concerned(item).any(|who| who == to.index()) && item.1[own.index()] == 0);
            }
            let key = key(u8::try_from(own.0).unwrap()).public_key();
            let id = |index| Some(transaction_id(index));
            prop_assert!(consents.verifies(&NETWORK, &key, id));
            prop_assert!(!consents.verifies(&NetworkId([1; 32]), &key, id));
            prop_assert!(!consents.verifies(&NETWORK, &key, |index| Some(transaction_id(index + 1))));
            prop_assert!(!consents.verifies(&NETWORK, &key, |_| None));
            let other = crate::stage::tests::key(7).public_key();
            prop_assert!(!consents.verifies(&NETWORK, &other, id));
            let longer = ConsentBatch { source_len: consents.source_len + 1, ..consents.clone() };
            prop_assert!(!longer.verifies(&NETWORK, &key, id));
        }
    }
}

#[test]
fn what_was_shown_or_decided_before_is_not_shown_again() {
    let items = [([true, true, false], [0, 0, 0]), ([true, true, false], [20, 0, 0])];
    let all = approvals(0, &items);
    let mut assembler = asked(0, &items, NOW.plus_ms(1000)).with_consents();
    assembler.count(NOW, &all[0]).unwrap();
    let shown = assembler.take_consents();
    assert_eq!((shown.len(), shown[0].0, &shown[0].1.indices[..]), (1, ParticipantId(1), &[0][..]));
    assembler.count(NOW, &all[0]).unwrap();
    assert!(assembler.take_consents().is_empty(), "it is the same answer");
    assembler.withdraw(NOW, &Withdrawal { source: Source::new(0, 0), index: 1 });
    assembler.count(NOW, &all[1]).unwrap();
    let shown = assembler.take_consents();
    assert_eq!((shown.len(), shown[0].0, &shown[0].1.indices[..]), (1, ParticipantId(0), &[0][..]));
}
