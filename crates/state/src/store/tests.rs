use std::collections::BTreeMap;
use std::ops::Bound;
use std::path::Path;

use proptest::prelude::*;

use super::{Batch, Database, Durability, Snapshot, StoreError, StoreOptions, Table};

mod disk;

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// Small enough that a few kilobytes make segments and merges.
const SMALL: StoreOptions = StoreOptions { cache_bytes: 1 << 20, write_buffer_bytes: 2 << 10 };
const LARGE: StoreOptions = StoreOptions { cache_bytes: 1 << 20, write_buffer_bytes: 1 << 30 };

fn all(snapshot: &Snapshot, table: Table) -> Model {
    let entries = snapshot.range(table, Bound::Unbounded, Bound::Unbounded);
    entries.map(|entry| entry.unwrap()).map(|(key, value)| (key, value.to_vec())).collect()
}

fn check(snapshot: &Snapshot, table: Table, model: &Model) {
    assert_eq!(&all(snapshot, table), model);
    let back: Vec<_> = snapshot
        .range_back(table, Bound::Unbounded, Bound::Unbounded)
        .map(|entry| entry.unwrap().0)
        .collect();
    assert!(back.iter().eq(model.keys().rev()));
    for number in 0..=255u8 {
        for key in [vec![number], vec![number, 7], vec![7, number, 0]] {
            assert_eq!(snapshot.get(table, &key).unwrap().as_deref(), model.get(&key).map(|v| &v[..]));
        }
        let of_prefix = |key: &&Vec<u8>| key.first() == Some(&number);
        let expected: Vec<_> = model.keys().filter(of_prefix).cloned().collect();
        let found: Vec<_> = snapshot.prefix(table, &[number]).map(|entry| entry.unwrap().0).collect();
        assert_eq!(found, expected);
        let found: Vec<_> = snapshot.prefix_back(table, &[number]).map(|entry| entry.unwrap().0).collect();
        assert!(found.iter().rev().eq(expected.iter()));
        let bound = [number, 7];
        let below = snapshot.range_back(table, Bound::Unbounded, Bound::Excluded(&bound)).next();
        let expected = model.range(..bound.to_vec()).next_back().map(|(key, _)| key.clone());
        assert_eq!(below.map(|entry| entry.unwrap().0), expected);
        let above = snapshot.range(table, Bound::Excluded(&bound), Bound::Unbounded).next();
        let expected = model.range((Bound::Excluded(bound.to_vec()), Bound::Unbounded)).next();
        assert_eq!(above.map(|entry| entry.unwrap().0), expected.map(|(key, _)| key.clone()));
    }
    assert_eq!(snapshot.first(table).unwrap().map(|it| it.0).as_ref(), model.keys().next());
    assert_eq!(snapshot.last(table).unwrap().map(|it| it.0).as_ref(), model.keys().next_back());
}

#[derive(Clone, Debug)]
enum Step {
    Commit(Vec<(bool, Vec<u8>, Option<usize>)>),
    Settle,
    Reopen,
    Look,
}

fn step() -> impl Strategy<Value = Step> {
    let key = prop_oneof![
        any::<u8>().prop_map(|a| vec![a]),
        any::<u8>().prop_map(|a| vec![a, 7]),
        any::<u8>().prop_map(|a| vec![7, a, 0]),
    ];
    let operation = (any::<bool>(), key, proptest::option::weighted(0.7, 0..300usize));
    prop_oneof![
        8 => proptest::collection::vec(operation, 0..40).prop_map(Step::Commit),
        1 => Just(Step::Settle),
        1 => Just(Step::Reopen),
        2 => Just(Step::Look),
    ]
}

