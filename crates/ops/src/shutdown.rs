//! One way to shut down: SIGTERM or SIGINT asks every part to drain; a second signal ends the process at once.
//!
//! Ending at once is safe at any instruction, because nothing is acknowledged before it is durable; draining
//! only spares the clients a retry.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

/// Why signals could not be caught.
#[derive(Debug, thiserror::Error)]
pub enum ShutdownError {
    /// The handlers of SIGTERM and SIGINT could not be set.
    #[error("cannot install the handlers of SIGTERM and SIGINT")]
    Install(#[source] io::Error),
    /// The thread that waits for signals could not be started.
    #[error("cannot start the thread that waits for signals")]
    Thread(#[source] io::Error),
}

/// A cloneable token: once requested, it stays requested, and every waiter wakes.
#[derive(Debug, Clone, Default)]
pub struct Shutdown {
    state: Arc<State>,
}

#[derive(Debug, Default)]
struct State {
    requested: AtomicBool,
    gate: Mutex<()>,
    changed: Condvar,
}

impl Shutdown {
    /// A token that no signal reaches: for tests, and for parts that are stopped on their own.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The token of this process, requested by the first SIGTERM or SIGINT.
    ///
    /// A second signal ends the process with the status 128 + signal. Calling this again returns the same token.
    ///
    /// # Errors
    /// [`ShutdownError`] when the handlers or their thread cannot be set up.
    pub fn install() -> Result<Self, ShutdownError> {
        static INSTALLED: OnceLock<Shutdown> = OnceLock::new();
        static SETTING_UP: Mutex<()> = Mutex::new(());

        let _one_at_a_time = SETTING_UP.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(shutdown) = INSTALLED.get() {
            return Ok(shutdown.clone());
        }
        let shutdown = Self::new();
        let mut signals = Signals::new([SIGTERM, SIGINT]).map_err(ShutdownError::Install)?;
        let token = shutdown.clone();
        thread::Builder::new()
            .name("signals".to_owned())
            .spawn(move || {
                for signal in signals.forever() {
                    if token.is_requested() {
                        std::process::exit(128 + signal);
                    }
                    token.request();
                }
            })
            .map_err(ShutdownError::Thread)?;
        Ok(INSTALLED.get_or_init(|| shutdown).clone())
    }

    /// Whether shutdown was requested. Cheap enough for every batch of a hot path.
    #[must_use]
    pub fn is_requested(&self) -> bool {
        self.state.requested.load(Ordering::Acquire)
    }

    /// Requests shutdown and wakes every waiter.
    pub fn request(&self) {
        // Under the gate, so that a waiter cannot look before the store and fall asleep after the notice.
        let _gate = self.gate();
        self.state.requested.store(true, Ordering::Release);
        self.state.changed.notify_all();
    }

    /// Waits until shutdown is requested.
    pub fn wait(&self) {
        let mut gate = self.gate();
        while !self.is_requested() {
            gate = self.state.changed.wait(gate).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Waits until shutdown is requested or the time has passed; says whether it was requested.
    #[must_use]
    pub fn wait_timeout(&self, timeout: Duration) -> bool {
        // A timeout beyond what the clock can hold is no timeout.
        let Some(deadline) = Instant::now().checked_add(timeout) else {
            self.wait();
            return true;
        };
        let mut gate = self.gate();
        while !self.is_requested() {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            gate = match self.state.changed.wait_timeout(gate, left) {
                Ok((gate, _)) => gate,
                Err(poisoned) => poisoned.into_inner().0,
            };
        }
        true
    }

    fn gate(&self) -> std::sync::MutexGuard<'_, ()> {
        self.state.gate.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_reaches_every_clone_and_waiter() {
        let shutdown = Shutdown::new();
        assert!(!shutdown.is_requested());
        assert!(!shutdown.wait_timeout(Duration::ZERO));
        let waiters: Vec<_> = (0..4)
            .map(|_| {
                let token = shutdown.clone();
                thread::spawn(move || token.wait_timeout(Duration::MAX))
            })
            .collect();
        shutdown.request();
        for waiter in waiters {
            assert!(waiter.join().unwrap());
        }
        assert!(shutdown.is_requested());
        assert!(shutdown.wait_timeout(Duration::ZERO));
        shutdown.wait();
    }

    #[test]
    fn a_signal_requests_shutdown() {
        let shutdown = Shutdown::install().unwrap();
        let again = Shutdown::install().unwrap();
        assert!(!again.is_requested());
        signal_hook::low_level::raise(SIGTERM).unwrap();
        assert!(shutdown.wait_timeout(Duration::from_secs(30)));
        assert!(again.is_requested());
    }
}
