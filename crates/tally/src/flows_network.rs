//! A network of nodes in one directory, and how a command reaches a node.
//!
//! | path | what |
//! | --- | --- |
//! | `authority/` | root, identity manager, network map's key |
//! | `network/` | the folder of the network map |
//! | `nodes/PartyA/` | a node: `node.toml`, `users.toml`, `identity/`, `data/`, `log` |
//!
//! [`layout`] knows these names, `make` makes such a directory, [`reach`] connects to a node of it.

pub mod layout;
pub(crate) mod make;
pub(crate) mod names;
pub(crate) mod pem;
pub mod reach;
