//! The ledger as the notaries and issuers have it, kept without looking at any vault, and compared with all of them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tally_contracts::{Name, PublicKey, SignedTransaction, State, StateRef, TransactionId};
use tally_flows::{Fate, Flow, FlowError};
use tally_protocols::cash::CashPayAtRate;
use tally_store::{StateQuery, Status};

use super::clients::Asked;
use super::facts::Fact;
use super::machine::rate;
use super::orders::About;
use super::world::World;

/// Every transaction that is final, and what follows from them.
pub(crate) struct Books {
    pub(crate) recorded: BTreeMap<TransactionId, Arc<SignedTransaction>>,
    pub(crate) consumer: BTreeMap<StateRef, TransactionId>,
    /// Final, but not with everybody concerned: somebody killed a flow on the way.
    pub(crate) orphans: BTreeSet<TransactionId>,
    pub(super) kills: usize,
}

/// Minor units of assets that nodes have.
type Balances = BTreeMap<(String, usize), i128>;

fn mark(transaction: TransactionId) -> StateRef {
    StateRef { transaction, index: u32::MAX }
}

impl Books {
    /// Reads what notaries and nodes have written, and checks that it fits together.
    pub(crate) fn read(world: &World, kills: usize) -> Self {
        let mut recorded: BTreeMap<TransactionId, Arc<SignedTransaction>> = BTreeMap::new();
        for machine in &world.machines {
            for (id, signed) in &machine.disk.audit().recorded {
                let first = recorded.entry(*id).or_insert_with(|| signed.clone());
                assert_eq!(first.signatures(), signed.signatures(), "everybody has one form of {id}");
            }
        }
        let mut consumer = BTreeMap::new();
        for notary in world.notaries {
            for (state, by) in &world.machines[notary].disk.audit().consumed {
                if let Some(producer) = recorded.get(&state.transaction) {
                    assert_eq!(
                        *producer.transaction().notary(),
                        world.machines[notary].service,
                        "{state} has one notary"
                    );
                }
                assert!(consumer.insert(*state, *by).is_none(), "{state} is consumed at two notaries");
            }
        }
        let mut books = Self { recorded, consumer, orphans: BTreeSet::new(), kills };
        books.is_final();
        books.orphans = books.orphans(world);
        // A notary that lies commits, says later that it refuses, and keeps its signature: then nothing is final.
        let kept_back: BTreeSet<TransactionId> = world
            .notaries
            .iter()
            .filter(|notary| world.lied.contains(*notary))
            .flat_map(|notary| {
                world.machines[*notary].disk.audit().consumed.values().copied().collect::<Vec<_>>()
            })
            .filter(|id| !books.recorded.contains_key(id))
            .collect();
        let lost = books.orphans.iter().find(|id| !books.is_of_liars(world, id) && !kept_back.contains(id));
        assert_eq!(lost, None, "it did not reach everybody");
        books
    }

    /// What somebody recorded was signed by everybody.
    pub(crate) fn are_signed(&self) {
        for (id, signed) in &self.recorded {
            assert_eq!(signed.verify_signatures(), Ok(()), "{id} is recorded");
        }
    }

    /// What somebody recorded was committed by its notary, and builds on what was too.
    fn is_final(&self) {
        for (id, signed) in &self.recorded {
            let transaction = signed.transaction();
            for input in transaction.inputs() {
                assert_eq!(self.consumer.get(input), Some(id), "{id} is recorded and consumes {input}");
            }
            if transaction.needs_notary() && transaction.inputs().is_empty() {
                assert_eq!(self.consumer.get(&mark(*id)), Some(id), "{id} is recorded and was committed");
            }
            for reference in transaction.inputs().iter().chain(transaction.references()) {
                let producer = self.recorded.get(&reference.transaction);
                assert!(
                    producer.is_some_and(|producer| producer.transaction().output(reference.index).is_some())
                );
            }
        }
    }

    fn output(&self, reference: &StateRef) -> &State {
        let index = usize::try_from(reference.index).expect("small");
        &self.recorded[&reference.transaction].transaction().outputs()[index]
    }

