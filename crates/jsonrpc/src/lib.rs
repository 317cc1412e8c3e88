//! JSON-RPC 2.0 over HTTP and WebSocket, and the methods of an Ethereum client.
//!
//! | module | promise |
//! | --- | --- |
//! | [`server`] | connections, limits, authentication, batches, subscriptions; knows no chain |
//! | [`error`] | the standard's numbers |
//! | [`params`] | parameters read in place, refused in the standard's words |
//! | [`api`] | the methods, over a node of `tally-chain` |
//! | [`mod@write`] | answers written straight into the buffer that is sent |

pub mod api;
pub mod error;
pub mod params;
pub mod server;
pub mod write;
