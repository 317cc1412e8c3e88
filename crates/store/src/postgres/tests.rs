use super::*;
use crate::contract::{SCHEMA_1, check_migrated};
use crate::server::PostgresServer;
use crate::write::NewFlow;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use tally_contracts::Timestamp;

fn options(schema: &str) -> PostgresOptions {
    PostgresOptions::new(PostgresServer::shared().url(), schema)
}

fn open(schema: &str) -> Result<Postgres> {
    Postgres::open(&options(schema))
}

/// Runs SQL in a schema as its administrator would.
fn run(schema: &str, sql: &str) {
    Place::new(&options(schema)).unwrap().connect().unwrap().run(sql).unwrap();
}

fn flow(number: u64) -> Write {
    let mut id = [0; 16];
    id[..8].copy_from_slice(&number.to_be_bytes());
    Write::FlowStarted(NewFlow {
        flow: id,
        name: "Pay".to_owned(),
        version: 1,
        arguments: vec![7; 100],
        origin: Vec::new(),
        seed: [1; 32],
        at: Timestamp::from_millis(5),
    })
}

#[test]
fn keeps_the_contract() {
    let count = std::cell::Cell::new(0);
    crate::contract::check(&|| {
        let options = options(&format!("contract_{}", count.replace(count.get() + 1)));
        Box::new(move || Ok(std::sync::Arc::new(Postgres::open(&options)?)))
    });
}

#[test]
fn an_earlier_schema_migrates_with_its_data() {
    let bytes = SCHEMA_1.replace("X'", "'\\x");
    let counters: String = ["peer", "term", "class", "flow", "ledger", "attachment"]
        .map(|table| {
            let number = if ["flow", "ledger", "attachment"].contains(&table) { "number" } else { "id" };
            format!("SELECT setval(pg_get_serial_sequence('{table}', '{number}'), (SELECT max({number}) FROM {table}));")
        })
        .concat();
    run(
        "migrated",
        &format!(
            "CREATE SCHEMA migrated; CREATE TABLE schema_version (version BIGINT PRIMARY KEY, at TIMESTAMPTZ); \
             {} {bytes} {counters} INSERT INTO schema_version VALUES (1, now());",
            STEPS[0].sql
        ),
    );
    // What the second step wants to make is there already: it fails, and everything is as it was.
    run("migrated", "CREATE TABLE class_posting (mine INTEGER)");
    assert!(matches!(open("migrated"), Err(StoreError::Migration { to: 2, .. })));
    run("migrated", "DROP TABLE class_posting");
    check_migrated(&open("migrated").unwrap());
}

#[test]
fn refuses_schemas_that_are_not_its_own() {
    run("foreign_one", "CREATE SCHEMA foreign_one; CREATE TABLE theirs (id INTEGER)");
    assert!(matches!(open("foreign_one"), Err(StoreError::Foreign { .. })));
    drop(open("newer").unwrap());
    run("newer", "INSERT INTO schema_version (version) VALUES (7)");
    assert!(matches!(open("newer"), Err(StoreError::Newer { found: 7, known: 6 })));
}

#[test]
fn one_process_has_a_schema_for_itself() {
    let store = open("taken").unwrap();
    assert!(matches!(open("taken"), Err(StoreError::InUse { .. })));
    open("free").unwrap();
    drop(store);
    open("taken").unwrap();
}

