//! Frames: what travels inside TLS.
//!
//! A frame is a 32-bit length of what follows it, a kind byte, and the kind's fields; integers are
//! little-endian. A side that reads a length above its limit refuses the frame before it makes room for it.
//!
//! | kind | name | fields | direction |
//! | --- | --- | --- | --- |
//! | 1 | hello | magic `tallymsg`, lowest and highest version (u16), queue id (16 bytes), standing (rest, at most 512 bytes) | sender → receiver, first |
//! | 2 | welcome | version (u16), accepted, durable (u64), largest message (u32), standing (rest) | receiver → sender, first |
//! | 3 | message | number (u64), bytes | sender → receiver |
//! | 4 | acknowledged | up to number (u64) | receiver → sender |
//! | 5 | ping | | both |
//! | 6 | closing | reason (u16), text (UTF-8, at most 512 bytes) | both, last |
//! | 7 | standing | the sender's standing (at most 512 bytes) | sender → receiver |
//! | 8 | superseded | a newer standing of the other side (at most 512 bytes) | both, before the last |

use bytes::{Buf, Bytes, BytesMut};

use crate::error::{ConnectionError, ProtocolError, Reason};
use crate::queues::QueueId;

/// The version of the protocol that this node speaks.
pub const PROTOCOL_VERSION: u16 = 1;

const MAGIC: &[u8; 8] = b"tallymsg";
const LENGTH: usize = 4;
/// Length, kind and number before a message's bytes.
pub(crate) const MESSAGE_OVERHEAD: usize = LENGTH + 1 + 8;
const TEXT_LIMIT: usize = 512;
/// Largest standing of a node, in bytes.
pub const STANDING_LIMIT: usize = 512;
/// Room for every frame that is not a message: the limit of a side that gets no messages.
pub(crate) const CONTROL_LIMIT: usize = 1024;

const HELLO: u8 = 1;
const WELCOME: u8 = 2;
const MESSAGE: u8 = 3;
const ACKNOWLEDGED: u8 = 4;
const PING: u8 = 5;
const CLOSING: u8 = 6;
const STANDING: u8 = 7;
const SUPERSEDED: u8 = 8;

/// The first frame of a sender.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Hello {
    pub(crate) lowest: u16,
    pub(crate) highest: u16,
    pub(crate) queue: QueueId,
    pub(crate) standing: Bytes,
}

/// The first frame of a receiver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Welcome {
    pub(crate) version: u16,
    pub(crate) accepted: u64,
    pub(crate) durable: u64,
    pub(crate) message_limit: u32,
    pub(crate) standing: Bytes,
}

/// One frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Frame {
    Hello(Hello),
    Welcome(Welcome),
    Message { number: u64, bytes: Bytes },
    Acknowledged { up_to: u64 },
    Ping,
    Closing { reason: Reason, text: String },
    Standing(Bytes),
    Superseded(Bytes),
}

impl Frame {
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Hello(_) => "hello",
            Self::Welcome(_) => "welcome",
            Self::Message { .. } => "message",
            Self::Acknowledged { .. } => "acknowledged",
            Self::Ping => "ping",
            Self::Closing { .. } => "closing",
            Self::Standing(_) => "standing",
            Self::Superseded(_) => "superseded",
        }
    }
}

fn header(out: &mut Vec<u8>, kind: u8, fields: usize) {
    let length = u32::try_from(fields + 1).expect("frames are checked against the message limit");
    out.extend_from_slice(&length.to_le_bytes());
    out.push(kind);
}

pub(crate) fn put_hello(out: &mut Vec<u8>, hello: &Hello) {
    header(out, HELLO, 8 + 2 + 2 + 16 + hello.standing.len());
    out.extend_from_slice(MAGIC);
    out.extend_from_slice(&hello.lowest.to_le_bytes());
    out.extend_from_slice(&hello.highest.to_le_bytes());
    out.extend_from_slice(&hello.queue.0);
    out.extend_from_slice(&hello.standing);
}

pub(crate) fn put_welcome(out: &mut Vec<u8>, welcome: &Welcome) {
    header(out, WELCOME, 2 + 8 + 8 + 4 + welcome.standing.len());
    out.extend_from_slice(&welcome.version.to_le_bytes());
    out.extend_from_slice(&welcome.accepted.to_le_bytes());
    out.extend_from_slice(&welcome.durable.to_le_bytes());
    out.extend_from_slice(&welcome.message_limit.to_le_bytes());
    out.extend_from_slice(&welcome.standing);
}

/// Everything of a message's frame but the bytes, which follow.
pub(crate) fn put_message_header(out: &mut Vec<u8>, number: u64, bytes: usize) {
    header(out, MESSAGE, 8 + bytes);
    out.extend_from_slice(&number.to_le_bytes());
}

pub(crate) fn put_acknowledged(out: &mut Vec<u8>, up_to: u64) {
    header(out, ACKNOWLEDGED, 8);
    out.extend_from_slice(&up_to.to_le_bytes());
}

pub(crate) fn put_ping(out: &mut Vec<u8>) {
    header(out, PING, 0);
}

pub(crate) fn put_closing(out: &mut Vec<u8>, reason: Reason, text: &str) {
    let text = &text[..text.floor_char_boundary(TEXT_LIMIT)];
    header(out, CLOSING, 2 + text.len());
    out.extend_from_slice(&reason.code().to_le_bytes());
    out.extend_from_slice(text.as_bytes());
}

