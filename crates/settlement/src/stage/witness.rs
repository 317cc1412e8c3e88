//! The witness: an institution follows the operator's log record by record and cosigns its heads.
//!
//! The operator could show two institutions two histories. A witness computes the Merkle log from the
//! records that it applies, checks the operator's signature on each head, and cosigns it in the form of
//! C2SP's tlog-cosignature. Who asks for the cosignatures of `k` witnesses sees the history that these
//! `k` applied.

use crate::message::{CosignedHead, SequenceBatch};
use tally_crypto::log::{Checkpoint, Cosigned, Frontier, TreeHead, Witness, WitnessError};
use tally_crypto::{PublicKey, SigningKey};
use tally_ledger::{NetworkId, Timestamp};

/// Follows the operator's log; cosigns its heads where it has a key.
pub struct LogWitness {
    network: NetworkId,
    /// The operator's key; none where somebody else in this institution checks the signatures.
    operator: Option<PublicKey>,
    tree: Frontier,
    clock: Timestamp,
    signing: Option<(SigningKey, Witness)>,
    cosigned: Vec<CosignedHead>,
}

/// The operator's log is not what it should be. The institution must not follow it any further.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum LogFault {
    /// The head does not follow from the records.
    #[error(
        "record {size} of the sequence states a head that does not follow from the records before it: the operator shows \
         two histories; keep the record, its signed head is evidence"
    )]
    WrongTree {
        /// The size that the record states, in records.
        size: u64,
    },
    /// The head is not signed by the operator.
    #[error("record {size} of the sequence has a head that the operator did not sign")]
    WrongSignature {
        /// The size that the record states, in records.
        size: u64,
    },
    /// Time goes back in the log.
    #[error("record {size} of the sequence is of {time} ms, before the record ahead of it, of {before} ms")]
    TimeWentBack {
        /// The size that the record states, in records.
        size: u64,
        /// Its time.
        time: u64,
        /// That of the record before it.
        before: u64,
    },
    /// It contradicts what this witness cosigned before.
    #[error(
        "record {size} of the sequence contradicts what this institution cosigned before it was started again"
    )]
    Contradiction {
        /// The size that the record states, in records.
        size: u64,
        /// How.
        #[source]
        source: WitnessError,
    },
}

impl LogWitness {
    /// Follows the log of `network` from `tree` on, and checks the signatures of `operator`, if there is one.
    pub fn new(network: NetworkId, operator: Option<PublicKey>, tree: Frontier) -> Self {
        Self { network, operator, tree, clock: Timestamp(0), signing: None, cosigned: Vec::new() }
    }

    /// Cosigns with `key` from now on, after what it cosigned `last`, by this process or an earlier one.
    #[must_use]
    pub fn signing(self, key: SigningKey, last: Option<Cosigned>) -> Self {
        Self { signing: Some((key, Witness::new(last))), ..self }
    }

    /// The Merkle log as far as it was followed.
    pub fn tree(&self) -> &Frontier {
        &self.tree
    }

    /// Takes the next record of the sequence; one that was taken before changes nothing.
    ///
    /// # Errors
    /// When the record does not follow from those before it.
    pub fn follow(&mut self, now: Timestamp, batch: &SequenceBatch) -> Result<(), LogFault> {
        let size = batch.tree_size;
        if size <= self.tree.len() {
            return Ok(());
        }
        let mut tree = self.tree.clone();
        tree.append(&batch.leaf_data());
        if tree.len() != size || tree.root() != batch.tree_root {
            return Err(LogFault::WrongTree { size });
        }
        if let Some(operator) = &self.operator
            && batch.tree_head().verify(&self.network.0, operator).is_err()
        {
            return Err(LogFault::WrongSignature { size });
        }
        if batch.timestamp < self.clock {
            let (time, before) = (batch.timestamp.0, self.clock.0);
            return Err(LogFault::TimeWentBack { size, time, before });
        }
        if let Some((key, witness)) = &mut self.signing {
            let head = batch.tree_head();
            let TreeHead { root, timestamp_ms, .. } = head.head;
            let checkpoint = Checkpoint::of(&head.head, &self.network.0);
            match witness.cosign(&checkpoint, now.0 / 1000, key) {
                Ok(cosignature) => self.cosigned.push(CosignedHead {
                    size,
                    timestamp_ms,
                    time_s: cosignature.time_s,
                    root,
                    operator: head.signature,
                    cosignature: cosignature.signature,
                }),
                // It was cosigned before this process began.
                Err(WitnessError::Smaller { .. }) => {}
                Err(source) => return Err(LogFault::Contradiction { size, source }),
            }
        }
        (self.tree, self.clock) = (tree, batch.timestamp);
        Ok(())
    }

    /// What was cosigned since this was last called, in order.
    pub fn take_cosigned(&mut self) -> Vec<CosignedHead> {
        std::mem::take(&mut self.cosigned)
    }
}
