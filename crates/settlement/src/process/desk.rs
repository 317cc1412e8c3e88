//! The desk of a network over a cluster: one gateway, with the balances to answer from.
//!
//! One thread hands in what has gathered, all of it by one commit; another hears what schedulers and the sequencer say;
//! one for each participant keeps its balances as its updater does. An outcome is told once it is final and in
//! those balances. What was decided before this process, or longer ago than it remembers, is looked up in the topics.

mod archive;
mod books;
mod latest;
mod proofs;
mod recent;
mod shares;
mod threads;
mod waiting;
mod witnesses;

use super::gateway::{Gateway, first_origin};
use super::journal::Journal;
use super::layout::Layout;
use super::shard::{ShardError, Stop};
use crate::clerk::{self, Counts, Finality, Notice, Waiter};
use crate::desk::{Accepted, Figure, Settlement};
use crate::engine::answer::{Expected, Mailbox};
use crate::engine::earlier::{self, Earlier, Names};
use crate::engine::past::Past;
use crate::engine::{AccountView, Answer, Clock, EngineError, Outcome, Pending, Total, route};
use crate::journal::JournalError;
use crate::message::{AcceptedBatch, Source, Withdrawal};
use crate::outcomes::{Outcomes, Place};
use crate::proof::{self, Found, Wanted};
use crate::runtime::executor::Signal;
use crate::statement::{self, Ends, Held, Movements, Statement};
use archive::{Archive, Patient};
use books::Books;
use latest::Latest;
use shares::Shares;
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tally_crypto::log::SignedTreeHead;
use tally_ledger::{AccountId, AccountNumber, Network, NetworkId, ParticipantId, Timestamp, Transaction};
use tally_log::cluster::{Cluster, SharedLog};
use tally_log::{Health, LogError};
use tally_proof::{Consistency, HeadCosignature, Proof, Receipt};
use waiting::{HandedIn, Waiting};
use witnesses::Witnesses;

/// What a desk is to be.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DeskOptions {
    /// Which gateway of the network.
    pub gateway: u16,
    /// Whose accounts it answers questions about: their topics must be open to it.
    pub participants: Vec<ParticipantId>,
    /// How many institutions, besides the operator, have to cosign the head of the log that has an outcome before the
    /// outcome is told; 0 for none.
    pub witnesses: u8,
}