    /// Who takes part in a transaction, by the states that it consumes and makes.
    fn concerned(&self, signed: &SignedTransaction) -> BTreeSet<PublicKey> {
        let transaction = signed.transaction();
        let inputs = transaction.inputs().iter().map(|input| self.output(input));
        inputs.chain(transaction.outputs()).flat_map(|state| Fact::of(state).participants()).collect()
    }

    fn orphans(&self, world: &World) -> BTreeSet<TransactionId> {
        let mut orphans: BTreeSet<TransactionId> =
            self.consumer.values().filter(|by| !self.recorded.contains_key(by)).copied().collect();
        for (id, signed) in &self.recorded {
            let mut concerned = self.concerned(signed);
            let transaction = signed.transaction();
            if transaction.needs_notary() && *transaction.notary() == world.machines[world.notaries[1]].me {
                concerned.insert(transaction.notary().key);
            }
            let lacks = |machine: &&super::machine::Machine| {
                concerned.contains(&machine.me.key) && !machine.disk.audit().recorded.contains_key(id)
            };
            if world.machines.iter().any(|machine| lacks(&machine)) {
                orphans.insert(*id);
            }
        }
        orphans
    }

    /// Every vault shows the states that its node takes part in, consumed ones as consumed, and nothing else.
    pub(crate) fn fit_vaults(&self, world: &World) {
        for (node, machine) in world.machines.iter().enumerate() {
            let audit = machine.disk.audit();
            let mut expected: BTreeMap<StateRef, Option<TransactionId>> = BTreeMap::new();
            for (id, signed) in &audit.recorded {
                for (index, state) in (0..).zip(signed.transaction().outputs()) {
                    let reference = StateRef { transaction: *id, index };
                    if Fact::of(state).participants().contains(&machine.me.key) {
                        // A consumer that this node was never told of is one of those that a kill cut off.
                        let consumer = self.consumer.get(&reference).copied();
                        let known = consumer.filter(|by| audit.recorded.contains_key(by));
                        assert!(consumer == known || consumer.is_some_and(|by| self.orphans.contains(&by)));
                        expected.insert(reference, known);
                    }
                }
            }
            drop(audit);
            let store = world.truth(node);
            let mut query = StateQuery { status: Status::All, page_size: 1000, ..StateQuery::default() };
            let mut found = BTreeMap::new();
            loop {
                let page = store.states(&query).expect("the truth can be read");
                for state in page.states {
                    assert_eq!(state.state, *self.output(&state.reference), "the vault of node {node}");
                    found.insert(state.reference, state.consumed.map(|(by, _)| by));
                }
                match page.next {
                    Some(next) => query.cursor = Some(next),
                    None => break,
                }
            }
            assert_eq!(found, expected, "the vault of node {node}");
        }
    }

    /// What the nodes have, by their vaults, is what users were told was done.
    pub(crate) fn fit_orders(&self, world: &World) {
        let mut expected = Balances::new();
        let mut owed = BTreeSet::new();
        let mut told = BTreeSet::new();
        for asked in &world.clients.asked {
            let Some(id) = self.transaction_of(asked) else { continue };
            assert!(told.insert(id), "{id} is the outcome of two orders");
            assert!(self.recorded.contains_key(&id), "{id} is the outcome of an order, and recorded");
            let effects = self.effects(world, asked, id);
            for (asset, node, by) in effects.moved {
                *expected.entry((asset, node)).or_default() += by;
            }
            owed.extend(effects.lent);
            for linear_id in &effects.settled {
                assert!(owed.remove(linear_id), "an IOU is settled once");
            }
        }
        let all: BTreeSet<_> = self.recorded.keys().copied().collect();
        // Also of those that a person killed: nobody is told that a flow failed whose transaction is final.
        for id in all.difference(&told) {
            assert!(self.is_of_liars(world, id), "{id} is final, and what came of no order");
            self.read_effects(world, id, &mut expected);
        }
        assert!(told.is_subset(&all), "what users were told is recorded");
        expected.retain(|_, quantity| *quantity != 0);
        let mut found = Balances::new();
        let mut open = BTreeSet::new();
        for (node, machine) in world.machines.iter().enumerate() {
            let query = StateQuery { page_size: 1000, ..StateQuery::default() };
            for state in world.truth(node).states(&query).expect("the truth can be read").states {
                match Fact::of(&state.state) {
                    Fact::Iou(iou) => {
                        open.insert(iou.linear_id);
                    }
                    fact => {
                        let Some((asset, owner, quantity)) = fact.holding() else { continue };
                        if owner == machine.me.key {
                            *found.entry((asset, node)).or_default() += i128::from(quantity);
                        }
                    }
                }
            }
        }
        assert_eq!(found, expected, "what nodes have is what users were told");
        assert_eq!(open, owed, "what is owed is what users were told");
    }

