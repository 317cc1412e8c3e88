//! Tries to break settlement, flows and consensus from one seed: simulated networks under faults, and bytes
//! nobody should have sent.
//!
//! [`simulation`] runs a whole network in one thread, on a disk that fails and through crashes, and
//! compares it with a naive ledger written without looking at the settlement code. [`post`] joins the pure
//! stages by a post that is late, repeats itself and mixes letters up. [`processes`] runs every stage as a
//! process of its own, ended, paused and opened twice, over a cluster that is late. [`flows`] runs a network of nodes,
//! their notaries and their users, through crashes and cuts. [`consensus`] runs validators, some of which
//! lie. [`fuzz`] damages what a small network wrote and feeds it to every decoder and core.

pub mod consensus;
pub mod flows;
pub mod fuzz;
pub mod post;
pub mod processes;
pub mod simulation;
mod witness;
