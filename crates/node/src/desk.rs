//! What the flows of a node ask of it, answered from its store, keys and network map.

pub(crate) mod commit;
pub(crate) mod consents;
pub(crate) mod inbound;
mod notary;
mod outbound;
pub(crate) mod past;
mod recent;
pub(crate) mod submissions;
#[cfg(test)]
mod tests;
mod vault;
pub(crate) mod watch;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tally_contracts::{
    Attachment, AttachmentId, Contracts, Name, NetworkId, Party, PublicKey, Role, SignedTransaction,
    SigningKey, StateAndRef, Timestamp, TransactionId,
};
use tally_flows::{
    AttachmentPart, Bearer, Filter, FlowError, FlowId, FormerKey, Host, LedgerWrite, Notaries, Performed,
    Proposal, Rate, Request, Response, Shared, Trouble, Unconsumed, Unit,
};
use tally_protocols::consent::{Policy, Use};
use tally_store::{StateQuery, Status, Store, StoreError};

use crate::metrics::Meters;
use commit::Queue;
use consents::Consents;
use inbound::Inbound;
use outbound::Outbound;
use past::Past;
use recent::Recent;
use submissions::Submissions;
use vault::{Asked, Selected, Vault};
use watch::Watch;

/// Who is on the network.
pub trait Network: Send + Sync {
    /// The network's id.
    fn id(&self) -> NetworkId;
    /// The party of this name, if it is a member.
    fn party(&self, name: &Name) -> Option<Party>;
    /// The network's notaries, of now and of before.
    fn notaries(&self) -> Notaries;
    /// Most bytes of a new transaction with its signatures.
    fn transaction_limit(&self) -> u64;
    /// Whether the network has ever certified this name with this key as a legal identity.
    fn is_certified(&self, party: &Party) -> bool;
    /// The names of all members.
    fn parties(&self) -> Vec<Name>;
    /// The keys that the network ever certified this name with as a legal identity, the present one first.
    fn keys_of(&self, name: &Name) -> Vec<PublicKey>;
    /// The name of whoever has this key.
    fn name_of(&self, key: &PublicKey) -> Option<Name>;
}

/// The time of day, in milliseconds since the Unix epoch.
pub type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// What an oracle knows: the rate of a pair of currencies.
pub type Rates = Arc<dyn Fn(&str, &str) -> Option<Rate> + Send + Sync>;

/// A key that a node's legal identity had before: it signs for what it owns still.
#[derive(Clone, Debug)]
pub struct FormerSigningKey {
    /// The key.
    pub key: SigningKey,
    /// When it was given up.
    pub until: Timestamp,
}

/// What a node is made of.
pub struct Parts {
    /// Who it is.
    pub me: Party,
    /// Its legal identity key.
    pub key: SigningKey,
    /// The keys that its legal identity had before, oldest first.
    pub former: Vec<FormerSigningKey>,
    /// The key of its notary service, if it has one: for attesting, and for nothing else.
    pub notary_key: Option<SigningKey>,
    /// The contracts it knows.
    pub contracts: Arc<Contracts>,
    /// Its durable memory.
    pub store: Arc<dyn Store>,
    /// Who else there is.
    pub network: Arc<dyn Network>,
    /// Its clock.
    pub clock: Clock,
    /// What it knows as an oracle.
    pub rates: Rates,
    /// Thirty-two random bytes of this process.
    pub entropy: [u8; 32],
    /// Bytes that may wait for one peer before flows have to wait.
    pub queue_bytes: u64,
    /// What the institution allows without asking a person.
    pub policy: Policy,
    /// How long a flow waits for states that other flows hold.
    pub patience: Duration,
}

impl Parts {
    /// Who the node is, now and before.
    pub fn bearer(&self) -> Bearer {
        let former = self.former.iter();
        let former = former.map(|former| FormerKey { key: former.key.public_key(), until: former.until });
        Bearer::new(self.me.clone(), &former.collect::<Vec<_>>())
    }
}

/// Transactions of the ledger that are looked at in one go.
const LEDGER_PAGE: usize = 500;

