//! Workers that run whichever stage can go on. There are as many as cores, whatever the number of
//! stages; a simulation runs the same stages one at a time in an order of its own.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, TryLockError};
use std::thread::JoinHandle;
use std::time::Duration;
use tally_ledger::Timestamp;

/// Why a stage cannot go on: the network stops, and goes on where its logs end after a restart.
#[derive(Debug, thiserror::Error)]
#[error("stage '{stage}' stopped")]
pub struct StageError {
    /// Which.
    pub stage: String,
    /// Why.
    #[source]
    pub source: Box<dyn std::error::Error + Send + Sync>,
}

/// A stage with its topics.
pub trait Stage: Send {
    /// Its name in messages and metrics.
    fn name(&self) -> String;
    /// Takes one step if it can; whether it could.
    ///
    /// # Errors
    /// When it cannot go on at all.
    fn poll(&mut self, now: Timestamp) -> Result<bool, StageError>;
}

/// Wakes workers when something was appended.
#[derive(Default)]
pub struct Signal {
    events: AtomicU64,
    sleeping: AtomicUsize,
    lock: Mutex<()>,
    wake: Condvar,
}

impl Signal {
    /// Something happened.
    pub fn notify(&self) {
        self.events.fetch_add(1, Ordering::SeqCst);
        if self.sleeping.load(Ordering::SeqCst) > 0 {
            let _guard = self.lock.lock().expect("no holder of the signal's lock panics");
            self.wake.notify_all();
        }
    }
    /// What to give to [`Self::wait`].
    pub fn events(&self) -> u64 {
        self.events.load(Ordering::SeqCst)
    }
    /// Sleeps until something happens after `events`, or for `limit`.
    pub fn wait(&self, events: u64, limit: Duration) {
        let guard = self.lock.lock().expect("no holder of the signal's lock panics");
        self.sleeping.fetch_add(1, Ordering::SeqCst);
        if self.events() == events {
            drop(self.wake.wait_timeout(guard, limit).expect("no holder of the signal's lock panics"));
        }
        self.sleeping.fetch_sub(1, Ordering::SeqCst);
    }
}

struct Shared {
    stages: Vec<Mutex<Box<dyn Stage>>>,
    signal: Arc<Signal>,
    clock: Box<dyn Fn() -> Timestamp + Send + Sync>,
    stopping: AtomicBool,
    failure: Mutex<Option<StageError>>,
}

/// Worker threads over a set of stages.
pub struct Executor {
    shared: Arc<Shared>,
    workers: Vec<JoinHandle<()>>,
}

/// How long an idle worker sleeps at most: expiries are noticed this late.
const IDLE: Duration = Duration::from_millis(20);

impl Executor {
    /// Starts `workers` threads. Stages later in the list go first, so that what is begun is ended
    /// before more is begun.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub fn start(
        stages: Vec<Box<dyn Stage>>,
        workers: usize,
        signal: &Arc<Signal>,
        clock: impl Fn() -> Timestamp + Send + Sync + 'static,
    ) -> std::io::Result<Self> {
        let shared = Arc::new(Shared {
            stages: stages.into_iter().map(Mutex::new).collect(),
            signal: Arc::clone(signal),
            clock: Box::new(clock),
            stopping: AtomicBool::new(false),
            failure: Mutex::new(None),
        });
        let mut executor = Self { shared, workers: Vec::new() };
        for number in 0..workers {
            let shared = Arc::clone(&executor.shared);
            let builder = std::thread::Builder::new().name(format!("tally-stage-{number}"));
            executor.workers.push(builder.spawn(move || work(&shared))?);
        }
        Ok(executor)
    }

    /// Why it stopped, if a stage could not go on.
    pub fn failure(&self) -> Option<String> {
        let failure = self.shared.failure.lock().expect("no holder of the lock panics");
        failure.as_ref().map(|error| {
            let mut text = error.to_string();
            let mut cause = std::error::Error::source(error);
            while let Some(error) = cause {
                text = format!("{text}: {error}");
                cause = error.source();
            }
            text
        })
    }

    /// Stops the workers after the step that each is in.
    pub fn stop(&mut self) {
        self.shared.stopping.store(true, Ordering::SeqCst);
        self.shared.signal.notify();
        for worker in self.workers.drain(..) {
            if worker.join().is_err() {
                self.shared.fail(StageError {
                    stage: "worker".into(),
                    source: "a stage broke an invariant of its own; see the log".into(),
                });
            }
        }
    }
}

impl Drop for Executor {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Shared {
    fn fail(&self, error: StageError) {
        self.failure.lock().expect("no holder of the lock panics").get_or_insert(error);
        self.stopping.store(true, Ordering::SeqCst);
        self.signal.notify();
    }
}

fn work(shared: &Shared) {
    while !shared.stopping.load(Ordering::SeqCst) {
        let events = shared.signal.events();
        let now = (shared.clock)();
        let mut progress = false;
        for stage in shared.stages.iter().rev() {
            let mut stage = match stage.try_lock() {
                Ok(stage) => stage,
                Err(TryLockError::WouldBlock) => continue,
                Err(TryLockError::Poisoned(_)) => {
                    let source = "a stage broke an invariant of its own; see the log".into();
                    return shared.fail(StageError { stage: "worker".into(), source });
                }
            };
            match stage.poll(now) {
                Ok(went_on) => progress |= went_on,
                Err(error) => return shared.fail(error),
            }
        }
        if progress {
            shared.signal.notify();
        } else {
            shared.signal.wait(events, IDLE);
        }
    }
}
