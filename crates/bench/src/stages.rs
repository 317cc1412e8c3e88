//! Each stage alone: one instance on one thread, fed with batches that the stages before it made beforehand.
//!
//! What is measured is the stage's own step on batches in memory, with the making and freeing of its output; where its
//! output is a record of the journal (scheduler, sequencer), the record's encoding too. Nothing is written to disk and
//! nothing is sent: the whole network ([`crate::settlement`]) has all of that.

mod inputs;
mod stopwatch;

use inputs::{Inputs, Movements, NOW, REMEMBER, Rounds, SECRET};
use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;
use stopwatch::{Samples, Stopwatch, repeat};
use tally_ledger::{Timestamp, TransactionBatch};
use tally_settlement::aliases::Aliases;
use tally_settlement::message::{Message, SequenceBatch};
use tally_settlement::stage::{Approver, Assembler, Scheduler, Updater};

use crate::limits::Limit;
use crate::published::{self, Figure};
use crate::result::{Better, Record};
use crate::statistics::median;
use crate::work::Work;
use crate::workload::{Generator, Mix, Workload};

/// The experiment that stages are recorded under.
pub const EXPERIMENT: &str = "stages";

/// A stage, and for whom it works where that makes a difference.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// Makes payments.
    Generator,
    /// Checks them, remembers their references, proposes them.
    Scheduler,
    /// A bank's: approves and reserves, and learns the outcome.
    Approver,
    /// The central bank's.
    CentralApprover,
    /// Joins approvals and decides.
    Assembler,
    /// Orders decisions.
    Sequencer,
    /// A bank's: applies decisions to balances.
    Updater,
    /// The central bank's.
    CentralUpdater,
}

impl Stage {
    /// All, in the order in which a payment meets them.
    pub const ALL: [Self; 8] = [
        Self::Generator,
        Self::Scheduler,
        Self::Approver,
        Self::CentralApprover,
        Self::Assembler,
        Self::Sequencer,
        Self::Updater,
        Self::CentralUpdater,
    ];

    /// Its name in tables and results.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Generator => "generator",
            Self::Scheduler => "scheduler",
            Self::Approver => "approver",
            Self::CentralApprover => "approver, central bank",
            Self::Assembler => "assembler",
            Self::Sequencer => "sequencer",
            Self::Updater => "state updater",
            Self::CentralUpdater => "state updater, central bank",
        }
    }

    /// What has been published of one instance of it.
    #[must_use]
    pub fn published(self) -> Option<&'static Figure> {
        published::figure(match self {
            Self::Generator => "rln-generator-single",
            Self::Scheduler => "rln-scheduler-single",
            Self::Approver | Self::CentralApprover => "rln-approver-single",
            Self::Assembler => "rln-assembler-single",
            Self::Sequencer => "rln-sequencer-single",
            Self::Updater | Self::CentralUpdater => "rln-state-updater-single",
        })
    }

    /// How many times the published figure it is to reach, unsigned as that was.
    #[must_use]
    pub fn bar(self) -> f64 {
        match self {
            Self::Generator => 3.0,
            Self::Sequencer => 5.0,
            _ => 20.0,
        }
    }

    fn is_central(self) -> bool {
        matches!(self, Self::CentralApprover | Self::CentralUpdater)
    }

    /// What it needs at least for one payment of `legs` legs: two inside a bank, or four between two. Where payments are
    /// signed, an approver verifies what its institution's own debits rest on: it does in a process of its own.
    #[must_use]
    pub fn work(self, legs: u8, signed: bool) -> Work {
        let between = legs > 2;
        let legs = f64::from(legs);
        let concerned = if between { 3.0 } else { 1.0 };
        // The id is over the header and the hashes of the legs, 64 and 32 bytes; more than two participants have a block
        // of their own.
        let list = if between { 64.0 } else { 0.0 };
        let id = ((64.0 + list + 32.0 * legs) / 64.0_f64).ceil();
        let signature = if signed { 1.0 } else { 0.0 };
        // A Merkle tree has one inner node for each leaf.
        let tree = 2.0;
        // Header, seed, legs, signer.
        let transaction = 64.0 + 16.0 + 16.0 * legs + 96.0 * signature;
        // Position, id and verdict of an answer, or of a decision.
        let answer = 4.0 + 32.0 + 2.0;
        match self {
            Self::Generator => Work { bytes: transaction, ..Work::default() },
            Self::Scheduler => {
                // Position, header, count and participants; leg, salt and position of each leg shown; hashes of the others;
                // signers.
                let item = 4.0 + 64.0 + 1.0 + 2.0 * concerned;
                let shown = item + 2.0 * 33.0 + (legs - 2.0) * 32.0 + 96.0 * signature;
                // Id, expiry, count and participants.
                let participation = 32.0 + 8.0 + 1.0 + 2.0 * concerned;
                Work {
                    hashes: 2.0 * legs + id,
                    updates: 1.0,
                    bytes: transaction + concerned * shown + participation,
                    verified: signature,
                }
            }
            // It is shown two legs. Inside a bank both are customers' accounts: the debit is reserved when approved,
            // the credit is looked up then and arrives when decided. Between banks one is, half of the time either.
            Self::Approver => Work {
                hashes: 2.0 + id + tree,
                updates: if between { 1.5 } else { 3.0 },
                bytes: answer,
                verified: if between { signature / 2.0 } else { signature },
            },
            // The banks' settlement accounts are few and stay in the cache; a debit of one rests on no signature.
            Self::CentralApprover => {
                Work { hashes: 2.0 + id + tree, updates: 0.0, bytes: answer, verified: 0.0 }
            }
            Self::Assembler => Work { hashes: concerned * tree, updates: 0.0, bytes: answer, verified: 0.0 },
            Self::Sequencer => Work { hashes: tree, ..Work::default() },
            Self::Updater => {
                Work { updates: if between { 1.0 } else { 2.0 }, bytes: 32.0, ..Work::default() }
            }
            Self::CentralUpdater => Work { bytes: 32.0, ..Work::default() },
        }
    }
}

