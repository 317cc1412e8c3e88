//! Pages of the vault.
//!
//! One filter is answered by an index, which gives candidates in the order of the page; the others
//! look at the candidates' rows. A page looks at a bounded number of candidates.

mod sql;

use crate::batch::INDEX_BITS;
use crate::cursor::{Fingerprint, Position};
use crate::query::{MAX_REFERENCES, Sort, StateQuery, Status, page_size};
use crate::read::{Aside, StatePage, VaultState};
use crate::row::{self, Row};
use crate::session::{Columns, Session, Value, all, one, signed};
use crate::{Result, StoreError, reads};
use sql::Sql;
use tally_contracts::{PublicKey, StateRef, Summary};
use tally_crypto::Hash;

/// How many candidates one page looks at, at most about.
const EXAMINED: i64 = 4096;
/// How many candidates are few enough to be sorted, and to choose their index without more ado.
const FEW: i64 = 1024;
/// How many lists of candidates are merged.
const MERGED: usize = 64;

/// The columns of a state and what it refers to; see [`vault_state`].
pub(crate) const COLUMNS: &str = "SELECT s.key, l.id, l.recorded, c.kind, o.value, a.value, s.quantity, s.linear, \
     s.participants, s.state, s.details, s.consumer, coalesce(x.id, e.consumer), coalesce(x.recorded, e.at), \
     s.aside, s.lost FROM";
/// Where [`COLUMNS`] come from.
pub(crate) const TABLES: &str = " state s JOIN ledger l ON l.number = s.key >> 20 JOIN class c ON c.id = s.class \
     LEFT JOIN term o ON o.id = s.owner LEFT JOIN term a ON a.id = s.asset \
     LEFT JOIN ledger x ON x.number = s.consumer LEFT JOIN consumed_elsewhere e ON e.key = s.key";

/// What a term is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Space {
    Key,
    Asset,
}

impl Space {
    pub(crate) fn number(self) -> i64 {
        match self {
            Self::Key => 0,
            Self::Asset => 1,
        }
    }
}

/// A key as terms have it.
pub(crate) fn key_bytes(key: &PublicKey) -> Vec<u8> {
    tally_contracts::encode(key)
}

/// The number of a term, if any state has it.
pub(crate) fn term(session: &mut dyn Session, space: Space, value: &[u8]) -> Result<Option<i64>> {
    let sql = "SELECT id FROM term WHERE space = $1 AND value = $2";
    one(session, sql, &[Value::Integer(space.number()), Value::Bytes(value)], |columns| {
        Row::new("term", columns).integer(0)
    })
}

/// The output's index in a state's key.
pub(crate) fn index(key: i64) -> u32 {
    u32::try_from(key & ((1 << INDEX_BITS) - 1)).unwrap_or(0)
}

/// Decodes a row of [`COLUMNS`].
pub(crate) fn vault_state(columns: &dyn Columns) -> Result<(Position, VaultState)> {
    let row = Row::new("state", columns);
    let key = row.integer(0)?;
    let details = match row.bytes_if(10)? {
        Some(json) => {
            serde_json::from_slice(json).map_err(|error| row.fault(format_args!("its details: {error}")))?
        }
        None => serde_json::Value::Null,
    };
    let quantity = row.integer_if(6)?;
    let linear = row.bytes_if(7)?.map(|_| row.array(7)).transpose()?;
    let summary = Summary {
        kind: row.text(3)?.to_owned(),
        participants: row.borsh(8)?,
        owner: row.bytes_if(4)?.map(|_| row.borsh(4)).transpose()?,
        asset: row.bytes_if(5)?.map(|_| row.text(5)).transpose()?.map(str::to_owned),
        quantity: quantity.map(row::quantity),
        linear_id: linear.map(Hash::from_bytes),
        details,
    };
    let consumed = row.integer_if(11)?.map(|_| Ok((row.transaction(12)?, row.time(13)?))).transpose()?;
    let state = VaultState {
        reference: StateRef { transaction: row.transaction(1)?, index: index(key) },
        state: row.borsh(9)?,
        summary,
        recorded: row.time(2)?,
        consumed,
        aside: match (row.integer_if(14)?, row.bytes_if(15)?) {
            (None, _) => None,
            (Some(_), None) => Some(Aside::Encumbered),
            (Some(_), Some(_)) => Some(Aside::Lost { by: row.transaction(15)? }),
        },
    };
    Ok((Position { quantity: quantity.unwrap_or(0), key }, state))
}

