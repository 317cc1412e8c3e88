//! Members that lie with valid keys: an institution, the operator's stages, or a gateway runs altered code.
//!
//! In a run there is one liar. It sees what it has written before anybody else does, and may put another record in
//! its place, signed again with its real key; or it takes the turns of its stages itself, and writes what it likes.
//! The judge shares no code with the stages: see `judge` for lies of the operator, `truth` for all others.
//!
//! | module | what it answers |
//! | --- | --- |
//! | `change` | a message with any of its fields changed |
//! | `institution` | answers and cosignatures under the institution's own key |
//! | `operator` | what scheduler and assembler write |
//! | `sequencer` | sequences that the operator signs |
//! | `gateway` | what is handed in and withdrawn |
//! | `judge` | what an honest institution's books may be, whatever the operator does |
//! | `run` | a run with a liar, and what must be so in it |

mod change;
mod gateway;
mod institution;
mod judge;
mod operator;
mod run;
mod sequencer;

pub(super) use judge::Judge;
pub use run::{Liars, LiarsTotal, run_liars};

use super::world::{Key, World};
use crate::simulation::workload::Opened;
use bytes::Bytes;
use std::collections::{BTreeMap, HashMap};
use tally_ledger::{ParticipantId, Timestamp, Transaction};
use tally_log::cluster::Partition;
use tally_log::{Offset, Record};
use tally_settlement::process::{Layout, Role, ShardError};
use tally_settlement::runtime::shell::AnothersBatch;
use tally_settlement::runtime::{TopicError, feed::Unreadable};
use tally_settlement::stage::approver::DecideError;
use tally_settlement::stage::updater::UpdateError;
use tally_settlement::stage::witness::LogFault;
use tally_sim::Rng;

