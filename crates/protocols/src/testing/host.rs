//! The host of one node in memory.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tally_contracts::limits::SIGNED_TRANSACTION_BYTES;
use tally_contracts::{Name, Party, PublicKey, Role, SigningKey, Timestamp, TransactionId, sign};
use tally_flows::{
    AttachmentPart, Bearer, Committed, FlowError, FlowId, FormerKey, Host, LedgerWrite, Notaries, Performed,
    Rate, Request, Response, Trouble, Unit,
};

use super::Ledger;
use super::cluster::Agreed;
use crate::consent::{DAY, Policy, Use};

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
    /// The queues to these have none.
    pub no_room_for: BTreeSet<Name>,
    /// These have taken nothing for a while.
    pub silent: BTreeSet<Name>,
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
    /// What parties were before.
    pub(super) former: Vec<Party>,
    pub(super) notaries: Notaries,
    pub(super) transaction_limit: u64,
    pub(super) policy: Policy,
    pub(super) rates: BTreeMap<(String, String), Rate>,
    pub(super) switches: Switches,
    pub(super) received: Vec<Received>,
    pub(super) progress: Vec<(FlowId, String)>,
    pub(super) signed: Vec<TransactionId>,
    /// The clustered notary that the node is a member of.
    pub(super) cluster: Option<Arc<Mutex<Agreed>>>,
}

pub(super) struct Memory {
    pub(super) me: Party,
    key: SigningKey,
    /// What it signed with before and until when, oldest first.
    former: Vec<(SigningKey, Timestamp)>,
    /// What it signs with as a notary.
    pub(super) service: SigningKey,
    state: Mutex<State>,
}

impl Memory {
    pub(super) fn new(me: Party, key: SigningKey, service: SigningKey) -> Self {
        Self {
            me,
            key,
            former: Vec::new(),
            service,
            state: Mutex::new(State {
                disk: Ledger::default(),
                now: Ledger::default(),
                pending: VecDeque::new(),
                tickets: BTreeMap::new(),
                taken: BTreeSet::new(),
                next_ticket: 0,
                parties: Vec::new(),
                former: Vec::new(),
                notaries: Notaries::default(),
                transaction_limit: SIGNED_TRANSACTION_BYTES as u64,
                policy: Policy::default(),
                rates: BTreeMap::new(),
                switches: Switches::default(),
                received: Vec::new(),
                progress: Vec::new(),
                signed: Vec::new(),
                cluster: None,
            }),
        }
    }

    /// This memory in the hands of a notary with another key.
    pub(super) fn with_service(&self, service: SigningKey) -> Self {
        let mut next = Self::new(self.me.clone(), self.key.clone(), service);
        next.former.clone_from(&self.former);
        std::mem::swap(&mut *next.state(), &mut *self.state());
        next
    }

    /// This memory in the hands of a node whose key was rotated.
    pub(super) fn with_key(&self, key: SigningKey, until: Timestamp) -> Self {
        let me = Party { name: self.me.name.clone(), key: key.public_key() };
        let mut next = Self::new(me, key, self.service.clone());
        next.former.clone_from(&self.former);
        next.former.push((self.key.clone(), until));
        std::mem::swap(&mut *next.state(), &mut *self.state());
        next
    }

    /// Who the node is, now and before.
    pub(super) fn bearer(&self) -> Bearer {
        let former =
            self.former.iter().map(|(key, until)| FormerKey { key: key.public_key(), until: *until });
        Bearer::new(self.me.clone(), &former.collect::<Vec<_>>())
    }

    /// Its keys, oldest first.
    pub(super) fn own(&self) -> Vec<PublicKey> {
        self.keys().map(SigningKey::public_key).collect()
    }

