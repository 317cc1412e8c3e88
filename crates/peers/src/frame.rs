//! What is sent once two nodes believe each other: messages in chunks, three lanes and a control lane.
//!
//! | bytes | meaning |
//! | --- | --- |
//! | 1 | lane (0 control, 1 urgent, 2 urgent and long, 3 bulk); + 4 when a message starts here |
//! | 3 | length of the payload in this chunk, big endian, at most [`CHUNK`] |
//! | 14, at a start | form (0 message, 1 request, 2 response), kind, number of the request (8), length of the whole message (4) |
//! | | payload |
//!
//! Within a lane a message is finished before the next starts; chunks of different lanes alternate, so a
//! vote waits for one chunk at most. A control chunk has no start: its payload is a [`Control`].
//!
//! Bulk is sent against credit: its receiver announces a window, each chunk costs its payload, a start
//! [`START_COST`] more, and [`Control::Credit`] gives back what has been dealt with. So a host that is
//! slow with bulk stops its peers' bulk and nothing else.

use crate::kind::{Kinds, Lane, Rule};
use bytes::{Buf, BufMut, Bytes, BytesMut};

/// The most payload of one chunk, in bytes.
pub const CHUNK: usize = 64 << 10;
/// What a message costs beside its payload, in bytes: what memory it takes when it is empty.
pub const START_COST: u64 = 64;

const HEADER: usize = 4;
const START: usize = 14;
const STARTS: u8 = 4;
const LANES: u8 = 3;

/// The lane of a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ChunkLane {
    Urgent = 1,
    Long = 2,
    Bulk = 3,
}

/// What a message is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// No answer.
    Message,
    /// Asks for an answer, under this number.
    Request(u64),
    /// The answer to the request of this number.
    Response(u64),
}

/// A whole message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// What it is for.
    pub form: Form,
    /// Its kind.
    pub kind: u8,
    /// Its lane.
    pub lane: Lane,
    /// Its contents.
    pub payload: Bytes,
}

/// What the two sides tell each other about the session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Control {
    /// Asks for a [`Control::Pong`] of the same number.
    Ping(u64),
    /// The answer.
    Pong(u64),
    /// So many bytes more of bulk may be sent.
    Credit(u32),
    /// The request of this number gets no answer.
    Unanswered(u64, Unanswered),
    /// The sender closes the session.
    Goodbye(Goodbye),
}

/// Why a request gets no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unanswered {
    /// The host refused it.
    #[error("it refused the request")]
    Refused,
    /// Too many requests at once.
    #[error("it has too many requests to answer at once")]
    Busy,
}

/// Why a session is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Goodbye {
    /// The node stops.
    #[error("it is stopping")]
    Stopping,
    /// There is another session between the two.
    #[error("another session took the place of this one")]
    Replaced,
    /// The other broke the protocol.
    #[error("the protocol was broken")]
    Violation,
    /// The other misbehaved.
    #[error("the node misbehaved")]
    Misbehaved,
    /// The other is no longer permitted.
    #[error("the node is no longer permitted")]
    NotPermitted,
    /// The other was removed from the known peers.
    #[error("the node was removed from the peers")]
    Removed,
    /// The other does not take in what is sent.
    #[error("the node takes in urgent messages too slowly")]
    Slow,
    /// There is no room for another peer.
    #[error("it has as many peers as it may")]
    TooManyPeers,
    /// A reason that this version does not know.
    #[error("for a reason that this program does not know (code {0})")]
    Other(u8),
}

/// A decoded piece.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece {
    /// A whole message.
    Frame(Frame),
    /// A message of the session's own.
    Control(Control),
    /// A part of a message that goes on.
    Part,
}

/// One decoded piece, and what it takes of the credit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decoded {
    /// What it is.
    pub piece: Piece,
    /// What this chunk cost of the credit for bulk, in bytes; 0 for the other lanes.
    pub cost: u64,
}

/// Puts chunks together again: at most one message of each lane is under way, none longer than its
/// kind allows.
#[derive(Debug)]
pub struct Decoder {
    kinds: Kinds,
    under_way: [Option<Partial>; 3],
}

#[derive(Debug)]
struct Partial {
    form: Form,
    kind: u8,
    lane: Lane,
    length: usize,
    payload: BytesMut,
}

impl Decoder {
    /// A decoder for these kinds.
    #[must_use]
    pub const fn new(kinds: Kinds) -> Self {
        Self { kinds, under_way: [None, None, None] }
    }

