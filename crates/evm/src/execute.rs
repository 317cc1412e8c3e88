//! Executing blocks: transactions in order, what a fork does before and after them, and the changes
//! that come of it.

mod bloom;
mod cache;
mod environment;
mod executor;
mod journal;
mod machine;
mod outcome;
mod refusal;
mod rewards;
mod system;
#[cfg(test)]
mod tests;

use alloy_consensus::Header;
use alloy_eips::eip4895::Withdrawal;
use alloy_primitives::B256;
use tally_state::{Changes, Read};

pub(crate) use cache::Cache;
pub use cache::{Codes, ReadError};
pub use environment::Env;
pub use executor::Executor;
pub(crate) use journal::{Journal, Storages};
pub(crate) use machine::{Assembled, Machine, MachineContext, assemble, machine, transaction_env};
pub use outcome::{Executed, Outcome};
pub use refusal::Refusal;
pub(crate) use system::{begin, requests};

use crate::block::BlockError;
use crate::schedule::Schedule;
use crate::transaction::Recovered;

/// Hashes of earlier blocks, for the `BLOCKHASH` instruction.
///
/// It is only asked for the 256 blocks before the one that is executed; an unknown one is zero.
pub type BlockHashes<'a> = dyn Fn(u64) -> B256 + 'a;

/// Gives the root of the state with these changes since the start of the block.
pub type IntermediateRoot<'a> =
    dyn FnMut(&Changes) -> Result<B256, Box<dyn std::error::Error + Send + Sync>> + 'a;

/// What a block consists of besides its environment.
#[derive(Clone, Copy, Debug, Default)]
pub struct Contents<'a> {
    /// In order.
    pub transactions: &'a [Recovered],
    /// For their rewards.
    pub ommers: &'a [Header],
    /// Since Shanghai.
    pub withdrawals: &'a [Withdrawal],
}

/// Executes a whole block over the state after its parent.
///
/// `root` gives the intermediate state roots that receipts have before Byzantium; later blocks need
/// none.
///
/// # Errors
/// The first transaction that is invalid, a system contract that failed, or a state that cannot be
/// read.
pub fn execute<R: Read>(
    schedule: &Schedule,
    env: &Env,
    contents: Contents<'_>,
    state: R,
    hashes: &BlockHashes<'_>,
    codes: Option<&Codes>,
    mut root: Option<&mut IntermediateRoot<'_>>,
) -> Result<Executed, BlockError> {
    let mut executor = Executor::new(schedule, env, state, hashes, codes);
    executor.reserve(contents.transactions.len());
    executor.begin()?;
    for (index, transaction) in contents.transactions.iter().enumerate() {
        executor.execute(transaction, root.as_deref_mut()).map_err(|refusal| refusal.in_block(index))?;
    }
    executor.finish(contents.ommers, contents.withdrawals)
}

/// The state in which the first transaction of a block is executed.
pub(crate) fn replay<'a, R: Read>(
    schedule: &'a Schedule,
    env: &'a Env,
    state: R,
    hashes: &'a BlockHashes<'a>,
    codes: Option<&'a Codes>,
) -> Result<Cache<'a, R>, BlockError> {
    let mut executor = Executor::new(schedule, env, state, hashes, codes);
    executor.begin()?;
    Ok(executor.into_cache())
}
