//! Forks, genesis, transactions and blocks of an EVM chain, and their execution (pure).

pub mod bench;
pub mod block;
pub mod call;
pub mod execute;
pub mod genesis;
pub mod schedule;
pub mod simulate;
pub mod tool;
pub mod trace;
pub mod transaction;

pub use block::{Block, BlockError, Body};
pub use execute::{Env, Executed, Executor, Refusal, execute};
pub use genesis::{Genesis, GenesisError};
pub use schedule::{Fork, Rules, Schedule};
pub use transaction::{Recovered, Transaction, TransactionError, recover, recover_all};
