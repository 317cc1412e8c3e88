//! What a node agrees to when another node asks for its money: nothing that its institution has not allowed.
//!
//! A flow asks through [`Context::consent`](tally_flows::Context::consent), and its node answers by its [`Policy`]. The
//! answer is journaled, so that a change of the policy does not change a flow that runs again. Whoever proposed
//! hears which setting refuses and no figure of it: a seller who knew the highest price would ask for it.

use std::time::Duration;

use tally_contracts::{Amount, Name, Party, Timestamp};
use tally_flows::{FlowError, Proposal, Purchase};

/// The span that "a day" of a limit is: the last 24 hours at each moment.
pub const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// One hundred percent, in billionths.
const PAR: u64 = 1_000_000_000;

/// What an institution allows its node to do without asking a person. The default allows nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    /// Whose cash may be chosen when a user names no issuer, first choice first; `None` when it is not said.
    pub cash_issuers: Option<Vec<Name>>,
    /// Which bonds are bought.
    pub purchases: Vec<PurchaseRule>,
    /// In whose cash, beside this node's own, bonds of this node are repaid.
    pub repay_in: Vec<Name>,
    /// Of whose bonds this node keeps the register.
    pub registers_of: Vec<Name>,
}

/// Which offers of bonds are accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PurchaseRule {
    /// Who owes the bonds.
    pub issuer: Name,
    /// Whose cash pays.
    pub cash_of: Name,
    /// From whom they are bought; from anybody when it is not said.
    pub sellers: Option<Vec<Name>>,
    /// The highest price of one unit of nominal, in billionths.
    pub highest_price: u64,
    /// The latest maturity of what is bought.
    pub latest_maturity: Timestamp,
    /// The most that is paid for one offer.
    pub per_deal: Amount,
    /// The most that is paid in [`DAY`], in the same currency.
    pub per_day: Amount,
}

/// A consent and how much of it an agreement uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Use {
    /// Which: the [`PurchaseRule::key`].
    pub rule: String,
    /// How much, in minor units.
    pub quantity: u64,
}

impl PurchaseRule {
    /// What its use is counted under. A change of limits and prices does not begin a new count.
    pub fn key(&self) -> String {
        format!("purchase of {} for {} of {}", self.issuer, self.per_day.currency(), self.cash_of)
    }

    fn judge(&self, purchase: &Purchase, now: Timestamp, used: u128) -> Result<(), String> {
        let Purchase { seller, terms, nominal, price, .. } = purchase;
        if self.sellers.as_ref().is_some_and(|sellers| !sellers.contains(&seller.name)) {
            return Err(format!("{seller} is none of its sellers"));
        }
        if nominal.currency() != price.currency() {
            return Err(format!("{price} for a nominal of {nominal} is a price in another currency"));
        }
        let highest = u128::from(nominal.quantity()) * u128::from(self.highest_price);
        if u128::from(price.quantity()) * u128::from(PAR) > highest {
            return Err(format!("{price} for a nominal of {nominal} is above its highest price"));
        }
        if terms.maturity > self.latest_maturity {
            return Err(format!("{} is due at {}, after its latest maturity", terms.isin, terms.maturity));
        }
        if now >= terms.maturity {
            return Err(format!("{} is due: it is redeemed and not sold", terms.isin));
        }
        if price.quantity() > self.per_deal.quantity() {
            return Err(format!("{price} is more than {} for one offer", self.per_deal));
        }
        if used + u128::from(price.quantity()) > u128::from(self.per_day.quantity()) {
            return Err(format!(
                "{price} more than {used} minor units paid in the last 24 hours is above {}",
                self.per_day
            ));
        }
        Ok(())
    }
}

impl Policy {
    /// Whether the institution agrees to a proposal, and what that uses up. `party` resolves names by the network
    /// map, so that a rule means the certified party and nobody who bears its name; `used` tells how much of a
    /// consent was used in the last [`DAY`].
    ///
    /// # Errors
    /// Why not, for the node's own log; the proposer is told [`Policy::refusal`].
    pub fn judge(
        &self,
        proposal: &Proposal,
        now: Timestamp,
        party: impl Fn(&Name) -> Option<Party>,
        used: impl FnOnce(&str) -> u128,
    ) -> Result<Option<Use>, String> {
        let is = |name: &Name, found: &Party| *name == found.name && party(name).as_ref() == Some(found);
        match proposal {
            Proposal::Redemption { cash_of, .. } => {
                if self.repay_in.iter().any(|name| is(name, cash_of)) {
                    Ok(None)
                } else {
                    Err(format!("`repay_in` does not name {cash_of}"))
                }
            }
            Proposal::Register { issuer } => {
                if self.registers_of.iter().any(|name| is(name, issuer)) {
                    Ok(None)
                } else {
                    Err(format!("`registers_of` does not name {issuer}"))
                }
            }
            Proposal::Purchase(purchase) => {
                let rule = self.purchases.iter().find(|rule| {
                    is(&rule.issuer, &purchase.terms.issuer)
                        && is(&rule.cash_of, &purchase.cash_of)
                        && rule.per_day.currency() == purchase.price.currency()
                });
                let Some(rule) = rule else {
                    return Err(format!(
                        "no rule is for bonds of {} and {} of {}",
                        purchase.terms.issuer,
                        purchase.price.currency(),
                        purchase.cash_of
                    ));
                };
                let key = rule.key();
                rule.judge(purchase, now, used(&key))?;
                Ok(Some(Use { rule: key, quantity: purchase.price.quantity() }))
            }
        }
    }

    /// The refusal of a proposal as the proposer hears it: which setting, and no figure.
    pub fn refusal(me: &Party, proposal: &Proposal) -> FlowError {
        FlowError::refused(match proposal {
            Proposal::Register { issuer } => format!(
                "{me} keeps the register of bonds of {issuer} only if [consent] registers_of of its configuration names \
                 it"
            ),
            Proposal::Purchase(_) => {
                format!(
                    "{me} does not agree to buy this: no [[consent.purchase]] of its configuration allows it"
                )
            }
            Proposal::Redemption { cash_of, .. } => format!(
                "{me} repays its bonds in its own cash, and in that of {cash_of} only if [consent] repay_in of its \
                 configuration names it"
            ),
        })
    }
}

#[cfg(test)]
mod tests;
