//! The bytes of a segment: header, items, footer. Little-endian throughout; see docs/decisions/003-journal.md.
//!
//! Every item is bound by its checksum to its journal, segment and position, so that a copy of a record
//! somewhere else (in a payload, in a recycled block) is never taken for a record.

use super::index::{SegmentIndex, TopicIndex};
use crate::MAX_RECORD_BYTES;
use std::collections::BTreeMap;

pub(super) const ITEM_HEADER_BYTES: usize = 44;
pub(super) const FORMAT_VERSION: u32 = 1;
pub(super) const ITEM_MAGIC: [u8; 4] = [0xa9, b'T', b'L', 0xf6];

const SEGMENT_MAGIC: [u8; 8] = *b"TALLYLOG";
const FOOTER_MAGIC: [u8; 4] = [0xa9, b'T', b'E', 0xf6];
/// Magic, version, checksum of the two: readable in every version to come.
pub(super) const SEGMENT_PREFIX_BYTES: usize = 16;
const SEGMENT_FIXED_BYTES: usize = SEGMENT_PREFIX_BYTES + 4 + 16 + 8 + 8 + 4;
const SEGMENT_TOPIC_BYTES: usize = 2 + 8;
const MAX_SEGMENT_HEADER_BYTES: usize = SEGMENT_FIXED_BYTES + (1 << 16) * SEGMENT_TOPIC_BYTES + 4;
pub(super) const FOOTER_TRAILER_BYTES: usize = 8 + 4;
/// Tickets, offsets and positions stay below, so that sums of two never overflow.
const MAX_NUMBER: u64 = 1 << 62;

/// What the checksums of the items of one segment start from.
#[derive(Clone, Copy, Debug)]
pub(super) struct Binding(u32);

impl Binding {
    pub(super) fn new(journal: [u8; 16], segment: u64) -> Self {
        Self(crc32c::crc32c_append(crc32c::crc32c(&journal), &segment.to_le_bytes()))
    }

    fn checksum(self, position: u64, covered: &[u8]) -> u32 {
        crc32c::crc32c_append(crc32c::crc32c_append(self.0, &position.to_le_bytes()), covered)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A record of a topic.
    Record,
    /// No record: says only what was durable when it was written.
    Mark,
    /// The index of the segment, its last item.
    Footer,
}

impl Kind {
    fn code(self) -> u16 {
        match self {
            Self::Record => 1,
            Self::Mark => 2,
            Self::Footer => 3,
        }
    }
}

/// The header of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Item {
    pub(super) kind: Kind,
    pub(super) topic: u16,
    pub(super) length: u32,
    pub(super) payload_crc: u32,
    /// Of a record its own, of others that of the last record before.
    pub(super) ticket: u64,
    pub(super) offset: u64,
    /// The last ticket that was known to be durable when the item was appended.
    pub(super) durable: u64,
}

impl Item {
    /// Bytes in the file, header included.
    pub(super) fn len(&self) -> u64 {
        ITEM_HEADER_BYTES as u64 + u64::from(self.length)
    }

    pub(super) fn encode(&self, binding: Binding, position: u64) -> [u8; ITEM_HEADER_BYTES] {
        let mut bytes = [0; ITEM_HEADER_BYTES];
        bytes[..4].copy_from_slice(&ITEM_MAGIC);
        bytes[8..12].copy_from_slice(&self.payload_crc.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.length.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.ticket.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.offset.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.durable.to_le_bytes());
        bytes[40..42].copy_from_slice(&self.topic.to_le_bytes());
        bytes[42..44].copy_from_slice(&self.kind.code().to_le_bytes());
        let crc = binding.checksum(position, &bytes[8..]);
        bytes[4..8].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// The header at `position`, or what is wrong with it.
    pub(super) fn decode(bytes: &[u8], binding: Binding, position: u64) -> Result<Self, &'static str> {
        let bytes: &[u8; ITEM_HEADER_BYTES] =
            bytes.first_chunk().ok_or("the file ends inside an item header")?;
        if bytes[..4] != ITEM_MAGIC {
            return Err("no item starts here");
        }
        let mut fields = Fields(&bytes[4..]);
        if fields.u32()? != binding.checksum(position, &bytes[8..]) {
            return Err("the checksum of an item header does not match");
        }
        let payload_crc = fields.u32()?;
        let length = fields.u32()?;
        let ticket = fields.number()?;
        let offset = fields.number()?;
        let durable = fields.number()?;
        let topic = fields.u16()?;
        let kind = match fields.u16()? {
            1 => Kind::Record,
            2 => Kind::Mark,
            3 => Kind::Footer,
            _ => return Err("an item is of an unknown kind"),
        };
        if kind == Kind::Record && length as usize > MAX_RECORD_BYTES {
            return Err("a record is over the limit");
        }
        Ok(Self { kind, topic, length, payload_crc, ticket, offset, durable })
    }
}

