//! Reads the items of one segment in order, in large reads, with payloads that are slices of what was read.

use super::format::{
    Binding, FOOTER_TRAILER_BYTES, HeaderError, ITEM_HEADER_BYTES, Item, Kind, SEGMENT_PREFIX_BYTES,
    SegmentHeader, decode_footer, footer_position,
};
use super::index::SegmentIndex;
use crate::LogError;
use crate::disk::{Disk, DiskFile, read_full_at};
use bytes::{Bytes, BytesMut};

const SUFFIX: &str = ".tlog";
pub(super) const NEW_SUFFIX: &str = ".new";
pub(super) const LOCK_NAME: &str = "lock";

/// The file of segment `number`.
pub(super) fn segment_name(number: u64) -> String {
    format!("{number:020}{SUFFIX}")
}

/// The number of the segment in file `name`, if it is one.
pub(super) fn segment_number(name: &str) -> Option<u64> {
    let digits = name.strip_suffix(SUFFIX)?;
    let number = digits.parse().ok()?;
    (segment_name(number) == name).then_some(number)
}

pub(super) fn io_error(
    operation: &'static str,
    file: impl Into<String>,
) -> impl FnOnce(std::io::Error) -> LogError {
    let file = file.into();
    move |source| LogError::Io { operation, file, source }
}

/// A position in the items of a segment.
pub(super) struct SegmentReader {
    file: Box<dyn DiskFile>,
    name: String,
    pub(super) binding: Binding,
    /// Where the next item starts.
    pub(super) position: u64,
    window_bytes: usize,
    window: Bytes,
    window_start: u64,
}

impl SegmentReader {
    /// Opens segment `number` of `journal` at the item at `position`, to be read in steps of about
    /// `window_bytes`.
    pub(super) fn open(
        disk: &dyn Disk,
        journal: [u8; 16],
        number: u64,
        position: u64,
        window_bytes: usize,
    ) -> Result<Self, LogError> {
        let name = segment_name(number);
        let file = disk.open(&name, false).map_err(io_error("open", &name))?;
        let binding = Binding::new(journal, number);
        Ok(Self { file, name, binding, position, window_bytes, window: Bytes::new(), window_start: 0 })
    }

    /// Opens a segment and reads its header; the position is then that of the first item.
    pub(super) fn open_with_header(
        disk: &dyn Disk,
        number: u64,
        window_bytes: usize,
    ) -> Result<(Self, SegmentHeader), LogError> {
        let mut reader = Self::open(disk, [0; 16], number, 0, window_bytes)?;
        let header = reader.read_header(number)?;
        reader.binding = Binding::new(header.journal, number);
        Ok((reader, header))
    }

    fn read_header(&mut self, number: u64) -> Result<SegmentHeader, LogError> {
        let file = self.name.clone();
        let typed = |error| match error {
            HeaderError::Damaged(what) => LogError::Corrupt { segment: file.clone(), position: 0, what },
            HeaderError::Version(found) => {
                LogError::Version { file: file.clone(), found, supported: super::format::FORMAT_VERSION }
            }
        };
        let len = SegmentHeader::encoded_len(self.bytes(0, SEGMENT_PREFIX_BYTES + 4)?).map_err(&typed)?;
        let header = SegmentHeader::decode(self.bytes(0, len)?).map_err(&typed)?;
        if header.number != number {
            return Err(self.corrupt(0, "the segment's number is not that of its file name"));
        }
        self.position = len as u64;
        Ok(header)
    }