/// One gateway of a network of processes.
pub struct Desk {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

struct Shared {
    cluster: Arc<dyn Cluster>,
    layout: Layout,
    network: Arc<Network>,
    clock: Clock,
    /// By scheduler, what waits to be put into a batch.
    gathered: Mutex<Vec<VecDeque<(Transaction, HandedIn)>>>,
    /// What is undecided of each institution's.
    shares: Arc<Shares>,
    /// What goes with or beside it.
    beside: Mutex<Beside>,
    /// Something was gathered.
    arrivals: Signal,
    waiting: Mutex<Waiting>,
    /// Outcomes were told, or balances went on.
    progress: Signal,
    books: Vec<Books>,
    /// How many witnesses have to cosign what is told.
    required: u8,
    witnesses: Mutex<Witnesses>,
    latest: Latest,
    archive: Mutex<Archive>,
    /// Held while the ledger is searched.
    lookup: Mutex<()>,
    /// Where pages of statements ended.
    ends: Ends,
    log: Arc<dyn SharedLog>,
    stop: Stop,
    failure: Mutex<Option<Arc<ShardError>>>,
    /// What each thread cannot do at present.
    troubles: Mutex<HashMap<String, String>>,
    counts: Activity,
}

/// What is handed in besides transactions.
#[derive(Default)]
struct Beside {
    /// Texts that are handed in no later than the transactions gathered after them.
    texts: Vec<Vec<u8>>,
    /// Their bytes.
    bytes: usize,
    withdrawals: Vec<Withdrawal>,
}

/// No transaction is waited for longer than a year, whatever it says of itself; a scheduler refuses what is valid for so long.
const MAX_VALID_MS: u64 = 365 * 24 * 60 * 60 * 1000;
/// The most bytes of texts that wait to be handed in.
const MAX_TEXTS: usize = 64 << 20;
/// The most withdrawals that do.
const MAX_WITHDRAWALS: usize = 1 << 12;

/// What it has done since it was opened.
#[derive(Default)]
struct Activity {
    handed_in: AtomicU64,
    commits: AtomicU64,
    commit_ns: AtomicU64,
    searches: AtomicU64,
}

const LOCK: &str = "no holder of a desk's lock panics";
/// How long the sequence is searched for one outcome.
const SEARCH: Duration = Duration::from_secs(60);
/// How long a status waits for the balances of an outcome that it found.
const SETTLES: Duration = Duration::from_secs(10);

impl Desk {
    /// Opens a gateway, fencing whoever was that gateway before, and brings the balances up to date: from the last
    /// snapshots, which takes as long as reading what came after them. `stop` ends the attempt.
    ///
    /// # Errors
    /// When the cluster cannot be reached, or the balances cannot be recovered.
    pub fn open(
        cluster: &Arc<dyn Cluster>,
        layout: &Layout,
        network: &Arc<Network>,
        options: &DeskOptions,
        stop: &Stop,
    ) -> Result<Self, ShardError> {
        let clock = Clock::start();
        let mut archive = Archive::open(&**cluster, layout, network.id, options.gateway, stop)?;
        // What was sequenced and too few have cosigned is not told after a restart either.
        let from =
            proofs::witnessed(&**cluster, layout, network, options.witnesses, |size| archive.reached(size))?;
        let gateway = Gateway::open_from(&**cluster, layout, options.gateway, (first_origin(), from), stop)?;
        let (sender, listener) = gateway.split();
        let last = archive.last(listener.position())?;
        let mut witnesses = Witnesses::new(network, options.witnesses);
        last.iter().for_each(|last| drop(witnesses.read(last)));
        let next = last.as_ref().map_or(0, |last| last.first + u64::from(last.count));
        let head = last.map(|last| last.tree_head());
        let ledgers = books::recover(&**cluster, layout, network, options, listener.position(), stop)?;
        let shared = Arc::new(Shared {
            cluster: Arc::clone(cluster),
            layout: layout.clone(),
            network: Arc::clone(network),
            clock,
            gathered: Mutex::new((0..layout.schedulers).map(|_| VecDeque::new()).collect()),
            shares: Arc::new(Shares::new(layout)),
            beside: Mutex::default(),
            arrivals: Signal::default(),
            waiting: Mutex::new(Waiting::new(next, listener.position(), head)),
            latest: Latest::new(listener.end()),
            progress: Signal::default(),
            books: ledgers.iter().map(|(_, ledger)| Books::of(ledger)).collect(),
            required: options.witnesses,
            witnesses: Mutex::new(witnesses),
            archive: Mutex::new(archive),
            lookup: Mutex::new(()),
            ends: Ends::default(),
            log: sender.log(),
            stop: Stop::default(),
            failure: Mutex::new(None),
            troubles: Mutex::default(),
            counts: Activity::default(),
        });
        let mut desk = Self { shared, threads: Vec::new() };
        desk.start("send", move |shared| threads::send(&sender, shared));
        desk.start("listen", move |shared| threads::listen(listener, shared));
        for (opened, mut ledger) in ledgers {
            let name = format!("books {}", ledger.shell.bic);
            desk.start(&name, move |shared| threads::follow(&opened, &mut ledger, shared));
        }
        Ok(desk)
    }

    fn start(&mut self, name: &str, run: impl FnOnce(&Shared) -> Result<(), ShardError> + Send + 'static) {
        let shared = Arc::clone(&self.shared);
        let body = move || {
            if let Err(error) = run(&shared) {
                shared.fail(error);
            }
        };
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(body);
        self.threads.push(thread.expect("the system has room for a thread"));
    }

    /// Why it takes nothing more, if so. Whoever serves it has to open another, here or elsewhere.
    pub fn failure(&self) -> Option<Arc<ShardError>> {
        self.shared.failure()
    }

    /// Whether another process is this gateway now.
    pub fn is_fenced(&self) -> bool {
        self.failure().is_some_and(|failure| failure.is_fenced())
    }

