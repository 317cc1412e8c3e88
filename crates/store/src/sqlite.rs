//! A store in one file.
//!
//! Write-ahead log with `synchronous = FULL`: a batch is in the log and the log on the disk when
//! `apply` returns. One connection writes; the others read, each from the snapshot of its statement.

mod apply;
mod backup;
mod connection;

pub(crate) use backup::{back_up, restore};

use crate::batch::Batch;
use crate::delivery;
use crate::meter::Meter;
use crate::migration::Step;
use crate::pool::Pool;
use crate::query::StateQuery;
use crate::reads;
use crate::session::{Columns, Mistyped, Session, Value};
use crate::write::{Consent, FlowKey, Write};
use crate::{
    Coin, CoinCursor, Consumption, FlowPage, FlowQuery, FlowRow, Outstanding, Past, Queues, Result,
    SavedFlow, SqliteOptions, StatePage, Store, StoreError, Undelivered, UndeliveredQuery, UnresolvedRow,
    Usage, VaultState,
};
use apply::Writer;
use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, ToSql};
use std::fs::{File, TryLockError};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use tally_contracts::{AttachmentId, Name, PublicKey, StateRef, Timestamp, TransactionId};

/// The schema's history.
pub(crate) const STEPS: &[Step] = &[
    Step { schema: 1, sql: include_str!("../migrations/sqlite/0001_base.sql") },
    Step { schema: 2, sql: include_str!("../migrations/sqlite/0002_find_more.sql") },
    Step { schema: 3, sql: include_str!("../migrations/sqlite/0003_operation.sql") },
    Step { schema: 4, sql: include_str!("../migrations/sqlite/0004_set_aside.sql") },
    Step { schema: 5, sql: include_str!("../migrations/sqlite/0005_delivery.sql") },
    Step { schema: 6, sql: include_str!("../migrations/sqlite/0006_past.sql") },
];

/// How long to wait for the lock of a process that has just ended: a program that it was starting holds its files until
/// it runs.
const PATIENCE: Duration = Duration::from_millis(500);
const PAUSE: Duration = Duration::from_millis(10);

/// A store in one file.
pub struct Sqlite {
    options: SqliteOptions,
    /// `None` after an error of the disk: the next batch opens the file anew.
    writer: Mutex<Option<Writer>>,
    readers: Pool<Connection>,
    meter: Meter,
    /// A read found a damaged page.
    is_damaged: AtomicBool,
    /// Locked as long as this store is open.
    _lock: File,
}

impl Sqlite {
    /// Opens the file, or makes it, and brings it to the latest schema.
    ///
    /// # Errors
    /// [`StoreError::InUse`] when another process has it open, [`StoreError::Foreign`],
    /// [`StoreError::Newer`] and others.
    pub fn open(options: &SqliteOptions) -> Result<Self> {
        let lock = lock(options)?;
        let writer = Writer::new(connection::writer(options, STEPS)?)?;
        let readers =
            (0..options.readers.max(1)).map(|_| connection::reader(options)).collect::<Result<_>>()?;
        Ok(Self {
            options: options.clone(),
            writer: Mutex::new(Some(writer)),
            readers: Pool::new(readers),
            meter: Meter::default(),
            is_damaged: AtomicBool::new(false),
            _lock: lock,
        })
    }

    fn read<T>(&self, read: impl FnOnce(&mut dyn Session) -> Result<T>) -> Result<T> {
        let start = Instant::now();
        let mut place = self.readers.take();
        self.meter.read(start, || {
            let connection = place.connection(|| connection::reader(&self.options))?;
            let result = read(&mut Reader(connection));
            if matches!(
                result,
                Err(StoreError::Full(_) | StoreError::Unreachable(_) | StoreError::Corrupt(_))
            ) {
                place.discard();
            }
            if matches!(result, Err(StoreError::Corrupt(_))) {
                self.is_damaged.store(true, Ordering::Relaxed);
            }
            result
        })
    }

    /// Limits the file to a number of pages, as a full disk would.
    #[cfg(test)]
    pub(crate) fn limit_pages(&self, pages: u32) {
        let mut writer = self.writer.lock().unwrap();
        writer.as_mut().unwrap().limit_pages(pages);
    }
}

/// Takes the lock file beside the database.
fn lock(options: &SqliteOptions) -> Result<File> {
    let mut path = options.path.clone().into_os_string();
    path.push(".lock");
    let path = PathBuf::from(path);
    let unreachable = |error: std::io::Error| {
        StoreError::Unreachable(format!("the lock file {}: {error}", path.display()).into())
    };
    let file = File::options().create(true).truncate(false).write(true).open(&path).map_err(unreachable)?;
    let deadline = Instant::now() + PATIENCE;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::WouldBlock) if Instant::now() < deadline => std::thread::sleep(PAUSE),
            Err(TryLockError::WouldBlock) => {
                return Err(StoreError::InUse { what: path.display().to_string() });
            }
            Err(TryLockError::Error(error)) => return Err(unreachable(error)),
        }
    }
}

impl Store for Sqlite {
    fn apply(&self, writes: &[Write]) -> Result<()> {
        self.meter.apply(writes.len(), || {
            if writes.is_empty() {
                return Ok(());
            }
            let batch = Batch::new(writes)?;
            let mut place = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
            let writer = match &mut *place {
                Some(writer) => writer,
                none => none.insert(Writer::new(connection::writer(&self.options, STEPS)?)?),
            };
            let result = writer.apply(&batch);
            let lost = matches!(
                result,
                Err(StoreError::Full(_) | StoreError::Unreachable(_) | StoreError::Corrupt(_))
            );
            if lost || !writer.is_clean() {
                *place = None;
            }
            result
        })
    }

    fn check(&self) -> Result<()> {
        if self.is_damaged.load(Ordering::Relaxed) {
            return Err(StoreError::Corrupt("a read found a damaged page".into()));
        }
        let result = connection::glance(&self.options);
        if matches!(result, Err(StoreError::Corrupt(_))) {
            self.is_damaged.store(true, Ordering::Relaxed);
        }
        result
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

impl ToSql for Value<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self {
            Value::Integer(integer) => ValueRef::Integer(*integer),
            Value::Bytes(bytes) => ValueRef::Blob(bytes),
        }))
    }
}

struct Reader<'a>(&'a Connection);

impl Session for Reader<'_> {
    fn rows(
        &mut self,
        sql: &str,
        values: &[Value<'_>],
        each: &mut dyn FnMut(&dyn Columns) -> Result<()>,
    ) -> Result<()> {
        let mut statement = self.0.prepare_cached(sql).map_err(connection::error)?;
        for (index, value) in values.iter().enumerate() {
            statement.raw_bind_parameter(index + 1, value).map_err(connection::error)?;
        }
        let mut rows = statement.raw_query();
        while let Some(row) = rows.next().map_err(connection::error)? {
            each(row)?;
        }
        Ok(())
    }
}

impl Columns for rusqlite::Row<'_> {
    fn integer(&self, column: usize) -> Result<Option<i64>, Mistyped> {
        match self.get_ref(column) {
            Ok(ValueRef::Integer(integer)) => Ok(Some(integer)),
            Ok(ValueRef::Null) => Ok(None),
            _ => Err(Mistyped(column)),
        }
    }

    fn bytes(&self, column: usize) -> Result<Option<&[u8]>, Mistyped> {
        match self.get_ref(column) {
            Ok(ValueRef::Blob(bytes)) => Ok(Some(bytes)),
            Ok(ValueRef::Null) => Ok(None),
            _ => Err(Mistyped(column)),
        }
    }
}

#[cfg(test)]
mod tests;
