//! Which topics a network has, and which shard reads and writes which of their partitions.
//!
//! | topic | partition | written by | read by |
//! | --- | --- | --- | --- |
//! | `transactions` | gateway × schedulers + scheduler | the gateway | the scheduler |
//! | `intake` | scheduler × gateways + gateway | the scheduler | the gateway |
//! | `accepted` | scheduler | the scheduler | itself, audit |
//! | `participations` | scheduler × assemblers + assembler | the scheduler | the assembler |
//! | `proposals.<BIC>` | scheduler | the scheduler | the participant's approver and updater |
//! | `approvals.<BIC>` | assembler | the participant's approver | the assembler, the participant's updater |
//! | `consents.<BIC>` | assembler | the assembler | the participant's approver and updater |
//! | `withdrawals` | gateway × assemblers + assembler | the gateway | the assembler |
//! | `decisions` | assembler | the assembler | the sequencer |
//! | `sequence` | one | the sequencer | approvers, updaters, gateways, audit |
//! | `annex` | gateway | the gateway | gateways |
//! | `cosignatures.<BIC>` | one | the participant's updater | itself, gateways |
//! | `snapshots.<BIC>` | one | the participant's updater | itself, the approver |
//! | `scheduler`, `assembler`, `sequencer`, `approver.<BIC>` | shard | the shard | itself: how far it has come |
//! | `gateway` | gateway | nobody: shares the gateways out | |
//! | `dead-letters`, `dead-letters.<BIC>` | see [`Layout::dead_letters`] | the shard | people |
//!
//! Every partition has one writer at a time. Accepted transactions and the sequence are the ledger: they are never
//! deleted. Everything else follows from them, but for the annex, which has what messages said besides, and stays as well.

use tally_ledger::ParticipantId;
use tally_log::TopicId;
use tally_log::cluster::{Binding, Partition};

/// What a shard does.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Role {
    /// Takes transactions in, and tells outcomes.
    Gateway,
    /// Accepts them and proposes them.
    Scheduler,
    /// Answers for one participant.
    Approver,
    /// Joins answers and decides.
    Assembler,
    /// Orders decisions.
    Sequencer,
    /// Keeps one participant's balances.
    Updater,
}

impl Role {
    /// All, in the order in which a transaction meets them.
    pub const ALL: [Self; 6] =
        [Self::Gateway, Self::Scheduler, Self::Approver, Self::Assembler, Self::Sequencer, Self::Updater];

    /// Its name on the command line and in topics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Gateway => "gateway",
            Self::Scheduler => "scheduler",
            Self::Approver => "approver",
            Self::Assembler => "assembler",
            Self::Sequencer => "sequencer",
            Self::Updater => "updater",
        }
    }
}

/// How a network's stages are split, for the network's life: how many there are of each decides which partition
/// something is in.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Layout {
    /// Before every name: networks can share a cluster.
    pub prefix: String,
    /// The participants' BICs, in the network's order.
    pub participants: Vec<String>,
    /// How many schedulers share the transactions.
    pub schedulers: u16,
    /// How many assemblers share the accepted batches.
    pub assemblers: u16,
    /// How many gateways there may be at once.
    pub gateways: u16,
}

/// A topic as it has to be.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TopicPlan {
    /// Its name.
    pub name: String,
    /// How many partitions it has.
    pub partitions: u16,
    /// Whether its records may go after a time longer than any stage is ever stopped. The ledger stays, and so does what
    /// shards record of themselves.
    pub expires: bool,
    /// Whether gateways hand submissions in there, which are smaller than what follows from them.
    pub submissions: bool,
    /// The participant to whom alone it belongs, if it does.
    pub of: Option<ParticipantId>,
}

/// What an institution needs of the cluster.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Access {
    /// Topics that it reads.
    pub reads: Vec<String>,
    /// Topics that it writes, and reads to know where it stopped.
    pub writes: Vec<String>,
    /// Topics of which it lets go of old records.
    pub releases: Vec<String>,
    /// Names under which it writes.
    pub writers: Vec<String>,
    /// Groups that it is in.
    pub groups: Vec<String>,
}

impl Layout {
    fn name(&self, topic: &str) -> String {
        format!("{}.{topic}", self.prefix)
    }