/// How often a payment of this mix passes a stage of the network.
#[must_use]
pub fn passes(stage: Stage, mix: Mix) -> f64 {
    let between = mix.legs() / 2.0 - 1.0;
    match stage {
        // Two banks, or one.
        Stage::Approver | Stage::Updater => 1.0 + between,
        Stage::CentralApprover | Stage::CentralUpdater => between,
        _ => 1.0,
    }
}

/// The processor time that a payment of two or four legs takes in all its stages alone, the generator left out, in
/// nanoseconds; `None` for a mix, or when a stage was not measured.
#[must_use]
pub fn alone(measured: &[Measured], mix: Mix, signed: bool) -> Option<f64> {
    let legs = match mix {
        Mix::Inside => 2,
        Mix::Between => 4,
        Mix::Mixed(_) => return None,
    };
    let mut sum = 0.0;
    for stage in Stage::ALL.into_iter().skip(1).filter(|stage| passes(*stage, mix) > 0.0) {
        let signed = signed && stage == Stage::Scheduler;
        let found = measured.iter().find(|m| (m.stage, m.legs, m.signed) == (stage, legs, signed))?;
        sum += passes(stage, mix) * found.nanoseconds();
    }
    Some(sum)
}

/// What the whole network needs at least for one payment, its generator included, where one process has all stages.
#[must_use]
pub fn network_work(mix: Mix, signed: bool) -> Work {
    let of = |legs: u8, mix: Mix| {
        let mut sum = Work::default();
        for stage in Stage::ALL.into_iter().filter(|stage| passes(*stage, mix) > 0.0) {
            // A signature is its payer's work, made beforehand with the payment.
            if !(signed && stage == Stage::Generator) {
                // What the scheduler of the same process verified no approver verifies again.
                sum += stage.work(legs, signed && stage == Stage::Scheduler) * passes(stage, mix);
            }
        }
        sum
    };
    let between = mix.legs() / 2.0 - 1.0;
    of(2, Mix::Inside) * (1.0 - between) + of(4, Mix::Between) * between
}

/// What to measure, and for how long.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// How often each stage is measured.
    pub repetitions: usize,
    /// How long at least each time.
    pub repetition: Duration,
    /// Payments of a batch.
    pub batch: usize,
    /// How many different batches a stage is fed with in turn.
    pub batches: usize,
    /// Customers' accounts at each bank.
    pub accounts: u32,
    /// Distinct payers of the signed payments; none: the scheduler is measured unsigned only.
    pub payers: u32,
    /// Makes the same payments again.
    pub seed: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            repetitions: 5,
            repetition: Duration::from_millis(500),
            batch: 4096,
            batches: 16,
            accounts: 1_000_000,
            payers: 20_000,
            seed: 1,
        }
    }
}

