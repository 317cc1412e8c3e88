//! A network of validators in one thread, from one seed.
//!
//! Each validator is a [`tally_consensus::Engine`] with a host that builds, executes and imports blocks late,
//! and forgets in a crash whatever was not durable. Between them messages are lost, repeated, late and cut
//! off; clocks disagree; up to a third of the validators is silent, runs twice with one key, or says
//! whatever serves it. No two blocks become final at a height; a final block has its seals; a correct
//! validator never contradicts itself nor is blamed; and once the network heals blocks go on within a
//! bounded number of rounds and a bounded time.
//!
//! | module | what it answers |
//! | --- | --- |
//! | `plan` | what is drawn from the seed |
//! | `world`, `host` | the network, and what a validator's host does |
//! | `chaos` | a validator that wants the others to disagree |
//! | `check` | what must hold at every moment |
//! | `keys` | signatures that cost nothing |
//! | `traffic` | what validators say, for those that damage it |

mod chaos;
mod check;
mod host;
mod keys;
mod plan;
mod run;
mod traffic;
mod world;

pub use plan::Broken;
pub use run::{Summary, run, run_broken};
pub use traffic::{Listener, Traffic};
