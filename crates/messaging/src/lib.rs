//! Ordered, acknowledged, deduplicated delivery between named peers over mutually authenticated TLS 1.3.
