//! Parameters of the network that change while nodes run, and operators who accept them, with real sockets and files.

mod world;

use std::io::{Read as _, Write as _};
use std::time::{Duration, Instant};

use serde_json::json;
use tally_contracts::{Party, Timestamp};
use tally_identity::{
    NetworkFolder, NetworkMap, NetworkMapKey, NetworkParameters, Notary, SignedParameters, Trust, system_now,
};
use tally_rpc::{ClientError, RefusalCode};
use world::{World, name, output, start};

async fn network() -> World {
    tokio::task::spawn_blocking(|| World::new(&["PartyA", "PartyB", "Notary"], false))
        .await
        .expect("a network")
}

/// Puts changed parameters on the map, in force from then on, or announces them.
fn change(world: &World, from: Timestamp, change: impl FnOnce(&mut NetworkParameters)) {
    let root = std::fs::read_to_string(&world.network.root).expect("the root's certificate");
    let der = rustls_pki(&root);
    let trust = Trust::new(&der).expect("a root");
    let now = system_now();
    let (map, _) = NetworkMap::from_folder(&world.network.map, &trust, now).expect("a map");
    let mut parameters = map.parameters().as_ref().clone();
    change(&mut parameters);
    parameters.epoch += 1;
    parameters.modified = now;
    parameters.in_force_from = from;
    let passphrase =
        std::fs::read_to_string(world.network.authority.join("passphrase")).expect("the passphrase");
    let key = NetworkMapKey::open(&world.network.authority, passphrase.trim_end().as_bytes());
    let signed = SignedParameters::sign(&key.expect("the map's key"), parameters).expect("parameters");
    let folder = NetworkFolder::new(&world.network.map);
    if from <= now {
        folder.put_parameters(&signed).expect("written");
    } else {
        folder.put_announced(&signed).expect("written");
    }
}

/// The DER of a PEM file with one certificate.
fn rustls_pki(text: &str) -> Vec<u8> {
    use tokio_rustls::rustls::pki_types::{CertificateDer, pem::PemObject as _};
    CertificateDer::from_pem_slice(text.as_bytes()).expect("a certificate").to_vec()
}

