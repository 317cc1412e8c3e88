//! The desk: where clients hand transactions in and ask about accounts.

use super::answer::{Expected, Mailbox};
use super::earlier::{self, Earlier};
use super::past::Past;
use super::{Answer, EngineError, LOCK, MAX_WAITING, Outcome, Pending, Shared, VolumePort};
use crate::accounts::BALANCE_RANGE;
use crate::annex;
use crate::clerk::{Counts, Finality, Notice};
use crate::desk::Accepted;
use crate::journal::{self, ANNEX, JournalError, SEQUENCE};
use crate::message::{AcceptedBatch, SequenceBatch, Source, Withdrawal};
use crate::outcomes::{self, Outcomes, Place};
use crate::proof::{self, Found, Search, Wanted};
use crate::recent::Reference;
use crate::stage::Updater;
use crate::statement::{self, Held, Movements, Statement};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tally_crypto::PublicKey;
use tally_crypto::log::SignedTreeHead;
use tally_ledger::{
    AccountId, AccountNumber, AccountRole, AccountStatus, Amount, AssetId, Network, NetworkId, ParticipantId,
    Timestamp, Transaction,
};
use tally_log::{LogError, Ticket, Visibility};
use tally_proof::{Consistency, Proof, Receipt};

/// How long the sequence is searched for one outcome.
const SEARCH: Duration = Duration::from_secs(60);

/// An account as others see it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AccountView {
    /// Which.
    pub id: AccountId,
    /// What it holds.
    pub asset: AssetId,
    /// What it holds of it: durable.
    pub balance: Amount,
    /// Whether it takes part in payments.
    pub status: AccountStatus,
    /// How far below zero it may go.
    pub floor: Amount,
    /// Whose signature debits it; none for an institution's own.
    pub owner: Option<PublicKey>,
}

impl AccountView {
    /// The account in the books that `updater` keeps.
    pub(crate) fn of(updater: &Updater, id: AccountId) -> Option<Self> {
        let accounts = updater.accounts();
        let account = accounts.get(id.number)?;
        let owner =
            matches!(id.number.role(), AccountRole::Customer).then(|| accounts.owner(account).copied());
        Some(Self {
            id,
            asset: account.asset,
            balance: Amount(account.balance),
            status: account.status(),
            floor: Amount(accounts.floor(id.number, account).0.max(-BALANCE_RANGE)),
            owner: owner.flatten(),
        })
    }
}

/// The sums of one participant's books in one asset.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Total {
    /// Whose.
    pub participant: ParticipantId,
    /// In what.
    pub asset: AssetId,
    /// Open, frozen and closed customers' accounts.
    pub accounts: u64,
    /// What is on customers' accounts.
    pub customers: i128,
    /// The institution's own funds.
    pub own: i128,
    /// What it issued.
    pub issued: i128,
    /// What others hold at it on settlement accounts.
    pub settlement: i128,
}

/// The clients' side of a network, whoever runs its stages.
#[derive(Clone)]
pub struct Desk {
    pub(super) shared: Arc<Shared>,
}

impl Desk {
    /// Who takes part.
    pub fn network(&self) -> &Network {
        &self.shared.network
    }
    /// Hands transactions in; what becomes of them is told by [`Self::wait`].
    ///
    /// # Errors
    /// When the network has stopped, or too much waits already: nothing was handed in.
    pub fn submit(&self, transactions: Vec<Transaction>) -> Result<Pending, EngineError> {
        let waiting: usize = self.shared.collectors.iter().map(|c| c.waiting.lock().expect(LOCK).len()).sum();
        if waiting + transactions.len() > MAX_WAITING {
            return Err(EngineError::Busy(waiting));
        }
        let pending = Pending::hand_in(&self.shared.network.id, transactions, |transaction, waiter| {
            let collector = &self.shared.collectors[self.shared.route(&transaction.header.uetr)];
            collector.waiting.lock().expect(LOCK).push_back((transaction, waiter));
        });
        self.shared.signal.notify();
        Ok(pending)
    }

    /// What has become of `pending`, waiting for it at most so long. A transaction that was handed in
    /// before, to the letter, has the outcome that it had then, also when it has expired since: the journal is
    /// searched for it, one search at a time, and it is pending if there is no time for that.
    pub fn wait(&self, pending: &Pending, limit: Duration) -> Vec<Answer> {
        self.answers(pending, limit)
    }

