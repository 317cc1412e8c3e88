//! How two nodes prove their keys to each other inside a TLS session: three messages, no IO here.
//!
//! The TLS session is between throw-away keys and proves nothing by itself. Each side signs the session's
//! exporter value (RFC 9266, `tls-exporter`), which is different at both ends of a session in the middle
//! and in every session, so a signature is worth something in the session for which it was made only.
//!
//! 1. the initiator sends [`Opening::Hello`], signed for the key that it means to reach;
//! 2. the responder answers with its own, or with [`Opening::Refused`];
//! 3. the initiator says [`Opening::Accepted`], or refuses.
//!
//! A message is its type (1 byte), the length of its body (2 bytes, big endian) and the body.

use crate::key::{NodeId, NodeKey};
use alloy_primitives::{B256, keccak256};
use std::fmt;

/// The newest version of the protocol that this program speaks.
pub const NEWEST: u16 = 2;
/// The oldest version that it still speaks.
pub const OLDEST: u16 = 1;
/// The longest body of a message; longer ones are not read.
pub const LONGEST_BODY: usize = 512;
/// Bytes before the body.
pub const PREFIX: usize = 3;

/// Not the start of an RLP list nor of a typed transaction (EIP-2718 leaves 0x19 to EIP-191), so that
/// nothing signed here is anything else that a validator's key signs.
const DOMAIN: &[u8] = b"\x19tally-peers session proof\n";
const MAGIC: &[u8; 4] = b"TLYC";
const LONGEST_CLIENT: usize = 64;
const FIXED: usize = 4 + 2 + 2 + 64 + 8 + 32 + 8 + 4 + 2 + 1;
const SIGNATURE: usize = 64;

const HELLO: u8 = 1;
const REFUSED: u8 = 2;
const ACCEPTED: u8 = 3;

/// Who opened the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// The side that connected.
    Initiator,
    /// The side that listened.
    Responder,
}

/// What a node says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hello {
    /// The oldest version of the protocol that it speaks.
    pub oldest: u16,
    /// The newest version that it speaks.
    pub newest: u16,
    /// Its key.
    pub id: NodeId,
    /// The network it is on, as in `admin_nodeInfo`.
    pub network_id: u64,
    /// The hash of its block 0.
    pub genesis: B256,
    /// Drawn when the process started: another one says that the node has restarted since.
    pub instance: u64,
    /// How many bytes of bulk it takes in before it has looked at them.
    pub window: u32,
    /// The port where it listens; 0 when it does not.
    pub port: u16,
    /// Program and version, for people; printable ASCII, at most 64 bytes.
    pub client: String,
}

/// A message of the handshake.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Opening {
    /// Who is there, with the proof, which [`Proof::check`] judges.
    Hello(Box<Proof>),
    /// The other side will not talk.
    Refused(Refusal),
    /// The initiator believes the responder: frames follow.
    Accepted,
}

/// A [`Hello`] as it was received, whose signature is yet to be checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Proof {
    hello: Hello,
    body: Vec<u8>,
    signature: [u8; SIGNATURE],
}

impl Hello {
    /// The message that says this and proves it in the session with this exporter value, to the node
    /// `to` and no other.
    #[must_use]
    pub fn sign(&self, key: &NodeKey, role: Role, exporter: &[u8; 32], to: &NodeId) -> Vec<u8> {
        let mut body = Vec::with_capacity(FIXED + LONGEST_CLIENT + SIGNATURE);
        body.extend_from_slice(MAGIC);
        body.extend_from_slice(&self.oldest.to_be_bytes());
        body.extend_from_slice(&self.newest.to_be_bytes());
        body.extend_from_slice(self.id.as_bytes());
        body.extend_from_slice(&self.network_id.to_be_bytes());
        body.extend_from_slice(self.genesis.as_slice());
        body.extend_from_slice(&self.instance.to_be_bytes());
        body.extend_from_slice(&self.window.to_be_bytes());
        body.extend_from_slice(&self.port.to_be_bytes());
        let client: Vec<u8> = self.client.bytes().filter(printable).take(LONGEST_CLIENT).collect();
        body.push(u8::try_from(client.len()).unwrap_or_default());
        body.extend_from_slice(&client);
        let signature = key.sign(&digest(role, exporter, &body, to));
        body.extend_from_slice(&signature);
        message(HELLO, &body)
    }

    /// Whether two nodes that say this of themselves belong together, seen from this one.
    ///
    /// # Errors
    /// The [`Refusal`] to answer with.
    pub fn agrees_with(&self, theirs: &Self) -> Result<(), Refusal> {
        if theirs.id == self.id {
            return Err(Refusal::Itself);
        }
        if self.newest.min(theirs.newest) < self.oldest.max(theirs.oldest) {
            return Err(Refusal::Version { oldest: self.oldest, newest: self.newest });
        }
        if theirs.network_id != self.network_id {
            return Err(Refusal::Network { network_id: self.network_id });
        }
        if theirs.genesis != self.genesis {
            return Err(Refusal::Genesis);
        }
        Ok(())
    }
}

