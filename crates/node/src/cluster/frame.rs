//! Frames between members: what travels inside TLS.
//!
//! A frame is a 32-bit length of what follows it (little-endian), a kind byte, and the kind's fields
//! in Borsh. Each side of a connection begins with a hello. The side that dialed then sends every
//! other kind; the side that accepted sends heartbeats alone, and everything else over the
//! connection that it dialed itself.
//!
//! | kind | name | fields | most bytes |
//! | --- | --- | --- | --- |
//! | 1 | hello | version (u16), id of the cluster (32 bytes) | 34 |
//! | 2 | message | a `tally_notary::Message` (all of the rest) | `Config::message_bytes` |
//! | 3 | request | conversation (u64), a `tally_notary::Request` | `Config::request_bytes` and 1 KiB |
//! | 4 | answer | conversation (u64), a `tally_notary::SignedAnswer` | 1 KiB |
//! | 5 | rejection | conversation (u64), transaction, reason (u8), words (UTF-8) | 1 KiB |
//! | 6 | heartbeat | | 0 |

use std::time::Duration;

use borsh::{BorshDeserialize, BorshSerialize};
use bytes::{Buf, Bytes, BytesMut};
use tally_contracts::{TransactionId, decode, encode};
use tally_crypto::Hash;
use tally_notary::{Config, Rejection, Request, SignedAnswer, Unfounded};
use tokio::io::{AsyncRead, AsyncReadExt};

use super::error::LinkError;

/// The version of the protocol that this node speaks.
pub(super) const VERSION: u16 = 1;

const LENGTH: usize = 4;
const HELLO: u8 = 1;
const MESSAGE: u8 = 2;
const REQUEST: u8 = 3;
const ANSWER: u8 = 4;
const REJECTION: u8 = 5;
const HEARTBEAT: u8 = 6;

const HELLO_BYTES: usize = 34;
const ANSWER_BYTES: usize = 1 << 10;
/// Beside a request: its conversation, and what its encoding adds.
const BESIDE: usize = 1 << 10;
/// Of the words of a rejection.
const WORDS: usize = 512;
/// Room is made for so many bytes at a time, so that a length that is claimed costs nothing.
const ROOM: usize = 64 << 10;

/// What a side says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub(super) struct Hello {
    pub(super) version: u16,
    pub(super) cluster: Hash,
}

/// One frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Frame {
    Hello(Hello),
    Message(Vec<u8>),
    Request { conversation: u64, request: Request },
    Answer { conversation: u64, answer: SignedAnswer },
    Rejection { conversation: u64, transaction: TransactionId, reason: Rejection },
    Heartbeat,
}

impl Frame {
    pub(super) fn kind(&self) -> u8 {
        match self {
            Self::Hello(_) => HELLO,
            Self::Message(_) => MESSAGE,
            Self::Request { .. } => REQUEST,
            Self::Answer { .. } => ANSWER,
            Self::Rejection { .. } => REJECTION,
            Self::Heartbeat => HEARTBEAT,
        }
    }
}

fn frame(kind: u8, body: &[u8]) -> Bytes {
    let length = u32::try_from(body.len().saturating_add(1)).expect("no message of a member has 4 GiB");
    let mut out = Vec::with_capacity(LENGTH + 1 + body.len());
    out.extend_from_slice(&length.to_le_bytes());
    out.push(kind);
    out.extend_from_slice(body);
    out.into()
}

pub(super) fn hello(hello: Hello) -> Bytes {
    frame(HELLO, &encode(&hello))
}

pub(super) fn message(bytes: &[u8]) -> Bytes {
    frame(MESSAGE, bytes)
}

pub(super) fn request(conversation: u64, request: &Request) -> Bytes {
    frame(REQUEST, &encode(&(conversation, request)))
}

pub(super) fn answer(conversation: u64, answer: &SignedAnswer) -> Bytes {
    frame(ANSWER, &encode(&(conversation, answer)))
}

pub(super) fn heartbeat() -> Bytes {
    frame(HEARTBEAT, &[])
}

pub(super) fn rejection(conversation: u64, transaction: TransactionId, reason: &Rejection) -> Bytes {
    let (code, words) = match reason {
        Rejection::Requester => (0_u8, ""),
        Rejection::TooLarge => (1, ""),
        Rejection::Unfounded(Unfounded(words)) => (2, &words[..words.floor_char_boundary(WORDS)]),
        Rejection::Busy => (3, ""),
    };
    frame(REJECTION, &encode(&(conversation, transaction, code, words)))
}

/// The largest frames that are read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    message: usize,
    request: usize,
}

impl Limits {
    pub(super) fn of(config: &Config) -> Self {
        Self { message: config.message_bytes(), request: config.request_bytes.saturating_add(BESIDE) }
    }

