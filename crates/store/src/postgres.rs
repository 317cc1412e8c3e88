//! A store in a schema of a PostgreSQL server.
//!
//! A batch is a few statements, one or two for each table that it changes, sent together with
//! `BEGIN` and `COMMIT` without waiting for answers between: one round trip. What may not be is
//! refused by the statements themselves (see the function `refuse` in the first schema step).
//! `synchronous_commit = on`: the batch is on the server's disk when `apply` returns.

mod apply;
mod backup;
mod error;
mod link;
mod schema;
mod tls;

pub(crate) use backup::{back_up, restore};

use crate::batch::Batch;
use crate::delivery;
use crate::meter::Meter;
use crate::migration::Step;
use crate::pool::Pool;
use crate::query::StateQuery;
use crate::reads;
use crate::session::Session;
use crate::write::{Consent, FlowKey, Write};
use crate::{
    Coin, CoinCursor, Consumption, FlowPage, FlowQuery, FlowRow, Outstanding, Past, PostgresOptions, Queues,
    Result, SavedFlow, StatePage, Store, StoreError, Undelivered, UndeliveredQuery, UnresolvedRow, Usage,
    VaultState,
};
use apply::Writer;
use link::{Link, Place};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;
use tally_contracts::{AttachmentId, Name, PublicKey, StateRef, Timestamp, TransactionId};

/// The schema's history.
pub(crate) const STEPS: &[Step] = &[
    Step { schema: 1, sql: include_str!("../migrations/postgres/0001_base.sql") },
    Step { schema: 2, sql: include_str!("../migrations/postgres/0002_find_more.sql") },
    Step { schema: 3, sql: include_str!("../migrations/postgres/0003_operation.sql") },
    Step { schema: 4, sql: include_str!("../migrations/postgres/0004_set_aside.sql") },
    Step { schema: 5, sql: include_str!("../migrations/postgres/0005_delivery.sql") },
    Step { schema: 6, sql: include_str!("../migrations/postgres/0006_past.sql") },
];

/// A store in a schema of a PostgreSQL server, version 13 or later.
pub struct Postgres {
    options: PostgresOptions,
    place: Place,
    /// What this process calls itself in the database.
    instance: Vec<u8>,
    /// `None` when the connection was lost: the next batch connects anew.
    writer: Mutex<Option<Writer>>,
    readers: Pool<Link>,
    meter: Meter,
}

impl Postgres {
    /// Connects, takes the schema for this process, brings it to the latest version, and opens all
    /// connections that it will use.
    ///
    /// # Errors
    /// [`StoreError::Connections`] when the server has too few, [`StoreError::InUse`] when another
    /// process has the schema, [`StoreError::Configuration`], [`StoreError::Foreign`],
    /// [`StoreError::Newer`] and others.
    pub fn open(options: &PostgresOptions) -> Result<Self> {
        let place = Place::new(options)?;
        let mut link = place.connect()?;
        if !schema::take(&mut link, &place)? {
            return Err(StoreError::InUse { what: format!("the schema {}", options.schema) });
        }
        // Now that sessions of a process before this one are gone.
        schema::check_connections(&mut link, options.needs())?;
        schema::migrate(&mut link, &place, STEPS)?;
        let instance = schema::own(&mut link)?;
        let writer = Writer::new(link)?;
        let readers = (0..options.readers.max(1)).map(|_| place.reader()).collect::<Result<_>>()?;
        Ok(Self {
            options: options.clone(),
            place,
            instance,
            writer: Mutex::new(Some(writer)),
            readers: Pool::new(readers),
            meter: Meter::default(),
        })
    }

    /// Connects again after the connection was lost.
    fn writer(&self) -> Result<Writer> {
        let mut link = self.place.connect()?;
        if !schema::take(&mut link, &self.place)? {
            // Most likely our own session, which the server has not missed yet.
            let reason = format!("another session holds the schema {}", self.options.schema);
            return Err(StoreError::Busy(reason.into()));
        }
        // Another process may have had the schema meanwhile and be gone again. What this one remembers is then older than
        // the database.
        if schema::owner(&mut link)? != self.instance {
            return Err(StoreError::InUse {
                what: format!("the schema {}, from which another process has gone on,", self.options.schema),
            });
        }
        Writer::new(link)
    }

