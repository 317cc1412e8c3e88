//! The node's remote interface in gRPC: start and follow flows, query and track the vault, with users and permissions.
//!
//! The published form is `proto/tallystick/node/v1/node.proto`; standard tools read it from a running node by
//! reflection. A node implements [`NodeService`] and hands it to a [`Server`], which does the rest: TLS, [`Users`]
//! and their [`Permissions`], limits, deadlines, and [`Feed`]s that never hold the node up. A [`Client`] calls it. Each
//! refusal is a [`Refusal`] with a stable [`RefusalCode`] on both sides. No type of the wire is seen here.
//!
//! ```no_run
//! # use std::sync::Arc;
//! # async fn example(trust: Arc<tokio_rustls::rustls::ClientConfig>) -> Result<(), tally_rpc::ClientError> {
//! use tally_rpc::{Client, Outcome, StartFlow};
//!
//! let client = Client::connect("localhost:10003", "localhost", trust, "admin", "correct horse").await?;
//! let arguments = [("amount".to_owned(), "100.00 USD".into())].into_iter().collect();
//! let start = StartFlow { flow: "CashIssue".into(), arguments, request_id: Some("2024-001".into()) };
//! match client.run_flow(&start).await?.outcome {
//!     Outcome::Completed(output) => println!("{output}"),
//!     Outcome::Failed(failure) => println!("{failure}"),
//!     Outcome::Unknown(fate) => println!("{}: {}", fate.transaction_id, fate.reason),
//! }
//! # Ok(())
//! # }
//! ```

// The support of the tests is an example's as well, which sees this crate from outside.
#[cfg(test)]
extern crate self as tally_rpc;

mod client;
mod convert;
mod feed;
mod permissions;
mod refusal;
mod server;
mod service;
mod types;
mod users;
mod wire;

#[cfg(test)]
mod tests;

pub use client::{Client, ClientError, ClientSettings, FlowEnds, FlowStarts, FlowWatch, VaultTrack};
pub use convert::NotUnderstood;
pub use feed::{Feed, FeedClosed, FeedReader};
pub use permissions::{Permission, Permissions, UnknownPermission};
pub use refusal::{Refusal, RefusalCode};
pub use server::{Admission, Clock, Figures, Health, Server, ServerError, Settings};
pub use service::{Caller, NodeService};
pub use types::{
    AnnouncedParameters, Drain, FlowDescription, FlowEnd, FlowEvent, FlowFailure, FlowInfo, FlowPage,
    FlowQuery, FlowState, FlowStep, NetworkMap, NetworkNotary, NetworkParty, NodeInfo, NotaryKind, Outcome,
    Parameters, SortBy, StartFlow, StateStatus, TransactionInfo, Undelivered, UndeliveredPage,
    UndeliveredQuery, UnknownFate, Unresolved, VaultPage, VaultQuery, VaultState, VaultUpdate,
};
pub use users::{User, Users, UsersError, hash_password};