pub(crate) struct Desk {
    pub(crate) parts: Parts,
    /// All keys of its legal identity, oldest first.
    pub(crate) own: Vec<PublicKey>,
    pub(crate) queue: Queue,
    pub(crate) inbound: Mutex<Inbound>,
    pub(crate) outbound: Mutex<Outbound>,
    pub(crate) vault: Mutex<Vault>,
    pub(crate) watch: Mutex<Watch>,
    pub(crate) consents: Mutex<Consents>,
    /// There are flows to wake, see [`Vault::take_ready`]: turns look here instead of waiting for the vault.
    has_ready: AtomicBool,
    pub(crate) past: Mutex<Past>,
    pub(crate) meters: Meters,
    recent: Mutex<Recent>,
    notary: Mutex<notary::Notary>,
    is_notary: bool,
    pub(crate) submissions: Arc<Submissions>,
    /// Units that became durable since the last beat.
    pub(crate) units: AtomicU64,
    seeds: AtomicU64,
    signals: Mutex<Signals>,
    wakened: Condvar,
}

#[derive(Default)]
struct Signals {
    turns: usize,
    stopped: bool,
}

/// Locks hold plain data whose changes do not panic half way.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Desk {
    pub(crate) fn new(parts: Parts, meters: Meters) -> Self {
        let is_notary = parts.notary_key.as_ref().is_some_and(|key| {
            let service = Party { name: parts.me.name.clone(), key: key.public_key() };
            parts.network.notaries().current(&service).is_some()
        });
        Self {
            own: parts.bearer().keys().copied().collect(),
            queue: Queue::default(),
            inbound: Mutex::default(),
            outbound: Mutex::default(),
            vault: Mutex::default(),
            watch: Mutex::default(),
            consents: Mutex::default(),
            has_ready: AtomicBool::new(false),
            past: Mutex::default(),
            recent: Mutex::default(),
            notary: Mutex::default(),
            is_notary,
            submissions: Arc::default(),
            units: AtomicU64::new(0),
            seeds: AtomicU64::new(0),
            signals: Mutex::default(),
            wakened: Condvar::new(),
            meters,
            parts,
        }
    }

    pub(crate) fn now(&self) -> Timestamp {
        (self.parts.clock)()
    }

    /// Thirty-two bytes that were never given out before and that nobody outside can guess.
    pub(crate) fn seed(&self) -> [u8; 32] {
        let number = self.seeds.fetch_add(1, Ordering::Relaxed);
        *tally_crypto::keyed(&self.parts.entropy, &number.to_le_bytes()).as_bytes()
    }

    /// The key of the legal identity, present or former, of that public half.
    fn key(&self, by: &PublicKey) -> Option<&SigningKey> {
        let former = self.parts.former.iter().map(|former| &former.key);
        [&self.parts.key].into_iter().chain(former).find(|key| key.public_key() == *by)
    }

    /// Is a transaction in memory, for all flows to see?
    #[cfg(test)]
    pub(crate) fn is_recent(&self, id: &TransactionId) -> bool {
        lock(&self.recent).verified(None, id).is_some()
    }

    /// Whether the network names this node as a notary.
    pub(crate) fn is_notary(&self) -> bool {
        self.is_notary
    }

    /// Waits until a flow may be ready to run; `false` when the node stops.
    pub(crate) fn wait(&self) -> bool {
        let mut signals = lock(&self.signals);
        while signals.turns == 0 && !signals.stopped {
            signals = self.wakened.wait(signals).unwrap_or_else(PoisonError::into_inner);
        }
        signals.turns = signals.turns.saturating_sub(1);
        !signals.stopped
    }

    pub(crate) fn stop(&self) {
        lock(&self.signals).stopped = true;
        self.wakened.notify_all();
    }

    fn verified(
        &self,
        flow: FlowId,
        ids: &[TransactionId],
    ) -> Result<Vec<Option<Arc<SignedTransaction>>>, Trouble> {
        let mut found: Vec<Option<Arc<SignedTransaction>>> = {
            let recent = lock(&self.recent);
            ids.iter().map(|id| recent.verified(Some(flow), id)).collect()
        };
        self.complete(ids, &mut found, |store, missing| store.transactions(missing))?;
        Ok(found)
    }

    fn kept(
        &self,
        flow: FlowId,
        ids: &[TransactionId],
    ) -> Result<Vec<Option<Arc<SignedTransaction>>>, Trouble> {
        let mut found: Vec<Option<Arc<SignedTransaction>>> = {
            let recent = lock(&self.recent);
            ids.iter().map(|id| recent.kept(flow, id)).collect()
        };
        self.complete(ids, &mut found, |store, missing| {
            missing.iter().map(|id| store.dependency(flow.0, *id)).collect()
        })?;
        Ok(found)
    }

    /// Reads those that memory does not have.
    fn complete(
        &self,
        ids: &[TransactionId],
        found: &mut [Option<Arc<SignedTransaction>>],
        read: impl FnOnce(&dyn Store, &[TransactionId]) -> Result<Vec<Option<Vec<u8>>>, StoreError>,
    ) -> Result<(), Trouble> {
        let places: Vec<usize> = (0..ids.len()).filter(|place| found[*place].is_none()).collect();
        if places.is_empty() {
            return Ok(());
        }
        let missing: Vec<TransactionId> = places.iter().map(|place| ids[*place]).collect();
        let rows = read(self.parts.store.as_ref(), &missing).map_err(trouble)?;
        for (place, row) in places.into_iter().zip(rows) {
            let Some(bytes) = row else { continue };
            let transaction = SignedTransaction::decode(&bytes).map_err(|error| {
                Trouble::Lasting(format!(
                    "transaction {} in the database does not decode: {error}",
                    ids[place]
                ))
            })?;
            if transaction.id() != ids[place] {
                return Err(Trouble::Lasting(format!(
                    "the database has transaction {} under the id {}",
                    transaction.id(),
                    ids[place]
                )));
            }
            found[place] = Some(Arc::new(transaction));
        }
        Ok(())
    }

    /// An attachment that is stored, or that this flow has just put together.
    fn attachment(&self, flow: FlowId, id: AttachmentId) -> Result<Option<Attachment>, Trouble> {
        let fresh = lock(&self.recent).attachment(flow, &id);
        if fresh.is_some() {
            return Ok(fresh);
        }
        let Some(bytes) = self.parts.store.attachment(id).map_err(trouble)? else { return Ok(None) };
        let unusable = |reason: String| {
            Trouble::Lasting(format!("attachment {id} in the database cannot be used: {reason}"))
        };
        let found = Attachment::new(bytes).map_err(|error| unusable(error.to_string()))?;
        if found.id() != id {
            return Err(unusable(format!("its bytes are those of {}", found.id())));
        }
        Ok(Some(found))
    }

    /// Puts an attachment together out of the parts that this flow keeps.
    fn join(
        &self,
        flow: FlowId,
        id: AttachmentId,
        parts: u32,
    ) -> Result<Result<Attachment, FlowError>, Trouble> {
        let mut found: Vec<Arc<[u8]>> = Vec::new();
        for number in 0..parts {
            let key = recent::part_key(id, number);
            let fresh = lock(&self.recent).part(flow, &key);
            let part = match fresh {
                Some(part) => Some(part),
                None => self.parts.store.dependency(flow.0, key).map_err(trouble)?.map(Arc::from),
            };
            let Some(part) = part else {
                return Err(Trouble::Lasting(format!(
                    "part {number} of attachment {id}, kept before, is gone"
                )));
            };
            found.push(part);
        }
        Ok(AttachmentPart::join(id, found.iter().map(AsRef::as_ref)))
    }

    fn find(&self, flow: FlowId, filter: &Filter) -> Result<Vec<StateAndRef>, Trouble> {
        let mut query = StateQuery {
            status: Status::Unconsumed,
            kind: filter.kind.clone(),
            asset: filter.asset.clone(),
            linear_id: filter.linear_id,
            references: (!filter.references.is_empty()).then(|| filter.references.clone()),
            page_size: filter.limit.clamp(1, 1000),
            ..StateQuery::default()
        };
        let mut found = Vec::new();
        let wanted = usize::try_from(filter.limit).unwrap_or(usize::MAX).max(1);
        loop {
            let page = self.parts.store.states(&query).map_err(trouble)?;
            let mut vault = lock(&self.vault);
            for state in page.states.into_iter().filter(|state| state.aside.is_none()) {
                if found.len() == wanted {
                    break;
                }
                if !filter.hold || vault.hold(flow, state.reference) {
                    found.push(StateAndRef { state: state.state, reference: state.reference });
                }
            }
            drop(vault);
            if found.len() == wanted || page.next.is_none() {
                return Ok(found);
            }
            query.cursor = page.next;
        }
    }
}