    fn read_accepted(
        &self,
        source: Source,
        visibility: Visibility,
    ) -> Result<Option<AcceptedBatch>, LogError> {
        journal::record(&self.shared.log, journal::accepted(source.scheduler), source.number, visibility)
    }

    fn finality(&self, source: Source, index: u32, deadline: Instant) -> Option<Finality> {
        let positions = {
            let clerk = self.shared.clerk();
            match clerk.decided_at(source) {
                Some((positions, _)) => positions.to_vec(),
                None if clerk.has_forgotten(source) => {
                    drop(clerk);
                    return self.search(source, index, deadline);
                }
                None => return None,
            }
        };
        positions.into_iter().find_map(|position| {
            let batch: SequenceBatch =
                journal::record(&self.shared.log, SEQUENCE, position, Visibility::Durable).ok()??;
            crate::clerk::find(&batch, index)
        })
    }

    /// An outcome so old that nobody remembers where it lies; found by reading the sequence from when it was accepted.
    fn search(&self, source: Source, index: u32, deadline: Instant) -> Option<Finality> {
        let accepted = self.read_accepted(source, Visibility::Durable).ok()??;
        let (place, from) = ((source, index), accepted.accepted_at);
        let batch = earlier::decision(&self.shared.log, &self.shared.names, place, from, deadline).ok()??;
        crate::clerk::find(&batch, index)
    }

    /// What became of a transaction: from memory while its reference is remembered, else by reading the journal back from
    /// its end.
    ///
    /// # Errors
    /// When the journal cannot be read.
    pub fn status(&self, wanted: Wanted) -> Result<Option<Answer>, EngineError> {
        self.status_since(wanted, Timestamp(0))
    }

    /// As [`Self::status`], of a transaction that cannot have been handed in before `since`.
    ///
    /// # Errors
    /// When the journal cannot be read.
    pub fn status_since(&self, wanted: Wanted, since: Timestamp) -> Result<Option<Answer>, EngineError> {
        // What cannot be read at its place now is looked for.
        if let Ok(Some(Accepted { place: Withdrawal { source, index }, transaction, .. })) =
            self.accepted_last(wanted)
        {
            let deadline = Instant::now() + SEARCH;
            let outcome = self.finality(source, index, deadline).map_or(Outcome::Pending, Outcome::Final);
            let (id, uetr) = (transaction.id(&self.shared.network.id), transaction.header.uetr);
            return Ok(Some(Answer { id, uetr, outcome }));
        }
        self.look_up(wanted, earlier::accepted_since(since))
    }

    /// The transaction that is wanted by its reference, as it was accepted last, while that reference is used; the institution's
    /// own before others'. Of one that was freed, or has expired, only the journal knows who used it last.
    ///
    /// # Errors
    /// When the journal cannot be read.
    pub fn accepted_last(&self, wanted: Wanted) -> Result<Option<Accepted>, EngineError> {
        let (uetr, own) = match wanted {
            Wanted::Id(_) => return Ok(None),
            Wanted::Uetr(uetr) => (uetr, None),
            Wanted::Concerning(participant, uetr) => (uetr, Some(participant)),
            Wanted::Of(Reference { participant, uetr }) => (uetr, Some(participant)),
        };
        let scheduler = &self.shared.schedulers[self.shared.route(&uetr)];
        let mut uses = scheduler.lock().expect(LOCK).uses(&uetr);
        if matches!(wanted, Wanted::Of(_)) {
            uses.retain(|(participant, ..)| Some(*participant) == own);
        }
        // Its own one first, then those that were accepted first.
        uses.sort_by_key(|(participant, place)| (Some(*participant) != own, *place));
        let search = Search::new(&self.shared.network.id, wanted);
        for (_, (source, index)) in uses {
            let batch = self.read_accepted(source, Visibility::Appended).map_err(JournalError::from)?;
            if let Some(AcceptedBatch { accepted_at, batch }) = batch
                && search.is_meant(&batch, index)
                && let Some(transaction) = batch.transaction(index as usize)
            {
                let place = Withdrawal { source, index };
                return Ok(Some(Accepted { place, accepted_at, transaction }));
            }
        }
        Ok(None)
    }

    /// Asks that an accepted transaction be refused if it is not decided.
    pub fn withdraw(&self, accepted: &Accepted) {
        self.shared.withdrawals.send(Arc::new(accepted.place));
    }

