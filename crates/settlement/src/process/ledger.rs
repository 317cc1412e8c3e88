//! A participant's balances, recovered from its last snapshot and what came after.

use super::layout::{Bindings, Layout, Role};
use super::shard::{Opened, ShardError};
use super::snapshot;
use crate::message::ApprovalSigner;
use crate::runtime::executor::Stage;
use crate::runtime::feed::{Cursor, Feeds, UnreadableRecords};
use crate::runtime::shell::{Consents, OwnAnswers, UpdaterShell, approvals_stream, consents_stream};
use crate::runtime::topic::Reader;
use crate::runtime::under_way::UnderWay;
use crate::stage::{Agreements, LogWitness, Updater};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};
use tally_ledger::{Network, ParticipantId, Timestamp};
use tally_log::TopicId;

/// The partitions that a ledger is read from.
pub(super) struct LedgerTopics {
    pub(super) proposals: Vec<TopicId>,
    /// The participant's own answers, by assembler; none for a gateway, which does not act for the participant and must
    /// not depend on what the participant appends.
    pub(super) answers: Vec<TopicId>,
    /// What others agreed to, by assembler; none for a gateway, which takes the sequence's word.
    pub(super) consents: Vec<TopicId>,
    pub(super) sequence: TopicId,
    pub(super) snapshots: TopicId,
}

impl LedgerTopics {
    pub(super) fn bind(
        bindings: &mut Bindings,
        layout: &Layout,
        participant: ParticipantId,
        role: Role,
    ) -> Self {
        let proposals =
            (0..layout.schedulers).map(|s| bindings.reads(layout.proposals(participant, s))).collect();
        let mut bind = |partition, writer| {
            if role == writer { bindings.writes(partition) } else { bindings.reads(partition) }
        };
        let assemblers = if role == Role::Gateway { 0 } else { layout.assemblers };
        let answers = (0..assemblers)
            .map(|assembler| bind(layout.approvals(participant, assembler), Role::Approver))
            .collect();
        let snapshots = bind(layout.snapshots(participant), Role::Updater);
        let consents = (0..assemblers)
            .map(|assembler| bindings.reads(layout.consents(participant, assembler)))
            .collect();
        let sequence = bindings.reads(layout.sequence());
        Self { proposals, answers, consents, sequence, snapshots }
    }
}

/// How often a ledger that is opened looks for consents that are not there before it says so.
const LOOKS: u32 = 10;

/// An updater that goes on from its last snapshot.
pub(super) struct Ledger {
    pub(super) shell: UpdaterShell,
    pub(super) proposals: Vec<Cursor>,
    answers: Vec<Cursor>,
    consents: Vec<Cursor>,
    pub(super) sequence: Cursor,
    /// Where the last complete snapshot lies.
    pub(super) snapshot: Option<snapshot::Extent>,
}

impl Ledger {
    pub(super) fn recover(
        opened: &Opened,
        topics: &LedgerTopics,
        network: &Arc<Network>,
        participant: ParticipantId,
    ) -> Result<Self, ShardError> {
        let found = snapshot::load(opened, topics.snapshots, network, participant)?;
        let position = found.position;
        let mut updater = Updater::new(found.partition.accounts, found.partition.aliases, position.applied);
        updater.recover(position.progress);
        if topics.answers.is_empty() {
            updater = updater.without_answers();
        }
        let own = network.participants.get(participant.index());
        let own = own.map(|own| OwnAnswers { signer: ApprovalSigner::new(network.id), key: own.key });
        let sequence = Cursor::new(position.sequence);
        let from = |at: usize| position.proposals.get(at).copied().unwrap_or(0);
        let (asked, proposals) = opened.follow(&topics.proposals, from, UnreadableRecords::Stop);
        let from = |at: usize| position.answers.get(at).copied().unwrap_or(0);
        let (answered, answers) = opened.follow(&topics.answers, from, UnreadableRecords::PassOver);
        let from = |at: usize| position.consents.get(at).copied().unwrap_or(0);
        let (consents, shown) = consents_of(opened, &topics.consents, from, (network, participant));
        let of_sequence = [(topics.sequence, opened.partition(topics.sequence), sequence.clone())];
        let shell = UpdaterShell {
            bic: network.participants[participant.index()].bic.clone(),
            applied: Arc::new(AtomicU64::new(updater.applied())),
            state: Arc::new(Mutex::new(updater)),
            proposals: asked,
            answers: answered,
            sequence: Reader::shared(Feeds::new(
                Arc::clone(&opened.log),
                of_sequence,
                UnreadableRecords::Stop,
            )),
            own,
            consents,
            witness: Some(LogWitness::new(network.id, None, position.tree)),
            held: None,
            under_way: UnderWay::default(),
        };
        Ok(Self { shell, proposals, answers, consents: shown, sequence, snapshot: found.extent })
    }

