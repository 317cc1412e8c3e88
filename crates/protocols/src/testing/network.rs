//! Nodes and the post between them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value;
use tally_contracts::{
    Amount, Attachment, Currency, Name, NetworkId, Party, Scheme, SignedTransaction, SigningKey, StateAndRef,
    Summary, Timestamp, TransactionId, cash,
};
use tally_flows::{
    Delivered, DeliveryError, Engine, Flow, FlowError, FlowId, Limits, Notaries, Notary, Origin, Outcome,
    Rate, Registry, Start, StartError, View,
};
use tally_notary::{Member, NotaryKind};

use crate::consent::{Policy, PurchaseRule};

use super::cluster::Agreed;
use super::host::{Memory, Pending, as_host};
use super::{Ledger, Received, Switches};
use crate::deliver::{Deliver, DeliverArguments, Resolve, ResolveArguments};

/// Something that can happen next.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Event {
    /// A flow of this node runs until it waits.
    Turn(Name),
    /// The oldest thing that this node has submitted becomes durable.
    Commit(Name),
    /// A message gets from one node to another.
    Deliver {
        /// Who sent it.
        from: Name,
        /// Who receives it.
        to: Name,
        /// Its number among all that one sent the other.
        number: u64,
    },
    /// The clock moves on to the next moment that a flow waits for.
    Wait(Timestamp),
}

/// Nothing but a flow that was told to wait waits as long.
pub(super) const LONG: Duration = Duration::from_secs(120);

struct Request {
    who: Name,
    start: Start,
}

struct Node {
    memory: Arc<Memory>,
    registry: fn() -> Registry,
    engine: Engine,
    /// Messages to it that are on their way or were delivered, by sender and number; forgotten when either crashes.
    underway: BTreeSet<(Name, u64)>,
    commits: usize,
}

/// What makes the flows of a node.
pub type Flows = fn() -> Registry;

type Tamper = Box<dyn FnMut(&Name, &Name, &mut Vec<u8>)>;

/// A network in memory, see [the module](crate::testing).
pub struct Network {
    nodes: BTreeMap<Name, Node>,
    notaries: Notaries,
    registry: fn() -> Registry,
    now: Timestamp,
    requests: Vec<Request>,
    cut: BTreeSet<(Name, Name)>,
    /// What parties were before their keys were rotated, newest first.
    former: Vec<Party>,
    /// Nodes that do not see what changes on the network map.
    behind: BTreeSet<Name>,
    tamper: Option<Tamper>,
    /// Deliver each message so often.
    copies: usize,
    commits: usize,
    crash_at: Option<(usize, bool)>,
    journal: Vec<Journaled>,
}

/// What a flow did between two waits, as its node's journal keeps it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Journaled {
    /// The flow's name; of one that answers, of the flow that it answers.
    pub name: String,
    /// The version of its code.
    pub version: u32,
    /// Which of its units it is.
    pub number: u64,
    /// Its steps, encoded; empty when it ended.
    pub steps: Vec<u8>,
}

impl Default for Network {
    fn default() -> Self {
        Self::new()
    }
}

/// The id of every network in memory.
pub const NETWORK: NetworkId = NetworkId::from_bytes([0x4e; 32]);

/// Buys bonds at par or below, before maturity, for cash of the bond's own issuer, without other limits.
///
/// # Panics
/// Never: the largest amount is one.
pub fn at_par(issuer: &Name, currency: Currency) -> PurchaseRule {
    let limit = Amount::new(Amount::MAX, currency).expect("the largest amount");
    PurchaseRule {
        issuer: issuer.clone(),
        cash_of: issuer.clone(),
        sellers: None,
        highest_price: 1_000_000_000,
        latest_maturity: Timestamp::MAX,
        per_deal: limit,
        per_day: limit,
    }
}

/// The key of a party in memory.
fn key(organisation: &str) -> SigningKey {
    let secret = tally_crypto::hash(organisation.as_bytes());
    SigningKey::from_secret(Scheme::Ed25519, secret.as_bytes()).expect("any bytes are an Ed25519 key")
}

impl Network {
    /// A network without nodes, whose nodes will have [`crate::registry`].
    pub fn new() -> Self {
        Self::with(crate::registry)
    }