fn get(world: &World, index: usize, path: &str) -> String {
    let running = world.nodes[index].as_ref().expect("it runs");
    let mut stream =
        std::net::TcpStream::connect(running.addresses().http.expect("it serves health")).expect("connected");
    let request = format!("GET {path} HTTP/1.1\r\nHost: node\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("asked");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    answer
}

/// Waits until `/ready` of a node says this.
async fn says(world: &World, index: usize, what: &str) {
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        let answer = tokio::task::block_in_place(|| get(world, index, "/ready"));
        if answer.contains(what) {
            return;
        }
        assert!(Instant::now() < deadline, "{answer}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

fn stop(mut world: World) {
    (0..world.nodes.len()).for_each(|index| world.stop(index));
}

fn refusal<T: std::fmt::Debug>(result: Result<T, ClientError>) -> (RefusalCode, String) {
    match result {
        Err(ClientError::Refused(refusal)) => (refusal.code, refusal.reason),
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_takes_no_new_work_under_parameters_that_its_operator_has_not_accepted() {
    let mut world = network().await;
    let a = world.client(0).await;
    let issue = start("CashIssue", &json!({ "amount": "100.00 USD" }), None);
    output(a.run_flow(&issue).await.expect("an answer"));
    assert_eq!(a.parameters(None).await.expect("parameters").accepted, [1]);

    tokio::task::block_in_place(|| change(&world, system_now(), |next| next.max_transaction_bytes = 500_000));
    for index in 0..3 {
        says(&world, index, "parameters of epoch 2 are in force and not accepted").await;
    }
    assert!(get(&world, 0, "/metrics").contains("tally_node_missing_parameters{} 1"));
    let (code, reason) = refusal(a.run_flow(&issue).await);
    assert_eq!(code, RefusalCode::Unavailable);
    assert!(reason.contains("accept NODE 2"), "{reason}");
    // Those of another epoch are no way around it.
    for epoch in [1, 3] {
        let known = a.parameters(Some(epoch)).await;
        assert_eq!(refusal(known).0, RefusalCode::RequestInvalid, "{epoch}");
    }
    let found = a.parameters(Some(2)).await.expect("accepted");
    assert_eq!((found.accepted, found.missing), (vec![1, 2], None));
    says(&world, 0, "200 OK").await;
    output(a.run_flow(&issue).await.expect("an answer"));
    let metrics = get(&world, 0, "/metrics");
    assert!(metrics.contains("tally_node_missing_parameters{} 0"), "{metrics}");

    // What it begins with others waits there until they have accepted them as well.
    let pay = start("CashPay", &json!({ "amount": "30.00 USD", "to": name("PartyB").to_string() }), None);
    let flow = a.start_flow(&pay).await.expect("a flow");
    for index in [2, 1] {
        assert!(a.flow(&flow).await.expect("the flow").outcome.is_none());
        world.client(index).await.parameters(Some(2)).await.expect("accepted");
    }
    let deadline = Instant::now() + Duration::from_secs(30);
    while a.flow(&flow).await.expect("the flow").outcome.is_none() {
        assert!(Instant::now() < deadline, "the payment does not end");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }

    // It is kept.
    tokio::task::block_in_place(|| {
        world.stop(0);
        world.start(0);
    });
    says(&world, 0, "200 OK").await;
    tokio::task::spawn_blocking(move || stop(world)).await.expect("an end");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn announced_parameters_are_accepted_before_they_come_into_force() {
    let world = network().await;
    let from = Timestamp::from_millis(system_now().as_millis() + 6_000);
    tokio::task::block_in_place(|| change(&world, from, |next| next.max_transaction_bytes = 500_000));
    says(&world, 0, "warning: the network's parameters of epoch 2 are not accepted").await;
    let a = world.client(0).await;
    let found = a.parameters(Some(2)).await.expect("accepted");
    assert_eq!((found.epoch, found.accepted, found.missing), (1, vec![1, 2], None));
    assert_eq!(found.announced.map(|next| (next.epoch, next.in_force_from_ms)), Some((2, from.as_millis())));
    // Their time comes: who has accepted them goes on, who has not stands still.
    says(&world, 1, "parameters of epoch 2 are in force and not accepted").await;
    let deadline = Instant::now() + Duration::from_secs(30);
    while a.parameters(None).await.expect("parameters").epoch != 2 {
        assert!(Instant::now() < deadline, "they do not come into force");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    says(&world, 0, "200 OK").await;
    output(a.run_flow(&start("CashIssue", &json!({ "amount": "1.00 USD" }), None)).await.expect("an answer"));
    tokio::task::spawn_blocking(move || stop(world)).await.expect("an end");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_accepts_by_itself_what_its_operator_lets_it() {
    let mut world = network().await;
    tokio::task::block_in_place(|| {
        world.stop(0);
        world.accept_extensions = true;
        world.start(0);
        world.accept_extensions = false;
    });
    let party = Party { name: name("Another"), key: world.network.nodes[1].party.key };
    tokio::task::block_in_place(|| {
        change(&world, system_now(), |next| {
            next.put_notary(Notary { party, kind: tally_identity::NotaryKind::alone(true) })
        });
    });
    says(&world, 1, "parameters of epoch 2 are in force and not accepted").await;
    let a = world.client(0).await;
    let deadline = Instant::now() + Duration::from_secs(30);
    while a.parameters(None).await.expect("parameters").accepted != [1, 2] {
        assert!(Instant::now() < deadline, "it does not accept them");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    says(&world, 0, "200 OK").await;
    // What takes something away is for the operator.
    tokio::task::block_in_place(|| change(&world, system_now(), |next| next.max_transaction_bytes = 500_000));
    says(&world, 0, "parameters of epoch 3 are in force and not accepted").await;
    tokio::task::spawn_blocking(move || stop(world)).await.expect("an end");
}
