//! A real network whose desk can be held up.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex};
use std::time::Duration;
use tally_crypto::log::SignedTreeHead;
use tally_ledger::{AccountId, AccountNumber, Network, ParticipantId, Timestamp, Transaction};
use tally_log::Health;
use tally_proof::{Consistency, Proof, Receipt};
use tally_settlement::clerk::Counts;
use tally_settlement::desk::{Accepted, Settlement};
use tally_settlement::engine::{AccountView, Answer, Engine, EngineError, Pending, Total};
use tally_settlement::outcomes::{Outcomes, Place};
use tally_settlement::proof::Wanted;
use tally_settlement::statement::{Movements, Statement};

pub(super) struct HeldDesk {
    pub(super) engine: Engine,
    /// How often it says that it is busy before it takes anything.
    pub(super) busy: AtomicUsize,
    /// How many requests it took.
    pub(super) taken: AtomicUsize,
    /// How often the journal was searched, or accounts were looked up or waited for.
    pub(super) looks: AtomicUsize,
    /// Whether outcomes are kept back.
    holds: Mutex<bool>,
    released: Condvar,
}

impl HeldDesk {
    pub(super) fn new(engine: Engine) -> Self {
        let [busy, taken, looks] = [0; 3].map(AtomicUsize::new);
        Self { engine, busy, taken, looks, holds: Mutex::new(false), released: Condvar::new() }
    }

    fn looks(&self) -> &Engine {
        self.looks.fetch_add(1, Ordering::SeqCst);
        &self.engine
    }

    pub(super) fn hold(&self, holds: bool) {
        *self.holds.lock().unwrap() = holds;
        self.released.notify_all();
    }
}

impl Settlement for HeldDesk {
    fn submit(&self, transactions: Vec<Transaction>) -> Result<Pending, EngineError> {
        let less = self.busy.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |busy| busy.checked_sub(1));
        if less.is_ok() {
            return Err(EngineError::Busy(1));
        }
        self.taken.fetch_add(1, Ordering::SeqCst);
        self.engine.submit(transactions)
    }
    fn wait(&self, pending: &Pending, limit: Duration) -> Vec<Answer> {
        let holds = self.holds.lock().unwrap();
        drop(self.released.wait_while(holds, |holds| *holds).unwrap());
        Settlement::wait(&self.engine, pending, limit)
    }
    fn network(&self) -> &Network {
        Settlement::network(&self.engine)
    }
    fn now(&self) -> Timestamp {
        self.engine.now()
    }
    fn health(&self) -> Health {
        self.engine.health()
    }
    fn status(&self, wanted: Wanted) -> Result<Option<Answer>, EngineError> {
        Settlement::status(self.looks(), wanted)
    }
    fn status_since(&self, wanted: Wanted, since: Timestamp) -> Result<Option<Answer>, EngineError> {
        Settlement::status_since(self.looks(), wanted, since)
    }
    fn accepted(&self, wanted: Wanted) -> Result<Option<Accepted>, EngineError> {
        Settlement::accepted(self.looks(), wanted)
    }
    fn withdraw(&self, accepted: &Accepted) -> Result<(), EngineError> {
        Settlement::withdraw(&self.engine, accepted)
    }
    fn keep(&self, texts: Vec<Vec<u8>>) -> Result<(), EngineError> {
        Settlement::keep(&self.engine, texts)
    }
    fn kept(
        &self,
        between: (Timestamp, Timestamp),
        show: &mut dyn FnMut(Vec<u8>),
    ) -> Result<(), EngineError> {
        Settlement::kept(&self.engine, between, show)
    }
    fn receipt(&self, wanted: Wanted) -> Result<Option<Receipt>, EngineError> {
        Settlement::receipt(self.looks(), wanted)
    }
    fn proof(&self, wanted: Wanted, shown: &[ParticipantId]) -> Result<Option<Proof>, EngineError> {
        Settlement::proof(self.looks(), wanted, shown)
    }
    fn consistency(&self, first: u64, second: u64) -> Result<Option<Consistency>, EngineError> {
        Settlement::consistency(&self.engine, first, second)
    }
    fn catch_up(&self, limit: Duration) -> Result<(), EngineError> {
        self.looks().catch_up(limit)
    }
    fn account(&self, id: AccountId) -> Option<AccountView> {
        Settlement::account(self.looks(), id)
    }
    fn account_by_alias(&self, participant: ParticipantId, alias: &str) -> Option<AccountId> {
        Settlement::account_by_alias(self.looks(), participant, alias)
    }
    fn alias(&self, id: AccountId) -> Option<String> {
        Settlement::alias(self.looks(), id)
    }
    fn next_account(&self, participant: ParticipantId) -> Option<AccountNumber> {
        Settlement::next_account(self.looks(), participant)
    }
    fn statement(&self, id: AccountId, wanted: &Movements) -> Result<Statement, EngineError> {
        Settlement::statement(self.looks(), id, wanted)
    }
    fn transaction(&self, sequence: u64) -> Result<Option<Transaction>, EngineError> {
        Settlement::transaction(&self.engine, sequence)
    }
    fn outcomes(&self, place: &mut Place) -> Result<Option<Outcomes>, EngineError> {
        Settlement::outcomes(&self.engine, place)
    }
    fn totals(&self) -> Vec<Total> {
        Settlement::totals(&self.engine)
    }
    fn sequenced(&self) -> u64 {
        Settlement::sequenced(&self.engine)
    }
    fn tree_head(&self) -> Option<SignedTreeHead> {
        Settlement::tree_head(&self.engine)
    }
    fn counts(&self) -> Counts {
        Settlement::counts(&self.engine)
    }
    fn remembered(&self) -> Option<usize> {
        Settlement::remembered(&self.engine)
    }
}
