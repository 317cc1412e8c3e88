//! One run: the seed draws what happens, everything that happens is checked.

use super::check::{Memory, Truth};
use super::clients::{Clients, Expected};
use super::lies::Lie;
use super::life::{Life, NoStart, chain, snapshots};
use super::plan::{Plan, VALIDITY_MS};
use super::workload::Workload;
use crate::witness::Witness;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tally_ledger::order::AccountAction;
use tally_ledger::{
    AccountId, Amount, AssetId, Kind, Network, ParticipantId, Refusal, Timestamp, Transaction,
};
use tally_log::{Log, LogError};
use tally_settlement::engine::EngineOptions;
use tally_settlement::path;
use tally_sim::{Rng, Scheduler, SimClock, SimDisk, Trace};
use tempfile::TempDir;

/// What a run came to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Summary {
    /// Its seed.
    pub seed: u64,
    /// Hash over everything that happened: equal for two runs of one seed.
    pub trace: u64,
    /// Steps taken.
    pub steps: u64,
    /// Times that the process was started.
    pub lives: u64,
    /// Different transactions handed in.
    pub transactions: u64,
    /// Of these, made.
    pub made: u64,
    /// Answers that repeated an earlier one.
    pub repeats: u64,
    /// Answers that named an earlier use of the reference.
    pub duplicates: u64,
    /// Refusals told, by reason.
    pub refused: BTreeMap<Refusal, u64>,
    /// Times that recovery began with a snapshot.
    pub snapshots: u64,
    /// Transactions that were accepted before a crash and decided after it.
    pub reopened: u64,
    /// How often members with real keys handed in which lie.
    pub lies: BTreeMap<Lie, u64>,
}

/// Runs a seed.
///
/// # Panics
/// When anything is not as it should be: this is the purpose. The message names seed and step.
#[must_use]
pub fn run(seed: u64) -> Summary {
    run_as(seed, None)
}

/// Runs a seed in which members with real keys lie, all the time.
///
/// # Panics
/// As [`run`].
#[must_use]
pub fn run_liars(seed: u64) -> Summary {
    run_as(seed, Some(Rng::new(seed ^ 0x6c69_6172)))
}

fn run_as(seed: u64, liars: Option<Rng>) -> Summary {
    let mut run = Run::new(seed);
    let witness = if liars.is_some() { Witness::of_liars(seed) } else { Witness::of(seed) };
    run.liars = liars;
    run.set_up();
    let steps =
        if run.rng.chance(1, 10) { run.rng.between(1_000, 4_000) } else { run.rng.between(50, 1_000) };
    for step in 1..=steps {
        run.step = step;
        witness.sees(step);
        run.act();
    }
    run.end();
    run.summary()
}

struct Run {
    seed: u64,
    rng: Rng,
    order: Scheduler,
    clock: SimClock,
    /// By how much the process's clock is wrong.
    skew_ms: i64,
    disk: SimDisk,
    network: Arc<Network>,
    directory: TempDir,
    plan: Plan,
    options: EngineOptions,
    life: Option<Life>,
    clients: Clients,
    work: Workload,
    memory: Memory,
    /// A stage that takes no step for a while.
    asleep: Option<(usize, u64)>,
    trace: Trace,
    step: u64,
    /// How many accounts were given money to begin with.
    funded: usize,
    lives: u64,
    snapshots: u64,
    reopened: u64,
    /// What members that lie draw from, where there are any.
    liars: Option<Rng>,
    lies: BTreeMap<Lie, u64>,
}

const START_MS: u64 = 1_750_000_000_000;

/// Where snapshots go: memory, if the machine has a file system there.
pub(crate) fn temporary() -> PathBuf {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() }
}

impl Run {
    fn new(seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let plan = Plan::new(&mut rng.fork());
        let directory = tempfile::Builder::new().prefix("tally-sim-").tempdir_in(temporary());
        let directory = directory.expect("a temporary directory can be made");
        let network = Arc::new(plan.network.clone());
        Self {
            seed,
            order: Scheduler::new(rng.next_u64()),
            clock: SimClock::new(START_MS * 1_000_000),
            skew_ms: 0,
            disk: SimDisk::new(rng.next_u64()),
            options: plan.options(directory.path().to_owned()),
            directory,
            life: None,
            clients: Clients::new(network.id),
            work: Workload::new(rng.fork(), plan.network.clone()),
            network,
            plan,
            memory: Memory::default(),
            asleep: None,
            trace: Trace::new(),
            step: 0,
            funded: 0,
            lives: 0,
            snapshots: 0,
            reopened: 0,
            liars: None,
            lies: BTreeMap::new(),
            rng,
        }
    }

