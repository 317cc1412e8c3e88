//! What a flow's code sees of the world.

mod kept;

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

use borsh::{BorshDeserialize, BorshSerialize};
use tally_contracts::{
    Attachment, AttachmentId, Name, NetworkId, Party, PublicKey, Role, SignedTransaction, StateAndRef,
    StateRef, Timestamp, TransactionId, TransactionSignature,
};

use crate::cell::{Cell, Next, SessionState, Waiting};
use crate::journal::Step;
use crate::message::{Body, encode};
use crate::service::{
    ClusterAnswer, Commit, Committed, Filter, Notaries, Proposal, Rate, Reach, Request, Response, Selection,
    Shared, Trouble, Unconsumed,
};
use crate::{FlowError, FlowId, Message, SessionId};

/// A flow's only way to the world. Everything here is journaled where it has to be: a flow that runs again gets the
/// same answers, and what it sent is not sent twice. Its operations are awaited one after the other, not joined.
#[derive(Clone)]
pub struct Context(pub(crate) Arc<Cell>);

/// A conversation with a flow of another node.
#[derive(Clone)]
pub struct Session {
    context: Context,
    id: SessionId,
    peer: Arc<Name>,
    /// The flow that the other node is told it answers, if it is not the one that opened the session.
    part: Option<(&'static str, u32)>,
    /// When to give up waiting.
    until: Option<Timestamp>,
}

/// Which of two came first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum First {
    Message,
    Deadline,
}

impl Context {
    /// The party that this node is, or was when this flow began. What a flow makes, it makes for this one.
    pub fn me(&self) -> &Party {
        &self.0.me
    }

    /// Is this a key of the node's legal identity, the present one or a former one? The node signs with each of them, so
    /// that what a flow agrees to has to be looked at for all of them.
    ///
    /// A flow that runs again after the key was rotated knows one key more than before. It gets the same answers all the
    /// same: nobody had seen the new key when it ran first.
    pub fn owns(&self, key: &PublicKey) -> bool {
        self.0.bearer.owns(key)
    }

    /// Is this party the node, under its present key or a former one?
    pub fn is_me(&self, party: &Party) -> bool {
        party.name == self.me().name && self.owns(&party.key)
    }

