use std::fs;

use super::*;

fn filled(directory: &Path) -> Vec<Vec<u8>> {
    let mut storage = FileStorage::open(directory).unwrap();
    let batches: Vec<Vec<u8>> = (1..=5_u8).map(|n| vec![n; usize::from(n) * 100]).collect();
    for (height, batch) in (1..).zip(&batches) {
        storage.append(height, batch).unwrap();
        storage.persist(format!("record {height}").as_bytes()).unwrap();
    }
    batches
}

#[test]
fn what_was_kept_is_there_again() {
    let directory = tempfile::tempdir().unwrap();
    let batches = filled(directory.path());
    let mut storage = FileStorage::open(directory.path()).unwrap();
    assert!(matches!(FileStorage::open(directory.path()), Err(StorageError::InUse(_))));
    assert_eq!((storage.height(), storage.record().unwrap().unwrap()), (5, b"record 5".to_vec()));
    assert_eq!(storage.batches(1, usize::MAX).unwrap(), batches);
    assert_eq!(storage.batches(2, 600).unwrap(), batches[1..3]);
    assert_eq!(storage.batches(4, 1).unwrap(), batches[3..4], "one at least");
    assert_eq!(storage.batches(6, 1_000).unwrap(), Vec::<Vec<u8>>::new());
    assert!(matches!(storage.append(7, b"x"), Err(StorageError::Gap { expected: 6, found: 7 })));
    storage.append(6, b"x").unwrap();
    assert_eq!(storage.batches(6, 1_000).unwrap(), [b"x"]);
}

#[test]
fn what_was_cut_off_while_it_was_written_is_dropped_and_written_anew() {
    let directory = tempfile::tempdir().unwrap();
    let batches = filled(directory.path());
    let path = directory.path().join("batches");
    let whole = fs::read(&path).unwrap();
    let last = whole.len() - 540;
    for cut in (last + 1)..whole.len() {
        fs::write(&path, &whole[..cut]).unwrap();
        let mut storage = FileStorage::open(directory.path()).unwrap();
        assert_eq!(storage.batches(1, usize::MAX).unwrap(), batches[..4], "cut at {cut}");
        storage.append(5, &batches[4]).unwrap();
        drop(storage);
        assert_eq!(fs::read(&path).unwrap(), whole);
    }
    // The file has grown, and nothing or little was written there.
    for written in [0, 3, 20, 40, 100] {
        let mut grown = whole.clone();
        grown[last + written..].fill(0);
        fs::write(&path, &grown).unwrap();
        let storage = FileStorage::open(directory.path()).unwrap();
        assert_eq!(storage.batches(1, usize::MAX).unwrap(), batches[..4], "{written} bytes");
    }
}

#[test]
fn damage_is_an_error_and_no_loss() {
    let directory = tempfile::tempdir().unwrap();
    filled(directory.path());
    let path = directory.path().join("batches");
    let whole = fs::read(&path).unwrap();
    for at in [0, 3, 6, 20, 60, 310, whole.len() - 600] {
        let mut damaged = whole.clone();
        damaged[at] ^= 1;
        fs::write(&path, damaged).unwrap();
        let found = FileStorage::open(directory.path());
        assert!(matches!(found, Err(StorageError::Damaged { .. })), "at {at}: {found:?}");
    }
}

#[test]
fn a_record_that_was_cut_off_leaves_the_one_before_and_two_are_an_error() {
    let directory = tempfile::tempdir().unwrap();
    filled(directory.path());
    let paths = ["record-0", "record-1"].map(|name| directory.path().join(name));
    let [newest, before] = paths.each_ref().map(|path| fs::read(path).unwrap());
    for cut in 1..newest.len() {
        fs::write(&paths[0], &newest[..cut]).unwrap();
        let storage = FileStorage::open(directory.path()).unwrap();
        assert_eq!(storage.record().unwrap().unwrap(), b"record 4", "cut at {cut}");
    }
    fs::write(&paths[1], &before[..before.len() - 1]).unwrap();
    assert!(matches!(FileStorage::open(directory.path()), Err(StorageError::Damaged { .. })));
}

#[test]
fn the_first_record_may_be_cut_off() {
    let directory = tempfile::tempdir().unwrap();
    FileStorage::open(directory.path()).unwrap().persist(b"one").unwrap();
    let path = directory.path().join("record-0");
    fs::write(&path, &fs::read(&path).unwrap()[..7]).unwrap();
    let mut storage = FileStorage::open(directory.path()).unwrap();
    assert_eq!(storage.record().unwrap(), None);
    storage.persist(b"again").unwrap();
    drop(storage);
    assert_eq!(FileStorage::open(directory.path()).unwrap().record().unwrap().unwrap(), b"again");
}