    /// The time as the process sees it.
    fn now(&self) -> Timestamp {
        Timestamp(self.clock.now_ms().saturating_add_signed(self.skew_ms))
    }

    fn life(&mut self) -> &mut Life {
        self.life.as_mut().expect("the process runs between steps")
    }

    /// Accounts with money in them, in some runs before any fault.
    fn set_up(&mut self) {
        self.start();
        if self.rng.chance(1, 4) {
            return;
        }
        for _ in 0..2 {
            let transactions = self.foundations();
            self.submit(transactions);
            self.rest();
            self.work.learn(&self.clients);
        }
    }

    /// What must be there before anything can be paid: reserves, accounts, then money in them.
    fn foundations(&mut self) -> Vec<(Transaction, Expected)> {
        let now = self.now();
        let mut transactions = Vec::new();
        if self.work.opened.is_empty() {
            for bank in (1u16..).take(self.network.participants.len() - 1).map(ParticipantId) {
                for (asset, properties) in (0u16..).map(AssetId).zip(&self.network.assets) {
                    if properties.settled_at != bank {
                        let legs = path::issue_reserves(&self.network, bank, asset, Amount(2_000));
                        transactions.push((self.work.signed(now, Kind::Issue, legs), Expected::Order));
                    }
                }
                let life = self.life.as_ref().expect("it runs");
                let mut number = life.desk.next_account(bank).expect("the bank is there");
                for _ in 0..self.rng.between(2, 4) {
                    let asset = self.work.asset();
                    let order = self.work.opening_at(bank, asset, number);
                    if let AccountAction::Open { count, .. } = order.action {
                        number.0 += count;
                    }
                    transactions.push((self.work.ordered(now, order), Expected::Order));
                }
            }
        }
        for opened in self.work.opened.clone().into_iter().skip(self.funded) {
            self.funded += 1;
            let legs = path::issue(opened.id, opened.asset, Amount(1_000));
            transactions.push((self.work.signed(now, Kind::Issue, legs), Expected::Order));
        }
        transactions
    }

    fn submit(&mut self, transactions: Vec<(Transaction, Expected)>) {
        self.trace.record_number("submit", transactions.len() as u64);
        let life = self.life.as_ref().expect("it runs");
        self.clients.submit(self.step, &life.desk, transactions);
    }

    fn listen(&mut self) -> usize {
        let life = self.life.as_ref().expect("it runs");
        self.memory.see(life.desk.tree_head());
        self.clients.listen(self.step, &life.desk, &mut self.trace)
    }

    /// Without faults, everything comes to rest; then all is checked.
    fn rest(&mut self) {
        self.heal();
        let now = self.now();
        self.life().drain(now);
        self.listen();
        assert_eq!(self.clients.unanswered(), 0, "everybody has an answer");
        let life = self.life.as_ref().expect("it runs");
        let truth = Truth::read(life, &self.network, &self.clients);
        truth.keeps_promises(&self.clients, &mut self.memory);
        truth.is_shown(life, &self.network, &self.clients, &mut self.rng);
        if self.step > 0 && self.rng.chance(1, 3) {
            truth.is_audited(life, &self.network, self.rng.chance(1, 8));
        }
        self.trace.record_number("rest", life.desk.sequenced());
    }

    /// Ends all faults.
    fn heal(&mut self) {
        self.disk.limit_space(None);
        self.disk.fail_space(0);
        self.disk.short_writes(false);
        self.disk.fail_sync(u64::MAX);
        self.disk.power_off_after(u64::MAX);
        self.asleep = None;
    }

    fn act(&mut self) {
        match self.rng.below(1_000) {
            0..640 => self.poll(),
            640..700 => self.send(),
            700..760 => self.repeat(),
            760..860 => self.sync(),
            860..900 => drop(self.listen()),
            900..950 => self.pass_time(),
            950..955 => self.miss_deadlines(),
            955..980 => self.save(),
            980..992 => self.fault(),
            992..996 => self.restart(),
            996..998 => self.remove_snapshots(),
            _ => self.sleep(),
        }
    }