/// One stage, measured.
#[derive(Debug, Clone, PartialEq)]
pub struct Measured {
    /// Which.
    pub stage: Stage,
    /// Legs of each payment.
    pub legs: u8,
    /// Whether its signatures were verified.
    pub signed: bool,
    /// Transactions per second, once for each repetition.
    pub rates: Vec<f64>,
    /// Processor time of the thread for each transaction in nanoseconds, once for each repetition.
    pub cpu_ns: Vec<f64>,
}

impl Measured {
    fn new(stage: Stage, legs: u8, signed: bool, samples: Samples) -> Self {
        Self { stage, legs, signed, rates: samples.rates, cpu_ns: samples.cpu_ns }
    }

    /// The median rate.
    #[must_use]
    pub fn rate(&self) -> f64 {
        median(&self.rates).unwrap_or_default()
    }

    /// The median of the processor time for each transaction, in nanoseconds.
    #[must_use]
    pub fn nanoseconds(&self) -> f64 {
        median(&self.cpu_ns).unwrap_or_default()
    }

    /// What it needs at least.
    #[must_use]
    pub fn work(&self) -> Work {
        self.stage.work(self.legs, self.signed)
    }

    /// How many times the published figure it reaches; `None` for signed payments, which were not published.
    #[must_use]
    pub fn times_published(&self) -> Option<f64> {
        self.stage.published().filter(|_| !self.signed).map(|figure| self.rate() / figure.value)
    }

    /// Its share of what `limits` allow, both in processor time, so that what others do on the machine counts for
    /// little; `None` when a limit is missing.
    #[must_use]
    pub fn share(&self, limits: &[Limit]) -> Option<f64> {
        self.work().ceiling(limits)?.share(1e9 / self.nanoseconds())
    }

    /// The record of it, with its share of what `limits` allow.
    #[must_use]
    pub fn record(&self, options: &Options, limits: &[Limit]) -> Record {
        let mut record = Record::new(EXPERIMENT, self.stage.name())
            .setting("legs", self.legs)
            .setting("signed", self.signed)
            .setting("batch", options.batch)
            .setting("accounts_per_bank", options.accounts)
            .setting("payers", if self.signed { options.payers } else { 0 })
            .setting("durable", false)
            .setting("repetition_s", options.repetition.as_secs_f64())
            .sampled("rate_tps", self.rates.clone(), "tx/s", Better::Higher)
            .sampled("cpu_ns_per_transaction", self.cpu_ns.clone(), "ns", Better::Lower);
        if let Some(ceiling) = self.work().ceiling(limits) {
            record = record.against(&ceiling, 1e9 / self.nanoseconds());
        }
        match self.stage.published() {
            Some(figure) => record.published(figure),
            None => record,
        }
    }
}

/// The central bank, and the bank whose customers pay.
const CENTRAL: usize = 0;
/// See [`CENTRAL`].
const PAYING: usize = 1;
/// How many batches a decision comes after the proposals, as it does in a network.
const BEHIND: usize = 4;

/// Measures every stage and shows each as soon as it is known.
///
/// # Panics
/// When a stage refuses a payment of the workload.
pub fn run_each(options: &Options, mut each: impl FnMut(&Measured)) -> Vec<Measured> {
    let mut found = Vec::new();
    let mut add = |measured: Measured| {
        each(&measured);
        found.push(measured);
    };
    for (mix, legs) in [(Mix::Inside, 2), (Mix::Between, 4)] {
        let workload = options.workload(mix, 0);
        add(Measured::new(Stage::Generator, legs, false, options.generator(&workload)));
        let inputs = Inputs::make(&workload, options.batches, options.batch);
        for stage in &Stage::ALL[1..] {
            if stage.is_central() && mix == Mix::Inside {
                continue;
            }
            let participant = if stage.is_central() { CENTRAL } else { PAYING };
            let samples = match stage {
                Stage::Generator => continue,
                Stage::Scheduler => options.scheduler(&inputs, &workload),
                Stage::Approver | Stage::CentralApprover => {
                    options.approver(&inputs, participant, inputs.rounds(participant))
                }
                Stage::Assembler => options.assembler(&inputs),
                Stage::Sequencer => options.sequencer(&inputs),
                Stage::Updater | Stage::CentralUpdater => options.updater(&inputs, participant),
            };
            add(Measured::new(*stage, legs, false, samples));
        }
    }
    if options.payers > 0 {
        for (mix, legs) in [(Mix::Inside, 2), (Mix::Between, 4)] {
            let workload = options.workload(mix, options.payers);
            // Signing takes long and verifying too: few batches fill a repetition.
            let inputs = Inputs::make(&workload, options.batches.div_ceil(4), options.batch);
            add(Measured::new(Stage::Scheduler, legs, true, options.signed_scheduler(&inputs)));
            let unverified = inputs.rounds(PAYING).unverified();
            let samples = options.approver(&inputs, PAYING, unverified);
            add(Measured::new(Stage::Approver, legs, true, samples));
        }
    }
    found
}

