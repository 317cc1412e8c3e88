use super::*;
use crate::{Health, contract};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::Duration;

#[test]
fn a_memory_log_keeps_the_contract() {
    contract::check(&|| Arc::new(crate::MemoryLog::new(8 << 20)));
}

#[test]
fn a_file_log_keeps_the_contract() {
    let directory = tempfile::tempdir().unwrap();
    let count = AtomicU64::new(0);
    for (segment_bytes, retain) in
        [(4096, Retain::Unreleased), (1 << 20, Retain::All), (50_000, Retain::Unreleased)]
    {
        contract::check(&|| {
            let path = directory.path().join(count.fetch_add(1, Ordering::Relaxed).to_string());
            Arc::new(FileLog::open(path, Options { retain, ..small(segment_bytes) }).unwrap().0)
        });
    }
}

#[test]
fn a_file_log_on_the_simulated_disk_keeps_the_contract() {
    contract::check(&|| {
        let disk = SimDisk::new(3);
        disk.short_writes(true);
        Arc::new(open(&disk, small(8192)).unwrap().0)
    });
}

#[test]
fn what_was_synced_is_there_after_reopening() {
    let disk = SimDisk::new(0);
    let mut last = 0;
    for _ in 0..6 {
        let (log, report) = open(&disk, small(2048)).unwrap();
        assert_eq!((report.last, report.truncated), (Ticket(last), None));
        for _ in 0..37 {
            last += 1;
            append(&log, last);
        }
        log.sync().unwrap();
        assert_holds(&log, last);
    }
    assert!(segments(&disk).len() > 5);
    let (log, report) = FileLog::open_read_only_on(Arc::new(disk.clone())).unwrap();
    assert_eq!(report.segments, segments(&disk).len());
    assert_holds(&log, last);
    assert!(matches!(log.append(TopicId(0), &[]), Err(LogError::ReadOnly)));
    assert!(matches!(log.sync(), Err(LogError::ReadOnly)));
    assert!(matches!(log.release(TopicId(0), Offset(0)), Err(LogError::ReadOnly)));
}

#[test]
fn one_sync_is_one_fdatasync_and_one_write() {
    let disk = SimDisk::new(0);
    let (log, _) = open(&disk, small(1 << 20)).unwrap();
    let before = disk.counts();
    for ticket in 1..=500 {
        append(&log, ticket);
    }
    log.sync().unwrap();
    log.sync().unwrap();
    let after = disk.counts();
    assert_eq!((after.syncs - before.syncs, after.writes - before.writes), (1, 1));
    assert_eq!(log.statistics().syncs, 1);
    assert_eq!(log.statistics().pending_bytes, 0);
}

#[test]
fn a_scan_starts_where_it_is_told() {
    let disk = SimDisk::new(0);
    let (log, _) = open(&disk, small(2048)).unwrap();
    for ticket in 1..=100 {
        append(&log, ticket);
    }
    log.sync().unwrap();
    append(&log, 101);
    for from in [0, 1, 50, 100, 101, 500] {
        let tickets: Vec<u64> = log.scan(Ticket(from)).map(|scanned| scanned.unwrap().ticket.0).collect();
        assert_eq!(tickets, (from.max(1)..=100).collect::<Vec<_>>());
    }
}

#[test]
fn released_segments_go_and_the_rest_stays() {
    let disk = SimDisk::new(0);
    let options = Options { retain: Retain::Unreleased, ..small(2048) };
    let (log, _) = open(&disk, options.clone()).unwrap();
    for ticket in 1..=300 {
        append(&log, ticket);
    }
    log.sync().unwrap();
    let before = segments(&disk).len();
    log.release(TopicId(0), Offset(80)).unwrap();
    log.release(TopicId(1), Offset(80)).unwrap();
    assert_eq!(segments(&disk).len(), before, "one topic still needs its records");
    log.release(TopicId(2), Offset(80)).unwrap();
    let after = segments(&disk);
    assert!(after.len() < before - 5, "{} of {before} are left", after.len());
    let firsts: Vec<u64> = (0..3).map(|topic| log.first(TopicId(topic)).0).collect();
    assert!(firsts.iter().all(|&first| (60..=80).contains(&first)), "{firsts:?}");
    disk.crash(&mut tally_sim::Rng::new(0));
    drop(log);
    let (log, report) = open(&disk, options).unwrap();
    assert_eq!(report.last, Ticket(300));
    for topic in 0..3 {
        let topic = TopicId(topic);
        assert_eq!(log.first(topic).0, firsts[usize::from(topic.0)]);
        assert_eq!(read_all(&log, topic, log.first(topic)).unwrap().len() as u64, 100 - log.first(topic).0);
    }
    assert_eq!(log.scan(Ticket(0)).count() as u64, 300 - firsts.iter().sum::<u64>());
}