/// The start of a segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SegmentHeader {
    pub(super) journal: [u8; 16],
    pub(super) number: u64,
    /// The ticket of the first record in the segment, once there is one.
    pub(super) start_ticket: u64,
    /// For each topic with records before this segment, the offset of the next.
    pub(super) next_offsets: BTreeMap<u16, u64>,
}

/// Why a segment header could not be read.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum HeaderError {
    Damaged(&'static str),
    Version(u32),
}

impl From<&'static str> for HeaderError {
    fn from(what: &'static str) -> Self {
        Self::Damaged(what)
    }
}

impl SegmentHeader {
    pub(super) fn encode(&self) -> Vec<u8> {
        let len = SEGMENT_FIXED_BYTES + self.next_offsets.len() * SEGMENT_TOPIC_BYTES + 4;
        let mut bytes = Vec::with_capacity(len);
        bytes.extend_from_slice(&SEGMENT_MAGIC);
        bytes.extend_from_slice(&FORMAT_VERSION.to_le_bytes());
        bytes.extend_from_slice(&crc32c::crc32c(&bytes).to_le_bytes());
        bytes.extend_from_slice(&count(len).to_le_bytes());
        bytes.extend_from_slice(&self.journal);
        bytes.extend_from_slice(&self.number.to_le_bytes());
        bytes.extend_from_slice(&self.start_ticket.to_le_bytes());
        bytes.extend_from_slice(&count(self.next_offsets.len()).to_le_bytes());
        for (topic, next) in &self.next_offsets {
            bytes.extend_from_slice(&topic.to_le_bytes());
            bytes.extend_from_slice(&next.to_le_bytes());
        }
        bytes.extend_from_slice(&crc32c::crc32c(&bytes).to_le_bytes());
        bytes
    }

    /// How long the header that starts with `prefix` is, in bytes.
    pub(super) fn encoded_len(prefix: &[u8]) -> Result<usize, HeaderError> {
        let mut fields = Fields(prefix);
        if fields.bytes::<8>()? != SEGMENT_MAGIC {
            return Err(HeaderError::Damaged("this is not a segment of a journal"));
        }
        let version = fields.u32()?;
        if fields.u32()? != crc32c::crc32c(&prefix[..12]) {
            return Err(HeaderError::Damaged("the checksum of the format version does not match"));
        }
        if version != FORMAT_VERSION {
            return Err(HeaderError::Version(version));
        }
        let len = fields.u32()? as usize;
        if !(SEGMENT_FIXED_BYTES + 4..=MAX_SEGMENT_HEADER_BYTES).contains(&len) {
            return Err(HeaderError::Damaged("the length of the segment header is impossible"));
        }
        Ok(len)
    }

