//! Everything a node must not lose, in one database, changed by one transaction for each batch.
