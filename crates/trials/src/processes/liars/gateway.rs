//! What a gateway hands in and withdraws in others' names. It holds no key that pays.

use super::{Liar, Lie, change, shared, unreadable};
use crate::processes::clients::Known;
use crate::processes::world::World;
use crate::simulation::clients::Expected;
use crate::simulation::lies;
use tally_ledger::Transaction;
use tally_log::TopicId;
use tally_log::cluster::{Binding, Cluster};
use tally_settlement::message::{Source, Withdrawal};
use tally_settlement::process::Role;

/// Transactions to hand in, and beside which scheduler.
pub(super) type HandedIn = (Vec<(Transaction, Expected)>, usize);

impl Liar {
    /// Something that a gateway makes of what it was given.
    pub(super) fn hand_in(&mut self, world: &World, known: &[Known]) -> HandedIn {
        let mut transactions = Vec::new();
        let mut places = 0;
        let Some(back) = known.len().checked_sub(1) else { return (transactions, places) };
        for _ in 0..self.rng.between(1, 4) {
            let one = &known[back - self.rng.index(known.len().min(20))];
            let network = &world.setup.network;
            match self.rng.below(8) {
                0..=2 => {
                    let mut changed = one.transaction.clone();
                    change::transaction(&mut self.rng, &mut changed);
                    if changed.id(&network.id) != one.id {
                        self.tell(Lie::HandsInChanged);
                        let expected = lies::changed(&one.transaction);
                        transactions.push((changed, expected));
                    }
                }
                3 => {
                    let other = &known[self.rng.index(known.len())];
                    let mut under_reference = other.transaction.clone();
                    under_reference.header.uetr = one.transaction.header.uetr;
                    if under_reference.id(&network.id) != other.id {
                        self.tell(Lie::HandsInAnothersReference);
                        transactions.push((under_reference, lies::changed(&other.transaction)));
                    }
                }
                4 | 5 => {
                    let mut copy = one.transaction.clone();
                    change::signers(&mut self.rng, &network.id, &mut copy);
                    self.tell(Lie::HandsInOtherSignatures);
                    transactions.push((copy, Expected::Anything));
                }
                _ if world.setup.layout.schedulers > 1 => {
                    self.tell(Lie::HandsInElsewhere);
                    places = 1;
                    transactions = vec![(one.transaction.clone(), one.expected.clone())];
                    break;
                }
                _ => {}
            }
        }
        (transactions, places)
    }

    /// Somebody's transaction, or one that there is not.
    pub(super) fn withdrawal(&mut self, open: Vec<(Source, u32)>) -> Withdrawal {
        if open.is_empty() || self.rng.chance(1, 4) {
            self.tell(Lie::WithdrawsUnknown);
            let scheduler = self.rng.below(5);
            let source = Source::new(scheduler, self.rng.below(200));
            let source = if self.rng.chance(1, 4) { change::source(&mut self.rng, source) } else { source };
            return Withdrawal { source, index: u32::try_from(self.rng.below(65_536)).expect("small") };
        }
        self.tell(Lie::WithdrawsOthers);
        let (source, index) = open[self.rng.index(open.len())];
        Withdrawal { source, index }
    }

    /// Writes what nobody can read where a gateway writes, which fences it. Which scheduler or assembler sets it aside, if
    /// it was written.
    pub(super) fn write_unreadable(&mut self, world: &mut World, gateway: u16) -> Option<(Role, u16)> {
        let layout = &world.setup.layout;
        let withdraws = self.rng.chance(1, 2);
        let (topic, readers, role) = if withdraws {
            ("withdrawals", layout.assemblers, Role::Assembler)
        } else {
            ("transactions", layout.schedulers, Role::Scheduler)
        };
        let reader = u16::try_from(self.rng.below(u64::from(readers))).expect("few");
        let partition = shared(layout, topic, gateway * readers + reader);
        let binding = Binding { id: TopicId(0), partition, writes: true };
        let log = world.cluster.open(&layout.writer(Role::Gateway, gateway), &[binding]);
        let log = log.expect("the partition is there");
        let bytes = unreadable(&mut self.rng, b"a message that there is not");
        log.append(TopicId(0), &[&bytes]).expect("the log is new");
        if log.sync().is_err() {
            return None;
        }
        self.tell(Lie::HandsInUnreadable);
        Some((role, reader))
    }
}
