//! RFC 9162 log.