pub(crate) fn states(session: &mut dyn Session, query: &StateQuery) -> Result<StatePage> {
    let unpaged = StateQuery { cursor: None, page_size: 0, ..query.clone() };
    let fingerprint = Fingerprint::new(&unpaged)?;
    if query.sort == Sort::Quantity && query.status != Status::Unconsumed {
        return Err(StoreError::Query { reason: "only unconsumed states are sorted by quantity" });
    }
    let from = query.cursor.as_deref().map(|cursor| fingerprint.position(cursor)).transpose()?;
    let (states, next) = if let Some(references) = &query.references {
        named(session, query, references, from)?
    } else if let Some(search) = Search::new(session, query)? {
        search.page(session, from)?
    } else {
        (Vec::new(), None)
    };
    Ok(StatePage { states, next: next.map(|position| fingerprint.cursor(position)) })
}

/// A page of the states that the query names.
fn named(
    session: &mut dyn Session,
    query: &StateQuery,
    references: &[StateRef],
    from: Option<Position>,
) -> Result<(Vec<VaultState>, Option<Position>)> {
    if references.len() > MAX_REFERENCES {
        return Err(StoreError::Query { reason: "it names more than 1000 references" });
    }
    let sorted = |position: Position| {
        let quantity = if query.sort == Sort::Quantity { position.quantity } else { 0 };
        (quantity, position.key)
    };
    let beyond = |position: Position| {
        from.is_none_or(|from| {
            let (here, from) = (sorted(position), sorted(from));
            if query.descending { here < from } else { here > from }
        })
    };
    let mut found: Vec<(Position, VaultState)> = reads::vault(session, references)?
        .into_values()
        .map(|(key, state)| {
            (Position { quantity: state.summary.quantity.map_or(0, row::ordered), key }, state)
        })
        .filter(|(position, state)| query.matches(state) && beyond(*position))
        .collect();
    found.sort_by_key(|(position, _)| sorted(*position));
    if query.descending {
        found.reverse();
    }
    let size = page_size(query.page_size);
    let more = found.len() > size;
    found.truncate(size);
    let next = found.last().filter(|_| more).map(|(position, _)| *position);
    Ok((found.into_iter().map(|(_, state)| state).collect(), next))
}

/// Where candidates come from, in the order of pages when there are many.
#[derive(Debug, Clone, PartialEq)]
enum Source {
    /// All states.
    States,
    /// The versions of a linear state.
    Linear([u8; 32]),
    /// The states that a key takes part in.
    Posting(i64),
    /// The states of classes, consumed ones too.
    Classes(Vec<i64>),
    /// The unconsumed states of classes.
    LiveClasses(Vec<i64>),
    /// The unconsumed states of an asset and owner.
    Coins(i64, i64),
    /// The unconsumed states of an asset, in no order.
    Asset(i64),
    /// The unconsumed states of assets, by quantity.
    Quantities(Vec<i64>),
}

/// A query whose names have been looked up.
struct Search<'a> {
    query: &'a StateQuery,
    participant: Option<i64>,
    owner: Option<i64>,
    asset: Option<i64>,
    /// The classes that pass.
    classes: Vec<i64>,
    /// Whether some class does not.
    by_class: bool,
    /// Keys between which all states lie that pass, both excluded.
    above: i64,
    below: i64,
    source: Source,
}

impl<'a> Search<'a> {
    /// `None` if no state passes.
    fn new(session: &mut dyn Session, query: &'a StateQuery) -> Result<Option<Self>> {
        let mut look_up = |space, value: Option<Vec<u8>>| match value {
            None => Ok(Some(None)),
            // A value that no state has.
            Some(value) => Ok::<_, StoreError>(term(session, space, &value)?.map(Some)),
        };
        let participant = look_up(Space::Key, query.participant.as_ref().map(key_bytes))?;
        let owner = look_up(Space::Key, query.owner.as_ref().map(key_bytes))?;
        let asset = look_up(Space::Asset, query.asset.as_ref().map(|asset| asset.clone().into_bytes()))?;
        let (Some(participant), Some(owner), Some(asset)) = (participant, owner, asset) else {
            return Ok(None);
        };
        let mut others = 0;
        let classes =
            all(session, "SELECT id, contract, kind, notary FROM class ORDER BY id", &[], |columns| {
                let row = Row::new("class", columns);
                let asks = |wanted: Option<&str>, column| -> Result<bool> {
                    Ok(wanted
                        .is_none_or(|wanted| row.bytes(column).is_ok_and(|found| found == wanted.as_bytes())))
                };
                let passes = asks(query.contract.as_ref().map(|name| name.as_str()), 1)?
                    && asks(query.kind.as_deref(), 2)?
                    && asks(query.notary.as_ref().map(|name| name.as_str()), 3)?;
                row.integer(0).map(|id| (id, passes))
            })?;
        let classes: Vec<i64> = classes
            .into_iter()
            .filter_map(|(id, passes)| {
                others += usize::from(!passes);
                passes.then_some(id)
            })
            .collect();
        if classes.is_empty() {
            return Ok(None);
        }
        let above = match query.recorded_from {
            None => -1,
            Some(time) => first_key(session, time.as_millis())? - 1,
        };
        let below = query.recorded_until.map_or(Ok(i64::MAX), |time| first_key(session, time.as_millis()))?;
        let source = Source::States;
        let by_class = others > 0;
        let mut search = Self { query, participant, owner, asset, classes, by_class, above, below, source };
        search.source = search.choose(session)?;
        Ok(Some(search))
    }

