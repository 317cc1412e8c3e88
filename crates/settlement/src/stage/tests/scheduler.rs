use super::*;
use crate::message::Intake;
use crate::message::participation::NEVER;
use proptest::prelude::*;
use std::collections::{BTreeSet, HashMap};
use tally_ledger::transaction::{leg_hash, transaction_id};
use tally_ledger::{IdKey, NetworkTag, Refusal};

/// What a client may send: which reference, which form, how long it is valid.
type Sent = (u64, u8, u64);

fn transaction((uetr, form, validity): Sent, now: u64) -> (Transaction, Option<Refusal>) {
    let (from, to) = (id(A, 0), if form % 2 == 0 { id(A, 1) } else { id(B, 1) });
    let legs = crate::path::payment(&network(), from, to, EUR, Amount(10));
    let mut transaction = Transaction::new(Kind::Transfer, &terms(uetr, Timestamp(now + validity)), legs);
    let wrong = match form / 2 {
        0 => {
            transaction.legs[0].amount = Amount(-11);
            Some(Refusal::Unbalanced)
        }
        1 => {
            transaction.header.network = NetworkTag(6);
            Some(Refusal::WrongNetwork)
        }
        2 => {
            transaction.sign(&NETWORK, &key(3));
            transaction.seed[9] ^= 1;
            Some(Refusal::WrongSignature)
        }
        _ => None,
    };
    (transaction, wrong)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn each_reference_is_accepted_once_while_it_is_remembered(
        batches in prop::collection::vec(
            (prop::collection::vec((0u64..30, 0u8..16, 0u64..120_000), 1..20), 0u64..40_000), 1..20),
    ) {
        let network = network();
        let mut scheduler = Scheduler::new(Arc::clone(&network), 4, 0, 1 << 20, [1, 2]);
        // By reference: where it was used, and until when it is remembered, in whole seconds.
        let mut used: HashMap<Uetr, (Source, u32, u64)> = HashMap::new();
        let (mut now, mut number) = (NOW.0, 0);
        for (sent, wait) in batches {
            now += wait;
            let sent: Vec<_> = sent.into_iter().map(|sent| transaction(sent, now)).collect();
            let all: Vec<_> = sent.iter().map(|(transaction, _)| transaction.clone()).collect();
            let scheduled = scheduler.step(Timestamp(now), batch(&all));
            let mut next = 0;
            for ((transaction, wrong), result) in sent.iter().zip(&scheduled.results) {
                let header = &transaction.header;
                let known = used.get(&header.uetr).filter(|(_, _, until)| *until >= now / 1000);
                let late = if header.expiry.0 <= now {
                    Some(Refusal::Expired)
                } else if header.expiry.0 > now + network.longest_validity_ms {
                    Some(Refusal::ExpiryTooFar)
                } else {
                    None
                };
                let wanted = match (wrong, late, known) {
                    // The signature of what is known already is not looked at.
                    (Some(Refusal::WrongSignature) | None, None, Some((source, index, _)))
                        if source.number < number =>
                    {
                        Intake::Duplicate(*source, *index)
                    }
                    (Some(Refusal::WrongSignature), None, _) => Intake::Refused(Refusal::WrongSignature),
                    (None | Some(Refusal::WrongSignature), Some(late), _) => Intake::Refused(late),
                    (Some(wrong), ..) => Intake::Refused(*wrong),
                    (None, None, Some((source, index, _))) => Intake::Duplicate(*source, *index),
                    (None, None, None) => {
                        let until = header.expiry.0.div_ceil(1000);
                        used.insert(header.uetr, (Source::new(4, number), next, until));
                        next += 1;
                        Intake::Accepted(next - 1)
                    }
                };
                prop_assert_eq!(*result, wanted, "{:?} {:?}", wrong, header);
            }
            let accepted = scheduled.accepted.map(|(source, accepted)| {
                assert_eq!((source, accepted.accepted_at), (Source::new(4, number), Timestamp(now)));
                accepted.batch
            });
            prop_assert_eq!(accepted.as_ref().map_or(0, TransactionBatch::len), next as usize);
            number += u64::from(next > 0);
            for index in 0..next as usize {
                let transaction = accepted.as_ref().unwrap().transaction(index).unwrap();
                need_to_know(&scheduled.asked.proposals, u32::try_from(index).unwrap(), &transaction);
            }
        }
    }
}

