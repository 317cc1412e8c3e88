//! Payments as clients make them: prepared as JSON, signed, and submitted as JSON, over connections that stay, in open loop.

use super::http::{Clients, Connection, head, settled};
use super::served::{NAMED, Served, USERS, named, named_key};
use super::{Done, GatewayBenchError, INTERVAL};
use crate::recorder::{Recorder, Throughput};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tally_crypto::{Hash, SigningKey};
use tally_gateway::wire::PreparedBody;

/// Payments at `rate` a second for so long, whatever the gateway does. A payment's latency is from when it was to start to its
/// outcome: waiting for a connection, preparing, signing and submitting.
pub(super) fn pay(
    served: &Served,
    run: u64,
    rate: u64,
    duration: Duration,
    connections: usize,
) -> Result<Done, GatewayBenchError> {
    let clients = Clients::new()?;
    let payments = (rate as f64 * duration.as_secs_f64()) as u64;
    let shared = Arc::new(Shared {
        heads: served.users.iter().map(|token| Heads::of(served, token)).collect(),
        bic: served.bic().to_owned(),
        keys: (0..NAMED / 2).map(named_key).collect(),
        run,
        payments,
        next: AtomicU64::new(0),
        rate,
        began: Instant::now(),
    });
    let address = served.address;
    clients.run(async {
        let clients: Vec<_> =
            (0..connections).map(|at| tokio::spawn(client(address, at, Arc::clone(&shared)))).collect();
        let mut all = Recorded::default();
        for client in clients {
            let one = client.await.map_err(GatewayBenchError::client)??;
            all.latency.merge(&one.latency);
            all.prepared.merge(&one.prepared);
            all.submitted.merge(&one.submitted);
            all.series.merge(&one.series);
        }
        let took = shared.began.elapsed();
        Ok(Done {
            latency: Some(all.latency),
            parts: vec![("prepare", all.prepared), ("submit", all.submitted)],
            series: Some(all.series),
            ..Done::new(usize::try_from(payments).unwrap_or(usize::MAX), took)
        })
    })
}

/// What a user's requests begin with.
struct Heads {
    prepare: String,
    submit: String,
}

impl Heads {
    fn of(served: &Served, token: &tally_gateway::access::Token) -> Self {
        let head = |path| head(served, path, "application/json", token);
        Self { prepare: head("/v1/payments/prepare"), submit: head("/v1/payments") }
    }
}

struct Shared {
    /// By user.
    heads: Vec<Heads>,
    bic: String,
    keys: Vec<SigningKey>,
    run: u64,
    payments: u64,
    next: AtomicU64,
    /// Payments a second.
    rate: u64,
    began: Instant,
}

impl Shared {
    /// When a payment is to start.
    fn intended(&self, at: u64) -> Duration {
        Duration::from_secs_f64(at as f64 / self.rate as f64)
    }
}

struct Recorded {
    latency: Recorder,
    /// Of the requests alone, from when they are sent.
    prepared: Recorder,
    submitted: Recorder,
    series: Throughput,
}

impl Default for Recorded {
    fn default() -> Self {
        let series = Throughput::every(INTERVAL);
        Self { latency: Recorder::new(), prepared: Recorder::new(), submitted: Recorder::new(), series }
    }
}

/// One client: a connection of one user.
async fn client(
    address: SocketAddr,
    number: usize,
    shared: Arc<Shared>,
) -> Result<Recorded, GatewayBenchError> {
    let mut connection = Connection::open(address).await?;
    let mut recorded = Recorded::default();
    let heads = &shared.heads[number % USERS];
    loop {
        let at = shared.next.fetch_add(1, Ordering::Relaxed);
        if at >= shared.payments {
            return Ok(recorded);
        }
        let intended = shared.intended(at);
        tokio::time::sleep_until((shared.began + intended).into()).await;
        let begun = shared.began.elapsed();
        let payer = (at % shared.keys.len() as u64) as u32;
        let key = format!("idempotency-key: {}-{at}\r\n", shared.run);
        let wanted = wanted(&shared.bic, payer);
        let answer = connection.post(&heads.prepare, &key, wanted.as_bytes()).await?;
        let signed = sign(answer, &shared.keys[payer as usize])?;
        let prepared = shared.began.elapsed();
        settled(connection.post(&heads.submit, &key, signed.as_bytes()).await?)?;
        let end = shared.began.elapsed();
        recorded.latency.record(intended, end);
        recorded.prepared.record(begun, prepared);
        recorded.submitted.record(prepared, end);
        recorded.series.add(end, 1);
    }
}

/// The body that asks for a payment of 0.01 from one account to another, both by their aliases.
fn wanted(bic: &str, payer: u32) -> String {
    let account = |number| format!("{{\"institution\":\"{bic}\",\"account\":\"{}\"}}", named(number));
    format!(
        "{{\"payments\":[{{\"from\":{},\"to\":{},\"amount\":\"0.01\",\"asset\":\"EUR\"}}]}}",
        account(payer),
        account(NAMED / 2 + payer)
    )
}

/// The body that submits what was prepared, signed.
fn sign(answer: &[u8], key: &SigningKey) -> Result<String, GatewayBenchError> {
    let prepared: PreparedBody = serde_json::from_slice(answer).map_err(GatewayBenchError::client)?;
    let [payment] = prepared.payments.as_slice() else {
        return Err(GatewayBenchError::client("one payment was asked for"));
    };
    let draft = payment.draft.as_ref();
    let draft = draft.ok_or_else(|| GatewayBenchError::Refused(format!("{:?}", payment.refused)))?;
    let id: Hash = draft.id.parse().map_err(GatewayBenchError::client)?;
    let (public, signature) = (key.public_key(), key.sign(id.as_bytes()));
    Ok(format!(
        "{{\"payments\":[{{\"transaction\":\"{}\",\"signatures\":[{{\"key\":\"{public}\",\"signature\":\"{signature}\"}}]}}]}}",
        draft.transaction
    ))
}