    fn of(&self, topic: &str, participant: ParticipantId) -> String {
        format!("{}.{topic}.{}", self.prefix, self.participants[participant.index()])
    }

    /// Every participant.
    pub fn everybody(&self) -> impl Iterator<Item = ParticipantId> + use<> {
        (0u16..).map(ParticipantId).take(self.participants.len())
    }

    /// Every topic.
    pub fn topics(&self) -> Vec<TopicPlan> {
        let shared = |name: &str, partitions: u16, expires: bool| TopicPlan {
            name: self.name(name),
            partitions,
            expires,
            submissions: name == "transactions",
            of: None,
        };
        let mut topics = vec![
            shared("transactions", self.gateways * self.schedulers, true),
            shared("intake", self.gateways * self.schedulers, true),
            shared("accepted", self.schedulers, false),
            shared("participations", self.schedulers * self.assemblers, true),
            shared("withdrawals", self.gateways * self.assemblers, true),
            shared("annex", self.gateways, false),
            shared("decisions", self.assemblers, true),
            shared("sequence", 1, false),
            shared("scheduler", self.schedulers, false),
            shared("assembler", self.assemblers, false),
            shared("sequencer", 1, false),
            shared("gateway", self.gateways, false),
            shared("dead-letters", self.schedulers + self.assemblers + 1, false),
        ];
        for participant in self.everybody() {
            let own = |name: &str, partitions: u16| TopicPlan {
                name: self.of(name, participant),
                partitions,
                expires: matches!(name, "proposals" | "approvals" | "consents"),
                submissions: false,
                of: Some(participant),
            };
            topics.extend([
                own("proposals", self.schedulers),
                own("approvals", self.assemblers),
                own("consents", self.assemblers),
                own("approver", 1),
                own("cosignatures", 1),
                own("snapshots", 1),
                own("dead-letters", 2),
            ]);
        }
        topics
    }

    /// The participant to whom alone a topic belongs, if it does.
    pub fn owner(&self, topic: &str) -> Option<ParticipantId> {
        self.topics().into_iter().find(|plan| plan.name == topic)?.of
    }

    /// The topics whose partitions are shared out among the processes of a stage: each partition is a shard.
    /// `participants` are those for whom the process works.
    pub fn shards_of(&self, role: Role, participants: &[ParticipantId]) -> Vec<String> {
        let each = |topic: &str| participants.iter().map(|p| self.of(topic, *p)).collect();
        match role {
            Role::Approver => each("approver"),
            Role::Updater => each("snapshots"),
            _ => vec![self.name(role.name())],
        }
    }

    /// The group in which the processes of a stage that work for those `participants` share the shards: one institution's own
    /// processes are among themselves.
    pub fn group(&self, role: Role, participants: &[ParticipantId]) -> String {
        match (role, participants) {
            (Role::Approver | Role::Updater, [own]) => self.of(role.name(), *own),
            _ => self.name(role.name()),
        }
    }

    /// What an institution that runs its own approver and updater must have access to, and nothing else: topics that it
    /// reads, that it writes and lets go of, and names under which it writes and is in groups.
    pub fn access(&self, participant: ParticipantId) -> Access {
        let of = |topic: &str| self.of(topic, participant);
        Access {
            reads: vec![of("proposals"), of("consents"), self.name("sequence")],
            writes: vec![
                of("approvals"),
                of("approver"),
                of("cosignatures"),
                of("snapshots"),
                of("dead-letters"),
            ],
            releases: vec![of("approver"), of("snapshots")],
            writers: vec![
                self.writer(Role::Approver, participant.0),
                self.writer(Role::Updater, participant.0),
            ],
            groups: vec![
                self.group(Role::Approver, &[participant]),
                self.group(Role::Updater, &[participant]),
            ],
        }
    }

    /// The shard that a partition of [`Self::shards_of`] stands for: its number, for approvers and updaters the participant's.
    pub fn shard(&self, role: Role, partition: &Partition) -> Option<u16> {
        match role {
            Role::Approver | Role::Updater => self
                .everybody()
                .find(|p| self.shards_of(role, &[*p]) == [partition.topic.clone()])
                .map(|participant| participant.0),
            _ => Some(partition.number),
        }
    }

