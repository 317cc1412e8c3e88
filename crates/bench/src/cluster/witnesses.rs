//! What it adds to an outcome that institutions witness the operator's log: two gateways of one network, one that tells an
//! outcome when it is final, and one that waits until the witnesses have cosigned the head that has it.
//!
//! Payments go to both in turn, one at a time and in open loop, so that both meet the same network at the same moment.

use super::network::{Broker, Launcher, Running};
use super::{ClusterError, Shape};
use crate::recorder::Recorder;
use crate::settlement::Run;
use crate::workload::{Generator, WorkloadError};
use std::future::poll_fn;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tally_ledger::Transaction;
use tally_log::cluster::Cluster;
use tally_settlement::desk::Settlement;
use tally_settlement::engine::{Outcome, wall_clock};
use tally_settlement::process::Stop;
use tally_settlement::process::desk::{Desk, DeskOptions};
use tokio::task::JoinSet;

/// What is to be measured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Payments a second to each of the two gateways.
    pub rate: u64,
    /// For how long they are measured.
    pub duration: Duration,
    /// For how long they come before that.
    pub warm_up: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self { rate: 250, duration: Duration::from_secs(20), warm_up: Duration::from_secs(3) }
    }
}

/// What was measured.
#[derive(Debug, Clone, PartialEq)]
pub struct Witnessed {
    /// How many witnesses the second gateway waits for.
    pub witnesses: u8,
    /// From a payment's intended start to its outcome, without witnesses.
    pub without: Recorder,
    /// The same, with them.
    pub with: Recorder,
}

impl Witnessed {
    /// How much longer, at most, 99 of 100 outcomes may take with witnesses.
    pub const BAR: Duration = Duration::from_millis(10);

    /// How much longer 99 of 100 outcomes take with witnesses, in seconds; less than zero where they take less.
    #[must_use]
    pub fn longer(&self) -> f64 {
        self.with.quantile(0.99).as_secs_f64() - self.without.quantile(0.99).as_secs_f64()
    }
}

/// How many gateways the network has: that of the set-up, and the two that are compared.
const GATEWAYS: u16 = 3;
/// How long an outcome is waited for.
const LIMIT: Duration = Duration::from_secs(30);

/// Measures both on a network of its own, all of whose institutions but the operator are witnesses.
///
/// # Errors
/// When the network fails, or a payment is not made.
pub fn run(
    broker: &Broker,
    shape: &Shape,
    run: &Run,
    launcher: &Launcher,
    options: &Options,
) -> Result<Witnessed, ClusterError> {
    let shape = Shape { gateways: GATEWAYS, ..shape.clone() };
    let mut network = Running::start(broker, &shape, launcher)?;
    network.open_accounts(run)?;
    drop(network.take_port()?);
    let (participants, keys) = shape.network();
    let witnesses = u8::try_from(keys.len() - 1).unwrap_or(u8::MAX);
    let cluster: Arc<dyn Cluster> = Arc::new(network.cluster().clone());
    let open = |gateway, witnesses| {
        let options = DeskOptions { gateway, participants: Vec::new(), witnesses };
        Desk::open(&cluster, &shape.layout(), &participants, &options, &Stop::default())
    };
    let desks = [Arc::new(open(1, 0)?), Arc::new(open(2, witnesses)?)];
    let generator = Generator::new(&run.workload, participants.id, usize::from(shape.schedulers));
    let [without, with] = drive(&desks, generator, usize::from(shape.schedulers), options)?;
    for desk in desks {
        if let Some(desk) = Arc::into_inner(desk) {
            desk.stop(LIMIT);
        }
    }
    network.end()?;
    Ok(Witnessed { witnesses, without, with })
}

fn drive(
    desks: &[Arc<Desk>; 2],
    mut generator: Generator,
    schedulers: usize,
    options: &Options,
) -> Result<[Recorder; 2], ClusterError> {
    let failed = |what: &dyn std::fmt::Display| ClusterError::process("client", what);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let runtime = runtime.map_err(|error| failed(&error))?;
    let interval = Duration::from_secs(1) / u32::try_from(2 * options.rate).unwrap_or(u32::MAX).max(1);
    let payments = (options.warm_up + options.duration).as_nanos() / interval.as_nanos();
    runtime.block_on(async {
        let began = Instant::now();
        let mut made = JoinSet::new();
        let mut found = [Recorder::new(), Recorder::new()];
        for at in 0..u32::try_from(payments).unwrap_or(u32::MAX) {
            let intended = interval * at;
            tokio::time::sleep_until((began + intended).into()).await;
            let turn = at as usize;
            let batch = generator.batch((turn / 2) % schedulers, 1, wall_clock());
            let payment = batch.transaction(0).ok_or_else(|| failed(&"a batch of one has a transaction"))?;
            made.spawn(pay(Arc::clone(&desks[turn % 2]), payment, began, (turn % 2, intended)));
            while let Some(one) = made.try_join_next() {
                record(&mut found, one.map_err(|error| failed(&error))??, options.warm_up);
            }
        }
        while let Some(one) = made.join_next().await {
            record(&mut found, one.map_err(|error| failed(&error))??, options.warm_up);
        }
        Ok(found)
    })
}

/// A payment that was made: through which gateway, when it was to start, and when its outcome was told.
type Made = (usize, Duration, Duration);

fn record(found: &mut [Recorder; 2], (desk, intended, end): Made, warm_up: Duration) {
    if intended >= warm_up {
        found[desk].record(intended, end);
    }
}

async fn pay(
    desk: Arc<Desk>,
    payment: Transaction,
    began: Instant,
    (number, intended): (usize, Duration),
) -> Result<Made, ClusterError> {
    let refused = |what: String| ClusterError::from(WorkloadError::Refused(what));
    let pending = desk.submit(vec![payment]).map_err(|error| refused(error.to_string()))?;
    let told = poll_fn(|context| pending.poll(context));
    tokio::time::timeout(LIMIT, told).await.map_err(|_| WorkloadError::TimedOut("an outcome"))?;
    let end = began.elapsed();
    match desk.wait(&pending, Duration::ZERO).first().map(|answer| &answer.outcome) {
        Some(Outcome::Final(finality)) if finality.verdict.is_ok() => Ok((number, intended, end)),
        other => Err(refused(format!("{other:?}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_before_the_measured_time_is_left_out() {
        let ms = Duration::from_millis;
        let mut found = [Recorder::new(), Recorder::new()];
        for made in [(0, ms(5), ms(900)), (0, ms(10), ms(30)), (1, ms(11), ms(43))] {
            record(&mut found, made, ms(10));
        }
        let [without, with] = found;
        assert_eq!((without.count(), with.count()), (1, 1));
        let found = Witnessed { witnesses: 2, without, with };
        assert!((found.longer() - 0.012).abs() < 1e-4, "{}", found.longer());
    }
}