/// Invariant 6: whoever is concerned sees its own legs and those on its own settlement accounts, of the
/// others their hashes; and can prove from them that they belong to the transaction.
fn need_to_know(all: &[ProposalBatch], index: u32, transaction: &Transaction) {
    let concerned: BTreeSet<_> = transaction.legs.iter().map(|leg| leg.participant).collect();
    let mut asked = BTreeSet::new();
    for proposals in all {
        let Some(item) = proposals.position(index) else { continue };
        assert!(asked.insert(proposals.participant), "asked once");
        let proposal = proposals.iter().nth(item).unwrap();
        let me = proposals.participant;
        let mine =
            |leg: &&Leg| leg.participant == me || leg.account == AccountNumber::settlement(leg.asset, me);
        let wanted: Vec<Leg> = transaction.legs.iter().filter(mine).copied().collect();
        assert_eq!(proposal.legs, wanted, "no more and no less than it needs to know");
        let mut hashes = Vec::new();
        let mut hidden = proposal.hidden.iter();
        let mut shown = (proposal.first_leg..).zip(proposal.positions);
        let mut next = shown.next();
        for position in 0..proposal.header.legs {
            match next {
                Some((at, of)) if *of == position => {
                    hashes.push(leg_hash(&proposals.salts[at], &proposals.legs[at], position));
                    next = shown.next();
                }
                _ => hashes.push(*hidden.next().unwrap()),
            }
        }
        let of_network = IdKey::new(&NETWORK);
        let id = transaction_id(&of_network, proposal.header, proposal.participants, &hashes);
        assert_eq!(id, transaction.id(&NETWORK));
    }
    assert_eq!(asked, concerned, "everybody concerned is asked");
}

#[test]
fn a_clock_that_goes_back_stands_still() {
    let mut scheduler = Scheduler::new(network(), 0, 0, 1 << 20, [1, 2]);
    let short = |uetr| {
        let legs = vec![own_leg(A, 0, -1), own_leg(A, 1, 1)];
        Transaction::new(Kind::Transfer, &terms(uetr, NOW.plus_ms(10)), legs)
    };
    assert_eq!(scheduler.step(NOW, batch(&[short(1)])).results, [Intake::Accepted(0)]);
    let late = scheduler.step(NOW.plus_ms(10), batch(&[short(2)])).results;
    assert_eq!(late, [Intake::Refused(Refusal::Expired)]);
    assert_eq!(scheduler.step(NOW, batch(&[short(3)])).results, [Intake::Refused(Refusal::Expired)]);
}

#[test]
fn what_an_earlier_process_accepted_is_known() {
    let mut earlier = Scheduler::new(network(), 0, 0, 1 << 20, [1, 2]);
    let sent = [payment(1, id(A, 0), id(A, 1), 5), payment(2, id(A, 0), id(B, 1), 5)];
    let (source, accepted) = earlier.step(NOW, batch(&sent)).accepted.unwrap();
    let mut later = Scheduler::new(network(), 0, 0, 1 << 20, [3, 4]);
    later.restore(source, &accepted);
    later.go_on(1, NOW);
    let results = later.step(Timestamp(0), batch(&sent)).results;
    assert_eq!(results, [Intake::Duplicate(source, 0), Intake::Duplicate(source, 1)]);
    let new = later.step(NOW, batch(&[payment(3, id(A, 0), id(A, 1), 5)]));
    assert_eq!(new.accepted.unwrap().0, Source::new(0, 1));
}

/// Two networks whose ids begin with the same four bytes: headers do not tell them apart, signatures do.
#[test]
fn what_is_signed_for_a_namesake_is_refused() {
    for byte in 4..32 {
        let mut namesake = NETWORK;
        namesake.0[byte] ^= 0x40;
        assert_eq!(namesake.tag(), NETWORK.tag());
        let mut signed = payment(1, id(A, 0), id(A, 1), 5);
        signed.sign(&namesake, &key(9));
        let mut scheduler = Scheduler::new(network(), 0, 0, 1 << 20, [1, 2]);
        let results = scheduler.step(NOW, batch(std::slice::from_ref(&signed))).results;
        assert_eq!(results, [Intake::Refused(Refusal::WrongSignature)]);
        signed.signers.clear();
        signed.sign(&NETWORK, &key(9));
        let results = scheduler.step(NOW, batch(&[signed])).results;
        assert_eq!(results, [Intake::Accepted(0)], "it was not remembered as refused");
    }
}

