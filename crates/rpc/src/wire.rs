//! The generated messages and services, and their description for reflection.

#![allow(
    missing_docs,
    unreachable_pub,
    clippy::all,
    clippy::allow_attributes_without_reason,
    reason = "generated from the published .proto file"
)]

tonic::include_proto!("tallystick.node.v1");

pub(crate) const DESCRIPTION: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/node.bin"));