    fn poll(&mut self) {
        for _ in 0..self.rng.between(1, 12) {
            let count = self.life().stages.len();
            let asleep = self.asleep.take_if(|(_, until)| *until < self.step).or(self.asleep);
            let awake = |stage: usize| asleep.is_none_or(|(which, _)| which != stage);
            let Some(chosen) = self.order.next(count, awake) else { return };
            let now = self.now();
            match self.life().stages[chosen].poll(now) {
                Ok(progress) => self.trace.record_number("progress", u64::from(progress)),
                Err(error) => {
                    let health = self.life().log.health();
                    let failed = matches!(health, tally_log::Health::Failed { .. });
                    assert!(failed, "a stage stops on a log that is {health:?}: {}", chain(&error));
                    return self.restart();
                }
            }
        }
    }

    fn sync(&mut self) {
        match self.life().log.sync() {
            Ok(durable) => self.trace.record_number("durable", durable.0),
            Err(LogError::Stalled { .. }) => self.trace.record("stalled", &[]),
            Err(LogError::Failed { .. }) => self.restart(),
            Err(error) => panic!("{}", chain(&error)),
        }
    }

    /// A few clients send something.
    fn send(&mut self) {
        let now = self.now();
        self.work.learn(&self.clients);
        let mut transactions = self.foundations();
        for _ in 0..self.rng.between(1, 6) {
            if self.work.opened.is_empty() {
                break;
            }
            let life = self.life.as_ref().expect("it runs");
            let next = |bank| life.desk.next_account(bank).expect("the bank is there");
            transactions.push(match self.rng.below(5) {
                0 => self.work.mischief(now, &next),
                _ => self.work.next(now, &next),
            });
        }
        self.submit(transactions);
        self.lie();
    }

    /// Members with real keys hand in what they must not.
    fn lie(&mut self) {
        let Some(mut rng) = self.liars.take() else { return };
        let now = self.now();
        let mut transactions = Vec::new();
        for _ in 0..rng.between(1, 6) {
            if let Some((lie, transaction, expected)) = self.work.lie(&mut rng, now, &self.clients.known) {
                *self.lies.entry(lie).or_default() += 1;
                transactions.push((transaction, expected));
            }
        }
        self.submit(transactions);
        self.liars = Some(rng);
    }

    /// Somebody sends something again, or uses its reference for something else.
    fn repeat(&mut self) {
        let mut transactions = Vec::new();
        for _ in 0..self.rng.between(1, 4) {
            // The latest mostly: what is old has expired.
            let count = self.clients.known.len();
            if count == 0 {
                return;
            }
            let recent = [12, 12, 50, 1_000][self.rng.index(4)];
            let back = self.rng.index(count.min(recent));
            let known = &self.clients.known[count - 1 - back];
            let (mut transaction, expected) = (known.transaction.clone(), known.expected.clone());
            if self.rng.chance(1, 4) {
                let signers: Vec<_> = transaction.signers.drain(..).collect();
                transaction.header.signers = 0;
                transaction.header.expiry = transaction.header.expiry.plus_ms(self.rng.between(1, 50));
                for signer in signers {
                    let key = super::plan::keys().iter().find(|key| key.public_key() == signer.key);
                    transaction.sign(&self.network.id, key.expect("everybody's key is known"));
                }
                // What was wrong with it may be mended by signing it again, or covered up.
                transactions.push((transaction, expected.or_anything()));
                continue;
            }
            transactions.push((transaction, expected));
        }
        self.submit(transactions);
    }

    fn pass_time(&mut self) {
        let ms = match self.rng.below(60) {
            0 => self.rng.between(10_000, 2 * VALIDITY_MS),
            1..=3 => self.rng.between(1_000, 5_000),
            4..=9 => self.rng.between(100, 1_000),
            _ => self.rng.between(0, 30),
        };
        self.clock.advance_ms(ms);
    }

    /// Somebody sets the machine's clock; a process looks at it when it starts.
    fn skew(&mut self) {
        let most = [2_000, VALIDITY_MS / 2, VALIDITY_MS, 3 * VALIDITY_MS][self.rng.index(4)];
        let skew = i64::try_from(self.rng.below(2 * most)).expect("small");
        self.skew_ms = skew - i64::try_from(most).expect("small");
        self.trace.record("skew", &self.skew_ms.to_le_bytes());
    }

