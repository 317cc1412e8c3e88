//! One institution's node: flows, vault, notary, messaging and RPC, wired together.