    /// A network without nodes, whose nodes will have these flows.
    pub fn with(registry: fn() -> Registry) -> Self {
        Self {
            nodes: BTreeMap::new(),
            notaries: Notaries::default(),
            former: Vec::new(),
            registry,
            now: Timestamp::from_millis(1_700_000_000_000),
            requests: Vec::new(),
            cut: BTreeSet::new(),
            behind: BTreeSet::new(),
            tamper: None,
            copies: 1,
            commits: 0,
            crash_at: None,
            journal: Vec::new(),
        }
    }

    /// Adds a node.
    ///
    /// # Panics
    /// The name is not one.
    pub fn party(&mut self, organisation: &str) -> Name {
        self.party_with(organisation, self.registry)
    }

    /// Adds a node with flows of its own.
    ///
    /// # Panics
    /// The name is not one.
    pub fn party_with(&mut self, organisation: &str, registry: fn() -> Registry) -> Name {
        let name = Name::new(organisation, "London", "GB").expect("a name");
        let key = key(organisation);
        let me = Party { name: name.clone(), key: key.public_key() };
        let service = self::key(&format!("{organisation}, notary service"));
        let memory = Arc::new(Memory::new(me.clone(), key, service));
        let engine = Engine::new(registry(), Limits::default(), me, NETWORK, as_host(&memory));
        let node = Node { memory, registry, engine, underway: BTreeSet::new(), commits: 0 };
        assert!(self.nodes.insert(name.clone(), node).is_none(), "{name} is there already");
        self.tell_everybody();
        name
    }

    /// Adds a node that is a notary.
    ///
    /// # Panics
    /// The name is not one.
    pub fn notary(&mut self, organisation: &str, validating: bool) -> Name {
        let name = self.party(organisation);
        self.notaries
            .current
            .push(Notary { party: self.service(&name), kind: NotaryKind::alone(validating) });
        self.tell_everybody();
        name
    }

    /// Gives a notary's service another key: the former one makes nothing new final.
    pub fn rekey_notary(&mut self, who: &Name) {
        let former = self.service(who);
        let number = self.notaries.former.len();
        let service = key(&format!("{}, notary service {number}", former.name));
        let node = self.node_mut(who);
        node.memory = Arc::new(node.memory.with_service(service));
        let now = self.service(who);
        for notary in self.notaries.current.iter_mut().filter(|notary| notary.party == former) {
            notary.party = now.clone();
        }
        self.notaries.former.push(former);
        self.tell_everybody();
        self.crash(who);
    }

    /// Gives a node another key of its legal identity, as if it had been stopped for that: flows that began before go on
    /// under the former one. Gives what the party was before.
    pub fn rotate(&mut self, who: &Name) -> Party {
        let before = self.identity(who);
        let number = self.former.len();
        let until = Timestamp::from_millis(self.now.as_millis() + 1);
        self.now = until;
        let node = self.node_mut(who);
        node.memory = Arc::new(node.memory.with_key(key(&format!("{who}, key {number}")), until));
        self.former.insert(0, before.clone());
        self.tell_everybody();
        self.crash(who);
        before
    }

    /// Changes how large a new transaction may be, with its signatures.
    pub fn set_transaction_limit(&mut self, bytes: u64) {
        for node in self.nodes.values() {
            node.memory.state().transaction_limit = bytes;
        }
    }

    /// The same, as one node sees it.
    pub fn set_transaction_limit_of(&mut self, who: &Name, bytes: u64) {
        self.node(who).memory.state().transaction_limit = bytes;
    }

    /// Has a node no longer see what changes on the network map, or see it again.
    pub fn set_behind(&mut self, who: &Name, behind: bool) {
        if behind {
            self.behind.insert(who.clone());
        } else {
            self.behind.remove(who);
        }
        self.tell_everybody();
    }

    /// Adds a clustered notary of that name, and a node for each of its members. Gives the members' names.
    ///
    /// # Panics
    /// A name is not one, or the number of members is none of a cluster.
    pub fn cluster(&mut self, organisation: &str, members: &[&str]) -> Vec<Name> {
        let registries: Vec<_> = members.iter().map(|member| (*member, self.registry)).collect();
        self.cluster_with(organisation, &registries)
    }