impl Options {
    /// The size in bytes of the table on which the limits of memory are to be measured: a bank's accounts, so that a
    /// limit is not that of a slower memory than the stage's.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        (self.accounts as usize * size_of::<tally_ledger::Account>()).max(1 << 20)
    }

    fn workload(&self, mix: Mix, payers: u32) -> Workload {
        let validity = Duration::from_secs(15);
        Workload { mix, accounts: self.accounts, payers, validity, seed: self.seed, spread: 1 }
    }

    fn generator(&self, workload: &Workload) -> Samples {
        let mut generator = Generator::new(workload, tally_ledger::NetworkId([1; 32]), 1);
        repeat(self, |watch: &mut Stopwatch| {
            watch.time(|| {
                for _ in 0..self.batches {
                    black_box(generator.batch(0, self.batch, NOW));
                }
            });
            (self.batches * self.batch) as u64
        })
    }

    /// One scheduler that goes on: time passes from one round to the next, so that old references expire while new
    /// ones come.
    fn scheduler(&self, inputs: &Inputs, workload: &Workload) -> Samples {
        let mut scheduler = Scheduler::new(Arc::clone(&inputs.network), 0, 0, REMEMBER, SECRET);
        let validity = u64::try_from(workload.validity.as_millis()).unwrap_or(u64::MAX);
        let mut record = Vec::new();
        let mut sequence = inputs.sequence.clone();
        let mut round = 0_u64;
        repeat(self, |watch: &mut Stopwatch| {
            round += 1;
            let now = NOW.plus_ms(round * validity / 4);
            let batches: Vec<_> =
                inputs.transactions.iter().map(|b| later(b, round, now, validity)).collect();
            watch.time(|| schedule_all(&mut scheduler, now, batches, &sequence, &mut record));
            for decided in &mut sequence {
                decided.source.number += inputs.transactions.len() as u64;
            }
            inputs.len
        })
    }

    /// A new scheduler each round, which has seen none of the references.
    fn signed_scheduler(&self, inputs: &Inputs) -> Samples {
        let mut record = Vec::new();
        repeat(self, |watch: &mut Stopwatch| {
            let mut scheduler = Scheduler::new(Arc::clone(&inputs.network), 0, 0, REMEMBER, SECRET);
            let batches = inputs.transactions.clone();
            watch.time(|| schedule_all(&mut scheduler, NOW, batches, &inputs.sequence, &mut record));
            inputs.len
        })
    }

    fn approver(&self, inputs: &Inputs, participant: usize, rounds: Rounds) -> Samples {
        let approver = inputs.approver(participant);
        let movements = Movements::of(&rounds, approver.accounts());
        repeat(self, Approving { inputs, participant, approver, rounds, movements, done: 0, len: inputs.len })
    }

    fn assembler(&self, inputs: &Inputs) -> Samples {
        let answers: Vec<Vec<_>> = (0..inputs.participations.len())
            .map(|at| inputs.approvals.iter().filter_map(|answers| answers.get(at)).collect())
            .collect();
        repeat(self, |watch: &mut Stopwatch| {
            let mut assembler = Assembler::new(Arc::clone(&inputs.network), []);
            let mut decided = 0;
            watch.time(|| {
                for (participation, answers) in inputs.participations.iter().zip(&answers) {
                    black_box(assembler.ask(Arc::clone(participation)));
                    for approvals in answers {
                        let decisions = assembler.count(NOW, approvals).expect("the approver signed it");
                        decided += decisions.indices.len() as u64;
                    }
                }
            });
            assert_eq!((decided, assembler.open()), (inputs.len, 0), "every payment was decided");
            inputs.len
        })
    }

    fn sequencer(&self, inputs: &Inputs) -> Samples {
        let mut sequencer = inputs.sequencer();
        let mut record = Vec::new();
        repeat(self, |watch: &mut Stopwatch| {
            watch.time(|| {
                for decisions in &inputs.decisions {
                    record.clear();
                    sequencer.step(NOW, decisions).encode(&mut record);
                    black_box(&record);
                }
            });
            inputs.len
        })
    }

    fn updater(&self, inputs: &Inputs, participant: usize) -> Samples {
        let updater = Updater::new(inputs.accounts(participant), Aliases::default(), 0);
        let rounds = inputs.rounds(participant);
        let movements = Movements::of(&rounds, updater.accounts());
        repeat(self, Updating { updater, rounds, movements, done: 0, len: inputs.len })
    }
}

