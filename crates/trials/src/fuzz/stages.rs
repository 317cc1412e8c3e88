//! The cores that keep state, fed with batches that decode.

use super::damage::damaged;
use super::small::Small;
use crate::simulation::plan::keys;
use std::collections::HashSet;
use std::sync::Arc;
use tally_crypto::Signature;
use tally_ledger::wire::Reader;
use tally_ledger::{ParticipantId, TransactionBatch};
use tally_settlement::message::{
    ApprovalBatch, ApprovalSigner, ConsentBatch, Intake, Message, ParticipationBatch, ProposalBatch,
    SequenceBatch,
};
use tally_settlement::stage::{Agreements, Approver, Assembler, Scheduler};
use tally_sim::Rng;

fn again<M: Message + PartialEq + std::fmt::Debug>(message: &M) {
    let mut bytes = Vec::new();
    message.encode(&mut bytes);
    assert_eq!(M::decode(&bytes).as_ref(), Ok(message), "what a stage sends can be read");
}

pub(super) fn scheduler(rng: &mut Rng, small: &Small) {
    let mut scheduler = Scheduler::new(Arc::clone(&small.network), 1, 0, 1 << 10, [1, 2]);
    for _ in 0..rng.between(1, 3) {
        let bytes = damaged(rng, &small.batches);
        let Ok(batch) = TransactionBatch::decode(&mut Reader::new("transactions", &bytes)) else { continue };
        let count = batch.len();
        let scheduled = scheduler.step(small.now, batch);
        assert_eq!(scheduled.results.len(), count, "an answer for each");
        let accepted = scheduled.results.iter().filter(|result| matches!(result, Intake::Accepted(_)));
        let accepted = accepted.count();
        assert_eq!(accepted, scheduled.accepted.as_ref().map_or(0, |(_, accepted)| accepted.batch.len()));
        if let Some((_, accepted)) = &scheduled.accepted {
            again(accepted);
        }
        scheduled.asked.participation.iter().for_each(again);
        // Whether this process has verified the signatures is no part of what it sends.
        let sent = scheduled.asked.proposals.into_iter();
        sent.map(|proposals| ProposalBatch { verified: None, ..proposals }).for_each(|sent| again(&sent));
    }
}

pub(super) fn approver(rng: &mut Rng, small: &Small) {
    let chosen = rng.index(small.accounts.len());
    let accounts = small.accounts[chosen].clone();
    let floors = accounts.clone();
    let mut approver =
        Approver::new(Arc::clone(&small.network), keys()[chosen].clone(), accounts, std::iter::empty());
    let mut sequence = 0;
    for _ in 0..rng.between(1, 4) {
        let bytes = damaged(rng, &small.proposals);
        let Ok(mut proposals) = ProposalBatch::decode(&bytes) else { continue };
        let has_orders = !proposals.orders.is_empty();
        if rng.chance(1, 2) {
            proposals.participant = small.accounts[chosen].participant();
        }
        if let Some(approval) = approver.propose(small.now, Arc::new(proposals)) {
            again(&approval);
            for (number, account) in approver.accounts().iter() {
                let floor = floors.floor(number, account).0.min(approver.accounts().floor(number, account).0);
                let before = floors.get(number).map_or(0, |account| account.balance);
                assert!(account.balance >= floor.min(before), "more was approved than there is");
            }
            if rng.chance(1, 2) {
                // Orders concern one participant only, whose yes is never overruled.
                let overruled = !has_orders && rng.chance(1, 2);
                let verdict = |verdict: &u16| if overruled && *verdict == 0 { 40 } else { *verdict };
                let verdicts: Vec<u16> = approval.verdicts.iter().map(verdict).collect();
                let runs = SequenceBatch::runs_of(&approval.indices, &verdicts);
                let count = u32::try_from(approval.indices.len()).expect("batches are bounded");
                let decided = approver.decide(&SequenceBatch {
                    first: sequence,
                    count,
                    source: approval.source,
                    timestamp: small.now,
                    runs,
                    root: tally_crypto::Hash::ZERO,
                    tree_root: [0; 32],
                    tree_size: 0,
                    signature: Signature::from_bytes([0; 64]),
                });
                decided.expect("it decides what was answered, once");
                sequence += u64::from(count);
            }
        }
    }
}

pub(super) fn assembler(rng: &mut Rng, small: &Small) {
    let mut assembler = Assembler::new(Arc::clone(&small.network), []);
    let mut decided = HashSet::new();
    for asked in &small.participations {
        if rng.chance(7, 8) {
            let asked = ParticipationBatch::decode(asked).expect("the scheduler wrote it");
            assembler.ask(Arc::new(asked));
        }
    }
    for _ in 0..rng.between(1, 12) {
        let bytes = damaged(rng, &small.approvals);
        let Ok(mut approval) = ApprovalBatch::decode(&bytes) else { continue };
        if let Some(key) = keys().get(approval.participant.index()).filter(|_| rng.chance(3, 4)) {
            ApprovalSigner::new(small.network.id).sign(&mut approval, key);
        }
        let mut all = assembler.expire(small.now.plus_ms(rng.below(100_000)));
        all.extend(assembler.count(small.now, &Arc::new(approval)));
        for batch in &all {
            again(batch);
            assert_eq!(batch.indices.len(), batch.ids.len());
            for index in &batch.indices {
                assert!(decided.insert((batch.source, *index)), "decided twice");
            }
        }
    }
}

/// What nobody signed is no consent, and nothing that is shown stops who reads it.
pub(super) fn agreements(rng: &mut Rng, small: &Small) {
    let participants = small.network.participants.len();
    let of = ParticipantId(u16::try_from(rng.index(participants)).expect("few"));
    let mut agreements = Agreements::new(Arc::clone(&small.network), of);
    let mut proposed = Vec::new();
    for _ in 0..rng.between(1, 12) {
        if rng.chance(1, 2) {
            let bytes = damaged(rng, &small.consents);
            let Ok(consents) = ConsentBatch::decode(&bytes) else { continue };
            agreements.show(&Arc::new(consents));
        } else {
            let bytes = damaged(rng, &small.proposals);
            let Ok(proposals) = ProposalBatch::decode(&bytes) else { continue };
            agreements.propose(&Arc::new(proposals.clone()));
            proposed.push(proposals);
        }
    }
    for proposals in &proposed {
        let made = vec![0; proposals.len()];
        let runs = SequenceBatch::runs_of(&proposals.indices, &made);
        let lacks = agreements.lacks(&SequenceBatch {
            first: 0,
            count: u32::try_from(made.len()).expect("batches are bounded"),
            source: proposals.source,
            timestamp: small.now,
            runs,
            root: tally_crypto::Hash::ZERO,
            tree_root: [0; 32],
            tree_size: 0,
            signature: Signature::from_bytes([0; 64]),
        });
        if let Some((_, missing)) = lacks {
            assert_ne!(missing, of, "it does not wait for itself");
        }
        agreements.forget(proposals.source);
    }
}
