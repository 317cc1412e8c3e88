//! The pure stages alone, joined by a post that is late, repeats itself and mixes letters up, with a
//! clock of its own for every stage: what a network of many machines is like.
//!
//! Batches of answers arrive in any order and more than once, or are forged; proposals and the sequence
//! arrive in order, but at each reader as late as the seed wants.

use crate::simulation::clients::Expected;
use crate::simulation::ledger::Ledger;
use crate::simulation::plan::{Plan, VALIDITY_MS, keys};
use crate::simulation::workload::Workload;
use crate::witness::Witness;
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::Arc;
use tally_crypto::Hash;
use tally_crypto::log::{Frontier, MerkleLog};
use tally_ledger::refusal::verdict_number;
use tally_ledger::{
    AccountNumber, AccountOrder, Amount, AssetId, Kind, Network, ParticipantId, Refusal, Timestamp,
    Transaction, TransactionBatch, TransactionId,
};
use tally_log::{Offset, Ticket};
use tally_settlement::audit::Audit;
use tally_settlement::engine::route;
use tally_settlement::journal::Entry;
use tally_settlement::message::{
    AcceptedBatch, ApprovalBatch, Intake, ParticipationBatch, ProposalBatch, SequenceBatch, Source,
    Withdrawal,
};
use tally_settlement::path;
use tally_settlement::replay::Partition;
use tally_settlement::stage::assembler::NotCounted;
use tally_settlement::stage::{Approver, Assembler, Scheduler, Sequencer, Updater};
use tally_sim::{Rng, Trace};

/// What a run came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Summary {
    /// Hash over everything that happened.
    pub trace: u64,
    /// Transactions that were accepted.
    pub accepted: u64,
    /// Of these, made.
    pub made: u64,
    /// Decided because an answer was missing.
    pub timed_out: u64,
    /// Refused because somebody asked for it in time.
    pub withdrawn: u64,
    /// Approved by somebody who knew already that it was refused: by a clock far behind, or withdrawn.
    pub approved_late: u64,
}

/// Why something is decided.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Why {
    Answers,
    Time,
    Withdrawal,
}

struct Office {
    approver: Approver,
    updater: Updater,
    /// Proposals that have not reached the approver.
    proposals: VecDeque<Arc<ProposalBatch>>,
    /// How much of the sequence the approver has read, and the updater.
    read: usize,
    applied: usize,
    skew_ms: i64,
}

struct Post {
    rng: Rng,
    now: Timestamp,
    network: Arc<Network>,
    work: Workload,
    schedulers: Vec<Scheduler>,
    offices: Vec<Office>,
    assembler: Assembler,
    sequencer: Sequencer,
    /// Who is asked, on its way to the assembler.
    asked: VecDeque<Arc<ParticipationBatch>>,
    /// Answers on their way to the assembler.
    letters: Vec<Arc<ApprovalBatch>>,
    sequence: Vec<SequenceBatch>,
    /// Every batch as it was accepted, and how much of the sequence there was then.
    batches: Vec<(usize, Source, Arc<AcceptedBatch>)>,
    /// Every accepted transaction.
    accepted: HashMap<(Source, u32), Transaction>,
    /// The same by name, in order.
    places: Vec<Withdrawal>,
    /// Whom somebody asked to be withdrawn.
    withdrawn: HashSet<Withdrawal>,
    /// The answers that were given, by transaction.
    answers: HashMap<TransactionId, BTreeMap<u16, u16>>,
    orders: Vec<AccountOrder>,
    /// How much of the sequence clients have heard of.
    heard: usize,
    approved_late: u64,
    trace: Trace,
}

const START: Timestamp = Timestamp(1_750_000_000_000);

/// Runs a seed.
///
/// # Panics
/// When anything is not as it should be: this is the purpose.
#[must_use]
pub fn run(seed: u64) -> Summary {
    let mut post = Post::new(seed);
    let witness = Witness::of(seed);
    for step in 0..post.rng.between(20, 200) {
        witness.sees(step);
        post.act();
    }
    post.rest();
    post.summary()
}

