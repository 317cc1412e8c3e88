//! What survives a crash of a node, the faults it has, and a witness of everything that was written to it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tally_contracts::{AttachmentId, Name, PublicKey, SignedTransaction, StateRef, Timestamp, TransactionId};
use tally_store::{
    Coin, CoinCursor, Consent, Consumption, FlowKey, FlowPage, FlowQuery, FlowRow, Outstanding, Past, Queues,
    Result, SavedFlow, Sqlite, SqliteOptions, StatePage, StateQuery, Store, StoreError, Undelivered,
    UndeliveredQuery, UnresolvedRow, Usage, VaultState, Write,
};

use super::memory::Memory;

/// What happens to a batch instead of what should.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// It is not applied, and the caller is told so.
    Refused,
    /// It is applied, and the caller is told that it may not be.
    AnswerLost,
}

/// Something that a disk forgets to write, to see whether that is noticed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forgotten {
    /// What a notary has seen consumed: as if it did not look.
    Consumed,
    /// Messages that arrived for flows.
    Arrivals,
    /// Messages to peers.
    Sends,
    /// Which flow holds which state.
    Locks,
    /// What a transaction consumed in the vault.
    Vault,
    /// That a flow has ended.
    Ends,
    /// How far the messages of peers have been received.
    Received,
    /// Who has not confirmed a final transaction.
    Undelivered,
    /// Which transactions are not known to be final.
    Unresolved,
}

impl Forgotten {
    /// Every one.
    pub const ALL: [Self; 9] = [
        Self::Consumed,
        Self::Arrivals,
        Self::Sends,
        Self::Locks,
        Self::Vault,
        Self::Ends,
        Self::Received,
        Self::Undelivered,
        Self::Unresolved,
    ];

    /// What is written instead; nothing at all if `None`.
    fn instead(self, write: &Write) -> Option<Write> {
        match (self, write) {
            (Self::Consumed, Write::Consumed { .. })
            | (Self::Arrivals, Write::Arrival { .. })
            | (Self::Sends, Write::Send { .. })
            | (Self::Locks, Write::Lock { .. })
            | (Self::Ends, Write::FlowEnded { .. })
            | (Self::Received, Write::Received { .. })
            | (Self::Undelivered, Write::Undelivered { .. })
            | (Self::Unresolved, Write::Unresolved(_)) => None,
            (Self::Vault, Write::Transaction(recorded)) => {
                Some(Write::Transaction(tally_store::Recorded { consumed: Vec::new(), ..recorded.clone() }))
            }
            (_, other) => Some(other.clone()),
        }
    }
}

enum Medium {
    Memory(Arc<Memory>),
    File { path: PathBuf, open: Option<Arc<Sqlite>> },
}

/// A node's disk. It outlives the node.
pub(crate) struct Disk {
    medium: Mutex<Medium>,
    faults: Mutex<Faults>,
    audit: Mutex<Audit>,
    forgotten: Mutex<Option<Forgotten>>,
}

#[derive(Default)]
struct Faults {
    /// What happens to the next batches.
    batches: VecDeque<Fault>,
    /// So many reads fail.
    reads: u32,
}