    /// Waits until everything handed in is answered, at most for `drain`, and stops.
    pub fn stop(self, drain: Duration) {
        let deadline = Instant::now() + drain;
        while Instant::now() < deadline && self.failure().is_none() && self.shared.unanswered() > 0 {
            let events = self.shared.progress.events();
            self.shared.progress.wait(events, Duration::from_millis(20));
        }
    }
}

impl Drop for Desk {
    fn drop(&mut self) {
        self.shared.stop.set();
        self.shared.arrivals.notify();
        self.shared.progress.notify();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().expect(LOCK)
    }

    fn archive(&self) -> MutexGuard<'_, Archive> {
        self.counts.searches.fetch_add(1, Ordering::Relaxed);
        self.archive.lock().expect(LOCK)
    }

    fn failure(&self) -> Option<Arc<ShardError>> {
        self.failure.lock().expect(LOCK).clone()
    }

    /// Ends everything. Those who wait are told that there is no answer.
    fn fail(&self, error: ShardError) {
        tracing::error!(%error, "the gateway cannot go on");
        self.failure.lock().expect(LOCK).get_or_insert_with(|| Arc::new(error));
        self.stop.set();
        self.gathered.lock().expect(LOCK).iter_mut().for_each(VecDeque::clear);
        self.waiting().clear();
        self.arrivals.notify();
        self.progress.notify();
    }

    fn trouble(&self, thread: &str, error: Option<&ShardError>) {
        let mut troubles = self.troubles.lock().expect(LOCK);
        match error {
            Some(error) => {
                let mut text = error.to_string();
                let mut cause = std::error::Error::source(error);
                while let Some(source) = cause {
                    text = format!("{text}: {source}");
                    cause = source.source();
                }
                if troubles.insert(thread.to_owned(), text.clone()).is_none() {
                    tracing::warn!(thread, text, "the cluster cannot be reached");
                }
            }
            None if troubles.is_empty() => {}
            None => {
                troubles.remove(thread);
            }
        }
    }

    /// Transactions gathered and not handed in.
    fn gathered(&self) -> usize {
        self.gathered.lock().expect(LOCK).iter().map(VecDeque::len).sum()
    }

    fn unanswered(&self) -> usize {
        self.gathered() + self.waiting().unanswered()
    }

    /// Up to which sequence number all balances are.
    fn applied(&self) -> u64 {
        self.books.iter().map(Books::applied).min().unwrap_or(u64::MAX)
    }

    /// Waits until the outcome at `sequence` shows in all balances; whether it does.
    fn settles(&self, sequence: u64, deadline: Instant) -> bool {
        self.comes(|waiting| waiting.next() > sequence, deadline)
    }

    /// Waits until what was told is as wanted; whether it is.
    fn comes(&self, wanted: impl Fn(&Waiting) -> bool, deadline: Instant) -> bool {
        loop {
            let events = self.progress.events();
            if wanted(&self.waiting()) {
                return true;
            }
            if Instant::now() >= deadline || self.stop.is_set() {
                return false;
            }
            self.progress.wait(events, Duration::from_millis(20));
        }
    }

