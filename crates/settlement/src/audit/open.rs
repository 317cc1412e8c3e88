//! A batch that is not wholly decided.

use super::item::Item;
use crate::message::{AcceptedBatch, ConsentBatch, ProposalBatch, Source};
use std::collections::HashSet;
use std::sync::Arc;
use tally_crypto::Hash;
use tally_ledger::batch::Hasher;
use tally_ledger::transaction::{Header, Kind, Leg};
use tally_ledger::{AccountRole, ParticipantId, Timestamp};
use tally_log::Ticket;

/// An accepted batch, and what of it is decided.
pub(super) struct Open {
    source: Source,
    content: Content,
    decided: Vec<bool>,
    left: usize,
    /// Who agreed to which transaction, as one institution was shown it.
    agreed: HashSet<(u32, ParticipantId)>,
}

/// Where each transaction's legs, signers, orders and participants begin; one more at the end.
type Starts = Vec<[u32; 4]>;

enum Content {
    /// All of it.
    Whole { ticket: Ticket, batch: Arc<AcceptedBatch>, ids: Vec<Hash>, starts: Starts },
    /// What one institution is shown.
    Shown { batch: Box<ProposalBatch>, ids: Vec<Hash>, starts: Starts },
}

fn starts(headers: &[Header], legs: impl Fn(usize, &Header) -> u8) -> Starts {
    let mut next = [0u32; 4];
    let mut starts = Vec::with_capacity(headers.len() + 1);
    starts.push(next);
    for (at, header) in headers.iter().enumerate() {
        let order = u32::from(header.kind == Kind::Account.number());
        let counts = [legs(at, header).into(), header.signers.into(), order, header.participants.into()];
        next.iter_mut().zip(counts).for_each(|(next, count)| *next += count);
        starts.push(next);
    }
    starts
}

/// The part of a column that belongs to the transaction at `at`.
fn part<'a, T>(column: &'a [T], starts: &Starts, at: usize, of: usize) -> &'a [T] {
    let range = starts[at][of] as usize..starts[at + 1][of] as usize;
    column.get(range).unwrap_or_default()
}

impl Open {
    /// A batch as it was accepted, with the ids of its transactions.
    pub(super) fn whole(ticket: Ticket, source: Source, batch: Arc<AcceptedBatch>, ids: Vec<Hash>) -> Self {
        let starts = starts(&batch.batch.headers, |_, header| header.legs);
        let left = ids.len();
        let content = Content::Whole { ticket, batch, ids, starts };
        Self { source, content, decided: vec![false; left], left, agreed: HashSet::new() }
    }

    /// A batch as it was proposed to one institution, of which `decided` is decided already.
    pub(super) fn shown(batch: ProposalBatch, hasher: &mut Hasher) -> Self {
        let ids = ids(&batch, hasher);
        let starts = starts(&batch.headers, |at, _| batch.shown[at]);
        let left = batch.source_len as usize;
        let source = batch.source;
        Self {
            source,
            content: Content::Shown { batch: Box::new(batch), ids, starts },
            decided: vec![false; left],
            left,
            agreed: HashSet::new(),
        }
    }

    /// Whether the accepted batch has so many transactions.
    pub(super) fn has_length(&self, length: u32) -> bool {
        self.decided.len() == length as usize
    }

    /// Notes who agreed to what.
    pub(super) fn agree(&mut self, consents: &ConsentBatch) {
        self.agreed.extend(consents.indices.iter().map(|index| (*index, consents.participant)));
    }

    /// Those besides the institution `own` whom the transaction at `index` concerns, and whether each was shown to agree;
    /// empty where that is not what is known of the batch.
    pub(super) fn others(&self, index: u32, own: ParticipantId) -> Vec<(ParticipantId, bool)> {
        let (Content::Shown { batch, starts, .. }, Some(at)) = (&self.content, self.at(index)) else {
            return Vec::new();
        };
        let others = part(&batch.participants, starts, at, 3).iter().filter(|other| **other != own);
        others.map(|other| (*other, self.agreed.contains(&(index, *other)))).collect()
    }

    /// How many are not decided.
    pub(super) fn left(&self) -> usize {
        self.left
    }

    /// When it was accepted, where that is known.
    pub(super) fn accepted_at(&self) -> Option<Timestamp> {
        match &self.content {
            Content::Whole { batch, .. } => Some(batch.accepted_at),
            Content::Shown { .. } => None,
        }
    }

    /// Decides the transaction at `index`: whether it was undecided; none where there is no such transaction.
    pub(super) fn decide(&mut self, index: u32) -> Option<bool> {
        let decided = self.decided.get_mut(index as usize)?;
        let new = !std::mem::replace(decided, true);
        self.left -= usize::from(new);
        Some(new)
    }

