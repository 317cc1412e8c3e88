use super::*;
use crate::message::DecisionBatch;
use crate::stage::witness::LogFault;
use crate::stage::{LogWitness, Sequencer};
use tally_crypto::log::{Checkpoint, Cosignature, Cosigned, Frontier, WitnessError};

fn sequencer() -> Sequencer {
    Sequencer::new(NETWORK, key(0), 0, Frontier::new(), NOW)
}

fn record(sequencer: &mut Sequencer, now: Timestamp, verdict: u16) -> SequenceBatch {
    let source = Source::new(0, sequencer.next());
    let decisions =
        DecisionBatch { source, indices: vec![0], ids: vec![Hash::ZERO], verdicts: vec![verdict] };
    sequencer.step(now, &decisions)
}

fn witness() -> LogWitness {
    LogWitness::new(NETWORK, Some(key(0).public_key()), Frontier::new()).signing(key(1), None)
}

#[test]
fn every_head_that_follows_is_cosigned_once() {
    let (mut sequencer, mut witness) = (sequencer(), witness());
    let records = [0, 24].map(|verdict| record(&mut sequencer, NOW, verdict));
    for record in [&records[0], &records[1], &records[0], &records[1]] {
        witness.follow(NOW, record).unwrap();
    }
    let cosigned = witness.take_cosigned();
    assert_eq!(cosigned.iter().map(|head| head.size).collect::<Vec<_>>(), [1, 2]);
    for (head, record) in cosigned.iter().zip(&records) {
        assert_eq!(head.head(), record.tree_head());
        let checkpoint = Checkpoint::of(&head.head().head, &NETWORK.0);
        let cosignature = Cosignature { time_s: head.time_s, signature: head.cosignature };
        cosignature.verify(&checkpoint, &key(1).public_key()).unwrap();
    }
    assert_eq!(witness.tree(), sequencer.tree());
    assert!(witness.take_cosigned().is_empty());
}

#[test]
fn a_head_that_does_not_follow_is_not_cosigned() {
    let mut sequencer = sequencer();
    let (first, second) = (record(&mut sequencer, NOW, 0), record(&mut sequencer, NOW.plus_ms(9), 0));
    let faults = |change: &dyn Fn(&mut SequenceBatch)| {
        let mut witness = witness();
        witness.follow(NOW, &first).unwrap();
        let mut wrong = second.clone();
        change(&mut wrong);
        let fault = witness.follow(NOW, &wrong).unwrap_err();
        assert_eq!(witness.take_cosigned().len(), 1, "the first alone");
        assert_eq!(witness.tree().len(), 1);
        fault
    };
    let size = 2;
    assert_eq!(faults(&|record| record.root = tally_crypto::hash(b"")), LogFault::WrongTree { size });
    assert_eq!(faults(&|record| record.tree_root = [7; 32]), LogFault::WrongTree { size });
    assert_eq!(faults(&|record| record.tree_size = 3), LogFault::WrongTree { size: 3 });
    let signature = Signature::from_bytes([1; 64]);
    assert_eq!(faults(&|record| record.signature = signature), LogFault::WrongSignature { size });
}

#[test]
fn time_does_not_go_back_in_the_log_and_no_history_is_cosigned_beside_another() {
    // Two processes of the operator, the second with a clock that goes back: its log is one that it signs.
    let mut earlier = sequencer();
    let first = record(&mut earlier, NOW.plus_ms(50), 0);
    let mut later = Sequencer::new(NETWORK, key(0), earlier.next(), earlier.tree().clone(), Timestamp(0));
    let back = record(&mut later, NOW, 0);
    let mut witness = witness();
    witness.follow(NOW, &first).unwrap();
    let (time, before) = (NOW.0, NOW.0 + 50);
    assert_eq!(witness.follow(NOW, &back), Err(LogFault::TimeWentBack { size: 2, time, before }));

    // Started again it follows from the beginning, and what it is shown is not what it cosigned.
    let last = Cosigned { size: 1, root: [9; 32], time_s: NOW.0 / 1000 };
    let again = LogWitness::new(NETWORK, Some(key(0).public_key()), Frontier::new());
    let mut again = again.signing(key(1), Some(last));
    let fault = again.follow(NOW, &first).unwrap_err();
    assert!(
        matches!(fault, LogFault::Contradiction { size: 1, source } if !matches!(source, WitnessError::Smaller { .. }))
    );
    assert!(again.take_cosigned().is_empty());
}

#[test]
fn a_head_of_another_network_is_not_cosigned() {
    let mut namesake = Sequencer::new(NetworkId([6; 32]), key(0), 0, Frontier::new(), NOW);
    let record = record(&mut namesake, NOW, 0);
    assert_eq!(witness().follow(NOW, &record), Err(LogFault::WrongSignature { size: 1 }));
    let of_namesake = LogWitness::new(NetworkId([6; 32]), Some(key(0).public_key()), Frontier::new());
    assert_eq!(of_namesake.signing(key(1), None).follow(NOW, &record), Ok(()));
}
