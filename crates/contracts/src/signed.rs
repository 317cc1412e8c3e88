//! Transactions with their signatures.

use crate::encoding::invalid;
use crate::limits::{COMPOSITE_MEMBERS, SIGNATURES, SIGNED_TRANSACTION_BYTES};
use crate::{CompositeKey, DecodeError, PublicKey, Signature, SigningKey, Transaction, TransactionId};
use borsh::io::{Error, Read, Write};
use borsh::{BorshDeserialize, BorshSerialize};
use std::fmt;
use std::sync::Arc;
use tally_crypto::scheme::{VerifyError, verify};
use tally_crypto::{BatchVerifier, Hash, Signed, keyed};

/// In which role somebody signs a transaction. The role is part of what is signed, so that a
/// signature that was given in one role counts in no other.
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
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Has seen all of the transaction and agrees to it. Only this consents to consuming a state.
    Party,
    /// Has seen, in a tear-off, the commands that name it, and vouches for what they say.
    Oracle,
    /// Attests that what the transaction consumes was not consumed before, and its time.
    Notary,
}

impl Role {
    /// Makes what is signed out of the id, so that a signature over a transaction is never one over
    /// anything else, and never one in another role. The id covers the network.
    const fn domain(self) -> &'static [u8; 32] {
        match self {
            Self::Party => b"tallystick flows party v2       ",
            Self::Oracle => b"tallystick flows oracle v2      ",
            Self::Notary => b"tallystick flows notary v2      ",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Party => "party",
            Self::Oracle => "oracle",
            Self::Notary => "notary",
        })
    }
}

/// What signers of a transaction sign: 32 bytes, as batch verification wants them.
fn message(role: Role, id: TransactionId) -> Hash {
    keyed(role.domain(), id.as_bytes())
}

/// Signs the transaction called `id` in a role.
pub fn sign(key: &SigningKey, role: Role, id: TransactionId) -> TransactionSignature {
    let signature = key.sign(message(role, id).as_bytes());
    TransactionSignature { by: key.public_key(), role, signature }
}

/// A signature over a transaction does not count.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SignatureError {
    /// It was given in another role.
    #[error("it was given as {found}, not as {expected}")]
    Role {
        /// The role wanted.
        expected: Role,
        /// The role in which it was given.
        found: Role,
    },
    /// It does not verify.
    #[error(transparent)]
    Verify(#[from] VerifyError),
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
    /// In which role.
    pub role: Role,
    /// The signature.
    pub signature: Signature,
}

impl TransactionSignature {
    /// Checks that the signature was given in this role, and that it verifies over the transaction
    /// called `id`.
    ///
    /// # Errors
    /// [`SignatureError`] says what is wrong with it.
    pub fn verify(&self, expected: Role, id: TransactionId) -> Result<(), SignatureError> {
        if self.role != expected {
            return Err(SignatureError::Role { expected, found: self.role });
        }
        self.verify_given(id).map_err(SignatureError::Verify)
    }

    /// Checks the signature in whatever role it was given.
    fn verify_given(&self, id: TransactionId) -> Result<(), VerifyError> {
        verify(&self.by, message(self.role, id).as_bytes(), &self.signature)
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
    /// The notary has not attested it yet.
    #[error("transaction {id} lacks its notary's signature")]
    NotAttested {
        /// The transaction.
        id: TransactionId,
    },
    /// Somebody signed whose signature in that role is not required; it would mean nothing.
    #[error("{by} signed transaction {id} as {role}, which does not ask for that signature")]
    NotRequired {
        /// Who signed.
        by: PublicKey,
        /// In which role.
        role: Role,
        /// The transaction.
        id: TransactionId,
    },
    /// The notary's key is composite, and what it commits to is not shown or is that of another key.
    #[error("the composite key of the notary of transaction {id} is not revealed")]
    NotRevealed {
        /// The transaction.
        id: TransactionId,
    },
    /// Two signatures of one key, other than as signer and as notary.
    #[error("transaction {id} has two signatures of {by}")]
    Twice {
        /// Who signed.
        by: PublicKey,
        /// The transaction.
        id: TransactionId,
    },
}

/// A transaction and signatures over it: at most one by each required signer, as [`Role::Party`] or
/// [`Role::Oracle`], and at most one by its notary as [`Role::Notary`]. A notary whose key is
/// composite attests with the signatures of its members in that role, beside which the key is
/// revealed ([`CompositeKey`]).
/// Whether they verify is for [`SignedTransaction::verify_signatures`] to say. Cheap to clone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignedTransaction {
    transaction: Transaction,
    /// In strictly ascending order of keys, a notary's own after what it signed as a party.
    signatures: Arc<[TransactionSignature]>,
    /// What the notary's key commits to; there if that is composite and a member has attested.
    composite: Option<Arc<CompositeKey>>,
}

