//! A disk that is full, that fails to sync, that loses power at any moment, whose bytes change.

use std::io;
use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tally_sim::{Rng, SimDisk, SimFile};

use super::super::directory::{Directory, Disk, DiskFile, Lock};
use super::super::{Batch, Database, Durability, StoreError, StoreOptions, Table};
use super::Model;

/// Files are written when the test says so: what happens on the disk follows from the test alone.
const QUIET: StoreOptions = StoreOptions { cache_bytes: 1 << 20, write_buffer_bytes: 1 << 30 };

/// What goes wrong, from which operation on, and for how many.
#[derive(Clone, Copy, Debug)]
struct Fault {
    kind: Kind,
    from: u64,
    count: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// No room for a new file; of a write, the first half is there.
    Full,
    /// What was to be made durable is not, and may be lost.
    Sync,
    /// A file cannot be renamed or removed.
    Names,
}

/// A simulated disk, and what goes wrong with it beyond what that does by itself.
#[derive(Clone, Debug)]
struct Faulty {
    disk: SimDisk,
    fault: Option<Fault>,
    /// Operations of the fault's kind so far.
    done: Arc<AtomicU64>,
}

impl Faulty {
    fn new(disk: &SimDisk, fault: Option<Fault>) -> Self {
        Self { disk: disk.clone(), fault, done: Arc::default() }
    }

    /// Whether this operation goes wrong.
    fn fails(&self, kind: Kind) -> bool {
        let Some(fault) = self.fault.filter(|fault| fault.kind == kind) else { return false };
        let number = self.done.fetch_add(1, Ordering::Relaxed);
        number >= fault.from && number - fault.from < fault.count
    }

    fn happened(&self) -> bool {
        self.fault.is_some_and(|fault| self.done.load(Ordering::Relaxed) > fault.from)
    }

    fn open(&self) -> Result<Database, StoreError> {
        Database::open_in(Directory::on(Path::new("sim"), Arc::new(self.clone())), QUIET)
    }

    fn file(&self, file: SimFile) -> Box<dyn DiskFile> {
        Box::new(FaultyFile { file, disk: self.clone() })
    }
}

impl Disk for Faulty {
    fn create(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        if self.fails(Kind::Full) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let file = match self.disk.open(name) {
            Ok(file) => file.set_len(0).map(|()| file),
            Err(error) if error.kind() == io::ErrorKind::NotFound => self.disk.create(name),
            Err(error) => Err(error),
        };
        Ok(self.file(file?))
    }

    fn open(&self, name: &str, _write: bool) -> io::Result<Box<dyn DiskFile>> {
        Ok(self.file(self.disk.open(name)?))
    }

