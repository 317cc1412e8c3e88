//! Whether the signatures of a batch were verified in this process.

use tally_crypto::{BatchVerifier, Signed};

/// Says that the signatures of a batch of transactions were verified by this process or by an earlier
/// one of the same operator. Only [`SignatureCheck`] and the recovery of the operator's own journal
/// make one, and none crosses a log: what comes from another process is verified again by the
/// institution that answers for it (design, trust, rule 1).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SignaturesVerified(());

impl SignaturesVerified {
    /// For what the operator's own journal says was accepted: its scheduler verified it before.
    pub(crate) fn by_own_journal() -> Self {
        Self(())
    }
}

/// Verifies the signatures of whole batches; remembers decoded keys.
pub struct SignatureCheck(BatchVerifier);

/// Payers' keys that a verifier remembers in decoded form: about 16 MiB.
const KNOWN_KEYS: usize = 1 << 16;

impl Default for SignatureCheck {
    fn default() -> Self {
        Self(BatchVerifier::new(KNOWN_KEYS))
    }
}

impl SignatureCheck {
    /// Verifies all of them; the positions of those that do not verify, ascending.
    pub fn verify(&mut self, signed: &[Signed]) -> (SignaturesVerified, Vec<usize>) {
        (SignaturesVerified(()), self.0.verify(signed).err().unwrap_or_default())
    }
}
