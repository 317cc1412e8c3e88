use super::*;
use crate::contract::{SCHEMA_1, check_migrated};
use crate::write::{NewFlow, Write};
use crate::{Restored, Sqlite, SqliteOptions, Store};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};

const TAKEN: Timestamp = Timestamp::from_millis(1_700_000_100_000);
const AT: Timestamp = Timestamp::from_millis(1_700_000_200_000);

fn node() -> Name {
    Name::new("PartyA", "London", "GB").unwrap()
}

struct Place {
    directory: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        Self { directory: tempfile::tempdir().unwrap() }
    }

    fn options(&self, name: &str) -> SqliteOptions {
        SqliteOptions::new(self.directory.path().join(name))
    }

    fn database(&self, name: &str) -> Database {
        Database::Sqlite(self.options(name))
    }

    fn file(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn is_there(&self, name: &str) -> bool {
        self.file(name).exists()
    }
}

/// A database of an earlier schema with rows in every table that it has.
fn schema_1(options: &SqliteOptions) {
    let file = rusqlite::Connection::open(&options.path).unwrap();
    file.execute_batch(crate::sqlite::STEPS[0].sql).unwrap();
    file.execute_batch(SCHEMA_1).unwrap();
    file.execute_batch("PRAGMA application_id = 0x54414c59; PRAGMA user_version = 1;").unwrap();
}

fn flow(number: u64) -> Write {
    let mut id = [0; 16];
    id[..8].copy_from_slice(&number.to_be_bytes());
    Write::FlowStarted(NewFlow {
        flow: id,
        name: "Pay".to_owned(),
        version: 1,
        arguments: vec![7; 3000],
        origin: Vec::new(),
        seed: [1; 32],
        at: Timestamp::from_millis(5),
    })
}

/// A backup with rows in every table, of more than one frame.
fn some(place: &Place) -> PathBuf {
    schema_1(&place.options("node.db"));
    let store = Sqlite::open(&place.options("node.db")).unwrap();
    store.apply(&(1000..1400).map(flow).collect::<Vec<_>>()).unwrap();
    let file = place.file("node.backup");
    back_up(&place.database("node.db"), &node(), TAKEN, &file).unwrap();
    file
}

#[test]
fn what_is_restored_is_what_was_backed_up_and_a_mark_says_so() {
    let place = Place::new();
    schema_1(&place.options("node.db"));
    let store = Sqlite::open(&place.options("node.db")).unwrap();
    assert_eq!(store.queues().unwrap().restored, None);
    let file = place.file("node.backup");
    let taken = back_up(&place.database("node.db"), &node(), TAKEN, &file).unwrap();
    assert_eq!((taken.schema, taken.taken, &taken.node), (6, TAKEN, &node()));
    assert_eq!(taken.bytes, file.metadata().unwrap().len());
    assert_eq!(verify(&file).unwrap(), taken);
    use std::os::unix::fs::PermissionsExt as _;
    assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);

    let restored = restore(&place.database("again.db"), &node(), AT, &file).unwrap();
    assert_eq!(restored, taken);
    assert!(!place.is_there("again.db-wal") && !place.is_there("again.db.restoring"));
    let again = Sqlite::open(&place.options("again.db")).unwrap();
    let queues = again.queues().unwrap();
    assert_eq!(queues.restored, Some(Restored { taken: TAKEN, at: AT }));
    assert_eq!(queues.own, store.queues().unwrap().own);
    check_migrated(&again);
    check_migrated(&store);
    again.apply(&[Write::Recovered]).unwrap();
    assert_eq!(again.queues().unwrap().restored, None);
}

/// A node runs and writes; each backup holds every batch that was acknowledged before it began, and none in part.
#[test]
fn a_backup_under_load_is_one_moment() {
    const PER_BATCH: u64 = 20;
    let place = Place::new();
    let store = Sqlite::open(&place.options("node.db")).unwrap();
    let (acknowledged, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(SeqCst) {
                let first = acknowledged.load(SeqCst) * PER_BATCH;
                store.apply(&(first..first + PER_BATCH).map(flow).collect::<Vec<_>>()).unwrap();
                acknowledged.fetch_add(1, SeqCst);
            }
        });
        for round in 0..5 {
            let goal = acknowledged.load(SeqCst) + 5;
            while acknowledged.load(SeqCst) < goal {
                std::thread::yield_now();
            }
            let before = acknowledged.load(SeqCst);
            let file = place.file(&format!("{round}.backup"));
            back_up(&place.database("node.db"), &node(), TAKEN, &file).unwrap();
            let after = acknowledged.load(SeqCst) + 1;
            let database = place.database(&format!("{round}.db"));
            restore(&database, &node(), AT, &file).unwrap();
            let found =
                crate::open(&database).unwrap().unfinished_flows(None, usize::MAX).unwrap().len() as u64;
            assert_eq!(found % PER_BATCH, 0, "a batch is there in part");
            assert!((before..=after).contains(&(found / PER_BATCH)), "{before} {found} {after}");
        }
        stop.store(true, SeqCst);
    });
}

#[test]
fn a_backup_of_an_earlier_schema_is_brought_to_this_one() {
    let place = Place::new();
    schema_1(&place.options("node.db"));
    // Not opened by this program: it stays at its schema.
    let file = place.file("node.backup");
    assert_eq!(back_up(&place.database("node.db"), &node(), TAKEN, &file).unwrap().schema, 1);
    restore(&place.database("again.db"), &node(), AT, &file).unwrap();
    let again = Sqlite::open(&place.options("again.db")).unwrap();
    assert_eq!(again.queues().unwrap().restored, Some(Restored { taken: TAKEN, at: AT }));
    check_migrated(&again);
}