#[test]
fn a_count_of_participants_that_is_not_that_of_the_legs_is_malformed() {
    let mut scheduler = Scheduler::new(network(), 0, 0, 1 << 20, [1, 2]);
    let stated = |uetr, mut transaction: Transaction, participants| {
        transaction.header.uetr = terms(uetr, NOW).uetr;
        transaction.header.participants = participants;
        transaction.signers.clear();
        transaction.sign(&NETWORK, &key(1));
        transaction
    };
    let inside = || payment(1, id(A, 0), id(A, 1), 5);
    let between = || payment(1, id(A, 0), id(B, 1), 5);
    let ordered = || order(1, A, 0, AccountAction::Freeze);
    let wrong = [
        stated(1, inside(), 0),
        stated(2, inside(), 2),
        stated(3, between(), 2),
        stated(4, between(), 4),
        stated(5, ordered(), 0),
        stated(6, ordered(), 2),
    ];
    let results = scheduler.step(NOW, batch(&wrong)).results;
    assert!(results.iter().all(|result| *result == Intake::Refused(Refusal::Malformed)), "{results:?}");
    let right = [stated(7, inside(), 1), stated(8, between(), 3), stated(9, ordered(), 1)];
    let scheduled = scheduler.step(NOW, batch(&right));
    assert_eq!(scheduled.results, [Intake::Accepted(0), Intake::Accepted(1), Intake::Accepted(2)]);
    for proposals in &scheduled.asked.proposals {
        let of = |index| proposals.iter().find(|proposal| proposals.indices[proposal.item] == index);
        let listed = |index| of(index).map(|proposal| proposal.participants.to_vec());
        if let Some(listed) = listed(1) {
            assert_eq!(listed, [CENTRAL, A, B], "everybody concerned is told who else is");
        }
        assert!([listed(0), listed(2)].into_iter().flatten().all(|listed| listed == [A]));
    }
}

/// Nobody can use up another institution's reference, nor anybody's without authority.
#[test]
fn a_reference_belongs_to_the_institution_that_debits_and_is_used_by_what_was_authorised() {
    let mut scheduler = Scheduler::new(network(), 0, 0, 1 << 20, [1, 2]);
    let step = |scheduler: &mut Scheduler, sent| scheduler.step(NOW, batch(&[sent])).results[0];
    let (of_a, of_b) =
        (|amount| payment(1, id(A, 0), id(B, 0), amount), |amount| payment(1, id(B, 0), id(A, 0), amount));
    assert_eq!(step(&mut scheduler, of_b(5)), Intake::Accepted(0));
    assert_eq!(step(&mut scheduler, of_a(5)), Intake::Accepted(0), "B's use is not A's");
    let ordered = order(1, CENTRAL, 0, AccountAction::Freeze);
    assert_eq!(step(&mut scheduler, ordered), Intake::Accepted(0));
    assert_eq!(step(&mut scheduler, of_a(6)), Intake::Duplicate(Source::new(0, 1), 0));
    // Refused for want of funds it stays used; refused because nobody with authority signed it does not.
    let learn = |scheduler: &mut Scheduler, number, refusal: Refusal| {
        scheduler.learn(&decided(0, Source::new(0, number), &[(0, refusal.number())]));
    };
    learn(&mut scheduler, 0, Refusal::InsufficientFunds);
    assert_eq!(step(&mut scheduler, of_b(6)), Intake::Duplicate(Source::new(0, 0), 0));
    let mut foreign = decided(0, Source::new(7, 1), &[(0, Refusal::Unsigned.number())]);
    scheduler.learn(&foreign);
    assert_eq!(step(&mut scheduler, of_a(7)), Intake::Duplicate(Source::new(0, 1), 0), "another scheduler's");
    foreign.source.scheduler = 0;
    scheduler.learn(&foreign);
    assert_eq!(step(&mut scheduler, of_a(7)), Intake::Accepted(0));
    learn(&mut scheduler, 3, Refusal::WrongSignature);
    assert_eq!(step(&mut scheduler, of_a(8)), Intake::Accepted(0));
}

