//! Three nodes without threads and sockets make payments, and what they write is kept.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use serde_json::json;
use tally_contracts::{Contracts, Name, NetworkId, Party, PublicKey, Scheme, SignedTransaction, SigningKey};
use tally_flows::{Limits, Notaries, Notary, NotaryKind};
use tally_identity::system_now;
use tally_messaging::QueueId;
use tally_node::{Core, Meters, Network, Parts, Post, Request};
use tally_protocols::consent::Policy;
use tally_store::{Recorded, Sqlite, SqliteOptions, Write};

use super::spy::Spy;
use crate::flows::FlowsError;
use crate::flows::network::{NOTARY, name};
use crate::flows::work::Work;

/// What was recorded.
pub(super) struct Recording {
    /// Payer, payee and notary.
    pub(super) nodes: [Node; 3],
    /// What is signed and verified for each payment.
    pub(super) payments: Vec<Signatures>,
}

/// What a node wrote.
pub(super) struct Node {
    /// Before the first payment.
    pub(super) before: Vec<Vec<Write>>,
    /// For the payments.
    pub(super) batches: Vec<Vec<Write>>,
}

/// What is signed and verified for one payment.
pub(super) struct Signatures {
    pub(super) payer: SigningKey,
    pub(super) notary: SigningKey,
    pub(super) payment: SignedTransaction,
    pub(super) issuance: SignedTransaction,
}

struct Known {
    parties: Vec<Party>,
    service: PublicKey,
}

impl Network for Known {
    fn id(&self) -> NetworkId {
        NetworkId::from_bytes([0x4e; 32])
    }

    fn party(&self, name: &Name) -> Option<Party> {
        self.parties.iter().find(|party| party.name == *name).cloned()
    }

    fn parties(&self) -> Vec<Name> {
        self.parties.iter().map(|party| party.name.clone()).collect()
    }

    fn notaries(&self) -> Notaries {
        let party = Party { name: name(NOTARY), key: self.service };
        Notaries { current: vec![Notary { party, kind: NotaryKind::NonValidating }], former: Vec::new() }
    }

    fn transaction_limit(&self) -> u64 {
        u64::MAX
    }

    fn is_certified(&self, party: &Party) -> bool {
        self.parties.contains(party)
    }

    fn keys_of(&self, name: &Name) -> Vec<PublicKey> {
        self.party(name).map(|party| party.key).into_iter().collect()
    }

    fn name_of(&self, key: &PublicKey) -> Option<Name> {
        self.parties.iter().find(|party| party.key == *key).map(|party| party.name.clone())
    }
}

/// What leaves a node, until it is handed over.
#[derive(Default)]
struct Out {
    messages: Mutex<Vec<(Name, u64, Bytes)>>,
    acknowledged: Mutex<Vec<(Name, u64)>>,
}

fn take<T>(from: &Mutex<Vec<T>>) -> Vec<T> {
    std::mem::take(&mut *from.lock().unwrap_or_else(PoisonError::into_inner))
}

impl Post for Out {
    fn send(&self, messages: Vec<(Name, u64, Bytes)>) {
        self.messages.lock().unwrap_or_else(PoisonError::into_inner).extend(messages);
    }

    fn acknowledge(&self, peer: &Name, _: QueueId, up_to: u64) {
        self.acknowledged.lock().unwrap_or_else(PoisonError::into_inner).push((peer.clone(), up_to));
    }

    fn resume(&self) {}
}

struct Member {
    core: Core,
    out: Arc<Out>,
    spy: Arc<Spy>,
}

fn unexpected(what: &str, error: impl std::fmt::Display) -> FlowsError {
    FlowsError::Unexpected(format!("{what}: {error}"))
}

fn key(number: u8) -> Result<SigningKey, FlowsError> {
    SigningKey::from_secret(Scheme::Ed25519, &[number; 32]).map_err(|error| unexpected("a key", error))
}