#[test]
fn counts_connections_before_it_starts() {
    let options = options("connections");
    let (eight, many) =
        (PostgresOptions { readers: 7, ..options.clone() }, PostgresOptions { readers: 1000, ..options });
    assert_eq!(eight.needs().connections(), 8);
    match Postgres::open(&many).map(drop) {
        Err(error @ StoreError::Connections { needed: 1001, limit: 100, .. }) => {
            let text = error.to_string();
            assert!(text.contains("needs 1001") && text.contains("raise max_connections"), "{text}");
        }
        other => panic!("{other:?}"),
    }
    Postgres::open(&eight).unwrap();
    run("connections", "CREATE ROLE few LOGIN CONNECTION LIMIT 5; CREATE SCHEMA few AUTHORIZATION few;");
    let url = eight.url.replace("user=tally", "user=few");
    let few = PostgresOptions { url, schema: "few".to_owned(), readers: 5, ca: None };
    let refused = Postgres::open(&few).map(drop);
    assert!(
        matches!(
            refused,
            Err(StoreError::Connections { limit: 5, limited_by: "the role's connection limit", .. })
        ),
        "{refused:?}"
    );
    // The server may not have noticed yet that the refused one is gone.
    run(
        "connections",
        "DO $$ BEGIN WHILE EXISTS (SELECT FROM pg_stat_activity WHERE usename = 'few') LOOP \
         PERFORM pg_sleep(0.01); PERFORM pg_stat_clear_snapshot(); END LOOP; END $$;",
    );
    Postgres::open(&PostgresOptions { readers: 4, ..few }).unwrap();
}

#[test]
fn refuses_configurations_with_the_reason() {
    let good = options("configured");
    let with_url = |url: &str| PostgresOptions { url: url.to_owned(), ..good.clone() };
    let with_schema = |schema: &str| PostgresOptions { schema: schema.to_owned(), ..good.clone() };
    let wrong = [
        with_url("host"),
        with_url(&format!("{} sslmode=require", good.url)),
        with_url(&good.url.replace("user=tally", "user=nobody_known")),
        with_url(&good.url.replace("dbname=postgres", "dbname=none")),
        with_url("host=db.example user=tally"),
        with_url("host=localhost hostaddr=192.0.2.1 user=tally"),
        PostgresOptions { ca: Some("/nonexistent.pem".into()), ..with_url("host=db.example user=tally") },
        with_schema(""),
        with_schema("Upper"),
        with_schema("a\"b"),
        with_schema("1a"),
        with_schema("pg_mine"),
        with_schema(&"a".repeat(64)),
    ];
    for options in wrong {
        let refused = Postgres::open(&options).map(drop);
        assert!(matches!(refused, Err(StoreError::Configuration { .. })), "{options:?}: {refused:?}");
    }
    assert!(!format!("{:?}", with_url("host=h password=secret")).contains("secret"));
    let refused = Postgres::open(&with_url("host=/nonexistent user=tally")).map(drop);
    assert!(matches!(&refused, Err(error) if error.is_transient()), "{refused:?}");
}

#[test]
fn a_session_that_the_server_ends_is_replaced() {
    let store = open("ended").unwrap();
    store.apply(&[flow(1)]).unwrap();
    let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
               WHERE application_name = 'tally ended' AND pid <> pg_backend_pid()";
    run("ended", end);
    // Reads are done again by themselves; a batch is the caller's to repeat.
    assert!(store.flow([0; 16]).unwrap().is_none());
    let lost = store.apply(&[flow(2)]);
    assert!(matches!(&lost, Err(StoreError::Unreachable(_))), "{lost:?}");
    store.apply(&[flow(2)]).unwrap();
    assert_eq!(store.unfinished_flows(None, 10).unwrap().len(), 2);
}

/// A process that lost its session, and comes back when another one has gone on and is gone again, remembers a database
/// that is no more: it is refused, and for good.
#[test]
fn a_process_that_was_replaced_does_not_go_on() {
    let first = open("replaced").unwrap();
    first.apply(&[flow(1)]).unwrap();
    let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
               WHERE application_name = 'tally replaced' AND pid <> pg_backend_pid()";
    run("replaced", end);
    let second = open("replaced").unwrap();
    second.apply(&[flow(2)]).unwrap();
    // The first call finds that the session is lost, the next ones that another process has the schema.
    for _ in 0..2 {
        let refused = first.apply(&[flow(3)]);
        assert!(matches!(&refused, Err(error) if error.is_transient()), "{refused:?}");
    }
    drop(second);
    let refused = first.apply(&[flow(3)]);
    assert!(matches!(&refused, Err(StoreError::InUse { .. })), "{refused:?}");
    assert_eq!(open("replaced").unwrap().unfinished_flows(None, 10).unwrap().len(), 2);
}

