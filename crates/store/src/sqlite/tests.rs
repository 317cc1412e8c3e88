use super::*;
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
    store.limit_pages(u32::MAX - 1);
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