    /// The index of a sealed segment, and where its items end and its footer starts.
    pub(super) fn read_footer(&mut self) -> Result<(SegmentIndex, u64), LogError> {
        let len = self.file_len()?;
        let trailer_at = len.saturating_sub(FOOTER_TRAILER_BYTES as u64);
        let position = footer_position(self.bytes(trailer_at, FOOTER_TRAILER_BYTES)?)
            .map_err(|what| self.corrupt(trailer_at, what))?;
        if position >= trailer_at {
            return Err(self.corrupt(trailer_at, "the segment has no footer"));
        }
        let item = self.item_at(position)?.map_err(|what| self.corrupt(position, what))?;
        if item.kind != Kind::Footer || position + item.len() != len {
            return Err(self.corrupt(position, "the footer is not at the end of the segment"));
        }
        let payload = self.payload_at(position, &item)?.map_err(|what| self.corrupt(position, what))?;
        let index = decode_footer(&payload).map_err(|what| self.corrupt(position, what))?;
        Ok((index, position))
    }

    /// The header of the item at `position`; the inner error says what is there instead.
    pub(super) fn item_at(&mut self, position: u64) -> Result<Result<Item, &'static str>, LogError> {
        let binding = self.binding;
        Ok(Item::decode(self.bytes(position, ITEM_HEADER_BYTES)?, binding, position))
    }

    /// The payload of `item`, which is at `position`, if it is what was written.
    pub(super) fn payload_at(
        &mut self,
        position: u64,
        item: &Item,
    ) -> Result<Result<Bytes, &'static str>, LogError> {
        let length = item.length as usize;
        let at = position + ITEM_HEADER_BYTES as u64;
        if self.bytes(at, length)?.len() < length {
            return Ok(Err("the file ends inside a record"));
        }
        let from = usize::try_from(at - self.window_start).expect("inside the window");
        let payload = self.window.slice(from..from + length);
        if crc32c::crc32c(&payload) == item.payload_crc {
            Ok(Ok(payload))
        } else {
            Ok(Err("the checksum of a record does not match"))
        }
    }

    /// The item at the current position, which must be good.
    pub(super) fn item(&mut self) -> Result<Item, LogError> {
        let position = self.position;
        self.item_at(position)?.map_err(|what| self.corrupt(position, what))
    }

    /// The payload of `item` at the current position, which must be good; moves to the next item.
    pub(super) fn take(&mut self, item: &Item) -> Result<Bytes, LogError> {
        let position = self.position;
        let payload = self.payload_at(position, item)?.map_err(|what| self.corrupt(position, what))?;
        self.skip(item);
        Ok(payload)
    }

    /// Moves past `item`, which is at the current position.
    pub(super) fn skip(&mut self, item: &Item) {
        self.position += item.len();
    }

    /// Forgets what was read, so that the next access sees what is in the file now.
    pub(super) fn refresh(&mut self) {
        self.window = Bytes::new();
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn file_len(&self) -> Result<u64, LogError> {
        self.file.len().map_err(io_error("measure", &self.name))
    }

    pub(super) fn corrupt(&self, position: u64, what: &'static str) -> LogError {
        LogError::Corrupt { segment: self.name.clone(), position, what }
    }

    /// `len` bytes from `position`, or fewer at the end of the file.
    pub(super) fn bytes(&mut self, position: u64, len: usize) -> Result<&[u8], LogError> {
        let window_end = self.window_start + self.window.len() as u64;
        if position < self.window_start || position + len as u64 > window_end {
            self.load(position, len.max(self.window_bytes))?;
        }
        let from = usize::try_from(position - self.window_start).expect("inside the window");
        let from = from.min(self.window.len());
        let to = (from + len).min(self.window.len());
        Ok(&self.window[from..to])
    }

    fn load(&mut self, position: u64, len: usize) -> Result<(), LogError> {
        let available = self.file_len()?.saturating_sub(position);
        let len = usize::try_from(available).map_or(len, |available| len.min(available));
        // Used again if nobody kept a payload, so that a scan does not touch fresh memory all the time.
        let mut buffer = match std::mem::take(&mut self.window).try_into_mut() {
            Ok(old) if old.len() >= len => old,
            _ => BytesMut::zeroed(len),
        };
        buffer.truncate(len);
        let filled =
            read_full_at(&*self.file, &mut buffer, position).map_err(io_error("read", &self.name))?;
        buffer.truncate(filled);
        self.window = buffer.freeze();
        self.window_start = position;
        Ok(())
    }
}
