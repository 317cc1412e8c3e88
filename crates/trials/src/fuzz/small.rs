//! A small network that really ran: what it wrote is what gets damaged.

use crate::simulation::clients::{Clients, Expected};
use crate::simulation::life::Life;
use crate::simulation::plan::{Plan, keys};
use crate::simulation::workload::Workload;
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use tally_ledger::order::AccountAction;
use tally_ledger::{AccountId, Amount, AssetId, Kind, Network, ParticipantId, Timestamp, TransactionBatch};
use tally_log::{FileLog, Log, Ticket, Visibility};
use tally_settlement::accounts::AccountTable;
use tally_settlement::engine::EngineOptions;
use tally_settlement::journal::{self, Entry};
use tally_settlement::message::{AcceptedBatch, Message, ProposalBatch, Submission};
use tally_settlement::path;
use tally_settlement::replay::Partition;
use tally_settlement::stage::{Approver, Assembler, Scheduler};
use tally_sim::{Rng, SimDisk, Trace};

/// Balances of all accounts that exist.
pub type Balances = BTreeMap<AccountId, i64>;

/// What a small network wrote.
pub struct Small {
    /// Its configuration.
    pub network: Arc<Network>,
    /// The time at its end.
    pub now: Timestamp,
    /// The files of its journal.
    pub journal: Vec<(String, Vec<u8>)>,
    /// Its last snapshot, saved in the middle of the run.
    pub snapshot: Vec<u8>,
    /// Name of the snapshot's file.
    pub snapshot_name: String,
    /// The balances after every prefix of the sequence that ends with a record.
    pub prefixes: Vec<Balances>,
    pub(super) plan: Plan,
    pub(super) accounts: Vec<AccountTable>,
    pub(super) batches: Vec<Vec<u8>>,
    pub(super) orders: Vec<Vec<u8>>,
    pub(super) submissions: Vec<Vec<u8>>,
    pub(super) accepted: Vec<Vec<u8>>,
    pub(super) participations: Vec<Vec<u8>>,
    pub(super) proposals: Vec<Vec<u8>>,
    pub(super) approvals: Vec<Vec<u8>>,
    pub(super) consents: Vec<Vec<u8>>,
    pub(super) decisions: Vec<Vec<u8>>,
    pub(super) sequences: Vec<Vec<u8>>,
    /// The records of the journal: topic and payload.
    pub(super) records: Vec<(tally_log::TopicId, Vec<u8>)>,
}

/// The one that all targets share.
pub(super) fn small() -> &'static Small {
    static ONE: OnceLock<Small> = OnceLock::new();
    ONE.get_or_init(|| Small::new(4, 3, true))
}

pub(super) fn bytes(message: &impl Message) -> Vec<u8> {
    let mut bytes = Vec::new();
    message.encode(&mut bytes);
    bytes
}

/// The balances that a process shows.
pub(super) fn balances<'a>(tables: impl Iterator<Item = &'a AccountTable>) -> Balances {
    let mut all = Balances::new();
    for table in tables {
        for (number, account) in table.iter() {
            all.insert(AccountId { participant: table.participant(), number }, account.balance);
        }
    }
    all
}

impl Small {
    /// Runs a network through a few rounds of payments. At its end the journal is marked as durable, unless
    /// the process ends before that.
    ///
    /// # Panics
    /// When the network does not do as it should.
    #[must_use]
    pub fn new(seed: u64, rounds: u64, marked: bool) -> Self {
        let mut rng = Rng::new(seed);
        let plan = Plan::new(&mut rng.fork());
        let network = Arc::new(plan.network.clone());
        let directory = tempfile::tempdir_in(crate::simulation::temporary()).expect("a directory");
        let options = plan.options(directory.path().to_owned());
        let disk = SimDisk::new(seed);
        let now = Timestamp(1_750_000_000_000);
        let mut life = Life::begin(&options, &disk, now).ok().expect("the disk is whole");
        let mut clients = Clients::new(plan.network.id);
        let mut work = Workload::new(rng.fork(), plan.network.clone());
        let mut snapshot = None;
        for round in 0..rounds + 2 {
            let mut transactions = Vec::new();
            let life_ref = &life;
            let next = |bank| life_ref.desk.next_account(bank).expect("the bank is there");
            if round == 0 {
                for bank in (1u16..).take(network.participants.len() - 1).map(ParticipantId) {
                    for asset in (0u16..).take(network.assets.len()).map(AssetId) {
                        if network.assets[asset.index()].settled_at != bank {
                            let legs = path::issue_reserves(&network, bank, asset, Amount(5_000));
                            transactions.push(work.signed(now, Kind::Issue, legs));
                        }
                    }
                    let mut number = next(bank);
                    for asset in (0u16..).take(network.assets.len()).map(AssetId) {
                        let order = work.opening_at(bank, asset, number);
                        if let AccountAction::Open { count, .. } = order.action {
                            number.0 += count;
                        }
                        transactions.push(work.ordered(now, order));
                    }
                }
            } else if round == 1 {
                for opened in work.opened.clone() {
                    let legs = path::issue(opened.id, opened.asset, Amount(900));
                    transactions.push(work.signed(now, Kind::Issue, legs));
                }
            } else {
                for _ in 0..10 {
                    transactions.push(work.next(now, &next).0);
                }
            }
            let expected = transactions.into_iter().map(|transaction| (transaction, Expected::Order));
            clients.submit(round, &life.desk, expected.collect());
            life.drain(now);
            clients.listen(round, &life.desk, &mut Trace::new());
            work.learn(&clients);
            if round == rounds / 2 + 1 {
                snapshot = Some(life.desk.save().expect("a directory in memory takes it"));
            }
        }
        if marked {
            life.log.mark_durable().expect("the disk is whole");
        }
        drop(life);
        disk.kill();
        let snapshot = snapshot.expect("one was saved");
        let mut small = Self {
            now,
            journal: disk
                .list()
                .expect("the disk is whole")
                .into_iter()
                .map(|name| (name.clone(), disk.content(&name).expect("it was listed")))
                .collect(),
            snapshot: std::fs::read(&snapshot).expect("it was just written"),
            snapshot_name: snapshot.file_name().expect("it is a file").to_string_lossy().into_owned(),
            prefixes: Vec::new(),
            accounts: Vec::new(),
            batches: Vec::new(),
            orders: Vec::new(),
            submissions: Vec::new(),
            accepted: Vec::new(),
            participations: Vec::new(),
            proposals: Vec::new(),
            approvals: Vec::new(),
            consents: Vec::new(),
            decisions: Vec::new(),
            sequences: Vec::new(),
            records: Vec::new(),
            network,
            plan,
        };
        small.collect(&disk, &options);
        small
    }