    /// The same with members that have flows of their own.
    ///
    /// # Panics
    /// A name is not one, or the number of members is none of a cluster.
    pub fn cluster_with(&mut self, organisation: &str, members: &[(&str, Flows)]) -> Vec<Name> {
        let names: Vec<Name> =
            members.iter().map(|(member, registry)| self.party_with(member, *registry)).collect();
        let member = |name: &Name| {
            let mut voter = [0; 20];
            voter.copy_from_slice(&tally_crypto::hash(name.to_string().as_bytes()).as_bytes()[..20]);
            Member { name: name.clone(), voter, key: self.service(name).key }
        };
        let kind = NotaryKind::Clustered(names.iter().map(member).collect());
        let cluster = kind.cluster(NETWORK).expect("a cluster");
        let key = cluster.composite().expect("keys of their own").key();
        let name = Name::new(organisation, "London", "GB").expect("a name");
        let party = Party { name, key };
        let services = names.iter().map(|name| self.node(name).memory.service.clone()).collect();
        let shared = Arc::new(Mutex::new(Agreed::new(cluster, party.clone(), services)));
        for name in &names {
            self.node(name).memory.state().cluster = Some(shared.clone());
        }
        self.notaries.current.push(Notary { party, kind });
        self.tell_everybody();
        names
    }

    fn tell_everybody(&self) {
        let parties: Vec<_> = self.nodes.values().map(|node| node.memory.me.clone()).collect();
        for node in self.nodes.values().filter(|node| !self.behind.contains(&node.memory.me.name)) {
            let mut state = node.memory.state();
            state.parties.clone_from(&parties);
            state.former.clone_from(&self.former);
            state.notaries.clone_from(&self.notaries);
        }
    }

    fn node(&self, who: &Name) -> &Node {
        self.nodes.get(who).unwrap_or_else(|| panic!("there is no node {who}"))
    }

    fn node_mut(&mut self, who: &Name) -> &mut Node {
        self.nodes.get_mut(who).unwrap_or_else(|| panic!("there is no node {who}"))
    }

    /// Name and key of a node.
    ///
    /// # Panics
    /// There is no such node; so it is with everything here that takes a name.
    pub fn identity(&self, who: &Name) -> Party {
        self.node(who).memory.me.clone()
    }

    /// Name and key of a node's notary service, whether the network has made it a notary or not.
    pub fn service(&self, who: &Name) -> Party {
        Party { name: who.clone(), key: self.node(who).memory.service.public_key() }
    }

    /// All nodes.
    pub fn names(&self) -> Vec<Name> {
        self.nodes.keys().cloned().collect()
    }

    /// The time.
    pub fn now(&self) -> Timestamp {
        self.now
    }

    /// Moves the clock on.
    pub fn advance(&mut self, by_ms: u64) {
        self.now = Timestamp::from_millis(self.now.as_millis() + by_ms);
        self.tick();
    }

    fn tick(&self) {
        for node in self.nodes.values() {
            node.engine.tick(self.now);
        }
    }

    /// Has a node know a rate, as an oracle.
    pub fn set_rate(&mut self, who: &Name, base: &str, quote: &str, billionths: u64) {
        let rate = Rate { billionths, as_of: self.now };
        self.node(who).memory.state().rates.insert((base.to_owned(), quote.to_owned()), rate);
    }

    /// Changes what a node's institution allows, as an edit of its configuration would.
    pub fn set_policy(&mut self, who: &Name, change: impl FnOnce(&mut Policy)) {
        change(&mut self.node(who).memory.state().policy);
    }

    /// Has a node buy by [`at_par`].
    pub fn agree_to_par(&mut self, who: &Name, issuer: &Name, currency: Currency) {
        self.set_policy(who, |policy| policy.purchases.push(at_par(issuer, currency)));
    }

    /// Gives a node an attachment.
    pub fn attach(&mut self, who: &Name, attachment: Attachment) {
        let mut state = self.node(who).memory.state();
        state.disk.attachments.insert(attachment.id(), attachment.clone());
        state.now.attachments.insert(attachment.id(), attachment);
    }

    /// Changes what is wrong with a node.
    pub fn switch(&mut self, who: &Name, change: impl FnOnce(&mut Switches)) {
        let node = self.node(who);
        change(&mut node.memory.state().switches);
        node.engine.room();
    }

    /// Delivers each message so often from now on.
    pub fn set_copies(&mut self, copies: usize) {
        self.copies = copies;
    }

