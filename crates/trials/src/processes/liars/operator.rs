//! What scheduler and assembler write in place of what they should: proposals that nobody signed, participations with
//! others in them, decisions that follow from no answers.

use super::{Liar, Lie, Purpose, change, encoded, other_time, own, shared, unreadable};
use crate::processes::world::World;
use crate::simulation::plan::keys;
use tally_ledger::order::AccountAction;
use tally_ledger::transaction::{Leg, Signer, Terms};
use tally_ledger::{
    AccountId, AccountOrder, Amount, Kind, ParticipantId, Transaction, TransactionBatch, Uetr,
};
use tally_log::Offset;
use tally_settlement::message::{
    AcceptedBatch, ConsentBatch, DecisionBatch, Message, ParticipationBatch, ProposalBatch, Source,
};
use tally_settlement::path;
use tally_settlement::stage::Scheduler;

/// How many transactions a lying scheduler remembers, to propose them again.
const REMEMBERED: usize = 64;

impl Liar {
    /// Looks at what a scheduler has accepted, and changes what follows from it where it `lies`.
    pub(super) fn see_accepted(&mut self, world: &mut World, scheduler: u16, lies: bool) {
        let layout = world.setup.layout.clone();
        for record in self.fresh(world, Purpose::Alter, &shared(&layout, "accepted", scheduler)) {
            let accepted = AcceptedBatch::decode(&record.payload).expect("a scheduler wrote it");
            let source = Source::new(u64::from(scheduler), record.offset.0);
            let count = accepted.batch.len();
            let mut transactions: Vec<Transaction> =
                (0..count).map(|at| accepted.batch.transaction(at).expect("it is there")).collect();
            if lies && !world.healed && self.rng.chance(1, 3) {
                if self.rng.chance(1, 2) {
                    self.forge(world, source, &mut transactions);
                } else {
                    self.alter_proposals(world, source);
                }
            }
            self.signed.extend((0..count).filter_map(|at| accepted.batch.transaction(at)));
            let many = self.signed.len().saturating_sub(REMEMBERED);
            self.signed.drain(..many);
        }
    }

    /// Proposes other transactions than those accepted: to everybody, with participants and ids that fit.
    fn forge(&mut self, world: &mut World, source: Source, transactions: &mut Vec<Transaction>) {
        let Some(lie) = self.forgery(world, transactions) else { return };
        let participants = world.setup.network.participants.len();
        let is_there = |participant: &ParticipantId| participant.index() < participants;
        if !transactions.iter().all(|transaction| transaction.participants().iter().all(is_there)) {
            // There is nobody to propose it to.
            return;
        }
        self.tell(lie);
        let mut batch = TransactionBatch::default();
        for transaction in transactions.iter() {
            if !batch.push(transaction) {
                return;
            }
        }
        let setup = &world.setup;
        let mut scheduler = Scheduler::new(setup.network.clone(), source.scheduler, source.number, 1, [0; 2]);
        let asked = scheduler.propose_again(source, &batch, |_| true);
        let at = u16::try_from(source.scheduler).expect("few");
        let assemblers = u64::from(setup.layout.assemblers);
        let assembler = u16::try_from(source.number % assemblers).expect("few");
        let partition = shared(&setup.layout, "participations", at * setup.layout.assemblers + assembler);
        let participation = asked.participation.expect("there are transactions");
        let offset = Offset(source.number / assemblers);
        assert!(world.cluster.alter(&partition, offset, encoded(&participation)), "it was just written");
        for proposals in asked.proposals {
            let partition = own(&setup.layout, "proposals", proposals.participant, at);
            let altered = world.cluster.alter(&partition, Offset(source.number), encoded(&proposals));
            assert!(altered, "everybody hears of every batch");
        }
    }

    fn terms(&mut self, world: &World) -> Terms {
        let (mut uetr, mut seed) = ([0; 16], [0; 16]);
        self.rng.fill(&mut uetr);
        self.rng.fill(&mut seed);
        Terms {
            network: world.setup.network.id,
            uetr: Uetr(uetr),
            expiry: world.now.plus_ms(40_000),
            details: tally_crypto::Hash::ZERO,
            seed,
        }
    }

