//! The node's remote interface in gRPC: start and follow flows, query and track the vault, with users and permissions.