    /// Changes messages on their way; `None` for no longer.
    pub fn set_tamper(&mut self, tamper: Option<Tamper>) {
        self.tamper = tamper;
    }

    /// Lets nothing through between two nodes, or everything again.
    pub fn set_cut(&mut self, one: &Name, other: &Name, cut: bool) {
        for pair in [(one.clone(), other.clone()), (other.clone(), one.clone())] {
            if cut {
                self.cut.insert(pair);
            } else {
                self.cut.remove(&pair);
            }
        }
    }

    /// Has the node that makes the `at`th commit of the network (from zero) crash right then: with that commit lost
    /// if `lost`, otherwise just after it.
    pub fn crash_at(&mut self, at: usize, lost: bool) {
        self.crash_at = Some((at, lost));
    }

    /// Starts a flow; `arguments` as a user gives them.
    ///
    /// # Errors
    /// The flow or its arguments are refused.
    pub fn start(&mut self, who: &Name, flow: &str, arguments: Value) -> Result<FlowId, FlowError> {
        self.start_as(who, flow, arguments, &format!("request {}", self.requests.len()))
    }

    /// Starts a flow by a request of that name.
    ///
    /// # Errors
    /// The flow or its arguments are refused.
    pub fn start_as(
        &mut self,
        who: &Name,
        flow: &str,
        arguments: Value,
        request: &str,
    ) -> Result<FlowId, FlowError> {
        let engine = &self.node(who).engine;
        let (name, version) = engine.registry().newest(flow)?;
        let id = FlowId::of_request("test", request);
        let start = Start {
            flow: id,
            name: name.into(),
            version,
            arguments: engine.registry().arguments_from_json(flow, &arguments)?,
            origin: Origin::User { name: "test".to_owned() },
            seed: *tally_crypto::hash(&id.0).as_bytes(),
            at: self.now,
        };
        match engine.start(start.clone()) {
            Ok(_) => {}
            Err(StartError::Refused(error)) => return Err(error),
            Err(StartError::Draining | StartError::Barred(_)) => panic!("nobody drains {who}"),
            Err(StartError::Trouble(trouble)) => panic!("the memory of {who} cannot say: {trouble}"),
        }
        self.requests.push(Request { who: who.clone(), start });
        Ok(id)
    }

    /// Has a node ask again about what is unknown to it, and deliver again what others have not confirmed.
    ///
    /// # Panics
    /// The node's registry lacks the flows for it.
    pub fn deliver_again(&mut self, who: &Name) {
        let (unresolved, undelivered) =
            self.ledger(who, |ledger| (ledger.unresolved.clone(), ledger.undelivered.clone()));
        let mut wanted = Vec::new();
        for (transaction, told) in unresolved.into_values() {
            let arguments = ResolveArguments { transaction: transaction.encode(), told };
            wanted.push((Resolve::NAME, borsh::to_vec(&arguments).expect("written to memory")));
        }
        for (party, transaction) in undelivered.into_keys() {
            let arguments = DeliverArguments { party, transactions: vec![transaction] };
            wanted.push((Deliver::NAME, borsh::to_vec(&arguments).expect("written to memory")));
        }
        for (flow, arguments) in wanted {
            let engine = &self.node(who).engine;
            let (name, version) = engine.registry().newest(flow).expect("it is shipped");
            let id = FlowId::of_request("node", &format!("delivery {}", self.requests.len()));
            let start = Start {
                flow: id,
                name: name.into(),
                version,
                arguments,
                origin: Origin::Node,
                seed: *tally_crypto::hash(&id.0).as_bytes(),
                at: self.now,
            };
            engine.start(start.clone()).expect("there is room for it");
            self.requests.push(Request { who: who.clone(), start });
        }
    }

    /// Starts a flow, lets everything happen that can without waiting for long, and gives what the flow came to.
    ///
    /// # Errors
    /// The flow's failure.
    ///
    /// # Panics
    /// The flow does not end.
    pub fn run(&mut self, who: &Name, flow: &str, arguments: Value) -> Result<Value, FlowError> {
        let id = self.start(who, flow, arguments)?;
        self.settle();
        self.result(who, id).unwrap_or_else(|| panic!("{flow} at {who} does not end: {:?}", self.views(who)))
    }