    /// Does a transaction spend coins of liars alone?
    fn is_of_liars(&self, world: &World, id: &TransactionId) -> bool {
        let liars: Vec<_> = world.lied.iter().map(|node| world.machines[*node].me.key).collect();
        let mut inputs = self.consumer.iter().filter(|(_, by)| *by == id).map(|(state, _)| state).peekable();
        inputs.peek().is_some()
            && inputs.all(|state| {
                self.recorded.contains_key(&state.transaction)
                    && matches!(Fact::of(self.output(state)), Fact::Cash(cash) if liars.contains(&cash.owner))
            })
    }

    /// What a transaction that nobody owned up to moved.
    fn read_effects(&self, world: &World, id: &TransactionId, into: &mut Balances) {
        let transaction = self.recorded[id].transaction();
        let spent = transaction.inputs().iter().map(|input| (self.output(input), -1));
        for (state, sign) in spent.chain(transaction.outputs().iter().map(|state| (state, 1))) {
            let Some((asset, owner, quantity)) = Fact::of(state).holding() else { continue };
            let node = world.machines.iter().position(|machine| machine.me.key == owner).expect("a member");
            // A liar tells whom it likes, and may have thrown away its own part.
            if !world.machines[node].disk.audit().recorded.contains_key(id) {
                continue;
            }
            *into.entry((asset, node)).or_default() += sign * i128::from(quantity);
        }
    }

    fn effects(&self, world: &World, asked: &Asked, id: TransactionId) -> Effects {
        let node = asked.order.node;
        let cash = |currency: tally_contracts::Currency, issuer: &Name| format!("{currency}@{issuer}");
        let mut effects = Effects::default();
        match &asked.order.about {
            About::Issue { amount } => {
                let asset = cash(amount.currency(), &world.machines[node].me.name);
                effects.moved.push((asset, node, i128::from(amount.quantity())));
            }
            About::Pay { to, issuer, amount } | About::Spend { to, issuer, amount, .. } => {
                effects.pass(cash(amount.currency(), issuer), node, *to, amount.quantity());
            }
            About::Exit { issuer, amount } => {
                let asset = cash(amount.currency(), issuer);
                effects.moved.push((asset, node, -i128::from(amount.quantity())));
            }
            About::PayAtRate { to, issuer, worth } => {
                let payee = world.machines[*to].me.key;
                let paid: Vec<_> = self.recorded[&id].transaction().outputs().iter().map(Fact::of).collect();
                let paid: Vec<_> = paid
                    .iter()
                    .filter_map(|fact| match fact {
                        Fact::Cash(cash) if cash.owner == payee => Some(cash.amount),
                        _ => None,
                    })
                    .collect();
                let currency = paid.first().expect("something is paid").currency();
                let sum = paid.iter().map(|amount| u128::from(amount.quantity())).sum::<u128>();
                let billionths = rate(worth.currency().code(), currency.code()).expect("a known rate");
                let exact = u128::from(worth.quantity()) * u128::from(billionths / 10) / 100_000_000;
                assert_eq!(sum, exact, "what was paid at a rate");
                if let Some(Ok(output)) = &asked.outcome {
                    let told: <CashPayAtRate as Flow>::Output =
                        borsh::from_slice(output).expect("its output");
                    assert_eq!(u128::from(told.paid.quantity()), exact, "what is said to be paid at a rate");
                }
                effects.pass(cash(currency, issuer), node, *to, u64::try_from(exact).expect("an amount"));
            }
            About::Lend { .. } => {
                let outputs = self.recorded[&id].transaction().outputs();
                let [state] = outputs else { panic!("one IOU") };
                let Fact::Iou(iou) = Fact::of(state) else { panic!("an IOU") };
                let About::Lend { lender, value } = asked.order.about else { unreachable!("it is") };
                assert_eq!((iou.value, &iou.lender), (value, &world.machines[lender].me));
                effects.lent.push(iou.linear_id);
            }
            About::Settle { linear_id } => effects.settled.push(*linear_id),
            About::Bond { isin, nominal } => {
                let asset = format!("{isin}/{}@{}", nominal.currency(), world.machines[node].me.name);
                effects.moved.push((asset, node, i128::from(nominal.quantity())));
            }
            About::Transfer { to, isin, issuer, nominal } => {
                effects.pass(
                    format!("{isin}/{}@{issuer}", nominal.currency()),
                    node,
                    *to,
                    nominal.quantity(),
                );
            }
            About::Deliver { buyer, isin, issuer, nominal, price } => {
                effects.pass(
                    format!("{isin}/{}@{issuer}", nominal.currency()),
                    node,
                    *buyer,
                    nominal.quantity(),
                );
                effects.pass(cash(price.currency(), issuer), *buyer, node, price.quantity());
            }
            About::Redeem { isin, issuer, currency } => {
                let inputs = self.recorded[&id].transaction().inputs();
                let given: i128 = inputs
                    .iter()
                    .filter_map(|input| match Fact::of(self.output(input)) {
                        Fact::Bond(bond) => Some(i128::from(bond.nominal.quantity())),
                        _ => None,
                    })
                    .sum();
                effects.moved.push((format!("{isin}/{currency}@{issuer}"), node, -given));
                effects.moved.push((cash(*currency, issuer), node, given));
            }
            About::Talk | About::Nonsense | About::Lie => {}
        }
        effects
    }