/// All that was ever written, as it was written, checked against what may never happen.
#[derive(Default)]
pub(crate) struct Audit {
    /// Flows that have begun, and the randomness they began with.
    pub(crate) begun: BTreeMap<FlowKey, [u8; 32]>,
    /// Flows that have ended.
    pub(crate) ended: BTreeMap<FlowKey, Vec<u8>>,
    /// Recorded transactions, in order.
    pub(crate) recorded: BTreeMap<TransactionId, Arc<SignedTransaction>>,
    /// Transactions that a flow fetched.
    pub(crate) fetched: BTreeMap<TransactionId, Arc<SignedTransaction>>,
    /// The notary's memory.
    pub(crate) consumed: BTreeMap<StateRef, TransactionId>,
    /// Messages that may leave.
    pub(crate) sent: BTreeMap<Name, Vec<Vec<u8>>>,
    /// How far the messages of each peer have been received.
    pub(crate) received: BTreeMap<Name, u64>,
    /// Flows that are held for a person, and why.
    pub(crate) held: Vec<(FlowKey, String)>,
    /// A batch that was applied without an answer: it comes again, unless the node dies.
    unanswered: Option<Vec<Write>>,
    /// Messages that arrived for flows.
    arrived: BTreeSet<(FlowKey, [u8; 16], u64)>,
    pub(crate) batches: u64,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Audit {
    fn see(&mut self, writes: &[Write]) {
        self.batches += 1;
        for write in writes {
            self.see_one(write);
        }
    }

    fn see_one(&mut self, write: &Write) {
        match write {
            Write::FlowStarted(flow) => self.begin(flow.flow, flow.seed),
            Write::FlowEnded { flow, outcome, .. } => self.end(*flow, outcome),
            Write::FlowEndedAtOnce { flow, outcome, .. } => {
                self.begin(flow.flow, flow.seed);
                self.end(flow.flow, outcome);
            }
            Write::FlowMarked { flow, mark: tally_store::Mark::Held { reason } } => {
                self.held.push((*flow, reason.clone()));
            }
            Write::Arrival { flow, session, number, .. } => {
                assert!(self.arrived.insert((*flow, *session, *number)), "a message was applied twice");
            }
            Write::Transaction(recorded) => {
                let signed = read(&recorded.bytes);
                assert_eq!(signed.id(), recorded.id, "a transaction is recorded under its own id");
                self.recorded.entry(recorded.id).or_insert(signed);
            }
            Write::Dependency { id, bytes, .. } => {
                self.fetched.entry(*id).or_insert_with(|| read(bytes));
            }
            Write::Consumed { state, by, .. } => {
                let first = *self.consumed.entry(*state).or_insert(*by);
                assert_eq!(first, *by, "{state} is consumed twice");
            }
            Write::Send { peer, number, message } => {
                let queue = self.sent.entry(peer.clone()).or_default();
                assert_eq!(*number, queue.len() as u64 + 1, "messages to {peer} are numbered without a gap");
                queue.push(message.clone());
            }
            Write::Received { peer, up_to, .. } => {
                let known = self.received.entry(peer.clone()).or_default();
                assert!(*up_to >= *known, "what was received from {peer} is received");
                *known = *up_to;
            }
            _ => {}
        }
    }

    fn begin(&mut self, flow: FlowKey, seed: [u8; 32]) {
        assert!(self.begun.insert(flow, seed).is_none(), "flow {flow:02x?} began twice");
    }

    fn end(&mut self, flow: FlowKey, outcome: &[u8]) {
        assert!(self.begun.contains_key(&flow), "flow {flow:02x?} ended and had not begun");
        assert!(self.ended.insert(flow, outcome.to_vec()).is_none(), "flow {flow:02x?} ended twice");
    }
}

fn read(bytes: &[u8]) -> Arc<SignedTransaction> {
    Arc::new(SignedTransaction::decode(bytes).expect("a stored transaction decodes"))
}

impl Disk {
    pub(crate) fn memory(queue: [u8; 16]) -> Self {
        Self::on(Medium::Memory(Arc::new(Memory::new(queue))))
    }

    pub(crate) fn file(path: PathBuf) -> Self {
        Self::on(Medium::File { path, open: None })
    }

    fn on(medium: Medium) -> Self {
        Self {
            medium: Mutex::new(medium),
            faults: Mutex::default(),
            audit: Mutex::default(),
            forgotten: Mutex::default(),
        }
    }

    /// Another disk that holds the same.
    pub(crate) fn copy(&self) -> Self {
        let copied = match &*lock(&self.medium) {
            Medium::Memory(memory) => memory.copy(),
            Medium::File { .. } => panic!("files are not copied"),
        };
        let copy = Self::on(Medium::Memory(Arc::new(copied)));
        *lock(&copy.audit) = lock(&self.audit).copy();
        copy
    }

    /// The process that used it is gone.
    pub(crate) fn close(&self) {
        self.audit().unanswered = None;
        if let Medium::File { open, .. } = &mut *lock(&self.medium) {
            *open = None;
        }
    }

    /// The next batches have these faults.
    pub(crate) fn fail_batches(&self, faults: impl IntoIterator<Item = Fault>) {
        lock(&self.faults).batches.extend(faults);
    }

    /// So many of the next reads fail.
    pub(crate) fn fail_reads(&self, count: u32) {
        lock(&self.faults).reads = count;
    }

    /// From now on something is not written, and the caller is told that it was.
    pub(crate) fn forget(&self, forgotten: Option<Forgotten>) {
        *lock(&self.forgotten) = forgotten;
    }

    pub(crate) fn heal(&self) {
        *lock(&self.faults) = Faults::default();
    }

    pub(crate) fn audit(&self) -> MutexGuard<'_, Audit> {
        lock(&self.audit)
    }

    fn store(&self) -> Arc<dyn Store> {
        match &mut *lock(&self.medium) {
            Medium::Memory(memory) => memory.clone(),
            Medium::File { path, open } => match open {
                Some(open) => open.clone(),
                None => {
                    let options =
                        SqliteOptions { readers: 1, cache_mib: 1, ..SqliteOptions::new(path.clone()) };
                    let opened = Sqlite::open(&options).unwrap_or_else(|error| panic!("{error:?}"));
                    open.insert(Arc::new(opened)).clone()
                }
            },
        }
    }

    /// Everything below is without faults: for whoever checks.
    pub(crate) fn truth(&self) -> Arc<dyn Store> {
        self.store()
    }

    fn reads(&self) -> Result<Arc<dyn Store>> {
        let mut faults = lock(&self.faults);
        if faults.reads > 0 {
            faults.reads -= 1;
            return Err(lost());
        }
        drop(faults);
        Ok(self.store())
    }
}

