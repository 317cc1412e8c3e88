use super::*;
use crate::message::{ApprovalBatch, ApprovalSigner, ConsentBatch};
use crate::stage::agreements::ProposalHasher;
use crate::stage::{Agreements, Assembler};

/// What `participant` agrees to of a batch, all but what it `refuses`, as the assembler shows it to `to`.
fn consents(
    transactions: &[Transaction],
    participant: ParticipantId,
    to: ParticipantId,
    refuses: &[u32],
) -> Vec<Arc<ConsentBatch>> {
    let mut scheduler = Scheduler::new(network(), 0, 0, 10, [1, 2]);
    let asked = scheduler.propose_again(Source::new(0, 0), &batch(transactions), |_| true);
    let mut assembler = Assembler::new(network(), []).with_consents();
    assembler.ask(Arc::new(asked.participation.unwrap()));
    let own = asked.proposals.iter().find(|proposals| proposals.participant == participant).unwrap();
    let verdict = |index: &u32| if refuses.contains(index) { 24 } else { 0 };
    let mut answers = ApprovalBatch {
        source: own.source,
        source_len: own.source_len,
        participant,
        indices: own.indices.clone(),
        ids: ProposalHasher::new(&NETWORK).ids(own),
        verdicts: own.indices.iter().map(verdict).collect(),
        leaves: Vec::new(),
        signature: Signature::from_bytes([0; 64]),
    };
    answers.group(&own.iter().map(|proposal| proposal.participants).collect::<Vec<_>>());
    ApprovalSigner::new(NETWORK).sign(&mut answers, &key(u8::try_from(participant.0).unwrap()));
    assembler.count(NOW, &Arc::new(answers)).unwrap();
    let shown = assembler.take_consents().into_iter();
    shown.filter(|(shown, _)| *shown == to).map(|(_, consents)| Arc::new(consents)).collect()
}

/// Two payments from A to B, one within B, one from B to A.
fn payments() -> Vec<Transaction> {
    let pay = |uetr, from, to| payment(uetr, from, to, 5);
    vec![
        pay(1, id(A, 0), id(B, 0)),
        pay(2, id(B, 0), id(B, 1)),
        pay(3, id(A, 1), id(B, 0)),
        pay(4, id(B, 1), id(A, 0)),
    ]
}

const MADE: [(u32, u16); 4] = [(0, 0), (1, 0), (2, 0), (3, 0)];

#[test]
fn all_others_have_to_agree_to_what_is_made_and_to_nothing_else() {
    let sent = payments();
    for of in [CENTRAL, A, B] {
        let mut agreements = Agreements::new(network(), of);
        let source = Source::new(0, 0);
        let made = decided(0, source, &MADE);
        let others: Vec<_> = [CENTRAL, A, B].into_iter().filter(|other| *other != of).collect();
        // Some of it is shown before the proposals.
        consents(&sent, others[0], of, &[]).iter().for_each(|shown| agreements.show(shown));
        agreements.propose(&proposals(0, of, &sent));
        assert_eq!(agreements.lacks(&made), Some((0, others[1])));
        assert_eq!(agreements.lacks(&decided(0, source, &[(1, 0)])), None, "it concerns B alone");
        assert_eq!(agreements.lacks(&decided(0, source, &[(0, 24), (2, 24)])), None, "nothing is made");
        consents(&sent, others[1], of, &[2, 3]).iter().for_each(|shown| agreements.show(shown));
        assert_eq!(agreements.lacks(&made), Some((2, others[1])));
        assert_eq!(agreements.lacks(&decided(0, source, &[(0, 0), (1, 0), (2, 24)])), None);
        // The rest comes later, and some of it again.
        consents(&sent, others[1], of, &[0]).iter().for_each(|shown| agreements.show(shown));
        consents(&sent, others[1], of, &[]).iter().for_each(|shown| agreements.show(shown));
        assert_eq!(agreements.lacks(&made), None);
        agreements.forget(source);
        assert!(agreements.is_empty());
    }
}