    fn keys(&self) -> impl Iterator<Item = &SigningKey> {
        self.former.iter().map(|(key, _)| key).chain([&self.key])
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// All keys that were ever certified for a name, the present one first.
    fn keys_of(&self, name: &Name) -> Vec<PublicKey> {
        let all = self.parties.iter().chain(&self.former);
        all.filter(|party| party.name == *name).map(|party| party.key).collect()
    }

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
            Request::Sign { by, role, transaction } => {
                let key = match role {
                    Role::Party | Role::Oracle => self.keys().find(|key| key.public_key() == *by),
                    Role::Notary => Some(&self.service).filter(|key| key.public_key() == *by),
                };
                if let Some(key) = key {
                    state.signed.push(*transaction);
                    Response::Signature(sign(key, *role, *transaction)).into()
                } else {
                    let reason = format!("this node has no key {by} to sign with as {role}");
                    Response::Refused(FlowError::refused(reason)).into()
                }
            }
            Request::TransactionLimit => Response::Bytes(state.transaction_limit).into(),
            Request::Certified(parties) => {
                let ever = |party: &Party| state.parties.contains(party) || state.former.contains(party);
                Response::Known(parties.iter().map(ever).collect()).into()
            }
            Request::Select(selection) => {
                let locks = !state.switches.ignores_locks;
                match state.now.select(&self.own(), flow, selection, locks) {
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
            Request::Issuers => Response::Issuers(state.policy.cash_issuers.clone()).into(),
            Request::Consent(proposal) => {
                let party = |name: &Name| state.parties.iter().find(|party| party.name == *name).cloned();
                let used = |rule: &str| state.now.used(rule, now.saturating_sub(DAY));
                match state.policy.judge(proposal, now, party, used) {
                    Err(_) => Response::Refused(Policy::refusal(&self.me, proposal)).into(),
                    Ok(None) => Response::Done.into(),
                    Ok(Some(Use { rule, quantity })) => Performed {
                        response: Response::Done,
                        writes: vec![LedgerWrite::Consent { rule, quantity, at: now }],
                    },
                }
            }
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
            Request::Parties => {
                Response::Names(state.parties.iter().map(|party| party.name.clone()).collect()).into()
            }
            Request::Shared { with, after } => {
                Response::Shared(state.now.shared(&state.keys_of(with), *after)).into()
            }
            Request::Consumers(states) if state.cluster.is_some() => {
                let cluster = state.cluster.as_ref().expect("it is a member");
                let cluster = cluster.lock().unwrap_or_else(PoisonError::into_inner);
                Response::Consumers(states.iter().map(|asked| cluster.consumer(asked)).collect()).into()
            }
            Request::Consumers(_) if state.notaries.named(&self.me.name).is_none() => {
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
            Request::Submit { request, .. } => match &state.cluster {
                Some(cluster) => {
                    let mut cluster = cluster.lock().unwrap_or_else(PoisonError::into_inner);
                    match cluster.decide(request, now) {
                        Ok(answer) => Response::Cluster(answer).into(),
                        Err(unfounded) => Response::Refused(FlowError::invalid(unfounded)).into(),
                    }
                }
                None => {
                    let reason = format!("{} is no member of a clustered notary", self.me);
                    Response::Refused(FlowError::refused(reason)).into()
                }
            },
            Request::Rate { base, quote } => {
                Response::Rate(state.rates.get(&(base.clone(), quote.clone())).cloned()).into()
            }
        };
        for write in &performed.writes {
            state.now.apply(flow, &self.own(), write);
        }
        Ok(performed)
    }

    fn submit(&self, unit: Unit) {
        let mut state = self.state();
        if let Some(outcome) = &unit.outcome {
            state.now.end(unit.flow, outcome);
        }
        state.pending.push_back(Pending::Unit(Box::new(unit)));
    }

    fn progress(&self, flow: FlowId, path: &str) {
        self.state().progress.push((flow, path.to_owned()));
    }

    fn wake(&self) {}

    fn has_room(&self, peer: &Name) -> bool {
        let state = self.state();
        !state.switches.no_room && !state.switches.no_room_for.contains(peer)
    }

    fn is_silent(&self, peer: &Name) -> bool {
        self.state().switches.silent.contains(peer)
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
