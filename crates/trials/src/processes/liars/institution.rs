//! An institution that signs what it likes: answers and cosignatures under its own key.

use super::{Liar, Lie, Purpose, change, encoded, own, shared, unreadable};
use crate::processes::world::{Key, World};
use crate::simulation::plan::keys;
use bytes::Bytes;
use std::collections::BTreeMap;
use std::sync::Arc;
use tally_crypto::SigningKey;
use tally_crypto::log::{Checkpoint, Cosignature};
use tally_ledger::{ParticipantId, TransactionId};
use tally_log::cluster::{Binding, Cluster, Partition, SharedLog};
use tally_log::{Log, Offset, TopicId};
use tally_settlement::message::{
    ApprovalBatch, ApprovalSigner, CosignatureBatch, CosignedHead, Message, ParticipationBatch,
    ProposalBatch, SequenceBatch, Source,
};
use tally_settlement::process::Role;

/// What a liar needs that answers itself.
pub(super) struct Adversary {
    participant: ParticipantId,
    /// By assembler.
    approvals: Arc<dyn SharedLog>,
    cosignatures: Arc<dyn SharedLog>,
    /// What schedulers told assemblers: it sees more than an institution does.
    asked: BTreeMap<Source, ParticipationBatch>,
    /// What it was shown and has not answered yet.
    due: Vec<(Source, u32, Vec<u32>)>,
    /// What it wrote, and where.
    answered: Vec<(usize, ApprovalBatch)>,
}

impl Adversary {
    pub(super) fn new(world: &World, participant: ParticipantId) -> Self {
        let layout = &world.setup.layout;
        let open = |role, topic: &str, partitions: u16| {
            let bindings: Vec<Binding> = (0..partitions)
                .map(|number| Binding {
                    id: TopicId(number),
                    partition: own(layout, topic, participant, number),
                    writes: true,
                })
                .collect();
            let log = world.cluster.open(&layout.writer(role, participant.0), &bindings);
            log.expect("the partitions are there")
        };
        Self {
            participant,
            approvals: open(Role::Approver, "approvals", layout.assemblers),
            cosignatures: open(Role::Updater, "cosignatures", 1),
            asked: BTreeMap::new(),
            due: Vec::new(),
            answered: Vec::new(),
        }
    }
}

/// One in so many answers is a lie.
const LIES: u64 = 2;

fn key_of(participant: ParticipantId) -> &'static SigningKey {
    &keys()[participant.index()]
}

impl Liar {
    /// Changes what its approver has just answered, and its updater cosigned.
    pub(super) fn alter_answers(&mut self, world: &mut World, key: Key, participant: ParticipantId) {
        let layout = world.setup.layout.clone();
        if key == (Role::Approver, participant.0) {
            for assembler in 0..layout.assemblers {
                let partition = own(&layout, "approvals", participant, assembler);
                for record in self.fresh(world, Purpose::Alter, &partition) {
                    if world.healed || self.rng.chance(3, 4) {
                        continue;
                    }
                    let honest = ApprovalBatch::decode(&record.payload).expect("its approver wrote it");
                    let lies = self.lie(world, participant, &honest);
                    let Some((_, payload)) = lies.into_iter().next() else { continue };
                    assert!(world.cluster.alter(&partition, record.offset, payload), "it is there");
                }
            }
        }
        if key == (Role::Updater, participant.0) {
            let partition = own(&layout, "cosignatures", participant, 0);
            for record in self.fresh(world, Purpose::Alter, &partition) {
                if world.healed || self.rng.chance(7, 8) {
                    continue;
                }
                let honest = CosignatureBatch::decode(&record.payload).expect("its updater wrote it");
                let payload = self.cosign_falsely(world, honest);
                assert!(world.cluster.alter(&partition, record.offset, payload), "it is there");
            }
        }
    }

    /// Takes the turn of approver and updater.
    pub(super) fn answer(&mut self, world: &mut World) {
        let Some(mut adversary) = self.institution.take() else { return };
        let layout = world.setup.layout.clone();
        for scheduler in 0..layout.schedulers {
            for assembler in 0..layout.assemblers {
                let number = scheduler * layout.assemblers + assembler;
                for record in self.fresh(world, Purpose::Serve, &shared(&layout, "participations", number)) {
                    let batch = ParticipationBatch::decode(&record.payload).expect("a scheduler wrote it");
                    adversary.asked.insert(batch.source, batch);
                }
            }
            let proposals = own(&layout, "proposals", adversary.participant, scheduler);
            for record in self.fresh(world, Purpose::Serve, &proposals) {
                let batch = ProposalBatch::decode(&record.payload).expect("a scheduler wrote it");
                if !batch.is_empty() {
                    adversary.due.push((batch.source, batch.source_len, batch.indices));
                }
            }
        }
        self.answer_due(world, &mut adversary);
        self.cosign(world, &adversary);
        self.institution = Some(adversary);
    }