    /// A key that is not among those, as the adversary has it.
    fn signs_as(&mut self, world: &World, transaction: &mut Transaction, wanted: usize) {
        let id = transaction.id(&world.setup.network.id);
        // Not the first: that is the operator's, and an institution's.
        let other = &keys()[1 + (wanted + self.rng.index(keys().len() - 2)) % (keys().len() - 1)];
        let other = if other.public_key() == keys()[wanted].public_key() { &keys()[19] } else { other };
        let key = if self.rng.chance(1, 2) { other } else { &keys()[wanted] };
        // Its owner's key, and a signature that is not its owner's; or another's of both.
        let signature =
            if self.rng.chance(1, 4) { change::signature(&mut self.rng) } else { other.sign(id.as_bytes()) };
        transaction.signers = vec![Signer { key: key.public_key(), signature }];
        if self.rng.chance(1, 6) {
            transaction.signers.clear();
        }
        transaction.header.signers = u8::try_from(transaction.signers.len()).expect("few");
    }

    fn forgery(&mut self, world: &World, transactions: &mut Vec<Transaction>) -> Option<Lie> {
        let network = &world.setup.network;
        let own = self.rng.index(transactions.len());
        let amount = Amount(i64::try_from(self.rng.between(1, 300)).expect("small"));
        let opened = self.opened.len();
        let victim = (opened > 0).then(|| self.opened[self.rng.index(opened)]);
        Some(match self.rng.below(11) {
            0 | 1 => {
                let from = victim?;
                let to = self.opened[self.rng.index(opened)];
                if from.id == to.id {
                    return None;
                }
                let legs = path::payment(network, from.id, to.id, from.asset, amount);
                let mut forged = Transaction::new(Kind::Transfer, &self.terms(world), legs);
                self.signs_as(world, &mut forged, from.owner);
                transactions.push(forged);
                Lie::ProposesForgedDebit
            }
            2 => {
                let to = victim?;
                let legs = path::issue(to.id, to.asset, amount);
                let mut forged = Transaction::new(Kind::Issue, &self.terms(world), legs);
                let issuer = to.id.participant.index();
                self.signs_as(world, &mut forged, issuer);
                transactions.push(forged);
                Lie::ProposesForgedIssue
            }
            3 => {
                let account = victim?;
                let AccountId { participant, number } = account.id;
                let action = match self.rng.below(4) {
                    0 => AccountAction::SetFloor(Amount(-100_000)),
                    1 => AccountAction::Release,
                    2 => AccountAction::Freeze,
                    _ => AccountAction::Close,
                };
                let order = AccountOrder { participant, number, action };
                let mut forged = Transaction::account(&self.terms(world), order);
                self.signs_as(world, &mut forged, participant.index());
                transactions.push(forged);
                Lie::ProposesForgedOrder
            }
            4 => {
                let legs = &mut transactions[own].legs;
                if legs.is_empty() {
                    return None;
                }
                for leg in legs {
                    leg.amount = Amount(leg.amount.0.saturating_mul(2));
                }
                Lie::ProposesChangedLegs
            }
            5 => {
                change::transaction(&mut self.rng, &mut transactions[own]);
                Lie::ProposesChangedTransaction
            }
            6 => {
                change::signers(&mut self.rng, &network.id, &mut transactions[own]);
                Lie::ProposesOtherSigner
            }
            7 => {
                let count = self.signed.len();
                let again = (count > 0).then(|| self.signed[self.rng.index(count)].clone())?;
                transactions.push(again);
                Lie::ProposesAgain
            }
            8 => {
                let to = victim?;
                let AccountId { participant, number } = to.id;
                let legs = vec![Leg { participant, asset: to.asset, account: number, amount }];
                transactions.push(Transaction::new(Kind::Transfer, &self.terms(world), legs));
                Lie::ProposesCreditFromNothing
            }
            9 => {
                // Its owner agrees: together they try to overdraw the account.
                let from = victim?;
                let to = *self.opened.iter().find(|to| {
                    to.id != from.id && to.asset == from.asset && to.id.participant == from.id.participant
                })?;
                let leg = |account: AccountId, amount: i64| Leg {
                    participant: account.participant,
                    asset: from.asset,
                    account: account.number,
                    amount: Amount(amount),
                };
                let one = self.balance(world, from.id).filter(|balance| *balance > 0)?;
                let legs = vec![leg(from.id, -one), leg(from.id, -one), leg(to.id, 2 * one)];
                let mut forged = Transaction::new(Kind::Transfer, &self.terms(world), legs);
                forged.sign(&network.id, &keys()[from.owner]);
                transactions.push(forged);
                Lie::ProposesTwoDebits
            }
            _ => {
                // A bank is shown that another's customer pays, and not that nothing is settled.
                let to = victim?;
                let other = *self.opened.iter().find(|from| from.id.participant != to.id.participant)?;
                let leg = |account: AccountId, amount: i64| Leg {
                    participant: account.participant,
                    asset: to.asset,
                    account: account.number,
                    amount: Amount(amount),
                };
                let legs = vec![leg(other.id, -amount.0), leg(to.id, amount.0)];
                let mut forged = Transaction::new(Kind::Transfer, &self.terms(world), legs);
                forged.sign(&network.id, &keys()[other.owner]);
                transactions.push(forged);
                Lie::ProposesCreditFromNothing
            }
        })
    }

