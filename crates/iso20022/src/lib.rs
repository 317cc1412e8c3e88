//! ISO 20022 payment messages in and status reports out.