    /// The source with the fewest candidates, as far as that is worth counting.
    fn choose(&self, session: &mut dyn Session) -> Result<Source> {
        let live = self.query.status == Status::Unconsumed;
        if self.query.sort == Sort::Quantity {
            return match self.asset {
                Some(asset) => Ok(Source::Quantities(vec![asset])),
                None => {
                    let sql = "SELECT id FROM term WHERE space = $1 ORDER BY id LIMIT $2";
                    let values =
                        [Value::Integer(Space::Asset.number()), Value::Integer(reads::limit(MERGED + 1))];
                    let assets = all(session, sql, &values, |columns| Row::new("term", columns).integer(0))?;
                    if assets.len() > MERGED {
                        let reason = "to sort by quantity among so many assets, name one";
                        return Err(StoreError::Query { reason });
                    }
                    Ok(Source::Quantities(assets))
                }
            };
        }
        if let Some(linear) = self.query.linear_id {
            return Ok(Source::Linear(*linear.as_bytes()));
        }
        let mut sources = Vec::new();
        if let (true, Some(asset), Some(owner)) = (live, self.asset, self.owner) {
            sources.push(Source::Coins(asset, owner));
        }
        sources.extend(self.participant.map(Source::Posting));
        sources.extend(self.owner.map(Source::Posting));
        if self.classes.len() <= MERGED && (live || self.by_class) {
            let classes = self.classes.clone();
            sources.push(if live { Source::LiveClasses(classes) } else { Source::Classes(classes) });
        }
        if sources.is_empty() {
            sources.push(Source::States);
        }
        if let (true, Some(asset), None) = (live, self.asset, self.owner) {
            // Only good while there are few.
            if self.count(session, &Source::Asset(asset))? < FEW {
                return Ok(Source::Asset(asset));
            }
        }
        if sources.len() == 1 {
            return Ok(sources.swap_remove(0));
        }
        let mut best = (i64::MAX, Source::States);
        for source in sources {
            let count = self.count(session, &source)?;
            if count < best.0 {
                best = (count, source);
            }
            if best.0 < FEW / 8 {
                break;
            }
        }
        Ok(best.1)
    }

    /// How many candidates there are, up to [`FEW`].
    fn count(&self, session: &mut dyn Session, source: &Source) -> Result<i64> {
        let mut sql = Sql::new("SELECT count(*) FROM (");
        sql.candidates(source, &sql::Window { counted: true, ..self.window(None) }, FEW);
        sql.push(") AS candidates");
        let count = one(session, sql.text(), &sql.values(), |columns| Row::new("state", columns).integer(0))?;
        Ok(count.unwrap_or(0))
    }

    fn window(&self, from: Option<Position>) -> sql::Window {
        sql::Window {
            by_quantity: self.query.sort == Sort::Quantity,
            descending: self.query.descending,
            above: self.above,
            below: self.below,
            from,
            to: None,
            counted: false,
        }
    }

    fn page(
        &self,
        session: &mut dyn Session,
        from: Option<Position>,
    ) -> Result<(Vec<VaultState>, Option<Position>)> {
        let size = page_size(self.query.page_size);
        let mut window = self.window(from);
        // Most candidates pass most queries: try with as many as the page takes.
        let want = reads::limit(size + 1);
        let mut found = self.passing(session, &window, Some(want), size + 1)?;
        if found.len() > size {
            return Ok(cut(found, size));
        }
        found.clear();
        let mut examined = 0;
        let mut chunk = want * 4;
        loop {
            // The end of the chunk first, so that what is recorded or consumed meanwhile moves no candidate over it.
            let (count, last) = self.end(session, &window, chunk)?;
            let Some(last) = last else { break };
            window.to = Some(last);
            found.extend(self.passing(session, &window, None, size + 1 - found.len())?);
            if found.len() > size {
                return Ok(cut(found, size));
            }
            if count < chunk {
                break;
            }
            examined += count;
            if examined >= EXAMINED || found.len() == size {
                return Ok((found.into_iter().map(|(_, state)| state).collect(), Some(last)));
            }
            window.from = Some(last);
            chunk = (chunk * 4).min(EXAMINED - examined).max(want);
        }
        Ok((found.into_iter().map(|(_, state)| state).collect(), None))
    }