    /// Goes on at least to the record `sequence` of the sequence and to those of each scheduler's `proposals`.
    pub(super) fn advance(
        &mut self,
        opened: &Opened,
        sequence: u64,
        proposals: &[u64],
    ) -> Result<(), ShardError> {
        let mut looked = 0;
        opened.until(|| {
            while self.sequence.next() < sequence || self.shell.held.is_some() {
                let held = self.shell.held.as_ref().map(|held| (held.source, self.shell.ends()));
                if self.shell.poll(Timestamp(0))? {
                    continue;
                }
                // What a decision rests on was there before it was sequenced.
                if let Some((source, ends)) = held
                    && ends.is_some_and(|ends| self.shell.has_reached(&ends))
                {
                    // A cluster makes what is committed together visible in one partition after the other.
                    looked += 1;
                    if self.shell.awaits_consents() && looked < LOOKS {
                        return Ok(false);
                    }
                    return Err(opened.history(format!(
                        "the sequence decides {source:?}, of which this institution was shown nothing, or makes what it \
                         did not answer, or to which others were not shown to agree"
                    )));
                }
                looked = 0;
                return Ok(false);
            }
            self.shell.drain()?;
            let there = |(cursor, wanted): (&Cursor, &u64)| cursor.next() >= *wanted;
            Ok(self.proposals.iter().zip(proposals).all(there))
        })
    }

    /// The witness that follows the log with it.
    pub(super) fn witness(&self) -> &LogWitness {
        self.shell.witness.as_ref().expect("a ledger over a cluster has one")
    }

    /// Where it stands.
    pub(super) fn position(&self) -> snapshot::Position {
        let state = self.shell.state.lock().expect("no step panics and goes on");
        // A decision that is held is not applied.
        let held = u64::from(self.shell.held.is_some());
        let under_way = &self.shell.under_way;
        let proposals = (0u16..).zip(&self.proposals);
        let answers = (0..).zip(&self.answers);
        let consents = (0..).zip(&self.consents);
        snapshot::Position {
            sequence: self.sequence.next() - held,
            applied: state.applied(),
            proposals: proposals.map(|(feed, cursor)| under_way.low(feed, cursor.next())).collect(),
            tree: self.witness().tree().clone(),
            answers: answers
                .map(|(assembler, cursor)| under_way.low(approvals_stream(assembler), cursor.next()))
                .collect(),
            consents: consents
                .map(|(assembler, cursor)| under_way.low(consents_stream(assembler), cursor.next()))
                .collect(),
            progress: state.progress(),
        }
    }
}

/// What others agreed to as it is shown to a participant, by assembler from those positions on; none where that is not read.
pub(super) fn consents_of(
    opened: &Opened,
    topics: &[TopicId],
    from: impl Fn(usize) -> u64,
    (network, participant): (&Arc<Network>, ParticipantId),
) -> (Option<Consents>, Vec<Cursor>) {
    let (reader, cursors) = opened.follow(topics, from, UnreadableRecords::Stop);
    let agreements = Agreements::new(Arc::clone(network), participant);
    ((!topics.is_empty()).then(|| Consents::new(agreements, reader)), cursors)
}
