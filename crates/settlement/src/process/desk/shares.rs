//! How much of what a gateway takes in may be undecided, by institution. One whose approver does not answer fills its own
//! share, and nobody else's; the share is whole again when that is decided, or has expired.

use crate::engine::{EngineError, MAX_WAITING};
use crate::process::layout::Layout;
use crate::recent::Reference;
use crate::stage::approver::MAX_OPEN;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tally_ledger::Transaction;

/// A share is no smaller, however many institutions there are.
const LEAST: usize = 1 << 12;

/// How many transactions of each institution are undecided, by whose reference they have.
pub(super) struct Shares {
    /// By participant; one more for what names no participant.
    taken: Vec<Arc<AtomicUsize>>,
    /// How many each may have.
    each: usize,
}

/// A transaction's place in its institution's share, until it is dropped.
pub(super) struct Place(Arc<AtomicUsize>);

impl Shares {
    /// Even shares of what a gateway takes. What all gateways take together is no more than approvers keep open.
    pub(super) fn new(layout: &Layout) -> Self {
        let institutions = layout.participants.len();
        let all = MAX_WAITING.min(MAX_OPEN / usize::from(layout.gateways.max(1)));
        let each = (all / institutions.max(1)).max(LEAST);
        Self { taken: (0..=institutions).map(|_| Arc::default()).collect(), each }
    }

    /// A place for each of these transactions, in their order.
    ///
    /// # Errors
    /// When an institution's share has not as many: none is taken.
    pub(super) fn take(&self, transactions: &[Transaction]) -> Result<Vec<Place>, EngineError> {
        let other = self.taken.len() - 1;
        let mut places = Vec::with_capacity(transactions.len());
        for transaction in transactions {
            let of = &self.taken[Reference::of(transaction).participant.index().min(other)];
            let before = of.fetch_add(1, Ordering::Relaxed);
            places.push(Place(Arc::clone(of)));
            if before >= self.each {
                return Err(EngineError::Share(before));
            }
        }
        Ok(places)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tally_ledger::transaction::Terms;
    use tally_ledger::{
        AccountNumber, Amount, AssetId, Kind, Leg, NetworkId, ParticipantId, Timestamp, Uetr,
    };

    fn payment(participant: u16) -> Transaction {
        let terms = Terms {
            network: NetworkId([1; 32]),
            uetr: Uetr([1; 16]),
            expiry: Timestamp(1),
            details: tally_crypto::Hash::ZERO,
            seed: [0; 16],
        };
        let leg = |account, amount| Leg {
            participant: ParticipantId(participant),
            asset: AssetId(0),
            account: AccountNumber(account),
            amount: Amount(amount),
        };
        Transaction::new(Kind::Transfer, &terms, vec![leg(0, -1), leg(1, 1)])
    }

    #[test]
    fn an_institution_fills_its_own_share_alone_and_has_it_back() {
        let layout = Layout {
            prefix: "test".to_owned(),
            participants: ["A", "B", "C"].map(str::to_owned).to_vec(),
            schedulers: 1,
            assemblers: 1,
            gateways: 8,
        };
        let shares = Shares::new(&layout);
        assert_eq!(shares.each, MAX_OPEN / 8 / 3);
        let (one, other) = (payment(1), payment(2));
        let most = vec![one.clone(); shares.each];
        let places = shares.take(&most).unwrap();
        assert_eq!(places.len(), shares.each);
        assert!(matches!(shares.take(std::slice::from_ref(&one)), Err(EngineError::Share(_))));
        // A request that does not fit takes nothing, and nothing of others'.
        let mixed: Vec<_> = std::iter::repeat_n(other.clone(), 10).chain([one.clone()]).collect();
        assert!(matches!(shares.take(&mixed), Err(EngineError::Share(_))));
        let others = shares.take(&vec![other; shares.each]).unwrap();
        assert_eq!(others.len(), shares.each);
        // Nor does it matter what names nobody.
        assert!(shares.take(&[payment(77)]).is_ok());
        drop(places);
        assert!(shares.take(&most).is_ok());
        assert!(shares.take(&[one]).is_ok());
    }
}