    /// Takes the next chunk from `buffer`; nothing, when there is not a whole one yet.
    ///
    /// # Errors
    /// [`FrameFault`]: the other side breaks the protocol; there is no way to go on.
    pub fn next(&mut self, buffer: &mut BytesMut) -> Result<Option<Decoded>, FrameFault> {
        let Some(header) = buffer.first_chunk::<HEADER>() else { return Ok(None) };
        let [first, high, middle, low] = *header;
        let length = usize::from(high) << 16 | usize::from(middle) << 8 | usize::from(low);
        let lane = first & LANES;
        let starts = first & STARTS != 0;
        if first & !(LANES | STARTS) != 0 || lane == 0 && starts {
            return Err(FrameFault::Header { found: first });
        }
        if length > CHUNK {
            return Err(FrameFault::Chunk { found: length });
        }
        if lane == 0 {
            if length > 16 {
                return Err(FrameFault::Control);
            }
            if buffer.len() < HEADER + length {
                return Ok(None);
            }
            buffer.advance(HEADER);
            let control = Control::decode(&buffer.split_to(length))?;
            return Ok(Some(Decoded { piece: Piece::Control(control), cost: 0 }));
        }
        let slot = usize::from(lane - 1);
        let mut cost = length as u64;
        if starts {
            let Some(start) = buffer.get(HEADER..HEADER + START) else { return Ok(None) };
            // The limit of the kind is applied before the payload is waited for.
            let partial = self.start(start, lane, length)?;
            if buffer.len() < HEADER + START + length {
                return Ok(None);
            }
            buffer.advance(HEADER + START);
            self.under_way[slot] = Some(partial);
            cost += START_COST;
        } else {
            let Some(partial) = &self.under_way[slot] else { return Err(FrameFault::NotStarted) };
            if length == 0 || length > partial.length - partial.payload.len() {
                return Err(FrameFault::Part);
            }
            if buffer.len() < HEADER + length {
                return Ok(None);
            }
            buffer.advance(HEADER);
        }
        let cost = if lane == ChunkLane::Bulk as u8 { cost } else { 0 };
        let piece = self.append(slot, buffer, length);
        Ok(Some(Decoded { piece, cost }))
    }

    /// Looks at the start of a message.
    fn start(&self, start: &[u8], lane: u8, here: usize) -> Result<Partial, FrameFault> {
        if self.under_way[usize::from(lane - 1)].is_some() {
            return Err(FrameFault::NotFinished);
        }
        let mut start = start;
        let (form, kind, number, length) = (start.get_u8(), start.get_u8(), start.get_u64(), start.get_u32());
        let rule = self.kinds.rule(kind).ok_or(FrameFault::Kind { kind })?;
        let (form, longest) = match (form, rule) {
            (0, Rule::Message { longest, .. }) => (Form::Message, *longest),
            (1, Rule::Request { longest, .. }) => (Form::Request(number), *longest),
            (2, Rule::Request { longest_response, .. }) => (Form::Response(number), *longest_response),
            _ => return Err(FrameFault::Form { form, name: rule.name() }),
        };
        if length > longest {
            return Err(FrameFault::Long { name: rule.name(), found: length, longest });
        }
        let length = length as usize;
        let fits = match (rule.lane(), lane) {
            (Lane::Urgent, 1) => length <= CHUNK && here == length,
            (Lane::Urgent, 2) | (Lane::Bulk, 3) => true,
            _ => false,
        };
        if !fits {
            return Err(FrameFault::Lane { name: rule.name() });
        }
        if here > length || here == 0 && length > 0 {
            return Err(FrameFault::Part);
        }
        Ok(Partial { form, kind, lane: rule.lane(), length, payload: BytesMut::new() })
    }

    /// Adds the next `length` bytes of `buffer` to what is under way.
    fn append(&mut self, slot: usize, buffer: &mut BytesMut, length: usize) -> Piece {
        let Some(partial) = &mut self.under_way[slot] else { return Piece::Part };
        let whole = length == partial.length;
        let payload = if whole {
            // Copied, so that a small message that is kept does not keep the whole buffer.
            let payload = Bytes::copy_from_slice(&buffer[..length]);
            buffer.advance(length);
            payload
        } else {
            partial.payload.put_slice(&buffer[..length]);
            buffer.advance(length);
            if partial.payload.len() < partial.length {
                return Piece::Part;
            }
            partial.payload.split().freeze()
        };
        let (form, kind, lane) = (partial.form, partial.kind, partial.lane);
        self.under_way[slot] = None;
        Piece::Frame(Frame { form, kind, lane, payload })
    }
}

/// Appends a chunk to `buffer`: a start when `start` says so.
pub(crate) fn encode_chunk(
    buffer: &mut BytesMut,
    lane: ChunkLane,
    start: Option<(Form, u8, u32)>,
    payload: &[u8],
) {
    let starts = if start.is_some() { STARTS } else { 0 };
    put_header(buffer, lane as u8 | starts, payload.len());
    if let Some((form, kind, length)) = start {
        let (form, number) = match form {
            Form::Message => (0, 0),
            Form::Request(number) => (1, number),
            Form::Response(number) => (2, number),
        };
        buffer.put_u8(form);
        buffer.put_u8(kind);
        buffer.put_u64(number);
        buffer.put_u32(length);
    }
    buffer.put_slice(payload);
}

