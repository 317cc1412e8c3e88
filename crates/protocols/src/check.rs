//! What a transaction has to stand up to before a node signs or records it.

use std::collections::BTreeMap;
use std::error::Error;
use std::sync::{Arc, LazyLock};

use tally_contracts::{
    Contracts, LedgerTransaction, Party, PublicKey, SignedTransaction, State, StateAndRef, StateRef,
    Transaction, TransactionId, TransactionSignature,
};
use tally_flows::{Context, FlowError, Notaries, Notary};
use tally_notary::NotaryKind;

use crate::resolve::{Attachments, recorded};

static SHIPPED: LazyLock<Contracts> = LazyLock::new(Contracts::shipped);

/// The contracts that these flows build and verify with.
pub fn contracts() -> &'static Contracts {
    &SHIPPED
}

/// An error and what caused it, in one line.
pub(crate) fn reasons(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}

/// What `error` says does not verify.
pub(crate) fn invalid(error: &dyn Error) -> FlowError {
    FlowError::invalid(reasons(error))
}

/// Transactions at hand, by id.
pub(crate) type ById = BTreeMap<TransactionId, Arc<SignedTransaction>>;

/// The transactions that this one builds on, each once, in order of first mention.
pub(crate) fn dependencies_of(transaction: &Transaction) -> Vec<TransactionId> {
    let mut ids: Vec<TransactionId> = Vec::new();
    for reference in transaction.inputs().iter().chain(transaction.references()) {
        // Inputs of one transaction mostly come together, so looking back over a few is enough to stay small; what
        // is left is removed at the end.
        if ids.last() != Some(&reference.transaction) {
            ids.push(reference.transaction);
        }
    }
    let mut seen = std::collections::BTreeSet::new();
    ids.retain(|id| seen.insert(*id));
    ids
}

fn output(at_hand: &ById, reference: &StateRef) -> Result<State, FlowError> {
    let StateRef { transaction, index } = reference;
    let found = at_hand.get(transaction).ok_or_else(|| {
        FlowError::invalid(format!("transaction {transaction} is not at hand, of which an output is used"))
    })?;
    usize::try_from(*index)
        .ok()
        .and_then(|index| found.transaction().outputs().get(index))
        .cloned()
        .ok_or_else(|| FlowError::invalid(format!("transaction {transaction} has no output {index}")))
}

/// The transaction with the states and attachments it names. The transactions it builds on are `at_hand`.
///
/// # Errors
/// A state that is not there; those of [`Attachments::get`].
pub(crate) async fn ledger_transaction(
    context: &Context,
    attachments: &mut Attachments<'_>,
    transaction: &Transaction,
    at_hand: &ById,
) -> Result<LedgerTransaction, FlowError> {
    let find = |references: &[StateRef]| {
        references.iter().map(|reference| output(at_hand, reference)).collect::<Result<Vec<_>, _>>()
    };
    let (inputs, references) = (find(transaction.inputs())?, find(transaction.references())?);
    together(context, attachments, transaction, inputs, references).await
}

async fn together(
    context: &Context,
    from: &mut Attachments<'_>,
    transaction: &Transaction,
    inputs: Vec<State>,
    references: Vec<State>,
) -> Result<LedgerTransaction, FlowError> {
    let mut attachments = Vec::with_capacity(transaction.attachments().len());
    for id in transaction.attachments() {
        attachments.push(from.get(context, *id).await?);
    }
    LedgerTransaction::resolve(transaction, inputs, references, attachments).map_err(|error| invalid(&error))
}

/// Checks a transaction that this node has built out of states of its vault.
///
/// # Errors
/// The first rule broken.
pub async fn built(
    context: &Context,
    transaction: &Transaction,
    states: &[StateAndRef],
) -> Result<LedgerTransaction, FlowError> {
    let find = |references: &[StateRef]| {
        references
            .iter()
            .map(|reference| {
                let found = states.iter().find(|state| state.reference == *reference);
                found.map(|found| found.state.clone()).ok_or_else(|| {
                    FlowError::invalid(format!(
                        "{reference} is used and is not among the states it was built from"
                    ))
                })
            })
            .collect::<Result<Vec<_>, _>>()
    };
    let (inputs, references) = (find(transaction.inputs())?, find(transaction.references())?);
    let ledger = together(context, &mut Attachments::here(), transaction, inputs, references).await?;
    ledger.verify_new(contracts()).map_err(|error| invalid(&error))?;
    identities(context, &ledger).await?;
    Ok(ledger)
}

