//! Walking over a table in key order, either way, through all its runs at once.

use std::cmp::Ordering;
use std::sync::Arc;

use super::StoreError;
use super::block::Block;
use super::memory::MemoryRun;
use super::segment::BlockDirectory;
use super::value::{Found, Value};
use super::version::{Run, TableVersion};

/// Which way to walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    Forward,
    Back,
}

/// A place in one run.
enum Source {
    Memory { run: Arc<MemoryRun>, position: Option<usize> },
    Run(RunCursor),
}

impl Source {
    fn key(&self) -> Option<&[u8]> {
        match self {
            Self::Memory { run, position } => position.map(|position| run.key(position)),
            Self::Run(cursor) => cursor.place.as_ref().map(|_| &cursor.key[..]),
        }
    }

    fn found(&self) -> Option<Found> {
        match self {
            Self::Memory { run, position } => position.map(|position| run.found(position)),
            Self::Run(cursor) => cursor.place.as_ref().map(|place| place.block.found(place.position)),
        }
    }

    /// To the first key not below `key`.
    fn seek(&mut self, key: &[u8]) -> Result<(), StoreError> {
        match self {
            Self::Memory { run, position } => {
                let at = run.lower_bound(key);
                *position = (at < run.len()).then_some(at);
                Ok(())
            }
            Self::Run(cursor) => cursor.seek(key),
        }
    }

    /// To the last key below `key`, or the last of all.
    fn seek_before(&mut self, key: Option<&[u8]>) -> Result<(), StoreError> {
        match self {
            Self::Memory { run, position } => {
                *position = key.map_or(run.len(), |key| run.lower_bound(key)).checked_sub(1);
                Ok(())
            }
            Self::Run(cursor) => cursor.seek_before(key),
        }
    }

    fn advance(&mut self, direction: Direction) -> Result<(), StoreError> {
        match (self, direction) {
            (Self::Memory { run, position }, Direction::Forward) => {
                *position = position.map(|at| at + 1).filter(|at| *at < run.len());
                Ok(())
            }
            (Self::Memory { position, .. }, Direction::Back) => {
                *position = position.and_then(|at| at.checked_sub(1));
                Ok(())
            }
            (Self::Run(cursor), Direction::Forward) => cursor.next(),
            (Self::Run(cursor), Direction::Back) => cursor.previous(),
        }
    }
}

struct RunCursor {
    run: Arc<Run>,
    /// Pass by the cache: each block is looked at once.
    once: bool,
    place: Option<Place>,
    key: Vec<u8>,
}

struct Place {
    segment: usize,
    directory: Arc<BlockDirectory>,
    number: usize,
    block: Block,
    position: usize,
}

impl RunCursor {
    fn load(&self, segment: usize, number: usize) -> Result<Option<Place>, StoreError> {
        let Some(file) = self.run.segments.get(segment) else { return Ok(None) };
        let directory = file.directory()?;
        let block = file.block(&directory, number, self.once)?;
        Ok(Some(Place { segment, directory, number, block, position: 0 }))
    }

    fn settle(&mut self, place: Option<Place>) {
        if let Some(place) = &place {
            place.block.key_into(place.position, &mut self.key);
        }
        self.place = place;
    }

    fn seek(&mut self, key: &[u8]) -> Result<(), StoreError> {
        let segment = self.run.segment_of(key);
        let Some(file) = self.run.segments.get(segment) else {
            self.place = None;
            return Ok(());
        };
        let (directory, number) = file.block_of(key)?;
        let block = file.block(&directory, number, self.once)?;
        let (position, _) = block.lower_bound(key);
        let place = Place { segment, directory, number, block, position };
        if place.position == place.block.len() {
            let next = self.after(&place)?;
            self.settle(next);
        } else {
            self.settle(Some(place));
        }
        Ok(())
    }

    fn seek_before(&mut self, key: Option<&[u8]>) -> Result<(), StoreError> {
        let (segment, number, position) = match key {
            Some(key) if self.run.segment_of(key) < self.run.segments.len() => {
                let segment = self.run.segment_of(key);
                let file = &self.run.segments[segment];
                let (directory, number) = file.block_of(key)?;
                let (position, _) = file.block(&directory, number, self.once)?.lower_bound(key);
                (segment, number, position)
            }
            // Behind the last entry.
            _ => (self.run.segments.len(), 0, 0),
        };
        let place = match position.checked_sub(1) {
            Some(position) => self.load(segment, number)?.map(|place| Place { position, ..place }),
            None => self.before(segment, number)?,
        };
        self.settle(place);
        Ok(())
    }

    /// The first entry of the block after `place`'s.
    fn after(&self, place: &Place) -> Result<Option<Place>, StoreError> {
        if place.number + 1 < place.directory.len() {
            self.load(place.segment, place.number + 1)
        } else {
            self.load(place.segment + 1, 0)
        }
    }

