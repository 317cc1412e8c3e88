//! Connections from peers: one task for each, at most one for each peer.

mod accept;
mod conversation;
mod slot;

pub(crate) use accept::listen;
pub(crate) use slot::Slot;
