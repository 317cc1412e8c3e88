//! Settlement over gRPC: the messages of `proto/tallystick/v1/settlement.proto`, and a client of them.
//!
//! ```no_run
//! # async fn example(batches: Vec<tally_ledger::TransactionBatch>) -> Result<(), tally_gateway::grpc::ClientError> {
//! use tally_gateway::grpc::{Client, Said};
//!
//! let client = Client::connect("http://127.0.0.1:8080", Some("tally_0123"), None).await?;
//! let (requests, mut responses) = client.submit().await?;
//! tokio::spawn(async move {
//!     for (tag, batch) in (0..).zip(&batches) {
//!         if !requests.send(tag, batch).await {
//!             break;
//!         }
//!     }
//! });
//! while let Some((tag, said)) = responses.next().await? {
//!     match said {
//!         Said::Outcomes(outcomes) => println!("{tag}: {} outcomes", outcomes.statuses.len()),
//!         Said::Refused(refused) => println!("{tag}: {refused}"),
//!     }
//! }
//! # Ok(())
//! # }
//! ```

pub(crate) mod channel;
mod client;
pub(crate) mod details;

pub use client::{Client, ClientError, Refused, Requests, Responses, Said};

/// The generated messages, service and client. The published file is their documentation.
#[allow(
    missing_docs,
    unreachable_pub,
    clippy::all,
    clippy::allow_attributes_without_reason,
    reason = "generated from the published .proto file"
)]
pub mod wire {
    tonic::include_proto!("tallystick.v1");
}

/// What the published file says, for reflection: an encoded `FileDescriptorSet` (descriptor.proto).
pub const DESCRIPTION: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/settlement.bin"));
