//! Frames on sockets, keys, and where members are found.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tally_consensus::{Keys, SecretKey};
use tally_contracts::{Name, Scheme, SigningKey, encode};
use tally_crypto::{Hash, hash};
use tally_notary::{Cluster, Commit, Config, Judge, Member, Request, Unfounded};

use super::MEMBERS;

/// What says that a connection is the client's.
pub(crate) const CLIENT: u8 = u8::MAX;

pub(crate) fn write_frame(stream: &mut impl Write, bytes: &[u8]) -> io::Result<()> {
    let length = u32::try_from(bytes.len()).map_err(io::Error::other)?;
    stream.write_all(&[&length.to_be_bytes()[..], bytes].concat())
}

pub(crate) fn read_frame(stream: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut length = [0; 4];
    stream.read_exact(&mut length)?;
    let mut bytes = vec![0; usize::try_from(u32::from_be_bytes(length)).map_err(io::Error::other)?];
    stream.read_exact(&mut bytes)?;
    Ok(bytes)
}

pub(crate) fn port_file(directory: &Path, node: usize) -> PathBuf {
    directory.join(format!("port-{node}"))
}

/// A connection to a member that says who opens it.
pub(crate) fn connect(directory: &Path, node: usize, me: u8) -> io::Result<TcpStream> {
    let port: u16 =
        std::fs::read_to_string(port_file(directory, node))?.trim().parse().map_err(io::Error::other)?;
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_nodelay(true)?;
    stream.write_all(&[me])?;
    Ok(stream)
}

pub(crate) fn voter(node: usize) -> SecretKey {
    SecretKey::from_bytes(&[u8::try_from(node + 1).unwrap(); 32]).unwrap()
}

pub(crate) fn answerer(node: usize) -> SigningKey {
    SigningKey::from_secret(Scheme::Ed25519, &[u8::try_from(node + 1).unwrap(); 32]).unwrap()
}

pub(crate) fn name(text: &str) -> Name {
    Name::new(text, "Zurich", "CH").unwrap()
}

pub(crate) fn cluster() -> Arc<Cluster> {
    let member = |node| Member {
        name: name(&format!("Notary {node}")),
        voter: voter(node).address().into(),
        key: answerer(node).public_key(),
    };
    Arc::new(Cluster::new(Hash::from_bytes([3; 32]), (0..MEMBERS).map(member).collect()).unwrap())
}

pub(crate) fn config() -> Config {
    Config { round_timeout_ms: 1_000, poll_ms: 300, ..Config::default() }
}

pub(crate) fn evidence(commit: &Commit) -> Vec<u8> {
    hash(&encode(commit)).as_bytes().to_vec()
}

pub(crate) struct HashJudge;

impl Judge for HashJudge {
    fn judge(&self, request: &Request) -> Result<(), Unfounded> {
        if request.evidence == evidence(&request.commit) {
            Ok(())
        } else {
            Err(Unfounded("another hash".to_owned()))
        }
    }
}