#[test]
fn what_was_not_signed_for_this_is_no_consent() {
    let sent = payments();
    let honest = consents(&sent, A, CENTRAL, &[]).swap_remove(0);
    let others = {
        let mut others = payments();
        others[2] = payment(3, id(A, 1), id(B, 0), 6);
        consents(&others, A, CENTRAL, &[]).swap_remove(0)
    };
    let changed = |change: &dyn Fn(&mut ConsentBatch)| {
        let mut changed = (*honest).clone();
        change(&mut changed);
        Arc::new(changed)
    };
    let lies = [
        others,
        changed(&|consents| consents.participant = B),
        changed(&|consents| consents.participant = ParticipantId(9)),
        changed(&|consents| consents.participant = CENTRAL),
        changed(&|consents| consents.source_len += 1),
        changed(&|consents| consents.source.number += 1),
        changed(&|consents| consents.indices.swap(0, 1)),
        changed(&|consents| consents.indices[0] = 1),
        changed(&|consents| consents.beside.push(Hash::ZERO)),
        changed(&|consents| consents.answers += 1),
        changed(&|consents| consents.signature = Signature::from_bytes([1; 64])),
    ];
    for (at, lie) in lies.iter().enumerate() {
        let mut agreements = Agreements::new(network(), CENTRAL);
        agreements.propose(&proposals(0, CENTRAL, &sent));
        consents(&sent, B, CENTRAL, &[]).iter().for_each(|shown| agreements.show(shown));
        agreements.show(lie);
        let made = decided(0, Source::new(0, 0), &MADE);
        assert_eq!(agreements.lacks(&made), Some((0, A)), "lie {at}");
        agreements.show(&honest);
        assert_eq!(agreements.lacks(&made), None, "lie {at}");
    }
}

/// A scheduler that lies may name whomever it likes as participants.
#[test]
fn proposals_that_name_the_wrong_participants_stop_nobody() {
    let sent = payments();
    let source = Source::new(0, 0);
    for named in [[CENTRAL, CENTRAL, CENTRAL], [A, A, A], [ParticipantId(7), A, B], [A, B, B]] {
        let mut asked = (*proposals(0, CENTRAL, &sent)).clone();
        asked.participants[..3].copy_from_slice(&named);
        let mut agreements = Agreements::new(network(), CENTRAL);
        agreements.propose(&Arc::new(asked));
        for other in [A, B] {
            consents(&sent, other, CENTRAL, &[]).iter().for_each(|shown| agreements.show(shown));
        }
        let lacks = agreements.lacks(&decided(0, source, &[(0, 0)]));
        // Who is alone needs nobody; its own approver refuses such a proposal.
        assert_eq!(lacks.is_none(), named == [CENTRAL; 3], "{named:?}: {lacks:?}");
    }
}

#[test]
fn what_is_shown_again_counts_once() {
    let sent = payments();
    let mut agreements = Agreements::new(network(), CENTRAL);
    agreements.propose(&proposals(0, CENTRAL, &sent));
    for _ in 0..3 {
        consents(&sent, A, CENTRAL, &[]).iter().for_each(|shown| agreements.show(shown));
    }
    assert_eq!(agreements.lacks(&decided(0, Source::new(0, 0), &MADE)), Some((0, B)));
}

/// Stages pass over what names another participant; so must who counts the consents to what they hold.
#[test]
fn anothers_proposals_are_not_its_own() {
    let sent = payments();
    let made = decided(0, Source::new(0, 0), &MADE);
    let own = proposals(0, CENTRAL, &sent);
    let mut elsewhere = (*own).clone();
    elsewhere.indices = vec![9, 10, 11];
    let alone = ProposalBatch { participants: vec![CENTRAL; own.participants.len()], ..(*own).clone() };
    for junk in [elsewhere, alone, (*proposals(0, B, &sent)).clone()] {
        let mut agreements = Agreements::new(network(), CENTRAL);
        consents(&sent, A, CENTRAL, &[]).iter().for_each(|shown| agreements.show(shown));
        agreements.propose(&Arc::new(ProposalBatch { participant: B, ..junk }));
        agreements.propose(&own);
        assert_eq!(agreements.lacks(&made), Some((0, B)));
    }
}
