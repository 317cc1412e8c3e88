//! Oracle: an exchange rate that somebody trusted vouches for.
//!
//! A rate is a command, signed by the oracle alone. The oracle is shown a tear-off with its own
//! commands ([`Transaction::tear_off_for_signer`](crate::Transaction::tear_off_for_signer)), checks
//! the rates in them ([`rates_for`]) and signs the id, without learning what they are for.

use crate::{
    Amount, AmountError, Contract, ContractCommand, ContractName, Currency, DecodeError, Involved,
    LedgerTransaction, NotShown, PublicKey, State, Summary, TearOff, Timestamp, TransactionBuilder,
    VersionRange, Violation,
};
use borsh::{BorshDeserialize, BorshSerialize};
use serde::{Deserialize, Serialize};

/// The name of the oracle contract.
pub const NAME: ContractName = ContractName::literal("tally.oracle");
/// The versions of the oracle contract in this code.
pub const VERSIONS: VersionRange = VersionRange::only(1);
/// How many decimals a rate has.
pub const RATE_DECIMALS: u8 = 8;

/// One unit of `base` was worth `rate / 10^8` units of `quote`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, BorshSerialize, BorshDeserialize, Serialize, Deserialize)]
pub struct Rate {
    /// The currency that is priced.
    pub base: Currency,
    /// The currency that it is priced in.
    pub quote: Currency,
    /// Units of `quote` for one unit of `base`, times `10^`[`RATE_DECIMALS`]; never zero.
    pub rate: u64,
    /// When.
    pub as_of: Timestamp,
}

impl Rate {
    /// What `amount` of the base currency is worth in the quote currency, rounded down to a minor unit.
    ///
    /// # Errors
    /// [`AmountError`] when `amount` is of another currency or the result out of range.
    pub fn convert(&self, amount: Amount) -> Result<Amount, AmountError> {
        if amount.currency() != self.base {
            return Err(AmountError::Mixed(amount.currency(), self.base));
        }
        // quantity / 10^base * rate / 10^8 * 10^quote, multiplications first: below 2^60 * 2^64, so
        // that at most one power of ten up to 10^4 fits as well.
        let power = |exponent: u8| 10u128.checked_pow(u32::from(exponent)).ok_or(AmountError::Range);
        let product =
            u128::from(amount.quantity()).checked_mul(u128::from(self.rate)).ok_or(AmountError::Range)?;
        let (from, to) = (self.base.decimals(), self.quote.decimals());
        let (up, down) = (to.saturating_sub(from), from.saturating_sub(to));
        let value = product
            .checked_mul(power(up)?)
            .and_then(|scaled| scaled.checked_div(power(down.saturating_add(RATE_DECIMALS)).ok()?))
            .ok_or(AmountError::Range)?;
        Amount::new(u64::try_from(value).map_err(|_| AmountError::Range)?, self.quote)
    }

    fn check(&self) -> Result<(), Violation> {
        if self.rate == 0 {
            return Err(Violation::new("oracle-rate", "the rate is zero"));
        }
        if self.base == self.quote {
            return Err(Violation::new("oracle-pair", format!("{} is priced in itself", self.base)));
        }
        Ok(())
    }
}

/// What an oracle vouches for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub enum OracleCommand {
    /// An exchange rate.
    Rate(Rate),
}

impl ContractCommand for OracleCommand {
    const CONTRACT: ContractName = NAME;
}

/// Adds a rate that `oracle` is to sign for.
pub fn quote(builder: TransactionBuilder, rate: Rate, oracle: PublicKey) -> TransactionBuilder {
    builder.command(&OracleCommand::Rate(rate), [oracle])
}

/// Why an oracle does not find its rates in a tear-off.
#[derive(Debug, thiserror::Error)]
pub enum OracleError {
    /// The tear-off hides a command that the oracle would be signing for, or who signs which.
    #[error("the tear-off does not show all that the oracle is to sign for")]
    NotShown(#[from] NotShown),
    /// The oracle is asked to sign for something else than a rate.
    #[error("a command that the oracle is to sign for is not a rate")]
    NotRate(#[from] DecodeError),
    /// The oracle is not asked for anything.
    #[error("no command asks for the oracle's signature")]
    NotAsked,
}

/// All rates that a tear-off asks `oracle` to sign for, and the certainty that it is asked for nothing else.
///
/// # Errors
/// [`OracleError`] when it may be asked for more than rates, or for nothing.
pub fn rates_for(tear_off: &TearOff, oracle: &PublicKey) -> Result<Vec<Rate>, OracleError> {
    let commands = tear_off.commands_for(oracle)?;
    if commands.is_empty() {
        return Err(OracleError::NotAsked);
    }
    let rate = |command: &crate::CommandContent| command.read().map(|OracleCommand::Rate(rate)| rate);
    Ok(commands.into_iter().map(rate).collect::<Result<_, _>>()?)
}

fn no_state(state: &State) -> DecodeError {
    let what = "a state, of which the oracle contract has none";
    DecodeError::Contract { what, expected: NAME, found: state.contract }
}

/// The oracle contract: no states, only facts.
#[derive(Debug, Clone, Copy)]
pub struct Oracle;

impl Contract for Oracle {
    fn name(&self) -> ContractName {
        NAME
    }

    fn versions(&self) -> VersionRange {
        VERSIONS
    }

    fn verify(&self, _version: u32, transaction: &LedgerTransaction) -> Result<(), Violation> {
        let states = transaction.inputs().iter().chain(transaction.outputs());
        if states.into_iter().any(|state| state.contract == NAME) {
            return Err(Violation::new("oracle-no-states", "the oracle contract has no states"));
        }
        for (OracleCommand::Rate(rate), signers) in transaction.commands_of()? {
            rate.check()?;
            if signers.len() != 1 {
                let detail = format!("a rate is signed by its oracle alone, this one by {}", signers.len());
                return Err(Violation::new("oracle-signed", detail));
            }
        }
        Ok(())
    }

    fn involved(&self, state: &State) -> Result<Involved, DecodeError> {
        Err(no_state(state))
    }

    fn describe(&self, state: &State) -> Result<Summary, DecodeError> {
        Err(no_state(state))
    }
}

#[cfg(test)]
mod tests;
