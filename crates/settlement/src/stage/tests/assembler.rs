use super::*;
use crate::message::{ApprovalBatch, ApprovalSigner, DecisionBatch, Withdrawal};
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

/// Everybody's answers to one accepted batch.
fn approvals(number: u64, items: &[Item], expiry: Timestamp) -> Vec<ApprovalBatch> {
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
            participants: mine
                .iter()
                .map(|(_, item)| u8::try_from(concerned(item).count()).unwrap())
                .collect(),
            expiries: vec![expiry; mine.len()],
            signature: Signature::from_bytes([0; 64]),
        };
        ApprovalSigner::default().sign(&mut batch, &key(u8::try_from(participant).unwrap()));
        all.push(batch);
    }
    all
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
        let all = approvals(0, &items, NOW.plus_ms(1000));
        let mut assembler = Assembler::new(network(), []);
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
        let all = approvals(0, &items, expiry);
        let mut assembler = Assembler::new(network(), []);
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
            let answers = concerned(item).filter(|participant| answered[*participant]).count();
            let wanted = match before.get(&index) {
                Some(verdict) => Some(*verdict),
                None if answers > 0 => Some(Refusal::ApprovalTimeout.number()),
                // Nobody has told the assembler of it yet.
                None => None,
            };
            prop_assert_eq!(decided.get(&index).copied(), wanted);
        }
        for letter in &all {
            note(&mut decided, &assembler.count(NOW.plus_ms(9000), letter).unwrap());
        }
        // Who answers last finds the rest expired as well.
        assembler.expire(NOW.plus_ms(9001)).iter().for_each(|batch| note(&mut decided, batch));
        prop_assert_eq!(decided.len(), items.len());
        prop_assert_eq!(assembler.open(), 0);
    }

    #[test]
    fn what_is_withdrawn_in_time_is_refused_once_and_nothing_else_is(
        items in items(), letters in prop::collection::vec(any::<u8>(), 0..12), asked in prop::collection::vec((0u8..12, 0u8..10), 0..6),
    ) {
        let all = approvals(0, &items, NOW.plus_ms(1000));
        let mut assembler = Assembler::new(network(), []);
        let mut decided = BTreeMap::new();
        let mut told: Vec<Vec<usize>> = vec![Vec::new(); items.len()];
        let mut withdrawn = BTreeMap::new();
        let some = letters.iter().map(|letter| usize::from(*letter) % all.len()).chain(0..all.len());
        for (step, at) in some.enumerate() {
            for (when, index) in &asked {
                // One of them is of no transaction.
                let index = u32::from(*index) % (u32::try_from(items.len()).unwrap() + 1);
                if usize::from(*when) == step {
                    let batch = assembler.withdraw(NOW, &Withdrawal { source: Source::new(0, 0), index });
                    let item = items.get(index as usize);
                    let answers = item.map_or(0, |_| told[index as usize].len());
                    let open = item.is_some() && !decided.contains_key(&index);
                    prop_assert_eq!(!batch.indices.is_empty(), open && answers > 0, "at once where anybody has answered");
                    note(&mut decided, &batch);
                    if open {
                        withdrawn.entry(index).or_insert(answers);
                    }
                }
            }
            for (index, item) in items.iter().enumerate() {
                let from = all[at].participant.index();
                if concerned(item).any(|who| who == from) && !told[index].contains(&from) {
                    told[index].push(from);
                }
            }
            note(&mut decided, &assembler.count(NOW, &all[at]).unwrap());
        }
        for (index, item) in (0u32..).zip(&items) {
            let refusals = concerned(item).map(|participant| item.1[participant]).filter(|verdict| *verdict > 0);
            let alone = concerned(item).count() == 1;
            let wanted = match withdrawn.get(&index) {
                // What one answer decides is decided by it.
                Some(_) if !alone => Refusal::Withdrawn.number(),
                _ => refusals.min().unwrap_or(0),
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
    fn a_forged_answer_counts_for_nothing(items in items(), which: u8, part in 0u8..6) {
        let all = approvals(0, &items, NOW.plus_ms(1000));
        let mut forged = all[usize::from(which) % all.len()].clone();
        match part {
            0 => forged.verdicts[0] ^= 24,
            1 => forged.participants[0] = 1 + forged.participants[0] % 3,
            2 => forged.expiries[0] = forged.expiries[0].plus_ms(1),
            3 => forged.participant.0 = (forged.participant.0 + 1) % 3,
            4 => forged.source.number = 1,
            _ => forged.ids[0] = Hash::ZERO,
        }
        let mut assembler = Assembler::new(network(), []);
        prop_assert_eq!(
            assembler.count(NOW, &forged),
            Err(NotCounted::WrongSignature(forged.participant, forged.source))
        );
        forged.participant = ParticipantId(3);
        prop_assert_eq!(assembler.count(NOW, &forged), Err(NotCounted::UnknownParticipant(ParticipantId(3))));
        prop_assert_eq!(assembler.open(), 0);
    }

    #[test]
    fn after_recovery_only_what_is_undecided_is_decided(items in items(), done in any::<[bool; 8]>()) {
        let mut assembler = Assembler::new(network(), [(0, 5)]);
        let len = u32::try_from(items.len()).unwrap();
        assembler.reopen(Source::new(0, 3), len, |index| done[index as usize]);
        let mut decided = BTreeMap::new();
        for letter in &approvals(3, &items, NOW.plus_ms(1000)) {
            note(&mut decided, &assembler.count(NOW, letter).unwrap());
        }
        let wanted: Vec<u32> = (0..len).filter(|index| !done[*index as usize]).collect();
        prop_assert_eq!(decided.into_keys().collect::<Vec<_>>(), wanted);
        for letter in &approvals(4, &items, NOW.plus_ms(1000)) {
            prop_assert!(assembler.count(NOW, letter).unwrap().indices.is_empty(), "batch 4 was decided before");
        }
    }
}

#[test]
fn participants_who_saw_different_transactions_do_not_agree() {
    let items = [([true, true, false], [0, 0, 0])];
    let all = approvals(0, &items, NOW.plus_ms(1000));
    let mut other = all[1].clone();
    other.ids[0] = Hash::ZERO;
    ApprovalSigner::default().sign(&mut other, &key(1));
    let mut assembler = Assembler::new(network(), []);
    assert!(assembler.count(NOW, &all[0]).unwrap().indices.is_empty());
    let decided = assembler.count(NOW, &other).unwrap();
    assert_eq!(decided.verdicts, [Refusal::ApprovalConflict.number()]);
}