#[test]
fn forms_that_nobody_is_asked_about() {
    type Change = fn(&mut Transaction);
    let cases: [(Change, Refusal); 11] = [
        (|sent| sent.header.kind = 9, Refusal::Malformed),
        (|sent| sent.header.network = NetworkTag(6), Refusal::WrongNetwork),
        (|sent| sent.legs[0].amount = Amount(-9), Refusal::Unbalanced),
        (|sent| sent.header.participants = 2, Refusal::Malformed),
        (|sent| sent.header.participants = 4, Refusal::Malformed),
        (|sent| sent.header.expiry = NOW, Refusal::Expired),
        (|sent| sent.header.expiry = NOW.plus_ms(100_001), Refusal::ExpiryTooFar),
        (|sent| (0..17).for_each(|_| sent.sign(&NETWORK, &key(9))), Refusal::TooManySigners),
        (
            |sent| {
                let legs = (0..31).map(|n| own_leg(A, n, if n == 0 { -30 } else { 1 })).collect();
                *sent = Transaction::new(Kind::Transfer, &terms(1, NOW.plus_ms(5)), legs);
            },
            Refusal::TooManyLegs,
        ),
        (
            |sent| {
                *sent = order(1, A, 0, AccountAction::Freeze);
                sent.header.details = Hash::ZERO;
            },
            Refusal::Malformed,
        ),
        (
            |sent| {
                *sent = order(1, A, 0, AccountAction::Freeze);
                sent.signers.clear();
                sent.header.signers = 0;
            },
            Refusal::Unsigned,
        ),
    ];
    let mut scheduler = Scheduler::new(network(), 0, 0, 1 << 20, [1, 2]);
    for (at, (change, refusal)) in cases.into_iter().enumerate() {
        let mut sent = payment(1, id(A, 0), id(B, 1), 10);
        change(&mut sent);
        assert_eq!(scheduler.step(NOW, batch(&[sent])).results, [Intake::Refused(refusal)], "case {at}");
    }
    // Each limit is reached by what is accepted.
    let legs = (0..30).map(|n| own_leg(A, n, if n == 0 { -29 } else { 1 })).collect();
    let mut most = Transaction::new(Kind::Transfer, &terms(1, NOW.plus_ms(100_000)), legs);
    (0..16).for_each(|_| most.sign(&NETWORK, &key(9)));
    assert_eq!(scheduler.step(NOW, batch(&[most])).results, [Intake::Accepted(0)]);
}

#[test]
fn a_signature_that_does_not_verify_is_refused_whoever_else_signed() {
    let mut scheduler = Scheduler::new(network(), 0, 0, 1 << 20, [1, 2]);
    let mut sent = payment(1, id(A, 0), id(B, 1), 10);
    sent.sign(&NETWORK, &key(9));
    sent.sign(&NETWORK, &key(8));
    let mut forged = sent.clone();
    forged.signers[1].signature = forged.signers[0].signature;
    let results = scheduler.step(NOW, batch(&[forged, sent])).results;
    assert_eq!(results, [Intake::Refused(Refusal::WrongSignature), Intake::Accepted(0)]);
}

#[test]
fn the_assembler_is_told_the_id_the_expiry_and_everybody_concerned() {
    let mut scheduler = Scheduler::new(network(), 0, 0, 1 << 20, [1, 2]);
    let sent = [
        payment(1, id(A, 0), id(A, 1), 5),
        payment(2, id(B, 0), id(A, 1), 5),
        order(3, B, 0, AccountAction::Freeze),
    ];
    let asked = scheduler.step(NOW, batch(&sent)).asked;
    let participation = asked.participation.unwrap();
    assert_eq!(participation.ids, sent.each_ref().map(|transaction| transaction.id(&NETWORK)));
    let [first, second, _] = sent.each_ref().map(|transaction| transaction.header.expiry);
    assert_eq!(participation.expiries, [first, second, NEVER], "an order waits for its institution");
    assert_eq!(participation.counts, [1, 3, 1]);
    assert_eq!(participation.participants, [A, CENTRAL, A, B, B]);
    for proposals in &asked.proposals {
        for proposal in proposals.iter() {
            assert_eq!(proposal.participants, sent[proposals.indices[proposal.item] as usize].participants());
        }
    }
}