macro_rules! lies {
    ($($(#[doc = $doc:literal])+ $name:ident,)+) => {
        /// What a member did that it must not do.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub enum Lie { $($(#[doc = $doc])+ $name,)+ }

        impl Lie {
            /// Every kind.
            pub const ALL: &'static [Self] = &[$(Self::$name,)+];
        }
    };
}

lies! {
    /// An institution answers to a batch that there is not.
    AnswersUnknownBatch,
    /// It answers to a batch before there is one of that name.
    AnswersFutureBatch,
    /// It takes a batch for one of another length.
    AnswersWrongLength,
    /// It answers for transactions of others.
    AnswersForOthers,
    /// It refuses what it should approve, or the other way round.
    AnswersOtherVerdict,
    /// It says yes and no to the same.
    AnswersTwice,
    /// It says the same again, at once or much later.
    AnswersAgain,
    /// Any other field is changed and signed again.
    AnswersOtherField,
    /// It writes what nobody can read.
    AnswersUnreadable,
    /// It answers in another's name.
    AnswersInAnothersName,
    /// It signs with another key.
    AnswersWrongSignature,
    /// It answers to another assembler than the one that asks.
    AnswersElsewhere,
    /// It does not answer.
    AnswersWithheld,
    /// A witness cosigns a head that it never saw.
    CosignsUnseenHead,
    /// It cosigns another root.
    CosignsOtherRoot,
    /// It cosigns another size.
    CosignsOtherSize,
    /// It cosigns in another's name.
    CosignsInAnothersName,
    /// Its cosignature does not verify.
    CosignsWrongly,
    /// It writes what nobody can read.
    CosignsUnreadable,
    /// A scheduler proposes the debit of a customer who did not sign.
    ProposesForgedDebit,
    /// It proposes an issue that the issuer did not sign.
    ProposesForgedIssue,
    /// It proposes an account order that the institution did not sign.
    ProposesForgedOrder,
    /// It proposes what a customer signed with other legs.
    ProposesChangedLegs,
    /// It proposes what a customer signed with another field changed.
    ProposesChangedTransaction,
    /// It takes the signature off, or puts another's in its place.
    ProposesOtherSigner,
    /// It proposes what was signed once a second time.
    ProposesAgain,
    /// It proposes a credit without a debit.
    ProposesCreditFromNothing,
    /// It shows an institution legs of others, which balance what it is asked to do.
    ProposesOthersLegs,
    /// It proposes two debits of one account, each of which is covered.
    ProposesTwoDebits,
    /// It changes any field of what one institution is shown.
    ProposesOtherField,
    /// It proposes something else under the name of an earlier batch.
    ProposesUnderEarlierName,
    /// It puts what names another institution before the proposals of the next batch, under that batch's name.
    ProposesAheadForAnother,
    /// It proposes under the name of another scheduler's batch.
    ProposesUnderOthersName,
    /// It writes what nobody can read.
    ProposesUnreadable,
    /// It tells the assembler of other participants.
    AsksOthers,
    /// It tells the assembler other ids.
    AsksForOtherIds,
    /// It tells the assembler other expiries.
    AsksForOtherExpiries,
    /// It tells the assembler of a batch under another name.
    AsksForOtherBatch,
    /// An assembler decides otherwise than was answered.
    DecidesOtherwise,
    /// It decides a transaction twice.
    DecidesTwice,
    /// It decides what is not there, or not its own.
    DecidesOtherBatch,
    /// It does not decide.
    DecidesNothing,
    /// It decides before anybody answered.
    DecidesUnanswered,
    /// It shows an institution other consents than those that were given.
    ShowsOtherConsents,
    /// It writes what nobody can read.
    ShowsUnreadable,
    /// The sequencer gives another verdict than was decided.
    SequencesOtherwise,
    /// It sequences what was decided twice.
    SequencesTwice,
    /// It makes what was not decided.
    SequencesUndecided,
    /// It has decisions in another order.
    SequencesOutOfOrder,
    /// It leaves a gap.
    SequencesGap,
    /// It gives numbers that were given before.
    SequencesBack,
    /// It signs a second head of the same size.
    SequencesSecondHead,
    /// Its time goes back.
    SequencesTimeBack,
    /// It signs a head that does not follow from its records.
    SequencesWrongTree,
    /// It does not sign the head, or with another key.
    SequencesWrongSignature,
    /// It decides a batch that there is not.
    SequencesUnknownBatch,
    /// It writes what nobody can read.
    SequencesUnreadable,
    /// A gateway hands in what a customer signed with a field changed.
    HandsInChanged,
    /// It hands in a payment under another's reference.
    HandsInAnothersReference,
    /// It hands in the same transaction with other signatures.
    HandsInOtherSignatures,
    /// It hands a transaction to another scheduler than the one to which its reference falls.
    HandsInElsewhere,
    /// It writes what nobody can read.
    HandsInUnreadable,
    /// It withdraws what others handed in.
    WithdrawsOthers,
    /// It withdraws what is not there.
    WithdrawsUnknown,
}

/// Who lies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Member {
    /// An institution, with its approver and updater. Its stages run, and what they write is changed; or the liar
    /// writes it all.
    Institution(ParticipantId, bool),
    /// The operator: its schedulers, assemblers, sequencer, as they are named.
    Operator {
        /// Whether its schedulers lie.
        schedulers: bool,
        /// Whether its assemblers do.
        assemblers: bool,
        /// Whether its sequencer does.
        sequencer: bool,
    },
    /// The operator's gateways, which can refuse and not pay.
    Gateway,
}

impl Member {
    fn draw(rng: &mut Rng, participants: usize) -> Self {
        match rng.below(8) {
            0..=2 => {
                // The first is the settlement institution of most assets: nearly everything concerns it.
                let number = if rng.chance(1, 6) { 0 } else { 1 + rng.index(participants - 1) };
                Self::Institution(ParticipantId(u16::try_from(number).expect("few")), rng.chance(1, 3))
            }
            3..=6 => {
                let only = rng.below(4);
                Self::Operator {
                    schedulers: only == 0 || only == 3,
                    assemblers: only == 1 || (only == 3 && rng.chance(1, 2)),
                    sequencer: only == 2 || (only == 3 && rng.chance(1, 2)),
                }
            }
            _ => Self::Gateway,
        }
    }
}

/// Why a liar looks at a record.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Purpose {
    /// To put another in its place.
    Alter,
    /// To do what its stage has to do, or not.
    Serve,
}