    /// How many candidates the next `chunk` has, and the last of them.
    fn end(
        &self,
        session: &mut dyn Session,
        window: &sql::Window,
        chunk: i64,
    ) -> Result<(i64, Option<Position>)> {
        let mut sql = Sql::new("SELECT key, quantity FROM (");
        sql.candidates(&self.source, &sql::Window { to: None, ..*window }, chunk);
        sql.push(") AS candidates");
        // The last row in the order of the page; counting here spares a second pass.
        let (mut count, mut last) = (0, None);
        session.rows(sql.text(), &sql.values(), &mut |columns| {
            let row = Row::new("state", columns);
            let position = Position { key: row.integer(0)?, quantity: row.integer(1)? };
            count += 1;
            let order = (position.quantity, position.key);
            let further = last.is_none_or(|last: Position| {
                let last = (last.quantity, last.key);
                if window.descending { order < last } else { order > last }
            });
            if further {
                last = Some(position);
            }
            Ok(())
        })?;
        Ok((count, last))
    }

    /// At most `limit` of the candidates of a window that pass, in order.
    fn passing(
        &self,
        session: &mut dyn Session,
        window: &sql::Window,
        chunk: Option<i64>,
        limit: usize,
    ) -> Result<Vec<(Position, VaultState)>> {
        let mut sql = Sql::new(COLUMNS);
        sql.push(" (");
        // SQLite keeps to the order of a CROSS JOIN, and a LIMIT keeps it from joining what is in the parentheses.
        sql.candidates(&self.source, window, chunk.unwrap_or(i64::MAX));
        sql.push(") AS candidates CROSS JOIN").push(TABLES).push(" WHERE s.key = candidates.key");
        // Numbers begin at 1. Asked for like this, no index seems to answer it: rows are to be found by key alone.
        sql.push(match self.query.status {
            Status::Unconsumed => " AND coalesce(s.consumer, 0) = 0",
            Status::Consumed => " AND coalesce(s.consumer, 0) <> 0",
            Status::All => "",
        });
        if let Some(term) = self.participant.filter(|term| self.source != Source::Posting(*term)) {
            sql.push(" AND EXISTS (SELECT 1 FROM posting p WHERE p.key = s.key AND p.term = ")
                .integer(term)
                .push(")");
        }
        for (column, value) in
            [(" AND coalesce(s.owner, 0) = ", self.owner), (" AND coalesce(s.asset, 0) = ", self.asset)]
        {
            if let Some(value) = value {
                sql.push(column).integer(value);
            }
        }
        if let Some(from) = self.query.quantity_from {
            sql.push(" AND s.quantity >= ").integer(row::ordered(from));
        }
        if let Some(to) = self.query.quantity_to {
            sql.push(" AND s.quantity <= ").integer(row::ordered(to));
        }
        if let Some(linear) = self.query.linear_id {
            sql.push(" AND coalesce(s.linear, '') = ").bytes(linear.as_bytes());
        }
        if self.by_class {
            for (column, value) in [
                (" AND c.contract = ", self.query.contract.as_ref().map(|name| name.as_str())),
                (" AND c.kind = ", self.query.kind.as_deref()),
                (" AND c.notary = ", self.query.notary.as_ref().map(|name| name.as_str())),
            ] {
                if let Some(value) = value {
                    sql.push(column).bytes(value.as_bytes());
                }
            }
        }
        sql.push(match (self.query.sort, self.query.descending) {
            (Sort::Recorded, false) => " ORDER BY s.key",
            (Sort::Recorded, true) => " ORDER BY s.key DESC",
            (Sort::Quantity, false) => " ORDER BY s.quantity, s.key",
            (Sort::Quantity, true) => " ORDER BY s.quantity DESC, s.key DESC",
        });
        sql.push(" LIMIT ").integer(reads::limit(limit));
        all(session, sql.text(), &sql.values(), vault_state)
    }
}

fn cut(mut found: Vec<(Position, VaultState)>, size: usize) -> (Vec<VaultState>, Option<Position>) {
    found.truncate(size);
    let next = found.last().map(|(position, _)| *position);
    (found.into_iter().map(|(_, state)| state).collect(), next)
}

/// The smallest key that a state recorded at `millis` or later can have.
fn first_key(session: &mut dyn Session, millis: u64) -> Result<i64> {
    let Ok(millis) = signed("a time", millis) else { return Ok(i64::MAX) };
    let sql = "SELECT number FROM ledger WHERE recorded >= $1 ORDER BY recorded, number LIMIT 1";
    let number =
        one(session, sql, &[Value::Integer(millis)], |columns| Row::new("ledger", columns).integer(0))?;
    Ok(number.map_or(i64::MAX, |number| number << INDEX_BITS))
}