    /// What a flow came to, if it has ended.
    pub fn result(&self, who: &Name, flow: FlowId) -> Option<Result<Value, FlowError>> {
        let node = self.node(who);
        let outcome = node.memory.state().disk.outcomes.get(&flow).cloned()?;
        let request = self.requests.iter().find(|request| request.start.flow == flow)?;
        Some(outcome.map(|output| {
            let Start { name, version, .. } = &request.start;
            node.engine.registry().output_to_json(name, *version, &output).expect("the flow's own output")
        }))
    }

    /// What a flow came to, as it is stored.
    pub fn outcome(&self, who: &Name, flow: FlowId) -> Option<Outcome> {
        self.node(who).memory.state().disk.outcomes.get(&flow).cloned()
    }

    /// What all flows of a node came to, also those that answered.
    pub fn outcomes(&self, who: &Name) -> Vec<Outcome> {
        self.node(who).memory.state().disk.outcomes.values().cloned().collect()
    }

    /// The flows of a node under way.
    pub fn views(&self, who: &Name) -> Vec<View> {
        self.node(who).engine.views(None, usize::MAX)
    }

    /// The engine of a node.
    pub fn engine(&self, who: &Name) -> &Engine {
        &self.node(who).engine
    }

    /// What a node knows for good.
    pub fn ledger<T>(&self, who: &Name, read: impl FnOnce(&Ledger) -> T) -> T {
        read(&self.node(who).memory.state().disk)
    }

    /// The unconsumed states of a node.
    pub fn vault(&self, who: &Name) -> Vec<(StateAndRef, Summary)> {
        self.ledger(who, |ledger| {
            let all = ledger.states.iter().map(|(reference, (state, summary))| {
                (StateAndRef { state: state.clone(), reference: *reference }, summary.clone())
            });
            all.collect()
        })
    }

    /// Minor units of `currency` of `issuer` that a node owns.
    pub fn cash(&self, who: &Name, currency: &str, issuer: &Name) -> u64 {
        let currency: Currency = currency.parse().expect("a currency");
        let asset = cash::asset(currency, &self.identity(issuer));
        let owner = self.identity(who).key;
        let vault = self.vault(who);
        let coins = vault.iter().filter(|(_, summary)| {
            summary.owner == Some(owner) && summary.asset.as_deref() == Some(asset.as_str())
        });
        coins.filter_map(|(_, summary)| summary.quantity).sum()
    }

    /// A recorded transaction.
    pub fn transaction(&self, who: &Name, id: &TransactionId) -> Option<Arc<SignedTransaction>> {
        self.ledger(who, |ledger| ledger.transactions.get(id).cloned())
    }

    /// What a node keeps of those that have not confirmed a final transaction: who, which and why.
    pub fn undelivered(&self, who: &Name) -> Vec<(Name, TransactionId, String)> {
        self.ledger(who, |ledger| {
            let rows = ledger.undelivered.iter();
            rows.map(|((party, id), reason)| (party.clone(), *id, reason.clone())).collect()
        })
    }

    /// Every byte that ever reached a node, duplicates included.
    pub fn received(&self, who: &Name) -> Vec<Received> {
        self.node(who).memory.state().received.clone()
    }

    /// The steps that flows of a node told, oldest first.
    pub fn progress(&self, who: &Name) -> Vec<(FlowId, String)> {
        self.node(who).memory.state().progress.clone()
    }

    /// What a node signed, each time that it did.
    pub fn signed(&self, who: &Name) -> Vec<TransactionId> {
        self.node(who).memory.state().signed.clone()
    }

    /// How many units a node has made durable.
    pub fn commits(&self, who: &Name) -> usize {
        self.node(who).commits
    }

    /// How many units all nodes have made durable.
    pub fn all_commits(&self) -> usize {
        self.commits
    }

    /// Hands a node bytes as if they came from `from`.
    ///
    /// # Errors
    /// What its engine makes of them.
    pub fn inject(&mut self, from: &Name, to: &Name, bytes: Vec<u8>) -> Result<Delivered, DeliveryError> {
        let seed = *tally_crypto::hash(&bytes).as_bytes();
        let node = self.node(to);
        node.memory.state().received.push(Received { from: from.clone(), bytes: bytes.clone() });
        node.engine.deliver(from, bytes, u64::MAX, seed, self.now)
    }