/// A member that lies, and what it has tried.
pub(super) struct Liar {
    pub(super) member: Member,
    pub(super) told: BTreeMap<Lie, u64>,
    /// Accounts that were opened, as the liar knows them.
    pub(super) opened: Vec<Opened>,
    /// What customers signed, as the operator has seen it.
    signed: Vec<Transaction>,
    /// How many records of a partition it has looked at, for each of its purposes.
    looked: HashMap<(Purpose, Partition), u64>,
    rng: Rng,
    institution: Option<institution::Adversary>,
    sequencer: Option<sequencer::Adversary>,
}

impl Liar {
    fn new(member: Member, mut rng: Rng, world: &mut World) -> Self {
        let mut institution = None;
        let mut sequencer = None;
        match member {
            Member::Institution(participant, false) => {
                world.replace((Role::Approver, participant.0));
                world.replace((Role::Updater, participant.0));
                institution = Some(institution::Adversary::new(world, participant));
            }
            Member::Operator { sequencer: true, .. } => {
                world.replace((Role::Sequencer, 0));
                sequencer = Some(sequencer::Adversary::new(world, rng.chance(1, 2)));
            }
            _ => {}
        }
        Self {
            member,
            told: BTreeMap::new(),
            opened: Vec::new(),
            signed: Vec::new(),
            looked: HashMap::new(),
            rng,
            institution,
            sequencer,
        }
    }

    /// Whether a shard is the liar's own: it may stop, for whatever reason.
    pub(super) fn is_own(&self, (role, number): Key) -> bool {
        match self.member {
            Member::Institution(participant, _) => {
                matches!(role, Role::Approver | Role::Updater) && number == participant.0
            }
            Member::Operator { .. } => !matches!(role, Role::Approver | Role::Updater),
            Member::Gateway => false,
        }
    }

    /// Whether a shard of another may stop because of its lies: an institution stops when the operator lies to it.
    pub(super) fn may_stop(&self, (role, _): Key) -> bool {
        matches!(self.member, Member::Operator { .. }) && matches!(role, Role::Approver | Role::Updater)
    }

    /// The institution that lies.
    pub(super) fn participant(&self) -> Option<ParticipantId> {
        match self.member {
            Member::Institution(participant, _) => Some(participant),
            _ => None,
        }
    }

    fn tell(&mut self, lie: Lie) {
        *self.told.entry(lie).or_default() += 1;
    }

    /// The records of a partition at which it has not looked yet for that purpose.
    fn fresh(&mut self, world: &World, purpose: Purpose, partition: &Partition) -> Vec<Record> {
        let looked = self.looked.entry((purpose, partition.clone())).or_default();
        let records = world.cluster.peek(partition, Offset(*looked));
        if let Some(last) = records.last() {
            *looked = last.offset.0 + 1;
        }
        records
    }

    /// After a shard's turn, before anybody else reads what it wrote.
    pub(super) fn after(&mut self, world: &mut World, key: Key) {
        match self.member {
            Member::Institution(participant, true) => self.alter_answers(world, key, participant),
            Member::Institution(_, false) => {
                if self.rng.chance(1, 3) {
                    self.answer(world);
                }
            }
            Member::Operator { schedulers, assemblers, sequencer } => {
                if key.0 == Role::Scheduler {
                    self.see_accepted(world, key.1, schedulers);
                }
                if key.0 == Role::Assembler && assemblers {
                    self.alter_decisions(world, key.1);
                    self.alter_consents(world, key.1);
                }
                if sequencer && self.rng.chance(1, 4) {
                    self.sequence(world);
                }
            }
            Member::Gateway => {}
        }
    }
}