pub(crate) fn put_standing(out: &mut Vec<u8>, standing: &[u8]) {
    header(out, STANDING, standing.len());
    out.extend_from_slice(standing);
}

pub(crate) fn put_superseded(out: &mut Vec<u8>, evidence: &[u8]) {
    header(out, SUPERSEDED, evidence.len());
    out.extend_from_slice(evidence);
}

/// What the other side is told at the end of a connection: nothing, or why it ends, after the proof if there is one.
pub(crate) fn put_last_words(out: &mut Vec<u8>, end: &ConnectionError) {
    if let ConnectionError::Superseded { evidence: Some(evidence) } = end {
        put_superseded(out, evidence);
    }
    if let Some((reason, text)) = end.to_tell() {
        put_closing(out, reason, &text);
    }
}

/// What the front of a buffer holds.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Front {
    Frame(Frame),
    /// The frame that begins here has this many bytes in all; not all of them are here.
    Partial(usize),
}

/// Takes a whole frame off the front of `buffer`; a message's bytes are not copied.
///
/// # Errors
/// A frame above `limit` bytes (message bytes, not counting its header), or bytes that are not a frame.
pub(crate) fn take(buffer: &mut BytesMut, limit: usize) -> Result<Front, ProtocolError> {
    let Some(length) = buffer.first_chunk::<LENGTH>() else { return Ok(Front::Partial(LENGTH)) };
    let length = u32::from_le_bytes(*length);
    let most = limit.saturating_add(MESSAGE_OVERHEAD - LENGTH) as u64;
    if u64::from(length) > most {
        return Err(ProtocolError::TooLarge {
            bytes: u64::from(length).saturating_sub((MESSAGE_OVERHEAD - LENGTH) as u64),
            limit: limit as u64,
        });
    }
    let whole = LENGTH + length as usize;
    if buffer.len() < whole {
        return Ok(Front::Partial(whole));
    }
    let mut body = buffer.split_to(whole).freeze();
    body.advance(LENGTH);
    decode(body).map(Front::Frame)
}

fn decode(mut body: Bytes) -> Result<Frame, ProtocolError> {
    let kind = body.try_get_u8().map_err(|_| ProtocolError::Malformed("a frame without a kind"))?;
    let wrong = |what| ProtocolError::Malformed(what);
    let exactly = |size: usize, what| if body.len() == size { Ok(()) } else { Err(wrong(what)) };
    match kind {
        MESSAGE => {
            let number = body.try_get_u64_le().map_err(|_| wrong("a message without a number"))?;
            Ok(Frame::Message { number, bytes: body })
        }
        ACKNOWLEDGED => {
            exactly(8, "an acknowledgement of a wrong size")?;
            Ok(Frame::Acknowledged { up_to: body.get_u64_le() })
        }
        PING => exactly(0, "a ping of a wrong size").map(|()| Frame::Ping),
        HELLO => decode_hello(&mut body).map(Frame::Hello),
        WELCOME => {
            if !(22..=22 + STANDING_LIMIT).contains(&body.len()) {
                return Err(wrong("a welcome of a wrong size"));
            }
            Ok(Frame::Welcome(Welcome {
                version: body.get_u16_le(),
                accepted: body.get_u64_le(),
                durable: body.get_u64_le(),
                message_limit: body.get_u32_le(),
                standing: body,
            }))
        }
        CLOSING => {
            let code = body.try_get_u16_le().map_err(|_| wrong("a closing without a reason"))?;
            if body.len() > TEXT_LIMIT {
                return Err(wrong("a closing with too long a text"));
            }
            // The text goes to logs and terminals.
            let text = String::from_utf8_lossy(&body).replace(char::is_control, " ");
            Ok(Frame::Closing { reason: Reason::from_code(code), text })
        }
        STANDING | SUPERSEDED if body.len() > STANDING_LIMIT => Err(wrong("a standing of a wrong size")),
        STANDING => Ok(Frame::Standing(body)),
        SUPERSEDED => Ok(Frame::Superseded(body)),
        _ => Err(wrong("a frame of an unknown kind")),
    }
}

/// The versions stand before anything that a later version might change, so that a hello of a future version
/// is refused for its version and not for its form.
fn decode_hello(body: &mut Bytes) -> Result<Hello, ProtocolError> {
    const WRONG: ProtocolError = ProtocolError::Malformed("a hello of a wrong size");
    if body.len() < MAGIC.len() + 4 {
        return Err(WRONG);
    }
    if !body.starts_with(MAGIC) {
        return Err(ProtocolError::Malformed("the first frame does not begin with `tallymsg`"));
    }
    body.advance(MAGIC.len());
    let (lowest, highest) = (body.get_u16_le(), body.get_u16_le());
    if !(lowest..=highest).contains(&PROTOCOL_VERSION) {
        return Err(ProtocolError::Version { lowest, highest, ours: PROTOCOL_VERSION });
    }
    let queue = body.first_chunk::<16>().copied().ok_or(WRONG)?;
    body.advance(queue.len());
    if body.len() > STANDING_LIMIT {
        return Err(WRONG);
    }
    Ok(Hello { lowest, highest, queue: QueueId(queue), standing: body.split_off(0) })
}

#[cfg(test)]
mod tests;