    /// What flows of all nodes journaled, in the order in which it became durable.
    pub fn journal(&self) -> &[Journaled] {
        &self.journal
    }

    /// Everything that can happen next, in a fixed order; waiting only when there is nothing else.
    pub fn events(&self) -> Vec<Event> {
        let mut events = Vec::new();
        for (name, node) in &self.nodes {
            if !node.memory.state().pending.is_empty() {
                events.push(Event::Commit(name.clone()));
            }
            if node.engine.queued() > 0 {
                events.push(Event::Turn(name.clone()));
            }
            for (to, messages) in &node.memory.state().disk.outbound {
                let Some(receiver) = self.nodes.get(to) else { continue };
                if self.cut.contains(&(name.clone(), to.clone())) {
                    continue;
                }
                let waiting =
                    messages.keys().filter(|number| !receiver.underway.contains(&(name.clone(), **number)));
                events.extend(waiting.map(|number| Event::Deliver {
                    from: name.clone(),
                    to: to.clone(),
                    number: *number,
                }));
            }
        }
        if events.is_empty()
            && let Some(next) = self.next_deadline()
        {
            events.push(Event::Wait(next));
        }
        events
    }

    /// The next moment that a flow waits for.
    pub fn next_deadline(&self) -> Option<Timestamp> {
        self.nodes.values().filter_map(|node| node.engine.next_deadline()).min()
    }

    /// Lets something happen.
    pub fn happen(&mut self, event: &Event) {
        match event {
            Event::Turn(who) => {
                let node = self.node(who);
                if let Some(turn) = node.engine.next() {
                    node.engine.run(turn, self.now);
                }
            }
            Event::Commit(who) => self.commit(who),
            Event::Deliver { from, to, number } => {
                for _ in 0..self.copies.max(1) {
                    self.deliver(from, to, *number);
                }
            }
            Event::Wait(until) => {
                self.now = self.now.max(*until);
                self.tick();
            }
        }
    }

    fn commit(&mut self, who: &Name) {
        let at = self.commits;
        let crashes = self.crash_at.filter(|(when, _)| *when == at).map(|(_, lost)| lost);
        if crashes == Some(true) {
            self.crash_at = None;
            self.crash(who);
            return;
        }
        let node = self.node_mut(who);
        let own = node.memory.own();
        let mut state = node.memory.state();
        let mut acknowledged = Vec::new();
        let mut ended = None;
        let mut journaled = None;
        match state.pending.pop_front() {
            None => return,
            Some(Pending::Late(from, number)) => acknowledged.push((from, number)),
            Some(Pending::Unit(unit)) => {
                for arrival in &unit.arrivals {
                    if let Some(message) = state.tickets.remove(&arrival.ticket) {
                        state.taken.remove(&message);
                        acknowledged.push(message);
                    }
                }
                ended = unit.outcome.is_some().then_some(unit.flow);
                let (flow, number, steps) = (unit.flow, unit.number, unit.steps.clone());
                let start = unit
                    .start
                    .clone()
                    .or_else(|| state.disk.flows.get(&flow).map(|saved| saved.start.clone()));
                journaled = start.map(|Start { name, version, .. }| Journaled {
                    name: name.to_string(),
                    version,
                    number,
                    steps,
                });
                state.disk.commit(&own, *unit);
            }
        }
        drop(state);
        if let Some(flow) = ended {
            node.engine.forget(flow);
        }
        node.commits += 1;
        self.journal.extend(journaled);
        for (from, number) in acknowledged {
            // Twins of a message may arrive after it was acknowledged.
            let mut sender = self.node(&from).memory.state();
            if let Some(messages) = sender.disk.outbound.get_mut(who) {
                messages.remove(&number);
            }
            drop(sender);
            self.node_mut(who).underway.remove(&(from, number));
        }
        self.commits += 1;
        if crashes == Some(false) {
            self.crash_at = None;
            self.crash(who);
        }
    }

