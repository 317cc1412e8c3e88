//! What a call costs: RunFlow against a node that answers at once, over TLS on loopback, server and client on one
//! thread each. `cargo run --release -p tally-rpc --example roundtrip [seconds]`

#![allow(clippy::unwrap_used, missing_docs, reason = "a measurement; the support is a test's")]

#[path = "../src/tests/support.rs"]
mod support;

use std::collections::BTreeMap;
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde_json::json;
use support::{FakeNode, tls};
use tally_rpc::{Client, Permissions, Server, Settings, StartFlow, User, Users};
use tokio::runtime::{Builder, Runtime};

fn runtime(name: &str) -> Runtime {
    Builder::new_multi_thread().worker_threads(1).thread_name(name).enable_all().build().unwrap()
}

/// Nanoseconds on a processor so far, by the name of the thread.
fn processor_time() -> BTreeMap<String, u64> {
    let mut times = BTreeMap::new();
    for task in fs::read_dir("/proc/self/task").unwrap().flatten() {
        let name = fs::read_to_string(task.path().join("comm")).unwrap_or_default();
        let spent = fs::read_to_string(task.path().join("schedstat")).unwrap_or_default();
        let spent: u64 = spent.split(' ').next().and_then(|spent| spent.parse().ok()).unwrap_or(0);
        *times.entry(name.trim().to_owned()).or_default() += spent;
    }
    times
}

struct Measured {
    calls: u64,
    wall: Duration,
    server_us: f64,
    client_us: f64,
}

async fn measure<F: Future<Output = ()> + Send + 'static>(
    seconds: u64,
    drive: impl FnOnce(Arc<AtomicU64>, Arc<AtomicBool>) -> Vec<F>,
) -> Measured {
    let calls = Arc::new(AtomicU64::new(0));
    let stop = Arc::new(AtomicBool::new(false));
    let drivers: Vec<_> = drive(calls.clone(), stop.clone()).into_iter().map(tokio::spawn).collect();
    tokio::time::sleep(Duration::from_millis(300)).await;
    let (before, first, began) = (processor_time(), calls.load(Ordering::Relaxed), Instant::now());
    tokio::time::sleep(Duration::from_secs(seconds)).await;
    let (after, last, wall) = (processor_time(), calls.load(Ordering::Relaxed), began.elapsed());
    stop.store(true, Ordering::Relaxed);
    for driver in drivers {
        driver.await.unwrap();
    }
    let calls = last - first;
    let spent = |name: &str| (after[name] - before[name]) as f64 / 1000.0 / calls as f64;
    Measured { calls, wall, server_us: spent("server"), client_us: spent("client") }
}

fn main() {
    let seconds = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(3);
    let (server_tls, client_tls) = tls();
    let server_runtime = runtime("server");
    let client_runtime = runtime("client");
    let (node, _signals) = FakeNode::new();
    let users = Users::new([User::new("admin", "admin", Permissions::All).unwrap()]).unwrap();
    let settings = Settings::new(([127, 0, 0, 1], 0).into());
    let server = server_runtime.block_on(Server::bind(settings, server_tls, users, node)).unwrap();
    let address = server.local_address().to_string();
    server_runtime.spawn(server.serve(std::future::pending()));

    println!("{:<22} {:>9} {:>12} {:>12} {:>12}", "", "calls/s", "server us", "client us", "both us");
    let print = |name: String, measured: &Measured| {
        let rate = measured.calls as f64 / measured.wall.as_secs_f64();
        let (server, client) = (measured.server_us, measured.client_us);
        println!("{name:<22} {rate:>9.0} {server:>12.1} {client:>12.1} {:>12.1}", server + client);
    };
    let start = move || {
        let arguments = json!({"amount": "100.00 USD", "to": "O=PartyB, L=London, C=GB", "n": 1});
        let arguments = arguments.as_object().unwrap().clone();
        StartFlow { flow: "Echo".into(), arguments, request_id: Some("00112233445566778899".into()) }
    };
    client_runtime
        .block_on(client_runtime.spawn(async move {
            let client = Client::connect(&address, "localhost", client_tls, "admin", "admin").await.unwrap();
            for in_flight in [1, 16, 64] {
                let client = client.clone();
                let measured = measure(seconds, |calls, stop| {
                    let drive = |_| {
                        let (client, calls, stop) = (client.clone(), calls.clone(), stop.clone());
                        async move {
                            let start = start();
                            while !stop.load(Ordering::Relaxed) {
                                client.run_flow(&start).await.unwrap();
                                calls.fetch_add(1, Ordering::Relaxed);
                            }
                        }
                    };
                    (0..in_flight).map(drive).collect()
                });
                print(format!("RunFlow, {in_flight} in flight"), &measured.await);
            }
            for in_flight in [1, 16, 64] {
                let (starts, mut ends) = client.run_flows().await.unwrap();
                let measured = measure(seconds, |calls, stop| {
                    vec![async move {
                        let start = start();
                        for tag in 0..in_flight {
                            assert!(starts.send(tag, &start).await);
                        }
                        let mut starts = Some(starts);
                        while let Some((tag, end)) = ends.next().await.unwrap() {
                            end.unwrap();
                            calls.fetch_add(1, Ordering::Relaxed);
                            if stop.load(Ordering::Relaxed) {
                                starts = None;
                            }
                            if let Some(starts) = &starts {
                                starts.send(tag, &start).await;
                            }
                        }
                    }]
                });
                print(format!("RunFlows, {in_flight} in flight"), &measured.await);
            }
        }))
        .unwrap();
}
