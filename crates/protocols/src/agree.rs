//! Parties agree on a transaction before it is final: the one who proposes collects signatures, the others review and
//! sign.

use tally_contracts::{LedgerTransaction, Party, PublicKey, Role, SignedTransaction, TransactionSignature};
use tally_flows::{Context, FlowError, Session};

use crate::check::{self, contracts, dependencies_of, invalid};
use crate::resolve::{Attachments, History, Offer, Offered, Reply};

/// Proposes a transaction, which this node has signed, to the `signers` and gives it back with their signatures,
/// verified. Each session leads to a flow that calls [`review`] and then [`receive`](crate::finalise::receive).
///
/// # Errors
/// What a signer refuses with; [`FlowError::Unexpected`] and [`FlowError::Invalid`] for a signature that is not the
/// one wanted.
pub async fn collect(
    context: &Context,
    transaction: SignedTransaction,
    signers: &[(Session, Party)],
) -> Result<SignedTransaction, FlowError> {
    context.step("Collecting signatures");
    let mut open = Vec::with_capacity(signers.len());
    for (session, signer) in signers {
        let (offered, offer) = offer(context, &transaction, signer).await?;
        session.send(&offer).await;
        open.push((session, signer, offered));
    }
    let mut signatures = transaction.signatures().to_vec();
    for (session, signer, mut offered) in open {
        signatures.push(signature(context, &transaction, session, signer, &mut offered).await?);
    }
    SignedTransaction::new(transaction.transaction().clone(), signatures).map_err(|error| invalid(&error))
}

/// A proposal for `receiver`, with what it may ask for.
pub(crate) async fn offer(
    context: &Context,
    transaction: &SignedTransaction,
    receiver: &Party,
) -> Result<(Offered, Offer), FlowError> {
    let (offered, history) = Offered::transaction(context, transaction.transaction(), &receiver.key).await?;
    Ok((offered, Offer { transaction: transaction.clone(), history }))
}

/// The signature of `signer` as the answer to a proposal, verified.
pub(crate) async fn signature(
    context: &Context,
    transaction: &SignedTransaction,
    session: &Session,
    signer: &Party,
    offered: &mut Offered,
) -> Result<TransactionSignature, FlowError> {
    let signature: TransactionSignature = offered.serve(context, session).await?;
    verified(transaction, signer, Role::Party, signature)
}

/// # Errors
/// [`FlowError::Unexpected`] for a signature by another key, [`FlowError::Invalid`] for one that does not verify or was
/// given in another role.
pub(crate) fn verified(
    transaction: &SignedTransaction,
    signer: &Party,
    role: Role,
    signature: TransactionSignature,
) -> Result<TransactionSignature, FlowError> {
    let id = transaction.id();
    if signature.by != signer.key {
        let reason = format!("a signature of {} instead of its own", signature.by);
        return Err(FlowError::Unexpected { party: signer.name.clone(), reason });
    }
    signature.verify(role, id).map_err(|error| {
        FlowError::invalid(format!(
            "the signature of {signer} over transaction {id} does not verify: {}",
            check::reasons(&error)
        ))
    })?;
    Ok(signature)
}

/// Receives a proposal, verifies it with its history, asks `judge` whether this node wants it, signs it and says so.
/// Gives the transaction with the signatures that were verified, this node's included. The final transaction comes in
/// the same session, see [`receive`](crate::finalise::receive).
///
/// `judge` is all that stands between a peer and this node's signature. It has to look at every command and at every
/// state: the contracts only make sure that whoever has to has signed.
///
/// # Errors
/// [`FlowError::Invalid`] for what does not verify or what the proposer has not signed itself; what `judge` says.
pub async fn review(
    context: &Context,
    session: &Session,
    judge: impl FnOnce(&LedgerTransaction) -> Result<(), FlowError>,
) -> Result<SignedTransaction, FlowError> {
    let offer = session.receive().await?;
    let signed = sign_if(context, session, offer, judge).await?;
    let me = context.me().key;
    if let Some(signature) = own_signature(&signed, &me) {
        session.send(&Reply::Answer(*signature)).await;
    }
    Ok(signed)
}

/// What `key` has signed as a party.
pub(crate) fn own_signature<'a>(
    signed: &'a SignedTransaction,
    key: &PublicKey,
) -> Option<&'a TransactionSignature> {
    signed.signatures().iter().find(|signature| signature.by == *key && signature.role == Role::Party)
}

/// Verifies a proposal with its history and signs it if `judge` agrees.
pub(crate) async fn sign_if(
    context: &Context,
    session: &Session,
    offer: Offer,
    judge: impl FnOnce(&LedgerTransaction) -> Result<(), FlowError>,
) -> Result<SignedTransaction, FlowError> {
    let Offer { transaction, history } = offer;
    let me = context.me().key;
    let proposer = context.party(session.peer()).await?;
    let notaries = context.notaries().await?;
    context.step("Verifying");
    let notary = check::notary(context, transaction.transaction(), &notaries)?;
    check::size(context, transaction.transaction(), notary).await?;
    if !transaction.required_signers().contains(&me) {
        return Err(FlowError::refused("the proposed transaction does not ask for this node's signature"));
    }
    let others: Vec<_> =
        transaction.required_signers().iter().copied().filter(|key| *key != proposer.key).collect();
    check::parties(&transaction, &others, &[])?;
    let roots = dependencies_of(transaction.transaction());
    let mut attachments = Attachments::from(session);
    let history = History::resolve(context, session, &mut attachments, &roots, history, &notaries).await?;
    let ledger =
        check::ledger_transaction(context, &mut attachments, transaction.transaction(), &history.at_hand)
            .await?;
    ledger.verify_new(contracts()).map_err(|error| invalid(&error))?;
    check::consent(&transaction, ledger.inputs(), &others)?;
    check::identities(context, &ledger).await?;
    judge(&ledger)?;
    if !history.fresh.is_empty() {
        context.record(history.fresh).await?;
    }
    context.step("Signing");
    let signature = context.sign(&me, Role::Party, transaction.id()).await?;
    transaction.with(signature).map_err(|error| invalid(&error))
}
