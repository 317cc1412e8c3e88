//! A member of a clustered notary, run by this node.
//!
//! | module | what it answers |
//! | --- | --- |
//! | [`ClusterMember`] | the member: start, ask its cluster, end |
//! | [`ClusterSection`] | `[cluster]` of `node.toml` |
//! | `links` | connections to and from the other members, over TLS 1.3 |
//! | `intake` | what waits for the replica, from each member in turn |
//! | `asker` | requests under way, and the answers gathered for each |
//! | `custody` | the voting key is never used without what it signed |
//!
//! ```text
//!  submit ──▶ asker ──┬─ requests ─▶ lines ──TLS──▶ other members
//!    ▲                │                ▲                 │
//!    │                └─▶ intake ──▶ Host (thread) ◀── links ◀─┘
//!    └── Decision ◀── answers of 2f + 1, refusals of f + 1
//! ```

mod asker;
mod custody;
mod error;
mod frame;
mod intake;
mod line;
mod links;
mod member;
mod meters;
mod section;
mod transport;

pub use asker::{Decision, Undecided};
pub use custody::CustodyError;
pub use error::ClusterError;
pub use links::CLUSTER_PROTOCOL;
pub use member::{ClusterMember, ClusterParts};
pub use meters::{ClusterFigures, ClusterMeters};
pub use section::{ClusterSection, ClusterSectionError};
