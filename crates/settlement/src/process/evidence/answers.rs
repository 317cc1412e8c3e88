//! What one institution answered about each accepted batch first, and where it answers otherwise
//! later.
//!
//! A member may split its answers over as many records as it likes, and name batches that do not
//! exist. So memory is bounded by what is kept and not by the topic: when there is more, the
//! batches with the largest names are given up, and the topic is read again for them. An honest
//! institution answers a batch in one record, of which its place alone is kept; its answers are
//! read again where another record is about the same batch.

use crate::message::{ApprovalBatch, Source};
use std::collections::{BTreeMap, BTreeSet};
use tally_ledger::TransactionId;
use tally_proof::evidence::{SignedAnswer, TwoAnswers};

/// Where a record of one institution's answers lies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Place {
    pub(super) assembler: u16,
    pub(super) position: u64,
}

/// Two records with answers about one transaction that are not the same.
#[derive(Clone, Copy, Debug)]
pub(super) struct Contradiction {
    pub(super) index: u32,
    pub(super) first: Place,
    pub(super) second: Place,
}

/// The transaction as the institution saw it, and the verdict's number.
type Said = (TransactionId, u16);

/// What is kept of the answers to one accepted batch.
pub(super) struct Answered {
    /// The first record.
    first: Place,
    /// What few institutions have: nothing else is allocated for the others.
    beyond: Option<Box<Beyond>>,
}

#[derive(Default)]
struct Beyond {
    /// First answers that are not in the first record.
    later: BTreeMap<u32, (Said, Place)>,
    /// Where a first answer is a refusal that no other answer contradicts.
    refused: BTreeMap<u32, Place>,
    contradicted: BTreeSet<u32>,
    contradictions: Vec<Contradiction>,
}

impl Answered {
    fn weight(&self) -> usize {
        let beyond = self.beyond.as_ref().map_or(0, |beyond| {
            beyond.later.len()
                + beyond.refused.len()
                + beyond.contradicted.len()
                + beyond.contradictions.len()
        });
        1 + beyond
    }

    fn beyond(&mut self) -> &mut Beyond {
        self.beyond.get_or_insert_default()
    }

    /// Takes the refusals of the first record.
    fn begin(&mut self, batch: &ApprovalBatch) {
        for (index, _) in said(batch).filter(|(_, (_, verdict))| *verdict != 0) {
            let first = self.first;
            self.beyond().refused.insert(index, first);
        }
    }

    /// Compares a later record with every first answer, and keeps the answers in it that are the
    /// first ones.
    fn go_on(&mut self, first: &ApprovalBatch, batch: &ApprovalBatch, place: Place) {
        let begun = self.first;
        let beyond = self.beyond();
        let mut contradiction = None;
        for (index, answer) in said(batch) {
            let before = match first.indices.binary_search(&index) {
                Ok(item) => Some(((first.ids[item], first.verdicts[item]), begun)),
                Err(_) => beyond.later.get(&index).copied(),
            };
            match before {
                None => {
                    beyond.later.insert(index, (answer, place));
                    if answer.1 != 0 {
                        beyond.refused.insert(index, place);
                    }
                }
                Some((before, _)) if before == answer => {}
                Some((_, first)) => {
                    // Who says both has no refusal to hold against the operator.
                    beyond.refused.remove(&index);
                    // One contradiction a record is enough, and none that was found before.
                    if beyond.contradicted.insert(index) {
                        contradiction.get_or_insert(Contradiction { index, first, second: place });
                    }
                }
            }
        }
        beyond.contradictions.extend(contradiction);
    }

    pub(super) fn contradictions(&self) -> impl Iterator<Item = &Contradiction> {
        self.beyond.iter().flat_map(|beyond| &beyond.contradictions)
    }

    pub(super) fn refused(&self) -> impl Iterator<Item = (u32, Place)> {
        self.beyond.iter().flat_map(|beyond| &beyond.refused).map(|(index, place)| (*index, *place))
    }
}

/// The answers of one institution to the accepted batches of a range, by their names.
pub(super) struct Answers {
    kept: BTreeMap<Source, Answered>,
    weight: usize,
    most: usize,
    from: Source,
    /// The first batch beyond the range, once there is more than fits.
    until: Option<Source>,
}

impl Answers {
    /// Keeps answers about the batches from one on, as many as fit; those about the first one
    /// always do.
    pub(super) fn new(from: Source, most: usize) -> Self {
        Self { kept: BTreeMap::new(), weight: 0, most, from, until: None }
    }

    /// Whether answers about that batch are kept this time.
    pub(super) fn is_in_range(&self, source: Source) -> bool {
        source >= self.from && self.until.is_none_or(|until| source < until)
    }

    /// Where the first record about that batch lies.
    pub(super) fn first(&self, source: Source) -> Option<Place> {
        self.kept.get(&source).map(|answered| answered.first)
    }

    /// Takes the next record of the topic, with the first one about the same batch where there is
    /// one.
    pub(super) fn take(&mut self, first: Option<&ApprovalBatch>, batch: &ApprovalBatch, place: Place) {
        let answered = self.kept.entry(batch.source).or_insert_with(|| {
            self.weight += 1;
            Answered { first: place, beyond: None }
        });
        let before = answered.weight();
        match first {
            None => answered.begin(batch),
            Some(first) => answered.go_on(first, batch, place),
        }
        self.weight = self.weight - before + answered.weight();
        while self.weight > self.most && self.kept.len() > 1 {
            let Some((source, given_up)) = self.kept.pop_last() else { return };
            self.weight -= given_up.weight();
            self.until = Some(source);
        }
    }

    /// The answers, and from which batch on the topic has to be read again.
    pub(super) fn finish(self) -> (BTreeMap<Source, Answered>, Option<Source>) {
        (self.kept, self.until)
    }
}

/// The answers of a record by the places of their transactions.
fn said(batch: &ApprovalBatch) -> impl Iterator<Item = (u32, Said)> {
    let answers = batch.ids.iter().copied().zip(batch.verdicts.iter().copied());
    batch.indices.iter().copied().zip(answers)
}

/// The two answers about one transaction as evidence, where both records have one.
pub(super) fn two_answers(first: &ApprovalBatch, second: &ApprovalBatch, index: u32) -> Option<TwoAnswers> {
    let answer = |batch: &ApprovalBatch| {
        let item = batch.indices.binary_search(&index).ok()?;
        Some(SignedAnswer { id: batch.ids[item], approval: batch.approval(item)? })
    };
    Some(TwoAnswers {
        scheduler: first.source.scheduler,
        batch: first.source.number,
        first: answer(first)?,
        second: answer(second)?,
    })
}
