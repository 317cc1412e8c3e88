//! What senders are told.

use crate::clerk::{Finality, Notice};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Instant;
use tally_ledger::{Refusal, Timestamp, TransactionId, Uetr};

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

struct Slots {
    notices: Vec<Option<Notice>>,
    left: usize,
}

/// Where the clerk's notices arrive.
#[derive(Clone)]
pub(super) struct Mailbox(Arc<(Mutex<Slots>, Condvar)>);

impl Mailbox {
    pub(super) fn new(notices: usize) -> Self {
        let slots = Slots { notices: vec![None; notices], left: notices };
        Self(Arc::new((Mutex::new(slots), Condvar::new())))
    }

    pub(super) fn put(&self, at: usize, notice: Notice) {
        let (slots, arrived) = &*self.0;
        let mut slots = slots.lock().expect(super::LOCK);
        if slots.notices[at].replace(notice).is_none() {
            slots.left -= 1;
        }
        if slots.left == 0 {
            arrived.notify_all();
        }
    }

    /// The notices that have come, all of them if they come before `deadline`.
    pub(super) fn wait(&self, deadline: Instant) -> Vec<Option<Notice>> {
        let (slots, arrived) = &*self.0;
        let guard = slots.lock().expect(super::LOCK);
        let limit = deadline.saturating_duration_since(Instant::now());
        let (guard, _) = arrived.wait_timeout_while(guard, limit, |slots| slots.left > 0).expect(super::LOCK);
        guard.notices.clone()
    }
}

/// A transaction that an answer is awaited for.
#[derive(Clone, Copy)]
pub(super) struct Expected {
    pub(super) id: TransactionId,
    pub(super) uetr: Uetr,
    pub(super) expiry: Timestamp,
}

/// Transactions handed in, for [`super::Desk::wait`].
pub struct Pending {
    pub(super) expected: Vec<Expected>,
    mailbox: Mailbox,
}

impl Pending {
    pub(super) fn new(expected: Vec<Expected>) -> (Self, Mailbox) {
        let mailbox = Mailbox::new(expected.len());
        (Self { expected, mailbox: mailbox.clone() }, mailbox)
    }

    /// The notices that have come, all of them if they come before `deadline`.
    pub(super) fn notices(&self, deadline: Instant) -> Vec<Option<Notice>> {
        self.mailbox.wait(deadline)
    }
}
