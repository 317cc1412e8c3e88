//! What the cluster holds: accepted transactions and the sequence, read record by record as they become visible, and
//! applied to the naive ledger.

use super::clients::Clients;
use crate::simulation::clients::Expected;
use crate::simulation::ledger::Ledger;
use std::collections::{BTreeMap, HashMap, HashSet};
use tally_ledger::refusal::verdict_from_number;
use tally_ledger::{AccountOrder, Network, Refusal, Timestamp, TransactionId};
use tally_log::Offset;
use tally_log::cluster::{MemoryCluster, Partition};
use tally_settlement::clerk::Finality;
use tally_settlement::message::{AcceptedBatch, Message, SequenceBatch, Source};
use tally_settlement::process::Layout;

/// Where an accepted transaction lies.
pub(super) type Place = (Source, u32);

/// All that is true.
pub(super) struct Truth {
    pub(super) ledger: Ledger,
    accepted_in: Vec<Partition>,
    sequence_in: Partition,
    /// How many records were read: of each scheduler's accepted ones, and of the sequence.
    accepted_read: Vec<u64>,
    sequence_read: u64,
    accepted_at: Vec<Timestamp>,
    sequenced_at: Timestamp,
    /// Every accepted transaction.
    pub(super) accepted: HashMap<Place, TransactionId>,
    pub(super) place: HashMap<TransactionId, Place>,
    /// Those without an outcome.
    pub(super) open: BTreeMap<Place, TransactionId>,
    pub(super) decided: HashMap<Place, Finality>,
    pub(super) made: u64,
    pub(super) sequenced: u64,
    /// The account orders that were made, in their order.
    pub(super) orders: Vec<AccountOrder>,
    /// Decided because an answer was missing.
    pub(super) timed_out: u64,
    /// What somebody asked to be withdrawn.
    pub(super) withdrawn: HashSet<Place>,
    /// What of it was.
    pub(super) withdrawn_in_time: u64,
}

impl Truth {
    pub(super) fn new(network: &Network, layout: &Layout) -> Self {
        let partition = |topic: &str, number| Partition::new(format!("{}.{topic}", layout.prefix), number);
        let schedulers = usize::from(layout.schedulers);
        Self {
            ledger: Ledger::new(network),
            accepted_in: (0..layout.schedulers).map(|number| partition("accepted", number)).collect(),
            sequence_in: partition("sequence", 0),
            accepted_read: vec![0; schedulers],
            sequence_read: 0,
            accepted_at: vec![Timestamp(0); schedulers],
            sequenced_at: Timestamp(0),
            accepted: HashMap::new(),
            place: HashMap::new(),
            open: BTreeMap::new(),
            decided: HashMap::new(),
            made: 0,
            sequenced: 0,
            orders: Vec::new(),
            timed_out: 0,
            withdrawn: HashSet::new(),
            withdrawn_in_time: 0,
        }
    }

    /// Reads on; how many records there were.
    pub(super) fn read(&mut self, cluster: &MemoryCluster, clients: &Clients) -> usize {
        let mut records = 0;
        for scheduler in 0..self.accepted_in.len() {
            let from = Offset(self.accepted_read[scheduler]);
            for record in cluster.peek(&self.accepted_in[scheduler], from) {
                assert_eq!(
                    record.offset.0, self.accepted_read[scheduler],
                    "what was accepted is never deleted"
                );
                let batch = AcceptedBatch::decode(&record.payload).expect("a scheduler wrote it");
                self.accept(scheduler, record.offset.0, &batch, clients);
                self.accepted_read[scheduler] += 1;
                records += 1;
            }
        }
        for record in cluster.peek(&self.sequence_in, Offset(self.sequence_read)) {
            assert_eq!(record.offset.0, self.sequence_read, "the sequence is never deleted");
            let batch = SequenceBatch::decode(&record.payload).expect("the sequencer wrote it");
            self.sequence(&batch, clients);
            self.sequence_read += 1;
            records += 1;
        }
        records
    }

    fn accept(&mut self, scheduler: usize, number: u64, batch: &AcceptedBatch, clients: &Clients) {
        let at = &mut self.accepted_at[scheduler];
        assert!(
            batch.accepted_at >= *at,
            "a scheduler's time goes back, from {at:?} to {:?}",
            batch.accepted_at
        );
        *at = batch.accepted_at;
        let source = Source::new(scheduler as u64, number);
        for index in 0..batch.batch.len() {
            let transaction = batch.batch.transaction(index).expect("it is there");
            let id = transaction.id();
            let known = clients.find(&id).unwrap_or_else(|| panic!("nobody handed {transaction:?} in"));
            assert_eq!(known.transaction, transaction, "it was accepted as it was handed in");
            assert!(known.open() > 0, "{transaction:?} was refused to all who handed it in, and accepted");
            assert!(transaction.header.expiry > batch.accepted_at, "it was accepted after its expiry");
            let place = (source, u32::try_from(index).expect("batches are bounded"));
            let before = self.place.insert(id, place);
            assert!(
                before.is_none(),
                "{} is accepted at {place:?} and at {before:?}",
                transaction.header.uetr
            );
            self.accepted.insert(place, id);
            self.open.insert(place, id);
        }
    }

    fn sequence(&mut self, batch: &SequenceBatch, clients: &Clients) {
        assert_eq!(batch.first, self.sequenced, "the sequence has no gap and no fork");
        assert!(batch.timestamp >= self.sequenced_at, "time goes back in the sequence");
        self.sequenced_at = batch.timestamp;
        for (index, number) in batch.decisions() {
            let (sequence, place) = (self.sequenced, (batch.source, index));
            let id = self.open.remove(&place);
            let id =
                id.unwrap_or_else(|| panic!("{sequence}: decides {place:?} again, or what is not accepted"));
            let verdict = verdict_from_number(number).expect("verdicts are known");
            self.decided.insert(place, Finality { sequence, timestamp: batch.timestamp, verdict });
            self.sequenced += 1;
            let known = clients.find(&id).expect("looked up when it was accepted");
            // An approver may not have heard yet that an account was opened, when others have.
            let early = known.expected == Expected::Order && verdict == Err(Refusal::UnknownAccount);
            let is_withdrawn = verdict == Err(Refusal::Withdrawn) && self.withdrawn.contains(&place);
            assert!(
                early || is_withdrawn || known.expected.allows(verdict),
                "{:?} was expected of {:?}, not {verdict:?}",
                known.expected,
                known.transaction
            );
            match verdict {
                Ok(()) => {
                    let applied = self.ledger.apply(&known.transaction, sequence, batch.timestamp);
                    applied.unwrap_or_else(|wrong| panic!("{sequence}: {wrong} by {:?}", known.transaction));
                    self.made += 1;
                    self.orders.extend(known.transaction.order.clone());
                }
                Err(refusal) => {
                    self.timed_out += u64::from(refusal == Refusal::ApprovalTimeout);
                    self.withdrawn_in_time += u64::from(is_withdrawn);
                }
            }
        }
    }
}