    fn balance(&self, world: &World, account: AccountId) -> Option<i64> {
        let state = world.updaters.get(&account.participant.0)?.lock().expect("nobody panics and goes on");
        state.accounts().get(account.number).map(|held| held.balance)
    }

    /// Changes what one institution is shown of a batch, or what the assembler is told of it.
    fn alter_proposals(&mut self, world: &mut World, source: Source) {
        let layout = world.setup.layout.clone();
        let scheduler = u16::try_from(source.scheduler).expect("few");
        if self.rng.chance(1, 4) {
            return self.alter_participation(world, source);
        }
        let participants = layout.participants.len();
        let participant = ParticipantId(u16::try_from(self.rng.index(participants)).expect("few"));
        let partition = own(&layout, "proposals", participant, scheduler);
        let offset = Offset(source.number);
        let record = world.cluster.peek(&partition, offset).swap_remove(0);
        let mut batch = ProposalBatch::decode(&record.payload).expect("a scheduler wrote it");
        let lie = match self.rng.below(14) {
            12 | 13 if !batch.is_empty() => {
                batch.source.number += 1;
                batch.participant =
                    ParticipantId((participant.0 + 1) % u16::try_from(participants).expect("few"));
                if self.rng.chance(1, 2) {
                    batch.participants.fill(participant);
                }
                Lie::ProposesAheadForAnother
            }
            0 if source.number > 0 => {
                batch.source.number -= self.rng.between(1, source.number.min(3));
                if !batch.is_empty() {
                    change::proposals(&mut self.rng, &mut batch);
                }
                Lie::ProposesUnderEarlierName
            }
            1 if layout.schedulers > 1 => {
                batch.source.scheduler = (batch.source.scheduler + 1) % u64::from(layout.schedulers);
                Lie::ProposesUnderOthersName
            }
            2 => {
                let bytes = unreadable(&mut self.rng, &record.payload);
                if !self.rng.chance(1, 4) {
                    return;
                }
                self.tell(Lie::ProposesUnreadable);
                assert!(world.cluster.alter(&partition, offset, bytes), "it was just read");
                return;
            }
            3..=5 if show_others_legs(&mut batch) => Lie::ProposesOthersLegs,
            _ if batch.is_empty() => return,
            _ => {
                change::proposals(&mut self.rng, &mut batch);
                Lie::ProposesOtherField
            }
        };
        self.tell(lie);
        assert!(world.cluster.alter(&partition, offset, encoded(&batch)), "it was just read");
    }

    fn alter_participation(&mut self, world: &mut World, source: Source) {
        let layout = &world.setup.layout;
        let assemblers = u64::from(layout.assemblers);
        let assembler = u16::try_from(source.number % assemblers).expect("few");
        let scheduler = u16::try_from(source.scheduler).expect("few");
        let partition = shared(layout, "participations", scheduler * layout.assemblers + assembler);
        let offset = Offset(source.number / assemblers);
        let record = world.cluster.peek(&partition, offset).swap_remove(0);
        let mut batch = ParticipationBatch::decode(&record.payload).expect("a scheduler wrote it");
        let lie = match self.rng.below(8) {
            0..=3 => {
                change::participants(&mut self.rng, &mut batch);
                Lie::AsksOthers
            }
            4 => {
                let at = self.rng.index(batch.len());
                batch.ids[at] = change::hash(&mut self.rng);
                Lie::AsksForOtherIds
            }
            5 | 6 => {
                let at = self.rng.index(batch.len());
                batch.expiries[at] = other_time(&mut self.rng, batch.expiries[at]);
                Lie::AsksForOtherExpiries
            }
            _ => {
                batch.source = change::source(&mut self.rng, batch.source);
                Lie::AsksForOtherBatch
            }
        };
        self.tell(lie);
        assert!(world.cluster.alter(&partition, offset, encoded(&batch)), "it was just read");
    }

