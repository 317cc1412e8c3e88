//! `tally stream FROM TO AMOUNT ASSET --count N`

use super::{Ended, print, transfer};
use crate::connection::{Connection, ConnectionArguments};
use anyhow::Context;
use std::time::{Duration, Instant};
use tally_crypto::SigningKey;
use tally_gateway::codec;
use tally_gateway::grpc::wire::Status;
use tally_gateway::grpc::{Requests, Responses, Said};
use tally_ledger::{Kind, Leg, Transaction, TransactionBatch};

/// Arguments of `tally stream`.
#[derive(Debug, clap::Args)]
pub(super) struct Stream {
    /// The account that pays, as BIC/ACCOUNT
    from: String,
    /// The account that is paid, as BIC/ACCOUNT
    to: String,
    /// How much each time, such as 0.01
    amount: String,
    /// Currency code or ISIN
    asset: String,
    /// How many payments
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    count: u32,
    /// Payments of one request
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    batch: u32,
}

impl Stream {
    pub(super) fn run(self, arguments: &ConnectionArguments) -> anyhow::Result<Ended> {
        let connection = arguments.connect()?;
        let legs = transfer::payment(&connection, &self.from, &self.to, &self.amount, &self.asset)?;
        let mut ring = connection.keys()?;
        let signers = connection.signers(&legs)?;
        let keys: Vec<SigningKey> =
            signers.iter().map(|key| ring.signing_key(key).cloned()).collect::<Result<_, _>>()?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_io()
            .enable_time()
            .build()
            .context("cannot start a thread")?;
        let client = runtime.block_on(arguments.stream())?;
        let (requests, responses) = runtime.block_on(client.submit()).context("the stream was not opened")?;
        let began = Instant::now();
        let counted = runtime.spawn(count(responses));
        // Signing is the payer's work, and goes on while others are under way.
        let mut sent = 0;
        while sent < self.count {
            let batch = self.batch.min(self.count - sent);
            let payments = payments(&connection, &legs, &keys, batch)?;
            if !runtime.block_on(send(&requests, sent.into(), &payments)) {
                break;
            }
            sent += batch;
        }
        drop(requests);
        let counts = runtime.block_on(counted).context("the stream's thread ended")??;
        Ok(counts.show(self.count, began.elapsed()))
    }
}

async fn send(requests: &Requests, tag: u64, batch: &TransactionBatch) -> bool {
    requests.send_encoded(tag, codec::encode(batch).into()).await
}

/// Signed payments of those legs, each with a reference of its own.
fn payments(
    connection: &Connection,
    legs: &[Leg],
    keys: &[SigningKey],
    count: u32,
) -> anyhow::Result<TransactionBatch> {
    let mut batch = TransactionBatch::default();
    for _ in 0..count {
        let mut payment = Transaction::new(Kind::Transfer, &connection.terms()?, legs.to_vec());
        keys.iter().for_each(|key| payment.sign(&connection.network.id, key));
        anyhow::ensure!(batch.push(&payment), "a payment of {} legs is too large", legs.len());
    }
    Ok(batch)
}

#[derive(Default)]
struct Counts {
    settled: u64,
    pending: u64,
    refused: u64,
    /// Why the first was refused.
    first: Option<String>,
}

async fn count(mut responses: Responses) -> anyhow::Result<Counts> {
    let mut counts = Counts::default();
    while let Some((_, said)) = responses.next().await.context("the stream ended before its last outcome")? {
        match said {
            Said::Refused(refused) => anyhow::bail!("the gateway refused a request: {refused}"),
            Said::Outcomes(outcomes) => {
                for status in outcomes.statuses {
                    match Status::try_from(status) {
                        Ok(Status::Settled) => counts.settled += 1,
                        Ok(Status::Refused) => counts.refused += 1,
                        _ => counts.pending += 1,
                    }
                }
                if let (None, Some(refusal)) = (&counts.first, outcomes.refusals.first()) {
                    let reason = refusal.reason.as_ref();
                    counts.first = reason.map(|reason| format!("{} {}", reason.code, reason.text));
                }
            }
        }
    }
    Ok(counts)
}

impl Counts {
    fn show(self, wanted: u32, took: Duration) -> Ended {
        let Self { settled, pending, refused, first } = self;
        let rate = (settled + refused) as f64 / took.as_secs_f64();
        print::line(&format!(
            "{settled} settled, {refused} refused, {pending} not decided yet: {rate:.0} payments a second, signing included"
        ));
        if let Some(first) = first {
            print::line(&format!("the first refusal: {first}"));
        }
        if settled == u64::from(wanted) { Ended::Well } else { Ended::Refused }
    }
}
