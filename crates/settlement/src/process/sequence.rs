//! The sequencer as a shard: one is active, others stand by. What it records with every turn is all that the next
//! one needs, so that it takes over in the time of one read.

use super::layout::{Bindings, Layout, Role};
use super::shard::{Opened, Resumable, Shard, ShardError, Stop};
use super::state::State;
use crate::runtime::executor::{Signal, Stage};
use crate::runtime::feed::{Cursor, Feeds};
use crate::runtime::shell::SequencerShell;
use crate::runtime::topic::{Reader, Topic};
use crate::stage::Sequencer;
use std::collections::VecDeque;
use std::sync::Arc;
use tally_crypto::SigningKey;
use tally_crypto::log::Frontier;
use tally_ledger::Timestamp;
use tally_ledger::wire::{Reader as Bytes, write};
use tally_log::Log;
use tally_log::cluster::Cluster;

struct Sequencing {
    shell: SequencerShell,
    cursors: Vec<Cursor>,
}

/// Opens the sequencer, which signs tree heads with `key`.
///
/// # Errors
/// When the shard cannot be recovered.
pub fn open(
    cluster: &dyn Cluster,
    layout: &Layout,
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
    let cursors: Vec<_> = (0..decisions.len()).map(|at| Cursor::new(recorded.next(at))).collect();
    let feeds: Vec<_> = decisions
        .iter()
        .zip(&cursors)
        .map(|(id, cursor)| (*id, opened.partition(*id), cursor.clone()))
        .collect();
    let shell = SequencerShell {
        state: Sequencer::new(key, next, tree, recorded.clock),
        decisions: Reader::shared(Feeds::new(Arc::clone(&opened.log), feeds, None)),
        sequence: Topic::logged("sequence", 1, log, sequence, &signal),
        waiting: VecDeque::new(),
    };
    Ok(Shard::new(opened, Box::new(Sequencing { shell, cursors }), Some(state), dead_letters))
}

impl Resumable for Sequencing {
    fn stage(&mut self) -> &mut dyn Stage {
        &mut self.shell
    }

    fn state(&mut self) -> Option<State> {
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