    /// Before anything but a hello may come.
    pub(super) const FIRST: Self = Self { message: 0, request: 0 };

    fn of_kind(self, kind: u8) -> Result<usize, LinkError> {
        match kind {
            HELLO => Ok(HELLO_BYTES),
            MESSAGE => Ok(self.message),
            REQUEST => Ok(self.request),
            ANSWER | REJECTION => Ok(ANSWER_BYTES),
            HEARTBEAT => Ok(0),
            other => Err(LinkError::Kind(other)),
        }
    }
}

/// Takes a whole frame off the front of a buffer. `Err(Ok(missing))`: so many bytes are missing.
fn take(buffer: &mut BytesMut, limits: Limits) -> Result<Result<Frame, usize>, LinkError> {
    let Some(length) = buffer.first_chunk::<LENGTH>() else { return Ok(Err(LENGTH + 1 - buffer.len())) };
    let length = u32::from_le_bytes(*length);
    if length == 0 {
        return Err(LinkError::Empty);
    }
    let Some(&kind) = buffer.get(LENGTH) else { return Ok(Err(1)) };
    let (limit, bytes) = (limits.of_kind(kind)?, u64::from(length - 1));
    if bytes > limit as u64 {
        return Err(LinkError::TooLarge { kind, bytes, limit });
    }
    let whole = LENGTH + length as usize;
    if buffer.len() < whole {
        return Ok(Err(whole - buffer.len()));
    }
    let mut body = buffer.split_to(whole).freeze();
    body.advance(LENGTH + 1);
    read(kind, &body, limit).map(Ok)
}

fn read(kind: u8, body: &[u8], limit: usize) -> Result<Frame, LinkError> {
    Ok(match kind {
        HELLO => {
            // The version stands before anything that a later one might change.
            let version = body.first_chunk::<2>().map_or(0, |bytes| u16::from_le_bytes(*bytes));
            if version != VERSION {
                return Err(LinkError::Version { found: version, ours: VERSION });
            }
            Frame::Hello(decode("a hello of a member", body, limit)?)
        }
        MESSAGE => Frame::Message(body.to_vec()),
        REQUEST => {
            let (conversation, request) = decode("a request of a member", body, limit)?;
            Frame::Request { conversation, request }
        }
        ANSWER => {
            let (conversation, answer) = decode("an answer of a member", body, limit)?;
            Frame::Answer { conversation, answer }
        }
        REJECTION => {
            let (conversation, transaction, code, words): (u64, TransactionId, u8, String) =
                decode("a rejection of a member", body, limit)?;
            let reason = match code {
                0 => Rejection::Requester,
                1 => Rejection::TooLarge,
                // The words go to logs and terminals.
                2 => Rejection::Unfounded(Unfounded(words.replace(char::is_control, " "))),
                _ => Rejection::Busy,
            };
            Frame::Rejection { conversation, transaction, reason }
        }
        HEARTBEAT => Frame::Heartbeat,
        other => return Err(LinkError::Kind(other)),
    })
}

/// Reads frames from one side of a connection.
pub(super) struct Reader<R> {
    io: R,
    buffer: BytesMut,
}

impl<R: AsyncRead + Unpin> Reader<R> {
    pub(super) fn new(io: R) -> Self {
        Self { io, buffer: BytesMut::new() }
    }