impl Post {
    fn new(seed: u64) -> Self {
        let mut rng = Rng::new(seed ^ 0x706f_7374);
        let plan = Plan::new(&mut rng.fork());
        let network = Arc::new(plan.network.clone());
        let scheduler = |instance| Scheduler::new(Arc::clone(&network), instance, 0, 1 << 16, [seed, 3]);
        let office = |participant: ParticipantId, skew_ms| {
            let Partition { accounts, aliases, .. } = Partition::new(&network, participant);
            let key = keys()[participant.index()].clone();
            let names = std::iter::empty();
            Office {
                approver: Approver::new(Arc::clone(&network), key, accounts.clone(), names),
                updater: Updater::new(accounts, aliases, 0),
                proposals: VecDeque::new(),
                read: 0,
                applied: 0,
                skew_ms,
            }
        };
        let participants = (0u16..).map(ParticipantId).take(network.participants.len());
        let offices = participants.map(|participant| {
            let most = if rng.chance(1, 4) { 20_000 } else { 200 };
            office(
                participant,
                i64::try_from(rng.below(most)).expect("small") - i64::try_from(most / 2).expect("small"),
            )
        });
        Self {
            now: START,
            schedulers: (0..plan.schedulers as u64).map(scheduler).collect(),
            offices: offices.collect(),
            assembler: Assembler::new(Arc::clone(&network), []),
            sequencer: Sequencer::new(network.id, keys()[0].clone(), 0, Frontier::new(), Timestamp(0)),
            asked: VecDeque::new(),
            letters: Vec::new(),
            sequence: Vec::new(),
            batches: Vec::new(),
            accepted: HashMap::new(),
            places: Vec::new(),
            withdrawn: HashSet::new(),
            answers: HashMap::new(),
            orders: Vec::new(),
            heard: 0,
            approved_late: 0,
            trace: Trace::new(),
            work: Workload::new(rng.fork(), plan.network),
            network,
            rng,
        }
    }

    fn act(&mut self) {
        match self.rng.below(21) {
            0..=2 => self.send(),
            3..=8 => {
                let office = self.rng.index(self.offices.len());
                self.answer(office);
            }
            9..=12 => self.deliver(),
            13..=14 => {
                let office = self.rng.index(self.offices.len());
                self.inform(office);
            }
            15 => {
                let office = self.rng.index(self.offices.len());
                self.update(office);
            }
            16 => {
                self.forge();
                self.ask();
            }
            17 => self.expire(),
            18 => {
                let office = self.rng.index(self.offices.len());
                self.come_late(office);
            }
            19 => self.withdraw(),
            _ => {
                let most = [20, 300, 3_000, VALIDITY_MS][self.rng.index(4)];
                self.now = self.now.plus_ms(self.rng.below(most));
            }
        }
    }

    fn send(&mut self) {
        self.hear();
        let now = self.now;
        let mut transactions = Vec::new();
        if self.work.opened.is_empty() {
            for bank in (1u16..).map(ParticipantId).take(self.network.participants.len() - 1) {
                let order = self.work.opening_at(bank, AssetId(0), AccountNumber(0));
                transactions.push(self.work.ordered(now, order));
                if self.network.assets[0].settled_at != bank {
                    let legs = path::issue_reserves(&self.network, bank, AssetId(0), Amount(5_000));
                    transactions.push(self.work.signed(now, Kind::Issue, legs));
                }
            }
        }
        for _ in 0..self.rng.between(1, 8) {
            if self.work.opened.is_empty() {
                break;
            }
            if self.rng.chance(1, 4) {
                let to = self.work.account();
                let legs = path::issue(to.id, to.asset, Amount(700));
                transactions.push(self.work.signed(now, Kind::Issue, legs));
                continue;
            }
            let offices = &self.offices;
            let next =
                |bank: ParticipantId| AccountNumber(offices[bank.index()].updater.accounts().customers());
            let (transaction, expected) = match self.rng.below(6) {
                0 => self.work.mischief(now, &next),
                _ => self.work.next(now, &next),
            };
            if expected == Expected::Order {
                transactions.push(transaction);
            }
        }
        for scheduler in 0..self.schedulers.len() {
            let mut batch = TransactionBatch::default();
            for transaction in &transactions {
                if route(&transaction.header.uetr, self.schedulers.len()) == scheduler {
                    assert!(batch.push(transaction), "it is in order");
                }
            }
            if !batch.is_empty() {
                self.schedule(scheduler, batch);
            }
        }
    }

