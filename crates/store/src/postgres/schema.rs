//! Whether the server has room for this store, whose the schema is, and its steps.

use super::link::{Link, Place};
use crate::migration::{self, Step};
use crate::row::Row;
use crate::session::one;
use crate::{Needs, Result, StoreError};

/// How long to wait for a schema that another session has.
const TAKE: std::time::Duration = std::time::Duration::from_secs(2);

/// Fails unless the server can give this store its connections; the one that asks is one of them.
pub(super) fn check_connections(link: &mut Link, needs: Needs) -> Result<()> {
    // reserved_connections is new in PostgreSQL 16.
    let sql = "SELECT current_setting('max_connections')::bigint, \
               current_setting('superuser_reserved_connections')::bigint \
               + coalesce(current_setting('reserved_connections', true), '0')::bigint, \
               (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'), \
               (SELECT rolconnlimit::bigint FROM pg_roles WHERE rolname = current_user), \
               (SELECT count(*) FROM pg_stat_activity WHERE usename = current_user), \
               (SELECT datconnlimit::bigint FROM pg_database WHERE datname = current_database()), \
               (SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() \
                AND backend_type = 'client backend')";
    let row = link.query(sql, &[])?;
    let number = |column: usize| -> Result<u32> {
        let value: Option<i64> = row.first().and_then(|row| row.try_get(column).ok());
        // Minus one means that there is no limit.
        let value = value.ok_or_else(|| StoreError::row("pg_stat_activity", column, "no number"))?;
        Ok(u32::try_from(value).unwrap_or(u32::MAX))
    };
    let limits = [
        (number(0)?, number(1)?, number(2)?, "max_connections"),
        (number(3)?, 0, number(4)?, "the role's connection limit"),
        (number(5)?, 0, number(6)?, "the database's connection limit"),
    ];
    for (limit, reserved, all_in_use, limited_by) in limits {
        let in_use = all_in_use.saturating_sub(1);
        let free = limit.saturating_sub(reserved).saturating_sub(in_use);
        let needed = needs.connections();
        if free < needed {
            return Err(StoreError::Connections { needed, free, in_use, reserved, limit, limited_by });
        }
    }
    Ok(())
}

/// Takes the schema for this session, which ends with the connection; whether nobody else has it. Waits a
/// little: the server takes a moment to notice that a process which had it is gone.
pub(super) fn take(link: &mut Link, place: &Place) -> Result<bool> {
    // Advisory locks are numbers, one space of them for each database.
    let name = format!("tally-store schema {}", place.schema);
    let hash = tally_crypto::hash(name.as_bytes());
    let number = hash.as_bytes().iter().take(8).fold(0, |number, byte| number << 8 | i64::from(*byte));
    link.run(&format!("SET lock_timeout = {}", TAKE.as_millis()))?;
    match link.query("SELECT pg_advisory_lock($1)", &[&number]) {
        Err(StoreError::Busy(_)) => Ok(false),
        result => {
            result?;
            link.run("SET lock_timeout = 0")?;
            Ok(true)
        }
    }
}

/// Writes into the schema that this process goes on from it; answers what it calls itself there.
pub(super) fn own(link: &mut Link) -> Result<Vec<u8>> {
    link.run(
        "BEGIN; DELETE FROM owner; INSERT INTO owner (instance) VALUES (uuid_send(gen_random_uuid())); COMMIT",
    )?;
    owner(link)
}

/// The process that went on from the schema last.
pub(super) fn owner(link: &mut Link) -> Result<Vec<u8>> {
    let owner = one(link, "SELECT instance FROM owner", &[], |columns| {
        Row::new("owner", columns).bytes(0).map(<[u8]>::to_vec)
    })?;
    owner.ok_or_else(|| StoreError::row("owner", "1", "it is missing"))
}

/// What a schema of the server holds.
pub(super) struct State {
    /// It is there.
    pub(super) exists: bool,
    /// Tables, indexes and the like.
    pub(super) relations: i64,
    /// The latest of the steps that it was brought to; `None` when it is no store's.
    pub(super) version: Option<i64>,
}

impl State {
    pub(super) fn foreign(&self, place: &Place) -> StoreError {
        StoreError::Foreign { what: format!("the schema {}", place.schema) }
    }
}

/// Looks what is there.
pub(super) fn look(link: &mut Link, place: &Place) -> Result<State> {
    let sql = "SELECT (SELECT count(*) FROM information_schema.schemata WHERE schema_name = $1), \
               (SELECT count(*) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace \
                WHERE n.nspname = $1::name), \
               (SELECT count(*) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace \
                WHERE n.nspname = $1::name AND c.relname = 'schema_version')";
    let rows = link.query(sql, &[&place.schema])?;
    let count = |column: usize| rows.first().and_then(|row| row.try_get::<_, i64>(column).ok()).unwrap_or(0);
    let version = if count(2) > 0 {
        let rows = link.query("SELECT max(version) FROM schema_version", &[])?;
        Some(rows.first().and_then(|row| row.try_get(0).ok()).unwrap_or(0))
    } else {
        None
    };
    Ok(State { exists: count(0) > 0, relations: count(1), version })
}

/// The SQL of a step, without a transaction around it. `exists`: the schema is there before the first step.
pub(super) fn statements(place: &Place, step: &Step, exists: bool) -> String {
    let create = match (step.schema, exists) {
        (1, false) => format!("CREATE SCHEMA \"{}\";", place.schema),
        _ => String::new(),
    };
    let table = if step.schema == 1 {
        "CREATE TABLE schema_version (version BIGINT PRIMARY KEY, at TIMESTAMPTZ NOT NULL DEFAULT now());"
    } else {
        ""
    };
    let Step { schema, sql } = step;
    format!("{create} {table} {sql} INSERT INTO schema_version (version) VALUES ({schema});")
}

/// Makes the schema if it is missing and brings it to the latest version.
pub(super) fn migrate(link: &mut Link, place: &Place, steps: &'static [Step]) -> Result<()> {
    let state = look(link, place)?;
    if state.relations > 0 && state.version.is_none() {
        return Err(state.foreign(place));
    }
    for step in migration::missing(steps, state.version.unwrap_or(0))? {
        link.run(&format!("BEGIN; {} COMMIT", statements(place, step, state.exists))).map_err(|error| {
            // The failed statement left the transaction open.
            let _ = link.run("ROLLBACK");
            match error {
                other if other.is_transient() => other,
                other => StoreError::Migration { to: step.schema, source: Box::new(other) },
            }
        })?;
    }
    Ok(())
}
