//! One transaction as an audit looks at it: all of it, or what one institution is shown.

use crate::message::Source;
use tally_crypto::Hash;
use tally_ledger::transaction::{Header, Leg};
use tally_ledger::{AccountOrder, ParticipantId, Signer, Timestamp};
use tally_log::Ticket;

/// A transaction.
#[derive(Clone, Copy)]
pub(super) struct Item<'a> {
    pub(super) header: &'a Header,
    pub(super) id: Hash,
    /// The legs at hand.
    pub(super) legs: &'a [Leg],
    /// Whether these are all.
    pub(super) whole: bool,
    /// Who signed.
    pub(super) signers: &'a [Signer],
    pub(super) order: Option<&'a AccountOrder>,
    /// The institution whose reference it uses: the first that pays, or that orders. None where that cannot be told from
    /// what is at hand, or where it is another than the one whose partition is audited.
    pub(super) payer: Option<ParticipantId>,
    pub(super) source: Source,
    pub(super) index: u32,
    /// The record in which it was accepted and its time; none where an institution is not shown it.
    pub(super) accepted: Option<(Ticket, Timestamp)>,
}

/// Where a decision is: in the journal, in the sequence, and which transaction it is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Place {
    pub(super) ticket: Ticket,
    pub(super) sequence: u64,
    pub(super) timestamp: Timestamp,
    pub(super) source: Source,
    pub(super) index: u32,
}
