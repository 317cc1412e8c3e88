//! The settlement stages as pure state machines, the runtime that joins them by logs, the gateway.
//!
//! Reading order: [`message`] is what travels, [`stage`] decides, [`accounts`] and [`recent`] are what
//! stages remember. [`runtime`] joins the stages, [`journal`] and [`replay`] read their logs back,
//! [`snapshot`] bounds the replay, [`engine`] is a whole network in one process and [`process`]
//! one of many; [`desk`] is how clients meet either, [`statement`] and [`outcomes`] what it reads for them. [`audit`] checks
//! the logs from outside, [`proof`] makes of them what others check.

pub mod accounts;
pub mod aliases;
mod annex;
pub mod audit;
pub mod clerk;
pub mod desk;
pub mod engine;
pub mod journal;
pub mod message;
pub mod outcomes;
pub mod path;
pub mod process;
pub mod proof;
pub mod recent;
pub mod replay;
pub mod runtime;
pub mod snapshot;
pub mod stage;
pub mod statement;
