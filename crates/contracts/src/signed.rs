//! Transactions with their signatures.

use crate::encoding::invalid;
use crate::limits::{SIGNATURES, SIGNED_TRANSACTION_BYTES};
use crate::{DecodeError, PublicKey, Signature, SigningKey, Transaction, TransactionId};
use borsh::io::{Error, Read, Write};
use borsh::{BorshDeserialize, BorshSerialize};
use std::sync::Arc;
use tally_crypto::scheme::{VerifyError, verify};
use tally_crypto::{BatchVerifier, Hash, Signed, keyed};

/// Makes what is signed out of the id, so that a signature over a transaction is never one over
/// anything else.
const DOMAIN: &[u8; 32] = b"tallystick flows signature v1   ";

/// What signers of a transaction sign: 32 bytes, as batch verification wants them.
fn message(id: TransactionId) -> Hash {
    keyed(DOMAIN, id.as_bytes())
}

/// Signs the transaction called `id`.
pub fn sign(key: &SigningKey, id: TransactionId) -> TransactionSignature {
    TransactionSignature { by: key.public_key(), signature: key.sign(message(id).as_bytes()) }
}

/// Somebody's signature over the id of a transaction.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    BorshSerialize,
    BorshDeserialize,
    serde::Serialize,
    serde::Deserialize,
)]
pub struct TransactionSignature {
    /// Who signed.
    pub by: PublicKey,
    /// The signature.
    pub signature: Signature,
}

impl TransactionSignature {
    /// Checks the signature over the transaction called `id`.
    ///
    /// # Errors
    /// [`VerifyError`] says what is wrong with it.
    pub fn verify(&self, id: TransactionId) -> Result<(), VerifyError> {
        verify(&self.by, message(id).as_bytes(), &self.signature)
    }
}

/// What is wrong with the signatures of a transaction.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SignaturesError {
    /// A signature does not verify.
    #[error("the signature of {by} over transaction {id} does not verify")]
    Invalid {
        /// Who is said to have signed.
        by: PublicKey,
        /// The transaction.
        id: TransactionId,
        /// Why it does not verify.
        #[source]
        source: VerifyError,
    },
    /// Somebody has not signed yet.
    #[error("transaction {id} lacks the signature of {by}")]
    Missing {
        /// Whose signature is missing.
        by: PublicKey,
        /// The transaction.
        id: TransactionId,
    },
    /// Somebody signed whose signature is not required; it would mean nothing.
    #[error("{by} signed transaction {id}, which does not ask for that signature")]
    NotRequired {
        /// Who signed.
        by: PublicKey,
        /// The transaction.
        id: TransactionId,
    },
    /// Two different signatures of one key.
    #[error("transaction {id} has two signatures of {by}")]
    Twice {
        /// Who signed.
        by: PublicKey,
        /// The transaction.
        id: TransactionId,
    },
}

/// A transaction and signatures over it, each by a required signer, at most one by each.
/// Whether they verify is for [`SignedTransaction::verify_signatures`] to say. Cheap to clone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignedTransaction {
    transaction: Transaction,
    /// In strictly ascending order of keys.
    signatures: Arc<[TransactionSignature]>,
}

impl SignedTransaction {
    /// The transaction with these signatures, in any order.
    ///
    /// # Errors
    /// [`SignaturesError::NotRequired`] or [`SignaturesError::Twice`].
    pub fn new(
        transaction: Transaction,
        signatures: impl IntoIterator<Item = TransactionSignature>,
    ) -> Result<Self, SignaturesError> {
        let mut signatures: Vec<_> = signatures.into_iter().collect();
        signatures.sort_unstable();
        signatures.dedup();
        check(&transaction, &signatures)?;
        Ok(Self { transaction, signatures: signatures.into() })
    }

    /// The same with one more signature; no change if it is there already.
    ///
    /// # Errors
    /// As [`SignedTransaction::new`].
    pub fn with(&self, signature: TransactionSignature) -> Result<Self, SignaturesError> {
        Self::new(self.transaction.clone(), self.signatures.iter().copied().chain([signature]))
    }

    /// The transaction's id.
    pub fn id(&self) -> TransactionId {
        self.transaction.id()
    }

    /// The transaction.
    pub fn transaction(&self) -> &Transaction {
        &self.transaction
    }

    /// The signatures, in ascending order of keys.
    pub fn signatures(&self) -> &[TransactionSignature] {
        &self.signatures
    }

    /// Who has to sign; see [`Transaction::required_signers`].
    pub fn required_signers(&self) -> &[PublicKey] {
        self.transaction.required_signers()
    }

    /// Who has to sign and has not, in ascending order.
    pub fn missing_signers(&self) -> impl Iterator<Item = PublicKey> {
        self.required_signers()
            .iter()
            .copied()
            .filter(|signer| self.signatures.binary_search_by_key(signer, |signature| signature.by).is_err())
    }

