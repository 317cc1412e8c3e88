//! Senders, from signatures.

use std::ops::Deref;
use std::sync::Arc;

use alloy_consensus::SignableTransaction;
use alloy_consensus::crypto::SECP256K1N_HALF;
use alloy_eips::eip7702::{RecoveredAuthority, RecoveredAuthorization, SignedAuthorization};
use alloy_primitives::{Address, B256, Signature};

use super::{Transaction, TransactionError};

/// A transaction whose sender is known. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recovered {
    transaction: Arc<Transaction>,
    sender: Address,
}

impl Recovered {
    /// For a sender that was recovered before and stored beside the transaction.
    pub fn new_unchecked(transaction: impl Into<Arc<Transaction>>, sender: Address) -> Self {
        Self { transaction: transaction.into(), sender }
    }

    /// Who signed it.
    pub fn sender(&self) -> Address {
        self.sender
    }

    /// The transaction itself.
    pub fn transaction(&self) -> &Arc<Transaction> {
        &self.transaction
    }

    /// keccak-256 of its encoding.
    pub fn hash(&self) -> B256 {
        *self.transaction.tx_hash()
    }
}

impl Deref for Recovered {
    type Target = Transaction;

    fn deref(&self) -> &Transaction {
        &self.transaction
    }
}

/// Finds who signed a transaction.
///
/// A signature with a high `s` is recovered as well: whether a fork takes it is for
/// [`Recovered::check`] to say.
///
/// # Errors
/// A signature that no key gives.
pub fn recover(transaction: impl Into<Arc<Transaction>>) -> Result<Recovered, TransactionError> {
    let transaction = transaction.into();
    let hash = match &*transaction {
        Transaction::Legacy(signed) => signed.tx().signature_hash(),
        Transaction::Eip2930(signed) => signed.tx().signature_hash(),
        Transaction::Eip1559(signed) => signed.tx().signature_hash(),
        Transaction::Eip4844(signed) => signed.tx().signature_hash(),
        Transaction::Eip7702(signed) => signed.tx().signature_hash(),
    };
    recover_from(transaction, hash)
}

/// [`recover`], from the hash that was signed.
pub(crate) fn recover_from(transaction: Arc<Transaction>, hash: B256) -> Result<Recovered, TransactionError> {
    let sender = transaction
        .signature()
        .recover_address_from_prehash(&hash)
        .map_err(|_| TransactionError::Unrecoverable)?;
    Ok(Recovered { transaction, sender })
}

/// [`recover`] for many, over `threads` threads; the results are in the order of `transactions`.
///
/// One thread, or few transactions, are handled on the caller's thread.
pub fn recover_all<T>(transactions: Vec<T>, threads: usize) -> Vec<Result<Recovered, TransactionError>>
where
    T: Into<Arc<Transaction>> + Send,
{
    // Starting a thread costs about as much as one recovery.
    const LEAST_SHARE: usize = 4;
    let threads = threads.min(transactions.len() / LEAST_SHARE).max(1);
    if threads == 1 {
        return transactions.into_iter().map(recover).collect();
    }
    let share = transactions.len().div_ceil(threads);
    let mut shares = Vec::with_capacity(threads);
    let mut rest = transactions.into_iter();
    loop {
        let part: Vec<T> = rest.by_ref().take(share).collect();
        if part.is_empty() {
            break;
        }
        shares.push(part);
    }
    std::thread::scope(|scope| {
        let own = shares.pop();
        let workers: Vec<_> = shares
            .into_iter()
            .map(|part| scope.spawn(move || part.into_iter().map(recover).collect::<Vec<_>>()))
            .collect();
        let last: Vec<_> = own.into_iter().flatten().map(recover).collect();
        let mut results = Vec::with_capacity(share * threads);
        for worker in workers {
            match worker.join() {
                Ok(part) => results.extend(part),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        results.extend(last);
        results
    })
}

/// Who gave an authorization of EIP-7702. An invalid one is kept and has no effect.
pub(crate) fn recover_authorization(authorization: &SignedAuthorization) -> RecoveredAuthorization {
    let parity = authorization.y_parity();
    let authority = if parity > 1 || authorization.s() > SECP256K1N_HALF {
        None
    } else {
        let signature = Signature::new(authorization.r(), authorization.s(), parity == 1);
        signature.recover_address_from_prehash(&authorization.inner().signature_hash()).ok()
    };
    let authority = authority.map_or(RecoveredAuthority::Invalid, RecoveredAuthority::Valid);
    RecoveredAuthorization::new_unchecked(authorization.inner().clone(), authority)
}
