//! All records of a journal in the order in which they were appended.

use super::format::Kind;
use super::reader::SegmentReader;
use crate::disk::Disk;
use crate::{LogError, Offset, Record, Ticket, TopicId};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// A record in the order of the journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scanned {
    /// Its position in the journal.
    pub ticket: Ticket,
    /// Its topic.
    pub topic: TopicId,
    /// Its offset and payload.
    pub record: Record,
}

/// The records of a journal in order, read from disk and verified: checksums, and that no ticket and no
/// offset is missing. Ends at what was durable when the scan began, or with the first error.
///
/// Payloads are slices of the read buffer; one that is kept keeps about 2 MiB.
pub struct Scan {
    disk: Arc<dyn Disk>,
    journal: [u8; 16],
    segments: VecDeque<(u64, u64)>,
    reader: Option<SegmentReader>,
    offsets: BTreeMap<u16, u64>,
    from: u64,
    next_ticket: u64,
    end_ticket: u64,
}

const WINDOW_BYTES: usize = 2 << 20;

impl Scan {
    /// Of the given (segment, its first ticket), all of them needed, from ticket `from` to before `end_ticket`.
    pub(super) fn new(
        disk: Arc<dyn Disk>,
        journal: [u8; 16],
        segments: VecDeque<(u64, u64)>,
        from: u64,
        end_ticket: u64,
    ) -> Self {
        let next_ticket = segments.front().map_or(end_ticket, |&(_, start)| start);
        Self {
            disk,
            journal,
            segments,
            reader: None,
            offsets: BTreeMap::new(),
            from,
            next_ticket,
            end_ticket,
        }
    }

    fn step(&mut self) -> Result<Option<Scanned>, LogError> {
        while self.next_ticket < self.end_ticket {
            let reader = match &mut self.reader {
                Some(reader) => reader,
                None => {
                    let Some((number, _)) = self.segments.pop_front() else { return Ok(None) };
                    let (reader, header) =
                        SegmentReader::open_with_header(&*self.disk, number, WINDOW_BYTES)?;
                    if header.journal != self.journal || header.start_ticket != self.next_ticket {
                        return Err(reader.corrupt(0, "the segment does not continue the one before"));
                    }
                    self.offsets = header.next_offsets;
                    self.reader.insert(reader)
                }
            };
            let item = reader.item()?;
            match item.kind {
                Kind::Mark => {
                    reader.take(&item)?;
                }
                Kind::Footer => {
                    reader.take(&item)?;
                    self.reader = None;
                }
                Kind::Record => {
                    let offset = self.offsets.entry(item.topic).or_insert(0);
                    if item.ticket != self.next_ticket || item.offset != *offset {
                        return Err(reader.corrupt(reader.position, "a record is out of order"));
                    }
                    *offset += 1;
                    self.next_ticket += 1;
                    if item.ticket < self.from {
                        reader.skip(&item);
                        continue;
                    }
                    let record = Record { offset: Offset(item.offset), payload: reader.take(&item)? };
                    return Ok(Some(Scanned {
                        ticket: Ticket(item.ticket),
                        topic: TopicId(item.topic),
                        record,
                    }));
                }
            }
        }
        Ok(None)
    }
}

impl Iterator for Scan {
    type Item = Result<Scanned, LogError>;

    fn next(&mut self) -> Option<Self::Item> {
        let result = self.step().transpose();
        if !matches!(result, Some(Ok(_))) {
            // Nothing follows the end, and nothing can be trusted to follow an error.
            self.next_ticket = self.end_ticket;
        }
        result
    }
}
