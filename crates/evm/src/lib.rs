//! Forks, genesis, transactions and blocks of an EVM chain, and their execution (pure).
