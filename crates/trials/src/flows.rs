//! A whole network of nodes in one thread, from one seed.
//!
//! Institutions, two notaries and an oracle, each a [`tally_node::Core`] on a disk of its own, and between them
//! connections that break, lose, repeat and reorder. Users issue, pay, lend, sell, redeem, and race for coins; nodes
//! crash between any two operations, their disks fail or do not answer, their clocks disagree, people pause and kill
//! flows. Whatever a user was told is kept; what came of it is compared with books that are kept from what notaries
//! and issuers wrote; and everything that reached a node is searched for what it may not know.
//!
//! | module | what it answers |
//! | --- | --- |
//! | `world`, `traffic`, `rest` | nodes, connections, everything that can happen |
//! | `plan`, `run` | which of it happens when, drawn from a seed |
//! | [`steps`] | a crash at every step of every flow |
//! | `orders`, `strange` | what users want; flows that only a simulation has |
//! | [`liars`] | nodes that run altered code with real keys |
//! | `clients` | what users were told |
//! | `books`, `failures`, `tidy` | what must be true in the end, and what must be left |
//! | `privacy` | what must not have reached whom |
//! | [`Memory`], `disk` | stores that are quick, and fail on purpose |

mod books;
mod clients;
mod disk;
mod facts;
mod failures;
pub mod liars;
mod machine;
mod memory;
mod orders;
mod plan;
mod privacy;
mod rest;
mod run;
pub mod steps;
mod strange;
mod summary;
mod tidy;
mod traffic;
mod wire;
mod world;

pub use disk::Forgotten;
pub use liars::LEFT_OUT;
pub use memory::Memory;
pub use run::{run, run_both, run_liars, run_with};
pub use summary::{Summary, Total};
