//! The host of one node in memory.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tally_contracts::{Name, Party, SigningKey, Timestamp, TransactionId, sign};
use tally_flows::{
    AttachmentPart, Committed, FlowError, FlowId, Host, LedgerWrite, Notary, Performed, Rate, Request,
    Response, Trouble, Unit,
};

use super::Ledger;

/// Bytes that reached a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Received {
    /// Who sent them.
    pub from: Name,
    /// The encoded message.
    pub bytes: Vec<u8>,
}

/// What a test can make a node do that a good node does not.
#[derive(Clone, Debug, Default)]
pub struct Switches {
    /// Every request meets this trouble.
    pub trouble: Option<Trouble>,
    /// Coins are chosen even if another flow holds them.
    pub ignores_locks: bool,
    /// No queue has room for another message.
    pub no_room: bool,
}

/// What waits to become durable, in order.
pub(super) enum Pending {
    Unit(Box<Unit>),
    /// A message was not taken, because it was here before.
    Late(Name, u64),
}

pub(super) struct State {
    /// What is durable.
    pub(super) disk: Ledger,
    /// What is true once all that is pending is durable.
    pub(super) now: Ledger,
    pub(super) pending: VecDeque<Pending>,
    /// Messages taken and not durable, by ticket.
    pub(super) tickets: BTreeMap<u64, (Name, u64)>,
    pub(super) taken: BTreeSet<(Name, u64)>,
    pub(super) next_ticket: u64,
    pub(super) parties: Vec<Party>,
    pub(super) notaries: Vec<Notary>,
    pub(super) rates: BTreeMap<(String, String), Rate>,
    pub(super) switches: Switches,
    pub(super) received: Vec<Received>,
    pub(super) progress: Vec<(FlowId, String)>,
    pub(super) signed: Vec<TransactionId>,
}

pub(super) struct Memory {
    pub(super) me: Party,
    key: SigningKey,
    state: Mutex<State>,
}

