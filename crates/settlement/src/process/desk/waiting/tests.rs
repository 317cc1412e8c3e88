use super::*;
use crate::engine::answer::Mailbox;
use tally_crypto::{Hash, Signature};
use tally_ledger::Timestamp;
use tally_log::Ticket;

fn decided(first: u64, source: Source, indices: &[u32]) -> Arc<SequenceBatch> {
    Arc::new(SequenceBatch {
        first,
        count: u32::try_from(indices.len()).unwrap(),
        source,
        timestamp: Timestamp(1),
        runs: SequenceBatch::runs_of(indices, &vec![0; indices.len()]),
        root: Hash::ZERO,
        tree_root: [0; 32],
        tree_size: 1,
        signature: Signature::from_bytes([0; 64]),
    })
}

fn intake(origin: u64, source: Source, results: Vec<Intake>) -> IntakeBatch {
    IntakeBatch { origin, source: Some(source), ticket: Ticket(0), expires: Timestamp(9), results }
}

fn handed_in(waiter: Waiter) -> HandedIn {
    HandedIn { waiter, valid: Duration::from_secs(3600) }
}

fn sequences(mailbox: &Mailbox) -> Vec<Option<u64>> {
    let told = |notice: &Option<Notice>| match notice {
        Some(Notice::Final(_, _, finality)) => Some(finality.sequence),
        _ => None,
    };
    mailbox.wait(Instant::now()).iter().map(told).collect()
}

#[test]
fn a_decision_may_be_heard_before_the_schedulers_word_or_after_it() {
    let (early, late) = (Source::new(0, 7), Source::new(1, 3));
    let mut waiting = Waiting::new(10, 4, None);
    let mailbox = Mailbox::new(4);
    waiting.submit(1, [mailbox.waiter(0), mailbox.waiter(1)].into_iter().map(handed_in));
    waiting.submit(2, [mailbox.waiter(2), mailbox.waiter(3)].into_iter().map(handed_in));
    assert_eq!(waiting.unanswered(), 4);
    // One of the two is decided before anything is said of them, the other after.
    let record = decided(10, early, &[1]);
    waiting.hear(&record).unwrap();
    assert_eq!((waiting.heard(), waiting.next()), (11, 10));
    waiting.sequenced(&record);
    waiting.intake(&intake(1, early, vec![Intake::Accepted(0), Intake::Accepted(1)]));
    assert_eq!(sequences(&mailbox), [None, Some(10), None, None]);
    waiting.intake(&intake(2, late, vec![Intake::Accepted(0), Intake::Refused(Refusal::Expired)]));
    for record in [decided(11, late, &[0]), decided(12, early, &[0])] {
        waiting.hear(&record).unwrap();
        waiting.sequenced(&record);
    }
    assert_eq!(sequences(&mailbox), [Some(12), Some(10), Some(11), None]);
    assert_eq!((waiting.unanswered(), waiting.next()), (0, 13));
    assert_eq!(waiting.counts().accepted, 3);
    assert_eq!(waiting.counts().refused.get(&Refusal::Expired), Some(&1));
}

#[test]
fn what_is_said_of_others_submissions_concerns_nobody() {
    let mut waiting = Waiting::new(0, 0, None);
    waiting.intake(&intake(5, Source::new(0, 0), vec![Intake::Accepted(0)]));
    waiting.sequenced(&decided(0, Source::new(0, 0), &[0]));
    assert_eq!((waiting.unanswered(), waiting.counts().accepted), (0, 0));
}

#[test]
fn a_gap_in_the_sequence_is_noticed() {
    let mut waiting = Waiting::new(5, 2, None);
    assert!(waiting.hear(&decided(6, Source::new(0, 0), &[0])).is_err());
    assert!(waiting.hear(&decided(5, Source::new(0, 0), &[0])).is_ok());
    assert!(waiting.hear(&decided(5, Source::new(0, 0), &[0])).is_err());
}

#[test]
fn those_who_wait_when_it_ends_wait_no_longer() {
    let mut waiting = Waiting::new(0, 0, None);
    let mailbox = Mailbox::new(2);
    waiting.submit(1, [mailbox.waiter(0)].into_iter().map(handed_in));
    waiting.wait(Source::new(0, 0), 0, mailbox.waiter(1));
    waiting.clear();
    let began = Instant::now();
    assert_eq!(mailbox.wait(began + Duration::from_secs(600)), [None, None]);
    assert!(began.elapsed() < Duration::from_secs(300));
}

#[test]
fn what_is_undecided_counts_until_it_has_expired_and_what_nothing_is_heard_of_for_a_while() {
    let mut waiting = Waiting::new(0, 0, None);
    let mailbox = Mailbox::new(2);
    let began = Instant::now();
    waiting.submit(1, [mailbox.waiter(0)].into_iter().map(handed_in));
    waiting.submit(2, [mailbox.waiter(1)].into_iter().map(handed_in));
    waiting.intake(&intake(1, Source::new(0, 0), vec![Intake::Accepted(0)]));
    waiting.forget(began + KEPT);
    assert_eq!(waiting.unanswered(), 2);
    waiting.forget(began + KEPT + LOOK);
    assert_eq!(waiting.unanswered(), 1);
    waiting.forget(began + Duration::from_secs(3600));
    assert_eq!(waiting.unanswered(), 1);
    waiting.forget(began + Duration::from_secs(3600) + KEPT + LOOK);
    assert_eq!(waiting.unanswered(), 0);
}