    /// How it was run, in another directory.
    #[must_use]
    pub fn options(&self, directory: &std::path::Path) -> EngineOptions {
        self.plan.options(directory.to_owned())
    }

    /// Leads what the journal holds through the stages once more, to have what passes between them.
    fn collect(&mut self, disk: &SimDisk, options: &EngineOptions) {
        let (log, _) =
            FileLog::open_on(Arc::new(disk.clone()), options.journal.clone()).expect("the disk is whole");
        let mut replay = tally_settlement::replay::Replay::new(Arc::clone(&self.network));
        let mut schedulers: Vec<Scheduler> = (0..options.schedulers as u64)
            .map(|instance| Scheduler::new(Arc::clone(&self.network), instance, 0, 1 << 10, [1, 2]))
            .collect();
        let participants = (0u16..).map(ParticipantId).take(self.network.participants.len());
        let mut approvers: Vec<Approver> = participants
            .map(|participant| {
                let partition = Partition::new(&self.network, participant);
                let key = keys()[participant.index()].clone();
                Approver::new(Arc::clone(&self.network), key, partition.accounts, std::iter::empty())
            })
            .collect();
        let mut assembler = Assembler::new(Arc::clone(&self.network), []).with_consents();
        self.prefixes.push(balances(replay.partitions.iter().map(|partition| &partition.accounts)));
        for entry in journal::entries(&log, Ticket(0)) {
            match entry.expect("the journal is whole").1 {
                Entry::Accepted(source, accepted) => {
                    self.add_accepted(&accepted);
                    let scheduler = usize::try_from(source.scheduler).expect("few");
                    let batch = &accepted.batch;
                    let asked = schedulers[scheduler].propose_again(source, batch, |_| true);
                    if let Some(participation) = asked.participation {
                        self.participations.push(bytes(&participation));
                        assembler.ask(Arc::new(participation));
                    }
                    for proposals in asked.proposals {
                        self.proposals.push(bytes(&proposals));
                        let approver: &mut Approver = &mut approvers[proposals.participant.index()];
                        let answer =
                            approver.propose(accepted.accepted_at, Arc::<ProposalBatch>::new(proposals));
                        // Nothing is asked of those whom the batch does not concern.
                        let Some(answer) = answer else { continue };
                        self.approvals.push(bytes(&answer));
                        let answer = Arc::new(answer);
                        let decided = assembler.count(accepted.accepted_at, &answer).expect("it is signed");
                        self.decisions.push(bytes(&decided));
                        let shown = assembler.take_consents().into_iter();
                        self.consents.extend(shown.map(|(_, consents)| bytes(&consents)));
                    }
                    replay.accept(source, accepted);
                }
                Entry::Sequenced(_, batch) => {
                    self.sequences.push(bytes(&batch));
                    for approver in &mut approvers {
                        approver.decide(&batch).expect("it decides what was answered");
                    }
                    replay.sequence(&batch, |_, _, _, _, _| Ok(())).expect("the journal is whole");
                    self.prefixes.push(balances(replay.partitions.iter().map(|p| &p.accounts)));
                }
            }
        }
        self.accounts = replay.partitions.into_iter().map(|partition| partition.accounts).collect();
        for scanned in log.scan(Ticket(0)) {
            let scanned = scanned.expect("the journal is whole");
            self.records.push((scanned.topic, scanned.record.payload.to_vec()));
        }
        let mut last = Vec::new();
        let offset = tally_log::Offset(0);
        log.read(journal::SEQUENCE, offset, 1, Visibility::Durable, &mut last).expect("the journal is whole");
        assert!(!last.is_empty() && self.prefixes.len() > 4, "enough happened");
    }

    fn add_accepted(&mut self, accepted: &AcceptedBatch) {
        self.accepted.push(bytes(accepted));
        let batch: &TransactionBatch = &accepted.batch;
        self.submissions.push(bytes(&Submission { origin: 7, batch: batch.clone() }));
        let mut encoded = Vec::new();
        batch.encode(&mut encoded);
        self.batches.push(encoded);
        for order in &batch.orders {
            let mut encoded = Vec::new();
            order.encode(&mut encoded);
            self.orders.push(encoded);
        }
    }
}
