//! An EVM chain: blocks, pool, production, synchronisation.
