//! Keys: whose signatures count in a network. The only thing that a verifier has to trust.

use serde::{Deserialize, Serialize};
use tally_crypto::PublicKey;
use tally_ledger::{Network, NetworkId, ParticipantId};

/// The largest file of keys that should be read, in bytes: ten thousand institutions fit.
pub const MAX_KEYS_BYTES: u64 = 4 << 20;

/// The public keys of a network.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Keys {
    /// Which network.
    pub network: NetworkId,
    /// The key that signs the heads of the log: the sequencer's.
    pub operator: PublicKey,
    /// How many institutions have to cosign a head of the log before what it has counts, at most as many as there are
    /// besides the operator; 0, also where a file does not say it, asks for none.
    #[serde(default, skip_serializing_if = "none")]
    pub witnesses: u8,
    /// Who signs approvals, and cosigns heads as a witness.
    pub institutions: Vec<Institution>,
}

/// An institution and its key.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Institution {
    /// Its position in the network's configuration.
    pub participant: ParticipantId,
    /// BIC (ISO 9362).
    pub bic: String,
    /// The key with which it signs approvals and, in a form of its own, cosigns heads.
    pub key: PublicKey,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes it so")]
fn none(witnesses: &u8) -> bool {
    *witnesses == 0
}

impl Keys {
    /// The keys in a network's configuration; none where it has no participants. The first participant is the
    /// operator. They ask for no witnesses: who wants some sets [`Self::witnesses`].
    pub fn of(network: &Network) -> Option<Self> {
        let operator = network.participants.first()?.key;
        let institutions = (0u16..).map(ParticipantId).zip(&network.participants);
        let institutions = institutions
            .map(|(participant, of)| Institution { participant, bic: of.bic.clone(), key: of.key })
            .collect();
        Some(Self { network: network.id, operator, witnesses: 0, institutions })
    }

    /// The institution at that position of the network's configuration.
    pub fn institution(&self, participant: ParticipantId) -> Option<&Institution> {
        self.institutions.iter().find(|institution| institution.participant == participant)
    }

    /// The BIC of a participant, or its number where the keys do not name it.
    pub fn name(&self, participant: ParticipantId) -> String {
        let number = || format!("participant {}", participant.0);
        self.institution(participant).map_or_else(number, |institution| institution.bic.clone())
    }
}
