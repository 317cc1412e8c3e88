//! Key files.
