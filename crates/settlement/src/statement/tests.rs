use super::*;
use crate::journal::{SEQUENCE, accepted};
use crate::message::Message;
use proptest::prelude::*;
use std::sync::Arc;
use tally_crypto::Signature;
use tally_ledger::transaction::Terms;
use tally_ledger::{
    AccountNumber, AssetId, Kind, NetworkId, ParticipantId, Refusal, Transaction, TransactionBatch,
};
use tally_log::{MemoryLog, Offset, TopicId};

const NETWORK: NetworkId = NetworkId([1; 32]);
const BANK: ParticipantId = ParticipantId(3);

/// From whom, to whom, how much, whether it is made, and in which of its batch's records of the sequence.
type Pays = (u32, u32, i64, bool, u8);

fn account(number: u32) -> AccountId {
    AccountId { participant: BANK, number: AccountNumber(number) }
}

fn transaction(number: u64, (from, to, amount, ..): &Pays) -> Transaction {
    let leg = |number, amount| Leg {
        participant: BANK,
        asset: AssetId(0),
        account: AccountNumber(number),
        amount: Amount(amount),
    };
    let terms = Terms {
        network: NETWORK,
        uetr: Uetr(u128::from(number).to_le_bytes()),
        expiry: Timestamp(u64::MAX),
        details: tally_crypto::hash(&number.to_le_bytes()),
        seed: [0; 16],
    };
    Transaction::new(Kind::Transfer, &terms, vec![leg(*from, -amount), leg(*to, *amount)])
}

fn append(log: &MemoryLog, topic: TopicId, message: &impl Message) {
    let mut record = Vec::new();
    message.encode(&mut record);
    log.append(topic, &[&record]).unwrap();
}

/// A ledger, and what moved on each account in the order in which it did.
struct Past {
    log: MemoryLog,
    next: u64,
    movements: BTreeMap<u32, Vec<Entry>>,
}

impl Past {
    /// Batches of two schedulers. The records that decide a batch come `later` than it, each by another number of records.
    fn new(batches: &[(bool, Vec<Pays>)], later: &[u8]) -> Self {
        let log = MemoryLog::new(1 << 24);
        let mut numbers = [0u64; 2];
        let mut records = Vec::new();
        for (at, (second, pays)) in batches.iter().enumerate() {
            let scheduler = usize::from(*second);
            let source = Source::new(scheduler as u64, numbers[scheduler]);
            numbers[scheduler] += 1;
            let mut batch = TransactionBatch::default();
            let mut parts: BTreeMap<u8, Vec<(u32, &Pays)>> = BTreeMap::new();
            for (index, pays) in (0u32..).zip(pays) {
                assert!(batch.push(&transaction((at as u64) << 32 | u64::from(index), pays)));
                parts.entry(pays.4).or_default().push((index, pays));
            }
            append(&log, accepted(source.scheduler), &AcceptedBatch { accepted_at: Timestamp(0), batch });
            for (part, decisions) in parts {
                let delay = later[(at + usize::from(part)) % later.len()];
                records.push((at + usize::from(delay), at, source, decisions));
            }
        }
        records.sort_by_key(|(due, ..)| *due);
        let mut past = Self { log, next: 0, movements: BTreeMap::new() };
        for (number, (_, at, source, decisions)) in (0u64..).zip(&records) {
            past.decide(*at as u64, *source, decisions, Timestamp(1_000 + number / 3 * 10));
        }
        past
    }

