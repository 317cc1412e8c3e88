//! Counters of messaging since it started.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::error::Reason;

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        #[derive(Debug)]
        pub(crate) struct Counters {
            $(pub(crate) $name: AtomicU64,)*
            refused: [AtomicU64; Reason::ALL.len()],
        }

        /// What was counted since the start; all numbers only grow.
        #[derive(Debug, Clone, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct Metrics {
            $($(#[$doc])* pub $name: u64,)*
            /// Connections refused, or ended by one side, by reason; reasons that did not occur are left out.
            pub refused: Vec<(Reason, u64)>,
        }

        impl Counters {
            pub(crate) fn new() -> Self {
                Self { $($name: AtomicU64::new(0),)* refused: std::array::from_fn(|_| AtomicU64::new(0)) }
            }

            pub(crate) fn read(&self) -> Metrics {
                let refused = Reason::ALL.iter().zip(&self.refused);
                Metrics {
                    $($name: self.$name.load(Relaxed),)*
                    refused: refused
                        .map(|(reason, count)| (*reason, count.load(Relaxed)))
                        .filter(|(_, count)| *count > 0)
                        .collect(),
                }
            }
        }
    };
}

counters! {
    /// Messages written to connections, repeats after a reconnection included.
    messages_sent,
    /// Their bytes, without frames and TLS.
    bytes_sent,
    /// Writes that carried them.
    writes,
    /// Messages accepted by the inbox.
    messages_received,
    /// Their bytes.
    bytes_received,
    /// Reads that brought something.
    reads,
    /// Messages that had been accepted before and were dropped.
    messages_repeated,
    /// Messages given to `send` that found no room in memory.
    messages_left_to_outbox,
    /// Reads of the outbox.
    outbox_reads,
    /// Acknowledgements written.
    acknowledgements_sent,
    /// Acknowledgements read.
    acknowledgements_received,
    /// Times that a full inbox stopped the reading of a connection.
    pauses,
    /// Connections made to peers.
    connections_made,
    /// Those of them that were not the first to their peer.
    reconnections,
    /// Attempts to reach a peer that failed.
    attempts_failed,
    /// Connections from peers that finished their handshake.
    connections_accepted,
    /// Connections accepted by the listener and dropped because newer ones wanted their place.
    handshakes_evicted,
}

impl Counters {
    pub(crate) fn add(counter: &AtomicU64, count: usize) {
        counter.fetch_add(count as u64, Relaxed);
    }

    pub(crate) fn refused(&self, reason: Reason) {
        if let Some(counter) = self.refused.get(usize::from(reason.code()) - 1) {
            counter.fetch_add(1, Relaxed);
        }
    }
}
