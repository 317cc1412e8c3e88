//! The thread that saves the balances from time to time.

use super::Shared;
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

/// Saves every so often until dropped.
pub(super) struct Saver {
    stop: Arc<(Mutex<bool>, Condvar)>,
    thread: Option<JoinHandle<()>>,
}

impl Saver {
    pub(super) fn start(shared: Arc<Shared>, every: Duration) -> std::io::Result<Self> {
        let stop = Arc::new((Mutex::new(false), Condvar::new()));
        let stopped = Arc::clone(&stop);
        let run = move || {
            let mut saved = None;
            loop {
                let (flag, changed) = &*stopped;
                let guard = flag.lock().expect(super::LOCK);
                let (guard, _) = changed.wait_timeout_while(guard, every, |stop| !*stop).expect(super::LOCK);
                if *guard {
                    return;
                }
                drop(guard);
                let sequenced = shared.clerk().next();
                if saved != Some(sequenced) {
                    // Without a snapshot recovery takes longer and nothing else: the journal has it all.
                    match shared.save() {
                        Ok(_) => saved = Some(sequenced),
                        Err(error) => tracing::warn!(%error, "no snapshot could be saved"),
                    }
                }
            }
        };
        let thread = std::thread::Builder::new().name("tally-snapshot".into()).spawn(run)?;
        Ok(Self { stop, thread: Some(thread) })
    }
}

impl Drop for Saver {
    fn drop(&mut self) {
        *self.stop.0.lock().expect(super::LOCK) = true;
        self.stop.1.notify_all();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