impl Desk {
    pub(crate) fn note_ready(&self, vault: &Vault) {
        if vault.has_ready() {
            self.has_ready.store(true, Ordering::SeqCst);
        }
    }

    /// The flows that wait for states and are to ask again.
    pub(crate) fn take_ready(&self) -> Vec<FlowId> {
        if self.has_ready.swap(false, Ordering::SeqCst) { lock(&self.vault).take_ready() } else { Vec::new() }
    }

    /// What the institution's policy says of a proposal.
    fn consent(&self, flow: FlowId, now: Timestamp, proposal: &Proposal) -> Performed {
        let parts = &self.parts;
        let mut consents = lock(&self.consents);
        let party = |name: &Name| parts.network.party(name);
        match parts.policy.judge(proposal, now, party, |rule| consents.used(rule, now)) {
            Err(reason) => {
                tracing::info!(flow = %flow, reason, "a proposal of another node is refused");
                Response::Refused(Policy::refusal(&parts.me, proposal)).into()
            }
            Ok(None) => Response::Done.into(),
            Ok(Some(Use { rule, quantity })) => {
                consents.add(rule.clone(), quantity, now);
                Performed {
                    response: Response::Done,
                    writes: vec![LedgerWrite::Consent { rule, quantity, at: now }],
                }
            }
        }
    }

