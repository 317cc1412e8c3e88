//! How much of a network's own rate one gRPC stream reaches, with signed payments:
//! `cargo run --release -p tally-gateway --example stream [PAYMENTS [BATCH]]`
//!
//! Client, gateway and network share one process and its cores. Rounds alternate between batches handed to the schedulers
//! directly and the same number over one stream, so that both see the machine as it is.

use std::error::Error;
use std::net::{Ipv4Addr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tally_crypto::{Hash, SigningKey};
use tally_gateway::access::{AccessFile, Gate, Quota, Role, Token, UserEntry};
use tally_gateway::codec;
use tally_gateway::grpc::wire::Status;
use tally_gateway::grpc::{Client, Said};
use tally_gateway::server;
use tally_gateway::settings::Settings;
use tally_ledger::order::AccountAction;
use tally_ledger::transaction::Terms;
use tally_ledger::{
    AccountId, AccountNumber, AccountOrder, Amount, Asset, AssetId, AssetKind, Kind, Network, NetworkId,
    Participant, ParticipantId, SignaturePolicy, Transaction, TransactionBatch, Uetr,
};
use tally_ops::process;
use tally_ops::shutdown::Shutdown;
use tally_settlement::engine::{Engine, EngineOptions, VolumePort, route};
use tally_settlement::path;

const EUR: AssetId = AssetId(0);
const BANK: ParticipantId = ParticipantId(1);
const CUSTOMERS: u32 = 1000;
const ROUNDS: usize = 4;

type Failed = Box<dyn Error + Send + Sync>;

fn key(number: u8) -> SigningKey {
    SigningKey::from_seed([number; 32])
}

fn network() -> Network {
    let participant = |bic: &str, number: u8| Participant {
        bic: bic.into(),
        name: format!("CN={bic}"),
        key: key(number).public_key(),
        settlement_floors: Vec::new(),
    };
    Network {
        id: NetworkId(79),
        participants: vec![participant("CENTDEFF", 1), participant("ALPHDEFF", 2)],
        assets: vec![Asset {
            code: "EUR".into(),
            kind: AssetKind::Currency,
            exponent: 2,
            settled_at: ParticipantId(0),
            largest_payment: Amount(1_000_000_000),
        }],
        signatures: SignaturePolicy::Required,
        longest_validity_ms: 3_600_000,
    }
}

fn customer(number: u32) -> AccountId {
    AccountId { participant: BANK, number: AccountNumber(number) }
}

/// Makes transactions whose references were not used before.
struct Payer {
    engine: Arc<Engine>,
    references: u64,
}

impl Payer {
    fn terms(&mut self, scheduler: usize) -> Terms {
        let mut uetr = [0; 16];
        loop {
            self.references += 1;
            uetr[8..].copy_from_slice(&self.references.to_be_bytes());
            if route(&Uetr(uetr), 2) == scheduler {
                let expiry = self.engine.now().plus_ms(3_000_000);
                return Terms {
                    network: network().id,
                    uetr: Uetr(uetr),
                    expiry,
                    details: Hash::ZERO,
                    seed: uetr,
                };
            }
        }
    }

    fn make(&self, mut transaction: Transaction) -> Result<(), Failed> {
        transaction.sign(&key(2));
        let pending = self.engine.submit(vec![transaction])?;
        self.engine.wait(&pending, Duration::from_secs(10));
        Ok(())
    }

    /// Customers with money; all have one key.
    fn open(&mut self) -> Result<(), Failed> {
        let action = AccountAction::Open {
            count: CUSTOMERS,
            asset: EUR,
            owner: key(3).public_key(),
            floor: Amount(-1_000_000_000),
            alias: String::new(),
        };
        let order = AccountOrder { participant: BANK, number: AccountNumber(0), action };
        let opening = Transaction::account(&self.terms(0), order);
        self.make(opening)
    }

    fn batches(&mut self, payments: usize, size: usize) -> Vec<TransactionBatch> {
        let network = network();
        let mut from = 0;
        (0..payments / size)
            .map(|number| {
                let mut batch = TransactionBatch::default();
                for _ in 0..size {
                    from = (from + 1) % CUSTOMERS;
                    let to = customer((from + 7) % CUSTOMERS);
                    let legs = path::payment(&network, customer(from), to, EUR, Amount(1));
                    let mut payment = Transaction::new(Kind::Transfer, &self.terms(number % 2), legs);
                    payment.sign(&key(3));
                    assert!(batch.push(&payment), "its header agrees with its content");
                }
                batch
            })
            .collect()
    }
}

/// Directly to the schedulers; until everything is decided and durable.
fn directly(engine: &Engine, port: &mut VolumePort, batches: Vec<TransactionBatch>) {
    let goal = engine.sequenced() + batches.iter().map(|batch| batch.len() as u64).sum::<u64>();
    let mut waiting = batches.into_iter().zip([0, 1].into_iter().cycle()).peekable();
    while engine.sequenced() < goal {
        let events = port.events();
        while let Some((batch, scheduler)) = waiting.next_if(|(_, scheduler)| port.has_room(*scheduler)) {
            port.submit(scheduler, batch);
        }
        listen(port, events);
    }
}

/// The schedulers wait for whoever listens to them.
fn listen(port: &mut VolumePort, events: u64) {
    while let Ok(Some(_)) = port.intake.poll() {}
    while let Ok(Some(_)) = port.sequence.poll() {}
    port.wait(events, Duration::from_millis(5));
}

async fn over_a_stream(client: &Client, batches: Vec<TransactionBatch>) -> Result<(), Failed> {
    let encoded: Vec<_> = batches.iter().map(codec::encode).collect();
    let (requests, mut responses) = client.submit().await?;
    tokio::spawn(async move {
        for (tag, batch) in (0..).zip(encoded) {
            if !requests.send_encoded(tag, batch.into()).await {
                return;
            }
        }
    });
    while let Some((tag, said)) = responses.next().await? {
        match said {
            Said::Outcomes(outcomes) if outcomes.statuses().all(|status| status == Status::Settled) => {}
            other => return Err(format!("request {tag}: {other:?}").into()),
        }
    }
    Ok(())
}

fn main() -> Result<(), Failed> {
    let mut arguments = std::env::args().skip(1);
    let payments: usize = arguments.next().map_or(Ok(200_000), |text| text.parse())?;
    let size: usize = arguments.next().map_or(Ok(4096), |text| text.parse())?;
    let directory = tempfile::tempdir()?;
    let options = EngineOptions::new(directory.path().join("network"), network(), vec![key(1), key(2)]);
    let engine = Arc::new(Engine::open(options)?);
    let mut payer = Payer { engine: Arc::clone(&engine), references: 0 };
    payer.open()?;

    let (token, access) = (Token::generate()?, directory.path().join("access.toml"));
    let user = UserEntry::with_token("payer", Some("ALPHDEFF"), &[Role::Submit], &token);
    let quota = Quota { per_second: 10_000_000, burst: 10_000_000 };
    AccessFile { user: vec![UserEntry { quota, ..user }] }.write(&access)?;
    let gate = Arc::new(Gate::open(access, network())?);
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let url = format!("http://{}", listener.local_addr()?);
    let (shutdown, desk) = (Shutdown::new(), Arc::clone(&engine));
    let asked = shutdown.clone();
    let server = std::thread::spawn(move || server::serve(listener, desk, Settings::default(), gate, &asked));

    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let mut port = engine.volume();
    let client = runtime.block_on(Client::connect(&url, Some(token.reveal()), None))?;
    println!("{ROUNDS} rounds of {payments} payments in batches of {size}");
    for _ in 0..ROUNDS {
        let (one, other) = (payer.batches(payments, size), payer.batches(payments, size));
        let count = (payments / size * size) as f64;
        let began = (Instant::now(), process::usage()?);
        directly(&engine, &mut port, one);
        line("directly", count, began)?;
        let began = (Instant::now(), process::usage()?);
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    let events = port.events();
                    listen(&mut port, events);
                }
            });
            let streamed = runtime.block_on(over_a_stream(&client, other));
            done.store(true, Ordering::Relaxed);
            streamed
        })?;
        line("one stream", count, began)?;
    }
    drop((client, runtime));
    shutdown.request();
    server.join().map_err(|_| "the gateway failed")??;
    Ok(())
}

fn line(what: &str, count: f64, (began, before): (Instant, process::Usage)) -> Result<(), Failed> {
    let (seconds, after) = (began.elapsed().as_secs_f64(), process::usage()?);
    let cpu = (after.cpu_user + after.cpu_system).saturating_sub(before.cpu_user + before.cpu_system);
    let each = cpu.as_secs_f64() * 1e6 / count;
    println!("{what:12} {:9.0} payments/s, {each:5.2} µs of processor time each", count / seconds);
    Ok(())
}