    /// Those of these keys that are the node's, oldest first.
    pub fn own_among<'a>(&self, keys: impl IntoIterator<Item = &'a PublicKey>) -> Vec<PublicKey> {
        let among: Vec<&PublicKey> = keys.into_iter().collect();
        self.0.bearer.keys().filter(|own| among.contains(own)).copied().collect()
    }

    /// The network that this node is part of. Transactions of others mean nothing here.
    pub fn network(&self) -> NetworkId {
        self.0.network
    }

    /// This flow.
    pub fn flow(&self) -> FlowId {
        self.0.id
    }

    /// Who started this flow, and how.
    pub fn origin(&self) -> &crate::Origin {
        &self.0.origin
    }

    /// Tells whoever follows this flow what it does now. Costs nothing durable.
    pub fn step(&self, label: &'static str) {
        let path = {
            let mut state = self.0.state();
            state.label = label;
            if state.is_replaying() {
                return;
            }
            let mut path = self.0.name.to_string();
            for part in state.path.iter().chain([&label]) {
                path.push_str(" / ");
                path.push_str(part);
            }
            path
        };
        self.0.host.progress(self.0.id, &path);
    }

    /// Runs part of this flow under a name of its own, as progress shows it.
    pub async fn subflow<T>(&self, name: &'static str, part: impl Future<Output = T>) -> T {
        self.0.state().path.push(name);
        let result = part.await;
        self.0.state().path.pop();
        result
    }

    /// The time, the same each time that the flow runs.
    pub async fn now(&self) -> Timestamp {
        self.once(|state| match state.next() {
            Next::First => {
                let now = state.now;
                state.did(Step::Time(now));
                Some(now)
            }
            Next::Again(Step::Time(at)) => {
                state.cursor += 1;
                Some(at)
            }
            Next::Again(step) => {
                state.disagrees(&step, "ask for the time");
                None
            }
        })
        .await
    }

    /// Waits until a time has come.
    pub async fn sleep_until(&self, at: Timestamp) {
        poll_fn(|_| {
            let mut state = self.0.state();
            if state.trouble.is_none() && (state.now >= at || state.is_replaying()) {
                state.waiting = Waiting::Nothing;
                return Poll::Ready(());
            }
            state.wants(at);
            state.waiting = Waiting::Time(at);
            Poll::Pending
        })
        .await;
    }

    /// Thirty-two bytes that nobody outside can guess, the same each time that the flow runs; another `purpose` gives
    /// others.
    pub fn random(&self, purpose: &str) -> [u8; 32] {
        let mut text = b"tallystick.flow.random\0".to_vec();
        text.extend_from_slice(purpose.as_bytes());
        *tally_crypto::keyed(&self.0.seed, &text).as_bytes()
    }

    /// Who bears this name.
    ///
    /// # Errors
    /// [`FlowError::UnknownParty`].
    pub async fn party(&self, name: &Name) -> Result<Party, FlowError> {
        match self.ask(Request::Party(name.clone())).await? {
            Response::Party(Some(party)) => Ok(party),
            Response::Party(None) => Err(FlowError::UnknownParty { name: name.to_string() }),
            other => self.confused(&other).await,
        }
    }

    /// The network's notaries, of now and of before.
    ///
    /// # Errors
    /// What the node refuses.
    pub async fn notaries(&self) -> Result<Notaries, FlowError> {
        match self.ask(Request::Notaries).await? {
            Response::Notaries(notaries) => Ok(notaries),
            other => self.confused(&other).await,
        }
    }

    /// Most bytes of a new transaction with its signatures, by the network's parameters.
    ///
    /// # Errors
    /// What the node refuses.
    pub async fn transaction_limit(&self) -> Result<u64, FlowError> {
        match self.ask(Request::TransactionLimit).await? {
            Response::Bytes(bytes) => Ok(bytes),
            other => self.confused(&other).await,
        }
    }

    /// Signs a transaction's id in a role, with this node's key for that role.
    ///
    /// # Errors
    /// The node does not have the key, or has it for another role.
    pub async fn sign(
        &self,
        by: &PublicKey,
        role: Role,
        transaction: TransactionId,
    ) -> Result<TransactionSignature, FlowError> {
        match self.ask(Request::Sign { by: *by, role, transaction }).await? {
            Response::Signature(signature) => Ok(signature),
            other => self.confused(&other).await,
        }
    }

    /// Which of these names the network has ever certified with that key, as legal identities.
    ///
    /// # Errors
    /// What the node refuses.
    pub async fn certified(&self, parties: Vec<Party>) -> Result<Vec<bool>, FlowError> {
        match self.ask(Request::Certified(parties)).await? {
            Response::Known(known) => Ok(known),
            other => self.confused(&other).await,
        }
    }

    /// Chooses unconsumed states that are worth enough, and holds them until this flow ends. With
    /// [`Selection::wait`] it waits a bounded time for what other flows hold; meanwhile it holds nothing of it.
    ///
    /// # Errors
    /// [`FlowError::Insufficient`].
    pub async fn select(&self, selection: Selection) -> Result<Vec<StateAndRef>, FlowError> {
        match self.ask(Request::Select(selection)).await? {
            Response::States(states) => Ok(states),
            other => self.confused(&other).await,
        }
    }

    /// Finds unconsumed states of the vault.
    ///
    /// # Errors
    /// What the node refuses.
    pub async fn find(&self, filter: Filter) -> Result<Vec<StateAndRef>, FlowError> {
        match self.ask(Request::Find(filter)).await? {
            Response::States(states) => Ok(states),
            other => self.confused(&other).await,
        }
    }

    /// Lets go of states that this flow holds.
    ///
    /// # Errors
    /// What the node refuses.
    pub async fn release(&self, states: Vec<StateRef>) -> Result<(), FlowError> {
        self.done(Request::Release(states)).await
    }

    /// Verified transactions by id; `None` where this node does not have one.
    ///
    /// # Errors
    /// What the node refuses.
    pub async fn transactions(
        &self,
        ids: Vec<TransactionId>,
    ) -> Result<Vec<Option<Arc<SignedTransaction>>>, FlowError> {
        match self.ask(Request::Transactions(ids)).await? {
            Response::Transactions(transactions) => Ok(transactions),
            other => self.confused(&other).await,
        }
    }

    /// Transactions that this flow keeps unverified, see [`Context::keep`].
    ///
    /// # Errors
    /// What the node refuses.
    pub async fn dependencies(
        &self,
        ids: Vec<TransactionId>,
    ) -> Result<Vec<Option<Arc<SignedTransaction>>>, FlowError> {
        match self.ask(Request::Dependencies(ids)).await? {
            Response::Transactions(transactions) => Ok(transactions),
            other => self.confused(&other).await,
        }
    }

    /// Which of these transactions this node has verified and recorded.
    ///
    /// # Errors
    /// What the node refuses.
    pub async fn known(&self, ids: Vec<TransactionId>) -> Result<Vec<bool>, FlowError> {
        match self.ask(Request::Known(ids)).await? {
            Response::Known(known) => Ok(known),
            other => self.confused(&other).await,
        }
    }

    /// Keeps transactions that are not verified yet, for this flow and until it ends.
    ///
    /// # Errors
    /// What the node refuses.
    pub async fn keep(&self, transactions: Vec<Arc<SignedTransaction>>) -> Result<(), FlowError> {
        self.done(Request::Keep(transactions)).await
    }

    /// Records transactions, each after those it builds on. The caller has verified them.
    ///
    /// # Errors
    /// What the node refuses.
    pub async fn record(&self, transactions: Vec<Arc<SignedTransaction>>) -> Result<(), FlowError> {
        self.done(Request::Record(transactions)).await
    }

    /// An attachment's bytes, if this node has it.
    ///
    /// # Errors
    /// What the node refuses.
    pub async fn attachment(&self, id: AttachmentId) -> Result<Option<Attachment>, FlowError> {
        match self.ask(Request::Attachment(id)).await? {
            Response::Attachment(attachment) => Ok(attachment),
            other => self.confused(&other).await,
        }
    }

    /// Puts an attachment together out of its parts, see [`Session::receive_part`], and keeps it for good: durable
    /// together with what this flow does until its next wait.
    ///
    /// # Errors
    /// [`FlowError::Invalid`] when the parts are not what the id is the hash of.
    pub async fn attach(&self, attachment: AttachmentId, parts: u32) -> Result<(), FlowError> {
        self.done(Request::Attach { attachment, parts }).await
    }

    /// Commits a transaction in this node's memory as a notary.
    ///
    /// # Errors
    /// This node is not a notary.
    pub async fn commit(&self, commit: Commit) -> Result<Committed, FlowError> {
        match self.ask(Request::Commit(commit)).await? {
            Response::Committed(committed) => Ok(committed),
            other => self.confused(&other).await,
        }
    }

    /// Has the clustered notary decide of which this node is a member.
    ///
    /// # Errors
    /// This node is not a member, or does not know what the cluster decided.
    pub async fn submit(
        &self,
        request: tally_notary::Request,
        asker: &Name,
    ) -> Result<ClusterAnswer, FlowError> {
        let request = Request::Submit { request: Arc::new(request), asker: asker.clone() };
        match self.ask(request).await? {
            Response::Cluster(answer) => Ok(answer),
            other => self.confused(&other).await,
        }
    }

    /// Everybody on the network map.
    ///
    /// # Errors
    /// What the node refuses.
    pub async fn parties(&self) -> Result<Vec<Name>, FlowError> {
        match self.ask(Request::Parties).await? {
            Response::Names(names) => Ok(names),
            other => self.confused(&other).await,
        }
    }

    /// Recorded transactions in which this party takes part, those after a place of the ledger.
    ///
    /// # Errors
    /// What the node refuses.
    pub async fn shared(&self, with: &Name, after: u64) -> Result<Shared, FlowError> {
        match self.ask(Request::Shared { with: with.clone(), after }).await? {
            Response::Shared(shared) => Ok(shared),
            other => self.confused(&other).await,
        }
    }

    /// As a notary: by which transactions these states are consumed.
    ///
    /// # Errors
    /// This node is not a notary.
    pub async fn consumers(&self, states: Vec<StateRef>) -> Result<Vec<Option<TransactionId>>, FlowError> {
        match self.ask(Request::Consumers(states)).await? {
            Response::Consumers(consumers) => Ok(consumers),
            other => self.confused(&other).await,
        }
    }

    /// Unconsumed states of the vault and their notaries, a page at a time: those after the cursor of the page before.
    ///
    /// # Errors
    /// What the node refuses.
    pub async fn unconsumed(&self, after: Option<String>) -> Result<Unconsumed, FlowError> {
        match self.ask(Request::Unconsumed { after }).await? {
            Response::Unconsumed(page) => Ok(page),
            other => self.confused(&other).await,
        }
    }

    /// States of the vault that transactions consumed which are not recorded here: they are not to be spent.
    ///
    /// # Errors
    /// What the node refuses.
    pub async fn consume_elsewhere(&self, states: Vec<(StateRef, TransactionId)>) -> Result<(), FlowError> {
        self.done(Request::ConsumeElsewhere(states)).await
    }

    /// This node is recovered: it takes work again once this is durable.
    ///
    /// # Errors
    /// What the node refuses.
    pub async fn recovered(&self) -> Result<(), FlowError> {
        self.done(Request::Recovered).await
    }

    /// An exchange rate, if this node is an oracle that knows it.
    ///
    /// # Errors
    /// What the node refuses.
    pub async fn rate(&self, base: &str, quote: &str) -> Result<Option<Rate>, FlowError> {
        match self.ask(Request::Rate { base: base.to_owned(), quote: quote.to_owned() }).await? {
            Response::Rate(rate) => Ok(rate),
            other => self.confused(&other).await,
        }
    }

    /// Whose cash may be chosen when a user names no issuer; `None` when the node's configuration does not say.
    ///
    /// # Errors
    /// What the node refuses.
    pub async fn issuers(&self) -> Result<Option<Vec<Name>>, FlowError> {
        match self.ask(Request::Issuers).await? {
            Response::Issuers(names) => Ok(names),
            other => self.confused(&other).await,
        }
    }

    /// Asks whether this node agrees to what another node proposes. What it agreed to once stays agreed to when the
    /// flow runs again, whatever the configuration says then.
    ///
    /// # Errors
    /// [`FlowError::Refused`], naming the setting that would have to allow it.
    pub async fn consent(&self, proposal: Proposal) -> Result<(), FlowError> {
        self.done(Request::Consent(proposal)).await
    }

    /// How what is sent to `peer` now arrives. A flow that may ask somebody else as well waits neither for room in a queue
    /// nor for one that is away.
    pub async fn reach(&self, peer: &Name) -> Reach {
        let host = self.0.host.clone();
        self.once(|state| match state.next() {
            Next::First => {
                let (reach, chosen) = if !host.has_room(peer) {
                    (Reach::Full, 1)
                } else if host.is_silent(peer) {
                    (Reach::Silent, 2)
                } else {
                    (Reach::Open, 0)
                };
                state.did(Step::Chose(chosen));
                Some(reach)
            }
            Next::Again(Step::Chose(chosen)) => {
                state.cursor += 1;
                Some(match chosen {
                    0 => Reach::Open,
                    1 => Reach::Full,
                    _ => Reach::Silent,
                })
            }
            Next::Again(step) => {
                state.disagrees(&step, &format!("look for room in the queue to {peer}"));
                None
            }
        })
        .await
    }

    /// Opens a session with the flow of `peer` that answers this one. Nothing is sent yet.
    ///
    /// # Errors
    /// [`FlowError::UnknownParty`].
    pub async fn open(&self, peer: &Name) -> Result<Session, FlowError> {
        self.open_part(peer, None).await
    }

    /// Opens a session with what answers `flow` at `peer`, rather than with what answers this flow: so that a part that
    /// many flows share has one answer everywhere. Nothing is sent yet.
    ///
    /// # Errors
    /// [`FlowError::UnknownParty`].
    pub async fn open_as(&self, peer: &Name, flow: &'static str, version: u32) -> Result<Session, FlowError> {
        self.open_part(peer, Some((flow, version))).await
    }

    async fn open_part(&self, peer: &Name, part: Option<(&'static str, u32)>) -> Result<Session, FlowError> {
        if peer != &self.me().name {
            self.party(peer).await?;
        }
        let mut state = self.0.state();
        let index = state.opened;
        let id = SessionId::derive(&self.0.seed, index);
        state.opened += 1;
        if !state.sessions.iter().any(|session| session.id == id) {
            state.sessions.push(SessionState::new(id, self.me(), peer.clone(), Some(index)));
        }
        drop(state);
        Ok(Session { context: self.clone(), id, peer: Arc::new(peer.clone()), part, until: None })
    }

    pub(crate) fn session(&self, id: SessionId, peer: &Name) -> Session {
        Session { context: self.clone(), id, peer: Arc::new(peer.clone()), part: None, until: None }
    }

    async fn ask(&self, request: Request) -> Result<Response, FlowError> {
        let response = poll_fn(|_| self.0.ask(&request).map_or(Poll::Pending, Poll::Ready)).await;
        match response {
            Response::Refused(error) => Err(error),
            response => Ok(response),
        }
    }

    pub(crate) async fn done(&self, request: Request) -> Result<(), FlowError> {
        match self.ask(request).await? {
            Response::Done => Ok(()),
            other => self.confused(&other).await,
        }
    }

    /// The node answered something else than was asked: the flow is held for a person.
    async fn confused<T>(&self, response: &Response) -> Result<T, FlowError> {
        self.0.state().trouble = Some(Trouble::Lasting(format!(
            "the node's answer does not belong to the question: {response:?}"
        )));
        std::future::pending().await
    }

    /// An operation that does not wait, unless the run cannot go on.
    pub(crate) async fn once<T>(&self, mut operation: impl FnMut(&mut crate::cell::State) -> Option<T>) -> T {
        poll_fn(|_| {
            let mut state = self.0.state();
            if state.trouble.is_some() {
                return Poll::Pending;
            }
            operation(&mut state).map_or(Poll::Pending, Poll::Ready)
        })
        .await
    }
}

