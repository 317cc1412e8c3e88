//! Contents: what a transaction's id commits to, each leg shown or hidden behind its hash.

use crate::text;
use serde::{Deserialize, Serialize};
use tally_crypto::Hash;
use tally_ledger::transaction::{MAX_LEGS, Salt, leg_hash, leg_salt, transaction_id};
use tally_ledger::{
    AccountNumber, Amount, AssetId, Header, IdKey, Leg, NetworkId, ParticipantId, Timestamp, Transaction,
    TransactionId, Uetr,
};

/// What the id commits to: enough to compute it, and no more than the asker may see.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Contents {
    /// The number of its [kind](tally_ledger::Kind).
    pub kind: u8,
    /// Who has legs in it, or whose order it is, ascending: all of them must approve, and no others
    /// count.
    pub participants: Vec<ParticipantId>,
    /// The network it is for.
    pub network: NetworkId,
    /// When it is refused if not decided, in milliseconds since the Unix epoch.
    pub expiry: Timestamp,
    /// End-to-end reference.
    #[serde(with = "text::uetr")]
    pub uetr: Uetr,
    /// Hash of what is kept off the ledger (the payment message), or of the account order; zeros for none.
    pub details: Hash,
    /// The changes, in order.
    pub legs: Vec<ProvenLeg>,
}

/// One leg of a transaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum ProvenLeg {
    /// Not for the asker: its hash, which tells nothing of it.
    Hidden(Hash),
    /// With the salt that shows that it belongs to the id.
    Shown {
        /// Whose partition.
        participant: ParticipantId,
        /// Which asset.
        asset: AssetId,
        /// Which account.
        account: AccountNumber,
        /// What it gets, in minor units; negative for a debit.
        amount: Amount,
        /// 16 bytes in hexadecimal.
        #[serde(with = "text::salt")]
        salt: Salt,
    },
}

impl ProvenLeg {
    /// The leg, if it is shown.
    pub fn leg(&self) -> Option<Leg> {
        match *self {
            Self::Hidden(_) => None,
            Self::Shown { participant, asset, account, amount, .. } => {
                Some(Leg { participant, asset, account, amount })
            }
        }
    }

    /// Its hash, where it stands at `position`.
    pub fn hash(&self, position: u8) -> Hash {
        match *self {
            Self::Hidden(hash) => hash,
            Self::Shown { participant, asset, account, amount, salt } => {
                leg_hash(&salt, &Leg { participant, asset, account, amount }, position)
            }
        }
    }
}

impl Contents {
    /// The contents of a transaction of `network`, with the legs for which `shows` says so.
    ///
    /// Legs beyond the 255th are left out: the form of a transaction cannot hold them.
    pub fn of(network: NetworkId, transaction: &Transaction, shows: impl Fn(&Leg) -> bool) -> Self {
        let header = &transaction.header;
        let legs = (0..u8::MAX).zip(&transaction.legs).map(|(position, leg)| {
            let salt = leg_salt(&transaction.seed, position);
            if shows(leg) {
                let Leg { participant, asset, account, amount } = *leg;
                ProvenLeg::Shown { participant, asset, account, amount, salt }
            } else {
                ProvenLeg::Hidden(leg_hash(&salt, leg, position))
            }
        });
        Self {
            kind: header.kind,
            participants: transaction.participants(),
            network,
            expiry: header.expiry,
            uetr: header.uetr,
            details: header.details,
            legs: legs.collect(),
        }
    }

    /// The same with every leg hidden for which `keeps` does not say so: for handing on a proof with less in it.
    #[must_use]
    pub fn hiding(&self, keeps: impl Fn(&Leg) -> bool) -> Self {
        let hide = |(position, leg): (u8, &ProvenLeg)| match leg.leg() {
            Some(shown) if !keeps(&shown) => ProvenLeg::Hidden(leg.hash(position)),
            _ => *leg,
        };
        Self { legs: (0..=u8::MAX).zip(&self.legs).map(hide).collect(), ..self.clone() }
    }

    /// The id, computed from the contents; none where there are more legs or participants than a
    /// transaction's form can hold.
    pub fn id(&self) -> Option<TransactionId> {
        if self.participants.len() > MAX_LEGS {
            return None;
        }
        let header = Header {
            kind: self.kind,
            legs: u8::try_from(self.legs.len()).ok()?,
            participants: u8::try_from(self.participants.len()).ok()?,
            // The id has neither the count of signers nor the tag.
            signers: 0,
            network: self.network.tag(),
            expiry: self.expiry,
            uetr: self.uetr,
            details: self.details,
        };
        let hashes: Vec<Hash> =
            (0..=u8::MAX).zip(&self.legs).map(|(position, leg)| leg.hash(position)).collect();
        Some(transaction_id(&IdKey::new(&self.network), &header, &self.participants, &hashes))
    }

    /// The legs that are shown.
    pub fn shown(&self) -> impl Iterator<Item = Leg> + '_ {
        self.legs.iter().filter_map(ProvenLeg::leg)
    }
}
