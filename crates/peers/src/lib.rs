//! Mutually authenticated sessions between the known nodes of a chain.
