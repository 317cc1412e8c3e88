//! Settlement paths: the legs of a payment between any two accounts, the central bank's included.

use tally_ledger::transaction::Leg;
use tally_ledger::{AccountId, AccountNumber, Amount, AssetId, Network, ParticipantId};

fn leg(participant: ParticipantId, asset: AssetId, account: AccountNumber, amount: i64) -> Leg {
    Leg { participant, asset, account, amount: Amount(amount) }
}

/// The legs that move `amount` of `asset` from one account to another: two inside one institution,
/// otherwise also those on the settlement accounts at the asset's settlement institution.
///
/// # Panics
/// When the network has no such asset, or the amount is negative.
pub fn payment(
    network: &Network,
    from: AccountId,
    to: AccountId,
    asset: AssetId,
    amount: Amount,
) -> Vec<Leg> {
    assert!(amount >= Amount::ZERO, "payments have a direction");
    let settled_at = network.assets[asset.index()].settled_at;
    let mut legs = vec![leg(from.participant, asset, from.number, -amount.0)];
    if from.participant != to.participant {
        for (holder, sign) in [(from.participant, -1), (to.participant, 1)] {
            if holder != settled_at {
                let account = AccountNumber::settlement(asset, holder);
                legs.push(leg(settled_at, asset, account, sign * amount.0));
            }
        }
    }
    legs.push(leg(to.participant, asset, to.number, amount.0));
    legs
}

/// The legs by which an institution issues `amount` to an account in its own partition; the same with
/// the sign changed redeems.
///
/// # Panics
/// When the amount is negative.
pub fn issue(account: AccountId, asset: AssetId, amount: Amount) -> Vec<Leg> {
    assert!(amount >= Amount::ZERO, "issuing has a direction");
    vec![
        leg(account.participant, asset, AccountNumber::issuance(asset), -amount.0),
        leg(account.participant, asset, account.number, amount.0),
    ]
}

/// The legs by which the asset's settlement institution issues `amount` to another participant: onto
/// its settlement account and, in the participant's own books, onto its own funds.
///
/// # Panics
/// When the network has no such asset, or the amount is negative.
pub fn issue_reserves(network: &Network, holder: ParticipantId, asset: AssetId, amount: Amount) -> Vec<Leg> {
    let number = AccountNumber::settlement(asset, holder);
    let mut legs =
        issue(AccountId { participant: network.assets[asset.index()].settled_at, number }, asset, amount);
    legs.push(leg(holder, asset, AccountNumber::own(asset), amount.0));
    legs
}

/// The same legs the other way round: what a redemption needs.
pub fn reverse(mut legs: Vec<Leg>) -> Vec<Leg> {
    for leg in &mut legs {
        leg.amount = Amount(-leg.amount.0);
    }
    legs
}
