//! What the cluster holds: accepted transactions and the sequence, read record by record as they become visible, and
//! applied to the naive ledger.

use super::clients::Clients;
use crate::simulation::clients::{Expected, is_unauthorised};
use crate::simulation::ledger::Ledger;
use std::collections::{BTreeMap, HashMap, HashSet};
use tally_ledger::order::AccountAction;
use tally_ledger::refusal::verdict_from_number;
use tally_ledger::{AccountOrder, Network, ParticipantId, Refusal, Timestamp, Transaction, TransactionId};
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
    /// What was accepted in two places, to be looked at when the sequence has been read.
    accepted_again: Vec<(Place, Place)>,
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
    /// What there is to know where a member lies.
    pub(super) lies: Option<Lies>,
}

/// What is expected where a member other than the operator lies.
#[derive(Default)]
pub(super) struct Lies {
    /// The institution that does, if it is one: what concerns it may come to anything that harms nobody else.
    pub(super) institution: Option<ParticipantId>,
    /// Whether nothing else goes wrong, so that all others are answered in time.
    pub(super) is_calm: bool,
    /// What was accepted, as it was signed, and when.
    content: HashMap<Place, (Transaction, Timestamp)>,
    /// Decisions about transactions in which the liar has no part.
    pub(super) of_others: u64,
    /// How many accounts the liar has opened in order: of the orders that it makes, those count.
    opened: u32,
}

impl Lies {
    pub(super) fn new(institution: Option<ParticipantId>, is_calm: bool) -> Self {
        Self { institution, is_calm, ..Self::default() }
    }

    /// Whether an order that was made is one that accounts follow from. The liar makes every order.
    fn fits(&mut self, order: &AccountOrder) -> bool {
        if self.institution != Some(order.participant) {
            return true;
        }
        let AccountAction::Open { count, .. } = &order.action else { return false };
        let fits = order.number.0 == self.opened;
        self.opened += if fits { *count } else { 0 };
        fits
    }
}

/// How long after it was accepted a transaction has to be decided, in milliseconds, where nothing goes wrong.
const IN_TIME_MS: u64 = 12_000;

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
            accepted_again: Vec::new(),
            open: BTreeMap::new(),
            decided: HashMap::new(),
            made: 0,
            sequenced: 0,
            orders: Vec::new(),
            timed_out: 0,
            withdrawn: HashSet::new(),
            withdrawn_in_time: 0,
            lies: None,
        }
    }

    /// Whether a transaction concerns the institution that lies.
    pub(super) fn concerns_liar(&self, transaction: &Transaction) -> bool {
        let liar = self.lies.as_ref().and_then(|lies| lies.institution);
        liar.is_some_and(|liar| transaction.participants().contains(&liar))
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
        // The decision that freed a reference was visible before what it was used for again.
        for (before, place) in std::mem::take(&mut self.accepted_again) {
            let decided = self.decided.get(&before);
            assert!(
                decided.is_some_and(|before| is_unauthorised(before.verdict)),
                "{} is accepted at {place:?} and at {before:?}, which was decided: {decided:?}",
                self.accepted[&place]
            );
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
            let id = clients.id(&transaction);
            let known = clients.find(&id).unwrap_or_else(|| panic!("nobody handed {transaction:?} in"));
            assert!(known.was_handed_in(&transaction), "it was accepted as it was handed in");
            assert!(known.open() > 0, "{transaction:?} was refused to all who handed it in, and accepted");
            assert!(transaction.header.expiry > batch.accepted_at, "it was accepted after its expiry");
            let place = (source, u32::try_from(index).expect("batches are bounded"));
            let before = self.place.insert(id, place);
            self.accepted_again.extend(before.map(|before| (before, place)));
            self.accepted.insert(place, id);
            self.open.insert(place, id);
            if let Some(lies) = &mut self.lies {
                lies.content.insert(place, (transaction, batch.accepted_at));
            }
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
            let participants = known.transaction.participants().len();
            let is_liars = self.concerns_liar(&known.transaction);
            // A liar may give any reason for refusing what is its own.
            assert!(
                !is_withdrawn || participants > 1 || is_liars,
                "it is one institution's, and withdrawn by a gateway"
            );
            assert!(
                early || is_withdrawn || is_liars || known.expected.allows(verdict),
                "{:?} was expected of {:?}, not {verdict:?}",
                known.expected,
                known.transaction
            );
            let mut transaction = &known.transaction;
            if let Some(lies) = &mut self.lies {
                let (content, accepted_at) = &lies.content[&place];
                transaction = content;
                lies.of_others += u64::from(!is_liars);
                let timed_out = verdict == Err(Refusal::ApprovalTimeout) && !is_liars && lies.is_calm;
                let in_time = accepted_at.plus_ms(IN_TIME_MS);
                assert!(
                    !timed_out || content.header.expiry < in_time,
                    "{content:?}, accepted at {accepted_at:?}, was not answered in time"
                );
                if verdict.is_ok() {
                    for signer in &content.signers {
                        let signed = tally_crypto::verify(&signer.key, id.as_bytes(), &signer.signature);
                        assert!(signed.is_ok(), "{content:?} is made, and {:?} did not sign", signer.key);
                    }
                }
            }
            match verdict {
                Ok(()) => {
                    let applied = self.ledger.apply(transaction, sequence, batch.timestamp);
                    applied.unwrap_or_else(|wrong| panic!("{sequence}: {wrong} by {:?}", known.transaction));
                    self.made += 1;
                    if let Some(order) = transaction.order.clone()
                        && self.lies.as_mut().is_none_or(|lies| lies.fits(&order))
                    {
                        self.orders.push(order);
                    }
                }
                Err(refusal) => {
                    self.timed_out += u64::from(refusal == Refusal::ApprovalTimeout);
                    self.withdrawn_in_time += u64::from(is_withdrawn);
                }
            }
        }
    }
}