/// Partitions by their names, as `Layout` documents them.
fn shared(layout: &Layout, topic: &str, number: u16) -> Partition {
    Partition::new(format!("{}.{topic}", layout.prefix), number)
}

/// A partition that belongs to a participant.
fn own(layout: &Layout, topic: &str, participant: ParticipantId, number: u16) -> Partition {
    let bic = &layout.participants[participant.index()];
    Partition::new(format!("{}.{topic}.{bic}", layout.prefix), number)
}

fn encoded(message: &impl tally_settlement::message::Message) -> Bytes {
    let mut bytes = Vec::new();
    message.encode(&mut bytes);
    bytes.into()
}

/// Bytes that are no message, or the beginning of one.
fn unreadable(rng: &mut Rng, message: &[u8]) -> Bytes {
    let mut bytes = message.to_vec();
    match rng.below(4) {
        0 => bytes.clear(),
        1 => bytes.truncate(bytes.len() / 2),
        2 => bytes.push(0),
        _ => {
            bytes = vec![0; rng.index(60)];
            rng.fill(&mut bytes);
        }
    }
    bytes.into()
}

/// A time that is not the one given, near it or far away.
fn other_time(rng: &mut Rng, time: Timestamp) -> Timestamp {
    match rng.below(4) {
        0 => Timestamp(0),
        1 => Timestamp(u64::MAX),
        2 => Timestamp(time.0.saturating_sub(rng.between(1, 100_000))),
        _ => time.plus_ms(rng.between(1, 100_000)),
    }
}

/// Why a shard stopped, by the name of the reason, where it has a type that says so.
pub(super) fn reason(error: &ShardError) -> Option<&'static str> {
    if matches!(error, ShardError::History { .. }) {
        return Some("ShardError::History");
    }
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = cause {
        if let Some(error) = error.downcast_ref::<UpdateError>() {
            return Some(match error {
                UpdateError::NotApproved { .. } => "UpdateError::NotApproved",
                UpdateError::BelowFloor { .. } => "UpdateError::BelowFloor",
                UpdateError::UnknownAccount { .. } => "UpdateError::UnknownAccount",
                UpdateError::OrderOutOfPlace { .. } => "UpdateError::OrderOutOfPlace",
                UpdateError::DecidedTwice { .. } => "UpdateError::DecidedTwice",
                UpdateError::Gap { .. } => "UpdateError::Gap",
            });
        }
        if let Some(error) = error.downcast_ref::<DecideError>() {
            return Some(match error {
                DecideError::NotApproved { .. } => "DecideError::NotApproved",
                DecideError::Twice { .. } => "DecideError::Twice",
                DecideError::Order { .. } => "DecideError::Order",
                DecideError::Gap { .. } => "DecideError::Gap",
            });
        }
        if let Some(error) = error.downcast_ref::<LogFault>() {
            return Some(match error {
                LogFault::WrongTree { .. } => "LogFault::WrongTree",
                LogFault::WrongSignature { .. } => "LogFault::WrongSignature",
                LogFault::TimeWentBack { .. } => "LogFault::TimeWentBack",
                LogFault::Contradiction { .. } => "LogFault::Contradiction",
            });
        }
        if error.downcast_ref::<AnothersBatch>().is_some() {
            return Some("AnothersBatch");
        }
        if matches!(error.downcast_ref::<Unreadable>(), Some(Unreadable::Form { .. }))
            || matches!(
                error.downcast_ref::<TopicError>(),
                Some(TopicError::Unreadable(Unreadable::Form { .. }))
            )
        {
            return Some("Unreadable::Form");
        }
        cause = error.source();
    }
    None
}