    fn answer_due(&mut self, world: &World, adversary: &mut Adversary) {
        let assemblers = u64::from(world.setup.layout.assemblers);
        let mut later = Vec::new();
        for (source, source_len, indices) in std::mem::take(&mut adversary.due) {
            if self.rng.chance(1, 6) {
                // Not now: in another order.
                later.push((source, source_len, indices));
                continue;
            }
            let Some(asked) = adversary.asked.get(&source) else { continue };
            let mut honest = ApprovalBatch {
                source,
                source_len,
                participant: adversary.participant,
                ids: indices.iter().map(|index| asked.ids[*index as usize]).collect(),
                verdicts: vec![0; indices.len()],
                indices,
                leaves: Vec::new(),
                signature: change::signature(&mut self.rng),
            };
            ApprovalSigner::new(world.setup.network.id).sign(&mut honest, key_of(adversary.participant));
            let assembler = usize::try_from(source.number % assemblers).expect("few");
            let written = if world.healed || !self.rng.chance(1, LIES) {
                vec![(assembler, encoded(&honest))]
            } else {
                self.lie_of(world, adversary, &honest)
            };
            for (assembler, payload) in written {
                let topic = TopicId(u16::try_from(assembler).expect("few"));
                // A stall or a lost answer: what was to be said is withheld.
                drop(adversary.approvals.append(topic, &[&payload]));
            }
            adversary.answered.push((assembler, honest));
        }
        adversary.due = later;
        drop(adversary.approvals.sync());
    }

    /// What is written in place of an honest answer, by one who remembers what it was asked.
    fn lie_of(
        &mut self,
        world: &World,
        adversary: &Adversary,
        honest: &ApprovalBatch,
    ) -> Vec<(usize, Bytes)> {
        let assemblers = usize::from(world.setup.layout.assemblers);
        let assembler = |source: Source| usize::try_from(source.number % assemblers as u64).expect("few");
        let mut signer = ApprovalSigner::new(world.setup.network.id);
        let key = key_of(adversary.participant);
        match self.rng.below(4) {
            0 => {
                // Transactions of others: all of a batch, or of one that does not concern it at all.
                let others: Vec<&ParticipationBatch> = adversary.asked.values().collect();
                let asked = others[self.rng.index(others.len())];
                let count = u32::try_from(asked.len()).expect("batches are bounded");
                let verdict = if self.rng.chance(1, 2) { 0 } else { change::verdict(&mut self.rng, 0) };
                let mut forged = ApprovalBatch {
                    source: asked.source,
                    source_len: count,
                    indices: (0..count).collect(),
                    ids: asked.ids.clone(),
                    verdicts: vec![verdict; asked.len()],
                    leaves: Vec::new(),
                    ..honest.clone()
                };
                signer.sign(&mut forged, key);
                let has_part = |at: usize| {
                    let firsts = asked.firsts();
                    let own = firsts[at] as usize..firsts[at + 1] as usize;
                    asked.participants[own].contains(&adversary.participant)
                };
                if !(0..asked.len()).all(has_part) {
                    self.tell(Lie::AnswersForOthers);
                }
                vec![(assembler(forged.source), encoded(&forged))]
            }
            1 if !adversary.answered.is_empty() => {
                self.tell(Lie::AnswersAgain);
                let (at, earlier) = &adversary.answered[self.rng.index(adversary.answered.len())];
                let again = encoded(honest);
                vec![(assembler(honest.source), again.clone()), (*at, encoded(earlier)), (*at, again)]
            }
            2 => {
                self.tell(Lie::AnswersTwice);
                let mut second = honest.clone();
                let at = self.rng.index(second.verdicts.len());
                second.verdicts[at] = change::verdict(&mut self.rng, second.verdicts[at]);
                signer.sign(&mut second, key);
                let mut both = vec![encoded(honest), encoded(&second)];
                self.rng.shuffle(&mut both);
                both.into_iter().map(|payload| (assembler(honest.source), payload)).collect()
            }
            _ => self.lie(world, adversary.participant, honest),
        }
    }

