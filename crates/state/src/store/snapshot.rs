//! Reading the store as it was at one moment.

use std::ops::Bound;
use std::sync::Arc;

use super::cursor::{Direction, Merge};
use super::value::Value;
use super::version::Version;
use super::{StoreError, Table};

/// The store at one moment: later commits do not show. Cheap to clone. It keeps what has been replaced
/// since from being freed, so it should not be kept for long.
#[derive(Clone, Debug)]
pub struct Snapshot {
    version: Arc<Version>,
}

impl Snapshot {
    pub(super) fn new(version: Arc<Version>) -> Self {
        Self { version }
    }

    /// The value of `key`.
    ///
    /// # Errors
    /// As all reads: [`StoreError::Corrupt`] and what the file system said.
    pub fn get(&self, table: Table, key: impl AsRef<[u8]>) -> Result<Option<Value>, StoreError> {
        match self.version.table(table) {
            Some(contents) => contents.get(key.as_ref()),
            None => Ok(None),
        }
    }

    /// Entries from `start` to `end` in key order.
    pub fn range(&self, table: Table, start: Bound<&[u8]>, end: Bound<&[u8]>) -> Entries {
        Entries::new(&self.version, table, start, end, Direction::Forward)
    }

    /// Entries from `end` down to `start`.
    pub fn range_back(&self, table: Table, start: Bound<&[u8]>, end: Bound<&[u8]>) -> Entries {
        Entries::new(&self.version, table, start, end, Direction::Back)
    }

    /// Entries whose keys begin with `prefix`, in key order.
    pub fn prefix(&self, table: Table, prefix: &[u8]) -> Entries {
        match after_prefix(prefix) {
            Some(end) => self.range(table, Bound::Included(prefix), Bound::Excluded(&end)),
            None => self.range(table, Bound::Included(prefix), Bound::Unbounded),
        }
    }

    /// Entries whose keys begin with `prefix`, last key first.
    pub fn prefix_back(&self, table: Table, prefix: &[u8]) -> Entries {
        match after_prefix(prefix) {
            Some(end) => self.range_back(table, Bound::Included(prefix), Bound::Excluded(&end)),
            None => self.range_back(table, Bound::Included(prefix), Bound::Unbounded),
        }
    }

    /// The entry with the lowest key.
    pub fn first(&self, table: Table) -> Result<Option<(Vec<u8>, Value)>, StoreError> {
        self.range(table, Bound::Unbounded, Bound::Unbounded).next().transpose()
    }

    /// The entry with the highest key.
    pub fn last(&self, table: Table) -> Result<Option<(Vec<u8>, Value)>, StoreError> {
        self.range_back(table, Bound::Unbounded, Bound::Unbounded).next().transpose()
    }
}

/// The lowest key above all that begin with `prefix`; `None` when there is none.
fn after_prefix(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|byte| *byte != u8::MAX)?;
    let mut end = prefix[..=last].to_vec();
    end[last] += 1;
    Some(end)
}

/// Entries of a range, one after the other. After an error there are no more.
pub struct Entries {
    merge: Option<Merge>,
    direction: Direction,
    /// Where to begin; taken by the first step.
    start: Option<Bound<Vec<u8>>>,
    stop: Bound<Vec<u8>>,
}

impl Entries {
    fn new(
        version: &Version,
        table: Table,
        start: Bound<&[u8]>,
        end: Bound<&[u8]>,
        direction: Direction,
    ) -> Self {
        let merge = version.table(table).map(|contents| Merge::over_table(contents, direction));
        let (start, stop) = match direction {
            Direction::Forward => (start, end),
            Direction::Back => (end, start),
        };
        Self { merge, direction, start: Some(start.map(<[u8]>::to_vec)), stop: stop.map(<[u8]>::to_vec) }
    }

    fn step(&mut self) -> Result<Option<(Vec<u8>, Value)>, StoreError> {
        let Some(merge) = &mut self.merge else { return Ok(None) };
        if let Some(start) = self.start.take() {
            // The next key after one is the same with a zero byte behind it.
            let behind = |mut key: Vec<u8>| {
                key.push(0);
                key
            };
            match (self.direction, start) {
                (Direction::Forward, Bound::Included(key)) => merge.seek(&key)?,
                (Direction::Forward, Bound::Excluded(key)) => merge.seek(&behind(key))?,
                (Direction::Forward, Bound::Unbounded) => merge.seek(&[])?,
                (Direction::Back, Bound::Included(key)) => merge.seek_before(Some(&behind(key)))?,
                (Direction::Back, Bound::Excluded(key)) => merge.seek_before(Some(&key))?,
                (Direction::Back, Bound::Unbounded) => merge.seek_before(None)?,
            }
        }
        let entry = merge.step_live()?;
        Ok(entry.filter(|(key, _)| match (&self.stop, self.direction) {
            (Bound::Unbounded, _) => true,
            (Bound::Included(stop), Direction::Forward) => key <= stop,
            (Bound::Excluded(stop), Direction::Forward) => key < stop,
            (Bound::Included(stop), Direction::Back) => key >= stop,
            (Bound::Excluded(stop), Direction::Back) => key > stop,
        }))
    }
}

impl Iterator for Entries {
    type Item = Result<(Vec<u8>, Value), StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        let step = self.step().transpose();
        if !matches!(step, Some(Ok(_))) {
            self.merge = None;
        }
        step
    }
}

impl std::fmt::Debug for Entries {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Entries").field("direction", &self.direction).finish_non_exhaustive()
    }
}
