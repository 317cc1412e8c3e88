//! Accounts and storage of a chain under one Merkle Patricia root, in an embedded store.
