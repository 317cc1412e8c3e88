//! Between the wire's messages and the types of this crate, both ways.

mod delivery;
mod flows;
mod network;
mod status;
mod vault;

pub(crate) use status::{Answered, answered, refusal, status};
pub(crate) use vault::{snapshot, update};

use serde_json::Value;

use crate::refusal::{Refusal, RefusalCode};

const PAGE_DEFAULT: u32 = 100;
const PAGE_LIMIT: u32 = 1000;
/// Longest id, name, key, asset or cursor in a request, in bytes.
const TEXT_LIMIT: usize = 2048;
const REQUEST_ID_LIMIT: usize = 128;
const REFERENCES_LIMIT: usize = 1000;

/// An answer of a node that this client does not understand.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the field `{field}` is {what}")]
pub struct NotUnderstood {
    /// Which field of the answer.
    pub field: &'static str,
    /// What is wrong with it.
    pub what: String,
}

fn missing(field: &'static str) -> NotUnderstood {
    NotUnderstood { field, what: "missing".to_owned() }
}

fn json(field: &'static str, text: &str) -> Result<Value, NotUnderstood> {
    serde_json::from_str(text).map_err(|error| NotUnderstood { field, what: format!("not JSON: {error}") })
}

fn invalid(reason: String) -> Refusal {
    Refusal::new(RefusalCode::RequestInvalid, reason)
}

/// A text that a request must have.
pub(crate) fn text(field: &'static str, value: String) -> Result<String, Refusal> {
    if value.is_empty() {
        return Err(invalid(format!("`{field}` is missing")));
    }
    short(field, value)
}

fn short(field: &'static str, value: String) -> Result<String, Refusal> {
    if value.len() > TEXT_LIMIT {
        return Err(invalid(format!(
            "`{field}` is {} bytes long; at most {TEXT_LIMIT} are taken",
            value.len()
        )));
    }
    Ok(value)
}

/// A text that a request may have; empty is none.
fn optional(field: &'static str, value: String) -> Result<Option<String>, Refusal> {
    if value.is_empty() { Ok(None) } else { short(field, value).map(Some) }
}

/// A condition of a query: when set it must say something.
fn condition(field: &'static str, value: Option<String>) -> Result<Option<String>, Refusal> {
    value.map(|value| text(field, value)).transpose()
}

fn page_size(size: u32) -> Result<u32, Refusal> {
    match size {
        0 => Ok(PAGE_DEFAULT),
        1..=PAGE_LIMIT => Ok(size),
        _ => Err(invalid(format!("`page_size` is {size}; at most {PAGE_LIMIT} are answered at once"))),
    }
}

fn not_empty(text: String) -> Option<String> {
    (!text.is_empty()).then_some(text)
}

#[cfg(test)]
mod tests;