    /// Some of the ledger, as far as one of these keys takes part in it.
    fn shared(&self, with: &[PublicKey], after: u64) -> Result<Shared, Trouble> {
        let rows = self.parts.store.ledger(after, LEDGER_PAGE).map_err(trouble)?;
        let mut shared = Shared::default();
        if rows.len() == LEDGER_PAGE {
            shared.next = rows.last().map(|(number, _)| *number);
        }
        for (number, bytes) in rows {
            let transaction = SignedTransaction::decode(&bytes).map_err(|error| {
                Trouble::Lasting(format!("transaction {number} in the database does not decode: {error}"))
            })?;
            if tally_protocols::recover::takes_part(&transaction, |key| with.contains(key)) {
                shared.transactions.push(transaction.id());
            }
        }
        Ok(shared)
    }

    /// While this node recovers: a state of the vault that one of these transactions consumes although another recorded
    /// one has. The notary has attested both. The flow reports it and goes on, since nobody could end the recovery if it
    /// were held. In a node that works such a flow is held for a person.
    fn conflict_in_recovery(
        &self,
        transactions: &[Arc<SignedTransaction>],
    ) -> Result<Option<FlowError>, Trouble> {
        if lock(&self.past).recovery().is_none() {
            return Ok(None);
        }
        for transaction in transactions {
            let id = transaction.id();
            let known = self.parts.store.vault(transaction.transaction().inputs()).map_err(trouble)?;
            for state in known.into_iter().flatten() {
                if let Some((consumed_by, _)) = state.consumed.filter(|(by, _)| *by != id) {
                    return Ok(Some(FlowError::Conflict { state: state.reference, consumed_by }));
                }
            }
        }
        Ok(None)
    }

    /// A page of the vault's unconsumed states.
    fn unconsumed(&self, cursor: Option<String>) -> Result<Unconsumed, Trouble> {
        let query = StateQuery { cursor, page_size: tally_store::MAX_PAGE_SIZE, ..StateQuery::default() };
        let page = self.parts.store.states(&query).map_err(trouble)?;
        let states = page.states.into_iter().map(|found| (found.reference, found.state.notary.name));
        Ok(Unconsumed { states: states.collect(), next: page.next })
    }
}

/// How a failure of the store looks to a flow.
fn trouble(error: StoreError) -> Trouble {
    let text = full_text(&error);
    if error.is_transient() { Trouble::Passing(text) } else { Trouble::Lasting(text) }
}