    fn save(&mut self) {
        let saved = self.life().desk.save().unwrap_or_else(|error| panic!("{}", chain(&error)));
        let name = saved.file_name().expect("it is a file").to_string_lossy().into_owned();
        self.trace.record("save", name.as_bytes());
    }

    fn remove_snapshots(&mut self) {
        let mut paths = snapshots(self.directory.path());
        if self.rng.chance(1, 2) && !paths.is_empty() {
            // The latest is lost, an older one is left.
            paths.drain(..paths.len() - 1);
        }
        for path in paths {
            std::fs::remove_file(path).expect("a snapshot can be removed");
        }
    }

    fn fault(&mut self) {
        let (kind, count) = (self.rng.below(6), self.rng.below(30));
        self.trace.record_number("fault", kind);
        match kind {
            0 => self.disk.fail_space(count),
            1 => self.disk.short_writes(self.rng.chance(1, 2)),
            2 => self.disk.fail_sync(count / 4),
            3 => self.disk.power_off_after(count),
            4 => self.disk.limit_space(Some(self.rng.between(50_000, 500_000))),
            _ => self.disk.limit_space(None),
        }
    }

    /// Time passes while one stage takes no step, so that answers come too late.
    fn miss_deadlines(&mut self) {
        self.send();
        self.sleep();
        for _ in 0..self.rng.between(5, 30) {
            self.poll();
        }
        let ms = self.rng.between(500, 70_000);
        self.clock.advance_ms(ms);
    }

    /// One stage takes no step for a while.
    fn sleep(&mut self) {
        let stages = self.life().stages.len();
        let until = self.step + self.rng.between(10, 300);
        self.asleep = Some((self.rng.index(stages), until));
    }

    /// The process ends without warning, and starts again.
    fn restart(&mut self) {
        if self.rng.chance(1, 2) {
            self.listen();
        }
        self.stop();
        self.start();
        if self.rng.chance(1, 2) {
            // Everybody asks again.
            for _ in 0..self.rng.between(1, 8) {
                self.repeat();
            }
        }
        if self.rng.chance(1, 4) {
            self.rest();
        }
    }

    fn stop(&mut self) {
        self.clients.forget_waiting();
        self.life = None;
        let power = self.rng.chance(3, 4);
        self.trace.record_number("crash", u64::from(power));
        if power {
            self.disk.crash(&mut self.rng);
        } else {
            self.disk.kill();
        }
    }

    fn start(&mut self) {
        self.asleep = None;
        if self.rng.chance(1, 6) {
            self.skew();
        }
        if self.lives > 0 && self.rng.chance(1, 12) {
            self.plan.grow(&mut self.rng);
            self.network = Arc::new(self.plan.network.clone());
            self.work.network = self.plan.network.clone();
            self.options = self.plan.options(self.directory.path().to_owned());
        }
        if self.rng.chance(1, 12) {
            // An earlier process ended while it wrote a snapshot.
            let path = self.directory.path().join("snapshots/00000000000000000001.writing");
            drop(std::fs::write(path, b"half a snapshot"));
        }
        // A disk can also fail while a process recovers, but not for ever.
        for attempt in 0.. {
            if attempt < 3 && self.lives > 0 && self.rng.chance(1, 8) {
                self.disk.power_off_after(self.rng.below(40));
            }
            match Life::begin(&self.options, &self.disk, self.now()) {
                Ok(life) => {
                    self.lives += 1;
                    self.snapshots += u64::from(life.report.snapshot.is_some());
                    self.reopened += life.report.undecided;
                    self.trace.record_number("start", life.report.records);
                    self.life = Some(life);
                    break;
                }
                Err(NoStart::Clock { ahead_ms }) => {
                    assert!(attempt < 10, "the journal is ahead by {ahead_ms} ms, still");
                    self.clock.advance_ms(self.rng.between(ahead_ms / 2, ahead_ms));
                    self.disk.kill();
                }
                Err(NoStart::Disk(error)) => {
                    let fault = matches!(
                        error,
                        LogError::Io { .. } | LogError::Failed { .. } | LogError::Stalled { .. }
                    );
                    assert!(fault && attempt < 10, "the journal does not open: {}", chain(&error));
                    self.disk.limit_space(None);
                    self.disk.crash(&mut self.rng);
                }
            }
        }
        // What is durable is checked before anything else happens.
        let life = self.life.as_ref().expect("it was just started");
        let truth = Truth::read(life, &self.network, &self.clients);
        truth.keeps_promises(&self.clients, &mut self.memory);
    }