    fn witnesses(&self) -> MutexGuard<'_, Witnesses> {
        self.witnesses.lock().expect(LOCK)
    }

    /// The size of the log, in records, that enough witnesses have cosigned.
    fn witnessed(&self) -> u64 {
        self.witnesses().size()
    }

    /// Whether enough witnesses have cosigned more than they did by what was heard of them: the desk has to be opened
    /// again from there on.
    fn is_passed_by_witnesses(&self) -> Result<bool, ShardError> {
        let (cluster, layout, network) = (&*self.cluster, &self.layout, &*self.network);
        let witnessed =
            proofs::witnessed(cluster, layout, network, self.required, |size| self.archive().reached(size))?;
        Ok(witnessed.is_some_and(|size| size > self.witnessed()))
    }

    fn books(&self, participant: ParticipantId) -> Option<&Books> {
        self.books.iter().find(|books| books.participant == participant)
    }

    /// What became of a transaction; an outcome is told once it shows in the balances.
    fn look_up(&self, wanted: Wanted, since: Timestamp) -> Result<Option<Answer>, EngineError> {
        let Some((transaction, finality)) = self.last(wanted, since)? else { return Ok(None) };
        let settled = finality.filter(|finality| self.settles(finality.sequence, Instant::now() + SETTLES));
        let outcome = settled.map_or(Outcome::Pending, Outcome::Final);
        Ok(Some(Answer { id: transaction.id(&self.network.id), uetr: transaction.header.uetr, outcome }))
    }

    /// The transaction that is wanted, as it was accepted last, and what was decided about it; of what was accepted before `since`
    /// nothing need be found.
    fn last(
        &self,
        wanted: Wanted,
        since: Timestamp,
    ) -> Result<Option<(Transaction, Option<Finality>)>, EngineError> {
        let _one_at_a_time = self.lookup.lock().expect(LOCK);
        let (log, names) = self.ledger()?;
        let found = earlier::last(&log, &names, wanted, since, || self.journal())?;
        let Some(Accepted { place: Withdrawal { source, index }, accepted_at, transaction }) = found else {
            return Ok(None);
        };
        let known = self.waiting().find(source, index);
        if known.is_some() {
            return Ok(Some((transaction, known)));
        }
        let deadline = Instant::now() + SEARCH;
        let decision = earlier::decision(&log, &names, (source, index), accepted_at, deadline);
        let decision = decision.map_err(JournalError::from)?;
        Ok(Some((transaction, decision.and_then(|batch| clerk::find(&batch, index)))))
    }

    fn find(&self, wanted: Wanted) -> Result<Option<Found>, EngineError> {
        let _one_at_a_time = self.lookup.lock().expect(LOCK);
        // The head of a proof is one that was told: enough witnesses have cosigned it.
        let Some(head) = self.waiting().head() else { return Ok(None) };
        let size = head.head.size;
        let mut found = proof::find(self.journal()?, &self.network.id, wanted, size)?;
        if let Some(found) = &mut found {
            found.receipt.cosignatures = self.cosignatures(&found.receipt.head);
        }
        Ok(found)
    }

    /// What witnesses cosigned of a head.
    fn cosignatures(&self, head: &SignedTreeHead) -> Vec<HeadCosignature> {
        proofs::cosignatures(&*self.cluster, &self.layout, &self.network, &head.head)
    }

    /// What was accepted, and the sequence.
    fn ledger(&self) -> Result<(Patient, Names), EngineError> {
        Ok(archive::ledger(&*self.cluster, &self.layout, self.network.id).map_err(JournalError::from)?)
    }

    fn journal(&self) -> Result<Journal, JournalError> {
        Ok(Journal::open(&*self.cluster, &self.layout)?)
    }
}

impl Past for Desk {
    fn network_id(&self) -> &NetworkId {
        &self.shared.network.id
    }

    fn outcome(&self, source: Source, index: u32, deadline: Instant) -> Option<Finality> {
        if let Some(finality) = self.shared.waiting().find(source, index) {
            return Some(finality);
        }
        // It may have been decided before this process began to listen, or longer ago than it remembers.
        let found = self.shared.archive().outcome(source, index, deadline).ok().flatten();
        if let Some(finality) = found {
            return self.shared.settles(finality.sequence, deadline).then_some(finality);
        }
        let mailbox = Mailbox::new(1);
        self.shared.waiting().wait(source, index, mailbox.waiter(0));
        match mailbox.wait(deadline).first() {
            Some(Some(Notice::Final(_, _, finality))) => Some(*finality),
            _ => None,
        }
    }

    fn accepted(&self, source: Source) -> Result<Option<Arc<AcceptedBatch>>, LogError> {
        self.shared.archive().accepted(source)
    }

    fn earlier(&self, expired: &Expected, deadline: Instant) -> Result<Earlier, JournalError> {
        self.shared.archive().find(expired, self.shared.network.longest_validity_ms, deadline)
    }
}

impl Settlement for Desk {
    fn network(&self) -> &Network {
        &self.shared.network
    }

    fn now(&self) -> Timestamp {
        self.shared.clock.now()
    }

    fn health(&self) -> Health {
        if let Some(failure) = self.failure() {
            return Health::Failed { reason: failure.to_string() };
        }
        if let Some(reason) = self.shared.troubles.lock().expect(LOCK).values().next() {
            return Health::Stalled { reason: reason.clone() };
        }
        self.shared.log.health()
    }

