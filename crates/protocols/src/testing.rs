//! A network of nodes in one thread: engines with memory for disks and a post that fails on purpose.
//!
//! Nothing happens by itself: a [`Network`] takes one [`Event`] after the other, in turn or in an order drawn from a
//! seed, and everything that happens is a function of that. What a node submits is durable only once it is committed;
//! a crash keeps what is durable and nothing else. Each node keeps every byte that ever reached it.
//!
//! ```
//! use tally_protocols::testing::Network;
//!
//! let mut network = Network::new();
//! let (alice, bob) = (network.party("Alice"), network.party("Bob"));
//! network.notary("Notary", false);
//! network.run(&alice, "CashIssue", serde_json::json!({ "amount": "100.00 USD" }))?;
//! network.run(&alice, "CashPay", serde_json::json!({ "amount": "30.00 USD", "to": bob }))?;
//! assert_eq!(network.cash(&bob, "USD", &alice), 3000);
//! # Ok::<(), tally_flows::FlowError>(())
//! ```

mod chaos;
mod cluster;
mod host;
mod ledger;
mod network;

pub use chaos::Chaos;
pub use host::{Received, Switches};
pub use ledger::Ledger;
pub use network::{Event, Flows, Journaled, NETWORK, Network, at_par};