/// Records `count` payments, each of a coin that was issued by itself, with `together` under way.
pub(super) fn record(directory: &Path, count: usize, together: usize) -> Result<Recording, FlowsError> {
    let home = tempfile::Builder::new().prefix(".tally-limits-").tempdir_in(directory);
    let home = home.map_err(FlowsError::file(directory))?;
    let organisations = ["PartyA", "PartyB", NOTARY];
    let keys = [key(1)?, key(2)?, key(3)?];
    let service = key(4)?;
    let parties: Vec<Party> = organisations
        .iter()
        .zip(&keys)
        .map(|(organisation, key)| Party { name: name(organisation), key: key.public_key() })
        .collect();
    let mut members = Vec::with_capacity(3);
    for (index, key) in (0_u8..).zip(&keys) {
        let store = Sqlite::open(&SqliteOptions::new(home.path().join(format!("{index}.db"))))?;
        let spy = Arc::new(Spy::new(store));
        let parts = Parts {
            me: parties[usize::from(index)].clone(),
            key: key.clone(),
            former: Vec::new(),
            notary_key: (usize::from(index) == 2).then(|| service.clone()),
            contracts: Arc::new(Contracts::shipped()),
            store: spy.clone(),
            network: Arc::new(Known { parties: parties.clone(), service: service.public_key() }),
            clock: Arc::new(system_now),
            rates: Arc::new(|_, _| None),
            entropy: [index; 32],
            queue_bytes: 64 << 20,
            policy: Policy::default(),
            patience: Duration::from_secs(30),
        };
        let core = Core::open(parts, tally_protocols::registry(), Limits::default(), Meters::unread());
        let core = core.map_err(|error| unexpected("a node of the recording", error))?;
        let out = Arc::new(Out::default());
        core.join(out.clone());
        members.push(Member { core, out, spy });
    }
    run(&members, Work::Issue, count, together)?;
    let before: Vec<_> = members.iter().map(|member| member.spy.take()).collect();
    run(&members, Work::Pay { outputs: 1 }, count, together)?;
    let batches: Vec<_> = members.iter().map(|member| member.spy.take()).collect();
    let payments = signatures(&batches[1], &keys[0], &service)?;
    if payments.len() != count {
        return Err(unexpected("payments recorded", payments.len()));
    }
    let mut nodes = before.into_iter().zip(batches).map(|(before, batches)| Node { before, batches });
    let mut next = || nodes.next().ok_or_else(|| unexpected("nodes", "there are three"));
    Ok(Recording { nodes: [next()?, next()?, next()?], payments })
}

/// Runs flows at the first node, `together` under way, until all have ended and nothing is left to say.
fn run(members: &[Member], work: Work, count: usize, together: usize) -> Result<(), FlowsError> {
    let arguments = json!(work.request().arguments);
    let payer = &members[0].core;
    let arguments = payer.engine().registry().arguments_from_json(work.flow(), &arguments);
    let arguments = arguments.map_err(|error| unexpected("the arguments", error))?;
    let mut left = count;
    let mut idle = false;
    while !idle {
        while left > 0 && payer.engine().len() < together {
            let flow = work.flow().to_owned();
            let request =
                Request { user: "limits".to_owned(), request: None, flow, arguments: arguments.clone() };
            payer.start(request).map_err(|error| unexpected("a start", error))?;
            left -= 1;
        }
        idle = left == 0;
        for member in members {
            while member.core.turn() {
                idle = false;
            }
            while member.core.commit()? {
                idle = false;
            }
            hand_over(members, member)?;
        }
    }
    let under_way: usize = members.iter().map(|member| member.core.engine().len()).sum();
    if under_way > 0 {
        return Err(unexpected("flows that do not end", under_way));
    }
    Ok(())
}

fn hand_over(members: &[Member], from: &Member) -> Result<(), FlowsError> {
    let find = |name: &Name| members.iter().find(|member| member.core.me().name == *name);
    let me = &from.core.me().name;
    let mut by_peer: VecDeque<(Name, Vec<(u64, Bytes)>)> = VecDeque::new();
    for (peer, number, bytes) in take(&from.out.messages) {
        match by_peer.iter_mut().find(|(name, _)| *name == peer) {
            Some((_, messages)) => messages.push((number, bytes)),
            None => by_peer.push_back((peer, vec![(number, bytes)])),
        }
    }
    for (peer, mut messages) in by_peer {
        if let Some(peer) = find(&peer) {
            let received = peer.core.receive(me, from.core.queue(), &mut messages);
            received.map_err(|refusal| unexpected("a message", format!("{refusal:?}")))?;
        }
    }
    for (peer, up_to) in take(&from.out.acknowledged) {
        if let Some(peer) = find(&peer) {
            peer.core.acknowledged(me, up_to);
        }
    }
    Ok(())
}

/// The payments that the payee recorded, each with the issuance of its coin.
fn signatures(
    payee: &[Vec<Write>],
    payer: &SigningKey,
    service: &SigningKey,
) -> Result<Vec<Signatures>, FlowsError> {
    let mut issuances = std::collections::HashMap::new();
    let mut payments = Vec::new();
    for write in payee.iter().flatten() {
        let Write::Transaction(Recorded { bytes, .. }) = write else { continue };
        let signed = SignedTransaction::decode(bytes).map_err(|error| unexpected("a transaction", error))?;
        if signed.transaction().inputs().is_empty() {
            issuances.insert(signed.id(), signed);
        } else {
            payments.push(signed);
        }
    }
    let pair = |payment: SignedTransaction| {
        let input = payment.transaction().inputs().first()?;
        let issuance = issuances.get(&input.transaction)?.clone();
        Some(Signatures { payer: payer.clone(), notary: service.clone(), payment, issuance })
    };
    Ok(payments.into_iter().filter_map(pair).collect())
}
