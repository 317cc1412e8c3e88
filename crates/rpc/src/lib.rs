//! The node's remote interface in gRPC: start and follow flows, query and track the vault, with users and permissions.

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
pub use server::{Clock, Health, Server, ServerError, Settings};
pub use service::{Caller, NodeService};
pub use types::{
    FlowDescription, FlowEnd, FlowEvent, FlowFailure, FlowInfo, FlowPage, FlowQuery, FlowState, FlowStep,
    NetworkMap, NetworkNotary, NetworkParty, NodeInfo, NotaryKind, Outcome, SortBy, StartFlow, StateStatus,
    TransactionInfo, VaultPage, VaultQuery, VaultState, VaultUpdate,
};
pub use users::{User, Users, UsersError, hash_password};
