//! Numbers for what many rows share.

use super::prepare;
use crate::Result;
use crate::row::Row;
use crate::select::{Space, key_bytes};
use crate::session::{Value, one};
use crate::sqlite::Reader;
use rusqlite::{Connection, params};
use std::collections::HashMap;
use tally_contracts::{ContractName, Name, PublicKey};

/// How many numbers are remembered of each sort.
const REMEMBERED: usize = 1 << 16;

/// The numbers that the writer remembers.
#[derive(Default)]
pub(super) struct Interned {
    peers: HashMap<Name, i64>,
    keys: HashMap<PublicKey, i64>,
    assets: HashMap<String, i64>,
    classes: HashMap<ContractName, Vec<(String, Name, i64)>>,
}

impl Interned {
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Forgets when too much is remembered.
    pub(super) fn limit(&mut self) {
        let classes: usize = self.classes.values().map(Vec::len).sum();
        if self.peers.len().max(self.keys.len()).max(self.assets.len()).max(classes) > REMEMBERED {
            self.clear();
        }
    }

    pub(super) fn peer(&mut self, connection: &Connection, name: &Name) -> Result<i64> {
        if let Some(id) = self.peers.get(name) {
            return Ok(*id);
        }
        let value = name.as_str().as_bytes();
        super::changes(
            &mut prepare(connection, "INSERT INTO peer (name) VALUES (?1) ON CONFLICT DO NOTHING")?,
            params![value],
        )?;
        let id = find(connection, "SELECT id FROM peer WHERE name = $1", &[Value::Bytes(value)])?;
        crate::row::bounded("the number of peers", id.unsigned_abs(), 63 - crate::batch::NUMBER_BITS)?;
        self.peers.insert(name.clone(), id);
        Ok(id)
    }

    pub(super) fn key(&mut self, connection: &Connection, key: &PublicKey) -> Result<i64> {
        if let Some(id) = self.keys.get(key) {
            return Ok(*id);
        }
        let id = term(connection, Space::Key, &key_bytes(key))?;
        self.keys.insert(*key, id);
        Ok(id)
    }

    pub(super) fn asset(&mut self, connection: &Connection, asset: &str) -> Result<i64> {
        if let Some(id) = self.assets.get(asset) {
            return Ok(*id);
        }
        let id = term(connection, Space::Asset, asset.as_bytes())?;
        self.assets.insert(asset.to_owned(), id);
        Ok(id)
    }

    pub(super) fn class(
        &mut self,
        connection: &Connection,
        contract: &ContractName,
        kind: &str,
        notary: &Name,
    ) -> Result<i64> {
        let classes = self.classes.entry(*contract).or_default();
        if let Some((_, _, id)) = classes.iter().find(|class| class.0 == kind && class.1 == *notary) {
            return Ok(*id);
        }
        let values = [contract.as_str().as_bytes(), kind.as_bytes(), notary.as_str().as_bytes()];
        super::changes(
            &mut prepare(
                connection,
                "INSERT INTO class (contract, kind, notary) VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING",
            )?,
            values,
        )?;
        let sql = "SELECT id FROM class WHERE contract = $1 AND kind = $2 AND notary = $3";
        let id = find(connection, sql, &values.map(Value::Bytes))?;
        classes.push((kind.to_owned(), notary.clone(), id));
        Ok(id)
    }
}

fn term(connection: &Connection, space: Space, value: &[u8]) -> Result<i64> {
    crate::row::short("a key or an asset", value)?;
    super::changes(
        &mut prepare(connection, "INSERT INTO term (space, value) VALUES (?1, ?2) ON CONFLICT DO NOTHING")?,
        params![space.number(), value],
    )?;
    let values = [Value::Integer(space.number()), Value::Bytes(value)];
    find(connection, "SELECT id FROM term WHERE space = $1 AND value = $2", &values)
}

fn find(connection: &Connection, sql: &str, values: &[Value<'_>]) -> Result<i64> {
    let id = one(&mut Reader(connection), sql, values, |columns| Row::new("term", columns).integer(0))?;
    id.ok_or_else(|| crate::StoreError::row("term", "?", "a row is missing that was written just now"))
}
