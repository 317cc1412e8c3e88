//! Parties agree on a transaction before it is final: the one who proposes collects signatures, the others review and
//! sign.

use std::io::{self, Read, Write};

use borsh::{BorshDeserialize, BorshSerialize};
use tally_contracts::{LedgerTransaction, Party, PublicKey, Role, SignedTransaction, TransactionSignature};
use tally_flows::{Context, FlowError, Session};

use crate::build::sign_with;
use crate::check::{self, contracts, dependencies_of, invalid};
use crate::resolve::{Attachments, History, Offer, Offered, Reply};

/// Most signatures of one party: it has had no more keys.
const SIGNATURES: usize = 64;

/// What a party answers to a proposal: a signature with each of its keys that has to sign, one after the other. Most
/// parties have one key that does, and answer with nothing but its signature.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Signatures(Vec<TransactionSignature>);

impl BorshSerialize for Signatures {
    fn serialize<W: Write>(&self, writer: &mut W) -> io::Result<()> {
        self.0.iter().try_for_each(|signature| signature.serialize(writer))
    }
}

impl BorshDeserialize for Signatures {
    /// Reads to the end of the message.
    fn deserialize_reader<R: Read>(reader: &mut R) -> io::Result<Self> {
        let mut bytes = Vec::new();
        reader.read_to_end(&mut bytes)?;
        let mut rest = bytes.as_slice();
        let mut signatures = vec![TransactionSignature::deserialize(&mut rest)?];
        while !rest.is_empty() {
            if signatures.len() == SIGNATURES {
                let reason = format!("more than {SIGNATURES} signatures");
                return Err(io::Error::new(io::ErrorKind::InvalidData, reason));
            }
            signatures.push(TransactionSignature::deserialize(&mut rest)?);
        }
        Ok(Self(signatures))
    }
}

/// Proposes a transaction, which this node has signed, to the `signers` and gives it back with their signatures,
/// verified. A party that has to sign with several of its keys is asked once. Each session leads to a flow that calls [`review`] and then [`receive`](crate::finalise::receive).
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
    let mut agreed = transaction;
    for (session, signer, mut offered) in open {
        agreed = signed_by(context, agreed, session, signer, &mut offered).await?;
    }
    let missing = agreed.missing_signers().next();
    match missing {
        None => Ok(agreed),
        Some(by) => {
            let id = agreed.id();
            Err(FlowError::invalid(format!(
                "transaction {id} lacks the signature of {by}, which nobody gave"
            )))
        }
    }
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

/// The transaction with what `signer` answers to its proposal: its signature, and those with other keys of it that have to
/// sign, verified. What nobody needs is left out.
pub(crate) async fn signed_by(
    context: &Context,
    transaction: SignedTransaction,
    session: &Session,
    signer: &Party,
    offered: &mut Offered,
) -> Result<SignedTransaction, FlowError> {
    let Signatures(answered) = offered.serve(context, session).await?;
    let missing: Vec<PublicKey> = transaction.missing_signers().collect();
    let wanted = answered.iter().find(|signature| signature.by == signer.key);
    // What is not its own is said to be so.
    let wanted =
        *wanted.or(answered.first()).ok_or_else(|| FlowError::invalid("an answer without a signature"))?;
    let mut signatures = transaction.signatures().to_vec();
    signatures.push(verified(&transaction, signer, Role::Party, wanted)?);
    for signature in answered {
        if signature.by != signer.key
            && missing.contains(&signature.by)
            && !signatures.iter().any(|known| known.by == signature.by)
        {
            let other = Party { name: signer.name.clone(), key: signature.by };
            signatures.push(verified(&transaction, &other, Role::Party, signature)?);
        }
    }
    SignedTransaction::new(transaction.transaction().clone(), signatures).map_err(|error| invalid(&error))
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

/// Receives a proposal, verifies it with its history, asks `judge` whether this node wants it, signs it with each key of
/// this node that has to and says so.
/// Gives the transaction with the signatures that were verified, this node's included. The final transaction comes in
/// the same session, see [`receive`](crate::finalise::receive).
///
/// `judge` is all that stands between a peer and this node's signatures. It has to look at every command and at every
/// state, for all keys of this node ([`Context::owns`]): the contracts only make sure that whoever has to has signed.
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
    session.send(&Reply::Answer(own_signatures(context, &signed))).await;
    Ok(signed)
}

/// What this node has signed as a party.
pub(crate) fn own_signatures(context: &Context, signed: &SignedTransaction) -> Signatures {
    let is_own =
        |signature: &&TransactionSignature| context.owns(&signature.by) && signature.role == Role::Party;
    Signatures(signed.signatures().iter().filter(is_own).copied().collect())
}

/// Verifies a proposal with its history and signs it if `judge` agrees.
pub(crate) async fn sign_if(
    context: &Context,
    session: &Session,
    offer: Offer,
    judge: impl FnOnce(&LedgerTransaction) -> Result<(), FlowError>,
) -> Result<SignedTransaction, FlowError> {
    let Offer { transaction, history } = offer;
    let proposer = context.party(session.peer()).await?;
    let notaries = context.notaries().await?;
    context.step("Verifying");
    let notary = check::notary(context, transaction.transaction(), &notaries)?;
    check::size(context, transaction.transaction(), notary).await?;
    let own = context.own_among(transaction.required_signers());
    if own.is_empty() {
        return Err(FlowError::refused("the proposed transaction does not ask for this node's signature"));
    }
    // A former key of the proposer's counts as another's here: without its signature nothing becomes final either.
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
    let signatures = sign_with(context, &own, transaction.id()).await?;
    let signed = signatures.into_iter().try_fold(transaction, |signed, signature| signed.with(signature));
    signed.map_err(|error| invalid(&error))
}