/// SIGKILL of the server while batches are applied: nothing acknowledged is lost, nothing is there in part.
#[test]
fn a_killed_server_loses_nothing_that_it_acknowledged() {
    const PER_BATCH: u64 = 20;
    let server = PostgresServer::start().unwrap();
    let store =
        Postgres::open(&PostgresOptions { readers: 2, ..PostgresOptions::new(server.url(), "killed") })
            .unwrap();
    let (acknowledged, stop) = (AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut failures = 0;
            let mut batch = 0;
            while stop.load(SeqCst) == 0 {
                let writes: Vec<Write> = (0..PER_BATCH).map(|nth| flow(batch * PER_BATCH + nth)).collect();
                match store.apply(&writes) {
                    Ok(()) => {
                        batch += 1;
                        acknowledged.store(batch, SeqCst);
                    }
                    Err(error) => {
                        assert!(error.is_transient(), "{error:?}");
                        failures += 1;
                        std::thread::yield_now();
                    }
                }
            }
            failures
        });
        for round in 1..=4_u64 {
            let goal = acknowledged.load(SeqCst) + round * 17;
            while acknowledged.load(SeqCst) < goal {
                std::hint::spin_loop();
            }
            server.kill().unwrap();
            let refused = store.unfinished_flows(None, 1);
            assert!(matches!(&refused, Err(error) if error.is_transient()), "{refused:?}");
            server.restart().unwrap();
            let before = acknowledged.load(SeqCst);
            let found = store.unfinished_flows(None, usize::MAX).unwrap().len() as u64;
            assert_eq!(found % PER_BATCH, 0, "a batch is there in part");
            assert!(found >= before * PER_BATCH, "{found} flows of {before} acknowledged batches");
        }
        stop.store(1, SeqCst);
        assert!(writer.join().unwrap() >= 4);
    });
    let found = store.unfinished_flows(None, usize::MAX).unwrap().len() as u64;
    assert_eq!(found, acknowledged.load(SeqCst) * PER_BATCH);
}

/// A server with a certificate: only with its authority, and only under its name.
#[test]
fn encrypted_connections_check_the_server() {
    let key = rcgen::KeyPair::generate().unwrap();
    let certificate =
        rcgen::CertificateParams::new(vec!["localhost".to_owned()]).unwrap().self_signed(&key).unwrap();
    let other = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    let other = other.self_signed(&rcgen::KeyPair::generate().unwrap()).unwrap();
    let files = [("server.crt", certificate.pem()), ("server.key", key.serialize_pem())];
    let files: Vec<(&str, &str)> = files.iter().map(|(name, pem)| (*name, pem.as_str())).collect();
    let server = PostgresServer::start_with_files(&["ssl=on"], &files).unwrap();
    let administrator = PostgresOptions::new(server.url(), "administrator");
    let sql = "CREATE ROLE node LOGIN PASSWORD 'secret'; CREATE SCHEMA encrypted AUTHORIZATION node;";
    Place::new(&administrator).unwrap().connect().unwrap().run(sql).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let ca = |name: &str, pem: &str| {
        let path = directory.path().join(name);
        std::fs::write(&path, pem).unwrap();
        Some(path)
    };
    let (own, foreign) = (ca("own.pem", &certificate.pem()), ca("foreign.pem", &other.pem()));
    let connect = |host: &str, password: &str, ca: &Option<std::path::PathBuf>| {
        let url = server.url_over_tcp(host, "node", password);
        let options =
            PostgresOptions { ca: ca.clone(), readers: 1, ..PostgresOptions::new(url, "encrypted") };
        Postgres::open(&options)
    };
    let store = connect("localhost", "secret", &own).unwrap();
    store.apply(&[flow(1)]).unwrap();
    let encrypted = "SELECT count(*) FROM pg_stat_ssl s JOIN pg_stat_activity a ON a.pid = s.pid AND s.ssl \
                     WHERE a.application_name = 'tally encrypted'";
    let rows = Place::new(&administrator).unwrap().connect().unwrap().query(encrypted, &[]).unwrap();
    assert_eq!(rows[0].get::<_, i64>(0), 2);
    drop(store);
    for (host, ca) in [("localhost", &foreign), ("127.0.0.1", &own)] {
        let refused = connect(host, "secret", ca).map(drop);
        assert!(matches!(&refused, Err(StoreError::Configuration { .. })), "{host}: {refused:?}");
    }
    let refused = connect("localhost", "guess", &own).map(drop);
    assert!(matches!(&refused, Err(StoreError::Configuration { .. })), "{refused:?}");
    let empty = ca("empty.pem", "");
    let refused = connect("localhost", "secret", &empty).map(drop);
    assert!(matches!(&refused, Err(StoreError::Configuration { .. })), "{refused:?}");
    let socket = PostgresOptions { ca: own, ..administrator };
    assert!(matches!(Place::new(&socket).map(drop), Err(StoreError::Configuration { .. })));
}

