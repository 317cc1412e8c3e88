//! Writing a batch: a column for each array, a row for each element.

mod delivery;
mod flows;
mod intern;
mod queues;
mod vault;

use super::link::{Link, Request};
use crate::Result;
use crate::batch::Batch;
use crate::row::Row;
use crate::session::one;
use intern::Interned;
use tokio_postgres::types::ToSql;

/// The connection that writes, and what it remembers of what it wrote.
pub(super) struct Writer {
    link: Link,
    interned: Interned,
    /// When the last transaction was recorded.
    recorded: i64,
}

impl Writer {
    pub(super) fn new(mut link: Link) -> Result<Self> {
        let sql = "SELECT recorded FROM ledger ORDER BY number DESC LIMIT 1";
        let recorded = one(&mut link, sql, &[], |columns| Row::new("ledger", columns).integer(0))?;
        Ok(Self { link, interned: Interned::default(), recorded: recorded.unwrap_or(0) })
    }

    /// Writes the batch and makes it durable, or leaves the database as it was.
    pub(super) fn apply(&mut self, batch: &Batch<'_>) -> Result<()> {
        let Self { link, interned, recorded } = self;
        interned.learn(link, batch)?;
        let mut requests = Requests::default();
        flows::write(&mut requests, batch)?;
        queues::write(&mut requests, interned, batch)?;
        delivery::write(&mut requests, batch)?;
        let last = vault::write(&mut requests, interned, batch, *recorded)?;
        vault::notarise(&mut requests, interned, &batch.spent)?;
        link.transact(&requests.0)?;
        *recorded = last;
        Ok(())
    }
}

/// What to send.
#[derive(Default)]
struct Requests<'a>(Vec<Request<'a>>);

impl<'a> Requests<'a> {
    fn push(&mut self, sql: &'static str, values: Vec<Box<dyn ToSql + Sync + 'a>>) {
        self.0.push(Request { sql, values });
    }
}

/// A column of a batch's rows, as an array.
fn column<'a, T: ToSql + Sync + 'a>(values: impl IntoIterator<Item = T>) -> Box<dyn ToSql + Sync + 'a> {
    Box::new(values.into_iter().collect::<Vec<T>>())
}
