//! The rule that every transaction obeys (settlement design, invariant 1).
//!
//! Every asset has one **settlement institution**, in whose partition the others hold settlement
//! accounts. For each asset of a transaction:
//! - the legs in the settlement institution's partition sum to zero;
//! - for every other participant, the legs in its partition sum to what its settlement account gets.
//!
//! Issued amounts stand on issuance accounts, so that issue and redeem obey the same rule; only
//! they may have legs on such an account.

use crate::amount::Amount;
use crate::id::{AccountRole, AssetId, ParticipantId};
use crate::network::Network;
use crate::refusal::Refusal;
use crate::transaction::{Kind, Leg, MAX_LEGS};

/// Checks the legs of a transfer, issue or redeem against each other and the network.
///
/// # Errors
/// The refusal with the lowest number among those that apply.
pub fn check(network: &Network, kind: Kind, legs: &[Leg]) -> Result<(), Refusal> {
    if let [a, b] = legs
        && kind == Kind::Transfer
        && a.participant == b.participant
        && a.asset == b.asset
        && a.account != b.account
        && !a.account.is_institution()
        && !b.account.is_institution()
        && a.participant.index() < network.participants.len()
        && a.asset.index() < network.assets.len()
        && a.amount != Amount::ZERO
        && a.amount.0.unsigned_abs() <= Amount::MAX_LEG.0.unsigned_abs()
        && a.amount.checked_neg() == Some(b.amount)
    {
        return Ok(());
    }
    check_any(network, kind, legs)
}

fn check_any(network: &Network, kind: Kind, legs: &[Leg]) -> Result<(), Refusal> {
    if kind == Kind::Account {
        return if legs.is_empty() { Ok(()) } else { Err(Refusal::Malformed) };
    }
    if legs.len() < 2 {
        return Err(Refusal::TooFewLegs);
    }
    if legs.len() > MAX_LEGS {
        return Err(Refusal::TooManyLegs);
    }
    for (index, leg) in legs.iter().enumerate() {
        let same = |other: &Leg| other.participant == leg.participant && other.account == leg.account;
        if legs.iter().take(index).any(same) {
            return Err(Refusal::Malformed);
        }
    }
    for leg in legs {
        if leg.participant.index() >= network.participants.len() {
            return Err(Refusal::UnknownParticipant);
        }
    }
    for leg in legs {
        let Some(asset) = network.assets.get(leg.asset.index()) else {
            return Err(Refusal::UnknownAsset);
        };
        match leg.account.role() {
            AccountRole::Customer => {}
            AccountRole::Issuance(asset) if asset == leg.asset => {}
            AccountRole::Own(asset) if asset == leg.asset => {}
            AccountRole::Settlement(of, holder)
                if of == leg.asset
                    && leg.participant == asset.settled_at
                    && holder != asset.settled_at
                    && holder.index() < network.participants.len() => {}
            _ => return Err(Refusal::UnknownAccount),
        }
    }
    if legs.iter().any(|leg| leg.amount == Amount::ZERO) {
        return Err(Refusal::ZeroAmount);
    }
    if legs.iter().any(|leg| leg.amount.0.unsigned_abs() > Amount::MAX_LEG.0.unsigned_abs()) {
        return Err(Refusal::AmountOutOfRange);
    }
    issuance_fits(kind, legs)?;
    sums(network, legs)
}

/// Issue takes from an issuance account, redeem gives to one, a transfer touches none.
fn issuance_fits(kind: Kind, legs: &[Leg]) -> Result<(), Refusal> {
    let mut issuances =
        legs.iter().filter(|leg| matches!(leg.account.role(), AccountRole::Issuance(_))).peekable();
    let allowed = match kind {
        Kind::Transfer | Kind::Account => issuances.peek().is_none(),
        Kind::Issue => issuances.peek().is_some() && issuances.all(|leg| leg.amount.is_debit()),
        Kind::Redeem => issuances.peek().is_some() && issuances.all(|leg| !leg.amount.is_debit()),
    };
    if allowed { Ok(()) } else { Err(Refusal::NotIssuer) }
}

/// What a participant's books in one asset must come to, and do.
#[derive(Clone, Copy)]
struct Sum {
    participant: ParticipantId,
    asset: AssetId,
    /// Change of its partition minus change of its settlement account, in 128 bits so that 30 legs fit.
    difference: i128,
}

fn sums(network: &Network, legs: &[Leg]) -> Result<(), Refusal> {
    const NOTHING: Sum = Sum { participant: ParticipantId(0), asset: AssetId(0), difference: 0 };
    let mut sums = [NOTHING; 2 * MAX_LEGS];
    let mut used = 0usize;
    let mut add = |participant, asset, amount: i128| {
        let known =
            sums.iter_mut().take(used).find(|sum| sum.participant == participant && sum.asset == asset);
        match known {
            Some(sum) => sum.difference = sum.difference.saturating_add(amount),
            None => {
                sums[used] = Sum { participant, asset, difference: amount };
                used = used.saturating_add(1);
            }
        }
    };
    for leg in legs {
        let amount = i128::from(leg.amount.0);
        add(leg.participant, leg.asset, amount);
        if let AccountRole::Settlement(asset, holder) = leg.account.role()
            && network.assets.get(asset.index()).is_some_and(|a| a.settled_at == leg.participant)
        {
            add(holder, asset, amount.saturating_neg());
        }
    }
    if sums.iter().take(used).all(|sum| sum.difference == 0) { Ok(()) } else { Err(Refusal::Unbalanced) }
}

#[cfg(test)]
mod tests;