    /// Keeps texts that transactions commit to: durable when what is handed in afterwards is accepted.
    ///
    /// # Errors
    /// When the log takes none now.
    pub fn keep(&self, now: Timestamp, texts: Vec<Vec<u8>>) -> Result<(), EngineError> {
        let mut last = self.shared.kept.lock().expect(LOCK);
        *last = now.max(*last);
        annex::append(&*self.shared.log, ANNEX, *last, texts).map_err(EngineError::NotKept)
    }

    /// Shows the texts that were kept between those times.
    ///
    /// # Errors
    /// When the journal cannot be read.
    pub fn kept(
        &self,
        between: (Timestamp, Timestamp),
        show: &mut dyn FnMut(Vec<u8>),
    ) -> Result<(), EngineError> {
        Ok(annex::read(&*self.shared.log, ANNEX, between, show).map_err(JournalError::from)?)
    }

    fn look_up(&self, wanted: Wanted, since: Timestamp) -> Result<Option<Answer>, EngineError> {
        let Shared { log, names, .. } = &*self.shared;
        let found = earlier::last(&**log, names, wanted, since, || Ok(journal::entries(log, Ticket(0))))?;
        Ok(found.map(|Accepted { place: Withdrawal { source, index }, transaction, .. }| {
            let finality = self.finality(source, index, Instant::now() + SEARCH);
            let outcome = finality.map_or(Outcome::Pending, Outcome::Final);
            Answer { id: transaction.id(&names.network), uetr: transaction.header.uetr, outcome }
        }))
    }

    /// Proof of the outcome of a transaction; none while it has none. Found by reading the journal.
    ///
    /// # Errors
    /// When the journal cannot be read.
    pub fn receipt(&self, wanted: Wanted) -> Result<Option<Receipt>, EngineError> {
        Ok(self.find(wanted)?.map(|found| found.receipt))
    }

    /// Proof for others of the outcome of a transaction, which shows the legs of those participants; none while it has
    /// none. Found by reading the journal.
    ///
    /// Approvals are not kept here: the institutions' keys, which approved it, sign for what is settled again.
    ///
    /// # Errors
    /// When the journal cannot be read.
    pub fn proof(&self, wanted: Wanted, shown: &[ParticipantId]) -> Result<Option<Proof>, EngineError> {
        Ok(self.find(wanted)?.map(|found| {
            let network = &self.shared.network;
            let key = |of: ParticipantId| self.shared.keys.get(of.index());
            found.proof(network, shown, |of| found.approve_again(&network.id, of, key(of)?))
        }))
    }

    fn find(&self, wanted: Wanted) -> Result<Option<Found>, EngineError> {
        let entries = journal::entries(&self.shared.log, Ticket(0));
        Ok(proof::find(entries, &self.shared.network.id, wanted, u64::MAX)?)
    }

    /// Proof that the Merkle log of `second` records extends that of `first` records; none while it is shorter than
    /// that, or where `first` is 0 or the larger one. Found by reading the sequence.
    ///
    /// # Errors
    /// When the journal cannot be read.
    pub fn consistency(&self, first: u64, second: u64) -> Result<Option<Consistency>, EngineError> {
        Ok(proof::consistency(journal::sequence(&*self.shared.log, SEQUENCE), first, second)?)
    }

    /// The account, if there is one.
    pub fn account(&self, id: AccountId) -> Option<AccountView> {
        let state = self.shared.updaters.get(id.participant.index())?.lock().expect(LOCK);
        AccountView::of(&state, id)
    }

    /// The account of that IBAN or other alias at that participant.
    pub fn account_by_alias(&self, participant: ParticipantId, alias: &str) -> Option<AccountId> {
        let state = self.shared.updaters.get(participant.index())?.lock().expect(LOCK);
        state.alias(alias).map(|number| AccountId { participant, number })
    }

    /// The alias of an account, found by looking through all.
    pub fn alias(&self, id: AccountId) -> Option<String> {
        let state = self.shared.updaters.get(id.participant.index())?.lock().expect(LOCK);
        state.aliases().iter().find(|(_, number)| *number == id.number).map(|(alias, _)| alias.to_owned())
    }

    /// The number that the next account opened at that participant gets.
    pub fn next_account(&self, participant: ParticipantId) -> Option<AccountNumber> {
        let state = self.shared.updaters.get(participant.index())?.lock().expect(LOCK);
        Some(AccountNumber(state.accounts().customers()))
    }