    /// Waits for one frame, as long as something comes within `silence`.
    pub(super) async fn next(&mut self, limits: Limits, silence: Duration) -> Result<Frame, LinkError> {
        loop {
            let missing = match take(&mut self.buffer, limits)? {
                Ok(frame) => return Ok(frame),
                Err(missing) => missing,
            };
            self.buffer.reserve(missing.clamp(1 << 10, ROOM));
            let read = tokio::time::timeout(silence, self.io.read_buf(&mut self.buffer));
            match read.await {
                Err(_) => return Err(LinkError::Silent(silence)),
                Ok(Err(error)) => return Err(LinkError::Broken(error)),
                Ok(Ok(0)) => return Err(LinkError::Closed),
                Ok(Ok(_)) => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tally_contracts::{Name, Scheme, SigningKey};
    use tally_notary::{Answer, Cluster, Commit, Member, Outcome, TransactionForm};

    fn limits() -> Limits {
        Limits::of(&Config { batch_bytes: 1_000, request_bytes: 500, ..Config::default() })
    }

    fn samples() -> Vec<(Frame, Bytes)> {
        let transaction = TransactionId::from_bytes([7; 32]);
        let name = |n: u8| Name::new(&format!("Notary {n}"), "London", "GB").expect("a name");
        let commit = Commit {
            inputs: Vec::new(),
            references: Vec::new(),
            transaction,
            time_window: None,
            requester: name(1),
        };
        let asked = Request { commit, evidence: vec![1, 2] };
        let key = |n: u8| SigningKey::from_secret(Scheme::Ed25519, &[n; 32]).expect("a key");
        let member = |n: u8| Member { name: name(n), voter: [n; 20], key: key(n).public_key() };
        let cluster = Cluster::new(Hash::default(), (1..=4).map(member).collect()).expect("a cluster");
        let answered = Answer { transaction, outcome: Outcome::Committed };
        let signed = TransactionForm.sign(&cluster, &key(1), answered);
        let first = Hello { version: VERSION, cluster: *cluster.id() };
        let unfounded = Rejection::Unfounded(Unfounded("no consent".to_owned()));
        let rejected = |reason: Rejection| {
            let bytes = rejection(6, transaction, &reason);
            (Frame::Rejection { conversation: 6, transaction, reason }, bytes)
        };
        vec![
            (Frame::Hello(first), hello(first)),
            (Frame::Message(vec![3; 100]), message(&[3; 100])),
            (Frame::Request { conversation: 4, request: asked.clone() }, request(4, &asked)),
            (Frame::Answer { conversation: 5, answer: signed }, answer(5, &signed)),
            rejected(Rejection::Requester),
            rejected(Rejection::TooLarge),
            rejected(unfounded),
            rejected(Rejection::Busy),
            (Frame::Heartbeat, heartbeat()),
        ]
    }

    #[test]
    fn frames_are_read_as_they_were_written_however_they_are_cut() {
        for (frame, bytes) in samples() {
            for end in 0..bytes.len() {
                let mut buffer = BytesMut::from(&bytes[..end]);
                let missing = take(&mut buffer, limits()).expect("a beginning").expect_err("a beginning");
                assert!((1..=bytes.len() - end).contains(&missing) && buffer[..] == bytes[..end]);
            }
            let mut buffer = BytesMut::from(&[&bytes[..], &[9]].concat()[..]);
            assert_eq!(take(&mut buffer, limits()).expect("a frame"), Ok(frame));
            assert_eq!(buffer[..], [9]);
        }
        // The bytes of the first frame are fixed for all versions.
        let first = hello(Hello { version: VERSION, cluster: Hash::from_bytes([0xab; 32]) });
        assert_eq!(first[..], [&[35, 0, 0, 0, 1, 1, 0][..], &[0xab; 32]].concat());
    }

    #[test]
    fn what_is_too_large_or_no_frame_is_refused_before_it_is_read() {
        let refused = |length: u32, kind: u8| {
            let mut buffer = BytesMut::from(&[&length.to_le_bytes()[..], &[kind]].concat()[..]);
            take(&mut buffer, limits()).expect_err("refused")
        };
        let message = u32::try_from(limits().message).expect("small") + 2;
        for (length, kind) in
            [(36, HELLO), (message, MESSAGE), (u32::MAX, REQUEST), (1026, ANSWER), (2, HEARTBEAT)]
        {
            assert!(matches!(refused(length, kind), LinkError::TooLarge { .. }), "{kind}");
        }
        assert!(matches!(refused(0, MESSAGE), LinkError::Empty));
        assert!(matches!(refused(5, 99), LinkError::Kind(99)));
        for (frame, bytes) in samples() {
            if matches!(frame, Frame::Message(_) | Frame::Heartbeat) {
                continue;
            }
            // A field that is cut short, or followed by more, is no frame.
            for body in [&bytes[LENGTH + 1..bytes.len() - 1], &[&bytes[LENGTH + 1..], &[0][..]].concat()] {
                if matches!(frame, Frame::Hello(_)) && body.len() > HELLO_BYTES {
                    continue;
                }
                let found = take(&mut BytesMut::from(&super::frame(frame.kind(), body)[..]), limits());
                assert!(matches!(found, Err(LinkError::Unreadable(_))), "{frame:?}: {found:?}");
            }
        }
        let newer = super::frame(HELLO, &[2, 0, 9]);
        let found = take(&mut BytesMut::from(&newer[..]), limits());
        assert!(matches!(found, Err(LinkError::Version { found: 2, ours: 1 })), "{found:?}");
        let red = rejection(1, TransactionId::from_bytes([1; 32]), &{
            Rejection::Unfounded(Unfounded(format!("\u{1b}[31m{}", "é".repeat(600))))
        });
        let Ok(Ok(Frame::Rejection { reason: Rejection::Unfounded(Unfounded(words)), .. })) =
            take(&mut BytesMut::from(&red[..]), limits())
        else {
            panic!("a rejection")
        };
        assert!(words.len() <= WORDS && !words.contains('\u{1b}'));
    }
}
