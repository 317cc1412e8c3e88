//! What the reading and the writing half of one connection tell each other.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, MissedTickBehavior};

use crate::error::ConnectionError;
use crate::settings::Settings;

/// How long the last words of a connection may take.
pub(crate) const FAREWELL: Duration = Duration::from_secs(1);

/// Both halves run in one task, so nothing here is contended.
#[derive(Debug, Default)]
pub(crate) struct Life {
    reads: AtomicU64,
    writes: AtomicU64,
    /// Reading stands still because the inbox is full: silence is ours, not the peer's.
    paused: AtomicBool,
    ping: AtomicBool,
    closing: Mutex<Option<Vec<u8>>>,
}

impl Life {
    pub(crate) fn has_read(&self) {
        self.reads.fetch_add(1, Relaxed);
    }

    pub(crate) fn has_written(&self) {
        self.writes.fetch_add(1, Relaxed);
    }

    pub(crate) fn pause(&self, paused: bool) {
        self.paused.store(paused, Relaxed);
        self.has_read();
    }

    /// Whether the writer owes a ping.
    pub(crate) fn take_ping(&self) -> bool {
        self.ping.swap(false, Relaxed)
    }

    /// The writer ends with these frames.
    pub(crate) fn close(&self, words: Vec<u8>) {
        *self.closing.lock().unwrap_or_else(PoisonError::into_inner) = Some(words);
    }

    /// The frames that the writer is to end with.
    pub(crate) fn closing(&self) -> Option<Vec<u8>> {
        self.closing.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Asks for a ping (through `wake`) when nothing was written for a while; returns when nothing was read for
    /// too long. One timer for each connection, touched by no message.
    pub(crate) async fn watch(&self, settings: &Settings, wake: impl Fn()) -> ConnectionError {
        let mut ticks = tokio::time::interval_at(Instant::now() + settings.ping_after, settings.ping_after);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (mut reads, mut writes) = (self.reads.load(Relaxed), self.writes.load(Relaxed));
        let mut heard = Instant::now();
        loop {
            let now = ticks.tick().await;
            let read = self.reads.load(Relaxed);
            if read != reads || self.paused.load(Relaxed) {
                (reads, heard) = (read, now);
            } else if now.duration_since(heard) >= settings.silence_limit {
                return ConnectionError::Silent { after: settings.silence_limit, during: "connected" };
            }
            let written = self.writes.load(Relaxed);
            if written == writes {
                self.ping.store(true, Relaxed);
                wake();
            }
            writes = self.writes.load(Relaxed);
        }
    }
}
