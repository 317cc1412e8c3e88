//! The program `tally`: reads configuration, starts and wires things, prints.
//!
//! Reading order: [`command`] has one file for each command; [`plan`], [`configuration`] and [`layout`] are a
//! settlement network's files, [`flows_network`] is a network of nodes, `chain_node` a node of an EVM chain; [`client`] is the other end of the gateway's HTTP.

mod access;
mod certificates;
mod chain_node;
pub mod client;
pub mod command;
pub mod configuration;
pub mod connection;
#[cfg(test)]
mod damaged;
mod evidence;
pub mod flows_network;
pub mod keys;
pub mod layout;
pub mod name;
mod opening;
pub mod passphrase;
pub mod plan;
mod ports;
mod references;
pub mod stages;
