//! What the store holds at one moment: immutable runs, newest first counts.

use std::sync::Arc;

use super::memory::MemoryRun;
use super::segment::Segment;
use super::value::{Found, Value};
use super::{StoreError, Table};

/// Segments of one table with disjoint, ascending keys.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) segments: Vec<Arc<Segment>>,
}

impl Run {
    pub(super) fn size_bytes(&self) -> u64 {
        self.segments.iter().map(|segment| segment.info.size).sum()
    }

    /// Position of the first segment that has keys not below `key`.
    pub(super) fn segment_of(&self, key: &[u8]) -> usize {
        self.segments.partition_point(|segment| &segment.info.last_key[..] < key)
    }

    fn get(&self, key: &[u8], hash: u64) -> Result<Option<Found>, StoreError> {
        match self.segments.get(self.segment_of(key)) {
            Some(segment) => segment.get(key, hash),
            None => Ok(None),
        }
    }
}

/// One table at one moment.
#[derive(Clone, Debug, Default)]
pub(super) struct TableVersion {
    /// Newest last; merged as they come.
    pub(super) memory: Vec<Arc<MemoryRun>>,
    /// Newest last; on the way to a segment.
    pub(super) frozen: Vec<Arc<MemoryRun>>,
    /// Newest first.
    pub(super) runs: Vec<Arc<Run>>,
}

impl TableVersion {
    pub(super) fn get(&self, key: &[u8]) -> Result<Option<Value>, StoreError> {
        let hash = super::hash::hash(key);
        for run in self.memory_runs() {
            if let Some(found) = run.get(key, hash) {
                return Ok(found.value());
            }
        }
        for run in &self.runs {
            if let Some(found) = run.get(key, hash)? {
                return Ok(found.value());
            }
        }
        Ok(None)
    }

    /// Newest first.
    pub(super) fn memory_runs(&self) -> impl Iterator<Item = &Arc<MemoryRun>> {
        self.memory.iter().rev().chain(self.frozen.iter().rev())
    }

    /// Adds a batch's run, and merges runs until each is more than twice as long as the next newer one.
    pub(super) fn push(&mut self, mut run: MemoryRun, durable: bool) {
        while let Some(last) = self.memory.last() {
            if last.len() > run.len() * 2 {
                break;
            }
            let bottom = !durable && self.memory.len() == 1;
            run = MemoryRun::merge(last, &run, bottom);
            self.memory.pop();
        }
        self.memory.push(Arc::new(run));
    }
}

/// All tables at one moment.
#[derive(Clone, Debug, Default)]
pub(super) struct Version {
    tables: Vec<Arc<TableVersion>>,
}

impl Version {
    pub(super) fn table(&self, table: Table) -> Option<&TableVersion> {
        self.tables.get(usize::from(table.0)).map(Arc::as_ref)
    }

    pub(super) fn tables(&self) -> impl Iterator<Item = (Table, &TableVersion)> {
        self.tables.iter().enumerate().map(|(number, table)| (Table(number as u16), table.as_ref()))
    }

    /// The table, to be changed; tables up to it come into being.
    pub(super) fn table_mut(&mut self, table: Table) -> &mut TableVersion {
        let number = usize::from(table.0);
        if number >= self.tables.len() {
            self.tables.resize_with(number + 1, Arc::default);
        }
        Arc::make_mut(&mut self.tables[number])
    }
}