#[test]
fn a_decision_frees_its_own_reference_and_no_later_use_of_it() {
    let mut scheduler = Scheduler::new(network(), 0, 0, 1 << 20, [1, 2]);
    let valid = |ms: u64, amount: i64| {
        let legs = vec![own_leg(A, 0, -amount), own_leg(A, 1, amount)];
        Transaction::new(Kind::Transfer, &terms(1, NOW.plus_ms(ms)), legs)
    };
    assert_eq!(scheduler.step(NOW, batch(&[valid(10, 5)])).results, [Intake::Accepted(0)]);
    // The first has expired when its reference is used again, and is decided after that.
    let now = NOW.plus_ms(5_000);
    assert_eq!(scheduler.step(now, batch(&[valid(50_000, 6)])).results, [Intake::Accepted(0)]);
    scheduler.learn(&decided(0, Source::new(0, 0), &[(0, Refusal::Unsigned.number())]));
    let again = scheduler.step(now, batch(&[valid(50_000, 7)])).results;
    assert_eq!(again, [Intake::Duplicate(Source::new(0, 1), 0)]);
}

#[test]
fn what_an_earlier_process_accepted_is_freed_as_what_this_one_did() {
    let mut earlier = Scheduler::new(network(), 0, 0, 1 << 20, [1, 2]);
    let sent = [payment(1, id(A, 0), id(A, 1), 5), payment(2, id(A, 0), id(B, 1), 5)];
    let (source, accepted) = earlier.step(NOW, batch(&sent)).accepted.unwrap();
    let mut later = Scheduler::new(network(), 0, 0, 1 << 20, [3, 4]);
    later.restore(source, &accepted);
    later.go_on(1, NOW);
    later.learn(&decided(0, source, &[(1, Refusal::Unsigned.number())]));
    let results = later.step(NOW, batch(&sent)).results;
    assert_eq!(results, [Intake::Duplicate(source, 0), Intake::Accepted(0)]);
}

/// A process that starts reads what was accepted first and the decisions later: the one that freed a reference does not free
/// what the reference was used for after that.
#[test]
fn a_reference_that_was_freed_and_used_again_stays_used_after_a_crash() {
    let mut earlier = Scheduler::new(network(), 0, 0, 1 << 20, [1, 2]);
    let sent = [payment(1, id(A, 0), id(A, 1), 5)];
    let (first, refused) = earlier.step(NOW, batch(&sent)).accepted.unwrap();
    let freed = decided(0, first, &[(0, Refusal::WrongSignature.number())]);
    earlier.learn(&freed);
    let (second, accepted) = earlier.step(NOW, batch(&sent)).accepted.unwrap();
    assert_eq!(earlier.step(NOW, batch(&sent)).results, [Intake::Duplicate(second, 0)]);
    let mut later = Scheduler::new(network(), 0, 0, 1 << 20, [3, 4]);
    later.restore(first, &refused);
    later.restore(second, &accepted);
    later.go_on(2, NOW);
    later.learn(&freed);
    assert_eq!(later.step(NOW, batch(&sent)).results, [Intake::Duplicate(second, 0)]);
}

/// A gateway that hands one payment to two schedulers would have it made twice.
#[test]
fn a_scheduler_refuses_what_falls_to_another() {
    let first = payment(1, id(A, 0), id(B, 7), 10);
    let mut second = payment(2, id(A, 0), id(B, 7), 10);
    second.header.uetr.0[15] = 1;
    let sent = [first, second];
    for (instance, taken) in [(0, 0), (1, 1)] {
        let mut scheduler = Scheduler::new(network(), instance, 0, 1 << 10, [1, 2]).among(2);
        let results = scheduler.step(NOW, batch(&sent)).results;
        let mut wanted = [Intake::Refused(Refusal::Malformed); 2];
        wanted[taken] = Intake::Accepted(0);
        assert_eq!(results, wanted, "scheduler {instance}");
    }
}

/// Payments of 10 inside an institution, numbered from `first` on, valid for 50 seconds from `now`.
fn inside(participant: ParticipantId, first: u64, count: u64, now: Timestamp) -> TransactionBatch {
    let of = |uetr| {
        let legs = vec![own_leg(participant, 0, -10), own_leg(participant, 1, 10)];
        Transaction::new(Kind::Transfer, &terms(uetr, now.plus_ms(50_000)), legs)
    };
    batch(&(first..first + count).map(of).collect::<Vec<_>>())
}

