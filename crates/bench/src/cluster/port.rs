//! A network over a cluster, as its driver sees it.

use super::kept::Kept;
use super::{ClusterError, Shape};
use crate::settlement::Port;
use crate::workload::WorkloadError;
use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tally_ledger::{Transaction, TransactionBatch};
use tally_log::cluster::SharedLog;
use tally_log::kafka::KafkaCluster;
use tally_log::{Health, LogError};
use tally_settlement::message::{Intake, IntakeBatch, SequenceBatch, Source};
use tally_settlement::process::{Gateway, Stop, first_origin};

/// A gateway whose submissions a thread of its own makes visible, so that its driver never waits for the cluster.
pub struct GatewayPort {
    gateway: Gateway,
    cluster: Arc<Kept>,
    log: Arc<dyn SharedLog>,
    wanted: Arc<Wanted>,
    flusher: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Wanted {
    state: Mutex<State>,
    told: Condvar,
}

#[derive(Default)]
struct State {
    flush: bool,
    stop: bool,
    failed: Option<String>,
}

/// Bytes of payments that wait to become visible; more are not taken.
const MAX_WAITING: usize = 32 << 20;
/// How many transactions of the opening go in one submission: each may have 255 legs.
const OPENING_BATCH: usize = 256;
/// How long outcomes of the opening are waited for.
const OPENING_LIMIT: Duration = Duration::from_secs(300);

impl GatewayPort {
    /// Opens the gateway of a network.
    ///
    /// # Errors
    /// When the cluster cannot be reached.
    pub fn open(cluster: &KafkaCluster, shape: &Shape) -> Result<Self, ClusterError> {
        let cluster = Arc::new(Kept::new(cluster.clone()));
        let gateway = Gateway::open(&*cluster, &shape.layout(), 0, first_origin(), &Stop::default())?;
        let log = cluster.last().ok_or_else(|| ClusterError::process("gateway", "it opened no log"))?;
        let wanted = Arc::new(Wanted::default());
        let flusher = {
            let (log, wanted) = (Arc::clone(&log), Arc::clone(&wanted));
            std::thread::Builder::new()
                .name("gateway-flush".to_owned())
                .spawn(move || flush(&*log, &wanted))
                .map_err(|error| ClusterError::process("gateway", error))?
        };
        Ok(Self { gateway, cluster, log, wanted, flusher: Some(flusher) })
    }

    /// What it opened, for what goes through.
    pub(super) fn kept(&self) -> Arc<Kept> {
        Arc::clone(&self.cluster)
    }

    /// Waits until all that was handed in is visible.
    ///
    /// # Errors
    /// When it never will be.
    pub fn settled(&self) -> Result<(), ClusterError> {
        while !self.gateway.flush()? {}
        Ok(())
    }