impl Proof {
    /// What it says, once it is certain who says it: that the sender holds the key, was in `role`, in
    /// the session with this exporter value, and meant the node `to`.
    ///
    /// # Errors
    /// [`Refusal::Proof`] otherwise.
    pub fn check(self, role: Role, exporter: &[u8; 32], to: &NodeId) -> Result<Hello, Refusal> {
        let digest = digest(role, exporter, &self.body, to);
        if self.hello.id.verifies(&digest, &self.signature) { Ok(self.hello) } else { Err(Refusal::Proof) }
    }
}

impl Opening {
    /// The length of the body that follows a message's first three bytes.
    ///
    /// # Errors
    /// [`OpeningFault::Long`] when it is more than will be read.
    pub fn body_length(prefix: [u8; PREFIX]) -> Result<usize, OpeningFault> {
        let length = usize::from(u16::from_be_bytes([prefix[1], prefix[2]]));
        if length > LONGEST_BODY { Err(OpeningFault::Long { found: length }) } else { Ok(length) }
    }

    /// Reads one message of exactly these bytes. A [`Hello`] is not believed by this.
    ///
    /// # Errors
    /// [`OpeningFault`].
    pub fn decode(bytes: &[u8]) -> Result<Self, OpeningFault> {
        let (prefix, body) = bytes.split_first_chunk::<PREFIX>().ok_or(OpeningFault::Truncated)?;
        if Self::body_length(*prefix)? != body.len() {
            return Err(OpeningFault::Truncated);
        }
        match prefix[0] {
            HELLO => decode_hello(body),
            REFUSED => {
                let (code, detail) = body.split_first_chunk::<1>().ok_or(OpeningFault::Truncated)?;
                let detail = detail.try_into().map_err(|_| OpeningFault::Truncated)?;
                Ok(Self::Refused(Refusal::decode(code[0], u64::from_be_bytes(detail))))
            }
            ACCEPTED if body.is_empty() => Ok(Self::Accepted),
            ACCEPTED => Err(OpeningFault::Truncated),
            other => Err(OpeningFault::Type { found: other }),
        }
    }

    /// The message that says that the initiator believes the responder.
    #[must_use]
    pub fn accepted() -> Vec<u8> {
        message(ACCEPTED, &[])
    }

    /// The message that refuses.
    #[must_use]
    pub fn refused(refusal: &Refusal) -> Vec<u8> {
        let (code, detail) = refusal.encode();
        let mut body = vec![code];
        body.extend_from_slice(&detail.to_be_bytes());
        message(REFUSED, &body)
    }
}

fn decode_hello(body: &[u8]) -> Result<Opening, OpeningFault> {
    let mut rest = body;
    if take::<4>(&mut rest)? != *MAGIC {
        return Err(OpeningFault::Magic);
    }
    let oldest = u16::from_be_bytes(take(&mut rest)?);
    let newest = u16::from_be_bytes(take(&mut rest)?);
    if oldest > newest {
        return Err(OpeningFault::Versions);
    }
    let id = NodeId::new(take(&mut rest)?).map_err(|_| OpeningFault::Key)?;
    let network_id = u64::from_be_bytes(take(&mut rest)?);
    let genesis = B256::new(take(&mut rest)?);
    let instance = u64::from_be_bytes(take(&mut rest)?);
    let window = u32::from_be_bytes(take(&mut rest)?);
    let port = u16::from_be_bytes(take(&mut rest)?);
    let [length] = take(&mut rest)?;
    let length = usize::from(length);
    if length > LONGEST_CLIENT {
        return Err(OpeningFault::Client);
    }
    let (client, signature) = rest.split_at_checked(length).ok_or(OpeningFault::Truncated)?;
    if !client.iter().all(printable) {
        return Err(OpeningFault::Client);
    }
    let client = String::from_utf8(client.to_vec()).map_err(|_| OpeningFault::Client)?;
    let signature = signature.try_into().map_err(|_| OpeningFault::Truncated)?;
    let said = body.len() - SIGNATURE;
    let hello = Hello { oldest, newest, id, network_id, genesis, instance, window, port, client };
    Ok(Opening::Hello(Box::new(Proof { hello, body: body[..said].to_vec(), signature })))
}

fn take<const N: usize>(rest: &mut &[u8]) -> Result<[u8; N], OpeningFault> {
    let (taken, after) = rest.split_first_chunk::<N>().ok_or(OpeningFault::Truncated)?;
    *rest = after;
    Ok(*taken)
}

fn printable(byte: &u8) -> bool {
    matches!(byte, b' '..=b'~')
}

fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    let length = u16::try_from(body.len()).unwrap_or(u16::MAX);
    let mut message = Vec::with_capacity(PREFIX + body.len());
    message.push(kind);
    message.extend_from_slice(&length.to_be_bytes());
    message.extend_from_slice(body);
    message
}

/// What is signed. The body begins with the signer's versions, key, network and genesis and has a
/// length of its own inside, so that no two different statements have the same bytes.
fn digest(role: Role, exporter: &[u8; 32], body: &[u8], to: &NodeId) -> B256 {
    let role = match role {
        Role::Initiator => b'i',
        Role::Responder => b'r',
    };
    let mut text = Vec::with_capacity(DOMAIN.len() + 1 + 32 + 64 + body.len());
    text.extend_from_slice(DOMAIN);
    text.push(role);
    text.extend_from_slice(exporter);
    text.extend_from_slice(to.as_bytes());
    text.extend_from_slice(body);
    keccak256(text)
}

/// Why a node will not talk to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// No version of the protocol that both speak.
    #[error("it speaks versions {oldest} to {newest} of the protocol")]
    Version {
        /// The oldest of whoever refuses.
        oldest: u16,
        /// The newest of whoever refuses.
        newest: u16,
    },
    /// Another network.
    #[error("it is on network {network_id}")]
    Network {
        /// The network of whoever refuses.
        network_id: u64,
    },
    /// Another chain on a network of the same number.
    #[error("its chain has another genesis block")]
    Genesis,
    /// The proof does not fit the session, or was meant for another node.
    #[error("the proof of the node's key does not hold in this session, or is meant for another node")]
    Proof,
    /// The node is not on the list of permitted nodes.
    #[error("the node is not on the list of permitted nodes")]
    NotPermitted,
    /// No room.
    #[error("it has as many peers as it may")]
    TooManyPeers,
    /// There is a session between the two already, or one is being opened the other way.
    #[error("there is a session between the two nodes already")]
    AlreadyConnected,
    /// The node misbehaved a short while ago.
    #[error("the node misbehaved and may come back in {seconds} s")]
    Misbehaved {
        /// Until it may come back.
        seconds: u32,
    },
    /// The node talks to itself.
    #[error("it is the same node")]
    Itself,
    /// The node is going down.
    #[error("it is stopping")]
    Stopping,
    /// A reason that this version does not know.
    #[error("for a reason that this program does not know (code {code})")]
    Other {
        /// Its number.
        code: u8,
    },
}

impl Refusal {
    fn encode(&self) -> (u8, u64) {
        match *self {
            Self::Version { oldest, newest } => (1, u64::from(oldest) << 16 | u64::from(newest)),
            Self::Network { network_id } => (2, network_id),
            Self::Genesis => (3, 0),
            Self::Proof => (4, 0),
            Self::NotPermitted => (5, 0),
            Self::TooManyPeers => (6, 0),
            Self::AlreadyConnected => (7, 0),
            Self::Misbehaved { seconds } => (8, u64::from(seconds)),
            Self::Itself => (9, 0),
            Self::Stopping => (10, 0),
            Self::Other { code } => (code, 0),
        }
    }

    fn decode(code: u8, detail: u64) -> Self {
        let low = |shift: u32| u16::try_from(detail >> shift & 0xffff).unwrap_or_default();
        match code {
            1 => Self::Version { oldest: low(16), newest: low(0) },
            2 => Self::Network { network_id: detail },
            3 => Self::Genesis,
            4 => Self::Proof,
            5 => Self::NotPermitted,
            6 => Self::TooManyPeers,
            7 => Self::AlreadyConnected,
            8 => Self::Misbehaved { seconds: u32::try_from(detail).unwrap_or(u32::MAX) },
            9 => Self::Itself,
            10 => Self::Stopping,
            code => Self::Other { code },
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Initiator => "initiator",
            Self::Responder => "responder",
        })
    }
}

/// Bytes that are no message of the handshake.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum OpeningFault {
    /// Longer than any.
    #[error("a message of the handshake has at most {LONGEST_BODY} bytes, this one announces {found}")]
    Long {
        /// Bytes announced.
        found: usize,
    },
    /// Shorter or longer than it says.
    #[error("the message does not have the length that belongs to it")]
    Truncated,
    /// An unknown type.
    #[error("{found} is no type of message of the handshake")]
    Type {
        /// The type found.
        found: u8,
    },
    /// Another protocol.
    #[error("this is not the protocol of this chain's nodes")]
    Magic,
    /// The oldest version is newer than the newest.
    #[error("the range of versions is empty")]
    Versions,
    /// The key is no point of the curve.
    #[error("the node's key is no public key")]
    Key,
    /// The client's name is too long or not printable.
    #[error("the name of the program is longer than {LONGEST_CLIENT} bytes or not printable ASCII")]
    Client,
}

#[cfg(test)]
mod tests;
