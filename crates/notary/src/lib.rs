//! A notary of `3f + 1` members that consumes each state once, while no more than `f` of them fail
//! or lie. Its core is pure: no clock, no network, no randomness.
//!
//! [`Replica`] is one member. It joins the round engine of `tally-consensus` (QBFT) with the state
//! machine of a notary: members agree on one sequence of [`Batch`]es of [`Request`]s, and each
//! member carries the batches out in that order. A member votes for a batch only if its [`Judge`]
//! finds the evidence of each request in it sufficient, so that no member has to believe another.
//! [`Collector`] is the client: it takes a transaction as notarised once `2f + 1` members signed
//! that ([`Attestation`]), and as refused once `f + 1` members gave the same reason.
//!
//! The host of a replica keeps these promises, on which safety rests:
//! * it carries out [`Effect`]s in order, and what [`Effect::Persist`] and [`Effect::Append`] carry
//!   is durable before any later effect is carried out ([`FileStorage`] keeps both);
//! * after a restart it gives both back ([`Replica::open`]), and tells no timers of an earlier run;
//! * [`Input::Message`] and [`Input::Request`] name who is really at the other end of the
//!   connection;
//! * a key is used by one replica only.
//!
//! Around the core, with IO: [`Host`] runs a replica on a thread with a clock, [`FileStorage`]
//! keeps what it must not lose. The network is the host's caller's to give ([`Transport`]). Nothing
//! of the core calls any of them.

mod answer;
mod batch;
mod cluster;
mod collector;
mod host;
mod kind;
mod memory;
mod message;
mod pool;
mod replica;
mod request;
mod storage;

pub use answer::{Answer, AnswerForm, Outcome, Signatures, SignedAnswer, TransactionForm};
pub use batch::{Batch, BatchError};
pub use cluster::{Cluster, ClusterError, MEMBERS, Member};
pub use collector::{Attestation, Collector, Progress};
pub use host::{Host, HostError, Identity, Inbox, Told, Transport};
pub use kind::NotaryKind;
pub use memory::Consumptions;
pub use message::Message;
pub use pool::Client;
pub use replica::{Config, Effect, Fault, Input, OpenError, Rejection, Replica, Timer};
pub use request::{Commit, Judge, Request, Unfounded};
pub use storage::{FileStorage, Storage, StorageError};
