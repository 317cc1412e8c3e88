//! A participant's state updater as a shard, and the participant's witness of the operator's log. It appends nothing but
//! snapshots and cosignatures; all else it reads again.

use super::layout::{Bindings, Layout, Role};
use super::ledger::{Ledger, LedgerTopics};
use super::shard::{Opened, Resumable, Shard, ShardError, Stop};
use super::snapshot;
use super::state::State;
use crate::message::{CosignatureBatch, CosignedHead, MAX_HEADS, Message as _};
use crate::runtime::executor::Stage;
use crate::runtime::shell::SharedState;
use crate::stage::{LogWitness, Updater};
use std::sync::Arc;
use tally_crypto::log::Cosigned;
use tally_crypto::{PublicKey, SigningKey};
use tally_ledger::{Network, NetworkId, ParticipantId, Timestamp};
use tally_log::cluster::{Cluster, SharedLog};
use tally_log::{LogError, TopicId};

struct Updating {
    ledger: Ledger,
    network: NetworkId,
    participant: ParticipantId,
    cosignatures: TopicId,
    snapshots: TopicId,
    every_ms: u64,
    saved_at: Timestamp,
    /// Where the sequence stood when it was last saved.
    saved: u64,
}

/// Opens the updater of participant `shard`, which saves its balances every `every_ms` milliseconds and cosigns the heads
/// of the log with `key`; and its state, for those who look at it.
///
/// # Errors
/// When the shard cannot be recovered.
pub fn open(
    cluster: &dyn Cluster,
    layout: &Layout,
    network: &Arc<Network>,
    shard: u16,
    (key, every_ms): (SigningKey, u64),
    now: Timestamp,
    stop: &Stop,
) -> Result<(Shard, SharedState<Updater>), ShardError> {
    let participant = ParticipantId(shard);
    let mut bindings = Bindings::default();
    let topics = LedgerTopics::bind(&mut bindings, layout, participant, Role::Updater);
    let cosignatures = bindings.writes(layout.cosignatures(participant));
    let dead_letters = bindings.writes(layout.dead_letters(Role::Updater, shard));
    let opened = Opened::open(cluster, layout, (Role::Updater, shard), bindings, stop)?;
    let mut ledger = Ledger::recover(&opened, &topics, network, participant)?;
    let operator = network.participants.first().map(|operator| operator.key);
    let witness = LogWitness::new(network.id, operator, ledger.witness().tree().clone());
    let cosigned = match &operator {
        Some(operator) => last_cosigned(&opened, cosignatures, (&network.id, &key.public_key(), operator))?,
        None => None,
    };
    ledger.shell.witness = Some(witness.signing(key, cosigned));
    let state = Arc::clone(&ledger.shell.state);
    let updating = Updating {
        saved: ledger.sequence.next(),
        ledger,
        network: network.id,
        participant,
        cosignatures,
        snapshots: topics.snapshots,
        every_ms,
        saved_at: now,
    };
    Ok((Shard::new(opened, Box::new(updating), None, dead_letters), state))
}

/// Records that are read together when the last cosignature is looked for.
const BACK: u64 = 1 << 10;

/// What this witness cosigned last: of a head that the operator signed. Whatever else lies in its topic, it did not promise.
fn last_cosigned(
    opened: &Opened,
    topic: TopicId,
    (network, own, operator): (&NetworkId, &PublicKey, &PublicKey),
) -> Result<Option<Cosigned>, ShardError> {
    let cosigned = |head: &CosignedHead| {
        let is_the_operators = || head.head().verify(&network.0, operator).is_ok();
        (head.verify(network, own) && is_the_operators()).then_some(Cosigned {
            size: head.size,
            root: head.root,
            time_s: head.time_s,
        })
    };
    let (first, mut until) = (opened.log.first(topic).0, opened.log.next(topic).0);
    while until > first {
        let from = until.saturating_sub(BACK).max(first);
        let mut heads: Vec<CosignedHead> = Vec::new();
        opened.read_bytes(topic, from..until, |_, payload| {
            heads.extend(
                CosignatureBatch::decode(&payload).ok().and_then(|batch| batch.heads.last().copied()),
            );
            Ok(())
        })?;
        if let Some(last) = heads.iter().rev().find_map(cosigned) {
            return Ok(Some(last));
        }
        until = from;
    }
    Ok(None)
}

impl Resumable for Updating {
    fn stage(&mut self) -> &mut dyn Stage {
        &mut self.ledger.shell
    }

    fn state(&mut self) -> Option<State> {
        None
    }

    fn save(&mut self, log: &dyn SharedLog, now: Timestamp, stops: bool) -> Result<bool, LogError> {
        let cosigned = self.cosign(log)?;
        Ok(self.save_balances(log, now, stops)? || cosigned)
    }
}

impl Updating {
    /// Appends the cosignatures of this turn; whether there were any.
    fn cosign(&mut self, log: &dyn SharedLog) -> Result<bool, LogError> {
        let heads = self.ledger.shell.witness.as_mut().map(LogWitness::take_cosigned).unwrap_or_default();
        let mut bytes = Vec::new();
        for heads in heads.chunks(MAX_HEADS) {
            bytes.clear();
            CosignatureBatch { participant: self.participant, heads: heads.to_vec() }.encode(&mut bytes);
            log.append(self.cosignatures, &[&bytes])?;
        }
        Ok(!heads.is_empty())
    }

    fn save_balances(&mut self, log: &dyn SharedLog, now: Timestamp, stops: bool) -> Result<bool, LogError> {
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