/// An error with its causes.
pub(crate) fn full_text(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        text.push_str(": ");
        text.push_str(&inner.to_string());
        cause = inner.source();
    }
    text
}

impl Host for Desk {
    fn perform(&self, flow: FlowId, now: Timestamp, request: &Request) -> Result<Performed, Trouble> {
        let parts = &self.parts;
        Ok(match request {
            Request::Party(name) => Response::Party(parts.network.party(name)).into(),
            Request::Notaries => Response::Notaries(parts.network.notaries()).into(),
            Request::Sign { by, role, transaction } => {
                let key = match role {
                    Role::Party | Role::Oracle => self.key(by),
                    Role::Notary => parts.notary_key.as_ref().filter(|key| key.public_key() == *by),
                };
                match key {
                    Some(key) => Response::Signature(tally_contracts::sign(key, *role, *transaction)).into(),
                    None => Response::Refused(FlowError::Refused {
                        reason: format!("this node has no key {by} to sign with as {role}"),
                    })
                    .into(),
                }
            }
            Request::TransactionLimit => Response::Bytes(parts.network.transaction_limit()).into(),
            Request::Certified(named) => {
                Response::Known(named.iter().map(|party| parts.network.is_certified(party)).collect()).into()
            }
            Request::Select(selection) => {
                let asked = Asked { flow, owners: &self.own, now, patience: parts.patience };
                let mut vault = lock(&self.vault);
                let selected = vault.select(parts.store.as_ref(), &asked, selection).map_err(trouble)?;
                self.note_ready(&vault);
                drop(vault);
                match selected {
                    Selected::Later(until) => Response::Later(until).into(),
                    Selected::States(states) => {
                        let held = states.iter().map(|state| state.reference).collect();
                        Performed {
                            response: Response::States(states),
                            writes: vec![LedgerWrite::Hold(held)],
                        }
                    }
                    Selected::Refused(refusal) => Response::Refused(refusal).into(),
                }
            }
            Request::Find(filter) => {
                let states = self.find(flow, filter)?;
                let held = states.iter().map(|state| state.reference).collect();
                let writes = if filter.hold { vec![LedgerWrite::Hold(held)] } else { Vec::new() };
                Performed { response: Response::States(states), writes }
            }
            Request::Transactions(ids) => Response::Transactions(self.verified(flow, ids)?).into(),
            Request::Dependencies(ids) => Response::Transactions(self.kept(flow, ids)?).into(),
            Request::Known(ids) => {
                let found = self.verified(flow, ids)?;
                Response::Known(found.iter().map(Option::is_some).collect()).into()
            }
            Request::Keep(transactions) => {
                let mut recent = lock(&self.recent);
                for transaction in transactions {
                    recent.keep(flow, transaction.clone());
                }
                let writes = transactions.iter().cloned().map(LedgerWrite::Keep).collect();
                Performed { response: Response::Done, writes }
            }
            Request::Record(transactions) => {
                if let Some(conflict) = self.conflict_in_recovery(transactions)? {
                    return Ok(Response::Refused(conflict).into());
                }
                let mut recent = lock(&self.recent);
                for transaction in transactions {
                    recent.record(flow, transaction.clone());
                }
                let writes = transactions.iter().cloned().map(LedgerWrite::Record).collect();
                Performed { response: Response::Done, writes }
            }
            Request::Release(states) => {
                let mut vault = lock(&self.vault);
                vault.release(flow, states);
                self.note_ready(&vault);
                Performed { response: Response::Done, writes: vec![LedgerWrite::Release(states.clone())] }
            }
            Request::Attachment(id) => Response::Attachment(self.attachment(flow, *id)?).into(),
            Request::KeepPart(part) => {
                lock(&self.recent).keep_part(flow, part);
                Performed { response: Response::Done, writes: vec![LedgerWrite::KeepPart(part.clone())] }
            }
            Request::Attach { attachment, parts } => match self.join(flow, *attachment, *parts)? {
                Ok(attachment) => {
                    lock(&self.recent).attach(flow, attachment.clone());
                    Performed { response: Response::Done, writes: vec![LedgerWrite::Attach(attachment)] }
                }
                Err(refusal) => Response::Refused(refusal).into(),
            },
            Request::Undelivered { transaction, party, reason } => Performed {
                response: Response::Done,
                writes: vec![LedgerWrite::Undelivered {
                    transaction: *transaction,
                    party: party.clone(),
                    reason: reason.clone(),
                }],
            },
            Request::Delivered { transaction, party } => Performed {
                response: Response::Done,
                writes: vec![LedgerWrite::Delivered { transaction: *transaction, party: party.clone() }],
            },
            Request::Resolved(transaction) => {
                Performed { response: Response::Done, writes: vec![LedgerWrite::Resolved(*transaction)] }
            }
            Request::Commit(_) if !self.is_notary => {
                Response::Refused(FlowError::refused(format!("{} is not a notary", parts.me.name))).into()
            }
            Request::Commit(commit) => {
                lock(&self.notary).commit(parts.store.as_ref(), commit, now).map_err(trouble)?
            }
            Request::Submit { request, asker } => self.submissions.ask(flow, now, request, asker),
            Request::Issuers => Response::Issuers(parts.policy.cash_issuers.clone()).into(),
            Request::Consent(proposal) => self.consent(flow, now, proposal),
            Request::Parties => Response::Names(parts.network.parties()).into(),
            Request::Shared { with, after } => {
                Response::Shared(self.shared(&parts.network.keys_of(with), *after)?).into()
            }
            Request::Consumers(states) => {
                let by_cluster = self.submissions.consumers(states);
                if !self.is_notary && by_cluster.is_none() {
                    let reason = format!("{} is not a notary", parts.me.name);
                    return Ok(Response::Refused(FlowError::refused(reason)).into());
                }
                // A state is of one notary: of this node alone, or of the cluster.
                let own = parts.store.consumed(states).map_err(trouble)?.into_iter();
                let own = own.map(|found| found.map(|consumption| consumption.by));
                let by_cluster = by_cluster.unwrap_or_else(|| vec![None; states.len()]);
                let by = own.zip(by_cluster).map(|(own, by_cluster)| own.or(by_cluster));
                Response::Consumers(by.collect()).into()
            }
            Request::Unconsumed { after } => Response::Unconsumed(self.unconsumed(after.clone())?).into(),
            Request::ConsumeElsewhere(states) => Performed {
                response: Response::Done,
                writes: vec![LedgerWrite::ConsumedElsewhere(states.clone())],
            },
            Request::Recovered if self.is_notary => Response::Refused(FlowError::refused(
                "what a notary has consumed is in no other node's database: it does not go on under this identity",
            ))
            .into(),
            Request::Recovered if !lock(&self.past).is_newest() => Response::Refused(FlowError::refused(
                "another database of this node has gone on meanwhile: stop the other process, then recover again",
            ))
            .into(),
            Request::Recovered => {
                Performed { response: Response::Done, writes: vec![LedgerWrite::Recovered] }
            }
            Request::Rate { base, quote } => Response::Rate((parts.rates)(base, quote)).into(),
        })
    }

    fn submit(&self, unit: Unit) {
        self.enqueue(unit);
    }

    fn progress(&self, flow: FlowId, path: &str) {
        let finished = lock(&self.watch).step(flow, path, self.now());
        if let Some(finished) = finished {
            self.meters.step(&finished);
        }
    }

    fn wake(&self) {
        lock(&self.signals).turns += 1;
        self.wakened.notify_one();
    }

    fn has_room(&self, peer: &Name) -> bool {
        lock(&self.outbound).waiting_bytes(peer) < self.parts.queue_bytes
    }

    fn is_silent(&self, peer: &Name) -> bool {
        lock(&self.outbound).is_silent(peer, (self.parts.clock)())
    }

    fn is_known(&self, flow: FlowId) -> Result<bool, Trouble> {
        // Asked for on threads of the network too, on which a database must not be waited for otherwise.
        tokio::task::block_in_place(|| self.parts.store.flow(flow.0))
            .map(|row| row.is_some())
            .map_err(trouble)
    }
}