/// One approver that goes on. Decisions come some batches after the approvals, as they do in a network.
struct Approving<'a> {
    inputs: &'a Inputs,
    participant: usize,
    approver: Approver,
    rounds: Rounds,
    movements: Movements,
    done: u64,
    len: u64,
}

impl stopwatch::Rounds for Approving<'_> {
    fn round(&mut self, watch: &mut Stopwatch) -> u64 {
        // Each round proposes the same payments, and an approver approves each once: the next round is another process, which
        // goes on with the balances.
        self.approver = self.inputs.approver_with(self.participant, self.approver.accounts().clone());
        let (approver, rounds) = (&mut self.approver, &mut self.rounds);
        let mut approved = 0;
        watch.time(|| {
            for at in 0..rounds.proposals.len() + BEHIND {
                if let Some(batch) = rounds.proposals.get(at) {
                    let answers = approver.propose(NOW, Arc::clone(batch));
                    let verdicts = answers.iter().flat_map(|answers| &answers.verdicts);
                    approved += verdicts.filter(|verdict| **verdict == 0).count() as u64;
                    black_box(answers);
                }
                if let Some(decided) = at.checked_sub(BEHIND) {
                    approver.decide(&rounds.sequence[decided]).expect("it approved what is made");
                }
            }
        });
        assert_eq!((approved, approver.under_way()), (self.len, 0), "every payment was approved and decided");
        rounds.go_on();
        self.done += 1;
        self.len
    }

    fn check(&self) {
        self.movements.check("approver", self.done, self.approver.accounts());
    }
}

/// One updater that goes on.
struct Updating {
    updater: Updater,
    rounds: Rounds,
    movements: Movements,
    done: u64,
    len: u64,
}

impl stopwatch::Rounds for Updating {
    fn round(&mut self, watch: &mut Stopwatch) -> u64 {
        let (updater, rounds) = (&mut self.updater, &mut self.rounds);
        watch.time(|| {
            for ((batch, answers), decided) in
                rounds.proposals.iter().zip(&rounds.approvals).zip(&rounds.sequence)
            {
                updater.propose(Arc::clone(batch));
                updater.answer(answers);
                updater.apply(decided).expect("its approver approved what is made");
            }
        });
        self.done += 1;
        assert_eq!(updater.applied(), self.done * self.len, "every decision was applied");
        rounds.go_on();
        self.len
    }

    fn check(&self) {
        self.movements.check("state updater", self.done, self.updater.accounts());
    }
}

/// All steps of a scheduler on these batches, and what it learns of decisions on them.
fn schedule_all(
    scheduler: &mut Scheduler,
    now: Timestamp,
    batches: Vec<TransactionBatch>,
    sequence: &[SequenceBatch],
    record: &mut Vec<u8>,
) {
    for (at, batch) in batches.into_iter().enumerate() {
        schedule(scheduler, now, batch, record);
        if let Some(decided) = at.checked_sub(BEHIND) {
            scheduler.learn(&sequence[decided]);
        }
    }
    let late = sequence.len().saturating_sub(BEHIND);
    sequence[late..].iter().for_each(|decided| scheduler.learn(decided));
}

/// One step of a scheduler, and the record that the journal would get.
fn schedule(scheduler: &mut Scheduler, now: Timestamp, batch: TransactionBatch, record: &mut Vec<u8>) {
    let len = batch.len();
    let scheduled = scheduler.step(now, batch);
    let accepted = scheduled.accepted.as_ref().map_or(0, |(_, accepted)| accepted.batch.len());
    assert_eq!(accepted, len, "every payment of a workload is accepted");
    record.clear();
    if let Some((_, accepted)) = &scheduled.accepted {
        accepted.encode(record);
    }
    black_box((&scheduled, &*record));
}

/// The same payments under other references, at a later time.
fn later(batch: &TransactionBatch, round: u64, now: Timestamp, validity_ms: u64) -> TransactionBatch {
    let mut batch = batch.clone();
    for header in &mut batch.headers {
        for (byte, change) in header.uetr.0.iter_mut().zip(round.to_le_bytes()) {
            *byte ^= change;
        }
        header.expiry = now.plus_ms(validity_ms);
    }
    batch
}

#[cfg(test)]
mod tests;
