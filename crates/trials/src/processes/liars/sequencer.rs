//! A sequencer that signs what it likes: whole sequences whose heads verify, and heads that follow from nothing.

use super::{Liar, Lie, Purpose, change, encoded, shared, unreadable};
use crate::processes::world::World;
use crate::simulation::plan::keys;
use bytes::Bytes;
use std::collections::VecDeque;
use std::sync::Arc;
use tally_crypto::Hash;
use tally_crypto::log::{Frontier, SignedTreeHead, TreeHead};
use tally_crypto::merkle;
use tally_ledger::{NetworkId, Timestamp};
use tally_log::cluster::{Binding, Cluster, SharedLog};
use tally_log::{Log, TopicId};
use tally_settlement::message::{DecisionBatch, Message, ParticipationBatch, SequenceBatch, sequence_leaf};
use tally_settlement::process::Role;

/// What a liar needs that sequences itself.
pub(super) struct Adversary {
    log: Arc<dyn SharedLog>,
    network: NetworkId,
    next: u64,
    tree: Frontier,
    clock: Timestamp,
    /// Decisions that are not sequenced yet.
    due: VecDeque<DecisionBatch>,
    /// Decisions that are.
    sequenced: Vec<DecisionBatch>,
    /// What schedulers told assemblers, of which much is not decided.
    asked: Vec<ParticipationBatch>,
    /// Whether it told a lie after which no honest institution reads on.
    is_found_out: bool,
    /// Whether it is honest up to that lie: where it was not, institutions stand before an earlier one.
    is_patient: bool,
}

impl Adversary {
    pub(super) fn new(world: &World, is_patient: bool) -> Self {
        let layout = &world.setup.layout;
        let binding = Binding { id: TopicId(0), partition: shared(layout, "sequence", 0), writes: true };
        let log = world.cluster.open(&layout.writer(Role::Sequencer, 0), &[binding]);
        Self {
            log: log.expect("the partition is there"),
            network: world.setup.network.id,
            next: 0,
            tree: Frontier::new(),
            clock: world.now,
            due: VecDeque::new(),
            sequenced: Vec::new(),
            asked: Vec::new(),
            is_found_out: false,
            is_patient,
        }
    }

    /// A record whose head follows from those before it, with `first` as its first number.
    fn record(&mut self, now: Timestamp, decisions: &DecisionBatch, first: u64) -> SequenceBatch {
        self.clock = self.clock.max(now);
        self.record_at(self.clock, decisions, first)
    }

    fn record_at(&mut self, time: Timestamp, decisions: &DecisionBatch, first: u64) -> SequenceBatch {
        let numbered = (first..).zip(&decisions.ids).zip(&decisions.verdicts);
        let leaves: Vec<Hash> =
            numbered.map(|((sequence, id), verdict)| sequence_leaf(id, sequence, *verdict)).collect();
        let mut batch = SequenceBatch {
            first,
            count: u32::try_from(decisions.indices.len()).expect("batches are bounded"),
            source: decisions.source,
            timestamp: time,
            runs: SequenceBatch::runs_of(&decisions.indices, &decisions.verdicts),
            root: merkle::root(&leaves),
            tree_root: [0; 32],
            tree_size: 0,
            signature: tally_crypto::Signature::from_bytes([0; 64]),
        };
        self.tree.append(&batch.leaf_data());
        (batch.tree_size, batch.tree_root) = (self.tree.len(), self.tree.root());
        self.sign(&mut batch);
        batch
    }

    fn sign(&self, batch: &mut SequenceBatch) {
        let head = TreeHead { size: batch.tree_size, root: batch.tree_root, timestamp_ms: batch.timestamp.0 };
        batch.signature = SignedTreeHead::sign(head, &self.network.0, &keys()[0]).signature;
    }

    fn honest(&mut self, now: Timestamp, decisions: &DecisionBatch) -> Bytes {
        let first = self.next;
        self.next += decisions.indices.len() as u64;
        encoded(&self.record(now, decisions, first))
    }
}

impl Liar {
    /// Takes the turn of the sequencer.
    pub(super) fn sequence(&mut self, world: &mut World) {
        let Some(mut adversary) = self.sequencer.take() else { return };
        let layout = world.setup.layout.clone();
        for assembler in 0..layout.assemblers {
            for record in self.fresh(world, Purpose::Serve, &shared(&layout, "decisions", assembler)) {
                let batch = DecisionBatch::decode(&record.payload).expect("an assembler wrote it");
                adversary.due.push_back(batch);
            }
            for scheduler in 0..layout.schedulers {
                let number = scheduler * layout.assemblers + assembler;
                for record in self.fresh(world, Purpose::Serve, &shared(&layout, "participations", number)) {
                    let batch = ParticipationBatch::decode(&record.payload).expect("a scheduler wrote it");
                    adversary.asked.push(batch);
                }
            }
        }
        let mut written = Vec::new();
        while let Some(decisions) = adversary.due.pop_front() {
            if adversary.sequenced.len() < 8 || world.healed || !self.rng.chance(1, 6) {
                written.push(adversary.honest(world.now, &decisions));
            } else {
                written.extend(self.lie_in_sequence(world, &mut adversary, &decisions));
            }
            adversary.sequenced.push(decisions);
        }
        for payload in written {
            drop(adversary.log.append(TopicId(0), &[&payload]));
        }
        drop(adversary.log.sync());
        self.sequencer = Some(adversary);
    }

