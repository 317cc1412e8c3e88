use std::sync::atomic::{AtomicU64, Ordering};

/// What a server has done since it began, for metrics.
#[derive(Debug, Default)]
pub struct Figures {
    pub(super) connections: AtomicU64,
    pub(super) connections_refused: AtomicU64,
    pub(super) calls: AtomicU64,
    pub(super) logins: AtomicU64,
    pub(super) logins_refused: AtomicU64,
    pub(super) clients_slow: AtomicU64,
}

impl Figures {
    /// Connections that are open.
    pub fn connections(&self) -> u64 {
        self.connections.load(Ordering::Relaxed)
    }

    /// Connections refused because there were as many as the server takes.
    pub fn connections_refused(&self) -> u64 {
        self.connections_refused.load(Ordering::Relaxed)
    }

    /// Calls, of health checks and reflection too; a stream is one.
    pub fn calls(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
    }

    /// Tokens given.
    pub fn logins(&self) -> u64 {
        self.logins.load(Ordering::Relaxed)
    }

    /// Logins refused for a wrong password or user, or too many of these.
    pub fn logins_refused(&self) -> u64 {
        self.logins_refused.load(Ordering::Relaxed)
    }

    /// Clients that followed something too slowly and were disconnected.
    pub fn clients_slow(&self) -> u64 {
        self.clients_slow.load(Ordering::Relaxed)
    }
}

pub(super) fn count(figure: &AtomicU64) {
    figure.fetch_add(1, Ordering::Relaxed);
}

/// Counts something that is there for as long as this is.
#[derive(Debug)]
pub(super) struct Present(std::sync::Arc<Figures>);

impl Present {
    pub(super) fn new(figures: &std::sync::Arc<Figures>) -> Self {
        count(&figures.connections);
        Self(figures.clone())
    }
}

impl Drop for Present {
    fn drop(&mut self) {
        self.0.connections.fetch_sub(1, Ordering::Relaxed);
    }
}