impl Session {
    /// The node at the other end.
    pub fn peer(&self) -> &Name {
        &self.peer
    }

    /// Sends a value. It leaves once what this flow did until its next wait is durable; waits while the queue to the
    /// peer is full.
    pub async fn send<T: BorshSerialize + ?Sized>(&self, value: &T) {
        self.say(Some(encode(value))).await;
    }

    /// The same session, in which nothing is waited for after `deadline`: what receives fails with
    /// [`FlowError::Timeout`].
    #[must_use]
    pub fn until(&self, deadline: Timestamp) -> Self {
        Self { until: Some(deadline), ..self.clone() }
    }

    /// Waits for the next value.
    ///
    /// # Errors
    /// The other flow failed or ended, or sent something else.
    pub async fn receive<T: BorshDeserialize>(&self) -> Result<T, FlowError> {
        if let Some(deadline) = self.until {
            return self.receive_until(deadline).await;
        }
        self.begin().await;
        let bytes = poll_fn(|_| {
            let mut state = self.context.0.state();
            if state.trouble.is_some() {
                return Poll::Pending;
            }
            self.take(&mut state).map_or(Poll::Pending, Poll::Ready)
        })
        .await?;
        self.decode(&bytes)
    }

    /// Waits for the next value, but not longer than until `deadline`.
    ///
    /// # Errors
    /// [`FlowError::Timeout`], and those of [`Session::receive`].
    pub async fn receive_until<T: BorshDeserialize>(&self, deadline: Timestamp) -> Result<T, FlowError> {
        self.begin().await;
        let bytes = poll_fn(|_| {
            let mut state = self.context.0.state();
            if state.trouble.is_some() {
                return Poll::Pending;
            }
            let first = match state.next() {
                Next::Again(Step::Chose(0)) => First::Message,
                Next::Again(Step::Chose(_)) => First::Deadline,
                Next::Again(step) => {
                    state.disagrees(&step, "wait for a message until a time");
                    return Poll::Pending;
                }
                Next::First if self.is_ready(&mut state) => First::Message,
                Next::First if state.now >= deadline => First::Deadline,
                Next::First => {
                    state.wants(deadline);
                    state.waiting = Waiting::Message(self.peer.as_ref().clone());
                    return Poll::Pending;
                }
            };
            let result = match first {
                // A message that came first when this was journaled is in the journal as well.
                First::Message => match self.take(&mut state) {
                    Some(result) => result,
                    None => return Poll::Pending,
                },
                First::Deadline => Err(FlowError::Timeout { party: self.peer.as_ref().clone() }),
            };
            if state.is_replaying() {
                state.cursor += 1;
            } else {
                state.did(Step::Chose(u32::from(first == First::Deadline)));
            }
            Poll::Ready(result)
        })
        .await?;
        self.decode(&bytes)
    }

