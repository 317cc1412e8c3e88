//! What reached whom: nobody receives anything of a transaction that is none of his business.

use std::collections::{BTreeMap, BTreeSet};

use tally_contracts::{PublicKey, TearOff, Transaction, TransactionId};

use super::facts::Fact;
use super::orders::Orders;
use super::world::World;

/// What was found in what nodes received.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Findings {
    /// Whole transactions, each time that one arrived.
    pub(crate) transactions: u64,
    /// Parts of transactions.
    pub(crate) parts: u64,
    /// Traces of a transaction, all of them where they may be.
    pub(crate) traces: u64,
}

/// Everything that is written as a length and then a value that begins with format 2.
fn values(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    (0..bytes.len().saturating_sub(5)).filter_map(|at| {
        let length = u32::from_le_bytes(*bytes[at..].first_chunk()?);
        let value = bytes.get(at + 4..)?.get(..usize::try_from(length).ok()?)?;
        (value.len() > 40 && value[0] == 2).then_some(value)
    })
}

/// All transactions that anybody received or wrote down, and who received which.
struct Seen<'a> {
    all: BTreeMap<TransactionId, Transaction>,
    by_node: Vec<BTreeSet<TransactionId>>,
    parts: Vec<Vec<TearOff>>,
    findings: Findings,
    known: BTreeMap<&'a [u8], Option<Transaction>>,
}

impl<'a> Seen<'a> {
    fn read(world: &'a World) -> Self {
        let mut seen = Self {
            all: BTreeMap::new(),
            by_node: vec![BTreeSet::new(); world.len()],
            parts: vec![Vec::new(); world.len()],
            findings: Findings::default(),
            known: BTreeMap::new(),
        };
        for machine in &world.machines {
            let audit = machine.disk.audit();
            for (id, signed) in audit.recorded.iter().chain(&audit.fetched) {
                seen.all.entry(*id).or_insert_with(|| signed.transaction().clone());
            }
        }
        for (node, received) in world.received.iter().enumerate() {
            for message in received.values() {
                for value in values(message) {
                    seen.value(node, value);
                }
            }
        }
        seen
    }

    fn value(&mut self, node: usize, value: &'a [u8]) {
        let found = self.known.entry(value).or_insert_with(|| Transaction::decode(value).ok());
        if let Some(transaction) = found {
            self.findings.transactions += 1;
            self.by_node[node].insert(transaction.id());
            self.all.entry(transaction.id()).or_insert_with(|| transaction.clone());
        } else if let Ok(part) = TearOff::decode(value) {
            self.findings.parts += 1;
            self.parts[node].push(part);
        }
    }
}

/// Searches everything that every node received.
pub(crate) fn search(world: &World, orders: &Orders) -> Findings {
    let mut seen = Seen::read(world);
    let may_see: Vec<_> = (0..world.len()).map(|node| concerned(world, orders, &seen.all, node)).collect();
    for (node, found) in seen.by_node.iter().enumerate() {
        let strange: Vec<_> = found.difference(&may_see[node]).collect();
        assert!(strange.is_empty(), "{} received {strange:?}", world.machines[node].me);
    }
    parts(world, &seen.parts);
    seen.findings.traces = traces(world, &seen.all, &may_see);
    seen.findings
}

/// The transactions that a node may see whole: those it takes part in, those it validates as a notary, those it was
/// asked to buy into, and all that these build on.
fn concerned(
    world: &World,
    orders: &Orders,
    all: &BTreeMap<TransactionId, Transaction>,
    node: usize,
) -> BTreeSet<TransactionId> {
    let me = world.machines[node].me.clone();
    if node == world.notaries[0] || node == world.oracle {
        return BTreeSet::new();
    }
    let takes_part = |transaction: &Transaction| {
        let inputs = transaction.inputs().iter().filter_map(|input| {
            all.get(&input.transaction)?.outputs().get(usize::try_from(input.index).ok()?)
        });
        let mut states = inputs.chain(transaction.outputs());
        let signs = transaction.commands().iter().any(|command| command.signers.contains(&me.key));
        signs || states.any(|state| Fact::of(state).participants().contains(&me.key))
    };
    let validates = |transaction: &Transaction| {
        node == world.notaries[1]
            && *transaction.notary() == world.machines[node].service
            && transaction.needs_notary()
    };
    let offered = |transaction: &Transaction| {
        orders.shown.iter().any(|(seller, buyer, isin)| {
            let seller: PublicKey = world.machines[*seller].me.key;
            let is_it = |fact: Fact| matches!(fact, Fact::Bond(bond) if bond.terms.isin == *isin && bond.owner == seller);
            *buyer == node && transaction.outputs().iter().any(|state| is_it(Fact::of(state)))
        })
    };
    let mut open: Vec<TransactionId> = all
        .iter()
        .filter(|(_, transaction)| takes_part(transaction) || validates(transaction) || offered(transaction))
        .map(|(id, _)| *id)
        .collect();
    let mut closed = BTreeSet::new();
    while let Some(id) = open.pop() {
        if closed.insert(id)
            && let Some(transaction) = all.get(&id)
        {
            let named = transaction.inputs().iter().chain(transaction.references());
            open.extend(named.map(|reference| reference.transaction));
        }
    }
    closed
}

