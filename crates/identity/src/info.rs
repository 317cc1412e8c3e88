//! What a node says of itself: name, key, certificates, addresses; signed with its legal identity.

use crate::certificate::{Certificate, CertificateError, CertificatePath, MAX_CERTIFICATE_BYTES};
use crate::node::Identity;
use crate::role::Role;
use crate::trust::{Trust, Verified};
use borsh::{BorshDeserialize, BorshSerialize};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;
use tally_contracts::{Party, Signature, Timestamp};
use tally_crypto::Hash;

/// Largest node info taken; one made here has about 2,400 bytes, that of a notary 3,200.
pub const MAX_NODE_INFO_BYTES: usize = 40 * 1024;
/// Most addresses of a node.
const MAX_ADDRESSES: usize = 8;

/// Begins a file, a request body: what it is, and of which version.
const MAGIC: &[u8; 8] = b"tlyinfo2";
const DOMAIN: &[u8; 32] = b"tallystick signed node info v2  ";
/// The notary's service signs the info as well, to show that it has its key.
const NOTARY_DOMAIN: &[u8; 32] = b"tallystick node info notary v2  ";

/// Host name or IP address, and port.
///
/// Text and serde form: `host:port`, with brackets around an IPv6 address.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Address {
    host: String,
    port: u16,
}

/// The text is no address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not an address such as bank.example:10002 or [2001:db8::1]:10002")]
pub struct AddressError(String);

impl Address {
    /// The host name or IP address.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The port.
    pub const fn port(&self) -> u16 {
        self.port
    }
}

impl From<std::net::SocketAddr> for Address {
    fn from(address: std::net::SocketAddr) -> Self {
        Self { host: address.ip().to_string(), port: address.port() }
    }
}

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let refuse = || AddressError(text.chars().take(300).collect());
        let (host, port) = text.rsplit_once(':').ok_or_else(refuse)?;
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        let fits = match bare {
            Some(bare) => bare.parse::<std::net::Ipv6Addr>().is_ok(),
            // RFC 1123 section 2.1.
            None => {
                (1..=253).contains(&host.len())
                    && host
                        .bytes()
                        .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_'))
            }
        };
        let digits = port.bytes().all(|byte| byte.is_ascii_digit());
        match port.parse() {
            Ok(port) if fits && digits && port != 0 => {
                Ok(Self { host: bare.unwrap_or(host).to_owned(), port })
            }
            _ => Err(refuse()),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

impl Serialize for Address {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Address {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <std::borrow::Cow<'de, str> as Deserialize>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// What a node says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeInfo {
    /// Name and key of the legal identity.
    pub party: Party,
    /// The legal identity's certificate and those above it.
    pub path: CertificatePath,
    /// The certificate of the node's notary service and those above it, where it has one. Whether
    /// the network takes it for a notary, its parameters say.
    pub notary: Option<CertificatePath>,
    /// Where other nodes reach it; the first is tried first.
    pub addresses: Vec<Address>,
    /// The newest version of the network's rules that it knows.
    pub platform_version: u32,
    /// Of two infos of one node the one with the higher number counts.
    pub serial: u64,
}

/// Why a node info is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InfoError {
    /// Larger than any info should be.
    #[error("a node info of {bytes} bytes is larger than the {MAX_NODE_INFO_BYTES} allowed")]
    TooLarge {
        /// Its size.
        bytes: usize,
    },
    /// Not a node info.
    #[error("not a node info: {0}")]
    Malformed(String),
    /// An address is none.
    #[error("the node info has a wrong address")]
    Address(#[source] AddressError),
    /// A node is reached somewhere, and not everywhere.
    #[error("the node info has {count} addresses; expected 1 to {MAX_ADDRESSES}")]
    AddressCount {
        /// How many there are.
        count: usize,
    },
    /// The certificates are refused.
    #[error("the certificates in the node info are refused")]
    Certificate(#[from] CertificateError),
    /// The party is not the one that the certificate is about.
    #[error("the node info is of {party}, its certificate of {subject}, or they have different keys")]
    PartyMismatch {
        /// The party's name.
        party: tally_contracts::Name,
        /// The certificate's name.
        subject: tally_contracts::Name,
    },
    /// Not signed by the party.
    #[error("the signature on {party}'s node info is not by its legal identity: it is altered")]
    Signature {
        /// The party's name.
        party: tally_contracts::Name,
    },
    /// The notary's service has the certificate of another node, or its key in another role.
    #[error(
        "the notary service in the node info of {party} is another node's, or has its legal identity's key"
    )]
    NotaryMismatch {
        /// The party's name.
        party: tally_contracts::Name,
    },
    /// Not signed by the notary's service.
    #[error(
        "the node info of {party} is not signed by the key of its notary service: no proof of possession"
    )]
    NotarySignature {
        /// The party's name.
        party: tally_contracts::Name,
    },
    /// A newer one is known.
    #[error("{party}'s node info has serial {got}, but serial {have} is known; publish with a higher one")]
    Older {
        /// The party's name.
        party: tally_contracts::Name,
        /// Its serial.
        got: u64,
        /// The serial that is known.
        have: u64,
    },
    /// Its key was given up: the name was certified with another one later.
    #[error(
        "{party} has another key than that of this node info, certified later: a key that was given up does not come \
         back; make a new one with `tally node rotate`"
    )]
    FormerKey {
        /// The party's name.
        party: tally_contracts::Name,
    },
    /// Its key is another node's.
    #[error("the key in the node info of {party} was certified for {holder} before: a key is of one name")]
    KeyOfAnother {
        /// The party's name.
        party: tally_contracts::Name,
        /// Whose key it is.
        holder: tally_contracts::Name,
    },
    /// The name had many keys already; each is remembered by every node for ever.
    #[error("{party} had {count} keys already, which is as many as one name may have")]
    TooManyKeys {
        /// The party's name.
        party: tally_contracts::Name,
        /// How many it had.
        count: usize,
    },
    /// The node does not know the rules that the network demands.
    #[error("{party}'s platform version {got} is below the network's minimum {minimum}; upgrade the node")]
    PlatformVersion {
        /// The party's name.
        party: tally_contracts::Name,
        /// Its version.
        got: u32,
        /// The network's minimum.
        minimum: u32,
    },
}