    fn decide(&mut self, at: u64, source: Source, decisions: &[(u32, &Pays)], timestamp: Timestamp) {
        let refused = Refusal::InsufficientFunds.number();
        let verdicts: Vec<u16> = decisions.iter().map(|(_, pays)| if pays.3 { 0 } else { refused }).collect();
        let indices: Vec<u32> = decisions.iter().map(|(index, _)| *index).collect();
        let batch = SequenceBatch {
            first: self.next,
            count: u32::try_from(decisions.len()).unwrap(),
            source,
            timestamp,
            runs: SequenceBatch::runs_of(&indices, &verdicts),
            root: Hash::ZERO,
            tree_root: [0; 32],
            tree_size: 0,
            signature: Signature::from_bytes([0; 64]),
        };
        append(&self.log, SEQUENCE, &batch);
        for (sequence, (index, pays)) in (self.next..).zip(decisions) {
            let header = transaction(at << 32 | u64::from(*index), pays).header;
            for (number, amount) in [(pays.0, -pays.2), (pays.1, pays.2)] {
                if pays.3 {
                    let entries = self.movements.entry(number).or_default();
                    let balance = entries.last().map_or(0, |entry| entry.balance.0) + amount;
                    let (amount, balance) = (Amount(amount), Amount(balance));
                    let (uetr, details) = (header.uetr, header.details);
                    entries.push(Entry { sequence, timestamp, uetr, details, amount, balance });
                }
            }
        }
        self.next += u64::from(batch.count);
    }

    fn movements(&self, number: u32) -> &[Entry] {
        self.movements.get(&number).map_or(&[], Vec::as_slice)
    }

    fn held(&self, number: u32) -> Held {
        let balance = self.movements(number).last().map_or(Amount::ZERO, |entry| entry.balance);
        Held { id: account(number), below: self.next, balance }
    }

    fn read(&self, number: u32, wanted: &Movements, ends: &Ends) -> Result<Statement, JournalError> {
        read(&self.log, &Names::of_journal(NETWORK), &self.held(number), wanted, ends, || Ok(self.journal()))
    }

    /// All of it, what was accepted before what was decided.
    fn journal(&self) -> impl Iterator<Item = Result<(Ticket, journal::Entry), JournalError>> {
        let accepted = [0, 1].into_iter().flat_map(|scheduler| {
            let batches = journal::records(&self.log, accepted(scheduler), 0..u64::MAX, Visibility::Appended);
            batches.map(move |batch| {
                let (number, batch) = batch?;
                Ok(journal::Entry::Accepted(Source::new(scheduler, number), Arc::new(batch)))
            })
        });
        let sequence = journal::records(&self.log, SEQUENCE, 0..u64::MAX, Visibility::Appended);
        let sequence =
            sequence.map(|batch| batch.map(|(at, batch)| journal::Entry::Sequenced(Offset(at), batch)));
        accepted.chain(sequence).map(|entry| entry.map(|entry| (Ticket(0), entry)))
    }

    /// What a statement has to say.
    fn expected(&self, number: u32, wanted: &Movements) -> Statement {
        let all = self.movements(number).iter().rev();
        let all = all.filter(|entry| wanted.before.is_none_or(|before| entry.sequence < before));
        let since = all.filter(|entry| entry.timestamp >= wanted.since);
        let entries: Vec<_> = since.take(wanted.limit).cloned().collect();
        let is_earlier = |entry: &&Entry| entry.timestamp < wanted.since;
        let opening = match entries.last() {
            Some(last) => Amount(last.balance.0 - last.amount.0),
            None => self
                .movements(number)
                .iter()
                .rev()
                .find(is_earlier)
                .map_or(Amount::ZERO, |entry| entry.balance),
        };
        Statement { entries, opening }
    }
}

