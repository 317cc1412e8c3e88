//! A whole settlement network of shards over a cluster in memory, in one thread, from one seed.
//!
//! Every shard takes its turns in an order that the seed decides, by a clock of its own, and sees of every partition
//! that others write a prefix that nobody else may see. Shards are ended between turns and within them, one or many at
//! once, for a moment or for longer than transactions live; opened elsewhere while they go on themselves; the cluster
//! stalls, and loses the answer to what it was asked to make visible. Gateways die as well; clients hand in again,
//! elsewhere, what they had no answer to, use references twice, and send what nobody can read. After every step, what
//! the cluster holds is compared with a naive ledger; in the end also with what every client was told, with every
//! shard, and with the audit.
//!
//! | module | what it answers |
//! | --- | --- |
//! | `setup` | what is drawn from the seed |
//! | `world` | the shards, and all that can befall them |
//! | `clients` | gateways, and what they were told |
//! | `truth` | what the cluster holds, read without the stages |
//! | `damage` | records that nobody can read |
//! | `liars` | members that lie with valid keys |
//! | `run` | which of it happens when, and what must be so in the end |

mod clients;
mod damage;
mod liars;
mod run;
mod setup;
mod truth;
mod world;

pub use damage::{records, run_damaged};
pub use liars::{Liars, LiarsTotal, Lie, Member, run_liars};
pub use run::{Summary, Total, run};
