//! Limits and times of messaging.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

/// Limits and times; [`Settings::default`] is right for a node.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Where to listen; port 0 takes a free one.
    pub listen: SocketAddr,
    /// Largest message in bytes, sent or received.
    pub message_limit: usize,
    /// Bytes of messages held in memory for one connected peer; the rest is read back from the outbox.
    pub buffer_limit: usize,
    /// Accepted connections that have finished their handshake, one for each peer.
    pub connection_limit: usize,
    /// Accepted connections that have not; one more pushes out the one that has tried longest.
    pub handshake_limit: usize,
    /// How many of them may be from one address; one more pushes out the one that has tried longest.
    pub handshakes_per_address: usize,
    /// Time to open a TCP connection to one address.
    pub connect_timeout: Duration,
    /// Time for the TLS handshake and the first frames together.
    pub handshake_timeout: Duration,
    /// A side that has written nothing for this long sends a ping.
    pub ping_after: Duration,
    /// A side that has read nothing for this long closes; at least twice `ping_after`.
    pub silence_limit: Duration,
    /// A connection that has had nothing to deliver for this long is closed until there is something.
    pub linger: Duration,
    /// A connection older than this is made anew, so that certificates are verified again.
    pub connection_age: Duration,
    /// The first wait after a failure to reach a peer.
    pub retry_floor: Duration,
    /// The longest wait between attempts.
    pub retry_ceiling: Duration,
    /// How long an acknowledgement may wait for others to join it.
    pub acknowledge_delay: Duration,
    /// How many peers may read from the outbox at the same time.
    pub outbox_readers: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            message_limit: 10 << 20,
            buffer_limit: 1 << 20,
            connection_limit: 4096,
            handshake_limit: 256,
            handshakes_per_address: 64,
            connect_timeout: Duration::from_secs(5),
            handshake_timeout: Duration::from_secs(10),
            ping_after: Duration::from_secs(15),
            silence_limit: Duration::from_secs(45),
            linger: Duration::from_secs(600),
            connection_age: Duration::from_secs(6 * 3600),
            retry_floor: Duration::from_millis(100),
            retry_ceiling: Duration::from_secs(30),
            acknowledge_delay: Duration::from_millis(10),
            outbox_readers: 4,
        }
    }
}

/// A setting that cannot work.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SettingsError {
    /// A limit or time is zero.
    #[error("{0} is zero; give it a positive value")]
    Zero(&'static str),
    /// Peers would be taken for dead between two pings.
    #[error(
        "silence_limit ({silence_limit:?}) is below twice ping_after ({ping_after:?}); a healthy peer would be taken for dead"
    )]
    Silence {
        /// The limit given.
        silence_limit: Duration,
        /// The ping interval given.
        ping_after: Duration,
    },
    /// A frame's length has 32 bits.
    #[error("message_limit is {0} bytes; the most is 1 GiB")]
    MessageLimit(usize),
}

impl Settings {
    /// Largest message limit that can be set: 1 GiB.
    pub const MESSAGE_LIMIT_MAX: usize = 1 << 30;

    pub(crate) fn validate(&self) -> Result<(), SettingsError> {
        let times = [
            ("connect_timeout", self.connect_timeout),
            ("handshake_timeout", self.handshake_timeout),
            ("ping_after", self.ping_after),
            ("linger", self.linger),
            ("connection_age", self.connection_age),
            ("retry_floor", self.retry_floor),
        ];
        let limits = [
            ("message_limit", self.message_limit),
            ("connection_limit", self.connection_limit),
            ("handshake_limit", self.handshake_limit),
            ("handshakes_per_address", self.handshakes_per_address),
            ("outbox_readers", self.outbox_readers),
        ];
        let zero_time = times.iter().find(|(_, time)| time.is_zero()).map(|(name, _)| *name);
        let zero_limit = limits.iter().find(|(_, limit)| *limit == 0).map(|(name, _)| *name);
        if let Some(name) = zero_time.or(zero_limit) {
            return Err(SettingsError::Zero(name));
        }
        if self.silence_limit < self.ping_after.saturating_mul(2) {
            return Err(SettingsError::Silence {
                silence_limit: self.silence_limit,
                ping_after: self.ping_after,
            });
        }
        if self.message_limit > Self::MESSAGE_LIMIT_MAX {
            return Err(SettingsError::MessageLimit(self.message_limit));
        }
        Ok(())
    }
}
