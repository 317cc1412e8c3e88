//! The node goes on by itself with what is final and has not arrived, and with what it does not know to be final.
//!
//! One flow at a time for each party, and for each transaction of unknown fate: a party that does not answer holds up
//! nothing but its own. When each is due again is in the store, so that it survives a restart.

use std::collections::HashMap;
use std::sync::Mutex;

use tally_contracts::{Name, TransactionId};
use tally_flows::{Flow, FlowId};
use tally_protocols::deliver::{DELIVERED, Deliver, DeliverArguments, Resolve, ResolveArguments};
use tally_store::{SavedFlow, Undelivered, UndeliveredQuery};

use crate::core::{Core, OpenError, Unavailable};
use crate::desk::lock;

/// Parties that are delivered to at once, and transactions that are asked about at once.
const AT_ONCE: usize = 256;

/// Which flows the node has started by itself.
#[derive(Default)]
pub(crate) struct Courier {
    under_way: Mutex<UnderWay>,
}

#[derive(Default)]
struct UnderWay {
    delivering: HashMap<Name, FlowId>,
    resolving: HashMap<TransactionId, FlowId>,
}

/// Why what is due was not started.
#[derive(Debug, thiserror::Error)]
pub enum CourierError {
    /// The store cannot be read.
    #[error(transparent)]
    Store(#[from] tally_store::StoreError),
    /// The node takes no new work.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

/// What is sorted after all transactions of a party.
const LAST: TransactionId = TransactionId::from_bytes([0xff; 32]);

impl Courier {
    /// A flow that was under way when the node ended is under way again.
    ///
    /// # Errors
    /// Arguments that this program did not write.
    pub(crate) fn restore(&self, saved: &SavedFlow) -> Result<(), OpenError> {
        let (name, arguments) = (saved.flow.name.as_str(), &saved.flow.arguments);
        let flow = FlowId(saved.flow.flow);
        let damaged =
            |error: std::io::Error| OpenError::Row { flow, reason: format!("its arguments: {error}") };
        let mut under_way = lock(&self.under_way);
        if name == Deliver::NAME {
            let DeliverArguments { party, .. } = borsh::from_slice(arguments).map_err(damaged)?;
            under_way.delivering.insert(party, flow);
        } else if name == Resolve::NAME {
            let ResolveArguments { transaction, .. } = borsh::from_slice(arguments).map_err(damaged)?;
            if let Ok(transaction) = tally_contracts::SignedTransaction::decode(&transaction) {
                under_way.resolving.insert(transaction.id(), flow);
            }
        }
        Ok(())
    }
}

impl Core {
    /// Starts what is due: asks notaries again about transactions of unknown fate, and delivers what is final and was not
    /// confirmed. Gives how many flows it started. To be called every second or so.
    ///
    /// # Errors
    /// See [`CourierError`]; what is due stays due.
    pub fn deliver_due(&self) -> Result<usize, CourierError> {
        // Before anything is started, which a node that drains refuses. And not when metrics are asked for: that is on a
        // thread that must not wait for the database.
        let outstanding = self.store().outstanding()?;
        let gauge = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
        self.meters().undelivered.set(gauge(outstanding.undelivered));
        self.meters().unresolved.set(gauge(outstanding.unresolved));
        let mut under_way = lock(&self.courier().under_way);
        let UnderWay { delivering, resolving } = &mut *under_way;
        delivering.retain(|_, flow| self.engine().holds(*flow));
        resolving.retain(|_, flow| self.engine().holds(*flow));
        let now = Some(self.now());
        let mut started = 0;
        for row in self.store().unresolved(None, now, AT_ONCE)? {
            let unresolved = row.unresolved;
            if resolving.contains_key(&unresolved.transaction) || resolving.len() >= AT_ONCE {
                continue;
            }
            let Ok(told) = borsh::from_slice(&unresolved.told) else {
                tracing::error!(transaction = %unresolved.transaction, "who has to have it does not decode");
                continue;
            };
            let arguments = ResolveArguments { transaction: unresolved.bytes, told };
            let arguments = borsh::to_vec(&arguments).expect("arguments are written to memory");
            resolving.insert(unresolved.transaction, self.start_own(Resolve::NAME, arguments)?);
            started += 1;
        }
        let mut after = None;
        loop {
            let query =
                UndeliveredQuery { after, due_by: now, limit: DELIVERED, ..UndeliveredQuery::default() };
            let rows = self.store().undelivered(&query)?;
            let Some(Undelivered { party, .. }) = rows.first() else { break };
            let party = party.clone();
            // Who was revoked or has left is shown, and not tried.
            let is_member = self.parts().network.party(&party).is_some();
            if is_member && !delivering.contains_key(&party) && delivering.len() < AT_ONCE {
                let transactions =
                    rows.iter().filter(|row| row.party == party).map(|row| row.transaction).collect();
                let arguments = DeliverArguments { party: party.clone(), transactions };
                let arguments = borsh::to_vec(&arguments).expect("arguments are written to memory");
                delivering.insert(party.clone(), self.start_own(Deliver::NAME, arguments)?);
                started += 1;
            }
            after = Some((party, LAST));
        }
        Ok(started)
    }
}
