//! One institution's node: flows, vault, notary, messaging and RPC, wired together.
//!
//! | module | what it answers |
//! | --- | --- |
//! | [`Core`] | a node without threads and sockets: what simulation drives |
//! | [`Service`] | the node as its clients see it |
//! | [`Settings`] | `node.toml` |
//! | [`Running`] | a node as a process |
//! | [`ClusterMember`] | a member of a clustered notary that the node runs |
//!
//! ```text
//!   clients ──RPC──▶ Service ──▶ Core ◀── messages ── peers
//!                                 │  ▲
//!              flow threads ◀─────┤  │ released once durable
//!                    │ units      ▼  │
//!                    └──────▶ one batch at a time ──▶ store
//! ```

mod acceptance;
mod cluster;
mod core;
mod courier;
mod desk;
mod expiry;
mod http;
mod member;
mod metrics;
mod peers;
mod process;
mod service;
mod settings;
#[cfg(test)]
mod testing;
mod users;

pub use acceptance::AcceptError;
pub use cluster::{
    CLUSTER_PROTOCOL, ClusterError, ClusterFigures, ClusterMember, ClusterMeters, ClusterParts,
    ClusterSection, ClusterSectionError, CustodyError, Decision, Undecided,
};
pub use core::{Core, Known, OpenError, Post, Request, Unavailable, VaultChange};
pub use courier::CourierError;
pub use desk::submissions::{Decided, Submit};
pub use desk::watch::{Event, Follower, Step};
pub use desk::{Clock, FormerSigningKey, Network, Parts, Rates};
pub use metrics::Meters;
pub use process::{Addresses, NodeError, Running};
pub use service::{About, Service};
pub use settings::{
    CashSection, ConsentSection, DatabaseSection, FILE, FlowsSection, HttpSection, IdentitySection,
    MessagingSection, NetworkSection, OracleSection, PurchaseSection, RpcSection, Settings, SettingsError,
};
