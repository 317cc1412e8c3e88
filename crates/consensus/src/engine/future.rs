//! Messages for later heights, and messages seen before.

use std::collections::{BTreeMap, HashSet, VecDeque};

use alloy_primitives::{Address, B256};

use super::Limits;
use crate::message::Message;

/// After how long a hint that others are ahead is given again.
const ASK_AGAIN_MS: u64 = 1_000;

type Kept = (Address, Address, Message);

/// Messages of validators for heights that are not reached, and how far each validator claims to be.
#[derive(Debug, Default)]
pub(super) struct Future {
    by_height: BTreeMap<u64, Vec<(Kept, usize)>>,
    of_author: BTreeMap<Address, (usize, usize)>,
    claims: BTreeMap<Address, u64>,
    asked: u64,
    asked_ms: u64,
    /// How often one of those was asked whose claims count, and one who may be alone: two counters, as in step with each
    /// other they would come to the same ones.
    claims_asked: usize,
    turn: usize,
}

impl Future {
    /// Keeps a message (sender, author, message) if it is near enough and its author's share is not used up;
    /// whether it did.
    pub(super) fn keep(
        &mut self,
        limits: &Limits,
        height: u64,
        validators: usize,
        kept: Kept,
        bytes: usize,
    ) -> bool {
        let at = kept.2.view().height;
        if at.saturating_sub(height) > limits.future_distance {
            return false;
        }
        let validators = validators.max(1);
        let (count, size) = self.of_author.entry(kept.1).or_default();
        if *count >= limits.future_messages / validators || *size + bytes > limits.future_bytes / validators {
            return false;
        }
        *count += 1;
        *size += bytes;
        self.by_height.entry(at).or_default().push((kept, bytes));
        true
    }

    /// The messages for a height, as they came; those for lower ones are dropped.
    pub(super) fn take(&mut self, height: u64) -> Vec<Kept> {
        let later = self.by_height.split_off(&height.saturating_add(1));
        let now = std::mem::replace(&mut self.by_height, later);
        self.claims.retain(|_, claimed| *claimed > height);
        let mut taken = Vec::new();
        for (at, messages) in now {
            for (kept, bytes) in messages {
                if let Some((count, size)) = self.of_author.get_mut(&kept.1) {
                    *count = count.saturating_sub(1);
                    *size = size.saturating_sub(bytes);
                }
                if at == height {
                    taken.push(kept);
                }
            }
        }
        self.of_author.retain(|_, (count, _)| *count > 0);
        taken
    }

    /// Notes that an author works on `claimed`. The height that more than `faulty` validators have reached,
    /// and one of them, when that is higher than what was told before, or a while has passed since: what was
    /// asked then may have been lost. Each of them in turn: one that lies may be among them, and a node that is no
    /// validator has no other way to ask.
    pub(super) fn claim(
        &mut self,
        author: Address,
        claimed: u64,
        faulty: usize,
        height: u64,
        now_ms: u64,
    ) -> Option<(u64, Address)> {
        let known = self.claims.entry(author).or_default();
        *known = claimed.max(*known);
        let mut claims: Vec<(u64, Address)> =
            self.claims.iter().map(|(author, height)| (*height, *author)).collect();
        claims.sort_unstable_by(|a, b| b.cmp(a));
        let (reached, _) = *claims.get(faulty)?;
        if reached <= height || (reached <= self.asked && now_ms < self.asked_ms.saturating_add(ASK_AGAIN_MS))
        {
            return None;
        }
        (self.asked, self.asked_ms) = (reached, now_ms);
        let there = claims.iter().take_while(|(claimed, _)| *claimed >= reached).count();
        self.claims_asked = self.claims_asked.wrapping_add(1);
        let (_, peer) = *claims.get(self.claims_asked.checked_rem(there)?)?;
        Some((reached, peer))
    }

    /// Somebody who claims to be ahead, and where: each in turn, as not all may tell the truth.
    pub(super) fn ahead(&mut self) -> Option<(u64, Address)> {
        self.turn = self.turn.wrapping_add(1);
        let at = self.turn.checked_rem(self.claims.len())?;
        self.claims.iter().nth(at).map(|(author, height)| (*height, *author))
    }
}

/// The identities of the last messages.
#[derive(Debug)]
pub(super) struct Seen {
    limit: usize,
    order: VecDeque<B256>,
    known: HashSet<B256>,
}

impl Seen {
    pub(super) fn new(limit: usize) -> Self {
        Self { limit, order: VecDeque::new(), known: HashSet::new() }
    }

    pub(super) fn contains(&self, id: B256) -> bool {
        self.known.contains(&id)
    }

    /// Lets a message be read again.
    pub(super) fn remove(&mut self, id: B256) {
        if self.known.remove(&id) {
            self.order.retain(|known| *known != id);
        }
    }

    pub(super) fn insert(&mut self, id: B256) {
        if self.limit == 0 || !self.known.insert(id) {
            return;
        }
        self.order.push_back(id);
        if self.order.len() > self.limit
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn everybody_who_is_ahead_is_asked_in_turn() {
        let mut future = Future::default();
        let authors: Vec<Address> = (1..=3).map(Address::repeat_byte).collect();
        let mut now_ms = 0;
        let mut asked = BTreeSet::new();
        assert_eq!(future.claim(authors[0], 9, 1, 2, now_ms), None, "one alone may lie");
        for _ in 0..2 {
            for author in &authors[1..] {
                now_ms += ASK_AGAIN_MS;
                let (height, peer) = future.claim(*author, 9, 1, 2, now_ms).unwrap();
                assert_eq!(height, 9);
                asked.insert(peer);
                // Who is stuck asks one besides; that takes nobody's turn.
                let _ = future.ahead();
            }
        }
        assert_eq!(asked.into_iter().collect::<Vec<_>>(), authors);
    }
}
