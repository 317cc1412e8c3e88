//! JSON-RPC over HTTP and WebSocket, and the methods of an Ethereum client.