fn put_header(buffer: &mut BytesMut, first: u8, length: usize) {
    debug_assert!(length <= CHUNK, "chunks are cut before they are encoded");
    buffer.put_u8(first);
    buffer.put_uint(length as u64, 3);
}

impl Control {
    /// Appends it to `buffer`.
    pub(crate) fn encode(self, buffer: &mut BytesMut) {
        let mut body = [0; 16];
        let mut rest = &mut body[..];
        match self {
            Self::Ping(number) => {
                rest.put_u8(1);
                rest.put_u64(number);
            }
            Self::Pong(number) => {
                rest.put_u8(2);
                rest.put_u64(number);
            }
            Self::Credit(bytes) => {
                rest.put_u8(3);
                rest.put_u32(bytes);
            }
            Self::Unanswered(number, why) => {
                rest.put_u8(4);
                rest.put_u64(number);
                rest.put_u8(match why {
                    Unanswered::Refused => 1,
                    Unanswered::Busy => 2,
                });
            }
            Self::Goodbye(why) => {
                rest.put_u8(5);
                rest.put_u8(why.code());
            }
        }
        let length = 16 - rest.len();
        put_header(buffer, 0, length);
        buffer.put_slice(&body[..length]);
    }

    fn decode(body: &[u8]) -> Result<Self, FrameFault> {
        let (&op, rest) = body.split_first().ok_or(FrameFault::Control)?;
        let number = || rest.try_into().map(u64::from_be_bytes).map_err(|_| FrameFault::Control);
        match (op, rest) {
            (1, _) => Ok(Self::Ping(number()?)),
            (2, _) => Ok(Self::Pong(number()?)),
            (3, &[a, b, c, d]) => Ok(Self::Credit(u32::from_be_bytes([a, b, c, d]))),
            (4, [number @ .., why]) => {
                let number = number.try_into().map_err(|_| FrameFault::Control)?;
                let why = if *why == 2 { Unanswered::Busy } else { Unanswered::Refused };
                Ok(Self::Unanswered(u64::from_be_bytes(number), why))
            }
            (5, &[code]) => Ok(Self::Goodbye(Goodbye::from_code(code))),
            _ => Err(FrameFault::Control),
        }
    }
}

impl Goodbye {
    const fn code(self) -> u8 {
        match self {
            Self::Stopping => 1,
            Self::Replaced => 2,
            Self::Violation => 3,
            Self::Misbehaved => 4,
            Self::NotPermitted => 5,
            Self::Removed => 6,
            Self::Slow => 7,
            Self::TooManyPeers => 8,
            Self::Other(code) => code,
        }
    }

    const fn from_code(code: u8) -> Self {
        match code {
            1 => Self::Stopping,
            2 => Self::Replaced,
            3 => Self::Violation,
            4 => Self::Misbehaved,
            5 => Self::NotPermitted,
            6 => Self::Removed,
            7 => Self::Slow,
            8 => Self::TooManyPeers,
            code => Self::Other(code),
        }
    }
}

/// Bytes that break the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FrameFault {
    /// Bits that mean nothing.
    #[error("{found:#04x} does not begin a chunk")]
    Header {
        /// The first byte.
        found: u8,
    },
    /// A chunk that is too long.
    #[error("a chunk has at most {CHUNK} bytes, this one announces {found}")]
    Chunk {
        /// Bytes announced.
        found: usize,
    },
    /// A control chunk that means nothing.
    #[error("a control chunk is not understood")]
    Control,
    /// A kind that is not part of the protocol.
    #[error("kind {kind:#04x} is not part of the protocol")]
    Kind {
        /// The kind found.
        kind: u8,
    },
    /// A request of a kind that is not asked, or the like.
    #[error("a message of kind {name} cannot have form {form}")]
    Form {
        /// The form found.
        form: u8,
        /// The kind's name.
        name: &'static str,
    },
    /// Longer than the kind allows.
    #[error("a message of kind {name} has at most {longest} bytes, this one announces {found}")]
    Long {
        /// The kind's name.
        name: &'static str,
        /// Bytes announced.
        found: u32,
        /// Bytes allowed.
        longest: u32,
    },
    /// In a lane where its kind does not belong.
    #[error("a message of kind {name} came in a lane where it does not belong")]
    Lane {
        /// The kind's name.
        name: &'static str,
    },
    /// A start while another message is under way.
    #[error("a message started before the one before it was finished")]
    NotFinished,
    /// A part of nothing.
    #[error("a part came of a message that had not started")]
    NotStarted,
    /// An empty part, or more than the message has.
    #[error("a part is empty or goes beyond the end of its message")]
    Part,
    /// More bulk than there was credit for.
    #[error("more bulk came than there was credit for")]
    Credit,
}

#[cfg(test)]
mod tests;
