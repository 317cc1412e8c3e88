//! A whole settlement network in one thread, from one seed.
//!
//! Every stage takes its steps in an order that the seed decides; clients send good, bad, repeated and
//! late transactions; the disk runs full, fails and loses power; the process is killed and started
//! again at any point. Whatever a client was told is kept, and compared after every crash with the
//! log, with the process, and with a naive ledger.

mod check;
pub(crate) mod clients;
pub(crate) mod ledger;
pub(crate) mod lies;
pub(crate) mod life;
mod mischief;
pub(crate) mod plan;
mod run;
pub(crate) mod workload;

pub use lies::Lie;
pub(crate) use run::temporary;
pub use run::{Summary, run, run_liars};