/// A notary that does not validate sees inputs, references, time window and notary, and of what is consumed whose signatures
/// consume it; an oracle its own commands and who signs what. Nobody else is shown a part.
fn parts(world: &World, parts: &[Vec<TearOff>]) {
    for (node, parts) in parts.iter().enumerate() {
        let me = &world.machines[node].me;
        for part in parts {
            assert!(part.outputs().is_none() && part.attachments().is_none() && part.contracts().is_none());
            if node == world.notaries[0] {
                assert!(part.commands().is_none() && part.signers().is_none(), "{me} sees who does what");
                let consumers = part.consumers().is_some();
                assert!(consumers != part.for_notary().is_ok(), "{me} sees what it has to");
            } else {
                assert_eq!(node, world.oracle, "{me} was shown a part of a transaction");
                assert!(part.inputs().is_none() && part.references().is_none() && part.notary().is_none());
                let own = part.commands_for(&me.key).expect("it sees its own commands").len();
                assert_eq!(part.commands().map(|commands| commands.values().len()), Some(own));
            }
        }
    }
}

/// Searches for bytes that only transactions have: their salt, and amounts and names that occur nowhere else.
fn traces(
    world: &World,
    all: &BTreeMap<TransactionId, Transaction>,
    may_see: &[BTreeSet<TransactionId>],
) -> u64 {
    // What begins a trace, what follows, and the transactions that have it.
    let mut by_trace: BTreeMap<Vec<u8>, BTreeSet<TransactionId>> = BTreeMap::new();
    for (id, transaction) in all {
        let mut add = |trace: Vec<u8>| {
            by_trace.entry(trace).or_default().insert(*id);
        };
        add(transaction.encode()[1..33].to_vec());
        for state in transaction.outputs() {
            let amount = match Fact::of(state) {
                Fact::Cash(cash) => cash.amount,
                Fact::Bond(bond) => bond.nominal,
                Fact::Iou(iou) => {
                    add(iou.linear_id.as_bytes().to_vec());
                    continue;
                }
            };
            // A small rest of a payment is a number like any other.
            if amount.quantity() > 1 << 33 {
                add(amount.quantity().to_le_bytes().to_vec());
                add(amount.quantity().to_string().into_bytes());
                add(amount.to_string().into_bytes());
            }
        }
    }
    let mut begins = vec![false; 1 << 16];
    let mut by_begin: BTreeMap<[u8; 8], Vec<&Vec<u8>>> = BTreeMap::new();
    for trace in by_trace.keys() {
        let first: [u8; 8] = *trace.first_chunk().expect("a trace has eight bytes");
        begins[usize::from(u16::from_le_bytes([first[0], first[1]]))] = true;
        by_begin.entry(first).or_default().push(trace);
    }
    let mut found = 0;
    for (node, received) in world.received.iter().enumerate() {
        for ((from, number), message) in received {
            for at in 0..message.len().saturating_sub(7) {
                if !begins[usize::from(u16::from_le_bytes([message[at], message[at + 1]]))] {
                    continue;
                }
                let Some(traces) = message[at..].first_chunk().and_then(|first| by_begin.get(first)) else {
                    continue;
                };
                for trace in traces.iter().filter(|trace| message[at..].starts_with(trace)) {
                    found += 1;
                    let ids = &by_trace[*trace];
                    assert!(
                        !ids.is_disjoint(&may_see[node]),
                        "{} received {:?}, which is of {ids:?}, in message {number} of {}",
                        world.machines[node].me,
                        String::from_utf8_lossy(trace),
                        world.machines[*from].me
                    );
                }
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::steps::paid;
    use super::*;
    use tally_contracts::Group;
    use tally_sim::Rng;

    fn found(change: impl FnOnce(&mut World, &Transaction)) -> Result<Findings, String> {
        let (mut world, transaction) = paid();
        change(&mut world, &transaction);
        let orders = Orders::new(Rng::new(1));
        let searched = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| search(&world, &orders)));
        searched.map_err(|panic| match panic.downcast::<String>() {
            Ok(text) => *text,
            Err(panic) => (*panic.downcast::<&'static str>().expect("a text")).to_owned(),
        })
    }

    fn receive(world: &mut World, node: usize, bytes: &[u8]) {
        world.received[node].insert((0, 1_000), bytes.to_vec().into());
    }

    #[test]
    fn finds_what_somebody_may_not_know() {
        let clean = found(|_, _| {}).expect("a payment tells nobody too much");
        assert!(clean.transactions > 0 && clean.parts > 0 && clean.traces > 0, "{clean:?}");
        for node in [3, 5] {
            // To the notary that does not validate, and to the oracle.
            let whole =
                found(|world, transaction| receive(world, node, &tally_contracts::encode(transaction)));
            assert!(whole.is_err(), "{whole:?}");
            let part = |group| {
                found(|world, transaction| {
                    let part = transaction.tear_off(&[group], |_| false).expect("a part");
                    receive(world, node, &tally_contracts::encode(&part));
                })
            };
            assert!(part(Group::Outputs).is_err() && part(Group::Contracts).is_err());
            assert!(node == 5 || part(Group::Commands).is_err());
            assert!(node == 3 || part(Group::Inputs).is_err());
            let amount = found(|world, transaction| {
                let Fact::Cash(cash) = Fact::of(&transaction.outputs()[0]) else { panic!("cash") };
                receive(world, node, format!("have you heard of {}?", cash.amount.quantity()).as_bytes());
            });
            assert!(amount.expect_err("it is none of its business").contains("received"));
        }
    }
}
