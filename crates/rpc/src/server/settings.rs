use std::fmt;
use std::net::SocketAddr;
use std::ops::Deref;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How a server behaves.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Settings {
    /// Where to listen; port 0 for any free one.
    pub address: SocketAddr,
    /// How long a token is good for: one hour.
    pub token_lifetime: Duration,
    /// Passwords verified at once, each on a blocking thread with 19 MiB: 2.
    pub logins_at_once: usize,
    /// Longest message from a client, in bytes: 1 MiB.
    pub message_limit: usize,
    /// Longest attachment, in bytes: 10 MiB.
    pub attachment_limit: usize,
    /// Attachments received at once; more uploads wait: 8.
    pub uploads_at_once: usize,
    /// Open connections: 1,024. When there are more, the oldest that has not logged in is closed; if all have, a few more
    /// are told why they are refused.
    pub connections: usize,
    /// Open connections from one address that have not logged in: 512. One more closes the oldest of them.
    pub strangers_per_address: usize,
    /// Open calls of one connection: 1,024. A client holds back more by itself.
    pub streams_per_connection: u32,
    /// Items that wait for a client that follows something before it is too slow: 1,024.
    pub feed_items: usize,
    /// Flows in flight on one RunFlows stream; the server reads no further start until one ends: 1,024.
    pub flows_per_stream: usize,
    /// How long a client has for the TLS handshake: 10 s.
    pub handshake_limit: Duration,
    /// How long a connection may be open before a login, or a call with a valid token, on it: 60 s.
    pub login_limit: Duration,
    /// A client that does not answer a ping within as long again is gone: 20 s.
    pub ping_every: Duration,
    /// How long calls have to end once the server is told to stop: 10 s.
    pub drain_limit: Duration,
    /// What tells the time.
    pub clock: Clock,
}

impl Settings {
    /// The documented values.
    pub fn new(address: SocketAddr) -> Self {
        Self {
            address,
            token_lifetime: Duration::from_secs(3600),
            logins_at_once: 2,
            message_limit: 1 << 20,
            attachment_limit: 10 << 20,
            uploads_at_once: 8,
            connections: 1024,
            strangers_per_address: 512,
            streams_per_connection: 1024,
            feed_items: 1024,
            flows_per_stream: 1024,
            handshake_limit: Duration::from_secs(10),
            login_limit: Duration::from_secs(60),
            ping_every: Duration::from_secs(20),
            drain_limit: Duration::from_secs(10),
            clock: Clock::system(),
        }
    }
}

/// Tells the time for tokens and throttling; a test may hold it.
#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> Instant + Send + Sync>);

impl Clock {
    /// The system's monotonic clock.
    pub fn system() -> Self {
        Self::new(Instant::now)
    }

    /// What this function says.
    pub fn new(now: impl Fn() -> Instant + Send + Sync + 'static) -> Self {
        Self(Arc::new(now))
    }
}

impl Deref for Clock {
    type Target = dyn Fn() -> Instant + Send + Sync;

    fn deref(&self) -> &Self::Target {
        &*self.0
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Clock")
    }
}
