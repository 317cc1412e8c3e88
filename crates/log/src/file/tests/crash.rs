//! Crashes at every moment of the simulated disk: what was durable is there, the rest is a prefix.

use super::*;
use tally_sim::{Rng, Trace};

/// One life of a journal with several crashes; returns what happened.
fn live(seed: u64, trace: &mut Trace) -> u32 {
    let mut rng = Rng::new(seed);
    let disk = SimDisk::new(rng.next_u64());
    let options = Options {
        segment_bytes: rng.between(1024, 4096),
        tail_bytes: usize::try_from(rng.below(4000)).unwrap(),
        ..small(0)
    };
    let mut durable = 0;
    let mut appended = 0;
    let mut truncations = 0;
    for _ in 0..rng.between(2, 6) {
        if rng.chance(1, 8) {
            // A crash during recovery.
            disk.power_off_after(rng.below(6));
            if let Ok((log, _)) = open(&disk, options.clone()) {
                assert!(log.durable().0 >= durable);
            }
            disk.crash(&mut rng);
        }
        let (log, report) =
            open(&disk, options.clone()).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        let last = report.last.0;
        trace.record_number("open", last);
        assert!(last >= durable, "seed {seed}: {durable} was durable, {last} is left");
        assert!(last <= appended, "seed {seed}: {last} appeared from nowhere");
        truncations += u32::from(report.truncated.is_some());
        assert_holds(&log, last);
        (durable, appended) = (last, last);
        disk.short_writes(rng.chance(1, 4));
        if rng.chance(2, 3) {
            disk.power_off_after(rng.below(60));
        }
        if rng.chance(1, 10) {
            disk.fail_sync(rng.below(10));
        }
        for _ in 0..rng.below(120) {
            match rng.below(12) {
                0 => {
                    let result = log.sync();
                    trace.record_number("sync", log.durable().0);
                    if result.is_ok() {
                        assert_eq!(log.durable().0, appended);
                    }
                }
                1 => {
                    let _ = log.mark_durable();
                }
                2 => disk.fail_space(rng.below(4)),
                3 => {
                    let topic = TopicId(0);
                    let at = log.next(topic).0;
                    if at > 0 {
                        let from = Offset(rng.below(at));
                        let _ = log.read(topic, from, 300, Visibility::Appended, &mut Vec::new());
                    }
                }
                _ => {
                    let (topic, payload) = record(appended + 1);
                    if log.append(topic, &[&payload]).is_ok() {
                        appended += 1;
                    }
                }
            }
            assert!(log.durable().0 >= durable);
            durable = log.durable().0;
        }
        if rng.chance(1, 5) {
            disk.kill();
        } else {
            disk.crash(&mut rng);
        }
    }
    let (log, report) = open(&disk, options).unwrap();
    assert!((durable..=appended).contains(&report.last.0));
    assert_holds(&log, report.last.0);
    truncations
}

#[test]
fn no_crash_loses_what_was_durable() {
    let mut truncations = 0;
    for seed in 0..4_000 {
        truncations += live(seed, &mut Trace::new());
    }
    assert!(truncations > 500, "only {truncations} torn writes were simulated");
}

#[test]
fn a_seed_replays_its_run() {
    for seed in 0..200 {
        let (mut once, mut again) = (Trace::new(), Trace::new());
        live(seed, &mut once);
        live(seed, &mut again);
        assert_eq!(once, again);
    }
}

/// Crashes after each single operation of one run that rolls over segments and releases them.
#[test]
fn every_operation_can_be_the_last() {
    let options = Options { retain: Retain::Unreleased, ..small(1024) };
    let mut operations = 0;
    loop {
        for seed in 0..8 {
            let disk = SimDisk::new(seed);
            disk.power_off_after(operations);
            let mut appended = 0;
            let mut durable = 0;
            let mut released = [0; 3];
            let run = || -> Result<(), LogError> {
                let (log, _) = open(&disk, options.clone())?;
                while appended < 90 {
                    appended += 1;
                    append(&log, appended);
                    if appended % 10 == 0 {
                        durable = log.sync()?.0;
                        for topic in 0..3 {
                            let before = log.next(TopicId(topic)).0.saturating_sub(8);
                            released[usize::from(topic)] = before;
                            log.release(TopicId(topic), Offset(before))?;
                        }
                    }
                }
                Ok(())
            };
            let finished = { run }().is_ok();
            disk.crash(&mut Rng::new(seed * 1000 + operations));
            let (log, report) = open(&disk, options.clone()).unwrap();
            assert!((durable..=appended).contains(&report.last.0));
            for (topic, &released) in (0_u16..).zip(&released) {
                let topic = TopicId(topic);
                let first = log.first(topic).0;
                assert!(first <= released);
                let read = read_all(&log, topic, Offset(first)).unwrap();
                let expected: Vec<Vec<u8>> =
                    (1..=report.last.0).map(record).filter(|(of, _)| *of == topic).map(|(_, p)| p).collect();
                let expected = &expected[usize::try_from(first).unwrap()..];
                assert!(read.iter().map(|record| &record.payload[..]).eq(expected.iter().map(|p| &p[..])));
            }
            if finished && seed == 7 {
                assert!(operations > 100);
                return;
            }
        }
        operations += 1;
    }
}

#[test]
fn a_killed_process_loses_nothing_written() {
    let disk = SimDisk::new(0);
    let (log, _) = open(&disk, small(2048)).unwrap();
    for ticket in 1..=50 {
        append(&log, ticket);
    }
    log.sync().unwrap();
    disk.kill();
    let (log, report) = open(&disk, small(2048)).unwrap();
    assert_eq!((report.last, report.truncated), (Ticket(50), None));
    assert_holds(&log, 50);
}