fn accepted(results: &[Intake]) -> usize {
    let refused = |result: &&Intake| **result == Intake::Refused(Refusal::Overloaded);
    assert!(results.iter().all(|result| refused(&result) || matches!(result, Intake::Accepted(_))));
    results.len() - results.iter().filter(refused).count()
}

/// A limit heals without a restart, and no institution uses up another's part of it: also where each payment is refused for
/// want of funds, so that sending them costs nothing.
#[test]
fn a_scheduler_that_is_full_keeps_room_for_others_and_takes_all_again_once_references_expire() {
    let mut scheduler = Scheduler::new(network(), 0, 0, 60, [1, 2]);
    let mut now = NOW;
    for round in 0..3u64 {
        let first = round * 1000;
        let scheduled = scheduler.step(now, inside(A, first, 100, now));
        assert_eq!(accepted(&scheduled.results), 40, "half of all, and a third of the other half");
        let verdicts: Vec<_> = (0..40).map(|index| (index, Refusal::InsufficientFunds.number())).collect();
        let source = scheduled.accepted.unwrap().0;
        scheduler.learn(&decided(0, source, &verdicts));
        assert_eq!(accepted(&scheduler.step(now, inside(A, first + 200, 5, now)).results), 0);
        for other in [B, CENTRAL] {
            let results = scheduler.step(now, inside(other, first, 100, now)).results;
            assert_eq!(accepted(&results), 10, "what is reserved for {other:?}");
        }
        assert_eq!(scheduler.remembered(), 60);
        // What is known is told as such, however full the table is.
        let again = scheduler.step(now, inside(A, first, 1, now)).results;
        assert_eq!(again, [Intake::Duplicate(source, 0)]);
        let before_expiry = Timestamp(now.0 + 49_999);
        assert_eq!(accepted(&scheduler.step(before_expiry, inside(A, first + 300, 5, now)).results), 0);
        now = now.plus_ms(52_000);
    }
}

/// A place is free as soon as nobody with authority turns out to have signed.
#[test]
fn what_nobody_with_authority_signed_takes_no_place_once_it_is_decided() {
    let mut scheduler = Scheduler::new(network(), 0, 0, 6, [1, 2]);
    let scheduled = scheduler.step(NOW, inside(A, 0, 10, NOW));
    assert_eq!(accepted(&scheduled.results), 4);
    let unsigned = Refusal::Unsigned.number();
    let source = scheduled.accepted.unwrap().0;
    let record =
        decided(0, source, &[(0, unsigned), (1, Refusal::InsufficientFunds.number()), (2, unsigned)]);
    scheduler.learn(&record);
    scheduler.learn(&record);
    assert_eq!(scheduler.remembered(), 2);
    assert_eq!(accepted(&scheduler.step(NOW, inside(A, 100, 10, NOW)).results), 2);
}

/// Decisions that freed references are learnt after what used them later, and the limit may have been lowered: what was
/// accepted is known all the same, or it would be paid twice.
#[test]
fn what_an_earlier_process_accepted_is_known_also_beyond_the_limit() {
    let mut earlier = Scheduler::new(network(), 0, 0, 1 << 10, [1, 2]);
    let (source, all) = earlier.step(NOW, inside(A, 0, 20, NOW)).accepted.unwrap();
    let mut later = Scheduler::new(network(), 0, 0, 6, [3, 4]);
    later.restore(source, &all);
    later.go_on(1, NOW);
    let known: Vec<_> = (0..20).map(|index| Intake::Duplicate(source, index)).collect();
    assert_eq!(later.step(NOW, inside(A, 0, 20, NOW)).results, known);
    assert_eq!(later.remembered(), 20);
    assert_eq!(accepted(&later.step(NOW, inside(A, 100, 3, NOW)).results), 0);
    assert_eq!(accepted(&later.step(NOW, inside(B, 100, 3, NOW)).results), 1, "its own part is left");
    let later_on = NOW.plus_ms(52_000);
    assert_eq!(accepted(&later.step(later_on, inside(A, 200, 10, later_on)).results), 4);
}
