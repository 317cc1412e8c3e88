//! SQL with its values, bound in the order in which they are written.

use super::Source;
use crate::cursor::Position;
use crate::session::Value;

enum Owned {
    Integer(i64),
    Bytes(Vec<u8>),
}

pub(super) struct Sql {
    text: String,
    values: Vec<Owned>,
}

/// Which candidates of a source.
#[derive(Debug, Clone, Copy)]
pub(super) struct Window {
    pub(super) by_quantity: bool,
    pub(super) descending: bool,
    /// Keys between which candidates lie, both excluded.
    pub(super) above: i64,
    pub(super) below: i64,
    /// After this one, in the order of the page.
    pub(super) from: Option<Position>,
    /// Not after this one.
    pub(super) to: Option<Position>,
    /// In any order, to be counted only.
    pub(super) counted: bool,
}

impl Sql {
    pub(super) fn new(text: &str) -> Self {
        Self { text: text.to_owned(), values: Vec::new() }
    }

    pub(super) fn push(&mut self, text: &str) -> &mut Self {
        self.text.push_str(text);
        self
    }

    fn bind(&mut self, value: Owned) -> &mut Self {
        self.values.push(value);
        self.text.push('$');
        self.text.push_str(&self.values.len().to_string());
        self
    }

    pub(super) fn integer(&mut self, value: i64) -> &mut Self {
        self.bind(Owned::Integer(value))
    }

    pub(super) fn bytes(&mut self, value: &[u8]) -> &mut Self {
        self.bind(Owned::Bytes(value.to_vec()))
    }

    pub(super) fn text(&self) -> &str {
        &self.text
    }

    pub(super) fn values(&self) -> Vec<Value<'_>> {
        self.values
            .iter()
            .map(|value| match value {
                Owned::Integer(integer) => Value::Integer(*integer),
                Owned::Bytes(bytes) => Value::Bytes(bytes),
            })
            .collect()
    }

    /// A query with the columns `key` and `quantity` (0 unless pages are sorted by it), of the first
    /// `limit` candidates in the window.
    pub(super) fn candidates(&mut self, source: &Source, window: &Window, limit: i64) {
        match source {
            Source::States => self.list("state WHERE TRUE", None, window, limit),
            Source::Linear(id) => {
                self.text.push_str("SELECT key, 0 AS quantity FROM state WHERE linear = ");
                self.bytes(id);
                self.window(window, limit);
            }
            Source::Posting(term) => self.list("posting WHERE term = ", Some(*term), window, limit),
            Source::Asset(asset) => {
                // The inner LIMIT keeps PostgreSQL from walking all states in the order of their keys.
                self.push("SELECT key, 0 AS quantity FROM (SELECT key FROM state WHERE consumer IS NULL AND asset = ");
                self.integer(*asset).push(" LIMIT ").integer(i64::MAX).push(") AS few WHERE TRUE");
                self.window(window, limit);
            }
            Source::Coins(asset, owner) => {
                // Those that may be spent and those set aside have an index each.
                self.push("SELECT key, quantity FROM (");
                for (union, condition) in [("", "IS NULL"), (" UNION ALL ", "IS NOT NULL")] {
                    self.push(union)
                        .push("SELECT * FROM (SELECT key, 0 AS quantity FROM state WHERE consumer IS NULL AND aside ")
                        .push(condition)
                        .push(" AND asset = ")
                        .integer(*asset)
                        .push(" AND owner = ")
                        .integer(*owner);
                    self.window(window, limit);
                    self.push(") AS list");
                }
                self.push(") AS lists");
                self.order(window, limit);
            }
            Source::Classes(classes) => self.merged("class_posting WHERE class = ", classes, window, limit),
            Source::LiveClasses(classes) => {
                self.merged("state WHERE consumer IS NULL AND class = ", classes, window, limit);
            }
            Source::Quantities(assets) => {
                let from = "state WHERE consumer IS NULL AND quantity IS NOT NULL AND asset = ";
                self.merged(from, assets, window, limit);
            }
        }
    }

    fn list(&mut self, from: &str, value: Option<i64>, window: &Window, limit: i64) {
        self.push(if window.by_quantity {
            "SELECT key, quantity FROM "
        } else {
            "SELECT key, 0 AS quantity FROM "
        });
        self.push(from);
        if let Some(value) = value {
            self.integer(value);
        }
        self.window(window, limit);
    }

    /// The first candidates of several lists, each in order.
    fn merged(&mut self, from: &str, values: &[i64], window: &Window, limit: i64) {
        if let [value] = values {
            return self.list(from, Some(*value), window, limit);
        }
        self.push("SELECT key, quantity FROM (");
        for (index, value) in values.iter().enumerate() {
            self.push(if index == 0 { "SELECT * FROM (" } else { " UNION ALL SELECT * FROM (" });
            self.list(from, Some(*value), window, limit);
            self.push(") AS list");
        }
        if values.is_empty() {
            self.push("SELECT key, quantity FROM state WHERE key < 0");
        }
        self.push(") AS lists");
        self.order(window, limit);
    }

    fn window(&mut self, window: &Window, limit: i64) {
        let (after, up_to) = if window.descending { (" < ", " >= ") } else { (" > ", " <= ") };
        // Conditions on keys are one lower and one upper bound, which an index takes as its range.
        let (mut above, mut below) = (window.above, window.below);
        for (operator, position) in [(after, window.from), (up_to, window.to)] {
            match position {
                None => {}
                Some(position) if window.by_quantity => {
                    self.push(" AND (quantity, key)")
                        .push(operator)
                        .push("(")
                        .integer(position.quantity)
                        .push(", ")
                        .integer(position.key)
                        .push(")");
                }
                Some(position) => match operator {
                    " > " => above = above.max(position.key),
                    " <= " => below = below.min(position.key.saturating_add(1)),
                    " < " => below = below.min(position.key),
                    _ => above = above.max(position.key.saturating_sub(1)),
                },
            }
        }
        self.push(" AND key > ").integer(above).push(" AND key < ").integer(below);
        self.order(window, limit);
    }

    fn order(&mut self, window: &Window, limit: i64) {
        self.push(match (window.by_quantity, window.descending) {
            _ if window.counted => "",
            (false, false) => " ORDER BY key",
            (false, true) => " ORDER BY key DESC",
            (true, false) => " ORDER BY quantity, key",
            (true, true) => " ORDER BY quantity DESC, key DESC",
        });
        self.push(" LIMIT ").integer(limit);
    }
}
