//! Reads the records of one topic, from memory or from its segments.

use super::FileLog;
use super::format::Kind;
use super::queue::Place;
use super::reader::SegmentReader;
use crate::{Log, LogError, Offset, Record, TopicId, Visibility};
use bytes::Bytes;

/// How much of a segment is read at once to find records of one topic.
const READ_WINDOW_BYTES: usize = 256 << 10;

/// A read in progress.
struct Wanted<'a> {
    topic: u16,
    at: u64,
    any: bool,
    room: usize,
    out: &'a mut Vec<Record>,
}

impl Wanted<'_> {
    fn has_room(&self, len: usize) -> bool {
        !self.any || len <= self.room
    }

    fn push(&mut self, payload: Bytes) {
        self.room = self.room.saturating_sub(payload.len());
        self.out.push(Record { offset: Offset(self.at), payload });
        self.at += 1;
        self.any = true;
    }
}

/// Why reading a stretch of a segment ended.
enum Stretch {
    /// The next record is too much for this read.
    Full,
    /// The next record is elsewhere.
    Exhausted,
}

impl FileLog {
    pub(super) fn read_records(
        &self,
        topic: TopicId,
        from: Offset,
        max_bytes: usize,
        visibility: Visibility,
        out: &mut Vec<Record>,
    ) -> Result<Offset, LogError> {
        let mut wanted = Wanted { topic: topic.0, at: from.0, any: false, room: max_bytes, out };
        loop {
            let last_visible = match visibility {
                Visibility::Appended => u64::MAX,
                Visibility::Durable => self.durable().0,
            };
            let mut queue = self.queue();
            let (first, next) = queue.topics.get(&topic.0).map_or((0, 0), |known| (known.first, known.next));
            if !(first..=next).contains(&wanted.at) {
                if wanted.any {
                    break;
                }
                let (first, next) = (Offset(first), Offset(next));
                return Err(LogError::OutOfRange { topic, asked: from, first, next });
            }
            match queue.locate(topic.0, wanted.at, last_visible) {
                None => break,
                Some(Place::Memory(payload)) => {
                    let mut payload = Some(payload);
                    while let Some(found) = payload.take().filter(|payload| wanted.has_room(payload.len())) {
                        wanted.push(found);
                        payload = match queue.locate(topic.0, wanted.at, last_visible) {
                            Some(Place::Memory(payload)) => Some(payload),
                            _ => None,
                        };
                    }
                    break;
                }
                Some(Place::Disk { segment, position, end, until }) => {
                    let journal = queue.journal;
                    drop(queue);
                    match self.read_segment(journal, (segment, position, end), &mut wanted, until) {
                        Ok(Stretch::Exhausted) => {}
                        Ok(Stretch::Full) => break,
                        // Released between the look into the index and the look into the file.
                        Err(LogError::Io { source, .. })
                            if source.kind() == std::io::ErrorKind::NotFound
                                && self.first(topic).0 > wanted.at => {}
                        Err(error) => return Err(error),
                    }
                }
            }
        }
        Ok(Offset(wanted.at))
    }

    /// Adds the wanted records before offset `until` that are between two positions of a segment.
    fn read_segment(
        &self,
        journal: [u8; 16],
        (segment, position, end): (u64, u64, u64),
        wanted: &mut Wanted<'_>,
        until: u64,
    ) -> Result<Stretch, LogError> {
        let start = wanted.at;
        let mut reader = SegmentReader::open(&*self.disk, journal, segment, position, READ_WINDOW_BYTES)?;
        while reader.position < end && wanted.at < until {
            let item = reader.item()?;
            if item.kind != Kind::Record || item.topic != wanted.topic || item.offset < wanted.at {
                reader.skip(&item);
                continue;
            }
            if item.offset != wanted.at {
                return Err(reader.corrupt(reader.position, "a record is out of order"));
            }
            if !wanted.has_room(item.length as usize) {
                return Ok(Stretch::Full);
            }
            let payload = reader.take(&item)?;
            wanted.push(payload);
        }
        if wanted.at == start {
            return Err(reader.corrupt(reader.position, "a record is missing"));
        }
        Ok(Stretch::Exhausted)
    }
}
