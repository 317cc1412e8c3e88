//! Oracle: somebody trusted says an exchange rate and signs the transaction that uses it, of which it sees that rate
//! and nothing else.

use std::time::Duration;

use borsh::{BorshDeserialize, BorshSerialize};
use serde::{Deserialize, Serialize};
use tally_contracts::oracle::{Rate, rates_for};
use tally_contracts::{
    Currency, Name, Party, Role, SignedTransaction, TearOff, Timestamp, TransactionSignature,
};
use tally_flows::{Context, Flow, FlowError, Responder, Session};

use crate::agree::verified;
use crate::check::invalid;

/// What sessions with an oracle are called.
pub const NAME: &str = "ExchangeRate";
/// The version of what is said in them.
pub const VERSION: u32 = 1;
/// How long after it was asked an oracle signs for the rate that it said.
pub const VALID: Duration = Duration::from_secs(300);

/// What an oracle is asked first: the rate of a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
struct Pair {
    base: Currency,
    quote: Currency,
}

/// What follows.
#[derive(Clone, Debug, BorshSerialize, BorshDeserialize)]
enum Then {
    /// Nothing.
    Thanks,
    /// A transaction that uses the rate is to be signed.
    Sign(TearOff),
}

/// Which rate to ask whom for.
#[derive(Clone, Debug, BorshSerialize, BorshDeserialize, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExchangeRateArguments {
    /// The currency that is priced.
    pub base: Currency,
    /// The currency that it is priced in.
    pub quote: Currency,
    /// Who is asked.
    pub oracle: Name,
}

/// A rate, in whole numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize, Serialize)]
pub struct Quoted {
    /// One unit of `base` is worth `rate / 10^8` units of `quote`.
    pub rate: Rate,
}

/// Asks an oracle for an exchange rate.
pub struct ExchangeRate;

impl Flow for ExchangeRate {
    const NAME: &'static str = NAME;
    const VERSION: u32 = VERSION;
    const ARGUMENTS: &'static [(&'static str, &'static str)] = &[
        ("base", "the currency that is priced, such as EUR"),
        ("quote", "the currency that it is priced in, such as USD"),
        ("oracle", "who is asked, such as O=Oracle, L=London, C=GB"),
    ];
    type Arguments = ExchangeRateArguments;
    type Output = Quoted;

    async fn run(context: Context, arguments: ExchangeRateArguments) -> Result<Quoted, FlowError> {
        let ExchangeRateArguments { base, quote, oracle } = arguments;
        let asked = Asked::rate(&context, base, quote, &oracle).await?;
        asked.session.send(&Then::Thanks).await;
        Ok(Quoted { rate: asked.rate })
    }
}

/// A rate that an oracle said, and the session in which it will sign for it.
pub(crate) struct Asked {
    pub(crate) rate: Rate,
    pub(crate) oracle: Party,
    session: Session,
}

impl Asked {
    pub(crate) async fn rate(
        context: &Context,
        base: Currency,
        quote: Currency,
        oracle: &Name,
    ) -> Result<Self, FlowError> {
        context.step("Asking the oracle");
        let oracle = context.party(oracle).await?;
        let session = context.open_as(&oracle.name, NAME, VERSION).await?;
        let rate: Rate = session.exchange(&Pair { base, quote }).await?;
        if rate.base != base || rate.quote != quote || rate.rate == 0 {
            let reason = format!("a rate of {} in {} was asked for", base, quote);
            return Err(FlowError::Unexpected { party: oracle.name, reason });
        }
        Ok(Self { rate, oracle, session })
    }

    /// The transaction with the oracle's signature, who is shown its rate and nothing else.
    pub(crate) async fn sign(
        &self,
        context: &Context,
        transaction: &SignedTransaction,
    ) -> Result<SignedTransaction, FlowError> {
        context.step("Collecting signatures");
        let tear_off = transaction
            .transaction()
            .tear_off_for_signer(&self.oracle.key)
            .map_err(|error| invalid(&error))?;
        let signature: TransactionSignature = self.session.exchange(&Then::Sign(tear_off)).await?;
        let signature = verified(transaction, &self.oracle, Role::Oracle, signature)?;
        transaction.with(signature).map_err(|error| invalid(&error))
    }
}

/// The oracle's side. A node whose operator gives it no rates refuses.
pub struct Vouch;

impl Responder for Vouch {
    const ANSWERS: &'static str = NAME;
    const VERSION: u32 = VERSION;

    async fn run(context: Context, session: Session) -> Result<(), FlowError> {
        let Pair { base, quote } = session.receive().await?;
        let found = context.rate(base.code(), quote.code()).await?;
        let unknown = || FlowError::refused(format!("{} knows no rate of {base} in {quote}", context.me()));
        let found = found.ok_or_else(unknown)?;
        // The node keeps nine decimals, the ledger eight.
        let rate = Rate { base, quote, rate: found.billionths / 10, as_of: found.as_of };
        if rate.rate == 0 {
            return Err(unknown());
        }
        let asked_at = context.now().await;
        let tear_off = match session.exchange(&rate).await? {
            Then::Thanks => return Ok(()),
            Then::Sign(tear_off) => tear_off,
        };
        context.step("Verifying");
        check(&context, &tear_off, rate, asked_at).await?;
        context.step("Signing");
        let signature = context.sign(&context.me().key, Role::Oracle, tear_off.id()).await?;
        session.send(&signature).await;
        Ok(())
    }
}

/// The oracle signs for the rate that it said, soon, and for nothing else.
async fn check(
    context: &Context,
    tear_off: &TearOff,
    said: Rate,
    asked_at: Timestamp,
) -> Result<(), FlowError> {
    if context.now().await.since(asked_at) > VALID {
        return Err(FlowError::refused(format!(
            "the rate was asked for more than {} s ago",
            VALID.as_secs()
        )));
    }
    if tear_off.network() != context.network() {
        return Err(FlowError::refused("the transaction is of another network"));
    }
    let rates = rates_for(tear_off, &context.me().key).map_err(|error| invalid(&error))?;
    if rates.iter().any(|rate| *rate != said) {
        return Err(FlowError::refused("the transaction names another rate than the one that was said"));
    }
    let private = tear_off.outputs().is_some()
        || tear_off.inputs().is_some()
        || tear_off.references().is_some()
        || tear_off.consumers().is_some();
    let commands = tear_off.commands().map_or(0, |shown| shown.values().len());
    if private || commands != rates.len() {
        return Err(FlowError::refused(
            "the tear-off shows more than the rate, which is not for an oracle to see",
        ));
    }
    Ok(())
}
