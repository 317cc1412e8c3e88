//! Participants' balances as a gateway keeps them: read, never written.

use super::{DeskOptions, LOCK};
use crate::process::layout::{Bindings, Layout, Role};
use crate::process::ledger::{Ledger, LedgerTopics};
use crate::process::shard::{Opened, ShardError, Stop};
use crate::runtime::shell::SharedState;
use crate::stage::Updater;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, MutexGuard};
use tally_ledger::{Network, ParticipantId};
use tally_log::cluster::Cluster;

/// One participant's.
pub(super) struct Books {
    pub(super) participant: ParticipantId,
    state: SharedState<Updater>,
    applied: Arc<AtomicU64>,
}

impl Books {
    pub(super) fn of(ledger: &Ledger) -> Self {
        let state = Arc::clone(&ledger.shell.state);
        let participant = state.lock().expect(LOCK).accounts().participant();
        Self { participant, state, applied: Arc::clone(&ledger.shell.applied) }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, Updater> {
        self.state.lock().expect(LOCK)
    }

    /// Decisions below this sequence number are in it.
    pub(super) fn applied(&self) -> u64 {
        self.applied.load(Ordering::Acquire)
    }
}

/// Ledgers that are read at the same time.
const AT_ONCE: usize = 8;

/// Recovers the balances of all participants wanted, up to the record `sequence` of the sequence.
pub(super) fn recover(
    cluster: &dyn Cluster,
    layout: &Layout,
    network: &Arc<Network>,
    options: &DeskOptions,
    sequence: u64,
    stop: &Stop,
) -> Result<Vec<(Opened, Ledger)>, ShardError> {
    let one = |participant: ParticipantId| {
        let bic = &layout.participants[participant.index()];
        let name = format!("{} books {bic}", layout.writer(Role::Gateway, options.gateway));
        let mut bindings = Bindings::default();
        let topics = LedgerTopics::bind(&mut bindings, layout, participant, Role::Gateway);
        let opened = Opened::reader(cluster, name, bindings, stop)?;
        let mut ledger = Ledger::recover(&opened, &topics, network, participant)?;
        ledger.advance(&opened, sequence, &[])?;
        Ok((opened, ledger))
    };
    let mut all = Vec::with_capacity(options.participants.len());
    for participants in options.participants.chunks(AT_ONCE) {
        let recovered: Vec<Result<_, ShardError>> = std::thread::scope(|scope| {
            let threads: Vec<_> =
                participants.iter().map(|participant| scope.spawn(move || one(*participant))).collect();
            threads.into_iter().map(|thread| thread.join().expect("recovery does not panic")).collect()
        });
        for ledger in recovered {
            all.push(ledger?);
        }
    }
    Ok(all)
}
