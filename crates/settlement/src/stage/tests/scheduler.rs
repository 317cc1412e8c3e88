use super::*;
use crate::message::Intake;
use proptest::prelude::*;
use std::collections::{BTreeSet, HashMap};
use tally_ledger::Refusal;
use tally_ledger::transaction::{leg_hash, transaction_id};

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
            transaction.header.network = NetworkId(6);
            Some(Refusal::WrongNetwork)
        }
        2 => {
            transaction.sign(&key(3));
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
                need_to_know(&scheduled.proposals, u32::try_from(index).unwrap(), &transaction);
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
        assert_eq!(transaction_id(proposal.header, &hashes), transaction.id());
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
