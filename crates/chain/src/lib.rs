//! An EVM chain: blocks, pool, production, synchronisation.

pub mod blocks;
pub mod pool;
pub mod protocol;
pub mod sealed;