    fn read<T>(&self, mut read: impl FnMut(&mut dyn Session) -> Result<T>) -> Result<T> {
        let start = Instant::now();
        let mut place = self.readers.take();
        self.meter.read(start, || {
            let link = place.connection(|| self.place.reader())?;
            let result = read(link);
            if !matches!(result, Err(StoreError::Unreachable(_))) {
                return result;
            }
            place.discard();
            // The connection may have been lost long ago; a read can simply be done again.
            let result = read(place.connection(|| self.place.reader())?);
            if matches!(result, Err(StoreError::Unreachable(_))) {
                place.discard();
            }
            result
        })
    }
}

impl Store for Postgres {
    fn apply(&self, writes: &[Write]) -> Result<()> {
        self.meter.apply(writes.len(), || {
            if writes.is_empty() {
                return Ok(());
            }
            let batch = Batch::new(writes)?;
            let mut place = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
            let writer = match &mut *place {
                Some(writer) => writer,
                none => none.insert(self.writer()?),
            };
            let result = writer.apply(&batch);
            if matches!(result, Err(StoreError::Unreachable(_))) {
                *place = None;
            }
            result
        })
    }

    fn unfinished_flows(&self, after: Option<FlowKey>, limit: usize) -> Result<Vec<SavedFlow>> {
        self.read(|session| reads::unfinished_flows(session, after, limit))
    }

    fn flow(&self, flow: FlowKey) -> Result<Option<FlowRow>> {
        self.read(|session| reads::flow(session, flow))
    }

    fn flows(&self, query: &FlowQuery) -> Result<FlowPage> {
        self.read(|session| reads::flows(session, query))
    }

    fn outbound(&self, peer: &Name, after: u64, limit_bytes: usize) -> Result<Vec<(u64, Vec<u8>)>> {
        self.read(|session| reads::outbound(session, peer, after, limit_bytes))
    }

    fn queues(&self) -> Result<Queues> {
        self.read(|session| reads::queues(session))
    }

    fn past(&self) -> Result<Past> {
        self.read(|session| reads::past(session))
    }

    fn ledger(&self, after: u64, limit: usize) -> Result<Vec<(u64, Vec<u8>)>> {
        self.read(|session| reads::ledger(session, after, limit))
    }

    fn transaction(&self, id: TransactionId) -> Result<Option<Vec<u8>>> {
        self.read(|session| reads::transaction(session, id))
    }

    fn transactions(&self, ids: &[TransactionId]) -> Result<Vec<Option<Vec<u8>>>> {
        self.read(|session| reads::transactions(session, ids))
    }

    fn dependency(&self, flow: FlowKey, id: TransactionId) -> Result<Option<Vec<u8>>> {
        self.read(|session| reads::dependency(session, flow, id))
    }

    fn dependencies(
        &self,
        flow: FlowKey,
        after: Option<TransactionId>,
        limit: usize,
    ) -> Result<Vec<(TransactionId, Vec<u8>)>> {
        self.read(|session| reads::dependencies(session, flow, after, limit))
    }

    fn states(&self, query: &StateQuery) -> Result<StatePage> {
        self.read(|session| crate::select::states(session, query))
    }

    fn vault(&self, references: &[StateRef]) -> Result<Vec<Option<VaultState>>> {
        self.read(|session| reads::vault_in_order(session, references))
    }

    fn coins(
        &self,
        asset: &str,
        owner: &PublicKey,
        after: Option<CoinCursor>,
        limit: usize,
    ) -> Result<Vec<Coin>> {
        self.read(|session| reads::coins(session, asset, owner, after, limit))
    }

    fn locks(&self) -> Result<Vec<(StateRef, FlowKey)>> {
        self.read(|session| reads::locks(session))
    }

    fn attachment(&self, id: AttachmentId) -> Result<Option<Vec<u8>>> {
        self.read(|session| reads::attachment(session, id))
    }

    fn consumed(&self, states: &[StateRef]) -> Result<Vec<Option<Consumption>>> {
        self.read(|session| reads::consumed(session, states))
    }

    fn consents(&self, since: Timestamp) -> Result<Vec<Consent>> {
        self.read(|session| reads::consents(session, since))
    }

    fn undelivered(&self, query: &UndeliveredQuery) -> Result<Vec<Undelivered>> {
        self.read(|session| delivery::undelivered(session, query))
    }

    fn unresolved(
        &self,
        transaction: Option<TransactionId>,
        due_by: Option<Timestamp>,
        limit: usize,
    ) -> Result<Vec<UnresolvedRow>> {
        self.read(|session| delivery::unresolved(session, transaction, due_by, limit))
    }

    fn outstanding(&self) -> Result<Outstanding> {
        self.read(|session| delivery::outstanding(session))
    }

    fn usage(&self) -> Usage {
        self.meter.usage(self.options.readers.max(1))
    }
}

#[cfg(test)]
mod tests;
