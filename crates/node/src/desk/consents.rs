//! How much of each consent was used lately, so that limits of a day hold across flows and restarts.

use std::collections::VecDeque;

use tally_contracts::Timestamp;
use tally_protocols::consent::DAY;
use tally_store::Consent;

/// What was used in the last day. An agreement counts from the moment at which its flow is told of it, whatever becomes
/// of the deal: the peer may hold this node's signature.
#[derive(Default)]
pub(crate) struct Consents {
    used: VecDeque<(Timestamp, String, u64)>,
}

impl Consents {
    /// Takes up what the store has, oldest first.
    pub(crate) fn restore(&mut self, consents: Vec<Consent>) {
        self.used.extend(consents.into_iter().map(|consent| (consent.at, consent.rule, consent.quantity)));
    }

    /// Minor units used of a consent since a day ago.
    pub(crate) fn used(&mut self, rule: &str, now: Timestamp) -> u128 {
        let since = now.saturating_sub(DAY);
        while self.used.front().is_some_and(|(at, ..)| *at <= since) {
            self.used.pop_front();
        }
        let of_rule = self.used.iter().filter(|(_, used, _)| used == rule);
        of_rule.map(|(.., quantity)| u128::from(*quantity)).sum()
    }

    /// An agreement uses a consent.
    pub(crate) fn add(&mut self, rule: String, quantity: u64, at: Timestamp) {
        self.used.push_back((at, rule, quantity));
    }
}