/// SQLite to PostgreSQL, while a node runs on it to another schema, and back to SQLite: the same rows each time.
#[test]
fn backups_go_from_one_database_to_the_other() {
    use crate::backup::{BackupError, back_up, restore};
    use crate::{Database, Sqlite, SqliteOptions};
    let directory = tempfile::tempdir().unwrap();
    let place = |name: &str| directory.path().join(name);
    let node = tally_contracts::Name::new("PartyA", "London", "GB").unwrap();
    let (taken, at) = (Timestamp::from_millis(7), Timestamp::from_millis(8));
    let file = SqliteOptions::new(place("node.db"));
    let rows = rusqlite::Connection::open(&file.path).unwrap();
    rows.execute_batch(crate::sqlite::STEPS[0].sql).unwrap();
    rows.execute_batch(SCHEMA_1).unwrap();
    rows.execute_batch("PRAGMA application_id = 0x54414c59; PRAGMA user_version = 1;").unwrap();
    drop(Sqlite::open(&file).unwrap());
    let first = back_up(&Database::Sqlite(file), &node, taken, &place("1.backup")).unwrap();

    let server = Database::Postgres(options("restored_one"));
    assert_eq!(restore(&server, &node, at, &place("1.backup")).unwrap(), first);
    let store = open("restored_one").unwrap();
    let running = restore(&server, &node, at, &place("1.backup"));
    assert!(matches!(running, Err(BackupError::Store(StoreError::InUse { .. }))), "{running:?}");
    // Taken while the node runs; two rows more, the mark of the first restoring and the process that has it.
    let second = back_up(&server, &node, taken, &place("2.backup")).unwrap();
    assert_eq!((second.rows, second.schema), (first.rows + 2, first.schema));
    let mark = crate::Restored { taken, at };
    assert_eq!(store.queues().unwrap().restored, Some(mark));
    store.apply(&[Write::Recovered]).unwrap();
    assert_eq!(store.queues().unwrap().restored, None);
    // It has more than the backup, and takes more: numbers go on where they were.
    check_migrated(&store);
    drop(store);
    let full = restore(&server, &node, at, &place("1.backup"));
    assert!(matches!(full, Err(BackupError::NotEmpty { .. })), "{full:?}");

    let again = Database::Postgres(options("restored_two"));
    let mut damaged = std::fs::read(place("2.backup")).unwrap();
    let last = damaged.len() - 1;
    damaged[last] ^= 1;
    std::fs::write(place("damaged.backup"), damaged).unwrap();
    let refused = restore(&again, &node, at, &place("damaged.backup"));
    assert!(matches!(refused, Err(BackupError::Damaged { .. })), "{refused:?}");
    restore(&again, &node, at, &place("2.backup")).unwrap();
    check_migrated(&open("restored_two").unwrap());
    let back = SqliteOptions::new(place("back.db"));
    restore(&Database::Sqlite(back.clone()), &node, at, &place("2.backup")).unwrap();
    check_migrated(&Sqlite::open(&back).unwrap());
}