    fn schedule(&mut self, scheduler: usize, batch: TransactionBatch) {
        let scheduled = self.schedulers[scheduler].step(self.now, batch.clone());
        assert_eq!(scheduled.results.len(), batch.len());
        let Some((source, accepted)) = scheduled.accepted else { return };
        let count = scheduled.results.iter().filter(|result| matches!(result, Intake::Accepted(_))).count();
        assert_eq!(count, accepted.batch.len());
        self.trace.record_number("accepted", count as u64);
        for index in 0..count {
            let transaction = accepted.batch.transaction(index).expect("it is there");
            let index = u32::try_from(index).expect("small");
            assert!(self.accepted.insert((source, index), transaction).is_none(), "batches have one name");
            self.places.push(Withdrawal { source, index });
        }
        self.batches.push((self.sequence.len(), source, Arc::new(accepted)));
        // Answers may come before the assembler has heard who is asked; it counts none before.
        self.asked.extend(scheduled.asked.participation.map(Arc::new));
        for proposals in scheduled.asked.proposals {
            let proposals = Arc::new(proposals);
            let office = &mut self.offices[proposals.participant.index()];
            office.updater.propose(Arc::clone(&proposals));
            office.proposals.push_back(proposals);
        }
    }

    /// An approver answers what lies before it.
    fn answer(&mut self, office: usize) {
        let now = Timestamp(self.now.0.saturating_add_signed(self.offices[office].skew_ms));
        let office = &mut self.offices[office];
        // As a process does whose answers several assemblers count: letters overtake each other, and orders are made
        // true in the order of the sequence.
        let has_orders = office.proposals.front().is_some_and(|proposals| !proposals.orders.is_empty());
        if has_orders && office.approver.orders_under_way() > 0 {
            return;
        }
        let Some(proposals) = office.proposals.pop_front() else { return };
        let asked = !proposals.is_empty();
        let Some(approval) = office.approver.propose(now, proposals) else {
            assert!(!asked, "an approver answers every batch once");
            return;
        };
        for (item, id) in approval.ids.iter().enumerate() {
            let answers = self.answers.entry(*id).or_default();
            let before = answers.insert(approval.participant.0, approval.verdicts[item]);
            assert!(before.is_none(), "a participant answers once");
            let decided = |batch: &SequenceBatch| {
                batch.source == approval.source
                    && batch.decisions().any(|(index, _)| index == approval.indices[item])
            };
            let knew = self.sequence[..office.read].iter().any(decided);
            self.approved_late += u64::from(knew && approval.verdicts[item] == 0);
        }
        self.trace.record_number("answered", approval.ids.len() as u64);
        let approval = Arc::new(approval);
        office.updater.answer(&approval);
        self.letters.push(approval);
    }

    /// A letter reaches the assembler: any of them, and perhaps not for the last time.
    fn deliver(&mut self) {
        if self.letters.is_empty() {
            return;
        }
        let chosen = self.rng.index(self.letters.len());
        let letter = if self.rng.chance(1, 5) {
            self.letters[chosen].clone()
        } else {
            self.letters.swap_remove(chosen)
        };
        match self.assembler.count(self.now, &letter) {
            Ok(decided) if decided.indices.is_empty() => {}
            Ok(decided) => self.sequence(&decided, Why::Answers),
            Err(NotCounted::UnknownBatch(..)) => {
                assert!(self.asked.iter().any(|asked| asked.source == letter.source), "it never hears of it");
                self.letters.push(letter);
                self.ask();
            }
            Err(other) => panic!("approvers answer what they are asked: {other}"),
        }
    }

    /// The assembler hears who is asked for the next batch.
    fn ask(&mut self) {
        let Some(asked) = self.asked.pop_front() else { return };
        let decided = self.assembler.ask(asked);
        if !decided.indices.is_empty() {
            self.sequence(&decided, Why::Withdrawal);
        }
    }

    /// Somebody does not want a transaction any more, most often one of the last; or names none.
    fn withdraw(&mut self) {
        let Some(last) = self.places.last() else { return };
        let mut withdrawal = *last;
        if self.rng.chance(3, 4) {
            let recent = self.places.len().min(12);
            withdrawal = self.places[self.places.len() - 1 - self.rng.index(recent)];
        } else if self.rng.chance(1, 2) {
            withdrawal = self.places[self.rng.index(self.places.len())];
        } else {
            withdrawal.index += 1;
        }
        self.trace.record_number("withdrawn", u64::from(withdrawal.index));
        self.withdrawn.insert(withdrawal);
        let decided = self.assembler.withdraw(self.now, &withdrawal);
        if !decided.indices.is_empty() {
            self.sequence(&decided, Why::Withdrawal);
        }
    }

