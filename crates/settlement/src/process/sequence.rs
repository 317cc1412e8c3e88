//! The sequencer as a shard: one is active, others stand by. What it records with every turn is all that the next
//! one needs, so that it takes over in the time of one read.

use super::layout::{Bindings, Layout, Role};
use super::shard::{Opened, Resumable, Shard, ShardError, Stop};
use super::state::State;
use crate::message::Message;
use crate::runtime::executor::{Signal, Stage};
use crate::runtime::feed::{Cursor, UnreadableRecords};
use crate::runtime::shell::SequencerShell;
use crate::runtime::topic::Topic;
use crate::stage::Sequencer;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tally_crypto::SigningKey;
use tally_crypto::log::Frontier;
use tally_ledger::wire::{Reader as Bytes, write};
use tally_ledger::{NetworkId, Timestamp};
use tally_log::cluster::{Cluster, SharedLog};
use tally_log::{Log, LogError, Offset, TopicId, Visibility};

struct Sequencing {
    shell: SequencerShell,
    cursors: Vec<Cursor>,
    state: TopicId,
    recorded: bool,
    recorded_at: Timestamp,
}

/// How often an active sequencer records at least that it is there, in milliseconds: those who stand by take its silence
/// for its end.
pub const HEARTBEAT_MS: u64 = 100;

/// Watches the sequencer that is active, for those who stand by.
pub struct Silence {
    log: Arc<dyn SharedLog>,
    state: TopicId,
    next: u64,
    since: Instant,
}

impl Silence {
    /// Begins to watch.
    ///
    /// # Errors
    /// When the cluster cannot be reached.
    pub fn watch(cluster: &dyn Cluster, layout: &Layout) -> Result<Self, LogError> {
        let mut bindings = Bindings::default();
        let state = bindings.reads(layout.state(Role::Sequencer, 0));
        let log = cluster.reader(&bindings.0)?;
        let next = log.next(state).0;
        Ok(Self { log, state, next, since: Instant::now() })
    }

    /// Waits for a word of the active sequencer for at most `limit`; for how long there has been none.
    ///
    /// # Errors
    /// When the topic cannot be read.
    pub fn wait(&mut self, limit: Duration) -> Result<Duration, LogError> {
        if !self.hear()? {
            self.log.wait(limit);
            self.hear()?;
        }
        Ok(self.since.elapsed())
    }

    /// When it was last heard of, or when this began to listen.
    pub fn heard_at(&self) -> Instant {
        self.since
    }

    fn hear(&mut self) -> Result<bool, LogError> {
        let mut records = Vec::new();
        let read = self.log.read(self.state, Offset(self.next), 1 << 20, Visibility::Durable, &mut records);
        let next = match read {
            // It let go of older records while this process slept.
            Err(LogError::OutOfRange { first, .. }) => first,
            other => other?,
        };
        let heard = next.0 != self.next;
        if heard {
            (self.next, self.since) = (next.0, Instant::now());
        }
        Ok(heard)
    }
}

/// Opens the sequencer of `network`, which signs tree heads with `key`.
///
/// # Errors
/// When the shard cannot be recovered.
pub fn open(
    cluster: &dyn Cluster,
    layout: &Layout,
    network: NetworkId,
    key: SigningKey,
    now: Timestamp,
    stop: &Stop,
) -> Result<Shard, ShardError> {
    let mut bindings = Bindings::default();
    let decisions: Vec<_> =
        (0..layout.assemblers).map(|assembler| bindings.reads(layout.decisions(assembler))).collect();
    let sequence = bindings.writes(layout.sequence());
    let state = bindings.writes(layout.state(Role::Sequencer, 0));
    let dead_letters = bindings.writes(layout.dead_letters(Role::Sequencer, 0));
    let opened = Opened::open(cluster, layout, (Role::Sequencer, 0), bindings, stop)?;

    let recorded = opened.state(state, now)?;
    let (next, tree) = if recorded.more.is_empty() {
        if opened.log.next(sequence).0 > 0 {
            return Err(opened.history("the sequence has records, but not how far the sequencer had come"));
        }
        (0, Frontier::new())
    } else {
        let mut bytes = Bytes::new("state of the sequencer", &recorded.more);
        let broken = |error| opened.history(format!("what the sequencer recorded cannot be read: {error}"));
        let next = bytes.value().map_err(broken)?;
        let frontier = bytes.take(recorded.more.len() - 8).map_err(broken)?;
        let tree = Frontier::from_bytes(frontier);
        (next, tree.map_err(|_| opened.history("the Merkle log's frontier is broken"))?)
    };
    let signal = Arc::new(Signal::default());
    let log: Arc<dyn Log> = Arc::clone(&opened.log) as Arc<dyn Log>;
    let (reader, cursors) = opened.follow(&decisions, |at| recorded.next(at), UnreadableRecords::Stop);
    let shell = SequencerShell {
        state: Sequencer::new(network, key, next, tree, recorded.clock),
        decisions: reader,
        sequence: Topic::logged("sequence", 1, log, sequence, &signal),
        waiting: VecDeque::new(),
    };
    Ok(Shard::new(
        opened,
        Box::new(Sequencing { shell, cursors, state, recorded: false, recorded_at: now }),
        Some(state),
        dead_letters,
    ))
}

impl Resumable for Sequencing {
    fn stage(&mut self) -> &mut dyn Stage {
        &mut self.shell
    }

    fn save(&mut self, log: &dyn SharedLog, now: Timestamp, _stops: bool) -> Result<bool, LogError> {
        if std::mem::take(&mut self.recorded) {
            self.recorded_at = now;
        }
        if now < self.recorded_at.plus_ms(HEARTBEAT_MS) {
            return Ok(false);
        }
        let mut bytes = Vec::new();
        if let Some(state) = self.state() {
            state.encode(&mut bytes);
        }
        log.append(self.state, &[&bytes])?;
        (self.recorded, self.recorded_at) = (false, now);
        Ok(true)
    }

    fn state(&mut self) -> Option<State> {
        self.recorded = true;
        let sequencer = &self.shell.state;
        let more = encode_more(sequencer.next(), sequencer.tree());
        let next = self.cursors.iter().map(Cursor::next).collect();
        Some(State { clock: sequencer.clock(), next, low: Vec::new(), more })
    }
}

/// What the sequencer records besides its positions: the next sequence number and the Merkle log up to there.
pub(super) fn encode_more(next: u64, tree: &Frontier) -> Vec<u8> {
    let mut more = Vec::new();
    write(&mut more, &next);
    more.extend_from_slice(&tree.to_bytes());
    more
}