    /// Sends a value and waits for the answer.
    ///
    /// # Errors
    /// Those of [`Session::receive`].
    pub async fn exchange<T: BorshSerialize + ?Sized, U: BorshDeserialize>(
        &self,
        value: &T,
    ) -> Result<U, FlowError> {
        self.send(value).await;
        self.receive().await
    }

    /// A side that opened a session and begins by listening has to say so.
    async fn begin(&self) {
        let begins = {
            let mut state = self.context.0.state();
            let session = state.session(self.id);
            session.index.is_some() && session.sent == 0
        };
        if begins {
            self.say(None).await;
        }
    }

    async fn say(&self, payload: Option<Vec<u8>>) {
        let cell = &self.context.0;
        let mut payload = Some(payload);
        poll_fn(|_| {
            let mut state = cell.state();
            if state.trouble.is_some() {
                return Poll::Pending;
            }
            let session = state.session(self.id);
            let opens = session.index.filter(|_| session.sent == 0);
            let place = session.place();
            match (state.next(), opens) {
                (Next::Again(Step::Sent(again)), None) if again == place => {
                    state.cursor += 1;
                    state.session(self.id).sent += 1;
                    return Poll::Ready(());
                }
                (Next::Again(Step::Opened { peer, index }), Some(opens))
                    if index == opens && peer == *self.peer =>
                {
                    state.cursor += 1;
                    state.session(self.id).sent += 1;
                    return Poll::Ready(());
                }
                (Next::Again(step), _) => {
                    state.disagrees(&step, &format!("send a message to {}", self.peer));
                    return Poll::Pending;
                }
                (Next::First, _) => {}
            }
            if !cell.host.has_room(&self.peer) {
                state.wants_room = true;
                state.waiting = Waiting::Room(self.peer.as_ref().clone());
                return Poll::Pending;
            }
            let payload = payload.take().expect("a message is sent once");
            let session = state.session(self.id);
            let (number, says) = (session.sent, session.says);
            session.sent += 1;
            let body = if opens.is_some() {
                let (flow, version) = self.part.map_or_else(
                    || (cell.name.to_string(), cell.version),
                    |(flow, version)| (flow.to_owned(), version),
                );
                Body::Open { flow, version, payload }
            } else {
                Body::Data(payload.expect("only the first message may be empty"))
            };
            state
                .sends
                .push((self.peer.as_ref().clone(), Message { session: says, number, last: false, body }));
            state.did(match opens {
                Some(index) => Step::Opened { peer: self.peer.as_ref().clone(), index },
                None => Step::Sent(place),
            });
            Poll::Ready(())
        })
        .await;
    }