    fn at(&self, index: u32) -> Option<usize> {
        match &self.content {
            Content::Whole { ids, .. } => Some(index as usize).filter(|at| *at < ids.len()),
            Content::Shown { batch, .. } => batch.position(index),
        }
    }

    /// The id of the transaction at `index`, if that is shown.
    pub(super) fn id(&self, index: u32) -> Option<Hash> {
        let at = self.at(index)?;
        match &self.content {
            Content::Whole { ids, .. } | Content::Shown { ids, .. } => ids.get(at).copied(),
        }
    }

    /// The header of the transaction at `index`, if that is shown.
    pub(super) fn header(&self, index: u32) -> Option<&Header> {
        let at = self.at(index)?;
        match &self.content {
            Content::Whole { batch, .. } => batch.batch.headers.get(at),
            Content::Shown { batch, .. } => batch.headers.get(at),
        }
    }

    /// The legs of the transaction at `index` that are shown.
    pub(super) fn legs(&self, index: u32) -> &[Leg] {
        let Some(at) = self.at(index) else { return &[] };
        match &self.content {
            Content::Whole { batch, starts, .. } => part(&batch.batch.legs, starts, at, 0),
            Content::Shown { batch, starts, .. } => part(&batch.legs, starts, at, 0),
        }
    }

    /// The transaction at `index`; as the institution `of` is shown it, and none where it does not concern that one.
    /// `scratch` may hold its legs.
    pub(super) fn item<'a>(
        &'a self,
        index: u32,
        of: Option<ParticipantId>,
        scratch: &'a mut Vec<Leg>,
    ) -> Option<Item<'a>> {
        let at = self.at(index)?;
        let header = self.header(index)?;
        let mut legs = self.legs(index);
        let is_order = header.kind == Kind::Account.number();
        let (signers, order, accepted) = match &self.content {
            Content::Whole { ticket, batch, starts, .. } => {
                let signers = part(&batch.batch.signers, starts, at, 1);
                let order = part(&batch.batch.orders, starts, at, 2).first();
                (signers, order, Some((*ticket, batch.accepted_at)))
            }
            Content::Shown { batch, starts, .. } => {
                let signers = part(&batch.signers, starts, at, 1);
                (signers, part(&batch.orders, starts, at, 2).first(), None)
            }
        };
        let payer = order.map(|order| order.participant).or_else(|| self.payer(at, legs));
        let payer = payer.filter(|payer| of.is_none_or(|of| of == *payer));
        let whole = of.is_none();
        if let Some(of) = of {
            if is_order {
                order.filter(|order| order.participant == of)?;
            } else if !legs.iter().any(|leg| leg.participant == of) {
                return None;
            }
            scratch.clear();
            scratch.extend(legs.iter().filter(|leg| concerns(of, leg)));
            legs = scratch;
        }
        let (id, source) = (self.id(index)?, self.source);
        Some(Item { header, id, legs, whole, signers, order, payer, source, index, accepted })
    }

    /// The institution whose customer, own funds or issuance the transaction debits first. What is hidden before the first
    /// debit that is shown may be a debit too.
    fn payer(&self, at: usize, legs: &[Leg]) -> Option<ParticipantId> {
        let pays =
            |leg: &Leg| leg.amount.is_debit() && !matches!(leg.account.role(), AccountRole::Settlement(..));
        let first = legs.iter().position(pays)?;
        let is_first = match &self.content {
            Content::Whole { .. } => true,
            Content::Shown { batch, starts, .. } => {
                part(&batch.positions, starts, at, 0).get(first).map(|position| usize::from(*position))
                    == Some(first)
            }
        };
        is_first.then(|| legs[first].participant)
    }
}

/// Whether a leg is in the institution's partition or on its settlement account elsewhere.
fn concerns(of: ParticipantId, leg: &Leg) -> bool {
    leg.participant == of || matches!(leg.account.role(), AccountRole::Settlement(_, holder) if holder == of)
}

/// The ids, from the legs that are shown and the hashes of the others.
fn ids(batch: &ProposalBatch, hasher: &mut Hasher) -> Vec<Hash> {
    let mut shown = Vec::new();
    let legs = batch.legs.iter().zip(&batch.salts).zip(&batch.positions);
    hasher.legs(legs.map(|((leg, salt), position)| (leg, salt.as_slice(), *position)), &mut shown);
    let mut all = Vec::with_capacity(shown.len() + batch.hidden.len());
    for proposal in batch.iter() {
        let mut hidden = proposal.hidden.iter();
        let mut next = (proposal.first_leg..).zip(proposal.positions).peekable();
        for position in 0..proposal.header.legs {
            let hash = match next.next_if(|(_, at)| **at == position) {
                Some((leg, _)) => shown.get(leg),
                None => hidden.next(),
            };
            all.push(hash.copied().unwrap_or(Hash::ZERO));
        }
    }
    let mut ids = Vec::new();
    hasher.ids(&batch.headers, &batch.participants, &all, &mut ids);
    ids
}