    /// Somebody changes a letter on its way, or writes one in another's name.
    fn forge(&mut self) {
        if self.letters.is_empty() {
            return;
        }
        let mut letter = (*self.letters[self.rng.index(self.letters.len())]).clone();
        let item = self.rng.index(letter.ids.len());
        match self.rng.below(5) {
            0 => letter.verdicts[item] ^= 24,
            1 => letter.ids[item] = Hash::ZERO,
            2 => letter.participant.0 = (letter.participant.0 + 1) % (1 + keys_of(&self.network)),
            3 => letter.source.number += 1,
            _ => letter.source_len += 1,
        }
        let open = self.assembler.open();
        let counted = self.assembler.count(self.now, &Arc::new(letter.clone()));
        assert!(counted.is_err() || self.is_old(&letter), "a forged letter counts: {letter:?}");
        assert_eq!(self.assembler.open(), open, "a forged letter changes nothing");
    }

    /// Whether a letter is about a batch that is wholly decided: then nobody looks at it.
    fn is_old(&self, letter: &ApprovalBatch) -> bool {
        let decided = self.sequence.iter().filter(|batch| batch.source == letter.source);
        let decided: u32 = decided.map(|batch| batch.count).sum();
        let count = self.accepted.keys().filter(|(source, _)| *source == letter.source).count();
        decided as usize == count
    }

    fn expire(&mut self) {
        while !self.asked.is_empty() && self.rng.chance(3, 4) {
            self.ask();
        }
        for decided in self.assembler.expire(self.now) {
            self.sequence(&decided, Why::Time);
        }
    }

    /// An office reads that payments timed out before it reads the payments.
    fn come_late(&mut self, office: usize) {
        let Some(proposals) = self.offices[office].proposals.front() else { return };
        let Some(first) = proposals.headers.iter().map(|header| header.expiry).min() else { return };
        self.now = self.now.max(first.plus_ms(2_001 + self.rng.below(1_000)));
        while !self.letters.is_empty() {
            self.deliver();
        }
        self.expire();
        while self.offices[office].read < self.sequence.len() {
            self.inform(office);
        }
        self.answer(office);
    }

    fn sequence(&mut self, decided: &tally_settlement::message::DecisionBatch, why: Why) {
        for ((index, id), verdict) in decided.indices.iter().zip(&decided.ids).zip(&decided.verdicts) {
            let transaction = self.accepted.get(&(decided.source, *index)).expect("it was accepted");
            assert_eq!(*id, transaction.id(&self.network.id), "an approver's id is the transaction's");
            let none = BTreeMap::new();
            let answers = self.answers.get(id).unwrap_or(&none);
            let is_withdrawn = *verdict == verdict_number(Err(Refusal::Withdrawn));
            if why == Why::Time {
                assert!(answers.len() <= usize::from(transaction.header.participants));
                assert_eq!(*verdict, verdict_number(Err(Refusal::ApprovalTimeout)));
                assert!(transaction.header.expiry < self.now, "it had time left");
            } else if is_withdrawn {
                let withdrawal = Withdrawal { source: decided.source, index: *index };
                assert!(self.withdrawn.contains(&withdrawal), "nobody asked for that");
                assert!(transaction.header.participants > 1, "one answer decides it");
            } else {
                assert_eq!(why, Why::Answers, "a withdrawal does nothing else");
                // Refused for the first reason that anybody gave, whatever the order of the letters.
                assert_eq!(answers.len(), usize::from(transaction.header.participants), "all have answered");
                let first = answers.values().copied().filter(|answer| *answer != 0).min();
                assert_eq!(*verdict, first.unwrap_or(0), "the verdict follows from the answers");
            }
        }
        let batch = self.sequencer.step(self.now, decided);
        self.trace.record_number("sequenced", batch.first);
        self.sequence.push(batch);
    }

    /// An approver reads on in the sequence.
    fn inform(&mut self, office: usize) {
        let office = &mut self.offices[office];
        if let Some(batch) = self.sequence.get(office.read) {
            office.read += 1;
            office.approver.decide(batch).expect("an honest operator's sequence fits");
        }
    }

    fn update(&mut self, office: usize) {
        let office = &mut self.offices[office];
        if let Some(batch) = self.sequence.get(office.applied) {
            assert!(office.updater.is_ready(batch), "everybody concerned has answered what is made");
            office.applied += 1;
            office.updater.apply(batch).expect("an honest operator's sequence fits");
            if self.rng.chance(1, 8) {
                office.updater.apply(batch).expect("what was applied changes nothing");
            }
        }
    }

    /// Clients hear which accounts were opened once every updater knows.
    fn hear(&mut self) {
        let known = self.offices.iter().map(|office| office.applied).min().unwrap_or(0);
        for batch in &self.sequence[self.heard..known] {
            for (index, verdict) in batch.decisions() {
                let transaction = &self.accepted[&(batch.source, index)];
                self.orders.extend(transaction.order.clone().filter(|_| verdict == 0));
            }
        }
        self.heard = known;
        self.work.learn_from(self.orders.iter());
    }

