//! What senders are told.

use crate::clerk::{Finality, Notice, Waiter};
use std::sync::{Arc, Condvar, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Instant;
use tally_ledger::batch::{Hashed, Hasher};
use tally_ledger::{NetworkId, Refusal, Timestamp, Transaction, TransactionBatch, TransactionId, Uetr};

/// What has become of a transaction.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// Decided, sequenced, durable and applied: made, or refused for good.
    Final(Finality),
    /// Refused before it was accepted, and was not accepted earlier. Nothing remembers it.
    Refused(Refusal),
    /// Another transaction used its end-to-end reference before.
    Duplicate {
        /// That transaction, where it can still be read.
        first: Option<Box<FirstUse>>,
    },
    /// Nothing yet.
    Pending,
}

/// The transaction that used a reference first. It comes whole, so that whom it concerns and what it moved are known without
/// another look into the journal.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FirstUse {
    /// What has become of it.
    pub answer: Answer,
    /// As it was handed in.
    pub transaction: Transaction,
}

/// A transaction and what has become of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Answer {
    /// Which.
    pub id: TransactionId,
    /// Its end-to-end reference.
    pub uetr: Uetr,
    /// What has become of it.
    pub outcome: Outcome,
}

#[derive(Clone)]
enum Slot {
    Open,
    Told(Notice),
    /// Nobody will tell any more.
    Closed,
}

struct Slots {
    slots: Vec<Slot>,
    open: usize,
    /// A task that waits for all of them.
    task: Option<Waker>,
}

/// Where the clerk's notices arrive.
#[derive(Clone)]
pub(crate) struct Mailbox(Arc<(Mutex<Slots>, Condvar)>);

/// The right to tell one notice. Dropped, nobody waits for it any more.
struct Slip {
    mailbox: Mailbox,
    at: usize,
}

impl Mailbox {
    pub(crate) fn new(notices: usize) -> Self {
        let slots = Slots { slots: vec![Slot::Open; notices], open: notices, task: None };
        Self(Arc::new((Mutex::new(slots), Condvar::new())))
    }

    /// Who tells notice `at`.
    pub(crate) fn waiter(&self, at: usize) -> Waiter {
        let slip = Slip { mailbox: self.clone(), at };
        Box::new(move |notice| slip.mailbox.put(slip.at, Slot::Told(notice)))
    }

    fn put(&self, at: usize, slot: Slot) {
        let (slots, arrived) = &*self.0;
        let mut slots = slots.lock().expect(super::LOCK);
        if matches!(slots.slots[at], Slot::Open) {
            slots.slots[at] = slot;
            slots.open -= 1;
        }
        if slots.open == 0 {
            arrived.notify_all();
            let task = slots.task.take();
            drop(slots);
            if let Some(task) = task {
                task.wake();
            }
        }
    }

    /// Whether all notices have come that ever will; the task is woken when they have.
    fn poll(&self, context: &mut Context<'_>) -> Poll<()> {
        let mut slots = self.0.0.lock().expect(super::LOCK);
        if slots.open == 0 {
            return Poll::Ready(());
        }
        slots.task = Some(context.waker().clone());
        Poll::Pending
    }

    /// The notices that have come, all that ever will if they come before `deadline`.
    pub(crate) fn wait(&self, deadline: Instant) -> Vec<Option<Notice>> {
        let (slots, arrived) = &*self.0;
        let guard = slots.lock().expect(super::LOCK);
        let limit = deadline.saturating_duration_since(Instant::now());
        let (guard, _) = arrived.wait_timeout_while(guard, limit, |slots| slots.open > 0).expect(super::LOCK);
        let told = |slot: &Slot| match slot {
            Slot::Told(notice) => Some(*notice),
            Slot::Open | Slot::Closed => None,
        };
        guard.slots.iter().map(told).collect()
    }
}

impl Drop for Slip {
    fn drop(&mut self) {
        self.mailbox.put(self.at, Slot::Closed);
    }
}

/// A transaction that an answer is awaited for.
#[derive(Clone, Copy)]
pub(crate) struct Expected {
    pub(crate) id: TransactionId,
    pub(crate) uetr: Uetr,
    pub(crate) expiry: Timestamp,
}

/// From how many on transactions are hashed together.
const TOGETHER: usize = 4;

/// The ids of transactions of `network`, which are those of `batch` where they fit one.
fn ids(network: &NetworkId, transactions: &[Transaction], batch: &TransactionBatch) -> Vec<TransactionId> {
    if transactions.len() < TOGETHER || batch.len() < transactions.len() {
        return transactions.iter().map(|transaction| transaction.id(network)).collect();
    }
    let mut hashed = Hashed::default();
    Hasher::new(network).hash(batch, &mut hashed);
    hashed.ids
}

/// Transactions handed in, for [`Settlement::wait`](crate::desk::Settlement::wait).
pub struct Pending {
    pub(crate) expected: Vec<Expected>,
    mailbox: Mailbox,
}

impl Pending {
    /// Hands transactions of `network` in: each goes to `take` with the one who waits for it, but
    /// for those that fit no batch.
    pub(crate) fn hand_in(
        network: &NetworkId,
        transactions: Vec<Transaction>,
        mut take: impl FnMut(Transaction, Waiter),
    ) -> Self {
        let mut batch = TransactionBatch::default();
        let fit: Vec<bool> = transactions.iter().map(|transaction| batch.push(transaction)).collect();
        let expected: Vec<_> = transactions
            .iter()
            .zip(ids(network, &transactions, &batch))
            .map(|(transaction, id)| Expected {
                id,
                uetr: transaction.header.uetr,
                expiry: transaction.header.expiry,
            })
            .collect();
        let mailbox = Mailbox::new(expected.len());
        for (at, (transaction, fits)) in transactions.into_iter().zip(fit).enumerate() {
            let waiter = mailbox.waiter(at);
            if fits {
                take(transaction, waiter);
            } else {
                waiter(Notice::Refused(Refusal::Malformed));
            }
        }
        Self { expected, mailbox }
    }

    /// Whether all is told that ever will be, so that [`Settlement::wait`](crate::desk::Settlement::wait) does not wait for
    /// it; else the task is woken then. Of several tasks that ask, the last one is.
    pub fn poll(&self, context: &mut Context<'_>) -> Poll<()> {
        self.mailbox.poll(context)
    }

    /// Whether what was told so far names a transaction that was handed in before, whose outcome has to be looked up.
    pub fn needs_looking_up(&self) -> bool {
        let earlier =
            |notice: &Notice| matches!(notice, Notice::Duplicate(..) | Notice::Refused(Refusal::Expired));
        self.notices(Instant::now()).iter().flatten().any(earlier)
    }

    /// The notices that have come, all of them if they come before `deadline`.
    pub(crate) fn notices(&self, deadline: Instant) -> Vec<Option<Notice>> {
        self.mailbox.wait(deadline)
    }
}
