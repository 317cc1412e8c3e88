//! What of a node and its network runs out, and when somebody has to act.

use crate::certificate::CertificatePath;
use crate::map::{MAX_AGE_MS, NetworkMap};
use crate::moment::{Utc, days};
use crate::node::Identity;
use std::fmt;
use tally_contracts::{Name, Timestamp};

/// A warning begins so long before a certificate expires: 30 days, in milliseconds.
pub const NOTICE_MS: u64 = days(30);

/// What runs out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Expiring {
    /// The certificate of the node's legal identity, or one above it.
    LegalIdentity,
    /// The node's TLS certificate, or one above it.
    Tls,
    /// The certificate of the node's notary service, or one above it.
    NotaryService,
    /// The revocation list of this authority: the next one is due.
    RevocationList(Name),
    /// What the network map service told last: then it is so old that the service takes no part.
    NetworkMap,
}

/// Something that runs out at a time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Expiry {
    /// What runs out.
    pub what: Expiring,
    /// When it does.
    pub at: Timestamp,
}

impl Expiry {
    /// Everything of `identity` and of what `map` knows that runs out.
    pub fn of(identity: &Identity, map: &NetworkMap) -> Vec<Self> {
        let path = |what, path: &CertificatePath| Self { what, at: path.not_after() };
        let mut all =
            vec![path(Expiring::LegalIdentity, identity.path()), path(Expiring::Tls, identity.tls_path())];
        all.extend(identity.notary_path().map(|notary| path(Expiring::NotaryService, notary)));
        all.extend(
            map.trust()
                .revocations()
                .iter()
                .map(|list| Self { what: Expiring::RevocationList(list.issuer().clone()), at: list.next() }),
        );
        all.extend(
            map.snapshot()
                .made()
                .map(|made| Self { what: Expiring::NetworkMap, at: crate::moment::after(made, MAX_AGE_MS) }),
        );
        all
    }

    /// What an operator has to know of it at the time `now`; none as long as there is nothing to do.
    pub fn warning(&self, now: Timestamp) -> Option<String> {
        let notice = match self.what {
            Expiring::LegalIdentity | Expiring::Tls | Expiring::NotaryService => NOTICE_MS,
            // These are renewed in the ordinary course; what is late is a fault.
            Expiring::RevocationList(_) | Expiring::NetworkMap => 0,
        };
        if now.as_millis().saturating_add(notice) <= self.at.as_millis() {
            return None;
        }
        let at = Utc(self.at);
        Some(match &self.what {
            Expiring::RevocationList(issuer) => format!(
                "the next revocation list of {issuer} was due by {at}; without one the node soon opens no new connections"
            ),
            Expiring::NetworkMap => {
                format!(
                    "the network map service gave nothing new since an hour before {at}; it is out of reach, or somebody withholds it"
                )
            }
            what => format!("{what} expires at {at}; have it renewed before"),
        })
    }
}

impl fmt::Display for Expiring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LegalIdentity => f.write_str("the certificate of the legal identity"),
            Self::Tls => f.write_str("the TLS certificate"),
            Self::NotaryService => f.write_str("the certificate of the notary service"),
            Self::RevocationList(issuer) => write!(f, "the revocation list of {issuer}"),
            Self::NetworkMap => f.write_str("the network map"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{DAY, LIFETIME, NOW, World, at, info};

    #[test]
    fn an_operator_is_warned_before_anything_stops() {
        let mut world = World::new();
        let notary = world.notary("Notary");
        let folder = world.folder(&notary);
        folder.put_info(&info(&notary, 1)).expect("written");
        let (map, _) = NetworkMap::from_folder(folder.path(), notary.trust(), NOW).expect("a map");
        let warnings = |now| -> Vec<String> {
            Expiry::of(&notary, &map).iter().filter_map(|expiry| expiry.warning(now)).collect()
        };
        // Certificates of 30 days, lists of one.
        assert_eq!(warnings(NOW), Vec::<String>::new());
        assert!(!warnings(at(DAY)).iter().any(|text| text.contains("revocation list")));
        let late = warnings(at(DAY + 1));
        assert_eq!(late.iter().filter(|text| text.contains("revocation list")).count(), 2, "{late:?}");
        assert_eq!(late.iter().filter(|text| text.contains("expires at")).count(), 3, "{late:?}");
        assert!(late.iter().any(|text| text.contains("the TLS certificate expires at 2027-02-14T08:00:00Z")));
        assert!(warnings(at(2 * LIFETIME)).len() == 5);
        // A fresh list ends the warning.
        world.install(map.trust(), at(DAY + 1));
        let after = warnings(at(DAY + 1));
        assert!(!after.iter().any(|text| text.contains("revocation list")), "{after:?}");
    }
}
