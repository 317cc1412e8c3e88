use super::*;
use crate::contract::{SCHEMA_1, check_migrated};
use crate::write::NewFlow;
use tally_contracts::Timestamp;

fn flow(id: u8) -> Write {
    Write::FlowStarted(NewFlow {
        flow: [id; 16],
        name: "Pay".to_owned(),
        version: 1,
        arguments: vec![id; 1000],
        origin: Vec::new(),
        seed: [id; 32],
        at: Timestamp::from_millis(5),
    })
}

#[test]
fn a_full_disk_is_transient_and_the_same_batch_applies_later() {
    let directory = tempfile::tempdir().unwrap();
    let store = Sqlite::open(&SqliteOptions::new(directory.path().join("node.db"))).unwrap();
    store.apply(&[flow(1)]).unwrap();
    store.limit_pages(1);
    let batch: Vec<Write> = (2..100).map(flow).collect();
    let full = store.apply(&batch);
    assert!(matches!(&full, Err(StoreError::Full(_))), "{full:?}");
    assert!(full.unwrap_err().is_transient());
    assert_eq!(store.unfinished_flows(None, 1000).unwrap().len(), 1);
    // The limit goes with the connection, which is opened anew.
    store.apply(&batch).unwrap();
    assert_eq!(store.unfinished_flows(None, 1000).unwrap().len(), 99);
}

#[test]
fn one_process_has_a_store_for_itself() {
    let directory = tempfile::tempdir().unwrap();
    let options = SqliteOptions::new(directory.path().join("node.db"));
    let store = Sqlite::open(&options).unwrap();
    assert!(matches!(Sqlite::open(&options), Err(StoreError::InUse { .. })));
    drop(store);
    Sqlite::open(&options).unwrap();
}

#[test]
fn keeps_the_contract() {
    let directory = tempfile::tempdir().unwrap();
    let count = std::cell::Cell::new(0);
    crate::contract::check(&|| {
        let options =
            SqliteOptions::new(directory.path().join(format!("{}.db", count.replace(count.get() + 1))));
        Box::new(move || Ok(std::sync::Arc::new(Sqlite::open(&options)?)))
    });
}

/// A file that holds a database of schema 1.
fn schema_1(options: &SqliteOptions) {
    let file = Connection::open(&options.path).unwrap();
    file.execute_batch(STEPS[0].sql).unwrap();
    file.execute_batch(SCHEMA_1).unwrap();
    file.execute_batch("PRAGMA application_id = 0x54414c59; PRAGMA user_version = 1;").unwrap();
}

fn directory() -> (tempfile::TempDir, SqliteOptions) {
    let directory = tempfile::tempdir().unwrap();
    let options = SqliteOptions::new(directory.path().join("node.db"));
    (directory, options)
}

#[test]
fn an_earlier_schema_migrates_with_its_data() {
    let (_directory, options) = directory();
    schema_1(&options);
    check_migrated(&Sqlite::open(&options).unwrap());
}

#[test]
fn a_step_that_fails_leaves_the_file_as_it_was() {
    let (_directory, options) = directory();
    schema_1(&options);
    // What the second step wants to make is there already.
    let file = Connection::open(&options.path).unwrap();
    file.execute_batch("CREATE TABLE class_posting (mine INTEGER)").unwrap();
    let failed = Sqlite::open(&options);
    assert!(matches!(failed, Err(StoreError::Migration { to: 2, .. })));
    let version: i64 = file.pragma_query_value(None, "user_version", |row| row.get(0)).unwrap();
    assert_eq!(version, 1);
    file.execute_batch("DROP TABLE class_posting").unwrap();
    check_migrated(&Sqlite::open(&options).unwrap());
}

#[test]
fn refuses_files_that_are_not_its_own() {
    let (_directory, options) = directory();
    let open = || Sqlite::open(&options).map(drop);
    std::fs::write(
        &options.path,
        "This is not a database, but it is longer than the header of one would be. ".repeat(9),
    )
    .unwrap();
    assert!(matches!(open(), Err(StoreError::Foreign { .. })), "{:?}", open());
    std::fs::remove_file(&options.path).unwrap();
    let file = Connection::open(&options.path).unwrap();
    file.execute_batch("CREATE TABLE theirs (id INTEGER)").unwrap();
    assert!(matches!(open(), Err(StoreError::Foreign { .. })), "{:?}", open());
    drop(file);
    std::fs::remove_file(&options.path).unwrap();
    open().unwrap();
    Connection::open(&options.path).unwrap().execute_batch("PRAGMA user_version = 7").unwrap();
    assert!(matches!(open(), Err(StoreError::Newer { found: 7, known: 6 })), "{:?}", open());
    let nowhere = SqliteOptions::new("/nonexistent/node.db");
    let refused = Sqlite::open(&nowhere).map(drop);
    assert!(matches!(&refused, Err(StoreError::Unreachable(_))), "{refused:?}");
}

