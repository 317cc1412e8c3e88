//! Enode URLs: where a node listens and which key it must prove there.

use crate::key::{NodeId, NodeIdError};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;

/// The longest text that is looked at: a scheme, a key, the longest name and two ports fit.
pub const LONGEST: usize = 512;

/// The longest name of a host (RFC 1035 section 2.3.4, without the final dot).
const LONGEST_NAME: usize = 253;

/// Where a node is found: `enode://<128 hex digits>@<host>:<port>[?discport=<port>]`, as Besu and geth
/// write it. The host is an IPv4 address, an IPv6 address in brackets, or a name.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Enode {
    /// The key that the node proves.
    pub id: NodeId,
    /// Where it listens.
    pub host: Host,
    /// The TCP port.
    pub port: u16,
    /// The UDP port of discovery when it is another; 0 says that the node does not take part.
    /// Kept for other tools: there is no discovery among known nodes.
    pub discovery_port: Option<u16>,
}

/// An address or a name.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Host {
    /// An address.
    Ip(IpAddr),
    /// A name, in lower case, looked up at each attempt to connect.
    Name(String),
}

impl Enode {
    /// The enode of a key that listens at a socket address.
    #[must_use]
    pub const fn new(id: NodeId, address: SocketAddr) -> Self {
        Self { id, host: Host::Ip(address.ip()), port: address.port(), discovery_port: None }
    }
}

impl fmt::Display for Enode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "enode://{}@{}:{}", self.id, self.host, self.port)?;
        match self.discovery_port {
            Some(port) => write!(f, "?discport={port}"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ip(IpAddr::V4(address)) => write!(f, "{address}"),
            Self::Ip(IpAddr::V6(address)) => write!(f, "[{address}]"),
            Self::Name(name) => f.write_str(name),
        }
    }
}

impl FromStr for Enode {
    type Err = EnodeError;

    fn from_str(text: &str) -> Result<Self, EnodeError> {
        if text.len() > LONGEST {
            return Err(EnodeError::Long { found: text.len() });
        }
        let rest = text.strip_prefix("enode://").ok_or(EnodeError::Scheme)?;
        let (id, place) = rest.split_once('@').ok_or(EnodeError::NoHost)?;
        if id.starts_with("0x") {
            return Err(EnodeError::Key(NodeIdError::Digits));
        }
        let id = id.parse().map_err(EnodeError::Key)?;
        let (place, query) = match place.split_once('?') {
            Some((place, query)) => (place, Some(query)),
            None => (place, None),
        };
        let (host, port) = place.rsplit_once(':').ok_or(EnodeError::NoPort)?;
        let host = host.parse()?;
        let port = match number(port) {
            Some(port) if port > 0 => port,
            _ => return Err(EnodeError::Port { found: port.to_owned() }),
        };
        let discovery_port = match query {
            None => None,
            Some(query) => {
                let found = query
                    .strip_prefix("discport=")
                    .ok_or_else(|| EnodeError::Query { found: query.to_owned() })?;
                Some(number(found).ok_or_else(|| EnodeError::Port { found: found.to_owned() })?)
            }
        };
        Ok(Self { id, host, port, discovery_port })
    }
}

impl FromStr for Host {
    type Err = EnodeError;

    fn from_str(text: &str) -> Result<Self, EnodeError> {
        let refuse = || EnodeError::Host { found: text.to_owned() };
        if let Some(inner) = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            return inner.parse::<Ipv6Addr>().map(|ip| Self::Ip(ip.into())).map_err(|_| refuse());
        }
        if let Ok(ip) = text.parse::<Ipv4Addr>() {
            return Ok(Self::Ip(ip.into()));
        }
        let mut last_is_number = true;
        if text.len() > LONGEST_NAME {
            return Err(refuse());
        }
        for label in text.split('.') {
            // Names of containers carry underscores.
            let fits = label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_');
            if label.is_empty() || label.len() > 63 || !fits || label.starts_with('-') || label.ends_with('-')
            {
                return Err(refuse());
            }
            last_is_number = label.bytes().all(|b| b.is_ascii_digit());
        }
        // No top-level domain is a number: it is a mistyped address (RFC 3696 section 2).
        if last_is_number { Err(refuse()) } else { Ok(Self::Name(text.to_ascii_lowercase())) }
    }
}

/// A port without sign and without leading zeros.
fn number(text: &str) -> Option<u16> {
    let canonical = text == "0" || !text.starts_with('0');
    if canonical && text.bytes().all(|b| b.is_ascii_digit()) { text.parse().ok() } else { None }
}

impl Serialize for Enode {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Enode {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<str>::deserialize(deserializer)?;
        text.parse().map_err(D::Error::custom)
    }
}

/// Why a text is no enode URL.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EnodeError {
    /// Longer than any enode URL.
    #[error("an enode URL has at most {LONGEST} bytes, this text has {found}")]
    Long {
        /// Bytes found.
        found: usize,
    },
    /// Another scheme.
    #[error("an enode URL begins with enode://")]
    Scheme,
    /// The key is not one.
    #[error("the part before @ is no public key")]
    Key(#[source] NodeIdError),
    /// No `@`.
    #[error("an enode URL has the public key, @ and the host")]
    NoHost,
    /// Neither an address nor a name.
    #[error("{found:?} is neither an IPv4 address, an IPv6 address in brackets, nor a host name")]
    Host {
        /// The text at that place.
        found: String,
    },
    /// No `:` and port.
    #[error("an enode URL has a colon and a port after the host")]
    NoPort,
    /// Not a port.
    #[error("{found:?} is no port from 1 to 65535")]
    Port {
        /// The text at that place.
        found: String,
    },
    /// Another parameter than `discport`.
    #[error("{found:?} is not understood: only ?discport= may follow the port")]
    Query {
        /// The text at that place.
        found: String,
    },
}

#[cfg(test)]
mod tests;
