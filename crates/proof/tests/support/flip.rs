//! Every value of a document, and each with one bit changed.

use serde_json::Value;

/// A document and the paths to every value of it that has no values in it.
pub(crate) struct Fields {
    pub(crate) document: Value,
    pub(crate) paths: Vec<String>,
}

impl Fields {
    pub(crate) fn of(document: Value) -> Self {
        let mut paths = Vec::new();
        leaves(&document, "", &mut paths);
        Self { document, paths }
    }

    /// The document with that bit of the value at `path` flipped; a text that is neither digits nor
    /// dashes gets another letter.
    pub(crate) fn flipped(&self, path: &str, bit: usize) -> Value {
        let mut document = self.document.clone();
        let value = document.pointer_mut(path).unwrap();
        *value = flipped(value, bit);
        document
    }
}

fn leaves(value: &Value, at: &str, out: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            fields.iter().for_each(|(name, value)| leaves(value, &format!("{at}/{name}"), out));
        }
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(n, value)| leaves(value, &format!("{at}/{n}"), out));
        }
        _ => out.push(at.to_owned()),
    }
}

fn flipped(value: &Value, bit: usize) -> Value {
    match value {
        Value::Number(number) => match number.as_u64() {
            Some(number) => Value::from(number ^ 1 << (bit % 8)),
            None => Value::from(number.as_i64().unwrap() ^ 1 << (bit % 8)),
        },
        Value::String(text) => {
            let mut text = text.clone().into_bytes();
            let places: Vec<usize> = (0..text.len()).filter(|at| text[*at] != b'-').collect();
            let at = places[bit / 4 % places.len()];
            text[at] = match char::from(text[at]).to_digit(16) {
                Some(digit) => {
                    let digit = digit ^ 1 << (bit % 4);
                    u8::try_from(char::from_digit(digit, 16).unwrap()).unwrap()
                }
                None => text[at] ^ 1,
            };
            Value::from(String::from_utf8(text).unwrap())
        }
        other => panic!("{other} has no bits"),
    }
}