    fn is_ready(&self, state: &mut crate::cell::State) -> bool {
        let session = state.session(self.id);
        skip_greeting(session);
        session.inbound.contains_key(&session.read) || session.is_over()
    }

    fn take(&self, state: &mut crate::cell::State) -> Option<Result<Vec<u8>, FlowError>> {
        let party = || self.peer.as_ref().clone();
        let session = state.session(self.id);
        skip_greeting(session);
        let result = match session.inbound.get(&session.read) {
            None if session.is_over() => Err(FlowError::SessionEnded { party: party() }),
            None => {
                state.waiting = Waiting::Message(party());
                return None;
            }
            Some(arrived) => match &arrived.body {
                Body::Data(bytes) | Body::Open { payload: Some(bytes), .. } => Ok(bytes.clone()),
                Body::Open { payload: None, .. } | Body::End => {
                    Err(FlowError::SessionEnded { party: party() })
                }
                Body::Failed(error) => Err(error.clone().heard_from(party())),
                Body::Cut(error) => Err(error.clone()),
                Body::Forgotten => Err(FlowError::Forgotten { party: party() }),
            },
        };
        if result.is_ok() {
            session.read += 1;
        }
        state.waiting = Waiting::Nothing;
        Some(result)
    }

    fn decode<T: BorshDeserialize>(&self, bytes: &[u8]) -> Result<T, FlowError> {
        borsh::from_slice(bytes).map_err(|error| FlowError::Unexpected {
            party: self.peer.as_ref().clone(),
            reason: error.to_string(),
        })
    }
}

/// An opening without a value is not something to receive.
fn skip_greeting(session: &mut SessionState) {
    if let Some(arrived) = session.inbound.get(&session.read)
        && matches!(arrived.body, Body::Open { payload: None, .. })
    {
        session.read += 1;
    }
}

impl SessionState {
    /// Was everything read, and does the other side say no more?
    fn is_over(&self) -> bool {
        self.read > 0 && self.inbound.get(&(self.read - 1)).is_some_and(|arrived| arrived.last)
    }
}