fn lost() -> StoreError {
    StoreError::Unreachable("the simulation says so".into())
}

impl Audit {
    fn copy(&self) -> Self {
        Self {
            begun: self.begun.clone(),
            ended: self.ended.clone(),
            recorded: self.recorded.clone(),
            fetched: self.fetched.clone(),
            consumed: self.consumed.clone(),
            sent: self.sent.clone(),
            received: self.received.clone(),
            held: self.held.clone(),
            unanswered: None,
            arrived: self.arrived.clone(),
            batches: self.batches,
        }
    }
}

impl Store for Disk {
    fn apply(&self, writes: &[Write]) -> Result<()> {
        let fault = lock(&self.faults).batches.pop_front();
        if fault == Some(Fault::Refused) {
            return Err(lost());
        }
        let store = self.store();
        let mut audit = self.audit();
        let again = audit.unanswered.as_deref() == Some(writes);
        match *lock(&self.forgotten) {
            None => store.apply(writes)?,
            Some(forgotten) => {
                let kept: Vec<_> = writes.iter().filter_map(|write| forgotten.instead(write)).collect();
                store.apply(&kept)?;
            }
        }
        if !again {
            assert!(audit.unanswered.is_none(), "another batch came where one was to be repeated");
            audit.see(writes);
        }
        let unanswered = fault == Some(Fault::AnswerLost);
        audit.unanswered = unanswered.then(|| writes.to_vec());
        if unanswered { Err(lost()) } else { Ok(()) }
    }

    fn unfinished_flows(&self, after: Option<FlowKey>, limit: usize) -> Result<Vec<SavedFlow>> {
        self.reads()?.unfinished_flows(after, limit)
    }

    fn flow(&self, flow: FlowKey) -> Result<Option<FlowRow>> {
        self.reads()?.flow(flow)
    }

    fn flows(&self, query: &FlowQuery) -> Result<FlowPage> {
        self.reads()?.flows(query)
    }

    fn outbound(&self, peer: &Name, after: u64, limit_bytes: usize) -> Result<Vec<(u64, Vec<u8>)>> {
        self.reads()?.outbound(peer, after, limit_bytes)
    }

    fn queues(&self) -> Result<Queues> {
        self.reads()?.queues()
    }

    fn transaction(&self, id: TransactionId) -> Result<Option<Vec<u8>>> {
        self.reads()?.transaction(id)
    }

    fn transactions(&self, ids: &[TransactionId]) -> Result<Vec<Option<Vec<u8>>>> {
        self.reads()?.transactions(ids)
    }

    fn dependency(&self, flow: FlowKey, id: TransactionId) -> Result<Option<Vec<u8>>> {
        self.reads()?.dependency(flow, id)
    }

    fn dependencies(
        &self,
        flow: FlowKey,
        after: Option<TransactionId>,
        limit: usize,
    ) -> Result<Vec<(TransactionId, Vec<u8>)>> {
        self.reads()?.dependencies(flow, after, limit)
    }

    fn states(&self, query: &StateQuery) -> Result<StatePage> {
        self.reads()?.states(query)
    }

    fn vault(&self, references: &[StateRef]) -> Result<Vec<Option<VaultState>>> {
        self.reads()?.vault(references)
    }

    fn coins(
        &self,
        asset: &str,
        owner: &PublicKey,
        after: Option<CoinCursor>,
        limit: usize,
    ) -> Result<Vec<Coin>> {
        self.reads()?.coins(asset, owner, after, limit)
    }

    fn locks(&self) -> Result<Vec<(StateRef, FlowKey)>> {
        self.reads()?.locks()
    }

    fn attachment(&self, id: AttachmentId) -> Result<Option<Vec<u8>>> {
        self.reads()?.attachment(id)
    }

    fn consumed(&self, states: &[StateRef]) -> Result<Vec<Option<Consumption>>> {
        self.reads()?.consumed(states)
    }

    fn consents(&self, since: Timestamp) -> Result<Vec<Consent>> {
        self.reads()?.consents(since)
    }

    fn undelivered(&self, query: &UndeliveredQuery) -> Result<Vec<Undelivered>> {
        self.reads()?.undelivered(query)
    }

    fn unresolved(
        &self,
        transaction: Option<TransactionId>,
        due_by: Option<Timestamp>,
        limit: usize,
    ) -> Result<Vec<UnresolvedRow>> {
        self.reads()?.unresolved(transaction, due_by, limit)
    }

    fn outstanding(&self) -> Result<Outstanding> {
        self.reads()?.outstanding()
    }

    fn past(&self) -> Result<Past> {
        self.reads()?.past()
    }

    fn ledger(&self, after: u64, limit: usize) -> Result<Vec<(u64, Vec<u8>)>> {
        self.reads()?.ledger(after, limit)
    }

    fn usage(&self) -> Usage {
        self.store().usage()
    }
}
