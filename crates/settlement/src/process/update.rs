//! A participant's state updater as a shard. It appends nothing but snapshots; all else it reads again.

use super::layout::{Bindings, Layout, Role};
use super::ledger::{Ledger, LedgerTopics};
use super::shard::{Opened, Resumable, Shard, ShardError, Stop};
use super::snapshot;
use super::state::State;
use crate::runtime::executor::Stage;
use crate::runtime::shell::SharedState;
use crate::stage::Updater;
use std::sync::Arc;
use tally_ledger::{Network, NetworkId, ParticipantId, Timestamp};
use tally_log::cluster::{Cluster, SharedLog};
use tally_log::{LogError, TopicId};

struct Updating {
    ledger: Ledger,
    network: NetworkId,
    snapshots: TopicId,
    every_ms: u64,
    saved_at: Timestamp,
    /// Where the sequence stood when it was last saved.
    saved: u64,
}

/// Opens the updater of participant `shard`, which saves its balances every `every_ms` milliseconds; and its state, for
/// those who look at it.
///
/// # Errors
/// When the shard cannot be recovered.
pub fn open(
    cluster: &dyn Cluster,
    layout: &Layout,
    network: &Arc<Network>,
    shard: u16,
    every_ms: u64,
    now: Timestamp,
    stop: &Stop,
) -> Result<(Shard, SharedState<Updater>), ShardError> {
    let participant = ParticipantId(shard);
    let mut bindings = Bindings::default();
    let topics = LedgerTopics::bind(&mut bindings, layout, participant, true);
    let dead_letters = bindings.writes(layout.dead_letters(Role::Updater, shard));
    let opened = Opened::open(cluster, layout, (Role::Updater, shard), bindings, stop)?;
    let ledger = Ledger::recover(&opened, &topics, network, participant)?;
    let state = Arc::clone(&ledger.shell.state);
    let updating = Updating {
        saved: ledger.sequence.next(),
        ledger,
        network: network.id,
        snapshots: topics.snapshots,
        every_ms,
        saved_at: now,
    };
    Ok((Shard::new(opened, Box::new(updating), None, dead_letters), state))
}

impl Resumable for Updating {
    fn stage(&mut self) -> &mut dyn Stage {
        &mut self.ledger.shell
    }

    fn state(&mut self) -> Option<State> {
        None
    }

    fn save(&mut self, log: &dyn SharedLog, now: Timestamp, stops: bool) -> Result<bool, LogError> {
        let due = stops || now >= self.saved_at.plus_ms(self.every_ms);
        if !due || self.ledger.sequence.next() == self.saved {
            return Ok(false);
        }
        let position = self.ledger.position();
        let state = &self.ledger.shell.state;
        let last = &mut self.ledger.snapshot;
        let whole = snapshot::save(log, self.snapshots, self.network, state, &position, last)?;
        self.saved_at = now;
        if whole {
            self.saved = self.ledger.sequence.next();
        }
        Ok(true)
    }
}
