//! Why a member does not start, and why a link ended.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tally_contracts::{DecodeError, Name};
use tally_identity::{CertificateError, IdentityError};
use tally_notary::{HostError, StorageError};

use super::custody::CustodyError;
use super::section::ClusterSectionError;

/// Why a node does not start as a member of a clustered notary.
#[derive(Debug, thiserror::Error)]
pub enum ClusterError {
    /// Its settings.
    #[error(transparent)]
    Section(#[from] ClusterSectionError),
    /// The cluster has no member of this node's name.
    #[error("`{0}` is no member of the cluster")]
    NoMember(Name),
    /// The node has no notary service, or another than the cluster names.
    #[error("the cluster names another key of the notary service of `{0}` than this node has")]
    OtherService(Name),
    /// There is no voting key.
    #[error("this node has no voting key; it is made before the network's parameters name it")]
    NoVoter,
    /// The voting key is another than the cluster names.
    #[error("the cluster names another voting key of `{0}` than this node has")]
    OtherVoter(Name),
    /// The voting key cannot be read.
    #[error("the voting key cannot be used")]
    Key(#[from] IdentityError),
    /// The voting key and the storage do not belong together.
    #[error(transparent)]
    Custody(#[from] CustodyError),
    /// The storage.
    #[error("the storage of the clustered notary cannot be used")]
    Storage(#[from] StorageError),
    /// The replica does not go on from the storage.
    #[error(transparent)]
    Host(#[from] HostError),
    /// The listener.
    #[error("cannot listen for the other members of the clustered notary on {address}")]
    Listen {
        /// Where.
        address: SocketAddr,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// No thread.
    #[error("the system gives no thread for the clustered notary")]
    Thread(#[source] io::Error),
}

/// Why a link could not be made, or ended.
#[derive(Debug, thiserror::Error)]
pub(super) enum LinkError {
    #[error("cannot connect to {address}")]
    Unreachable {
        address: String,
        #[source]
        source: io::Error,
    },
    #[error("TLS failed")]
    Tls(#[source] io::Error),
    #[error("the certificate is not, or no longer, good")]
    Certificate(#[from] CertificateError),
    #[error("`{found}` answers where `{expected}` was expected")]
    WrongName { expected: Name, found: Name },
    #[error("`{0}` is no other member of the cluster")]
    Stranger(Name),
    #[error("`{0}` broke the protocol just now and has to wait")]
    Barred(Name),
    #[error("it speaks version {found} of the protocol, this node version {ours}; upgrade the older one")]
    Version { found: u16, ours: u16 },
    #[error("it is a member of another cluster, or has other network parameters")]
    OtherCluster,
    #[error("a frame of kind {kind} with {bytes} bytes is larger than the limit of {limit}")]
    TooLarge { kind: u8, bytes: u64, limit: usize },
    #[error("a frame of the unknown kind {0}")]
    Kind(u8),
    #[error("a frame without a kind")]
    Empty,
    #[error("a frame that cannot be read")]
    Unreadable(#[from] DecodeError),
    #[error("a frame of kind {0} out of turn")]
    OutOfTurn(u8),
    #[error("a message that the replica could not read, or an answer that is not the member's own")]
    Faulty,
    #[error("nothing was heard for {0:?}")]
    Silent(Duration),
    #[error("nothing could be written for {0:?}")]
    Stuck(Duration),
    #[error("the other side closed the link")]
    Closed,
    #[error("the link broke")]
    Broken(#[source] io::Error),
    #[error("a newer link of the same member took its place")]
    Replaced,
    #[error("too many have not shown who they are")]
    Crowded,
    #[error("this node stops")]
    Stopping,
}

impl LinkError {
    /// Whether the other side did what none that is right does.
    pub(super) fn is_fault(&self) -> bool {
        matches!(
            self,
            Self::TooLarge { .. }
                | Self::Kind(_)
                | Self::Empty
                | Self::Unreadable(_)
                | Self::OutOfTurn(_)
                | Self::Faulty
        )
    }
}