    fn list(&self) -> io::Result<Vec<String>> {
        self.disk.list()
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        if self.fails(Kind::Names) {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        self.disk.remove(name)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        if self.fails(Kind::Names) {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        self.disk.rename(from, to)
    }

    fn sync_names(&self) -> io::Result<()> {
        if self.fails(Kind::Sync) {
            self.disk.fail_sync(0);
        }
        self.disk.sync_dir()
    }

    fn try_lock(&self, name: &str) -> io::Result<Option<Lock>> {
        Ok(self.disk.try_lock(name)?.map(|lock| Box::new(lock) as Lock))
    }
}

#[derive(Debug)]
struct FaultyFile {
    file: SimFile,
    disk: Faulty,
}

impl DiskFile for FaultyFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.file.read_at(buffer, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        if self.disk.fails(Kind::Full) {
            self.file.write_at(&bytes[..bytes.len() / 2], offset)?;
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.file.write_at(bytes, offset)
    }

    fn sync(&self) -> io::Result<()> {
        if self.disk.fails(Kind::Sync) {
            self.disk.disk.fail_sync(0);
        }
        self.file.sync_data()
    }

    fn cut(&self, length: u64) -> io::Result<()> {
        self.file.set_len(length)
    }

    fn length(&self) -> io::Result<u64> {
        self.file.len()
    }
}

const TABLES: [&str; 2] = ["one", "two"];
const COMMITS: u8 = 24;

/// Two tables at one moment.
type Tables = [Model; 2];

/// What was told to whoever writes.
struct Story {
    now: Tables,
    /// Every moment since the last durable one, that one first.
    moments: Vec<Tables>,
    /// What a commit that failed would have led to; it may be there after a loss of power.
    unknown: Vec<Tables>,
}

impl Story {
    fn new() -> Self {
        Self { now: Tables::default(), moments: vec![Tables::default()], unknown: Vec::new() }
    }

    fn done(&mut self, next: Tables, durability: Durability) {
        self.now = next;
        if durability == Durability::Synced {
            self.moments.clear();
            self.unknown.clear();
        }
        self.moments.push(self.now.clone());
    }

    fn may_be(&self, found: &Tables) -> bool {
        self.moments.contains(found) || self.unknown.contains(found)
    }
}

/// What is in the store, each key read in both ways.
fn contents(database: &Database) -> Result<Tables, StoreError> {
    let snapshot = database.snapshot();
    let mut all = Tables::default();
    for (name, model) in TABLES.iter().zip(&mut all) {
        let table = database.table(name)?;
        for entry in snapshot.range(table, Bound::Unbounded, Bound::Unbounded) {
            let (key, value) = entry?;
            assert_eq!(snapshot.get(table, &key)?.as_deref(), Some(&*value));
            model.insert(key, value.to_vec());
        }
    }
    Ok(all)
}

/// The batch of a number, and what it leads to.
fn batch(tables: &[Table], number: u8, before: &Tables) -> (Batch, Tables, Durability) {
    let (mut batch, mut after) = (Batch::new(), before.clone());
    let mut rng = Rng::new(u64::from(number));
    for _ in 0..rng.below(12) + 1 {
        let (at, key) = (rng.index(2), vec![rng.below(20) as u8, 7]);
        if rng.chance(1, 4) {
            batch.delete(tables[at], &key);
            after[at].remove(&key);
        } else {
            let value = vec![number; rng.index(400)];
            batch.put(tables[at], &key, &value);
            after[at].insert(key, value);
        }
    }
    let durability = if rng.chance(1, 3) { Durability::Buffered } else { Durability::Synced };
    (batch, after, durability)
}

/// Writes on, files and merges included. What fails is tried again `again` times; the error that then remains.
fn write(database: &Database, story: &mut Story, again: u32) -> Result<(), StoreError> {
    let tables = TABLES.map(|name| retry(again, || database.table(name)));
    let [one, two] = tables;
    let tables = [one?, two?];
    for number in 0..COMMITS {
        let (batch, after, durability) = batch(&tables, number, &story.now);
        let attempt = || {
            let outcome = database.commit(batch.clone(), durability);
            // Without power nothing can be read either.
            if outcome.is_err()
                && let Ok(found) = contents(database)
            {
                assert_eq!(found, story.now, "nothing of it is seen");
            }
            outcome
        };
        if let Err(error) = retry(again, attempt) {
            story.unknown.push(after);
            return Err(error);
        }
        story.done(after, durability);
        if number % 3 == 2 {
            retry(again, || database.settle())?;
        }
    }
    Ok(())
}

fn retry<T>(again: u32, mut attempt: impl FnMut() -> Result<T, StoreError>) -> Result<T, StoreError> {
    let mut left = again;
    loop {
        match attempt() {
            Err(_) if left > 0 => left -= 1,
            outcome => return outcome,
        }
    }
}

/// Opens the store again, whose contents must be of a moment that the story allows, and writes on.
#[track_caller]
fn goes_on(disk: &SimDisk, story: &Story, what: &str) {
    let database = Faulty::new(disk, None).open().unwrap_or_else(|error| panic!("{what}: {error}"));
    let found = contents(&database).unwrap_or_else(|error| panic!("{what}: {error}"));
    assert!(story.may_be(&found), "{what}: {found:?}");
    let mut story = Story { now: found, ..Story::new() };
    write(&database, &mut story, 0).unwrap_or_else(|error| panic!("{what}: {error}"));
    drop(database);
    let database = Faulty::new(disk, None).open().unwrap_or_else(|error| panic!("{what}: {error}"));
    assert_eq!(contents(&database).unwrap(), story.now, "{what}");
    assert_tidy(disk, &database, what);
}

/// Nothing is on the disk that does not count.
#[track_caller]
fn assert_tidy(disk: &SimDisk, database: &Database, what: &str) {
    database.settle().unwrap();
    let names = disk.list().unwrap();
    let count = |ending: &str| names.iter().filter(|name| name.ends_with(ending)).count();
    assert_eq!(count(".segment"), database.segments(), "{what}: {names:?}");
    assert_eq!(count(".journal"), 1, "{what}: {names:?}");
    assert_eq!(names.len(), count(".segment") + 2, "{what}: {names:?}");
}

#[test]
fn the_workload_writes_files_and_merges_them() {
    let disk = SimDisk::new(1);
    let mut story = Story::new();
    {
        let database = Faulty::new(&disk, None).open().unwrap();
        write(&database, &mut story, 0).unwrap();
        assert_eq!(contents(&database).unwrap(), story.now);
        assert!(database.segments() > 0 && database.segments() < 6, "they were merged");
    }
    let counts = disk.counts();
    println!("{counts:?}");
    assert!(counts.operations > 200);
    goes_on(&disk, &story, "as it was");
}

#[test]
fn a_full_disk_keeps_nothing_by_half_at_any_write_and_goes_on_when_there_is_room() {
    for count in [1, 5] {
        let mut happened = 0;
        for from in 0.. {
            let what = format!("full for {count} from operation {from} on");
            let disk = SimDisk::new(from);
            let faulty = Faulty::new(&disk, Some(Fault { kind: Kind::Full, from, count }));
            let mut story = Story::new();
            // Opening for the first time may fail as well; it is tried again as an operator would.
            let database = retry(5, || faulty.open().inspect_err(|error| assert_full(error, &what))).unwrap();
            let mut failed = 0;
            let tables = TABLES.map(|name| retry(5, || database.table(name)).unwrap());
            for number in 0..COMMITS {
                let (batch, after, durability) = batch(&tables, number, &story.now);
                while let Err(error) = database.commit(batch.clone(), durability) {
                    assert_full(&error, &what);
                    assert_eq!(contents(&database).unwrap(), story.now, "{what}");
                    failed += 1;
                }
                story.done(after, durability);
                while number % 3 == 2
                    && let Err(error) = database.settle()
                {
                    assert_full(&error, &what);
                    failed += 1;
                }
            }
            assert!(failed <= count, "{what}: {failed}");
            assert_eq!(contents(&database).unwrap(), story.now, "{what}");
            assert_tidy(&disk, &database, &what);
            drop(database);
            disk.kill();
            goes_on(&disk, &story, &what);
            if !faulty.happened() {
                break;
            }
            happened += 1;
        }
        println!("{happened} places");
        assert!(happened > 80, "{happened}");
    }
}

#[track_caller]
fn assert_full(error: &StoreError, what: &str) {
    assert!(matches!(error, StoreError::DiskFull { .. }), "{what}: {error:?}");
}

#[test]
fn what_fails_to_sync_is_never_called_durable() {
    let mut happened = 0;
    for from in 0.. {
        let what = format!("sync {from} fails");
        let disk = SimDisk::new(from);
        let faulty = Faulty::new(&disk, Some(Fault { kind: Kind::Sync, from, count: 1 }));
        let mut story = Story::new();
        if let Ok(database) = faulty.open() {
            // What is tried once more either works, or the store says that it takes nothing any more.
            if let Err(error) = write(&database, &mut story, 1) {
                assert!(matches!(error, StoreError::Stopped { .. }), "{what}: {error:?}");
                assert_eq!(contents(&database).unwrap(), story.now, "{what}: reads go on");
                let again = database.sync().unwrap_err();
                assert!(matches!(again, StoreError::Stopped { .. }), "{what}: {again:?}");
            }
        }
        let ended = disk.snapshot();
        for seed in 0..4 {
            disk.restore(&ended);
            disk.crash(&mut Rng::new(seed));
            goes_on(&disk, &story, &what);
        }
        disk.restore(&ended);
        disk.kill();
        goes_on(&disk, &story, &what);
        if !faulty.happened() {
            break;
        }
        happened += 1;
    }
    println!("{happened} places");
    assert!(happened > 40, "{happened}");
}

#[test]
fn a_file_that_cannot_be_renamed_or_removed_costs_nothing() {
    let mut happened = 0;
    for from in 0.. {
        let what = format!("rename or removal {from} fails");
        let disk = SimDisk::new(from);
        let faulty = Faulty::new(&disk, Some(Fault { kind: Kind::Names, from, count: 1 }));
        let mut story = Story::new();
        let database = retry(1, || faulty.open()).unwrap();
        write(&database, &mut story, 1).unwrap();
        assert_eq!(contents(&database).unwrap(), story.now, "{what}");
        drop(database);
        disk.crash(&mut Rng::new(from));
        goes_on(&disk, &story, &what);
        if !faulty.happened() {
            break;
        }
        happened += 1;
    }
    println!("{happened} places");
    assert!(happened > 20, "{happened}");
}

#[test]
fn power_that_goes_at_any_moment_takes_nothing_that_was_durable() {
    let whole = SimDisk::new(0);
    write(&Faulty::new(&whole, None).open().unwrap(), &mut Story::new(), 0).unwrap();
    let operations = whole.counts().operations;
    for after in 0..operations {
        let disk = SimDisk::new(after);
        disk.power_off_after(after);
        let mut story = Story::new();
        let outcome = Faulty::new(&disk, None).open().and_then(|database| write(&database, &mut story, 0));
        // The merging after the last commit may have been what it went in.
        if outcome.is_ok() {
            assert!(after + 40 > operations);
        }
        let ended = disk.snapshot();
        for seed in 0..3 {
            disk.restore(&ended);
            disk.crash(&mut Rng::new(after * 8 + seed));
            goes_on(&disk, &story, &format!("power goes after operation {after}, then seed {seed}"));
        }
        // The process alone: all that it wrote is there.
        disk.restore(&ended);
        disk.kill();
        goes_on(&disk, &story, &format!("killed after operation {after}"));
    }
}

#[test]
fn a_changed_bit_is_found_or_harmless_wherever_it_is() {
    let disk = SimDisk::new(0);
    let mut story = Story::new();
    let database = Faulty::new(&disk, None).open().unwrap();
    write(&database, &mut story, 0).unwrap();
    // A journal as well, all of it durable but for the last batch.
    let tables = TABLES.map(|name| database.table(name).unwrap());
    let mut before = story.now.clone();
    for number in [COMMITS, COMMITS + 1] {
        before.clone_from(&story.now);
        let (batch, after, _) = batch(&tables, number, &story.now);
        database.commit(batch, Durability::Synced).unwrap();
        story.done(after, Durability::Synced);
    }
    drop(database);
    assert_ne!(before, story.now);
    let (whole, mut found, mut cut) = (disk.snapshot(), 0, 0);
    let names = disk.list().unwrap();
    assert!(names.iter().any(|name| name.ends_with(".segment")));
    for name in names {
        let length = disk.content(&name).unwrap().len() as u64;
        for byte in 0..length {
            disk.restore(&whole);
            assert!(disk.flip_bit(&name, byte * 8 + byte % 8));
            let read = Faulty::new(&disk, None).open().and_then(|database| contents(&database));
            match read {
                Ok(read) if read == story.now => panic!("byte {byte} of {name} is not checked"),
                Ok(read) => {
                    // The last batch of a journal may be the torn end of a write.
                    assert!(name.ends_with(".journal"), "byte {byte} of {name}");
                    assert_eq!(read, before, "byte {byte} of {name}");
                    cut += 1;
                }
                Err(StoreError::Corrupt { path, .. } | StoreError::NewerFormat { path, .. }) => {
                    assert!(path.ends_with(&name), "{} for {name}", path.display());
                    found += 1;
                }
                Err(other) => panic!("byte {byte} of {name}: {other:?}"),
            }
        }
    }
    println!("{found} found, {cut} cut off");
    assert!(found > 1_000 && cut > 20);
}

#[test]
fn a_store_without_its_manifest_is_not_taken_for_a_new_one() {
    let disk = SimDisk::new(0);
    let mut story = Story::new();
    write(&Faulty::new(&disk, None).open().unwrap(), &mut story, 0).unwrap();
    let whole = disk.snapshot();
    disk.remove("manifest").unwrap();
    let names = disk.list().unwrap();
    let error = Faulty::new(&disk, None).open().unwrap_err();
    assert!(matches!(&error, StoreError::Corrupt { path, .. } if path.ends_with("manifest")), "{error:?}");
    assert_eq!(disk.list().unwrap(), names, "nothing was removed");
    disk.restore(&whole);
    goes_on(&disk, &story, "with it");
}