    fn deliver(&mut self, from: &Name, to: &Name, number: u64) {
        let found = {
            let sender = self.node(from).memory.state();
            sender.disk.outbound.get(to).and_then(|messages| messages.get(&number)).cloned()
        };
        let Some(mut bytes) = found else { return };
        if let Some(tamper) = &mut self.tamper {
            tamper(from, to, &mut bytes);
        }
        let now = self.now;
        let node = self.node_mut(to);
        node.underway.insert((from.clone(), number));
        let seed = *tally_crypto::hash(&bytes).as_bytes();
        let ticket = {
            let mut state = node.memory.state();
            state.received.push(Received { from: from.clone(), bytes: bytes.clone() });
            state.next_ticket += 1;
            state.next_ticket
        };
        let delivered = node.engine.deliver(from, bytes, ticket, seed, now);
        let mut state = node.memory.state();
        match delivered {
            Ok(Delivered::Taken(_)) => {
                state.tickets.insert(ticket, (from.clone(), number));
                state.taken.insert((from.clone(), number));
            }
            // The first of twins may not be durable yet: then it is acknowledged when it is.
            Ok(Delivered::Late) if state.taken.contains(&(from.clone(), number)) => {}
            // What is not a message, or for another's session, never will be.
            Ok(Delivered::Late) | Err(DeliveryError::Undecodable(_) | DeliveryError::Foreign(_)) => {
                state.pending.push_back(Pending::Late(from.clone(), number));
            }
            Err(DeliveryError::Trouble(_)) => {
                drop(state);
                node.underway.remove(&(from.clone(), number));
            }
        }
    }

    /// Has a message get lost that was on its way: it is sent again.
    pub fn lose(&mut self, from: &Name, to: &Name) {
        let node = self.node_mut(to);
        let taken = node.memory.state().taken.clone();
        node.underway.retain(|message| message.0 != *from || taken.contains(message));
    }

    /// Ends a node's process and starts it again: what is durable is all that it remembers. Users ask again for what
    /// was not accepted durably.
    ///
    /// # Panics
    /// A durable journal cannot be read.
    pub fn crash(&mut self, who: &Name) {
        let registry = self.node(who).registry;
        self.restart(who, registry);
    }

    /// A copy of what a node knows for good.
    pub fn backup(&self, who: &Name) -> Ledger {
        self.ledger(who, Clone::clone)
    }

    /// Gives a node another memory, an old one or none, with new queues in both directions: as after a restart on a
    /// database that was restored or made anew, once both sides have noticed. Users do not ask again for what they had
    /// asked for.
    ///
    /// # Panics
    /// A journal in the memory cannot be read.
    pub fn replace_memory(&mut self, who: &Name, mut memory: Ledger) {
        memory.outbound.clear();
        memory.sent.clear();
        let before = std::mem::take(&mut self.requests);
        self.node(who).memory.state().disk = memory;
        self.crash(who);
        self.requests = before;
        self.node(who).engine.forget_sessions(None);
        for node in self.nodes.iter_mut().filter(|(name, _)| *name != who).map(|(_, node)| node) {
            node.underway.retain(|(from, _)| from != who);
            let mut state = node.memory.state();
            state.disk.outbound.remove(who);
            state.disk.sent.remove(who);
            state.taken.retain(|(from, _)| from != who);
            state.tickets.retain(|_, (from, _)| from != who);
            drop(state);
            node.engine.forget_sessions(Some(who));
        }
    }

    /// The same, with other flows installed from then on.
    ///
    /// # Panics
    /// A durable journal cannot be read.
    pub fn restart(&mut self, who: &Name, registry: fn() -> Registry) {
        let node = self.node_mut(who);
        node.registry = registry;
        node.underway.clear();
        node.memory.state().crash();
        node.engine =
            Engine::new(registry(), Limits::default(), node.memory.bearer(), NETWORK, as_host(&node.memory));
        let saved: Vec<_> = node.memory.state().disk.flows.values().cloned().collect();
        for saved in saved {
            node.engine.restore(saved).expect("a durable journal can be read");
        }
        for request in self.requests.iter().filter(|request| request.who == *who) {
            self.node(who).engine.start(request.start.clone()).expect("it was accepted before");
        }
        self.tick();
    }

    /// Lets everything happen that can, in a fixed order, waiting for at most two minutes at a time: a flow in trouble
    /// is tried again sooner.
    ///
    /// # Panics
    /// It does not come to rest.
    pub fn settle(&mut self) {
        for _ in 0..10_000_000 {
            let events = self.events();
            match events.first() {
                None => return,
                Some(Event::Wait(until)) if until.since(self.now) > LONG => return,
                Some(event) => self.happen(&event.clone()),
            }
        }
        panic!("the network does not come to rest");
    }
}
