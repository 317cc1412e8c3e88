//! How many references are remembered, by institution and by when they expire.
//!
//! Half of the limit is in common. The other half is divided evenly into an own part for each
//! institution, which nobody else can take. An institution takes its own part first, then what is
//! in common. So
//!
//! * whatever others do, alone or together, an institution finds its own part: half an even share;
//! * one institution that debits for all may hold more than half of the limit. Even shares alone
//!   would leave most of the memory unused in a network with one large member.
//!
//! A count goes down when its time is over, whether or not the entries are cleared. So entries may
//! be cleared late, and a limit that was reached heals with time.

use std::collections::BTreeMap;
use tally_ledger::ParticipantId;

/// Counts are kept for so many spans of time ahead. The longest validity has half as many at most.
/// A table of them costs every insertion the same, however different the expiries are; a map by
/// the second would make insertions slow for everybody when a member varies its expiries.
const SPANS: u32 = 1 << 12;

/// The counts of what is remembered.
pub(super) struct Shares {
    /// By institution.
    held: Vec<usize>,
    all: usize,
    /// How many are held beyond the own parts.
    in_common: usize,
    /// The own part of each institution.
    own: usize,
    /// How many may be held beyond the own parts.
    common: usize,
    /// How many seconds a span has.
    width: u32,
    /// The present span: what expired in an earlier one is not counted.
    now: u32,
    /// By the span of the expiry, which has its place again and again, then by institution.
    expiring: Vec<u32>,
    /// The same for expiries beyond [`SPANS`]: accepted when the longest validity was another.
    far: BTreeMap<(u32, usize), u32>,
}

impl Shares {
    /// Divides `limit` among so many institutions. Each may hold at least one reference: a limit
    /// below the number of institutions is exceeded, so that none is shut out.
    pub(super) fn new(limit: usize, institutions: usize, longest_validity_ms: u64) -> Self {
        let institutions = institutions.max(1);
        let own = (limit / 2 / institutions).max(1);
        let width = longest_validity_ms.div_ceil(1000) / u64::from(SPANS / 2) + 1;
        Self {
            held: vec![0; institutions],
            all: 0,
            in_common: 0,
            own,
            common: limit.saturating_sub(own * institutions),
            width: u32::try_from(width).unwrap_or(u32::MAX),
            now: 0,
            expiring: vec![0; SPANS as usize * institutions],
            far: BTreeMap::new(),
        }
    }

    /// How many references are counted.
    pub(super) fn all(&self) -> usize {
        self.all
    }

    /// Lets time pass until `second`: what expired in an earlier span is counted no more. The work is
    /// bounded by the size of the table.
    #[cold]
    pub(super) fn advance(&mut self, second: u32) {
        let now = second / self.width;
        let passed = now.saturating_sub(self.now).min(SPANS);
        for span in self.now..self.now + passed {
            for index in 0..self.held.len() {
                let place = self.place(span, index);
                let count = std::mem::take(&mut self.expiring[place]);
                self.give_back(index, count as usize);
            }
        }
        self.now = self.now.max(now);
        while let Some(first) = self.far.first_entry().filter(|first| first.key().0 < now) {
            let ((_, index), count) = first.remove_entry();
            self.give_back(index, count as usize);
        }
    }

    /// Whether one more reference of the institution may be remembered.
    #[inline]
    pub(super) fn has_room(&self, institution: ParticipantId) -> bool {
        self.held[self.index(institution)] < self.own || self.in_common < self.common
    }

    /// Counts a reference until it expires, in seconds, which is not before the present.
    #[inline]
    pub(super) fn take(&mut self, institution: ParticipantId, expiry: u32) {
        let (index, span) = (self.index(institution), expiry / self.width);
        self.in_common += usize::from(self.held[index] >= self.own);
        self.held[index] += 1;
        self.all += 1;
        if span - self.now < SPANS {
            let place = self.place(span, index);
            self.expiring[place] += 1;
        } else {
            *self.far.entry((span, index)).or_default() += 1;
        }
    }

    /// Counts a reference no more that was to expire then, which is not before the present.
    pub(super) fn release(&mut self, institution: ParticipantId, expiry: u32) {
        let (index, span) = (self.index(institution), expiry / self.width);
        // What was far may be near by now. Both end together: it does not matter where it is taken from.
        match self.far.get_mut(&(span, index)) {
            Some(count) => {
                *count -= 1;
                if *count == 0 {
                    self.far.remove(&(span, index));
                }
            }
            None => {
                let place = self.place(span, index);
                self.expiring[place] -= 1;
            }
        }
        self.give_back(index, 1);
    }

    fn give_back(&mut self, index: usize, count: usize) {
        let beyond = |held: usize| held.saturating_sub(self.own);
        let (before, after) = (self.held[index], self.held[index] - count);
        self.in_common -= beyond(before) - beyond(after);
        self.held[index] = after;
        self.all -= count;
    }

    /// The scheduler checks first that the network has the institution. Another one is counted with
    /// the last rather than that it panics.
    #[inline]
    fn index(&self, institution: ParticipantId) -> usize {
        institution.index().min(self.held.len() - 1)
    }

    #[inline]
    fn place(&self, span: u32, index: usize) -> usize {
        (span % SPANS) as usize * self.held.len() + index
    }
}