    /// The last entry of the block before this one.
    fn before(&self, segment: usize, number: usize) -> Result<Option<Place>, StoreError> {
        let place = match number.checked_sub(1) {
            Some(number) => self.load(segment, number)?,
            None => match segment.checked_sub(1) {
                Some(segment) => {
                    let last = self.run.segments[segment].directory()?.len() - 1;
                    self.load(segment, last)?
                }
                None => None,
            },
        };
        Ok(place.map(|place| Place { position: place.block.len() - 1, ..place }))
    }

    fn next(&mut self) -> Result<(), StoreError> {
        let Some(mut place) = self.place.take() else { return Ok(()) };
        place.position += 1;
        if place.position == place.block.len() {
            let next = self.after(&place)?;
            self.settle(next);
        } else {
            self.settle(Some(place));
        }
        Ok(())
    }

    fn previous(&mut self) -> Result<(), StoreError> {
        let Some(mut place) = self.place.take() else { return Ok(()) };
        match place.position.checked_sub(1) {
            Some(position) => {
                place.position = position;
                self.settle(Some(place));
            }
            None => {
                let before = self.before(place.segment, place.number)?;
                self.settle(before);
            }
        }
        Ok(())
    }
}

/// Runs of one table merged: each key once, with what its newest run says.
pub(super) struct Merge {
    /// Newest first.
    sources: Vec<Source>,
    direction: Direction,
}

impl Merge {
    pub(super) fn over_table(table: &TableVersion, direction: Direction) -> Self {
        let memory = table.memory_runs().map(|run| Source::Memory { run: Arc::clone(run), position: None });
        let runs = table.runs.iter().map(|run| Source::run(run, false));
        Self { sources: memory.chain(runs).collect(), direction }
    }

    /// Forward from the first key; `runs` are newest first.
    pub(super) fn over_memory<'a>(
        runs: impl Iterator<Item = &'a Arc<MemoryRun>>,
    ) -> Result<Self, StoreError> {
        let sources = runs.map(|run| Source::Memory { run: Arc::clone(run), position: None }).collect();
        let mut merge = Self { sources, direction: Direction::Forward };
        merge.seek(&[])?;
        Ok(merge)
    }

    /// Forward from the first key, past the cache; `runs` are newest first.
    pub(super) fn over_runs(runs: &[Arc<Run>]) -> Result<Self, StoreError> {
        let sources = runs.iter().map(|run| Source::run(run, true)).collect();
        let mut merge = Self { sources, direction: Direction::Forward };
        merge.seek(&[])?;
        Ok(merge)
    }

    /// Forward: to the first key not below `key`.
    pub(super) fn seek(&mut self, key: &[u8]) -> Result<(), StoreError> {
        self.sources.iter_mut().try_for_each(|source| source.seek(key))
    }

    /// Back: to the last key below `key`, or the last of all.
    pub(super) fn seek_before(&mut self, key: Option<&[u8]>) -> Result<(), StoreError> {
        self.sources.iter_mut().try_for_each(|source| source.seek_before(key))
    }

    /// The entry at the cursor, deleted ones too; then the cursor moves on.
    pub(super) fn step(&mut self) -> Result<Option<(Vec<u8>, Found)>, StoreError> {
        let mut best: Option<(usize, &[u8])> = None;
        for (number, source) in self.sources.iter().enumerate() {
            let Some(key) = source.key() else { continue };
            let nearer = match (best, self.direction) {
                (None, _) => true,
                (Some((_, best)), Direction::Forward) => key.cmp(best) == Ordering::Less,
                (Some((_, best)), Direction::Back) => key.cmp(best) == Ordering::Greater,
            };
            if nearer {
                best = Some((number, key));
            }
        }
        let Some((number, key)) = best else { return Ok(None) };
        let key = key.to_vec();
        let found = self.sources[number].found().expect("a source with a key has an entry");
        // Newer runs than the chosen one are elsewhere; older ones may say something outdated here.
        for source in &mut self.sources[number..] {
            if source.key() == Some(&key[..]) {
                source.advance(self.direction)?;
            }
        }
        Ok(Some((key, found)))
    }

    /// Like [`step`](Self::step), without deleted entries.
    pub(super) fn step_live(&mut self) -> Result<Option<(Vec<u8>, Value)>, StoreError> {
        while let Some((key, found)) = self.step()? {
            if let Found::Value(value) = found {
                return Ok(Some((key, value)));
            }
        }
        Ok(None)
    }
}

impl Source {
    fn run(run: &Arc<Run>, once: bool) -> Self {
        Self::Run(RunCursor { run: Arc::clone(run), once, place: None, key: Vec::new() })
    }
}
