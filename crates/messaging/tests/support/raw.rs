//! Peers that speak frames made by hand, from the written format and not from the code under test.

use std::net::SocketAddr;
use std::sync::Arc;

use tally_contracts::Name;
use tally_messaging::Tls;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::{TlsAcceptor, TlsConnector, TlsStream};

use super::authority::Credentials;

pub struct Raw {
    pub stream: TlsStream<TcpStream>,
}

/// A frame as it came: its kind and its fields.
#[derive(Debug, PartialEq, Eq)]
pub struct RawFrame {
    pub kind: u8,
    pub fields: Vec<u8>,
}

impl RawFrame {
    /// Reason code and text of a closing frame.
    pub fn closing(&self) -> (u16, String) {
        assert_eq!(self.kind, 6, "a closing frame");
        (
            u16::from_le_bytes([self.fields[0], self.fields[1]]),
            String::from_utf8(self.fields[2..].to_vec()).unwrap(),
        )
    }

    pub fn number(&self) -> u64 {
        u64::from_le_bytes(self.fields[..8].try_into().unwrap())
    }
}

pub fn frame(kind: u8, fields: &[&[u8]]) -> Vec<u8> {
    let fields = fields.concat();
    let mut frame = (fields.len() as u32 + 1).to_le_bytes().to_vec();
    frame.push(kind);
    frame.extend(fields);
    frame
}

pub fn hello(lowest: u16, highest: u16) -> Vec<u8> {
    frame(1, &[b"tallymsg", &lowest.to_le_bytes(), &highest.to_le_bytes(), &[7; 16]])
}

pub fn welcome(accepted: u64, durable: u64) -> Vec<u8> {
    let limit = 1_u32 << 20;
    frame(2, &[&1_u16.to_le_bytes(), &accepted.to_le_bytes(), &durable.to_le_bytes(), &limit.to_le_bytes()])
}

pub fn message(number: u64, bytes: &[u8]) -> Vec<u8> {
    frame(3, &[&number.to_le_bytes(), bytes])
}

pub fn acknowledged(up_to: u64) -> Vec<u8> {
    frame(4, &[&up_to.to_le_bytes()])
}

impl Raw {
    pub async fn connect(address: SocketAddr, credentials: &Arc<Credentials>, peer: &Name) -> Self {
        let stream = TcpStream::connect(address).await.unwrap();
        let connector = TlsConnector::from(credentials.client());
        let stream = connector.connect(credentials.server_name(peer), stream).await.unwrap();
        Self { stream: stream.into() }
    }

    pub async fn accept(listener: &TcpListener, credentials: &Arc<Credentials>) -> Self {
        let (stream, _) = listener.accept().await.unwrap();
        let stream = TlsAcceptor::from(credentials.server()).accept(stream).await.unwrap();
        Self { stream: stream.into() }
    }

    pub async fn write(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).await.unwrap();
        self.stream.flush().await.unwrap();
    }

    /// The next frame; `None` at the end of the connection, orderly or not.
    pub async fn read(&mut self) -> Option<RawFrame> {
        let length = self.stream.read_u32_le().await.ok()?;
        let mut bytes = vec![0; length as usize];
        self.stream.read_exact(&mut bytes).await.ok()?;
        let fields = bytes.split_off(1);
        Some(RawFrame { kind: bytes[0], fields })
    }

    /// The next frame that is no ping.
    pub async fn read_word(&mut self) -> Option<RawFrame> {
        loop {
            let frame = self.read().await?;
            if frame.kind != 5 {
                return Some(frame);
            }
        }
    }
}