    /// Everything at rest, then once more from what is on disk, with and without snapshots.
    fn end(&mut self) {
        self.rest();
        self.spend_all();
        self.stop();
        self.start();
        self.rest();
        if self.rng.chance(1, 2) {
            self.save();
        }
        for path in snapshots(self.directory.path()) {
            if self.rng.chance(1, 2) {
                std::fs::remove_file(path).expect("a snapshot can be removed");
            }
        }
        self.disk.kill();
        self.life = None;
        self.clients.forget_waiting();
        self.start();
        self.rest();
    }

    /// At rest nothing is reserved: whatever an open account holds can be spent.
    fn spend_all(&mut self) {
        self.work.learn(&self.clients);
        // The clock may stand behind times in the log; wait until it does not.
        let behind = self.life().desk.tree_head().map_or(0, |head| head.head.timestamp_ms);
        while self.now().0 <= behind + VALIDITY_MS * 8 {
            self.clock.advance_ms(VALIDITY_MS);
        }
        let now = self.now();
        let mut sent: Vec<AccountId> = Vec::new();
        let mut transactions = Vec::new();
        let opened = self.work.opened.clone();
        for (from, to) in opened.iter().zip(opened.iter().cycle().skip(1)) {
            let life = self.life.as_ref().expect("it runs");
            let view = |id| life.desk.account(id).expect("it was opened");
            let (payer, payee) = (view(from.id), view(to.id));
            let open = |status| status == tally_ledger::AccountStatus::Open;
            let fits = from.id != to.id
                && from.asset == to.asset
                && from.id.participant == to.id.participant
                && open(payer.status)
                && open(payee.status)
                && payer.balance > Amount::ZERO
                && payer.balance.0 <= super::plan::LARGEST_PAYMENT.min(Amount::MAX_LEG.0)
                && payee.balance.0 < 1 << 60;
            if fits && !sent.contains(&from.id) {
                sent.push(from.id);
                let legs = path::payment(&self.network, from.id, to.id, from.asset, payer.balance);
                let mut transaction = self.work.signed(now, Kind::Transfer, legs.clone());
                // Its validity is not what is tried here.
                let signers = self.work.signers(Kind::Transfer, &legs);
                transaction.header.expiry = now.plus_ms(VALIDITY_MS);
                transaction.signers.clear();
                transaction.header.signers = 0;
                signers.iter().for_each(|key| transaction.sign(&self.network.id, key));
                transactions.push((transaction, Expected::Order));
            }
        }
        let ids: Vec<_> =
            transactions.iter().map(|(transaction, _)| transaction.id(&self.network.id)).collect();
        self.submit(transactions);
        self.rest();
        for id in ids {
            let known = self.clients.find(&id).expect("it was handed in");
            let verdict = known.told.map(|(finality, _)| finality.verdict);
            let overloaded = self.options.remember < 100 && verdict.is_none();
            assert!(verdict == Some(Ok(())) || overloaded, "{verdict:?}: {:?}", known.transaction);
        }
    }

    fn summary(&self) -> Summary {
        let mut refused = BTreeMap::new();
        for (refusal, count) in &self.clients.refused {
            refused.insert(*refusal, *count);
        }
        let mut trace = self.trace.clone();
        trace.record_number("order", self.order.trace().hash());
        Summary {
            seed: self.seed,
            trace: trace.hash(),
            steps: self.step,
            lives: self.lives,
            transactions: self.clients.known.len() as u64,
            made: self
                .clients
                .known
                .iter()
                .filter(|known| known.told.is_some_and(|(finality, _)| finality.verdict.is_ok()))
                .count() as u64,
            repeats: self.clients.repeats_answered,
            duplicates: self.clients.duplicates,
            refused,
            snapshots: self.snapshots,
            reopened: self.reopened,
            lies: self.lies.clone(),
        }
    }
}
