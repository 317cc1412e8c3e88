//! States, commands, contracts and signed transactions of the flows ledger: pure, bounded, deterministic.