    /// The final transaction of an order, by what its user was told: that it is done, that it was done before the flow was
    /// ended, or that it may be, in which case it is if somebody has it.
    fn transaction_of(&self, asked: &Asked) -> Option<TransactionId> {
        let makes_one = !matches!(asked.order.about, About::Talk | About::Nonsense | About::Lie);
        match asked.outcome.as_ref().filter(|_| makes_one)? {
            // The first part of the outputs of all flows that make a transaction.
            Ok(output) => {
                Some(TransactionId::from_bytes(*output.first_chunk().expect("it begins with an id")))
            }
            Err(error) => match error.fate() {
                Fate::Final(id) => Some(id),
                Fate::Unknown(id) => self.recorded.contains_key(&id).then_some(id),
                Fate::Refused => None,
            },
        }
    }

    /// Of the flows that raced for a coin exactly one won, and each of the others was told which.
    pub(crate) fn decide_races(&self, world: &World, raced: &BTreeSet<StateRef>) -> u64 {
        let mut decided = 0;
        for coin in raced {
            let runs = world.clients.asked.iter().filter(|asked| match &asked.order.about {
                About::Spend { coin: wanted, .. } => wanted == coin,
                _ => false,
            });
            let mut won = 0;
            for asked in runs {
                match &asked.outcome {
                    Some(_) if self.transaction_of(asked).is_some() => {
                        won += 1;
                        assert_eq!(self.consumer.get(coin).copied(), self.transaction_of(asked));
                    }
                    Some(Ok(_)) => panic!("what is done is recorded"),
                    Some(Err(FlowError::Conflict { state, consumed_by })) => {
                        decided += 1;
                        assert_eq!((state, self.consumer.get(coin)), (coin, Some(consumed_by)));
                    }
                    Some(Err(_)) => assert!(self.kills > 0, "a race ends with a winner: {:?}", asked.outcome),
                    None => assert!(asked.lost),
                }
            }
            assert!(won <= 1, "{coin} was won by {won} flows");
        }
        decided
    }
}

#[derive(Default)]
struct Effects {
    moved: Vec<(String, usize, i128)>,
    lent: Vec<tally_crypto::Hash>,
    settled: Vec<tally_crypto::Hash>,
}

impl Effects {
    fn pass(&mut self, asset: String, from: usize, to: usize, quantity: u64) {
        self.moved.push((asset.clone(), from, -i128::from(quantity)));
        self.moved.push((asset, to, i128::from(quantity)));
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn assets_are_called_as_contracts_call_them() {
        let issuer = super::super::machine::party("Alpha");
        let usd = "USD".parse().expect("a currency");
        assert_eq!(tally_contracts::cash::asset(usd, &issuer), format!("USD@{}", issuer.name));
    }
}
