//! Who a node is and whom it trusts: certificates, keys, revocation, TLS, the network map and its parameters.
//!
//! | module or type | promise |
//! | --- | --- |
//! | [`Root`], [`Manager`] | make a network's chain: root, identity manager, nodes' authorities; revoke |
//! | [`NodeKeys`], [`Identity`] | a node's keys and certificates in its directory |
//! | [`Trust`] | whom a node believes: the root, less what was revoked |
//! | [`tls`] | connections between nodes (both sides authenticated) and to a node's clients, TLS 1.3 only |
//! | [`NodeInfo`], [`NetworkParameters`] | what nodes and the network say of themselves, signed |
//! | [`NetworkMap`] | who is in the network, from a folder or a service; [`map::service`] is that service |
//! | [`bootstrap()`] | a whole network ready for use in one directory |
//!
//! The chain is root → identity manager → node authority → legal identity and TLS certificate. Each
//! certificate names its [`Role`] and is bound to it by path length and usages.
//! Authorities and legal identities have Ed25519 keys, TLS has P-256.

mod authority;
mod bootstrap;
mod certificate;
mod expiry;
mod files;

#[cfg(test)]
mod golden;
mod info;
mod issue;
pub mod map;
mod moment;
mod name;
mod node;
mod parameters;
mod pem;
mod request;
mod revocation;
mod role;
mod signer;
#[cfg(test)]
mod testing;
pub mod tls;
mod tls_key;
mod trust;

pub use authority::{AuthorityError, Entry, Manager, NetworkMapKey, Reason, Revocation, Root};
pub use bootstrap::{
    BootstrapError, BootstrappedNode, ClusterSpec, Network, NodeSpec, bootstrap, bootstrap_clustered,
};
pub use certificate::{
    Certificate, CertificateError, CertificatePath, MAX_CERTIFICATE_BYTES, Malformation, SerialNumber,
    Validity,
};
pub use expiry::{Expiring, Expiry, NOTICE_MS};
pub use files::FileError;
pub use info::{Address, AddressError, InfoError, MAX_NODE_INFO_BYTES, NodeInfo, SignedNodeInfo};
pub use issue::{IssueError, Lifetimes};
pub use map::{Changes, IndexError, MapError, NetworkFolder, NetworkMap, Refused, Snapshot};
pub use moment::system_now;
pub use name::{NameError, server_name};
pub use node::{Former, Identity, IdentityError, NodeKeys};
pub use parameters::{
    BESIDE_A_TRANSACTION, MAX_PARAMETERS_BYTES, NetworkParameters, Notary, ParametersError, SignedParameters,
};
pub use pem::PemError;
pub use request::{MAX_REQUEST_BYTES, Request, RequestError};
pub use revocation::{MAX_REVOCATION_LIST_BYTES, RevocationError, Revocations};
pub use role::Role;
pub use tally_notary::NotaryKind;
pub use tls_key::TlsKeyError;
pub use trust::{REVOCATION_GRACE_MS, Trust, Verified};
