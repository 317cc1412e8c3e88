//! Putting bonds into transactions.

use super::{BondCommand, BondState, Holding, Terms};
use crate::{Amount, AmountError, PublicKey, TimeWindow, Timestamp, TransactionBuilder};

/// Why holdings cannot be put into a transaction.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DealError {
    /// There is no holding.
    #[error("no holding was given")]
    Nothing,
    /// The holdings are of different bonds or currencies.
    #[error("the holdings are of different bonds")]
    Mixed,
    /// The holdings have less nominal than is to be transferred, or that is nothing, or another currency.
    #[error("a nominal of {wanted} cannot be taken out of {available}")]
    Nominal {
        /// The nominal of the holdings.
        available: Amount,
        /// The nominal to be transferred.
        wanted: Amount,
    },
    /// A total is out of range.
    #[error("the holdings add up to more than an amount can be")]
    Range(#[from] AmountError),
}

/// Adds an issue of a bond to `owner`.
pub fn issue(
    builder: TransactionBuilder,
    terms: Terms,
    nominal: Amount,
    owner: PublicKey,
) -> TransactionBuilder {
    let signers = [terms.issuer.key, terms.agent.key];
    builder.output(&BondState { terms, nominal, owner }).command(&BondCommand::Issue, signers)
}

/// Adds the transfer of `nominal` out of `holdings` to `buyer`; what they hold beyond it goes to
/// `rest_owner`, the present key of who holds them. For delivery versus payment, add the payment with
/// [`cash::pay`](crate::cash::pay) to the same builder.
///
/// # Errors
/// [`DealError`] when the holdings do not fit the nominal.
pub fn transfer(
    builder: TransactionBuilder,
    holdings: &[Holding],
    nominal: Amount,
    buyer: PublicKey,
    rest_owner: PublicKey,
) -> Result<TransactionBuilder, DealError> {
    let (first, available) = together(holdings)?;
    let terms = &first.bond.terms;
    let refused = DealError::Nominal { available, wanted: nominal };
    let rest = match available.checked_sub(nominal) {
        Ok(rest) if nominal.quantity() > 0 => rest,
        _ => return Err(refused),
    };
    let mut signers: Vec<_> = holdings.iter().map(|holding| holding.bond.owner).collect();
    signers.extend([buyer, terms.agent.key]);
    let mut builder =
        consume(builder, holdings).output(&BondState { terms: terms.clone(), nominal, owner: buyer });
    if rest.quantity() > 0 {
        let rest = BondState { terms: terms.clone(), nominal: rest, owner: rest_owner };
        builder = builder.output(&rest);
        if !signers.contains(&rest_owner) {
            signers.push(rest_owner);
        }
    }
    Ok(builder.command(&BondCommand::Transfer, signers))
}

/// Adds the redemption of `holdings`, no earlier than `from`, which is maturity or later, and
/// before `until`. The repayment is added with [`cash::pay`](crate::cash::pay) to the same builder.
///
/// # Errors
/// [`DealError`] when there are no holdings or they are of different bonds.
pub fn redeem(
    builder: TransactionBuilder,
    holdings: &[Holding],
    from: Timestamp,
    until: Option<Timestamp>,
) -> Result<TransactionBuilder, DealError> {
    let (first, _) = together(holdings)?;
    let terms = &first.bond.terms;
    let mut signers: Vec<_> = holdings.iter().map(|holding| holding.bond.owner).collect();
    signers.extend([terms.issuer.key, terms.agent.key]);
    let window = TimeWindow { from: Some(from), until };
    Ok(consume(builder, holdings).time_window(window).command(&BondCommand::Redeem, signers))
}

fn consume(builder: TransactionBuilder, holdings: &[Holding]) -> TransactionBuilder {
    holdings.iter().fold(builder, |builder, holding| builder.input(holding.state.clone()))
}

/// The first holding and the nominal of all, which must be of one bond.
fn together(holdings: &[Holding]) -> Result<(&Holding, Amount), DealError> {
    let (first, rest) = holdings.split_first().ok_or(DealError::Nothing)?;
    let mut total = first.bond.nominal;
    for holding in rest {
        if holding.bond.terms != first.bond.terms || holding.bond.nominal.currency() != total.currency() {
            return Err(DealError::Mixed);
        }
        total = total.checked_add(holding.bond.nominal)?;
    }
    Ok((first, total))
}