/// Checks the signatures of the parties to a transaction: all of them but the `absent` have signed, and each signature
/// verifies that is not one of `verified`. The notary may have attested it or not.
///
/// # Errors
/// The first signature missing or wrong.
pub(crate) fn parties(
    transaction: &SignedTransaction,
    absent: &[PublicKey],
    verified: &[TransactionSignature],
) -> Result<(), FlowError> {
    let id = transaction.id();
    if let Some(by) = transaction.missing_signers().find(|signer| !absent.contains(signer)) {
        return Err(FlowError::invalid(format!("transaction {id} lacks the signature of {by}")));
    }
    for signature in transaction.signatures().iter().filter(|signature| !verified.contains(signature)) {
        signature.verify(signature.role, id).map_err(|error| {
            FlowError::invalid(format!(
                "the signature of {} over transaction {id} does not verify: {}",
                signature.by,
                reasons(&error)
            ))
        })?;
    }
    Ok(())
}

/// Checks that a transaction is final as far as signatures say: all parties to it have signed and the notary has
/// attested it, and each signature verifies that is not one of `verified`.
///
/// # Errors
/// The first signature missing or wrong.
pub(crate) fn signatures(
    transaction: &SignedTransaction,
    verified: &[TransactionSignature],
) -> Result<(), FlowError> {
    transaction.check_complete().map_err(|error| invalid(&error))?;
    parties(transaction, &[], verified)
}

/// Checks that each consumer of each consumed state, the `absent` aside, has signed as one who saw the whole
/// transaction: a signature that somebody gave over a part of it consents to nothing.
///
/// # Errors
/// The first consumer that did not.
pub(crate) fn consent(
    transaction: &SignedTransaction,
    inputs: &[State],
    absent: &[PublicKey],
) -> Result<(), FlowError> {
    let consumers = inputs.iter().flat_map(|state| &state.consumers);
    let mut silent = consumers.filter(|key| !absent.contains(key) && !transaction.is_agreed_by(key));
    match silent.next() {
        None => Ok(()),
        Some(key) => Err(FlowError::invalid(format!(
            "transaction {} consumes a state of {key}, who has not signed it as a party",
            transaction.id()
        ))),
    }
}

/// [`consent`] to a transaction whose inputs are outputs of recorded transactions.
///
/// # Errors
/// The first consumer that did not consent; an input that is not recorded here.
pub(crate) async fn consent_to_recorded(
    context: &Context,
    transaction: &SignedTransaction,
) -> Result<(), FlowError> {
    let at_hand = recorded(context, dependencies_of(transaction.transaction())).await?;
    let inputs = transaction.transaction().inputs().iter().map(|input| output(&at_hand, input));
    consent(transaction, &inputs.collect::<Result<Vec<_>, _>>()?, &[])
}

/// Checks that the versions of contracts that a new transaction names are in use.
///
/// # Errors
/// The first that is known for the sake of history alone.
pub(crate) fn in_use(ledger: &LedgerTransaction) -> Result<(), FlowError> {
    ledger.verify_versions_in_use(contracts()).map_err(|error| invalid(&error))
}

/// Checks that each identity that the outputs name is one that the network has certified, under that name and with
/// that key, now or in the past.
///
/// # Errors
/// The first that is not.
pub(crate) async fn identities(context: &Context, ledger: &LedgerTransaction) -> Result<(), FlowError> {
    let mut named = ledger.identities(contracts()).map_err(|error| invalid(&error))?;
    named.sort_unstable();
    named.dedup();
    named.retain(|party| !context.is_me(party));
    if named.is_empty() {
        return Ok(());
    }
    let certified = context.certified(named.clone()).await?;
    match named.iter().zip(certified).find(|(_, certified)| !certified) {
        None => Ok(()),
        Some((Party { name, key }, _)) => Err(FlowError::invalid(format!(
            "transaction {} names {name} with the key {key}, which the network has never certified for that name",
            ledger.transaction().id()
        ))),
    }
}

/// Most bytes of one signature with its key and role.
const SIGNATURE_BYTES: u64 = 100;

