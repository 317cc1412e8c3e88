//! Putting cash into transactions.

use super::{CashCommand, CashState, Coin};
use crate::{Amount, AmountError, Currency, Party, PublicKey, TransactionBuilder};

/// Why a payment cannot be put together.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PayError {
    /// The coins given do not cover the amount.
    #[error("the coins hold {available}, {wanted} is to be paid")]
    Insufficient {
        /// What they hold together.
        available: Amount,
        /// What is to be paid.
        wanted: Amount,
    },
    /// A coin is of another currency.
    #[error("a coin of {found} cannot pay an amount of {wanted}")]
    Currency {
        /// The coin's currency.
        found: Currency,
        /// The amount's currency.
        wanted: Currency,
    },
    /// There are more coins than the payment needs.
    #[error("coin {0} is not needed for the payment")]
    NotNeeded(usize),
    /// The amount is nothing.
    #[error("the amount is nothing")]
    Nothing,
    /// The amount cannot be split into that many outputs of at least one minor unit.
    #[error("{amount} cannot be paid in {outputs} outputs")]
    Outputs {
        /// What is to be paid.
        amount: Amount,
        /// The outputs asked for.
        outputs: u32,
    },
    /// A total is out of range.
    #[error("the coins add up to more than an amount can be")]
    Range(#[from] AmountError),
}

/// Adds an issue of `amount`, which `issuer` will owe to `owner`.
pub fn issue(
    builder: TransactionBuilder,
    amount: Amount,
    issuer: &Party,
    owner: PublicKey,
    nonce: u64,
) -> TransactionBuilder {
    builder
        .output(&CashState { amount, issuer: issuer.clone(), owner })
        .command(&CashCommand::Issue { nonce }, [issuer.key])
}

/// Adds a payment of `amount` to `recipient` out of `coins`; what they hold beyond it goes to
/// `change_owner`. `outputs` says into how many outputs, nearly equal, the payment is split, for
/// each issuer among the coins; 1 for an ordinary payment.
///
/// Coins of several issuers are spent in the order in which the issuers first occur; change comes
/// from the last one.
///
/// # Errors
/// [`PayError`] when the coins do not fit the amount, or the amount not the number of outputs.
pub fn pay(
    builder: TransactionBuilder,
    coins: &[Coin],
    amount: Amount,
    recipient: PublicKey,
    change_owner: PublicKey,
    outputs: u32,
) -> Result<TransactionBuilder, PayError> {
    if amount.quantity() == 0 {
        return Err(PayError::Nothing);
    }
    let (mut builder, parts) = spend(builder, coins, amount)?;
    let mut changes = Vec::new();
    for (issuer, paid, change) in parts {
        for part in split(paid, outputs)? {
            builder = builder.output(&CashState { amount: part, issuer: issuer.clone(), owner: recipient });
        }
        changes.extend(change.map(|amount| CashState {
            amount,
            issuer: issuer.clone(),
            owner: change_owner,
        }));
    }
    for change in &changes {
        builder = builder.output(change);
    }
    Ok(builder.command(&CashCommand::Move, coins.iter().map(|coin| coin.cash.owner)))
}

/// Adds the exit of `amount` out of `coins`; what they hold beyond it goes to `change_owner`. The
/// issuers sign too.
///
/// # Errors
/// [`PayError`] when the coins do not fit the amount.
pub fn exit(
    builder: TransactionBuilder,
    coins: &[Coin],
    amount: Amount,
    change_owner: PublicKey,
) -> Result<TransactionBuilder, PayError> {
    if amount.quantity() == 0 {
        return Err(PayError::Nothing);
    }
    let (mut builder, parts) = spend(builder, coins, amount)?;
    let mut signers: Vec<_> = coins.iter().map(|coin| coin.cash.owner).collect();
    for (issuer, _, change) in parts {
        signers.push(issuer.key);
        if let Some(amount) = change {
            builder = builder.output(&CashState { amount, issuer: issuer.clone(), owner: change_owner });
        }
    }
    Ok(builder.command(&CashCommand::Exit, signers))
}

/// Consumes the coins; says of each issuer how much of its cash is paid, and what is left over.
#[expect(clippy::type_complexity, reason = "a list of (issuer, paid, change), read in two places")]
fn spend(
    mut builder: TransactionBuilder,
    coins: &[Coin],
    amount: Amount,
) -> Result<(TransactionBuilder, Vec<(&Party, Amount, Option<Amount>)>), PayError> {
    let currency = amount.currency();
    let mut issuers: Vec<(&Party, Amount)> = Vec::new();
    for Coin { state, cash } in coins {
        if cash.amount.currency() != currency {
            return Err(PayError::Currency { found: cash.amount.currency(), wanted: currency });
        }
        builder = builder.input(state.clone());
        match issuers.iter_mut().find(|(issuer, _)| **issuer == cash.issuer) {
            Some((_, total)) => *total = total.checked_add(cash.amount)?,
            None => issuers.push((&cash.issuer, cash.amount)),
        }
    }
    let nothing = Amount::new(0, currency)?;
    let mut missing = amount;
    let mut parts = Vec::with_capacity(issuers.len());
    for (issuer, total) in &issuers {
        if missing.quantity() == 0 {
            let unneeded = coins.iter().position(|coin| coin.cash.issuer == **issuer);
            return Err(PayError::NotNeeded(unneeded.unwrap_or_default()));
        }
        let paid = if *total < missing { *total } else { missing };
        let change = total.checked_sub(paid)?;
        missing = missing.checked_sub(paid)?;
        parts.push((*issuer, paid, (change != nothing).then_some(change)));
    }
    if missing.quantity() > 0 {
        return Err(PayError::Insufficient { available: amount.checked_sub(missing)?, wanted: amount });
    }
    Ok((builder, parts))
}

/// `outputs` parts of at least one minor unit that differ by one at most, larger ones first.
fn split(amount: Amount, outputs: u32) -> Result<impl Iterator<Item = Amount>, PayError> {
    let refused = || PayError::Outputs { amount, outputs };
    let count = u64::from(outputs);
    let each = amount.quantity().checked_div(count).filter(|each| *each > 0).ok_or_else(refused)?;
    let larger = amount.quantity().checked_rem(count).ok_or_else(refused)?;
    Ok((0..count).map_while(move |index| {
        let quantity = each.checked_add(u64::from(index < larger))?;
        Amount::new(quantity, amount.currency()).ok()
    }))
}
