//! Numbers for what many rows share.

use super::Link;
use crate::batch::{Batch, NUMBER_BITS};
use crate::row::{bounded, short};
use crate::select::{Space, key_bytes};
use crate::{Result, StoreError};
use std::collections::{HashMap, HashSet};
use tally_contracts::{ContractName, Name, PublicKey};

/// How many numbers are remembered of each sort.
const REMEMBERED: usize = 1 << 16;

type Class = (ContractName, String, Name);

/// The numbers that the writer remembers.
#[derive(Default)]
pub(super) struct Interned {
    peers: HashMap<Name, i64>,
    keys: HashMap<PublicKey, i64>,
    assets: HashMap<String, i64>,
    classes: HashMap<Class, i64>,
}

impl Interned {
    /// Looks up what the batch names and is not remembered, and gives numbers to what has none.
    /// These rows stay if the batch is refused; they mean nothing by themselves.
    pub(super) fn learn(&mut self, link: &mut Link, batch: &Batch<'_>) -> Result<()> {
        if self.peers.len().max(self.keys.len()).max(self.assets.len()).max(self.classes.len()) > REMEMBERED {
            *self = Self::default();
        }
        let names = (batch.messages.iter().map(|message| message.peer))
            .chain(batch.acknowledged.iter().map(|(peer, _)| *peer))
            .chain(batch.received.iter().map(|(peer, ..)| *peer))
            .chain(batch.acquainted.iter().map(|(peer, ..)| *peer))
            .chain(batch.anew.iter().map(|(peer, _)| *peer))
            .chain(batch.spent.iter().map(|spent| spent.requester));
        let names: HashSet<&Name> = names.filter(|name| !self.peers.contains_key(*name)).collect();
        let (mut keys, mut assets, mut classes) = (HashSet::new(), HashSet::new(), HashSet::new());
        for produced in batch.transactions.iter().flat_map(|transaction| &transaction.produced) {
            let summary = &produced.summary;
            let takes_part = summary.participants.iter().chain(&summary.owner);
            keys.extend(takes_part.filter(|key| !self.keys.contains_key(*key)));
            assets.extend(summary.asset.iter().filter(|asset| !self.assets.contains_key(*asset)));
            let class = (produced.state.contract, summary.kind.clone(), produced.state.notary.name.clone());
            if !self.classes.contains_key(&class) {
                classes.insert(class);
            }
        }
        self.learn_peers(link, &names)?;
        self.learn_terms(link, &keys, &assets)?;
        self.learn_classes(link, &classes)
    }

    fn learn_peers(&mut self, link: &mut Link, names: &HashSet<&Name>) -> Result<()> {
        if names.is_empty() {
            return Ok(());
        }
        let values: Vec<&[u8]> = names.iter().map(|name| name.as_str().as_bytes()).collect();
        let sql = "WITH made AS (INSERT INTO peer (name) SELECT u.name FROM unnest($1::bytea[]) AS u(name) \
                   WHERE NOT EXISTS (SELECT 1 FROM peer p WHERE p.name = u.name) RETURNING id, name) \
                   SELECT name, id FROM made UNION ALL SELECT p.name, p.id FROM peer p \
                   JOIN unnest($1::bytea[]) AS u(name) ON u.name = p.name";
        let ids = ids(link.query(sql, &[&values])?)?;
        for name in names {
            let id = known(ids.get(name.as_str().as_bytes()))?;
            bounded("the number of peers", id.unsigned_abs(), 63 - NUMBER_BITS)?;
            self.peers.insert((*name).clone(), id);
        }
        Ok(())
    }

    fn learn_terms(
        &mut self,
        link: &mut Link,
        keys: &HashSet<&PublicKey>,
        assets: &HashSet<&String>,
    ) -> Result<()> {
        let keys: Vec<(&PublicKey, Vec<u8>)> = keys.iter().map(|key| (*key, key_bytes(key))).collect();
        for (key, id) in
            keys.iter().zip(terms(link, Space::Key, keys.iter().map(|(_, bytes)| bytes.as_slice()))?)
        {
            self.keys.insert(*key.0, id);
        }
        let assets: Vec<&String> = assets.iter().copied().collect();
        for (asset, id) in
            assets.iter().zip(terms(link, Space::Asset, assets.iter().map(|asset| asset.as_bytes()))?)
        {
            self.assets.insert((*asset).clone(), id);
        }
        Ok(())
    }

    fn learn_classes(&mut self, link: &mut Link, classes: &HashSet<Class>) -> Result<()> {
        for class in classes {
            let (contract, kind, notary) = class;
            let sql = "WITH made AS (INSERT INTO class (contract, kind, notary) SELECT $1, $2, $3 \
                       WHERE NOT EXISTS (SELECT 1 FROM class WHERE contract = $1 AND kind = $2 AND notary = $3) \
                       RETURNING id) SELECT contract, id FROM class \
                       WHERE contract = $1 AND kind = $2 AND notary = $3 UNION ALL SELECT $1, id FROM made";
            let contract = contract.as_str().as_bytes();
            let rows = link.query(sql, &[&contract, &kind.as_bytes(), &notary.as_str().as_bytes()])?;
            let id = known(ids(rows)?.get(contract))?;
            self.classes.insert(class.clone(), id);
        }
        Ok(())
    }

    pub(super) fn peer(&self, name: &Name) -> Result<i64> {
        known(self.peers.get(name))
    }

    pub(super) fn key(&self, key: &PublicKey) -> Result<i64> {
        known(self.keys.get(key))
    }

    pub(super) fn asset(&self, asset: &str) -> Result<i64> {
        known(self.assets.get(asset))
    }

    pub(super) fn class(&self, contract: ContractName, kind: &str, notary: &Name) -> Result<i64> {
        known(self.classes.get(&(contract, kind.to_owned(), notary.clone())))
    }
}

fn known(id: Option<&i64>) -> Result<i64> {
    id.copied().ok_or_else(|| StoreError::row("term", "?", "a row is missing that was written just now"))
}

fn ids(rows: Vec<tokio_postgres::Row>) -> Result<HashMap<Vec<u8>, i64>> {
    rows.iter()
        .map(|row| {
            let (value, id) = (row.try_get(0), row.try_get(1));
            Ok((value.map_err(super::super::error::error)?, id.map_err(super::super::error::error)?))
        })
        .collect()
}

/// The numbers of terms, in order.
fn terms<'a>(link: &mut Link, space: Space, values: impl Iterator<Item = &'a [u8]>) -> Result<Vec<i64>> {
    let values: Vec<&[u8]> = values.collect();
    if values.is_empty() {
        return Ok(Vec::new());
    }
    values.iter().try_for_each(|value| short("a key or an asset", value))?;
    let sql = "WITH made AS (INSERT INTO term (space, value) SELECT $1, u.value FROM unnest($2::bytea[]) AS u(value) \
               WHERE NOT EXISTS (SELECT 1 FROM term t WHERE t.space = $1 AND t.value = u.value) RETURNING id, value) \
               SELECT value, id FROM made UNION ALL SELECT t.value, t.id FROM term t \
               JOIN unnest($2::bytea[]) AS u(value) ON t.space = $1 AND t.value = u.value";
    let ids = ids(link.query(sql, &[&space.number(), &values])?)?;
    values.iter().map(|value| known(ids.get(*value))).collect()
}