    /// What is written in place of decisions.
    fn lie_in_sequence(
        &mut self,
        world: &World,
        adversary: &mut Adversary,
        decisions: &DecisionBatch,
    ) -> Vec<Bytes> {
        let now = world.now;
        let lie = match self.rng.below(9) {
            0 | 1 if !adversary.is_patient => Lie::SequencesOtherwise,
            2 if !adversary.is_patient => Lie::SequencesTwice,
            3 | 4 if !adversary.is_patient => Lie::SequencesUndecided,
            5 if !adversary.is_patient => Lie::SequencesOutOfOrder,
            6 if !adversary.is_patient => Lie::SequencesBack,
            // After those nobody reads on: late, and once.
            at if (at == 7 || adversary.is_patient)
                && !adversary.is_found_out
                && adversary.sequenced.len() > 20 =>
            {
                adversary.is_found_out = true;
                match self.rng.below(7) {
                    0 => Lie::SequencesGap,
                    1 => Lie::SequencesSecondHead,
                    2 => Lie::SequencesTimeBack,
                    3 => Lie::SequencesWrongTree,
                    4 => Lie::SequencesWrongSignature,
                    5 => Lie::SequencesUnknownBatch,
                    _ => Lie::SequencesUnreadable,
                }
            }
            _ => return vec![adversary.honest(now, decisions)],
        };
        self.tell(lie);
        let mut forged = decisions.clone();
        match lie {
            Lie::SequencesOtherwise => {
                change::verdicts(&mut self.rng, &mut forged);
                vec![adversary.honest(now, &forged)]
            }
            Lie::SequencesTwice => {
                let earlier = &adversary.sequenced[self.rng.index(adversary.sequenced.len())];
                let mut again = if self.rng.chance(1, 2) { earlier.clone() } else { forged.clone() };
                if self.rng.chance(1, 2) {
                    again.verdicts.fill(0);
                }
                vec![adversary.honest(now, &forged), adversary.honest(now, &again)]
            }
            Lie::SequencesUndecided => {
                let back = adversary.asked.len().min(4);
                let at = adversary.asked.len() - 1 - self.rng.index(back);
                let asked = &adversary.asked[at];
                let count = u32::try_from(asked.len()).expect("batches are bounded");
                let undecided = DecisionBatch {
                    source: asked.source,
                    indices: (0..count).collect(),
                    ids: asked.ids.clone(),
                    verdicts: vec![0; asked.len()],
                };
                vec![adversary.honest(now, &undecided), adversary.honest(now, &forged)]
            }
            Lie::SequencesOutOfOrder => {
                // The next ones first, as far as they have come; and within a batch the last first.
                forged.indices.reverse();
                forged.ids.reverse();
                forged.verdicts.reverse();
                let mut all: Vec<_> = adversary.due.drain(..).collect();
                all.push(forged);
                all.iter().rev().map(|one| adversary.honest(now, one)).collect()
            }
            Lie::SequencesBack => {
                let first = self.rng.below(adversary.next);
                let stale = adversary.record(now, &forged, first);
                let honest = if self.rng.chance(1, 2) {
                    adversary.honest(now, decisions)
                } else {
                    return vec![encoded(&stale)];
                };
                vec![encoded(&stale), honest]
            }
            Lie::SequencesGap => {
                adversary.next += self.rng.between(1, 9);
                vec![adversary.honest(now, &forged)]
            }
            Lie::SequencesSecondHead => {
                let tree = adversary.tree.clone();
                let next = adversary.next;
                let first = adversary.honest(now, &forged);
                (adversary.tree, adversary.next) = (tree, next);
                change::verdicts(&mut self.rng, &mut forged);
                vec![first, adversary.honest(now.plus_ms(1), &forged)]
            }
            Lie::SequencesTimeBack => {
                let first = adversary.next;
                adversary.next += forged.indices.len() as u64;
                let time = Timestamp(adversary.clock.0 - self.rng.between(1, 100_000));
                vec![encoded(&adversary.record_at(time, &forged, first))]
            }
            Lie::SequencesWrongTree => {
                let first = adversary.next;
                adversary.next += forged.indices.len() as u64;
                let mut batch = adversary.record(now, &forged, first);
                if self.rng.chance(1, 2) {
                    batch.tree_size += self.rng.between(1, 5);
                } else {
                    self.rng.fill(&mut batch.tree_root);
                }
                adversary.sign(&mut batch);
                vec![encoded(&batch)]
            }
            Lie::SequencesWrongSignature => {
                let first = adversary.next;
                adversary.next += forged.indices.len() as u64;
                let mut batch = adversary.record(now, &forged, first);
                let other = &keys()[1 + self.rng.index(keys().len() - 1)];
                batch.signature =
                    SignedTreeHead::sign(batch.tree_head().head, &adversary.network.0, other).signature;
                vec![encoded(&batch)]
            }
            Lie::SequencesUnknownBatch => {
                forged.source.number += 5_000;
                vec![adversary.honest(now, &forged)]
            }
            _ => {
                let honest = adversary.honest(now, &forged);
                vec![unreadable(&mut self.rng, &honest)]
            }
        }
    }
}
