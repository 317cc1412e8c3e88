//! Tells whoever watches the node what of its certificates and its network's lists runs out.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use tally_contracts::Timestamp;
use tally_identity::{Expiring, Expiry, Identity, NetworkMap};
use tally_ops::metrics::{MetricError, Registry};

use crate::desk::lock;

/// A warning that stands is logged again after so long, in milliseconds.
const REMIND_MS: u64 = 60 * 60 * 1000;

/// What runs out, in metrics, in the log and beside `/ready`.
pub(crate) struct Expiries {
    identity: Identity,
    map: Arc<NetworkMap>,
    registry: Registry,
    /// What is warned of now, and when it was logged.
    warnings: Mutex<BTreeMap<String, Timestamp>>,
}

impl Expiries {
    pub(crate) fn new(identity: Identity, map: Arc<NetworkMap>, registry: Registry) -> Self {
        Self { identity, map, registry, warnings: Mutex::default() }
    }

    /// Looks at everything that runs out.
    ///
    /// # Errors
    /// [`MetricError`] when a meter of that name is of another kind.
    pub(crate) fn look(&self, now: Timestamp) -> Result<(), MetricError> {
        let mut standing = BTreeMap::new();
        let mut before = lock(&self.warnings);
        for expiry in Expiry::of(&self.identity, &self.map) {
            let (what, of) = label(&expiry.what);
            let name = "tally_node_expiry_timestamp_seconds";
            let help = "When a certificate, a revocation list or what is known of the network runs out, in seconds since the Unix epoch.";
            let gauge = self.registry.gauge(name, help, &[("what", what), ("of", &of)])?;
            gauge.set(i64::try_from(expiry.at.as_millis() / 1000).unwrap_or(i64::MAX));
            let Some(warning) = expiry.warning(now) else { continue };
            let logged = before.get(&warning).copied();
            let due =
                logged.is_none_or(|logged| now.as_millis().saturating_sub(logged.as_millis()) >= REMIND_MS);
            if due {
                tracing::warn!("{warning}");
            }
            standing.insert(warning, if due { now } else { logged.unwrap_or(now) });
        }
        *before = standing;
        Ok(())
    }

    /// What is warned of now, a line each.
    pub(crate) fn lines(&self) -> String {
        lock(&self.warnings).keys().map(|warning| format!("warning: {warning}\n")).collect()
    }
}

fn label(what: &Expiring) -> (&'static str, String) {
    match what {
        Expiring::LegalIdentity => ("identity", String::new()),
        Expiring::Tls => ("tls", String::new()),
        Expiring::NotaryService => ("notary", String::new()),
        Expiring::RevocationList(issuer) => ("revocation-list", issuer.to_string()),
        Expiring::NetworkMap => ("network-map", String::new()),
    }
}