#[test]
fn a_second_writer_is_refused_and_a_reader_is_not() {
    let directory = tempfile::tempdir().unwrap();
    let missing = FileLog::open_read_only(directory.path());
    assert!(matches!(missing, Err(LogError::Io { .. })), "{missing:?}");
    let (log, report) = FileLog::open(directory.path(), small(4096)).unwrap();
    assert!(report.created);
    append(&log, 1);
    log.sync().unwrap();
    let second = FileLog::open(directory.path(), small(4096));
    assert!(matches!(second, Err(LogError::Locked { .. })), "{second:?}");
    assert_holds(&FileLog::open_read_only(directory.path()).unwrap().0, 1);
    drop(log);
    let (log, report) = FileLog::open(directory.path(), small(4096)).unwrap();
    assert!(!report.created);
    assert_holds(&log, 1);
}

#[test]
fn options_that_make_no_sense_are_refused() {
    let opened = open(&SimDisk::new(0), small(100));
    assert!(matches!(opened, Err(LogError::Options { option: "segment_bytes", .. })));
}

#[test]
fn too_much_that_waits_pushes_back() {
    let options = Options { max_pending_bytes: 1000, ..small(1 << 20) };
    let (log, _) = open(&SimDisk::new(0), options).unwrap();
    log.append(TopicId(0), &[&[0; 5000]]).expect("one record may always wait");
    let refused = log.append(TopicId(0), &[b""]);
    assert!(matches!(refused, Err(LogError::Backpressure { pending_bytes: 5044, .. })), "{refused:?}");
    log.sync().unwrap();
    log.append(TopicId(0), &[&[0; 400]]).unwrap();
    log.append(TopicId(0), &[&[0; 400]]).unwrap();
    assert!(log.append(TopicId(0), &[&[0; 400]]).is_err());
}

#[test]
fn a_full_disk_stalls_and_goes_on() {
    for failures in 1..6 {
        let disk = SimDisk::new(0);
        let (log, _) = open(&disk, small(2048)).unwrap();
        disk.fail_space(failures);
        for ticket in 1..=60 {
            append(&log, ticket);
        }
        for _ in 0..failures {
            assert!(matches!(log.sync(), Err(LogError::Stalled { .. })));
            assert!(matches!(log.health(), Health::Stalled { .. }));
        }
        append(&log, 61);
        assert_eq!(log.sync().unwrap(), Ticket(61));
        assert_eq!(log.health(), Health::Ok);
        assert_holds(&log, 61);
    }
}

#[test]
fn what_still_fitted_becomes_durable_when_the_disk_is_full() {
    let disk = SimDisk::new(0);
    let (log, _) = open(&disk, small(2048)).unwrap();
    disk.limit_space(Some(5000));
    for ticket in 1..=200 {
        append(&log, ticket);
    }
    assert!(log.sync().is_err());
    let durable = log.durable().0;
    assert!((20..100).contains(&durable), "{durable}");
    disk.crash(&mut tally_sim::Rng::new(1));
    disk.limit_space(None);
    let (log, report) = open(&disk, small(2048)).unwrap();
    assert!(report.last.0 >= durable);
    assert_holds(&log, report.last.0);
}

#[test]
fn a_failed_sync_is_final() {
    let disk = SimDisk::new(0);
    let (log, _) = open(&disk, small(1 << 20)).unwrap();
    append(&log, 1);
    log.sync().unwrap();
    disk.fail_sync(0);
    append(&log, 2);
    assert!(matches!(log.sync(), Err(LogError::Failed { .. })));
    assert!(matches!(log.sync(), Err(LogError::Failed { .. })));
    assert!(matches!(log.append(TopicId(0), &[b"x"]), Err(LogError::Failed { .. })));
    assert!(matches!(log.health(), Health::Failed { .. }));
    assert_eq!(log.durable(), Ticket(1));
    let mut out = Vec::new();
    log.read(record(1).0, Offset(0), 100, Visibility::Durable, &mut out)
        .expect("what is durable can be read");
    assert_eq!(out.len(), 1);
}

