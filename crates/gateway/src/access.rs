//! Who may do what: users of institutions, with roles, known by a token or a client certificate.
//!
//! What is kept of a token is its hash: the file opens nothing to whoever reads it.

mod audit;
mod file;
mod gate;
mod quota;
#[cfg(test)]
pub(crate) mod tests;
mod token;

pub use audit::{Act, AuditError, AuditLog, Record};
pub(crate) use file::sync_folder;
pub use file::{AccessError, AccessFile, Fingerprint, InstitutionEntry, UserEntry};
pub use gate::Gate;
pub use quota::Quota;
pub use token::Token;

use serde::{Deserialize, Serialize};
use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tally_crypto::Hash;
use tally_iso20022::Bic;
use tally_ledger::{Network, ParticipantId, Timestamp};

/// What a user may do.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Hand payments in that debit the institution's accounts.
    Submit,
    /// Hand in what the institution itself decides: orders for its accounts, issues and redemptions.
    Approve,
    /// Ask about the institution's accounts and payments.
    Read,
    /// See how the network runs: metrics and totals of every institution.
    Operate,
}

impl Role {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Submit, Self::Approve, Self::Read, Self::Operate];

    /// Its name in files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Submit => "submit",
            Self::Approve => "approve",
            Self::Read => "read",
            Self::Operate => "operate",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

/// Whose accounts a user acts for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Scope {
    /// Every institution's: the operator of the network.
    Network,
    /// One institution's.
    Institution(ParticipantId),
}

/// Somebody who was recognised.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct User {
    /// The name in the access file.
    pub name: String,
    /// Whose accounts.
    pub scope: Scope,
    /// What.
    pub roles: BTreeSet<Role>,
    quota: Quota,
    /// The BIC of the user's institution, where it was agreed how much all its users may send together, and how much.
    shared: Option<(Bic, Quota)>,
    expires: Option<Timestamp>,
}

impl User {
    /// How much the user may send.
    pub fn quota(&self) -> Quota {
        self.quota
    }

    /// How many payments the user may send at once at the most: more is not even let in after a pause.
    pub fn most_at_once(&self) -> u32 {
        self.shared.iter().map(|(_, quota)| quota.burst).fold(self.quota.burst, u32::min)
    }

    /// The institution to which a payment from an account at `payer` belongs that the user hands in: the user's own; or where
    /// the user acts for every institution, that of the payer, as far as it is known.
    pub fn institution(&self, network: &Network, payer: Option<ParticipantId>) -> Option<Bic> {
        let participant = match self.scope {
            Scope::Network => payer?,
            Scope::Institution(own) => own,
        };
        Bic::parse(&network.participants.get(participant.index())?.bic)
    }

    /// Whether the user acts for that institution.
    pub fn acts_for(&self, participant: ParticipantId) -> bool {
        match self.scope {
            Scope::Network => true,
            Scope::Institution(own) => own == participant,
        }
    }

    /// That the user acts for that institution of the network.
    ///
    /// # Errors
    /// [`Denied::Institution`].
    pub fn must_act_for(&self, network: &Network, participant: ParticipantId) -> Result<(), Denied> {
        if self.acts_for(participant) {
            return Ok(());
        }
        let found = network.participants.get(participant.index());
        let institution = found.map_or_else(|| participant.0.to_string(), |found| found.bic.clone());
        Err(Denied::Institution { user: self.name.clone(), institution })
    }
}

/// Why a request is not let in.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Denied {
    /// It says nothing about who sends it.
    #[error("a token is wanted, as `Authorization: Bearer TOKEN`, or a client certificate")]
    Nobody,
    /// Nobody has this token or certificate.
    #[error("nobody has this token or certificate")]
    Unknown,
    /// The user's access has ended.
    #[error("the access of {user} ended at {at}")]
    Expired {
        /// Whose.
        user: String,
        /// When, ISO 8601.
        at: String,
    },
    /// The user has not this role.
    #[error("{user} has not the role {role}")]
    Role {
        /// Who.
        user: String,
        /// Which role is wanted.
        role: Role,
    },
    /// The user acts for another institution.
    #[error("{user} does not act for {institution}")]
    Institution {
        /// Who.
        user: String,
        /// BIC of the institution that was meant.
        institution: String,
    },
    /// The user, or all users of an institution together, send more than was agreed.
    #[error("{user} sends more than was agreed; send it again in {} s", whole_seconds(*wait))]
    Quota {
        /// Who: the user's name, or the institution's BIC.
        user: String,
        /// When there is room again.
        wait: Duration,
    },
}

/// The wait in whole seconds, one at least, and not cut off: who comes again then is let in.
pub(crate) fn whole_seconds(wait: Duration) -> u64 {
    wait.as_secs().saturating_add(u64::from(wait.subsec_nanos() > 0)).max(1)
}

/// Everybody who may come in.
#[derive(Debug, Default)]
pub struct Access {
    by_token: HashMap<Hash, Arc<User>>,
    by_certificate: HashMap<[u8; 32], Arc<User>>,
}

impl Access {
    /// The users of a file.
    ///
    /// # Errors
    /// When one of them names an institution that the network does not have, or has no way to come in.
    pub fn new(file: &AccessFile, network: &Network) -> Result<Self, AccessError> {
        let mut access = Self::default();
        for InstitutionEntry { bic, .. } in &file.institution {
            if network.participant(bic.as_str()).is_none() {
                return Err(AccessError::NoInstitution(*bic));
            }
        }
        for entry in &file.user {
            let mut user = entry.user(network)?;
            let of_its =
                |institution: &&InstitutionEntry| Some(&institution.bic) == entry.institution.as_ref();
            user.shared = file.institution.iter().find(of_its).map(|found| (found.bic, found.quota));
            let user = Arc::new(user);
            if let Some(token) = entry.token {
                access.by_token.insert(token, Arc::clone(&user));
            }
            if let Some(certificate) = &entry.certificate {
                access.by_certificate.insert(certificate.0, user);
            }
        }
        Ok(access)
    }

    /// Who has this token, the text after `Bearer`.
    ///
    /// # Errors
    /// [`Denied::Unknown`] and [`Denied::Expired`].
    pub fn by_token(&self, text: &str, now: Timestamp) -> Result<Arc<User>, Denied> {
        // By the hash of what was sent: how long the look-up takes tells nothing about tokens there are.
        let user = Token::hash(text).and_then(|hash| self.by_token.get(&hash));
        current(user.ok_or(Denied::Unknown)?, now)
    }

    /// Who has the certificate with this SHA-256 fingerprint of its DER form.
    ///
    /// # Errors
    /// [`Denied::Unknown`] and [`Denied::Expired`].
    pub fn by_certificate(&self, fingerprint: &[u8; 32], now: Timestamp) -> Result<Arc<User>, Denied> {
        current(self.by_certificate.get(fingerprint).ok_or(Denied::Unknown)?, now)
    }
}

fn current(user: &Arc<User>, now: Timestamp) -> Result<Arc<User>, Denied> {
    match user.expires {
        Some(expires) if expires <= now => {
            Err(Denied::Expired { user: user.name.clone(), at: crate::codec::time(expires) })
        }
        _ => Ok(Arc::clone(user)),
    }
}