#[derive(BorshSerialize, BorshDeserialize)]
struct Content {
    party: Party,
    path: Vec<Vec<u8>>,
    /// The certificate of the notary's service; those above it are those of `path`.
    notary: Option<Vec<u8>>,
    addresses: Vec<String>,
    platform_version: u32,
    serial: u64,
}

#[derive(BorshSerialize, BorshDeserialize)]
struct Envelope {
    content: Vec<u8>,
    notary: Option<Signature>,
    signature: Signature,
}

/// A node info with the signature on it, whose form is checked; whether it is to be believed,
/// [`SignedNodeInfo::verify`] says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignedNodeInfo {
    info: NodeInfo,
    content: Vec<u8>,
    signature: Signature,
    notary: Option<Signature>,
}

impl SignedNodeInfo {
    /// The info of `identity`, signed.
    ///
    /// # Errors
    /// [`InfoError`] when there are no or too many addresses.
    pub fn sign(
        identity: &Identity,
        addresses: Vec<Address>,
        platform_version: u32,
        serial: u64,
    ) -> Result<Self, InfoError> {
        let info = NodeInfo {
            party: identity.party().clone(),
            path: identity.path().clone(),
            notary: identity.notary_path().cloned(),
            addresses,
            platform_version,
            serial,
        };
        let content = info.encode()?;
        let signature = identity.key().sign(message(&content).as_bytes());
        let notary = identity.notary_key().map(|key| key.sign(notary_message(&content).as_bytes()));
        Ok(Self { info, content, signature, notary })
    }

    /// Reads the bytes that [`SignedNodeInfo::encode`] makes.
    ///
    /// # Errors
    /// [`InfoError`] when they are something else.
    pub fn decode(bytes: &[u8]) -> Result<Self, InfoError> {
        if bytes.len() > MAX_NODE_INFO_BYTES {
            return Err(InfoError::TooLarge { bytes: bytes.len() });
        }
        let malformed = |error: std::io::Error| InfoError::Malformed(error.to_string());
        let rest = bytes
            .strip_prefix(MAGIC)
            .ok_or_else(|| InfoError::Malformed("it does not begin as one".into()))?;
        let Envelope { content, signature, notary } = borsh::from_slice(rest).map_err(malformed)?;
        let info = NodeInfo::decode(borsh::from_slice(&content).map_err(malformed)?)?;
        Ok(Self { info, content, signature, notary })
    }

    /// The bytes: of a file, of a request to the network map.
    pub fn encode(&self) -> Vec<u8> {
        let envelope =
            Envelope { content: self.content.clone(), signature: self.signature, notary: self.notary };
        let mut bytes = MAGIC.to_vec();
        bytes.extend(tally_contracts::encode(&envelope));
        bytes
    }

    /// What is signed; not believed yet.
    pub const fn unverified(&self) -> &NodeInfo {
        &self.info
    }

    /// The name of these bytes in the network map.
    pub fn hash(&self) -> Hash {
        tally_crypto::hash(&self.encode())
    }

