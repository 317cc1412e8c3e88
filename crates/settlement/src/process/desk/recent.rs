//! The last records of the sequence: a decision can be heard before the scheduler's word on what it decides.

use crate::clerk::{self, Finality};
use crate::message::{SequenceBatch, Source};
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Records of the sequence by what they decide, for a while.
#[derive(Default)]
pub(super) struct Recent {
    by_source: HashMap<Source, VecDeque<Arc<SequenceBatch>>>,
    order: VecDeque<(Instant, Source, usize)>,
    runs: usize,
}

/// How long a record is kept. What is asked for later is looked up.
const KEPT: Duration = Duration::from_secs(120);
/// How much is kept: a run is 8 bytes. Every record counts as some more, for what else it takes.
const MAX_RUNS: usize = 1 << 21;
const RECORD: usize = 32;

impl Recent {
    pub(super) fn push(&mut self, batch: Arc<SequenceBatch>, now: Instant) {
        let size = batch.runs.len() + RECORD;
        self.runs += size;
        self.order.push_back((now, batch.source, size));
        self.by_source.entry(batch.source).or_default().push_back(batch);
        while let Some((since, source, size)) = self.order.front().copied()
            && (self.runs > MAX_RUNS || now.duration_since(since) > KEPT)
        {
            self.order.pop_front();
            self.runs -= size;
            if let Some(batches) = self.by_source.get_mut(&source) {
                batches.pop_front();
                if batches.is_empty() {
                    self.by_source.remove(&source);
                }
            }
        }
    }

    pub(super) fn find(&self, source: Source, index: u32) -> Option<Finality> {
        self.by_source.get(&source)?.iter().find_map(|batch| clerk::find(batch, index))
    }
}