    /// Movements on an account; none where there is no such account.
    ///
    /// # Errors
    /// When the journal cannot be read.
    pub fn statement(&self, id: AccountId, wanted: &Movements) -> Result<Statement, EngineError> {
        let updater = self.shared.updaters.get(id.participant.index());
        let held = updater.and_then(|updater| Held::of(&updater.lock().expect(LOCK), id));
        let Some(held) = held else { return Ok(Statement::default()) };
        let Shared { log, names, ends, .. } = &*self.shared;
        Ok(statement::read(&**log, names, &held, wanted, ends, || Ok(journal::entries(log, Ticket(0))))?)
    }

    /// The transaction at that place of the global order, if there is one.
    ///
    /// # Errors
    /// When the journal cannot be read.
    pub fn transaction(&self, sequence: u64) -> Result<Option<Transaction>, EngineError> {
        let Shared { log, names, .. } = &*self.shared;
        let found = outcomes::transaction(&**log, names, sequence, |source| self.accepted(source));
        Ok(found.map_err(JournalError::from)?)
    }

    /// Outcomes from `place` on, one record of the sequence at most, and `place` goes on behind them; none while there are
    /// none.
    ///
    /// # Errors
    /// When the journal cannot be read.
    pub fn outcomes(&self, place: &mut Place) -> Result<Option<Outcomes>, EngineError> {
        if place.next() >= self.sequenced() {
            return Ok(None);
        }
        let shared = &*self.shared;
        shared.concluded.read(&*shared.log, &shared.names, place, |source| self.accepted(source))
    }

    /// The sums of every participant's books; each participant's at one moment.
    pub fn totals(&self) -> Vec<Total> {
        let mut totals = Vec::new();
        for updater in &self.shared.updaters {
            totals.extend(crate::audit::totals(updater.lock().expect(LOCK).accounts(), &self.shared.network));
        }
        totals
    }

    /// How many transactions have an outcome, since the beginning of the network.
    pub fn sequenced(&self) -> u64 {
        self.shared.clerk().next()
    }
    /// The latest signed head of the Merkle log that is durable.
    pub fn tree_head(&self) -> Option<SignedTreeHead> {
        let head = self.shared.clerk().head().copied();
        head.or(*self.shared.started_head.lock().expect(LOCK))
    }
    /// Counts since the start.
    pub fn counts(&self) -> Counts {
        self.shared.clerk().counts().clone()
    }
    /// References remembered, by scheduler.
    pub fn remembered(&self) -> Vec<usize> {
        self.shared.schedulers.iter().map(|s| s.lock().expect(LOCK).remembered()).collect()
    }

    /// A port for whole batches, past the collectors: for load generators and, later, streams.
    pub fn volume(&self) -> VolumePort {
        VolumePort::new(&self.shared)
    }

    /// Saves the balances now.
    ///
    /// # Errors
    /// When the file system refuses.
    pub fn save(&self) -> Result<PathBuf, EngineError> {
        self.shared.save()
    }

    /// Whether everything handed in and accepted is decided, durable and applied.
    pub fn is_drained(&self) -> bool {
        self.shared.is_drained()
    }
}

impl Past for Desk {
    fn network_id(&self) -> &NetworkId {
        &self.shared.network.id
    }

    fn outcome(&self, source: Source, index: u32, deadline: Instant) -> Option<Finality> {
        self.finality(source, index, deadline).or_else(|| {
            let mailbox = Mailbox::new(1);
            self.shared.clerk().wait(source, index, mailbox.waiter(0));
            // It may have become final between the look and the wait.
            self.finality(source, index, deadline).or_else(|| match mailbox.wait(deadline).first() {
                Some(Some(Notice::Final(_, _, finality))) => Some(*finality),
                _ => None,
            })
        })
    }

    fn accepted(&self, source: Source) -> Result<Option<Arc<AcceptedBatch>>, LogError> {
        Ok(self.read_accepted(source, Visibility::Durable)?.map(Arc::new))
    }

    fn earlier(&self, expired: &Expected, deadline: Instant) -> Result<Earlier, JournalError> {
        let _one_at_a_time = self.shared.search.lock().expect(LOCK);
        let longest = self.shared.network.longest_validity_ms;
        earlier::find(&self.shared.log, &self.shared.names, expired, longest, deadline)
    }
}
