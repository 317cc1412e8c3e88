//! From where a process must read again to find what it had under way.

use crate::message::Source;
use std::collections::HashMap;

/// By accepted batch that is under way, the first position in each stream that has something of it.
#[derive(Default, Debug)]
pub struct UnderWay(HashMap<Source, Vec<(u16, u64)>>);

impl UnderWay {
    /// Something of `source` is at `position` of a stream.
    pub fn note(&mut self, source: Source, stream: u16, position: u64) {
        let streams = self.0.entry(source).or_default();
        if streams.iter().all(|(noted, _)| *noted != stream) {
            streams.push((stream, position));
        }
    }

    /// Where something of `source` is first in a stream.
    pub fn low_of(&self, source: Source, stream: u16) -> Option<u64> {
        let streams = self.0.get(&source)?;
        streams.iter().find(|(noted, _)| *noted == stream).map(|(_, position)| *position)
    }

    /// Nothing of `source` will be needed again.
    pub fn forget(&mut self, source: Source) {
        self.0.remove(&source);
    }

    /// The lowest position of `stream` that is needed again, given the one that comes next.
    pub fn low(&self, stream: u16, next: u64) -> u64 {
        let noted = self.0.values().flatten().filter(|(of, _)| *of == stream);
        noted.map(|(_, position)| *position).min().unwrap_or(next).min(next)
    }
}
