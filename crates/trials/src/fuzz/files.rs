//! What lies on disk: snapshots and segments of the journal.

use super::damage::{damage, damaged};
use super::small::{Small, balances};
use std::cell::RefCell;
use std::path::PathBuf;
use std::sync::Arc;
use tally_log::{FileLog, Log, Ticket};
use tally_settlement::audit::{AuditOptions, audit_log};
use tally_settlement::engine::assemble;
use tally_settlement::snapshot;
use tally_sim::{Rng, SimDisk};
use tempfile::TempDir;

thread_local! {
    /// A directory in memory for files that have to have a path.
    static DIRECTORY: RefCell<Option<TempDir>> = const { RefCell::new(None) };
}

fn directory() -> PathBuf {
    DIRECTORY.with_borrow_mut(|directory| {
        let made = directory.get_or_insert_with(|| {
            tempfile::tempdir_in(crate::simulation::temporary()).expect("a directory in memory")
        });
        made.path().to_owned()
    })
}

/// A damaged snapshot is refused; one whose hash was mended is read or refused, and nothing worse.
pub(super) fn snapshot(rng: &mut Rng, small: &Small) {
    let mut bytes = small.snapshot.clone();
    let content = bytes.len() - 32;
    bytes.truncate(content);
    damage(rng, &mut bytes, &small.snapshot);
    let mended = rng.chance(3, 4);
    let hash = *blake3::hash(&bytes).as_bytes();
    bytes.extend_from_slice(if mended { &hash } else { &small.snapshot[content..] });
    let path = directory().join(&small.snapshot_name);
    std::fs::write(&path, &bytes).expect("a directory in memory takes it");
    let loaded = snapshot::load(&path, &small.network);
    assert!(mended || loaded.is_err() || bytes == small.snapshot, "a damaged snapshot is read");
    if let Ok((replay, _)) = loaded {
        let _ = balances(replay.partitions.iter().map(|partition| &partition.accounts));
    }
}

/// A damaged segment is refused, or cut off after the last good record; what is left is a prefix.
pub(super) fn segment(rng: &mut Rng, small: &Small) {
    let disk = SimDisk::new(0);
    let files: Vec<_> = small.journal.iter().filter(|(_, bytes)| !bytes.is_empty()).collect();
    let chosen = rng.index(files.len());
    for (at, (name, bytes)) in files.iter().enumerate() {
        let mut bytes = bytes.clone();
        if at == chosen {
            let other = &files[rng.index(files.len())].1;
            damage(rng, &mut bytes, other);
        }
        disk.overwrite(name, bytes);
    }
    let Ok((log, _)) = FileLog::open_on(Arc::new(disk), small.plan.options(PathBuf::new()).journal) else {
        return;
    };
    for (scanned, (topic, payload)) in log.scan(Ticket(0)).zip(&small.records) {
        let Ok(scanned) = scanned else { return };
        assert_eq!(scanned.topic, *topic);
        assert!(scanned.record.payload == *payload, "a record is not what was appended");
    }
    assert!(log.durable().0 <= small.records.len() as u64, "records came from nowhere");
}

/// Records that the journal vouches for and whose content is not what the stages wrote: recovery and
/// audit refuse them, or find nothing wrong, and never fall over.
pub(super) fn record(rng: &mut Rng, small: &Small) {
    let disk = SimDisk::new(0);
    let directory = directory().join("empty");
    let options = small.plan.options(directory);
    {
        let (log, _) = FileLog::open_on(Arc::new(disk.clone()), options.journal.clone()).expect("a new disk");
        let chosen = rng.index(small.records.len());
        let same =
            |of: &(tally_log::TopicId, Vec<u8>)| (of.0 == small.records[chosen].0).then(|| of.1.clone());
        let samples: Vec<Vec<u8>> = small.records.iter().filter_map(same).collect();
        for (at, (topic, payload)) in small.records.iter().enumerate() {
            let payload = if at == chosen { damaged(rng, &samples) } else { payload.clone() };
            let appended = log.append(*topic, &[&payload]);
            if appended.is_err() {
                log.sync().expect("a new disk");
                log.append(*topic, &[&payload]).expect("everything before is written");
            }
        }
        log.sync().expect("a new disk");
    }
    disk.kill();
    let (log, opened) =
        FileLog::open_on(Arc::new(disk.clone()), options.journal.clone()).expect("the disk is whole");
    let log = Arc::new(log);
    let _ = audit_log(&log, opened.clone(), &small.network, AuditOptions { signatures: rng.chance(1, 8) });
    let Ok(mut assembly) = assemble(&options, &log, opened, small.now) else { return };
    for _ in 0..3 {
        for stage in assembly.stages.iter_mut().rev() {
            stage.poll(small.now).expect("the disk is whole");
        }
        log.sync().expect("the disk is whole");
    }
}
