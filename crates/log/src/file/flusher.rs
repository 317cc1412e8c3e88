//! The thread that syncs a file log.

use super::FileLog;
use crate::{Health, Log, LogError, Ticket};
use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

/// With this much waiting, the flusher lingers no longer.
const FULL_BATCH_BYTES: usize = 4 << 20;
/// After so much idleness the last batch is marked as durable.
const IDLE: Duration = Duration::from_secs(1);
/// How often a full disk is tried again.
const RETRY: Duration = Duration::from_millis(100);

/// What appends and the flusher tell each other, under the lock of the queue.
#[derive(Debug, Default)]
pub(super) struct Signal {
    /// The flusher sleeps until so many bytes wait; none: it is not asleep, or for a time only.
    pub(super) wake_at_bytes: Option<usize>,
    stop: bool,
}

/// A thread that brings a [`FileLog`]'s records to disk as they come, one sync after the other, each for all
/// that came during the last. Stops when dropped, after a last sync.
#[derive(Debug)]
pub struct Flusher {
    log: Arc<FileLog>,
    thread: Option<JoinHandle<()>>,
}

impl FileLog {
    /// Starts a thread that syncs whenever records wait, but first lets them gather for `linger` (zero: while
    /// the last sync runs).
    ///
    /// # Errors
    /// [`LogError::Io`] if no thread can be started.
    pub fn spawn_flusher(log: &Arc<Self>, linger: Duration) -> Result<Flusher, LogError> {
        log.queue().flusher.stop = false;
        let shared = Arc::clone(log);
        let thread = std::thread::Builder::new()
            .name("tally-log-flush".to_owned())
            .spawn(move || shared.flush_until_stopped(linger))
            .map_err(|source: io::Error| LogError::Io {
                operation: "start the thread that flushes",
                file: log.disk.describe(),
                source,
            })?;
        Ok(Flusher { log: Arc::clone(log), thread: Some(thread) })
    }

    fn flush_until_stopped(&self, linger: Duration) {
        loop {
            let mut idle = false;
            let mut stop;
            {
                let mut queue = self.queue();
                while queue.pending_bytes == 0 && !queue.flusher.stop && !idle {
                    queue.flusher.wake_at_bytes = Some(1);
                    if queue.is_marked() {
                        queue = self.pending.wait(queue).expect(super::POISONED);
                    } else {
                        let (guard, timeout) = self.pending.wait_timeout(queue, IDLE).expect(super::POISONED);
                        queue = guard;
                        idle = timeout.timed_out() && queue.pending_bytes == 0;
                    }
                }
                if !linger.is_zero() && !idle {
                    queue.flusher.wake_at_bytes = Some(FULL_BATCH_BYTES);
                    let more = |queue: &mut super::Queue| {
                        queue.pending_bytes < FULL_BATCH_BYTES && !queue.flusher.stop
                    };
                    queue = self.pending.wait_timeout_while(queue, linger, more).expect(super::POISONED).0;
                }
                queue.flusher.wake_at_bytes = None;
                stop = queue.flusher.stop;
            }
            let result = if idle { self.mark_durable() } else { self.sync() };
            match result {
                Ok(_) => {}
                Err(LogError::Stalled { .. }) => {
                    let queue = self.queue();
                    let wait = |queue: &mut super::Queue| !queue.flusher.stop;
                    let (queue, _) =
                        self.pending.wait_timeout_while(queue, RETRY, wait).expect(super::POISONED);
                    stop = queue.flusher.stop;
                }
                // Health says why; every later call fails the same way.
                Err(_) => return,
            }
            if stop {
                return;
            }
        }
    }

    fn stop_flusher(&self) {
        self.queue().flusher.stop = true;
        self.pending.notify_all();
    }
}

impl Flusher {
    /// Stops the thread, syncs what still waits, and returns what is durable then.
    ///
    /// # Errors
    /// As [`Log::sync`]: if the last records could not be made durable.
    pub fn stop(mut self) -> Result<Ticket, LogError> {
        self.join();
        self.log.mark_durable()
    }

    /// The log.
    #[must_use]
    pub fn log(&self) -> &Arc<FileLog> {
        &self.log
    }

    fn join(&mut self) {
        if let Some(thread) = self.thread.take() {
            self.log.stop_flusher();
            if thread.join().is_err() {
                self.log.fail("the thread that flushes panicked");
            }
        }
    }
}

impl Drop for Flusher {
    fn drop(&mut self) {
        if self.thread.is_some() {
            self.join();
            if self.log.health() == Health::Ok {
                // Dropping cannot report; whoever has to know calls `stop`.
                let _ = self.log.mark_durable();
            }
        }
    }
}