impl SignedTransaction {
    /// The transaction with these signatures, in any order.
    ///
    /// # Errors
    /// [`SignaturesError::NotRequired`] or [`SignaturesError::Twice`];
    /// [`SignaturesError::NotRevealed`] for signatures of members of a composite key.
    pub fn new(
        transaction: Transaction,
        signatures: impl IntoIterator<Item = TransactionSignature>,
    ) -> Result<Self, SignaturesError> {
        Self::assemble(transaction, signatures.into_iter().collect(), None)
    }

    /// The same with one more signature; no change if it is there already.
    ///
    /// # Errors
    /// As [`SignedTransaction::new`].
    pub fn with(&self, signature: TransactionSignature) -> Result<Self, SignaturesError> {
        let signatures = self.signatures.iter().copied().chain([signature]).collect();
        Self::assemble(self.transaction.clone(), signatures, self.composite.clone())
    }

    /// The same with signatures of members of the notary's composite key, revealed.
    ///
    /// # Errors
    /// As [`SignedTransaction::new`]; [`SignaturesError::NotRevealed`] when the notary's key is not
    /// that composite key.
    pub fn attested(
        &self,
        composite: &CompositeKey,
        signatures: impl IntoIterator<Item = TransactionSignature>,
    ) -> Result<Self, SignaturesError> {
        let signatures = self.signatures.iter().copied().chain(signatures).collect();
        Self::assemble(self.transaction.clone(), signatures, Some(Arc::new(composite.clone())))
    }