    /// Checks that everybody required has signed, and that every signature verifies.
    ///
    /// # Errors
    /// The first signature missing or wrong.
    pub fn verify_signatures(&self) -> Result<(), SignaturesError> {
        self.verify_signatures_except(&[])
    }

    /// The same, but `absent` may be missing; if they have signed, their signatures are checked too.
    ///
    /// # Errors
    /// The first signature missing or wrong.
    pub fn verify_signatures_except(&self, absent: &[PublicKey]) -> Result<(), SignaturesError> {
        self.check_missing(absent)?;
        self.signatures.iter().try_for_each(|signature| self.check_one(signature))
    }

    fn check_missing(&self, absent: &[PublicKey]) -> Result<(), SignaturesError> {
        match self.missing_signers().find(|signer| !absent.contains(signer)) {
            Some(by) => Err(SignaturesError::Missing { by, id: self.id() }),
            None => Ok(()),
        }
    }

    fn check_one(&self, signature: &TransactionSignature) -> Result<(), SignaturesError> {
        let (by, id) = (signature.by, self.id());
        signature.verify(id).map_err(|source| SignaturesError::Invalid { by, id, source })
    }

    /// The encoding.
    pub fn encode(&self) -> Vec<u8> {
        crate::encode(self)
    }

    /// Reads the encoding of a whole signed transaction.
    ///
    /// # Errors
    /// [`DecodeError`] when it is too long, malformed, or followed by more bytes, or when a
    /// signature is not required, or the signatures are not in strictly ascending order of keys.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        crate::decode("a signed transaction", bytes, SIGNED_TRANSACTION_BYTES)
    }
}

/// [`SignedTransaction::verify_signatures`] for many transactions at once: all Ed25519 signatures in
/// one equation, which for hundreds of them costs a fraction of checking each. The verifier
/// remembers keys from call to call.
///
/// One outcome for each transaction, in order; they are the same as those of checking each alone.
pub fn verify_signatures_of(
    transactions: &[SignedTransaction],
    verifier: &mut BatchVerifier,
) -> Vec<Result<(), SignaturesError>> {
    let mut outcomes: Vec<_> =
        transactions.iter().map(|transaction| transaction.check_missing(&[])).collect();
    let mut batch = Vec::new();
    let mut origins = Vec::new();
    for (position, (transaction, outcome)) in transactions.iter().zip(&mut outcomes).enumerate() {
        let message = message(transaction.id());
        for signature in transaction.signatures() {
            if outcome.is_err() {
                break;
            }
            match (signature.by, signature.signature) {
                (PublicKey::Ed25519(key), Signature::Ed25519(ed25519)) => {
                    batch.push(Signed { key, message, signature: ed25519 });
                    origins.push((position, signature));
                }
                _ => *outcome = transaction.check_one(signature),
            }
        }
    }
    if let Err(wrong) = verifier.verify(&batch) {
        // A wrong signature is checked again alone, which says what is wrong with it.
        for (position, signature) in wrong.into_iter().filter_map(|at| origins.get(at).copied()) {
            if let (Some(transaction), Some(outcome)) =
                (transactions.get(position), outcomes.get_mut(position))
                && outcome.is_ok()
            {
                *outcome = transaction.check_one(signature);
            }
        }
    }
    outcomes
}

/// Checks that sorted signatures are by required signers, one by each.
fn check(transaction: &Transaction, signatures: &[TransactionSignature]) -> Result<(), SignaturesError> {
    let id = transaction.id();
    let twice = signatures.windows(2).find_map(|pair| match pair {
        [a, b] if a.by == b.by => Some(a.by),
        _ => None,
    });
    if let Some(by) = twice {
        return Err(SignaturesError::Twice { by, id });
    }
    let stranger = signatures
        .iter()
        .find(|signature| transaction.required_signers().binary_search(&signature.by).is_err());
    match stranger {
        Some(signature) => Err(SignaturesError::NotRequired { by: signature.by, id }),
        None => Ok(()),
    }
}

impl BorshSerialize for SignedTransaction {
    fn serialize<W: Write>(&self, writer: &mut W) -> Result<(), Error> {
        self.transaction.serialize(writer)?;
        self.signatures.serialize(writer)
    }
}

impl BorshDeserialize for SignedTransaction {
    fn deserialize_reader<R: Read>(reader: &mut R) -> Result<Self, Error> {
        let transaction = Transaction::deserialize_reader(reader)?;
        let count = usize::try_from(u32::deserialize_reader(reader)?).map_err(invalid)?;
        if count > SIGNATURES {
            return Err(invalid("too many signatures"));
        }
        let signatures = (0..count)
            .map(|_| TransactionSignature::deserialize_reader(reader))
            .collect::<Result<Vec<_>, _>>()?;
        if !signatures.is_sorted_by(|a, b| a.by < b.by) {
            return Err(invalid("the signatures are not in strictly ascending order of keys"));
        }
        check(&transaction, &signatures).map_err(invalid)?;
        Ok(Self { transaction, signatures: signatures.into() })
    }
}

#[cfg(test)]
mod tests;