impl Memory {
    pub(super) fn new(me: Party, key: SigningKey) -> Self {
        Self {
            me,
            key,
            state: Mutex::new(State {
                disk: Ledger::default(),
                now: Ledger::default(),
                pending: VecDeque::new(),
                tickets: BTreeMap::new(),
                taken: BTreeSet::new(),
                next_ticket: 0,
                parties: Vec::new(),
                notaries: Vec::new(),
                rates: BTreeMap::new(),
                switches: Switches::default(),
                received: Vec::new(),
                progress: Vec::new(),
                signed: Vec::new(),
            }),
        }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Everything that is not durable is gone.
    pub(super) fn crash(&mut self) {
        self.now = self.disk.clone();
        self.pending.clear();
        self.tickets.clear();
        self.taken.clear();
    }
}

impl Host for Memory {
    fn perform(&self, flow: FlowId, now: Timestamp, request: &Request) -> Result<Performed, Trouble> {
        let mut state = self.state();
        if let Some(trouble) = &state.switches.trouble {
            return Err(trouble.clone());
        }
        let performed: Performed = match request {
            Request::Party(name) => {
                Response::Party(state.parties.iter().find(|party| party.name == *name).cloned()).into()
            }
            Request::Notaries => Response::Notaries(state.notaries.clone()).into(),
            Request::Sign { by, transaction } if *by == self.me.key => {
                state.signed.push(*transaction);
                Response::Signature(sign(&self.key, *transaction)).into()
            }
            Request::Sign { by, .. } => {
                Response::Refused(FlowError::refused(format!("this node has no key {by}"))).into()
            }
            Request::Select(selection) => {
                let locks = !state.switches.ignores_locks;
                match state.now.select(&self.me, flow, selection, locks) {
                    Ok(states) => {
                        let held = states.iter().map(|state| state.reference).collect();
                        let writes = if locks { vec![LedgerWrite::Hold(held)] } else { Vec::new() };
                        Performed { response: Response::States(states), writes }
                    }
                    Err(refusal) => Response::Refused(refusal).into(),
                }
            }
            Request::Find(filter) => {
                let states = state.now.find(flow, filter);
                let held = states.iter().map(|state| state.reference).collect();
                let writes = if filter.hold { vec![LedgerWrite::Hold(held)] } else { Vec::new() };
                Performed { response: Response::States(states), writes }
            }
            Request::Transactions(ids) => {
                Response::Transactions(ids.iter().map(|id| state.now.transactions.get(id).cloned()).collect())
                    .into()
            }
            Request::Dependencies(ids) => {
                let kept = ids.iter().map(|id| state.now.kept.get(&(flow, *id)).cloned());
                Response::Transactions(kept.collect()).into()
            }
            Request::Known(ids) => {
                Response::Known(ids.iter().map(|id| state.now.transactions.contains_key(id)).collect()).into()
            }
            Request::Keep(transactions) => Performed {
                response: Response::Done,
                writes: transactions.iter().cloned().map(LedgerWrite::Keep).collect(),
            },
            Request::Record(transactions) => Performed {
                response: Response::Done,
                writes: transactions.iter().cloned().map(LedgerWrite::Record).collect(),
            },
            Request::Release(states) => {
                Performed { response: Response::Done, writes: vec![LedgerWrite::Release(states.clone())] }
            }
            Request::Attachment(id) => Response::Attachment(state.now.attachments.get(id).cloned()).into(),
            Request::KeepPart(part) => {
                Performed { response: Response::Done, writes: vec![LedgerWrite::KeepPart(part.clone())] }
            }
            Request::Attach { attachment, parts } => {
                let kept = |number| &state.now.parts[&(flow, *attachment, number)];
                match AttachmentPart::join(*attachment, (0..*parts).map(|number| kept(number).as_ref())) {
                    Ok(attachment) => {
                        Performed { response: Response::Done, writes: vec![LedgerWrite::Attach(attachment)] }
                    }
                    Err(refusal) => Response::Refused(refusal).into(),
                }
            }
            Request::Commit(commit) => {
                let committed = state.now.decide(commit, now);
                let writes = match committed {
                    Committed::Yes => vec![LedgerWrite::Consume {
                        states: commit.inputs.clone(),
                        by: commit.transaction,
                        requester: commit.requester.clone(),
                    }],
                    _ => Vec::new(),
                };
                Performed { response: Response::Committed(committed), writes }
            }
            Request::Parties => {
                Response::Names(state.parties.iter().map(|party| party.name.clone()).collect()).into()
            }
            Request::Shared { with, after } => Response::Shared(state.now.shared(with, *after)).into(),
            Request::Consumers(_) if !state.notaries.iter().any(|notary| notary.party == self.me) => {
                Response::Refused(FlowError::refused(format!("{} is not a notary", self.me))).into()
            }
            Request::Consumers(states) => {
                let by = |asked| state.now.consumed.get(asked).map(|(by, _)| *by);
                Response::Consumers(states.iter().map(by).collect()).into()
            }
            Request::Unconsumed { after } => {
                Response::Unconsumed(state.now.unconsumed(after.as_deref())).into()
            }
            Request::ConsumeElsewhere(states) => Performed {
                response: Response::Done,
                writes: vec![LedgerWrite::ConsumedElsewhere(states.clone())],
            },
            Request::Recovered => {
                Performed { response: Response::Done, writes: vec![LedgerWrite::Recovered] }
            }
            Request::Rate { base, quote } => {
                Response::Rate(state.rates.get(&(base.clone(), quote.clone())).cloned()).into()
            }
        };
        for write in &performed.writes {
            state.now.apply(flow, &self.me.key, write);
        }
        Ok(performed)
    }

    fn submit(&self, unit: Unit) {
        let mut state = self.state();
        if unit.outcome.is_some() {
            state.now.end(unit.flow);
        }
        state.pending.push_back(Pending::Unit(Box::new(unit)));
    }

    fn progress(&self, flow: FlowId, path: &str) {
        self.state().progress.push((flow, path.to_owned()));
    }

    fn wake(&self) {}

    fn has_room(&self, _: &Name) -> bool {
        !self.state().switches.no_room
    }

    fn is_known(&self, flow: FlowId) -> Result<bool, Trouble> {
        let state = self.state();
        Ok(state.disk.flows.contains_key(&flow) || state.disk.outcomes.contains_key(&flow))
    }
}

/// The host as the engine wants it.
pub(super) fn as_host(memory: &Arc<Memory>) -> Arc<dyn Host> {
    memory.clone()
}
