//! Every byte of what a network wrote, damaged one at a time: a clear error, or the balances of some
//! moment of its past; never others.

use std::path::Path;
use std::sync::Arc;
use tally_ledger::AccountId;
use tally_log::{FileLog, LogError, Ticket};
use tally_settlement::audit::{AuditOptions, audit_log};
use tally_settlement::engine::{EngineError, assemble};
use tally_settlement::journal;
use tally_settlement::replay::Replay;
use tally_settlement::snapshot::{self, SnapshotError};
use tally_sim::SimDisk;
use tally_trials::fuzz::{Balances, Small};

/// What a damaged journal comes to.
enum Found {
    /// It is refused: by the journal, or by recovery.
    Refused,
    /// It is read, cut off or whole; the position of its balances among those of the past.
    Moment(usize),
}

fn of(replay: &Replay) -> Balances {
    let tables = replay.partitions.iter().map(|partition| &partition.accounts);
    let of_table = |table: &tally_settlement::accounts::AccountTable| {
        let participant = table.participant();
        let numbers = table.iter().map(|(number, account)| (number, account.balance));
        numbers.map(|(number, balance)| (AccountId { participant, number }, balance)).collect::<Vec<_>>()
    };
    tables.flat_map(of_table).collect()
}

fn open(small: &Small, disk: &SimDisk, audited: bool) -> Found {
    let options = small.options(Path::new("unused"));
    let (log, opened) = match FileLog::open_on(Arc::new(disk.clone()), options.journal.clone()) {
        Ok(opened) => opened,
        Err(LogError::Corrupt { .. } | LogError::Version { .. }) => return Found::Refused,
        Err(error) => panic!("not a clear error: {error}"),
    };
    let log = Arc::new(log);
    let mut replay = Replay::new(Arc::clone(&small.network));
    journal::replay(&log, Ticket(0), &mut replay, |_, _, _| Ok(()), |_, _, _, _, _| Ok(()))
        .expect("what the journal vouches for is what was written");
    let balances = of(&replay);
    let moment = small.prefixes.iter().position(|prefix| *prefix == balances);
    let moment = moment.expect("balances that there never were");
    if audited {
        audit_log(&log, opened, &small.network, AuditOptions { signatures: false })
            .expect("a prefix of the journal is a journal");
    }
    Found::Moment(moment)
}

/// Damages every byte of the journal: how many are refused, cut off, read whole.
fn damage_each(small: &Small) -> [u32; 3] {
    let last = small.prefixes.len() - 1;
    let mut counts = [0; 3];
    for (name, bytes) in small.journal.iter().filter(|(_, bytes)| !bytes.is_empty()) {
        for at in 0..bytes.len() {
            // One bit, or all of them; the audit verifies signatures, and is for some.
            let (change, audited) = ([0x01, 0xff][at % 2], at % 97 == 0);
            let disk = SimDisk::new(0);
            for (other, content) in &small.journal {
                let mut content = content.clone();
                if other == name {
                    content[at] ^= change;
                }
                disk.overwrite(other, content);
            }
            counts[match open(small, &disk, audited) {
                Found::Refused => 0,
                Found::Moment(moment) if moment < last => 1,
                Found::Moment(_) => 2,
            }] += 1;
        }
    }
    counts
}

#[test]
fn every_damaged_byte_of_a_journal_at_rest_is_refused() {
    let small = Small::new(4, 2, true);
    let used: usize = small.journal.iter().map(|(_, bytes)| used(bytes)).sum();
    let [refused, cut, whole] = damage_each(&small);
    println!("{used} bytes used: {refused} refused, {cut} cut off, {whole} read whole");
    // What is known to be durable is not cut off; what lies behind it is not read.
    assert_eq!(cut, 0);
    assert!(refused as usize > used * 9 / 10);
}

#[test]
fn every_damaged_byte_of_an_interrupted_journal_is_refused_or_cut_off() {
    let small = Small::new(4, 2, false);
    let [refused, cut, whole] = damage_each(&small);
    println!("{refused} refused, {cut} cut off, {whole} read whole");
    assert!(refused > 1_000 && cut > 100);
}

/// Up to the last byte that is not zero.
fn used(bytes: &[u8]) -> usize {
    bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1)
}

#[test]
fn every_length_of_a_torn_journal_is_a_moment_of_the_past() {
    let small = Small::new(4, 2, true);
    let (name, bytes) = small.journal.iter().rfind(|(_, bytes)| !bytes.is_empty()).unwrap();
    let (mut refused, mut moments) = (0u32, std::collections::BTreeSet::new());
    for length in 0..bytes.len() {
        let disk = SimDisk::new(0);
        for (other, content) in &small.journal {
            let length = if other == name { length } else { content.len() };
            disk.overwrite(other, content[..length].to_vec());
        }
        match open(&small, &disk, length % 97 == 0) {
            Found::Refused => refused += 1,
            Found::Moment(moment) => {
                moments.insert(moment);
            }
        }
    }
    println!("{refused} refused, {} moments", moments.len());
    assert!(moments.len() > 1, "cut off where a record ends");
}

#[test]
fn every_damaged_byte_of_a_snapshot_is_refused() {
    let small = Small::new(4, 2, true);
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join(&small.snapshot_name);
    std::fs::write(&path, &small.snapshot).unwrap();
    assert!(snapshot::load(&path, &small.network).is_ok());
    for at in 0..small.snapshot.len() {
        for change in [0x01, 0x80] {
            let mut bytes = small.snapshot.clone();
            bytes[at] ^= change;
            std::fs::write(&path, &bytes).unwrap();
            let Err(error) = snapshot::load(&path, &small.network) else {
                panic!("byte {at} was not missed")
            };
            assert!(matches!(error, SnapshotError::Damaged { .. }), "byte {at}: {error}");
        }
    }
    for length in 0..small.snapshot.len() {
        std::fs::write(&path, &small.snapshot[..length]).unwrap();
        assert!(matches!(snapshot::load(&path, &small.network), Err(SnapshotError::Damaged { .. })));
    }
}

#[test]
fn a_network_with_a_damaged_snapshot_says_so_and_starts_without_it() {
    let small = Small::new(4, 2, true);
    let directory = tempfile::tempdir().unwrap();
    let snapshots = directory.path().join("snapshots");
    std::fs::create_dir(&snapshots).unwrap();
    let path = snapshots.join(&small.snapshot_name);
    let start = || {
        let disk = SimDisk::new(0);
        small.journal.iter().for_each(|(name, bytes)| disk.overwrite(name, bytes.clone()));
        let options = small.options(directory.path());
        let (log, opened) = FileLog::open_on(Arc::new(disk), options.journal.clone()).unwrap();
        assemble(&options, &Arc::new(log), opened, small.now)
    };
    std::fs::write(&path, &small.snapshot).unwrap();
    let with = start().unwrap();
    assert_eq!(with.report.snapshot.as_deref(), Some(path.as_path()));
    let totals = with.desk.totals();
    let mut bytes = small.snapshot.clone();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 4;
    std::fs::write(&path, &bytes).unwrap();
    let Err(error) = start() else { panic!("a damaged snapshot is not used") };
    assert!(matches!(error, EngineError::Snapshot(SnapshotError::Damaged { .. })), "{error}");
    std::fs::remove_file(&path).unwrap();
    assert_eq!(start().unwrap().desk.totals(), totals);
}