    /// Checks that the node itself said this: its certificates lead to the root, are valid at `now`
    /// and not revoked, and the legal identity's key made the signature.
    ///
    /// # Errors
    /// [`InfoError`].
    pub fn verify(&self, trust: &Trust, now: Timestamp) -> Result<&NodeInfo, InfoError> {
        let verified = trust.verify(&self.info.path, Role::LegalIdentity, now)?;
        self.check_signature(verified)?;
        if let Some(path) = &self.info.notary {
            let notary = trust.verify(path, Role::NotaryService, now)?;
            self.check_notary(&notary)?;
        }
        Ok(&self.info)
    }

    fn check_notary(&self, notary: &Verified) -> Result<(), InfoError> {
        let party = &self.info.party;
        if notary.name != party.name || notary.key == party.key {
            return Err(InfoError::NotaryMismatch { party: party.name.clone() });
        }
        let refuse = || InfoError::NotarySignature { party: party.name.clone() };
        let signature = self.notary.as_ref().ok_or_else(refuse)?;
        notary.key.verify(notary_message(&self.content).as_bytes(), signature).map_err(|_| refuse())
    }

    /// As [`SignedNodeInfo::verify`], at the time of the certificate: whether the node said this
    /// while it was certified, although its certificates expired or were revoked since.
    ///
    /// # Errors
    /// [`InfoError`].
    pub fn verify_past(&self, trust: &Trust) -> Result<&NodeInfo, InfoError> {
        let verified = trust.verify_past(&self.info.path, Role::LegalIdentity)?;
        self.check_signature(verified)
    }

    fn check_signature(&self, verified: Verified) -> Result<&NodeInfo, InfoError> {
        let party = &self.info.party;
        if verified.name != party.name || verified.key != party.key {
            return Err(InfoError::PartyMismatch { party: party.name.clone(), subject: verified.name });
        }
        party
            .key
            .verify(message(&self.content).as_bytes(), &self.signature)
            .map_err(|_| InfoError::Signature { party: party.name.clone() })?;
        Ok(&self.info)
    }
}

impl NodeInfo {
    /// Name and key of the node's notary service, where it has one.
    pub fn notary_party(&self) -> Option<Party> {
        let leaf = self.notary.as_ref()?.leaf();
        Some(Party { name: leaf.subject().clone(), key: leaf.public_key().ok()? })
    }

    fn encode(&self) -> Result<Vec<u8>, InfoError> {
        self.check()?;
        Ok(tally_contracts::encode(&Content {
            party: self.party.clone(),
            path: self.path.to_der().iter().map(|der| der.to_vec()).collect(),
            notary: self.notary.as_ref().map(|path| path.leaf().der().to_vec()),
            addresses: self.addresses.iter().map(Address::to_string).collect(),
            platform_version: self.platform_version,
            serial: self.serial,
        }))
    }

    fn decode(content: Content) -> Result<Self, InfoError> {
        let Content { party, path, notary, addresses, platform_version, serial } = content;
        let path = CertificatePath::parse(&path)?;
        let notary = notary.map(|der| beside(&path, &der)).transpose()?;
        let info = Self {
            party,
            path,
            notary,
            addresses: addresses
                .iter()
                .map(|text| text.parse::<Address>().and_then(|address| canonical(address, text)))
                .collect::<Result<_, _>>()
                .map_err(InfoError::Address)?,
            platform_version,
            serial,
        };
        info.check()?;
        Ok(info)
    }

    fn check(&self) -> Result<(), InfoError> {
        let count = self.addresses.len();
        if (1..=MAX_ADDRESSES).contains(&count) { Ok(()) } else { Err(InfoError::AddressCount { count }) }
    }
}

/// One encoding for each info: an address is as [`Address`] shows it.
fn canonical(address: Address, text: &str) -> Result<Address, AddressError> {
    if address.to_string() == text { Ok(address) } else { Err(AddressError(text.into())) }
}

/// The path of the certificate `der`, which has the issuers of `path`.
fn beside(path: &CertificatePath, der: &[u8]) -> Result<CertificatePath, CertificateError> {
    let leaf = Certificate::parse(der)?;
    let above = path.certificates().iter().skip(1).cloned();
    CertificatePath::new(std::iter::once(leaf).chain(above).collect())
}

/// What the notary's service signs.
fn notary_message(content: &[u8]) -> Hash {
    tally_crypto::keyed(NOTARY_DOMAIN, content)
}

/// What the legal identity signs.
fn message(content: &[u8]) -> Hash {
    tally_crypto::keyed(DOMAIN, content)
}

// Certificates of the largest size would not fit otherwise.
const _: () = assert!(4 * MAX_CERTIFICATE_BYTES + 8 * 300 + 1024 < MAX_NODE_INFO_BYTES);

#[cfg(test)]
mod tests;
