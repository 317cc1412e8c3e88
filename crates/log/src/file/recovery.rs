//! Finds out what is in a journal, and where a crash cut it off.

use super::format::{ITEM_HEADER_BYTES, ITEM_MAGIC, Item, Kind, SegmentHeader, decode_footer};
use super::index::SegmentIndex;
use super::queue::Sealed;
use super::reader::{SegmentReader, segment_name, segment_number};
use crate::LogError;
use crate::disk::Disk;
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::Arc;

const WINDOW_BYTES: usize = 2 << 20;

/// What a crash left after the last good record, and recovery removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Truncated {
    /// The file.
    pub segment: String,
    /// Where the last good record ends in it.
    pub position: u64,
    /// Bytes from there to the last that is not zero.
    pub bytes: u64,
    /// Whole records among them, behind one that is not whole. None was ever known to be durable.
    pub records: u64,
    /// What is wrong at the position.
    pub what: &'static str,
}

/// The state of a journal on disk.
pub(super) struct Recovered {
    pub(super) sealed: VecDeque<Sealed>,
    /// The next offsets of all topics before the first segment.
    pub(super) start: BTreeMap<u16, u64>,
    /// Of the last segment.
    pub(super) header: SegmentHeader,
    pub(super) index: SegmentIndex,
    /// Where the first item of the last segment starts.
    pub(super) first_position: u64,
    /// Where the last good item of the last segment ends.
    pub(super) position: u64,
    /// The last segment ends with a footer, which starts there.
    pub(super) footer: Option<u64>,
    pub(super) truncated: Option<Truncated>,
    /// What comes before this position in the last segment was known to be durable once.
    pub(super) proven: u64,
    /// The last item is a record, which no later item proves to be durable.
    pub(super) unmarked: bool,
}

/// Reads the journal on `disk`; none if there is none yet.
pub(super) fn recover(disk: &dyn Disk) -> Result<Option<Recovered>, LogError> {
    let names = disk.list().map_err(super::reader::io_error("list", disk.describe()))?;
    let mut numbers: Vec<u64> = names.iter().filter_map(|name| segment_number(name)).collect();
    numbers.sort_unstable();
    if let Some(gap) = numbers.windows(2).find(|pair| pair[0].checked_add(1) != Some(pair[1])) {
        return Err(LogError::Corrupt {
            segment: segment_name(gap[0].saturating_add(1)),
            position: 0,
            what: "the segment is missing",
        });
    }
    let Some((&last, before)) = numbers.split_last() else { return Ok(None) };
    let mut chain = Chain::default();
    let mut sealed = VecDeque::new();
    for &number in before {
        let (mut reader, header) = SegmentReader::open_with_header(disk, number, 0)?;
        chain.enter(&reader, &header)?;
        let first_position = reader.position;
        let (index, end) = reader.read_footer()?;
        chain.check_footer(&reader, &index, first_position..end)?;
        sealed.push_back(Sealed { number, index: Arc::new(index), end });
    }
    let (mut reader, header) = SegmentReader::open_with_header(disk, last, WINDOW_BYTES)?;
    chain.enter(&reader, &header)?;
    let first_position = reader.position;
    let scanned = scan_last(&mut reader, &header, &chain)?;
    Ok(Some(Recovered {
        sealed,
        start: chain.start.unwrap_or_default(),
        header,
        index: scanned.index,
        first_position,
        position: reader.position,
        footer: scanned.footer,
        truncated: scanned.truncated,
        proven: scanned.proven,
        unmarked: scanned.unmarked,
    }))
}

/// What each segment must continue.
#[derive(Default)]
struct Chain {
    journal: Option<[u8; 16]>,
    next_ticket: u64,
    start: Option<BTreeMap<u16, u64>>,
    next_offsets: BTreeMap<u16, u64>,
}

impl Chain {
    fn enter(&mut self, reader: &SegmentReader, header: &SegmentHeader) -> Result<(), LogError> {
        match self.journal {
            None => {
                if header.start_ticket == 0 {
                    return Err(reader.corrupt(0, "tickets start from 1"));
                }
                self.journal = Some(header.journal);
                self.next_ticket = header.start_ticket;
                self.start = Some(header.next_offsets.clone());
                self.next_offsets = header.next_offsets.clone();
            }
            Some(journal) if journal != header.journal => {
                return Err(reader.corrupt(0, "the segment belongs to another journal"));
            }
            Some(_) => {
                if header.start_ticket != self.next_ticket || header.next_offsets != self.next_offsets {
                    return Err(reader.corrupt(0, "the segment does not continue the one before"));
                }
            }
        }
        Ok(())
    }

    fn check_footer(
        &mut self,
        reader: &SegmentReader,
        index: &SegmentIndex,
        items: std::ops::Range<u64>,
    ) -> Result<(), LogError> {
        let wrong = || reader.corrupt(items.end, "the footer does not fit the segment");
        let mut records: u64 = 0;
        for (&topic, entry) in &index.topics {
            let next = self.next_offsets.entry(topic).or_insert(0);
            if entry.first != *next || entry.sparse.iter().any(|(_, position)| !items.contains(position)) {
                return Err(wrong());
            }
            *next = entry.next();
            records = records.checked_add(entry.count).ok_or_else(wrong)?;
        }
        if index.start_ticket != self.next_ticket
            || index.start_ticket.checked_add(records) != Some(index.end_ticket)
        {
            return Err(wrong());
        }
        self.next_ticket = index.end_ticket;
        Ok(())
    }
}