    /// All letters arrive and all time passes; then everything is decided and nothing is reserved.
    fn rest(&mut self) {
        for office in 0..self.offices.len() {
            while !self.offices[office].proposals.is_empty() {
                self.answer(office);
                // Orders wait until those before them are decided.
                while self.offices[office].approver.orders_under_way() > 0 && !self.letters.is_empty() {
                    self.deliver();
                }
                while self.offices[office].read < self.sequence.len() {
                    self.inform(office);
                }
            }
        }
        while !self.letters.is_empty() {
            self.deliver();
        }
        while !self.asked.is_empty() {
            self.ask();
        }
        self.now = self.now.plus_ms(3 * VALIDITY_MS);
        self.expire();
        for office in 0..self.offices.len() {
            while self.offices[office].read < self.sequence.len() {
                self.inform(office);
            }
            while self.offices[office].applied < self.sequence.len() {
                self.update(office);
            }
        }
        self.check();
    }

    fn check(&mut self) {
        let mut ledger = Ledger::new(&self.network);
        let mut tree = MerkleLog::new();
        let mut decided = HashMap::new();
        let mut next = 0;
        for batch in &self.sequence {
            assert_eq!(batch.first, next, "the sequence has no gap");
            for (index, verdict) in batch.decisions() {
                let transaction = &self.accepted[&(batch.source, index)];
                assert!(decided.insert((batch.source, index), verdict).is_none(), "decided twice");
                if verdict == 0 {
                    let applied = ledger.apply(transaction, next, batch.timestamp);
                    applied.unwrap_or_else(|wrong| panic!("{next}: {wrong} by {transaction:?}"));
                }
                next += 1;
            }
            tree.append(&batch.leaf_data());
            assert_eq!((tree.len(), tree.root()), (batch.tree_size, batch.tree_root));
        }
        assert_eq!(decided.len(), self.accepted.len(), "everything accepted has one outcome");
        ledger.books_match().unwrap_or_else(|wrong| panic!("{wrong}"));
        for (id, held) in &ledger.accounts {
            let office = &self.offices[id.participant.index()];
            let account = office.updater.accounts().get(id.number).expect("it exists");
            assert_eq!(i128::from(account.balance), held.balance, "the balance of {id}");
        }
        for office in &self.offices {
            assert_eq!(office.approver.under_way(), 0);
            let available = office.approver.accounts().iter();
            assert!(available.eq(office.updater.accounts().iter()), "at rest nothing is reserved");
        }
        assert_eq!(self.assembler.open(), 0);
        self.is_audited();
    }

    /// That the audit finds nothing, for everybody and for each institution alone.
    fn is_audited(&self) {
        let mut batches = self.batches.iter().peekable();
        let mut order = Vec::new();
        for at in 0..=self.sequence.len() {
            while let Some((_, source, batch)) = batches.next_if(|(before, ..)| *before == at) {
                order.push(Err((*source, batch)));
            }
            order.extend(self.sequence.get(at).map(Ok));
        }
        let entries = || {
            (0..).map(Ticket).zip(&order).map(|(ticket, entry)| {
                let entry = match entry {
                    Err((source, batch)) => Entry::Accepted(*source, Arc::clone(batch)),
                    Ok(batch) => Entry::Sequenced(Offset(ticket.0), (*batch).clone()),
                };
                Ok((ticket, entry))
            })
        };
        let audit = Audit::new(&self.network);
        let report = audit.entries(entries()).unwrap_or_else(|found| panic!("the audit finds: {found}"));
        assert_eq!(report.accepted, self.accepted.len() as u64);
        for participant in (0u16..).map(ParticipantId).take(self.network.participants.len()) {
            let alone = audit.clone().institution(participant).entries(entries());
            alone.unwrap_or_else(|found| panic!("the audit of {participant:?} alone finds: {found}"));
        }
    }

    fn summary(&self) -> Summary {
        let decisions = || self.sequence.iter().flat_map(SequenceBatch::decisions);
        let count = |wanted: u16| decisions().filter(|(_, verdict)| *verdict == wanted).count() as u64;
        Summary {
            trace: self.trace.hash(),
            accepted: self.accepted.len() as u64,
            made: count(0),
            timed_out: count(Refusal::ApprovalTimeout.number()),
            withdrawn: count(Refusal::Withdrawn.number()),
            approved_late: self.approved_late,
        }
    }
}

fn keys_of(network: &Network) -> u16 {
    u16::try_from(network.participants.len()).expect("few")
}