    /// The header in exactly these bytes.
    pub(super) fn decode(bytes: &[u8]) -> Result<Self, HeaderError> {
        if Self::encoded_len(bytes)? != bytes.len() {
            return Err(HeaderError::Damaged("the file ends inside the segment header"));
        }
        let (covered, crc) = bytes.split_last_chunk::<4>().ok_or("the segment header is too short")?;
        if u32::from_le_bytes(*crc) != crc32c::crc32c(covered) {
            return Err(HeaderError::Damaged("the checksum of the segment header does not match"));
        }
        let mut fields = Fields(&covered[SEGMENT_PREFIX_BYTES + 4..]);
        let journal = fields.bytes()?;
        let number = fields.number()?;
        let start_ticket = fields.number()?;
        let topics = fields.u32()?;
        let mut next_offsets = BTreeMap::new();
        for _ in 0..topics {
            next_offsets.insert(fields.u16()?, fields.number()?);
        }
        fields.end()?;
        Ok(Self { journal, number, start_ticket, next_offsets })
    }
}

/// The payload of a footer that starts at `position`.
pub(super) fn encode_footer(index: &SegmentIndex, position: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.extend_from_slice(&index.start_ticket.to_le_bytes());
    bytes.extend_from_slice(&index.end_ticket.to_le_bytes());
    bytes.extend_from_slice(&count(index.topics.len()).to_le_bytes());
    for (topic, entry) in &index.topics {
        bytes.extend_from_slice(&topic.to_le_bytes());
        bytes.extend_from_slice(&entry.first.to_le_bytes());
        bytes.extend_from_slice(&entry.count.to_le_bytes());
        bytes.extend_from_slice(&count(entry.sparse.len()).to_le_bytes());
        for (offset, position) in &entry.sparse {
            bytes.extend_from_slice(&offset.to_le_bytes());
            bytes.extend_from_slice(&position.to_le_bytes());
        }
    }
    bytes.extend_from_slice(&position.to_le_bytes());
    bytes.extend_from_slice(&FOOTER_MAGIC);
    bytes
}

/// Where the footer of a sealed segment that ends with `trailer` starts.
pub(super) fn footer_position(trailer: &[u8]) -> Result<u64, &'static str> {
    let mut fields = Fields(trailer);
    let position = fields.number().map_err(|_| "the segment has no footer")?;
    if fields.bytes::<4>()? != FOOTER_MAGIC {
        return Err("the segment has no footer");
    }
    Ok(position)
}

/// The index in the payload of a footer.
pub(super) fn decode_footer(payload: &[u8]) -> Result<SegmentIndex, &'static str> {
    let mut fields = Fields(payload);
    let start_ticket = fields.number()?;
    let end_ticket = fields.number()?;
    let mut index = SegmentIndex { start_ticket, end_ticket, topics: BTreeMap::new() };
    for _ in 0..fields.u32()? {
        let topic = fields.u16()?;
        let first = fields.number()?;
        let records = fields.number()?;
        let mut sparse = Vec::new();
        for _ in 0..fields.u32()? {
            sparse.push((fields.number()?, fields.number()?));
        }
        if sparse.first().is_none_or(|&(offset, _)| offset != first) {
            return Err("the footer does not say where a topic starts");
        }
        index.topics.insert(topic, TopicIndex { first, count: records, sparse });
    }
    fields.bytes::<FOOTER_TRAILER_BYTES>()?;
    fields.end()?;
    Ok(index)
}

fn count(len: usize) -> u32 {
    u32::try_from(len).expect("topics are counted in 16 bits and an index is smaller than its segment")
}

/// Takes fields off the front of bytes.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn bytes<const N: usize>(&mut self) -> Result<[u8; N], &'static str> {
        let (bytes, rest) = self.0.split_first_chunk().ok_or("a structure ends too soon")?;
        self.0 = rest;
        Ok(*bytes)
    }

    fn u16(&mut self) -> Result<u16, &'static str> {
        self.bytes().map(u16::from_le_bytes)
    }

    fn u32(&mut self) -> Result<u32, &'static str> {
        self.bytes().map(u32::from_le_bytes)
    }

    fn number(&mut self) -> Result<u64, &'static str> {
        let number = self.bytes().map(u64::from_le_bytes)?;
        if number >= MAX_NUMBER { Err("a number is impossibly large") } else { Ok(number) }
    }

    fn end(&self) -> Result<(), &'static str> {
        if self.0.is_empty() { Ok(()) } else { Err("a structure is longer than its content") }
    }
}