    fn submit(&self, transactions: Vec<Transaction>) -> Result<Pending, EngineError> {
        if let Some(failure) = self.failure() {
            return Err(EngineError::Stopped(failure.to_string()));
        }
        let mut places = self.shared.shares.take(&transactions)?.into_iter();
        let (schedulers, now) = (usize::from(self.shared.layout.schedulers), self.now());
        let pending = Pending::hand_in(&self.shared.network.id, transactions, |transaction, waiter| {
            let scheduler = route(&transaction.header.uetr, schedulers);
            let valid =
                Duration::from_millis(transaction.header.expiry.0.saturating_sub(now.0).min(MAX_VALID_MS));
            let place = places.next();
            let waiter: Waiter = Box::new(move |notice| {
                drop(place);
                waiter(notice);
            });
            let handed_in = HandedIn { waiter, valid };
            self.shared.gathered.lock().expect(LOCK)[scheduler].push_back((transaction, handed_in));
        });
        self.shared.arrivals.notify();
        Ok(pending)
    }

    fn wait(&self, pending: &Pending, limit: Duration) -> Vec<Answer> {
        self.answers(pending, limit)
    }

    fn status(&self, wanted: Wanted) -> Result<Option<Answer>, EngineError> {
        self.shared.look_up(wanted, Timestamp(0))
    }

    fn status_since(&self, wanted: Wanted, since: Timestamp) -> Result<Option<Answer>, EngineError> {
        self.shared.look_up(wanted, earlier::accepted_since(since))
    }

    fn accepted(&self, wanted: Wanted) -> Result<Option<Accepted>, EngineError> {
        let since = earlier::undecided_since(self.now(), self.shared.network.longest_validity_ms);
        let _one_at_a_time = self.shared.lookup.lock().expect(LOCK);
        let (log, names) = self.shared.ledger()?;
        Ok(earlier::last(&log, &names, wanted, since, || self.shared.journal())?)
    }

    fn withdraw(&self, accepted: &Accepted) -> Result<(), EngineError> {
        let mut beside = self.shared.beside.lock().expect(LOCK);
        if beside.withdrawals.len() >= MAX_WITHDRAWALS {
            return Err(EngineError::Busy(beside.withdrawals.len()));
        }
        beside.withdrawals.push(accepted.place);
        drop(beside);
        self.shared.arrivals.notify();
        Ok(())
    }

    fn keep(&self, texts: Vec<Vec<u8>>) -> Result<(), EngineError> {
        let mut beside = self.shared.beside.lock().expect(LOCK);
        let bytes: usize = texts.iter().map(Vec::len).sum();
        if beside.bytes + bytes > MAX_TEXTS {
            let full = LogError::Backpressure { pending_bytes: beside.bytes, max_pending_bytes: MAX_TEXTS };
            return Err(EngineError::NotKept(full));
        }
        beside.bytes += bytes;
        beside.texts.extend(texts);
        Ok(())
    }

    fn kept(
        &self,
        between: (Timestamp, Timestamp),
        show: &mut dyn FnMut(Vec<u8>),
    ) -> Result<(), EngineError> {
        let shared = &*self.shared;
        Ok(archive::annex(&*shared.cluster, &shared.layout, between, show).map_err(JournalError::from)?)
    }

    fn receipt(&self, wanted: Wanted) -> Result<Option<Receipt>, EngineError> {
        Ok(self.shared.find(wanted)?.map(|found| found.receipt))
    }

    fn proof(&self, wanted: Wanted, shown: &[ParticipantId]) -> Result<Option<Proof>, EngineError> {
        let shared = &*self.shared;
        let shown: Vec<_> = shown.iter().copied().filter(|of| shared.books(*of).is_some()).collect();
        Ok(shared.find(wanted)?.map(|found| {
            let approval = |of| proofs::approval(&*shared.cluster, &shared.layout, &found, of);
            found.proof(&shared.network, &shown, approval)
        }))
    }

    fn consistency(&self, first: u64, second: u64) -> Result<Option<Consistency>, EngineError> {
        let (log, topic) =
            proofs::sequence(&*self.shared.cluster, &self.shared.layout).map_err(JournalError::from)?;
        let mut consistency = proof::consistency(crate::journal::sequence(&log, topic), first, second)?;
        if let Some(consistency) = &mut consistency {
            consistency.first_cosignatures = self.shared.cosignatures(&consistency.first);
            consistency.second_cosignatures = self.shared.cosignatures(&consistency.second);
        }
        Ok(consistency)
    }