struct ScannedLast {
    index: SegmentIndex,
    footer: Option<u64>,
    truncated: Option<Truncated>,
    proven: u64,
    unmarked: bool,
}

/// Verifies every item of the last segment and leaves `reader` where the last good one ends.
fn scan_last(
    reader: &mut SegmentReader,
    header: &SegmentHeader,
    chain: &Chain,
) -> Result<ScannedLast, LogError> {
    let mut index = SegmentIndex::new(header.start_ticket);
    let mut next_offsets = chain.next_offsets.clone();
    let mut unmarked = false;
    let mut proven = reader.position;
    let mut unproven: VecDeque<(u64, u64)> = VecDeque::new();
    loop {
        let position = reader.position;
        let (item, payload) = match good_item(reader, position)? {
            Ok(good) => good,
            Err(what) => {
                let later = look_ahead(reader, position, index.end_ticket)?;
                if later.proof.is_some() {
                    // A writer that is at work may have finished the record in the meantime.
                    reader.refresh();
                    if good_item(reader, position)?.is_ok() {
                        continue;
                    }
                    return Err(reader.corrupt(position, what));
                }
                let truncated = later.truncated(position, what);
                return Ok(ScannedLast { index, footer: None, truncated, proven, unmarked });
            }
        };
        while let Some((_, end)) = unproven.pop_front_if(|(ticket, _)| *ticket <= item.durable) {
            proven = end;
        }
        match item.kind {
            Kind::Record => {
                unproven.push_back((item.ticket, position + item.len()));
                let next = next_offsets.entry(item.topic).or_insert(0);
                if item.ticket != index.end_ticket || item.offset != *next {
                    return Err(reader.corrupt(position, "a record is out of order"));
                }
                *next += 1;
                index.add(item.topic, item.offset, position);
                unmarked = true;
            }
            Kind::Mark => unmarked = false,
            Kind::Footer => {
                let stored = decode_footer(&payload).map_err(|what| reader.corrupt(position, what))?;
                if !stored.same_records(&index) {
                    return Err(reader.corrupt(position, "the footer does not fit the segment"));
                }
                reader.skip(&item);
                let later = look_ahead(reader, reader.position, u64::MAX)?;
                let truncated = later.truncated(reader.position, "bytes follow the end of the segment");
                return Ok(ScannedLast { index, footer: Some(position), truncated, proven, unmarked: false });
            }
        }
        reader.skip(&item);
    }
}

type Good = Result<(Item, bytes::Bytes), &'static str>;

fn good_item(reader: &mut SegmentReader, position: u64) -> Result<Good, LogError> {
    let item = match reader.item_at(position)? {
        Ok(item) => item,
        Err(what) => return Ok(Err(what)),
    };
    Ok(reader.payload_at(position, &item)?.map(|payload| (item, payload)))
}

/// What follows a position at which no good item starts.
#[derive(Default)]
struct Later {
    start: u64,
    segment: String,
    /// After the last byte that is not zero.
    end: u64,
    records: u64,
    /// An item which says that something from the position on was durable.
    proof: Option<u64>,
}

impl Later {
    fn truncated(self, position: u64, what: &'static str) -> Option<Truncated> {
        (self.end > self.start).then(|| Truncated {
            segment: self.segment,
            position,
            bytes: self.end - self.start,
            records: self.records,
            what,
        })
    }
}

/// Looks for whatever follows `start`, where the record with `ticket` should be.
fn look_ahead(reader: &mut SegmentReader, start: u64, ticket: u64) -> Result<Later, LogError> {
    let len = reader.file_len()?;
    let mut later = Later { start, end: start, segment: reader.name().to_owned(), ..Later::default() };
    let mut at = start;
    while at < len {
        let block = reader.bytes(at, BLOCK_BYTES)?;
        if block.is_empty() {
            break;
        }
        // Most of a segment that is not full is zeros.
        if block.iter().fold(0, |any, &byte| any | byte) == 0 {
            at += block.len() as u64;
            continue;
        }
        let mut candidates = Vec::new();
        for (index, &byte) in block.iter().enumerate() {
            if byte != 0 {
                later.end = at + index as u64 + 1;
            }
            if byte == ITEM_MAGIC[0] {
                candidates.push(at + index as u64);
            }
        }
        at += block.len() as u64;
        for candidate in candidates {
            let Ok(item) = reader.item_at(candidate)? else { continue };
            if item.durable >= ticket {
                later.proof = Some(candidate);
                return Ok(later);
            }
            if item.kind == Kind::Record && candidate > start && reader.payload_at(candidate, &item)?.is_ok()
            {
                later.records += 1;
            }
        }
    }
    Ok(later)
}

const BLOCK_BYTES: usize = 4096;

/// Whether an error of the file system only says that there is no space or no such function.
pub(super) fn is_optional(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::Unsupported
    )
}

const _: () = assert!(ITEM_HEADER_BYTES < BLOCK_BYTES);