/// A fault in a row is an error that names the table and the row, and never a panic.
#[test]
fn damaged_rows_are_named() {
    let (_directory, options) = directory();
    schema_1(&options);
    let store = Sqlite::open(&options).unwrap();
    let file = Connection::open(&options.path).unwrap();
    let everything = || -> Result<()> {
        use tally_contracts::TransactionId as Id;
        let (b, key) =
            ("O=B, L=London, C=GB".parse().unwrap(), tally_crypto::sign::PublicKey::from_bytes([1; 32]));
        let state = StateRef { transaction: Id::from_bytes([1; 32]), index: 0 };
        store.unfinished_flows(None, 10)?;
        store.flows(&FlowQuery::default())?;
        store.queues()?;
        store.outbound(&b, 0, 10)?;
        store.transactions(&[Id::from_bytes([1; 32]), Id::from_bytes([3; 32])])?;
        store.dependencies([1; 16], None, 10)?;
        store.states(&StateQuery { status: crate::Status::All, ..StateQuery::default() })?;
        store.coins("USD@O=Bank, L=London, C=GB", &key.into(), None, 10)?;
        store.locks()?;
        store.consumed(&[state])?;
        Ok(())
    };
    everything().unwrap();
    for (table, damage, row) in [
        ("flow", "UPDATE flow SET id = X'00' WHERE number = 1", "1"),
        ("flow", "UPDATE flow SET name = X'ff' WHERE number = 1", "1"),
        ("flow", "UPDATE flow SET version = -1 WHERE number = 1", "1"),
        ("flow", "UPDATE flow SET seed = 'text' WHERE number = 1", "1"),
        ("flow", "UPDATE flow SET mark = 3 WHERE number = 1", "1"),
        ("flow", "UPDATE flow SET ended = NULL WHERE number = 2", "2"),
        ("part", "UPDATE part SET key = X'00' WHERE kind = 0", "1"),
        ("part", "UPDATE part SET key = X'00' WHERE kind = 1", "1"),
        ("part", "UPDATE part SET key = X'00' WHERE kind = 2", "1"),
        ("part", "UPDATE part SET key = X'00' WHERE kind = 3", "00"),
        ("part", "UPDATE part SET flow = 2 WHERE kind = 0", "2"),
        ("peer", "UPDATE peer SET name = X'00'", "1"),
        ("peer", "UPDATE peer SET id = -5", "-5"),
        ("store", "UPDATE store SET queue = X'00'", "00"),
        ("received", "UPDATE received SET queue = X'00'", "1"),
        ("received", "UPDATE received SET up_to = -1", "1"),
        ("ledger", "UPDATE ledger SET bytes = 5 WHERE number = 3", &"03".repeat(32)),
        ("state", "UPDATE ledger SET id = X'00' WHERE number = 3", "3145728"),
        ("state", "UPDATE ledger SET recorded = -1 WHERE number = 3", "3145728"),
        ("state", "UPDATE state SET participants = X'01' WHERE key = 3145728", "3145728"),
        ("state", "UPDATE state SET state = X'ffffffff' WHERE key = 3145728", "3145728"),
        ("state", "UPDATE state SET details = X'7b' WHERE key = 1048576", "1048576"),
        ("state", "UPDATE state SET linear = X'00' WHERE key = 3145728", "3145728"),
        ("state", "UPDATE state SET consumer = 99 WHERE key = 1048576", "1048576"),
        ("state", "UPDATE state SET state = X'00' WHERE key = 1048577", "1048577"),
        ("state", "UPDATE term SET value = X'ff' WHERE id = 2", "1048576"),
        ("state", "UPDATE term SET value = X'ff' WHERE id = 1", "1048576"),
        ("spent", "UPDATE spent SET consumer = X'00'", &("01".repeat(32) + "00000000")),
        ("spent", "UPDATE spent SET requester = 7", &("01".repeat(32) + "00000000")),
    ] {
        let copy = options.path.with_extension("copy");
        file.execute("VACUUM INTO ?1", [copy.to_str().unwrap()]).unwrap();
        file.execute_batch(damage).unwrap();
        match everything() {
            Err(StoreError::Row { table: found, key, reason }) => {
                assert_eq!((found, key.as_str()), (table, row), "{damage}: {reason}");
            }
            other => panic!("{damage}: {other:?}"),
        }
        restore(&file, &copy);
        everything().unwrap();
    }
}

/// Puts the rows back that a copy has.
fn restore(file: &Connection, copy: &std::path::Path) {
    file.execute("ATTACH ?1 AS copy", [copy.to_str().unwrap()]).unwrap();
    let mut tables = file.prepare("SELECT name FROM copy.sqlite_schema WHERE type = 'table'").unwrap();
    let tables: Vec<String> =
        tables.query_map([], |row| row.get(0)).unwrap().collect::<Result<_, _>>().unwrap();
    for table in tables {
        file.execute_batch(&format!(
            "DELETE FROM main.{table}; INSERT INTO main.{table} SELECT * FROM copy.{table};"
        ))
        .unwrap();
    }
    file.execute_batch("DETACH copy").unwrap();
    std::fs::remove_file(copy).unwrap();
}