fn pays() -> impl Strategy<Value = Vec<Pays>> {
    let one = (0u32..5, 1u32..5, 1i64..9, any::<bool>(), 0u8..3);
    let one = one.prop_map(|(from, by, amount, made, part)| (from, (from + by) % 5, amount, made, part));
    prop::collection::vec(one, 1..6)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn statements_say_what_moved(
        batches in prop::collection::vec((any::<bool>(), pays()), 1..30),
        later in prop::collection::vec(0u8..12, 1..9),
        sinces in prop::collection::vec(1_000u64..1_300, 3),
    ) {
        let past = Past::new(&batches, &later);
        for number in 0..6 {
            let mut befores = vec![None, Some(0), Some(past.next), Some(u64::MAX)];
            befores.extend(past.movements(number).iter().map(|entry| Some(entry.sequence)));
            for (before, since, limit) in befores.into_iter().flat_map(|before| {
                let sinces = sinces.iter().copied().chain([0, 1_000]);
                sinces.flat_map(move |since| [1, 2, 5, usize::MAX].map(|limit| (before, since, limit)))
            }) {
                let wanted = Movements { before, since: Timestamp(since), limit };
                let read = past.read(number, &wanted, &Ends::default()).unwrap();
                prop_assert_eq!(read, past.expected(number, &wanted), "{:?} of {}", wanted, number);
            }
        }
    }

    #[test]
    fn pages_go_on_where_the_last_one_ended(
        batches in prop::collection::vec((any::<bool>(), pays()), 1..30),
        later in prop::collection::vec(0u8..12, 1..9),
        limit in 1usize..4,
    ) {
        let past = Past::new(&batches, &later);
        let ends = Ends::default();
        for number in 0..5 {
            let mut wanted = Movements::latest(limit);
            let mut all = Vec::new();
            loop {
                // An end that is kept gives the same as going back to it.
                let page = past.read(number, &wanted, &ends).unwrap();
                prop_assert_eq!(&page, &past.read(number, &wanted, &Ends::default()).unwrap());
                let is_last = page.entries.len() < limit;
                wanted.before = page.entries.last().map(|entry| entry.sequence);
                if !is_last {
                    prop_assert!(ends.find(account(number), wanted.before.unwrap()).is_some());
                }
                all.extend(page.entries);
                if is_last {
                    prop_assert_eq!(page.opening, Amount::ZERO);
                    break;
                }
            }
            all.reverse();
            prop_assert_eq!(&all, past.movements(number));
        }
    }
}

#[test]
fn nothing_is_said_of_what_cannot_be_seen() {
    let pays = |from| vec![(from, 4, 1, true, 0)];
    let past = Past::new(&[(false, pays(0)), (true, pays(1)), (false, pays(2))], &[0]);
    let ahead = Held { below: past.next + 1, ..past.held(0) };
    let names = Names::of_journal(NETWORK);
    let wanted = Movements::latest(9);
    let read_all = |names: &Names, held: &Held| {
        read(&past.log, names, held, &wanted, &Ends::default(), || Ok(past.journal()))
    };
    assert!(matches!(
        read_all(&names, &ahead),
        Err(JournalError::Replay { source: ReplayError::Gap { expected: 4, found: 3 }, .. })
    ));
    let unseen = Names { sequence: TopicId(9), ..Names::of_journal(NETWORK) };
    assert!(matches!(
        read_all(&unseen, &past.held(0)),
        Err(JournalError::Replay { source: ReplayError::Gap { expected: 3, found: 0 }, .. })
    ));
    let elsewhere = Names { accepted: vec![accepted(0), accepted(7)], ..Names::of_journal(NETWORK) };
    assert!(matches!(
        read_all(&elsewhere, &past.held(0)),
        Err(JournalError::Replay { source: ReplayError::NotAccepted { .. }, .. })
    ));
    let none = read_all(&names, &Held { id: account(0), below: 0, balance: Amount::ZERO }).unwrap();
    assert_eq!(none, Statement::default());
}

#[test]
fn ends_are_few() {
    let ends = Ends::default();
    for below in 0..KEPT as u64 + 10 {
        for _ in 0..2 {
            ends.keep(Held { id: account(1), below, balance: Amount(5) });
        }
    }
    assert_eq!(ends.0.lock().unwrap().len(), KEPT);
    assert!(ends.find(account(1), 9).is_none());
    assert!(ends.find(account(1), 10).is_some());
    assert!(ends.find(account(2), 10).is_none());
}

#[test]
fn batches_that_lie_together_are_read_together() {
    let sources = [(0, 1), (0, 2), (0, 6), (0, 11), (1, 12), (1, 12 + GAP)];
    let read = stretches(sources.into_iter());
    assert_eq!(read, [(0, 1..=6), (0, 11..=11), (1, 12..=12 + GAP)]);
}