    /// The name under which a shard writes: whoever opens it later fences whoever did before.
    pub fn writer(&self, role: Role, shard: u16) -> String {
        match role {
            Role::Approver | Role::Updater => self.of(role.name(), ParticipantId(shard)),
            _ => format!("{}.{shard}", self.name(role.name())),
        }
    }

    pub(super) fn transactions(&self, gateway: u16, scheduler: u16) -> Partition {
        Partition::new(self.name("transactions"), gateway * self.schedulers + scheduler)
    }
    pub(super) fn intake(&self, scheduler: u16, gateway: u16) -> Partition {
        Partition::new(self.name("intake"), scheduler * self.gateways + gateway)
    }
    pub(super) fn accepted(&self, scheduler: u16) -> Partition {
        Partition::new(self.name("accepted"), scheduler)
    }
    pub(super) fn participations(&self, scheduler: u16, assembler: u16) -> Partition {
        Partition::new(self.name("participations"), scheduler * self.assemblers + assembler)
    }
    pub(super) fn proposals(&self, participant: ParticipantId, scheduler: u16) -> Partition {
        Partition::new(self.of("proposals", participant), scheduler)
    }
    pub(super) fn approvals(&self, participant: ParticipantId, assembler: u16) -> Partition {
        Partition::new(self.of("approvals", participant), assembler)
    }
    pub(super) fn consents(&self, participant: ParticipantId, assembler: u16) -> Partition {
        Partition::new(self.of("consents", participant), assembler)
    }
    pub(super) fn withdrawals(&self, gateway: u16, assembler: u16) -> Partition {
        Partition::new(self.name("withdrawals"), gateway * self.assemblers + assembler)
    }
    pub(super) fn annex(&self, gateway: u16) -> Partition {
        Partition::new(self.name("annex"), gateway)
    }
    pub(super) fn decisions(&self, assembler: u16) -> Partition {
        Partition::new(self.name("decisions"), assembler)
    }
    pub(super) fn sequence(&self) -> Partition {
        Partition::new(self.name("sequence"), 0)
    }
    pub(super) fn cosignatures(&self, participant: ParticipantId) -> Partition {
        Partition::new(self.of("cosignatures", participant), 0)
    }
    pub(super) fn snapshots(&self, participant: ParticipantId) -> Partition {
        Partition::new(self.of("snapshots", participant), 0)
    }
    /// Where a shard records how far it has come.
    pub(super) fn state(&self, role: Role, shard: u16) -> Partition {
        match role {
            Role::Approver | Role::Updater => Partition::new(self.of(role.name(), ParticipantId(shard)), 0),
            _ => Partition::new(self.name(role.name()), shard),
        }
    }

    /// Where a shard sets aside what it cannot read: schedulers first, then assemblers, the sequencer. What a participant's
    /// approver, then its updater, set aside was meant for that participant, and is no other's to read.
    pub fn dead_letters(&self, role: Role, shard: u16) -> Partition {
        let shared = |number| Partition::new(self.name("dead-letters"), number);
        let own = |number| Partition::new(self.of("dead-letters", ParticipantId(shard)), number);
        match role {
            Role::Scheduler | Role::Gateway => shared(shard),
            Role::Assembler => shared(self.schedulers + shard),
            Role::Sequencer => shared(self.schedulers + self.assemblers),
            Role::Approver => own(0),
            Role::Updater => own(1),
        }
    }
}

/// The partitions of one shard, as they are named one after the other.
#[derive(Default)]
pub(super) struct Bindings(pub(super) Vec<Binding>);

impl Bindings {
    fn bind(&mut self, partition: Partition, writes: bool) -> TopicId {
        let id = TopicId(u16::try_from(self.0.len()).expect("a shard has few partitions"));
        self.0.push(Binding { id, partition, writes });
        id
    }
    pub(super) fn reads(&mut self, partition: Partition) -> TopicId {
        self.bind(partition, false)
    }
    pub(super) fn writes(&mut self, partition: Partition) -> TopicId {
        self.bind(partition, true)
    }
    pub(super) fn partition(&self, id: TopicId) -> Partition {
        self.0[usize::from(id.0)].partition.clone()
    }
}