    /// What is written in place of an honest answer.
    fn lie(
        &mut self,
        world: &World,
        participant: ParticipantId,
        honest: &ApprovalBatch,
    ) -> Vec<(usize, Bytes)> {
        let assemblers = u64::from(world.setup.layout.assemblers);
        let assembler = |source: Source| usize::try_from(source.number % assemblers).expect("few");
        let mut place = assembler(honest.source);
        let mut forged = honest.clone();
        let (lie, signed) = match self.rng.below(11) {
            0 => {
                forged.source.number += 1_000;
                place = assembler(forged.source);
                (Lie::AnswersUnknownBatch, true)
            }
            1 => {
                // It will be there soon; to assemblers, and to itself.
                forged.source.number += self.rng.between(1, 4);
                forged.source_len = u32::try_from(self.rng.between(1, 3)).expect("small");
                forged.indices = (0..forged.source_len).collect();
                forged.ids = forged.indices.iter().map(|_| change::hash(&mut self.rng)).collect();
                forged.verdicts = vec![if self.rng.chance(1, 2) { 0 } else { 1 }; forged.indices.len()];
                place = assembler(forged.source);
                (Lie::AnswersFutureBatch, true)
            }
            2 => {
                forged.source_len += 1;
                (Lie::AnswersWrongLength, true)
            }
            3 => {
                let at = self.rng.index(forged.verdicts.len());
                forged.verdicts[at] = change::verdict(&mut self.rng, forged.verdicts[at]);
                (Lie::AnswersOtherVerdict, true)
            }
            4 | 5 => {
                change::answers(&mut self.rng, &mut forged);
                (Lie::AnswersOtherField, true)
            }
            6 => {
                forged.participant.0 = if participant.0 == 1 { 2 } else { 1 };
                (Lie::AnswersInAnothersName, true)
            }
            7 => {
                let other = &keys()[(participant.index() + 1) % keys().len()];
                ApprovalSigner::new(world.setup.network.id).sign(&mut forged, other);
                if self.rng.chance(1, 2) {
                    forged.signature = change::signature(&mut self.rng);
                }
                (Lie::AnswersWrongSignature, false)
            }
            8 => {
                self.tell(Lie::AnswersUnreadable);
                return vec![(place, unreadable(&mut self.rng, &encoded(honest)))];
            }
            9 if assemblers > 1 => {
                place = (place + 1) % usize::from(world.setup.layout.assemblers);
                (Lie::AnswersElsewhere, true)
            }
            _ => {
                self.tell(Lie::AnswersWithheld);
                return Vec::new();
            }
        };
        self.tell(lie);
        if signed {
            ApprovalSigner::new(world.setup.network.id).sign(&mut forged, key_of(participant));
        }
        vec![(place, encoded(&forged))]
    }

    /// Cosigns the heads that it has not cosigned yet, or others.
    fn cosign(&mut self, world: &World, adversary: &Adversary) {
        let partition: Partition = shared(&world.setup.layout, "sequence", 0);
        let mut heads = Vec::new();
        for record in self.fresh(world, Purpose::Serve, &partition) {
            let batch = SequenceBatch::decode(&record.payload).expect("the sequencer wrote it");
            let head = batch.tree_head();
            let checkpoint = Checkpoint::of(&head.head, &world.setup.network.id.0);
            let cosigned = Cosignature::sign(&checkpoint, world.now.0 / 1_000, key_of(adversary.participant));
            let cosigned = cosigned.expect("the time is in range");
            heads.push(CosignedHead {
                size: head.head.size,
                timestamp_ms: head.head.timestamp_ms,
                time_s: cosigned.time_s,
                root: head.head.root,
                operator: head.signature,
                cosignature: cosigned.signature,
            });
        }
        if heads.is_empty() {
            return;
        }
        let honest = CosignatureBatch { participant: adversary.participant, heads };
        let payload = if world.healed || self.rng.chance(1, 2) {
            encoded(&honest)
        } else {
            self.cosign_falsely(world, honest)
        };
        drop(adversary.cosignatures.append(TopicId(0), &[&payload]));
        drop(adversary.cosignatures.sync());
    }

    fn cosign_falsely(&mut self, world: &World, mut batch: CosignatureBatch) -> Bytes {
        let key = key_of(batch.participant);
        let last = batch.heads.len() - 1;
        let head = &mut batch.heads[last];
        let lie = match self.rng.below(6) {
            0 => {
                head.size += self.rng.between(1, 1_000);
                self.rng.fill(&mut head.root);
                Lie::CosignsUnseenHead
            }
            1 => {
                self.rng.fill(&mut head.root);
                Lie::CosignsOtherRoot
            }
            2 => {
                head.size += 1;
                Lie::CosignsOtherSize
            }
            3 => {
                batch.participant.0 ^= 1;
                Lie::CosignsInAnothersName
            }
            4 => Lie::CosignsWrongly,
            _ => {
                self.tell(Lie::CosignsUnreadable);
                return unreadable(&mut self.rng, &encoded(&batch));
            }
        };
        self.tell(lie);
        let head = &mut batch.heads[last];
        let checkpoint = Checkpoint::of(&head.head().head, &world.setup.network.id.0);
        let cosigned = Cosignature::sign(&checkpoint, head.time_s, key).expect("the time is in range");
        head.cosignature = cosigned.signature;
        if lie == Lie::CosignsWrongly {
            head.cosignature = change::signature(&mut self.rng);
        }
        encoded(&batch)
    }
}

/// What an institution answered first, and about which transaction, as it lies in its partitions: naive, and unverified.
pub(super) fn first_answers(
    world: &World,
    participant: ParticipantId,
) -> BTreeMap<(Source, u32), (u16, TransactionId)> {
    let mut answers = BTreeMap::new();
    for assembler in 0..world.setup.layout.assemblers {
        let partition = own(&world.setup.layout, "approvals", participant, assembler);
        for record in world.cluster.peek(&partition, Offset(0)) {
            let Ok(batch) = ApprovalBatch::decode(&record.payload) else { continue };
            for ((index, id), verdict) in batch.indices.iter().zip(&batch.ids).zip(&batch.verdicts) {
                answers.entry((batch.source, *index)).or_insert((*verdict, *id));
            }
        }
    }
    answers
}
