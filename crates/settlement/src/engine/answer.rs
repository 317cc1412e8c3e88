//! What senders are told.

use crate::clerk::{Finality, Notice, Waiter};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Instant;
use tally_ledger::{Refusal, Timestamp, Transaction, TransactionBatch, TransactionId, Uetr};

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
        first: Option<Box<Answer>>,
    },
    /// Nothing yet.
    Pending,
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
        let slots = Slots { slots: vec![Slot::Open; notices], open: notices };
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
        }
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

/// Transactions handed in, for [`Settlement::wait`](crate::desk::Settlement::wait).
pub struct Pending {
    pub(crate) expected: Vec<Expected>,
    mailbox: Mailbox,
}

impl Pending {
    /// Hands transactions in: each goes to `take` with the one who waits for it, but for those that fit no batch.
    pub(crate) fn hand_in(transactions: Vec<Transaction>, mut take: impl FnMut(Transaction, Waiter)) -> Self {
        let expected: Vec<_> = transactions
            .iter()
            .map(|transaction| Expected {
                id: transaction.id(),
                uetr: transaction.header.uetr,
                expiry: transaction.header.expiry,
            })
            .collect();
        let mailbox = Mailbox::new(expected.len());
        for (at, transaction) in transactions.into_iter().enumerate() {
            let waiter = mailbox.waiter(at);
            let mut probe = TransactionBatch::default();
            if probe.push(&transaction) {
                take(transaction, waiter);
            } else {
                waiter(Notice::Refused(Refusal::Malformed));
            }
        }
        Self { expected, mailbox }
    }

    /// The notices that have come, all of them if they come before `deadline`.
    pub(crate) fn notices(&self, deadline: Instant) -> Vec<Option<Notice>> {
        self.mailbox.wait(deadline)
    }
}