#[test]
fn a_flusher_syncs_by_itself_and_drains_when_stopped() {
    let disk = SimDisk::new(0);
    let (log, _) = open(&disk, small(4096)).unwrap();
    let log = Arc::new(log);
    let (tell, told) = mpsc::channel();
    let tell = Mutex::new(tell);
    log.on_durable(Box::new(move |ticket| {
        let _ = tell.lock().unwrap().send(ticket);
    }));
    for linger in [Duration::ZERO, Duration::from_millis(1)] {
        let flusher = FileLog::spawn_flusher(&log, linger).unwrap();
        let start = log.durable().0;
        for ticket in start + 1..=start + 100 {
            append(&log, ticket);
        }
        let mut heard = Ticket(0);
        while heard.0 < start + 100 {
            let ticket = told.recv_timeout(Duration::from_secs(20)).expect("the flusher is at work");
            assert!(ticket > heard, "{ticket} after {heard}");
            heard = ticket;
        }
        for ticket in start + 101..=start + 150 {
            append(&log, ticket);
        }
        assert_eq!(flusher.stop().unwrap(), Ticket(start + 150));
        while told.try_recv().is_ok() {}
    }
    append(&log, 301);
    drop(FileLog::spawn_flusher(&log, Duration::from_secs(1000)).unwrap());
    assert_holds(&log, 301);
}

#[test]
fn a_reader_sees_a_prefix_while_a_writer_is_at_work() {
    let directory = tempfile::tempdir().unwrap();
    let options = Options { retain: Retain::Unreleased, ..small(20_000) };
    let (log, _) = FileLog::open(directory.path(), options).unwrap();
    let log = Arc::new(log);
    let flusher = FileLog::spawn_flusher(&log, Duration::ZERO).unwrap();
    let readable_from = AtomicU64::new(1);
    let done = AtomicU64::new(0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for ticket in 1..=20_000 {
                append(&log, ticket);
                if ticket % 2_000 == 0 {
                    for topic in 0..3 {
                        let before = log.next(TopicId(topic)).0.saturating_sub(1_000);
                        log.release(TopicId(topic), Offset(before)).unwrap();
                    }
                    readable_from.store(ticket.saturating_sub(3_010), Ordering::SeqCst);
                }
            }
            done.store(1, Ordering::SeqCst);
        });
        scope.spawn(|| {
            let mut opened = 0;
            while done.load(Ordering::SeqCst) == 0 || opened == 0 {
                let durable = log.durable();
                let (reader, report) = FileLog::open_read_only(directory.path()).unwrap();
                opened += 1;
                assert!(report.last >= durable, "{} was durable, {} is seen", durable, report.last);
                let first = readable_from.load(Ordering::SeqCst);
                for scanned in reader.scan(Ticket(first.max(report.last.0.saturating_sub(500)))) {
                    match scanned {
                        Ok(scanned) => assert_eq!(scanned.record.payload, record(scanned.ticket.0).1),
                        Err(LogError::Io { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => {
                            break;
                        }
                        Err(error) => panic!("{error}"),
                    }
                }
            }
        });
    });
    assert_eq!(flusher.stop().unwrap(), Ticket(20_000));
}

#[test]
fn buffers_are_used_again_once_nobody_reads_them() {
    let options = Options { tail_bytes: 1 << 20, ..Options::default() };
    let directory = tempfile::tempdir().unwrap();
    let (log, _) = FileLog::open(directory.path(), options).unwrap();
    let payload = vec![5; 1 << 20];
    let mut addresses = std::collections::BTreeSet::new();
    for _ in 0..100 {
        let appended = log.append(TopicId(0), &[&payload]).unwrap();
        let mut out = Vec::new();
        log.read(TopicId(0), appended.offset, 1, Visibility::Appended, &mut out).unwrap();
        addresses.insert(out[0].payload.as_ptr() as usize >> 20);
        drop(out);
        log.sync().unwrap();
    }
    assert!(addresses.len() < 50, "{} places for 100 records", addresses.len());
}
