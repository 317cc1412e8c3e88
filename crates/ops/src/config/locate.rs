//! From the path of a key to its line and column.

use std::path::Path;

use serde_path_to_error::Segment;
use toml::de::{DeTable, DeValue};

use super::Origin;

/// The steps from the top of the file to a value.
pub(super) struct KeyPath(Vec<Step>);

enum Step {
    Key(String),
    Index(usize),
}

impl KeyPath {
    /// The names on the path down to the first array, which is how far an override can reach.
    pub(super) fn names(&self) -> Vec<String> {
        self.0
            .iter()
            .map_while(|step| match step {
                Step::Key(key) => Some(key.clone()),
                Step::Index(_) => None,
            })
            .collect()
    }
}

pub(super) fn segments(path: &serde_path_to_error::Path) -> KeyPath {
    let step = |segment: &Segment| match segment {
        Segment::Seq { index } => Some(Step::Index(*index)),
        Segment::Map { key } | Segment::Enum { variant: key } => Some(Step::Key(key.clone())),
        Segment::Unknown => None,
    };
    KeyPath(path.iter().map_while(step).collect())
}

/// The place of the deepest part of `path` that the file has.
pub(super) fn in_file(file: &Path, text: &str, path: &KeyPath) -> Origin {
    let mut start = 0;
    if let Ok(document) = DeTable::parse(text) {
        let mut value = DeValue::Table(document.into_inner());
        for step in &path.0 {
            let Some((found, at)) = child(value, step) else { break };
            (value, start) = (found, at);
        }
    }
    let (line, column) = position(text, start);
    Origin::File { path: file.to_owned(), line, column }
}

fn child<'i>(value: DeValue<'i>, step: &Step) -> Option<(DeValue<'i>, usize)> {
    match (value, step) {
        (DeValue::Table(table), Step::Key(name)) => {
            let (key, value) = table.into_iter().find(|(key, _)| key.get_ref() == name.as_str())?;
            Some((value.into_inner(), key.span().start))
        }
        (DeValue::Array(array), Step::Index(index)) => {
            let value = array.into_iter().nth(*index)?;
            let start = value.span().start;
            Some((value.into_inner(), start))
        }
        _ => None,
    }
}

/// Line and column of a byte offset, both from 1, the column in characters.
pub(super) fn position(text: &str, offset: usize) -> (usize, usize) {
    let before = text.get(..offset).unwrap_or(text);
    let line_start = before.rfind('\n').map_or(0, |at| at + 1);
    (before.matches('\n').count() + 1, before[line_start..].chars().count() + 1)
}