/// Checks that a new transaction is not larger than the network allows, once everybody has signed it who has to, the
/// notary with them; of a clustered one as many members as its composite key asks for.
///
/// A final transaction is not held against the limit: it may have been made when that was higher.
///
/// # Errors
/// [`FlowError::TooLarge`].
pub(crate) async fn size(
    context: &Context,
    transaction: &Transaction,
    notary: &Notary,
) -> Result<(), FlowError> {
    let limit = context.transaction_limit().await?;
    let (attesting, reveal) = match &notary.kind {
        _ if !transaction.needs_notary() => (0, 0),
        NotaryKind::NonValidating | NotaryKind::Validating => (1, 0),
        kind @ NotaryKind::Clustered(_) => {
            let cluster = kind.cluster(context.network()).map_err(|error| invalid(&error))?;
            let composite = cluster.composite().map_err(|error| invalid(&error))?;
            (cluster.quorum(), tally_contracts::encode(&composite).len())
        }
    };
    let signatures = transaction.required_signers().len() + attesting;
    let bytes = (transaction.encode().len() + 4 + reveal) as u64 + SIGNATURE_BYTES * signatures as u64;
    if bytes <= limit {
        return Ok(());
    }
    Err(FlowError::TooLarge {
        what: format!("transaction {} with all signatures", transaction.id()),
        bytes,
        limit,
    })
}

/// Checks what stands in the way of a new transaction beside its contracts: its notary, its size.
///
/// # Errors
/// Those of [`notary`] and [`size`].
pub(crate) async fn admissible(context: &Context, transaction: &Transaction) -> Result<(), FlowError> {
    let notaries = context.notaries().await?;
    size(context, transaction, notary(context, transaction, &notaries)?).await
}

/// Checks that a new transaction is of this network, and its notary one of the network's now.
///
/// # Errors
/// Those of [`past_notary`]; a notary of the past makes nothing new final.
pub(crate) fn notary<'a>(
    context: &Context,
    transaction: &Transaction,
    notaries: &'a Notaries,
) -> Result<&'a Notary, FlowError> {
    past_notary(context, transaction, notaries)?;
    let named = transaction.notary();
    notaries.current(named).ok_or_else(|| {
        FlowError::invalid(format!(
            "transaction {} names {named} with the key {} as its notary, which is a notary of the past: nothing new \
             becomes final by it",
            transaction.id(),
            named.key
        ))
    })
}

/// Checks that a final transaction is of this network, and its notary one of the network's, now or in the past.
///
/// # Errors
/// Anybody could make himself the notary of what he invents, or bring along what was signed elsewhere.
pub(crate) fn past_notary(
    context: &Context,
    transaction: &Transaction,
    notaries: &Notaries,
) -> Result<(), FlowError> {
    if transaction.network() != context.network() {
        return Err(FlowError::invalid(format!(
            "transaction {} is of network {}, this node is of network {}",
            transaction.id(),
            transaction.network(),
            context.network()
        )));
    }
    let named = transaction.notary();
    if notaries.current(named).is_none() && !notaries.is_former(named) {
        return Err(FlowError::invalid(format!(
            "transaction {} names {named} as its notary, which is none of this network",
            transaction.id()
        )));
    }
    Ok(())
}

/// Checks a final transaction: network, notary, signatures, contracts, consent, identities.
///
/// # Errors
/// The first rule broken.
pub(crate) async fn finished(
    context: &Context,
    attachments: &mut Attachments<'_>,
    transaction: &SignedTransaction,
    at_hand: &ById,
    notaries: &Notaries,
    verified: &[TransactionSignature],
) -> Result<LedgerTransaction, FlowError> {
    past_notary(context, transaction.transaction(), notaries)?;
    signatures(transaction, verified)?;
    let ledger = ledger_transaction(context, attachments, transaction.transaction(), at_hand).await?;
    ledger.verify(contracts()).map_err(|error| invalid(&error))?;
    consent(transaction, ledger.inputs(), &[])?;
    identities(context, &ledger).await?;
    Ok(ledger)
}

/// Is this node concerned by the transaction: does one of its keys have to sign, or does it take part in a state consumed
/// or created?
pub(crate) fn concerns(context: &Context, ledger: &LedgerTransaction) -> bool {
    let own = |keys: &[PublicKey]| keys.iter().any(|key| context.owns(key));
    let takes_part = |state: &State| matches!(contracts().describe(state), Ok(Some(summary)) if own(&summary.participants));
    own(ledger.transaction().required_signers())
        || ledger.outputs().iter().any(takes_part)
        || ledger.inputs().iter().any(takes_part)
}
