//! Durable execution: a flow survives a crash at any instruction, by journal and replay.
