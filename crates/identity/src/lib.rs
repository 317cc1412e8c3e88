//! Who a node is and whom it trusts: certificates, keys, revocation, TLS, the network map and its parameters.
