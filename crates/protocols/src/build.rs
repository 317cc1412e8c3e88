//! What flows that build transactions have in common.

use std::error::Error;

use borsh::{BorshDeserialize, BorshSerialize};
use serde::Serialize;
use tally_contracts::{
    Amount, Name, Party, PublicKey, Role, SignedTransaction, StateAndRef, Transaction, TransactionBuilder,
    TransactionId, TransactionSignature,
};
use tally_flows::{Context, FlowError};

use crate::check::{self, contracts, invalid, reasons};

/// What a flow that made a transaction comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize, Serialize)]
pub struct Final {
    /// The transaction: final, recorded here, and by everybody concerned of whom the node does not say otherwise.
    pub transaction: TransactionId,
}

/// What a user asked for cannot be put together.
pub(crate) fn refused(error: &dyn Error) -> FlowError {
    FlowError::refused(reasons(error))
}

/// The notary of that name, or the network's first.
///
/// # Errors
/// [`FlowError::Refused`] when there is none.
pub(crate) async fn notary(context: &Context, name: Option<&Name>) -> Result<Party, FlowError> {
    let notaries = context.notaries().await?;
    let found = match name {
        Some(name) => notaries.named(name),
        None => notaries.current.first(),
    };
    found.map(|notary| notary.party.clone()).ok_or_else(|| match name {
        Some(name) => FlowError::refused(format!("{name} is not a notary of this network")),
        None => FlowError::refused("this network has no notary"),
    })
}

/// Builds a transaction.
pub(crate) fn build(context: &Context, builder: TransactionBuilder) -> Result<Transaction, FlowError> {
    builder.build(context.random("salt"), contracts()).map_err(|error| refused(&error))
}

/// Verifies a transaction that was built out of these states, and signs it with each key of this node that has to.
pub(crate) async fn verify_and_sign(
    context: &Context,
    transaction: Transaction,
    states: &[StateAndRef],
) -> Result<SignedTransaction, FlowError> {
    context.step("Verifying");
    check::built(context, &transaction, states).await?;
    check::admissible(context, &transaction).await?;
    context.step("Signing");
    let mut own = context.own_among(transaction.required_signers());
    if own.is_empty() {
        // As the one who answers for the proposal.
        own.push(context.me().key);
    }
    let signatures = sign_with(context, &own, transaction.id()).await?;
    SignedTransaction::new(transaction, signatures).map_err(|error| invalid(&error))
}

/// Signs with each of these keys of this node, as a party.
pub(crate) async fn sign_with(
    context: &Context,
    keys: &[PublicKey],
    transaction: TransactionId,
) -> Result<Vec<TransactionSignature>, FlowError> {
    let mut signatures = Vec::with_capacity(keys.len());
    for key in keys {
        signatures.push(context.sign(key, Role::Party, transaction).await?);
    }
    Ok(signatures)
}

/// A number that nobody can guess, for telling apart what is otherwise the same.
pub(crate) fn nonce(context: &Context) -> u64 {
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&context.random("nonce")[..8]);
    u64::from_le_bytes(bytes)
}

/// `amount` in `count` parts that differ by one minor unit at most, larger ones first.
///
/// # Errors
/// Parts of nothing.
pub(crate) fn split(amount: Amount, count: u32) -> Result<Vec<Amount>, FlowError> {
    let total = amount.quantity();
    let parts = u64::from(count);
    if count == 0 || total / parts == 0 {
        return Err(FlowError::refused(format!("{amount} cannot be split into {count} parts")));
    }
    (0..parts)
        .map(|index| Amount::new(total / parts + u64::from(index < total % parts), amount.currency()))
        .collect::<Result<_, _>>()
        .map_err(|error| refused(&error))
}