    fn assemble(
        transaction: Transaction,
        mut signatures: Vec<TransactionSignature>,
        composite: Option<Arc<CompositeKey>>,
    ) -> Result<Self, SignaturesError> {
        signatures.sort_unstable();
        signatures.dedup();
        // A reveal without a signature that it is for would be a second form of the same.
        let composite = composite.filter(|_| has_attestation(&signatures));
        check(&transaction, &signatures, composite.as_deref())?;
        Ok(Self { transaction, signatures: signatures.into(), composite })
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

    /// Who has to sign and has not, in ascending order; the notary aside.
    pub fn missing_signers(&self) -> impl Iterator<Item = PublicKey> {
        let signed = |signer: &PublicKey| {
            let mut given = self.signatures.iter();
            given.any(|signature| signature.by == *signer && signature.role != Role::Notary)
        };
        self.required_signers().iter().copied().filter(move |signer| !signed(signer))
    }

    /// Whether `key` has signed as somebody who saw all of the transaction.
    pub fn is_agreed_by(&self, key: &PublicKey) -> bool {
        self.signatures.iter().any(|signature| signature.by == *key && signature.role == Role::Party)
    }

    /// The notary's signature; of a composite one those of its members, as far as they are there.
    pub fn attestations(&self) -> impl Iterator<Item = &TransactionSignature> {
        self.signatures.iter().filter(|signature| signature.role == Role::Notary)
    }

    /// What the notary's key commits to, if that is composite and a member has attested.
    pub fn composite(&self) -> Option<&CompositeKey> {
        self.composite.as_deref()
    }

    /// Whether the notary has signed, of a composite one as many members as have to. Not whether
    /// the signatures verify.
    pub fn is_attested(&self) -> bool {
        let wanted = match &self.composite {
            Some(composite) => composite.threshold(),
            // Signatures of members are never there without the reveal.
            None => 1,
        };
        self.attestations().count() >= wanted
    }

    /// Checks that everybody required has signed, the notary too, and that every signature verifies.
    ///
    /// # Errors
    /// The first signature missing or wrong.
    pub fn verify_signatures(&self) -> Result<(), SignaturesError> {
        self.check_complete()?;
        self.verify_given()
    }

    /// Checks the signatures that are there.
    ///
    /// # Errors
    /// The first that does not verify.
    pub fn verify_given(&self) -> Result<(), SignaturesError> {
        self.signatures.iter().try_for_each(|signature| self.check_one(signature))
    }

    /// Checks that everybody required has signed, the notary too; not whether the signatures verify.
    ///
    /// # Errors
    /// [`SignaturesError::Missing`] or [`SignaturesError::NotAttested`].
    pub fn check_complete(&self) -> Result<(), SignaturesError> {
        if let Some(by) = self.missing_signers().next() {
            return Err(SignaturesError::Missing { by, id: self.id() });
        }
        if self.transaction.needs_notary() && !self.is_attested() {
            return Err(SignaturesError::NotAttested { id: self.id() });
        }
        Ok(())
    }

    fn check_one(&self, signature: &TransactionSignature) -> Result<(), SignaturesError> {
        let (by, id) = (signature.by, self.id());
        signature.verify_given(id).map_err(|source| SignaturesError::Invalid { by, id, source })
    }

    /// The encoding.
    pub fn encode(&self) -> Vec<u8> {
        crate::encode(self)
    }

    /// Reads the encoding of a whole signed transaction.
    ///
    /// # Errors
    /// [`DecodeError`] when it is too long, malformed, or followed by more bytes, or when a
    /// signature is not required, or the signatures are not in strictly ascending order of keys
    /// and roles, or the reveal of a composite key is missing or that of another.
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
    let mut outcomes: Vec<_> = transactions.iter().map(SignedTransaction::check_complete).collect();
    let mut batch = Vec::new();
    let mut origins = Vec::new();
    for (position, (transaction, outcome)) in transactions.iter().zip(&mut outcomes).enumerate() {
        for signature in transaction.signatures() {
            if outcome.is_err() {
                break;
            }
            let message = message(signature.role, transaction.id());
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

fn has_attestation(signatures: &[TransactionSignature]) -> bool {
    signatures.iter().any(|signature| signature.role == Role::Notary)
}

/// Checks that sorted signatures are by required signers, one by each, and that a composite key of
/// the notary is revealed where its members signed and nowhere else.
fn check(
    transaction: &Transaction,
    signatures: &[TransactionSignature],
    composite: Option<&CompositeKey>,
) -> Result<(), SignaturesError> {
    let id = transaction.id();
    let notary = transaction.notary().key;
    let is_revealed = match composite {
        Some(composite) => composite.key() == notary,
        None => !notary.is_composite() || !has_attestation(signatures),
    };
    if !is_revealed {
        return Err(SignaturesError::NotRevealed { id });
    }
    let twice = signatures.windows(2).find_map(|pair| match pair {
        [a, b] if a.by == b.by && (a.role == b.role || b.role != Role::Notary) => Some(a.by),
        _ => None,
    });
    if let Some(by) = twice {
        return Err(SignaturesError::Twice { by, id });
    }
    let is_required = |signature: &&TransactionSignature| match signature.role {
        Role::Notary => {
            let is_notary = composite.map_or(signature.by == notary, |members| members.has(&signature.by));
            transaction.needs_notary() && is_notary
        }
        Role::Party | Role::Oracle => transaction.required_signers().binary_search(&signature.by).is_ok(),
    };
    match signatures.iter().find(|signature| !is_required(signature)) {
        Some(TransactionSignature { by, role, .. }) => {
            Err(SignaturesError::NotRequired { by: *by, role: *role, id })
        }
        None => Ok(()),
    }
}

impl BorshSerialize for SignedTransaction {
    fn serialize<W: Write>(&self, writer: &mut W) -> Result<(), Error> {
        self.transaction.serialize(writer)?;
        self.signatures.serialize(writer)?;
        self.composite.as_deref().map_or(Ok(()), |composite| composite.serialize(writer))
    }
}

impl BorshDeserialize for SignedTransaction {
    fn deserialize_reader<R: Read>(reader: &mut R) -> Result<Self, Error> {
        let transaction = Transaction::deserialize_reader(reader)?;
        let count = usize::try_from(u32::deserialize_reader(reader)?).map_err(invalid)?;
        // The notary's come on top.
        if count > SIGNATURES.saturating_add(COMPOSITE_MEMBERS) {
            return Err(invalid("too many signatures"));
        }
        let signatures = (0..count)
            .map(|_| TransactionSignature::deserialize_reader(reader))
            .collect::<Result<Vec<_>, _>>()?;
        if !signatures.is_sorted_by(|a, b| (a.by, a.role) < (b.by, b.role)) {
            return Err(invalid("the signatures are not in strictly ascending order of keys"));
        }
        let is_composite = transaction.notary().key.is_composite() && has_attestation(&signatures);
        let composite =
            is_composite.then(|| CompositeKey::deserialize_reader(reader).map(Arc::new)).transpose()?;
        check(&transaction, &signatures, composite.as_deref()).map_err(invalid)?;
        Ok(Self { transaction, signatures: signatures.into(), composite })
    }
}

#[cfg(test)]
mod tests;