#[test]
fn a_damaged_backup_is_refused_and_leaves_nothing() {
    let place = Place::new();
    let good = std::fs::read(some(&place)).unwrap();
    assert!(good.len() > (1 << 20), "it has more than one frame");
    let file = place.file("damaged.backup");
    let refused = |bytes: &[u8], what: &str| {
        std::fs::write(&file, bytes).unwrap();
        let verified = verify(&file);
        let restored = restore(&place.database("again.db"), &node(), AT, &file);
        for result in [verified, restored] {
            assert!(
                matches!(
                    result,
                    Err(BackupError::Damaged { .. } | BackupError::Foreign { .. } | BackupError::Form { .. })
                ),
                "{what}: {result:?}"
            );
        }
        assert!(!place.is_there("again.db") && !place.is_there("again.db.restoring"), "{what}");
    };
    let mut places: Vec<usize> = (0..200).chain(good.len() - 60..good.len()).collect();
    places.extend((1..20).map(|nth| good.len() * nth / 20));
    for at in places {
        let mut damaged = good.clone();
        damaged[at] ^= 1;
        refused(&damaged, &format!("byte {at}"));
        refused(&good[..at], &format!("cut at {at}"));
    }
    refused(&[&good[..], b"more"].concat(), "with more");
    // Frames that are whole, in another order, or one of them left out.
    let length = |at: usize| u32::from_le_bytes(good[at..at + 4].try_into().unwrap()) as usize + 36;
    let first = 12 + length(12);
    let second = first + length(first);
    refused(&[&good[..first], &good[second..]].concat(), "without its first records");
    let third = second + length(second);
    let swapped = [&good[..first], &good[second..third], &good[first..second], &good[third..]].concat();
    refused(&swapped, "with two frames swapped");
    std::fs::write(&file, &good).unwrap();
    restore(&place.database("again.db"), &node(), AT, &file).unwrap();
}

#[test]
fn a_backup_is_restored_for_its_node_into_an_empty_place_that_nobody_uses() {
    let place = Place::new();
    let file = some(&place);
    let other = Name::new("PartyB", "London", "GB").unwrap();
    let result = restore(&place.database("again.db"), &other, AT, &file);
    assert!(matches!(&result, Err(BackupError::OtherNode { of, .. }) if *of == node()), "{result:?}");
    assert!(!place.is_there("again.db"));

    // A node that runs, and the same one when it has ended.
    let running = Sqlite::open(&place.options("node.db")).unwrap();
    let result = restore(&place.database("node.db"), &node(), AT, &file);
    assert!(matches!(result, Err(BackupError::Store(StoreError::InUse { .. }))), "{result:?}");
    drop(running);
    let result = restore(&place.database("node.db"), &node(), AT, &file);
    assert!(matches!(result, Err(BackupError::NotEmpty { .. })), "{result:?}");
    std::fs::write(place.file("again.db-wal"), "a log without its file").unwrap();
    let result = restore(&place.database("again.db"), &node(), AT, &file);
    assert!(matches!(result, Err(BackupError::NotEmpty { .. })), "{result:?}");

    let result = back_up(&place.database("node.db"), &node(), TAKEN, &file);
    assert!(matches!(result, Err(BackupError::Exists { .. })), "{result:?}");
    let result = back_up(&place.database("none.db"), &node(), TAKEN, &place.file("none.backup"));
    assert!(matches!(result, Err(BackupError::Store(StoreError::Unreachable(_)))), "{result:?}");
    assert!(!place.is_there("none.db") && !place.is_there("none.backup"));
}

#[test]
fn a_backup_of_a_newer_schema_is_refused() {
    let place = Place::new();
    Sqlite::open(&place.options("node.db")).unwrap();
    let newer = rusqlite::Connection::open(place.file("node.db")).unwrap();
    newer.execute_batch("PRAGMA user_version = 99").unwrap();
    let file = place.file("node.backup");
    let result = back_up(&place.database("node.db"), &node(), TAKEN, &file);
    assert!(matches!(result, Err(BackupError::Store(StoreError::Newer { found: 99, .. }))), "{result:?}");
    let head = Head::new(&node(), 99, TAKEN);
    Writer::create(&file, &head).unwrap().finish(&head).unwrap();
    let result = restore(&place.database("again.db"), &node(), AT, &file);
    assert!(matches!(result, Err(BackupError::Store(StoreError::Newer { found: 99, .. }))), "{result:?}");
    assert!(!place.is_there("again.db"));
}

/// A table or column that the schema does not have is never put into SQL.
#[test]
fn names_of_the_file_do_not_reach_the_database() {
    let place = Place::new();
    let head = Head::new(&node(), 6, TAKEN);
    for (nth, (name, columns)) in [
        ("store; DROP TABLE flow", vec!["queue"]),
        ("store", vec!["queue) SELECT randomblob(1); --"]),
        ("store", vec![]),
        ("store", vec!["queue", "queue"]),
    ]
    .into_iter()
    .enumerate()
    {
        let file = place.file(&format!("{nth}.backup"));
        let mut writer = Writer::create(&file, &head).unwrap();
        let columns = columns.into_iter().map(str::to_owned).collect();
        writer.push(&Record::Table { name: name.to_owned(), columns }).unwrap();
        writer.finish(&head).unwrap();
        let result = restore(&place.database("again.db"), &node(), AT, &file);
        assert!(matches!(result, Err(BackupError::Damaged { .. })), "{name}: {result:?}");
    }
}