    fn catch_up(&self, limit: Duration) -> Result<(), EngineError> {
        let deadline = Instant::now() + limit;
        let end = self.shared.latest.end(deadline);
        let reached = end.is_some_and(|end| self.shared.comes(|told| told.records() >= end, deadline));
        if reached { Ok(()) } else { Err(EngineError::Behind) }
    }

    fn account(&self, id: AccountId) -> Option<AccountView> {
        AccountView::of(&self.shared.books(id.participant)?.state(), id)
    }

    fn account_by_alias(&self, participant: ParticipantId, alias: &str) -> Option<AccountId> {
        let number = self.shared.books(participant)?.state().alias(alias)?;
        Some(AccountId { participant, number })
    }

    fn alias(&self, id: AccountId) -> Option<String> {
        let state = self.shared.books(id.participant)?.state();
        state.aliases().iter().find(|(_, number)| *number == id.number).map(|(alias, _)| alias.to_owned())
    }

    fn next_account(&self, participant: ParticipantId) -> Option<AccountNumber> {
        Some(AccountNumber(self.shared.books(participant)?.state().accounts().customers()))
    }

    fn statement(&self, id: AccountId, wanted: &Movements) -> Result<Statement, EngineError> {
        let held = self.shared.books(id.participant).and_then(|books| Held::of(&books.state(), id));
        let Some(held) = held else { return Ok(Statement::default()) };
        let _one_at_a_time = self.shared.lookup.lock().expect(LOCK);
        let (log, names) = self.shared.ledger()?;
        let began = Instant::now();
        loop {
            let all = || self.shared.journal();
            match statement::read(&log, &names, &held, wanted, &self.shared.ends, all) {
                // The partitions of one commit need not become visible in one moment.
                Err(JournalError::Replay { .. }) if began.elapsed() < archive::ARRIVES => {
                    log.0.wait(Duration::from_millis(20));
                }
                read => return Ok(read?),
            }
        }
    }

    fn transaction(&self, sequence: u64) -> Result<Option<Transaction>, EngineError> {
        Ok(self.shared.archive().transaction(sequence).map_err(JournalError::from)?)
    }

    fn outcomes(&self, place: &mut Place) -> Result<Option<Outcomes>, EngineError> {
        if place.next() >= self.sequenced() {
            return Ok(None);
        }
        self.shared.archive().outcomes(place)
    }

    fn totals(&self) -> Vec<Total> {
        let of = |books: &Books| crate::audit::totals(books.state().accounts(), &self.shared.network);
        self.shared.books.iter().flat_map(of).collect()
    }

    fn sequenced(&self) -> u64 {
        self.shared.waiting().next()
    }

    fn tree_head(&self) -> Option<SignedTreeHead> {
        self.shared.waiting().head()
    }

    fn counts(&self) -> Counts {
        self.shared.waiting().counts().clone()
    }

    fn remembered(&self) -> Option<usize> {
        None
    }

    fn figures(&self) -> Vec<Figure> {
        let (gathered, told) = (self.shared.gathered() as u64, self.shared.waiting().unanswered() as u64);
        let heard = self.shared.waiting().heard();
        let counts = &self.shared.counts;
        let now = |name, help, value| Figure { name, help, value, counts: false };
        let total = |name, help, count: &AtomicU64| Figure {
            name,
            help,
            value: count.load(Ordering::Relaxed),
            counts: true,
        };
        vec![
            now("tally_gateway_gathered_transactions", "Transactions not handed in yet", gathered),
            now("tally_gateway_unanswered_transactions", "Transactions handed in and not answered", told),
            now(
                "tally_gateway_decisions_behind",
                "Decisions heard that do not show in all balances yet",
                heard.saturating_sub(self.shared.applied()),
            ),
            total("tally_gateway_handed_in_transactions", "Transactions handed in", &counts.handed_in),
            total("tally_gateway_log_commits", "Commits of what was handed in", &counts.commits),
            total("tally_gateway_log_commit_nanoseconds", "Time that these took", &counts.commit_ns),
            total(
                "tally_gateway_topic_searches",
                "Looks into the topics for what was earlier",
                &counts.searches,
            ),
        ]
    }
}