fn run(steps: &[Step], directory: Option<(&Path, StoreOptions)>) {
    let open = || match directory {
        Some((directory, options)) => Database::open(directory, options).unwrap(),
        None => Database::in_memory(),
    };
    let mut database = open();
    let tables = [database.table("one").unwrap(), database.table("two").unwrap()];
    let mut models = [Model::new(), Model::new()];
    let mut kept: Vec<(Snapshot, [Model; 2])> = Vec::new();
    let mut fill = 0u8;
    for step in steps {
        match step {
            Step::Commit(operations) => {
                let mut batch = Batch::new();
                for (second, key, value) in operations {
                    fill = fill.wrapping_add(1);
                    let number = usize::from(*second);
                    match value {
                        Some(length) => {
                            let value = vec![fill; *length];
                            batch.put(tables[number], key, &value);
                            models[number].insert(key.clone(), value);
                        }
                        None => {
                            batch.delete(tables[number], key);
                            models[number].remove(key);
                        }
                    }
                }
                database.commit(batch, Durability::Buffered).unwrap();
            }
            Step::Settle => database.settle().unwrap(),
            Step::Reopen if directory.is_some() => {
                drop(database);
                database = open();
                assert_eq!(database.table("two").unwrap(), tables[1]);
            }
            Step::Reopen => {}
            Step::Look => kept.push((database.snapshot(), models.clone())),
        }
    }
    kept.push((database.snapshot(), models));
    for (snapshot, models) in &kept {
        for number in 0..2 {
            check(snapshot, tables[number], &models[number]);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_store_is_a_sorted_map(steps in proptest::collection::vec(step(), 1..60)) {
        run(&steps, None);
        let directory = tempfile::tempdir().unwrap();
        run(&steps, Some((&directory.path().join("small"), SMALL)));
        run(&steps, Some((&directory.path().join("large"), LARGE)));
    }
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}

fn journal_of(directory: &Path) -> std::path::PathBuf {
    let names = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    names.filter(|path| path.extension().is_some_and(|it| it == "journal")).max().unwrap()
}

/// A store of five synced batches in one journal, and its contents after each.
fn five_batches(directory: &Path) -> Vec<Model> {
    let database = Database::open(directory, LARGE).unwrap();
    let table = database.table("t").unwrap();
    let mut models = vec![Model::new()];
    for number in 0..5u8 {
        let mut model = models.last().unwrap().clone();
        let mut batch = Batch::new();
        for key in 0..3 {
            batch.put(table, [key, number], [number; 9]);
            model.insert(vec![key, number], vec![number; 9]);
        }
        batch.delete(table, [0, number.wrapping_sub(1)]);
        model.remove(&vec![0, number.wrapping_sub(1)]);
        database.commit(batch, Durability::Synced).unwrap();
        models.push(model);
    }
    models
}

#[test]
fn a_journal_torn_at_any_byte_opens_at_a_committed_batch() {
    let base = tempfile::tempdir().unwrap();
    let whole = base.path().join("whole");
    let models = five_batches(&whole);
    let bytes = std::fs::read(journal_of(&whole)).unwrap();
    let mut seen = 0;
    for length in 0..=bytes.len() {
        for garbage in [0, 40] {
            let torn = base.path().join("torn");
            copy(&whole, &torn);
            let mut kept = bytes[..length].to_vec();
            kept.resize(length + garbage, 0xa5);
            std::fs::write(journal_of(&torn), kept).unwrap();
            let database = Database::open(&torn, LARGE).unwrap();
            let table = database.table("t").unwrap();
            let found = all(&database.snapshot(), table);
            let number = models.iter().position(|model| *model == found).expect("a committed state");
            assert!(number >= seen, "a longer journal has no fewer batches");
            seen = number;
            // What was torn is gone for good: new batches follow the good ones.
            let mut batch = Batch::new();
            batch.put(table, b"after", b"the crash");
            database.commit(batch, Durability::Synced).unwrap();
            drop(database);
            let database = Database::open(&torn, LARGE).unwrap();
            assert_eq!(all(&database.snapshot(), table).len(), found.len() + 1);
            drop(database);
            std::fs::remove_dir_all(&torn).unwrap();
        }
    }
    assert_eq!(seen, 5);
}

#[test]
fn damage_to_a_batch_that_was_durable_is_an_error_not_a_loss() {
    let base = tempfile::tempdir().unwrap();
    let whole = base.path().join("whole");
    let models = five_batches(&whole);
    let bytes = std::fs::read(journal_of(&whole)).unwrap();
    let last_record = bytes.windows(4).rposition(|window| window == b"tlyb").unwrap();
    for at in (0..bytes.len()).step_by(3) {
        let damaged = base.path().join("damaged");
        copy(&whole, &damaged);
        let mut changed = bytes.clone();
        changed[at] ^= 0x10;
        std::fs::write(journal_of(&damaged), changed).unwrap();
        match Database::open(&damaged, LARGE) {
            Err(StoreError::Corrupt { path, .. }) => {
                assert_eq!(path, journal_of(&damaged));
                assert!(at < last_record);
            }
            Ok(database) => {
                assert!(at >= last_record, "damage at {at} went unnoticed");
                let table = database.table("t").unwrap();
                assert_eq!(all(&database.snapshot(), table), models[4]);
            }
            Err(other) => panic!("{other}"),
        }
        std::fs::remove_dir_all(&damaged).unwrap();
    }
}

#[test]
fn a_crash_before_or_after_the_manifest_changes_nothing() {
    let base = tempfile::tempdir().unwrap();
    let before = base.path().join("before");
    let models = five_batches(&before);
    let journal = journal_of(&before);
    let after = base.path().join("after");
    copy(&before, &after);
    {
        let database = Database::open(&after, LARGE).unwrap();
        database.table("t").unwrap();
        database.settle().unwrap();
    }
    // The new segments are there, the manifest that names them is not.
    let early = base.path().join("early");
    copy(&after, &early);
    copy(&before, &early);
    // The manifest is there, the journal it makes superfluous still is as well.
    std::fs::copy(&journal, after.join(journal.file_name().unwrap())).unwrap();
    for directory in [early, after] {
        let database = Database::open(&directory, LARGE).unwrap();
        let table = database.table("t").unwrap();
        assert_eq!(all(&database.snapshot(), table), models[5]);
        drop(database);
        let database = Database::open(&directory, LARGE).unwrap();
        assert_eq!(all(&database.snapshot(), table), models[5]);
    }
}

#[test]
fn a_damaged_segment_or_manifest_is_named() {
    let base = tempfile::tempdir().unwrap();
    let directory = base.path().join("store");
    five_batches(&directory);
    let table = {
        let database = Database::open(&directory, LARGE).unwrap();
        database.settle().unwrap();
        database.table("t").unwrap()
    };
    let segment = std::fs::read_dir(&directory)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .find(|path| path.extension().is_some_and(|it| it == "segment"))
        .unwrap();
    for victim in [segment, directory.join("manifest")] {
        let good = std::fs::read(&victim).unwrap();
        for at in 0..good.len() {
            let mut bad = good.clone();
            bad[at] ^= 0x20;
            std::fs::write(&victim, bad).unwrap();
            let outcome = Database::open(&directory, LARGE).and_then(|database| {
                let mut entries = database.snapshot().range(table, Bound::Unbounded, Bound::Unbounded);
                entries.try_for_each(|entry| entry.map(|_| ()))
            });
            match outcome {
                Err(StoreError::Corrupt { path, .. } | StoreError::NewerFormat { path, .. }) => {
                    assert_eq!(path, victim);
                }
                other => panic!("byte {at} of {}: {other:?}", victim.display()),
            }
        }
        std::fs::write(&victim, &good[..good.len() - 1]).unwrap();
        assert!(matches!(Database::open(&directory, LARGE), Err(StoreError::Corrupt { .. })));
        std::fs::write(&victim, good).unwrap();
    }
    Database::open(&directory, LARGE).unwrap();
}

#[test]
fn one_process_at_a_time() {
    let directory = tempfile::tempdir().unwrap();
    let database = Database::open(directory.path(), LARGE).unwrap();
    assert!(matches!(Database::open(directory.path(), LARGE), Err(StoreError::Locked { .. })));
    let snapshot = database.snapshot();
    drop(database);
    Database::open(directory.path(), LARGE).unwrap();
    drop(snapshot);
}

#[test]
fn a_key_that_is_too_long_spoils_its_batch_and_no_other() {
    let database = Database::in_memory();
    let table = database.table("t").unwrap();
    let mut batch = Batch::new();
    batch.put(table, [1], [1]);
    batch.put(table, vec![0; 2000], [1]);
    assert!(matches!(
        database.commit(batch, Durability::Synced),
        Err(StoreError::TooLong { what: "key", length: 2000, .. })
    ));
    assert_eq!(database.snapshot().get(table, [1]).unwrap(), None);
    let mut batch = Batch::new();
    batch.put(table, [2], [1]);
    database.commit(batch, Durability::Synced).unwrap();
    assert!(database.snapshot().get(table, [2]).unwrap().is_some());
}

#[test]
fn readers_see_whole_batches_while_files_are_written_and_merged() {
    let directory = tempfile::tempdir().unwrap();
    let database = Database::open(directory.path(), SMALL).unwrap();
    let table = database.table("t").unwrap();
    let put = |round: u32| {
        let mut batch = Batch::new();
        for key in 0..50u32 {
            batch.put(table, key.wrapping_mul(0x9e37_79b9).to_be_bytes(), round.to_be_bytes());
        }
        database.commit(batch, Durability::Buffered).unwrap();
    };
    put(0);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| (1..400).for_each(put));
        let mut last = Vec::new();
        while !writer.is_finished() {
            let snapshot = database.snapshot();
            let values: Vec<_> = all(&snapshot, table).into_values().collect();
            assert_eq!(values.len(), 50);
            assert!(values.iter().all(|value| *value == values[0]));
            assert!(values[0] >= last);
            last = values[0].clone();
        }
    });
    database.settle().unwrap();
    assert!(database.memory_bytes() < (1 << 20) + (8 << 10));
    assert!(database.size_bytes(table) < 8 << 10, "overwritten values are gone once merged");
}
