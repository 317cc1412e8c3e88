//! What is between two nodes: connections that break, and what is on its way.

use bytes::Bytes;

/// The way from one node to another.
#[derive(Default)]
pub(crate) struct Link {
    /// There is a connection, opened by the sender.
    pub(crate) connected: bool,
    /// It is broken, and nobody has noticed yet.
    pub(crate) stuck: bool,
    /// Nothing gets through.
    pub(crate) cut: bool,
    /// The number put on the wire last in this connection.
    pub(crate) sent: u64,
    /// Messages on their way, duplicates and all.
    pub(crate) wire: Vec<(u64, Bytes)>,
    /// Acknowledgements on their way back.
    pub(crate) acks: Vec<u64>,
}

impl Link {
    /// The connection is gone, with all that was on its way.
    pub(crate) fn close(&mut self) {
        self.connected = false;
        self.stuck = false;
        self.wire.clear();
        self.acks.clear();
    }
}