    /// Hands in transactions that all fall to the first scheduler, and waits until each is made.
    ///
    /// # Errors
    /// When one is not.
    pub fn settle(&mut self, transactions: &[Transaction]) -> Result<(), WorkloadError> {
        let deadline = Instant::now() + OPENING_LIMIT;
        let mut chunks = transactions.chunks(OPENING_BATCH);
        let (mut said, mut open) = (0, HashMap::<Source, u64>::new());
        let (mut sent, mut made) = (0, 0);
        let mut early: HashMap<Source, u64> = HashMap::new();
        while sent == 0 || said < sent || !open.is_empty() || chunks.len() > 0 {
            while self.log.pending_bytes() < MAX_WAITING
                && let Some(chunk) = chunks.next()
            {
                let mut batch = TransactionBatch::default();
                for transaction in chunk {
                    if !batch.push(transaction) {
                        return Err(WorkloadError::Refused("a transaction of the set-up".into()));
                    }
                }
                self.submit(0, batch)?;
                sent += 1;
                self.flush()?;
            }
            if transactions.is_empty() {
                return Ok(());
            }
            while let Some(intake) = self.intake()? {
                said += 1;
                let refused = intake.results.iter().find(|result| !matches!(result, Intake::Accepted(_)));
                if let Some(refused) = refused {
                    return Err(WorkloadError::Refused(format!("{refused:?}")));
                }
                if let Some(source) = intake.source {
                    let count = intake.results.len() as u64;
                    let left = count - early.remove(&source).unwrap_or(0);
                    if left > 0 {
                        open.insert(source, left);
                    }
                }
            }
            while let Some(decided) = self.sequence()? {
                if let Some(run) = decided.runs.iter().find(|run| run.verdict != 0) {
                    return Err(WorkloadError::Refused(format!("{run:?}")));
                }
                let count = u64::from(decided.count);
                made += count;
                match open.get_mut(&decided.source) {
                    Some(left) if *left > count => *left -= count,
                    Some(_) => drop(open.remove(&decided.source)),
                    None => *early.entry(decided.source).or_default() += count,
                }
            }
            if let Health::Failed { reason } = self.health() {
                return Err(WorkloadError::Refused(reason));
            }
            if Instant::now() > deadline {
                return Err(WorkloadError::TimedOut("an outcome of the set-up"));
            }
            self.gateway.wait(Duration::from_millis(5));
        }
        debug_assert_eq!(made, transactions.len() as u64, "every outcome was counted once");
        Ok(())
    }
}

/// Makes visible what was handed in, one commit after another.
fn flush(log: &dyn SharedLog, wanted: &Wanted) {
    loop {
        {
            let state = wanted.state.lock().unwrap_or_else(PoisonError::into_inner);
            let mut state = wanted
                .told
                .wait_while(state, |state| !state.flush && !state.stop)
                .unwrap_or_else(PoisonError::into_inner);
            if state.stop {
                return;
            }
            state.flush = false;
        }
        let again = match log.sync() {
            Ok(_) => continue,
            Err(LogError::Stalled { .. } | LogError::Backpressure { .. }) => Ok(()),
            Err(error) => Err(error.to_string()),
        };
        let mut state = wanted.state.lock().unwrap_or_else(PoisonError::into_inner);
        match again {
            Ok(()) => state.flush = true,
            Err(reason) => {
                state.failed = Some(reason);
                return;
            }
        }
    }
}

impl Port for GatewayPort {
    fn schedulers(&self) -> usize {
        self.gateway.schedulers()
    }

    fn has_room(&self, _scheduler: usize) -> bool {
        self.log.pending_bytes() < MAX_WAITING
    }

    fn submit(&mut self, scheduler: usize, batch: TransactionBatch) -> Result<u64, WorkloadError> {
        self.gateway.submit(scheduler, batch).map_err(refused)
    }

    fn flush(&mut self) -> Result<(), WorkloadError> {
        if self.log.pending_bytes() > 0 {
            self.wanted.state.lock().unwrap_or_else(PoisonError::into_inner).flush = true;
            self.wanted.told.notify_one();
        }
        Ok(())
    }

    fn intake(&mut self) -> Result<Option<Arc<IntakeBatch>>, WorkloadError> {
        self.gateway.intake().map_err(refused)
    }

    fn sequence(&mut self) -> Result<Option<Arc<SequenceBatch>>, WorkloadError> {
        Ok(self.gateway.sequence().map_err(refused)?.map(|(_, batch)| batch))
    }

    fn applied(&self) -> u64 {
        // A gateway of a benchmark keeps no books, and knows of nobody's.
        0
    }

    fn events(&self) -> u64 {
        // What arrives is remembered until the next wait.
        0
    }

    fn wait(&self, _events: u64, limit: Duration) {
        self.gateway.wait(limit);
    }

    fn health(&self) -> Health {
        let failed = self.wanted.state.lock().unwrap_or_else(PoisonError::into_inner).failed.clone();
        failed.map_or_else(|| self.log.health(), |reason| Health::Failed { reason })
    }
}

impl Drop for GatewayPort {
    fn drop(&mut self) {
        self.wanted.state.lock().unwrap_or_else(PoisonError::into_inner).stop = true;
        self.wanted.told.notify_one();
        if let Some(flusher) = self.flusher.take() {
            // It ends after at most one commit.
            let _ = flusher.join();
        }
    }
}

fn refused(error: impl std::error::Error) -> WorkloadError {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(source) = cause {
        text.push_str(&format!(": {source}"));
        cause = source.source();
    }
    WorkloadError::Refused(text)
}