    /// Changes what an assembler has just decided.
    pub(super) fn alter_decisions(&mut self, world: &mut World, assembler: u16) {
        let layout = world.setup.layout.clone();
        let partition = shared(&layout, "decisions", assembler);
        for record in self.fresh(world, Purpose::Alter, &partition) {
            if world.healed || self.rng.chance(3, 4) {
                continue;
            }
            let mut batch = DecisionBatch::decode(&record.payload).expect("an assembler wrote it");
            let lie = match self.rng.below(7) {
                0..=2 => {
                    change::verdicts(&mut self.rng, &mut batch);
                    Lie::DecidesOtherwise
                }
                3 => {
                    let at = self.rng.index(batch.indices.len());
                    batch.push(batch.indices[at], batch.ids[at], self.rng.below(2).to_le_bytes()[0].into());
                    Lie::DecidesTwice
                }
                4 => {
                    // What it has not counted, of the same batch or of an earlier one.
                    let source = batch.source;
                    batch.source.number = source.number.saturating_sub(self.rng.below(3));
                    let index = u32::try_from(self.rng.below(6)).expect("small");
                    batch.push(index, change::hash(&mut self.rng), 0);
                    Lie::DecidesUnanswered
                }
                5 => {
                    batch.source = change::source(&mut self.rng, batch.source);
                    // Of a batch that does not come, nobody reads on.
                    if !self.rng.chance(1, 5) {
                        batch.source.number = batch.source.number.min(self.lowest_accepted(world, &batch));
                        batch.source.scheduler %= u64::from(layout.schedulers);
                    }
                    Lie::DecidesOtherBatch
                }
                _ => {
                    let at = self.rng.index(batch.indices.len());
                    batch.indices.remove(at);
                    batch.ids.remove(at);
                    batch.verdicts.remove(at);
                    Lie::DecidesNothing
                }
            };
            self.tell(lie);
            assert!(world.cluster.alter(&partition, record.offset, encoded(&batch)), "it was just read");
        }
    }

    /// Changes what an assembler has just shown an institution of others' consents.
    pub(super) fn alter_consents(&mut self, world: &mut World, assembler: u16) {
        let layout = world.setup.layout.clone();
        for participant in layout.everybody() {
            let partition = own(&layout, "consents", participant, assembler);
            for record in self.fresh(world, Purpose::Alter, &partition) {
                if world.healed || self.rng.chance(7, 8) {
                    continue;
                }
                let mut batch = ConsentBatch::decode(&record.payload).expect("an assembler wrote it");
                let bytes = match self.rng.below(8) {
                    0 => {
                        self.tell(Lie::ShowsUnreadable);
                        unreadable(&mut self.rng, &record.payload)
                    }
                    _ => {
                        self.tell(Lie::ShowsOtherConsents);
                        change::consents(&mut self.rng, &mut batch);
                        encoded(&batch)
                    }
                };
                assert!(world.cluster.alter(&partition, record.offset, bytes), "it was just read");
            }
        }
    }

    /// The number of the last batch that the scheduler of a batch has accepted.
    fn lowest_accepted(&self, world: &World, batch: &DecisionBatch) -> u64 {
        let schedulers = u64::from(world.setup.layout.schedulers);
        let scheduler = u16::try_from(batch.source.scheduler % schedulers).expect("few");
        let accepted = world.cluster.peek(&shared(&world.setup.layout, "accepted", scheduler), Offset(0));
        (accepted.len() as u64).saturating_sub(1)
    }
}

/// Shows an institution one more leg of one of its transactions, in another's partition, so that the sums are right
/// without a leg of its own settlement account.
fn show_others_legs(batch: &mut ProposalBatch) -> bool {
    let mut first = 0;
    for item in 0..batch.len() {
        let shown = usize::from(batch.shown[item]);
        for at in first..first + shown {
            let leg = batch.legs[at];
            if leg.participant != batch.participant {
                // Its settlement account, in the keeper's partition: now a customer there.
                batch.legs[at].account = tally_ledger::AccountNumber(0);
                batch.legs[at].amount = Amount(-leg.amount.0);
                return true;
            }
        }
        first += shown;
    }
    false
}
