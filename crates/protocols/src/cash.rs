//! Cash: issue, pay, exit.

mod exchange;
mod exit;
mod issue;
mod pay;

use tally_contracts::cash::{CashState, Coin, asset};
use tally_contracts::{Amount, Name, Party, StateAndRef};
use tally_flows::{Context, Filter, FlowError, Selection};

use crate::build::refused;

pub use exchange::{CashPayAtRate, CashPayAtRateArguments};
pub use exit::{AgreeToExit, CashExit, CashExitArguments};
pub use issue::{CashIssue, CashIssueArguments};
pub use pay::{CashPay, CashPayArguments};

/// How many coins are looked at to see whose cash there is.
const SAMPLE: u32 = 200;

/// Chooses coins worth `amount` and holds them for this flow. Coins that other flows hold are waited for.
///
/// An issuer is meant by its name: what it issued under a former key is chosen with the rest.
///
/// Without an `issuer`: of the issuers that the node's configuration lists, the first of whom there is enough. When it
/// lists none, cash that this node issued itself if it has any, otherwise the only issuer of whom it has cash in that
/// currency.
///
/// # Errors
/// [`FlowError::Insufficient`]; [`FlowError::Refused`] when it is not clear whose cash is meant.
pub(crate) async fn coins(
    context: &Context,
    amount: Amount,
    issuer: Option<&Name>,
    notary: &Party,
) -> Result<Vec<Coin>, FlowError> {
    let choice = Choice { context, amount, notary };
    let selected = match issuer {
        Some(name) => choice.select(&choice.party(name).await?, true).await?,
        None => match context.issuers().await? {
            Some(listed) => choice.of_listed(&listed).await?,
            None => match choice.select(context.me(), true).await {
                Err(FlowError::Insufficient { available: 0, held: 0, .. }) => {
                    let issuer = choice.only_issuer().await?;
                    choice.select(&issuer, true).await?
                }
                selected => selected?,
            },
        },
    };
    let coins: Result<Vec<_>, _> = selected.into_iter().map(Coin::try_from).collect();
    Ok(needed(coins.map_err(|error| refused(&error))?, amount))
}

/// Chooses coins worth `amount` that this issuer owes under this key.
///
/// # Errors
/// [`FlowError::Insufficient`]; [`FlowError::Refused`] when what was chosen is under another key of the issuer.
pub(crate) async fn coins_of(
    context: &Context,
    amount: Amount,
    issuer: &Party,
    notary: &Party,
) -> Result<Vec<Coin>, FlowError> {
    let coins = coins(context, amount, Some(&issuer.name), notary).await?;
    match coins.iter().find(|coin| coin.cash.issuer != *issuer) {
        None => Ok(coins),
        Some(other) => Err(FlowError::refused(format!(
            "there is cash of {} under its former key {}; have it exchanged by its issuer, or pay it to somebody \
             who takes it, first",
            issuer.name, other.cash.issuer.key
        ))),
    }
}

/// The coins that a payment needs. An asset is of an issuer's name, and those of another key of it are paid after all of
/// the key that comes first.
fn needed(coins: Vec<Coin>, amount: Amount) -> Vec<Coin> {
    let mut issuers: Vec<(Party, u128)> = Vec::new();
    for Coin { cash, .. } in &coins {
        let quantity = u128::from(cash.amount.quantity());
        match issuers.iter_mut().find(|(issuer, _)| *issuer == cash.issuer) {
            Some((_, total)) => *total += quantity,
            None => issuers.push((cash.issuer.clone(), quantity)),
        }
    }
    let mut sum = 0;
    let mut taken = Vec::new();
    for (issuer, total) in issuers {
        if sum < u128::from(amount.quantity()) {
            sum += total;
            taken.push(issuer);
        }
    }
    coins.into_iter().filter(|coin| taken.contains(&coin.cash.issuer)).collect()
}

/// What is to be chosen.
struct Choice<'a> {
    context: &'a Context,
    amount: Amount,
    notary: &'a Party,
}

impl Choice<'_> {
    async fn party(&self, name: &Name) -> Result<Party, FlowError> {
        if *name == self.context.me().name {
            return Ok(self.context.me().clone());
        }
        self.context.party(name).await
    }

    async fn select(&self, issuer: &Party, wait: bool) -> Result<Vec<StateAndRef>, FlowError> {
        let selection = Selection {
            asset: asset(self.amount.currency(), issuer),
            quantity: self.amount.quantity(),
            notary: Some(self.notary.clone()),
            wait,
        };
        self.context.select(selection).await
    }

    /// The first listed issuer of whom enough is free; if there is none, the first of whom enough is free or held.
    async fn of_listed(&self, listed: &[Name]) -> Result<Vec<StateAndRef>, FlowError> {
        let mut most: Option<(u128, Party, FlowError)> = None;
        for name in listed {
            let issuer = match self.party(name).await {
                // It has left the network.
                Err(FlowError::UnknownParty { .. }) => continue,
                issuer => issuer?,
            };
            match self.select(&issuer, false).await {
                Err(error @ FlowError::Insufficient { available, held, .. }) => {
                    let total = u128::from(available).saturating_add(u128::from(held));
                    let is_enough = |total: u128| total >= u128::from(self.amount.quantity());
                    if most.as_ref().is_none_or(|(best, ..)| total > *best && !is_enough(*best)) {
                        most = Some((total, issuer, error));
                    }
                }
                selected => return selected,
            }
        }
        match most {
            Some((total, issuer, _)) if total >= u128::from(self.amount.quantity()) => {
                self.select(&issuer, true).await
            }
            Some((.., error)) => Err(error),
            None => Err(self.nothing()),
        }
    }

    async fn only_issuer(&self) -> Result<Party, FlowError> {
        let filter = Filter { kind: Some("cash".to_owned()), limit: SAMPLE, ..Filter::default() };
        let mut issuers: Vec<Party> = Vec::new();
        for state in self.context.find(filter).await? {
            let cash: CashState = state.state.read().map_err(|error| refused(&error))?;
            let is_mine = self.context.owns(&cash.owner);
            if is_mine && cash.amount.currency() == self.amount.currency() && !issuers.contains(&cash.issuer)
            {
                issuers.push(cash.issuer);
            }
        }
        match issuers.as_slice() {
            // Under several keys it is one issuer all the same.
            [issuer, rest @ ..] if rest.iter().all(|other| other.name == issuer.name) => Ok(issuer.clone()),
            [] => Err(self.nothing()),
            several => {
                let names: Vec<_> = several.iter().map(|issuer| format!("`{}`", issuer.name)).collect();
                Err(FlowError::refused(format!(
                    "there is {} of several issuers here; give the issuer, or list in [cash] issuers of the node's \
                     configuration whose cash is taken without being named: {}",
                    self.amount.currency(),
                    names.join(" or ")
                )))
            }
        }
    }

    fn nothing(&self) -> FlowError {
        FlowError::Insufficient {
            asset: self.amount.currency().to_string(),
            wanted: self.amount.quantity(),
            available: 0,
            held: 0,
        }
    }
}
