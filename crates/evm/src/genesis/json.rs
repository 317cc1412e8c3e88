//! Reading a genesis file's values, each error with the path of the field that caused it.

use std::borrow::Cow;

use alloy_primitives::{Address, B256, Bytes, U256, hex};
use serde_json::{Map, Value};

use super::GenesisError;

/// One object of the file and where it stands.
pub(crate) struct Object<'a> {
    map: Cow<'a, Map<String, Value>>,
    path: String,
}

impl<'a> Object<'a> {
    pub(crate) fn new(value: &'a Value, path: impl Into<String>) -> Result<Self, GenesisError> {
        let path = path.into();
        match value {
            Value::Object(map) => Ok(Self { map: Cow::Borrowed(map), path }),
            _ => Err(GenesisError::Field { path, problem: "an object was expected".into() }),
        }
    }

    pub(crate) fn empty(path: impl Into<String>) -> Self {
        Self { map: Cow::Owned(Map::new()), path: path.into() }
    }

    pub(crate) fn error(&self, name: &str, problem: impl Into<String>) -> GenesisError {
        GenesisError::Field { path: self.at(name), problem: problem.into() }
    }

    pub(crate) fn at(&self, name: &str) -> String {
        if self.path.is_empty() { name.to_owned() } else { format!("{}.{name}", self.path) }
    }

    pub(crate) fn map(&self) -> &Map<String, Value> {
        &self.map
    }

    /// Besu reads keys without regard to case, so `blockPeriodSeconds` is `blockperiodseconds`.
    pub(crate) fn get(&self, name: &str) -> Option<&Value> {
        self.map
            .get(name)
            .or_else(|| {
                self.map.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value)
            })
            .filter(|value| !value.is_null())
    }

    pub(crate) fn object(&self, name: &str) -> Result<Option<Object<'_>>, GenesisError> {
        self.get(name).map(|value| Object::new(value, self.at(name))).transpose()
    }

    pub(crate) fn array(&self, name: &str) -> Result<&[Value], GenesisError> {
        match self.get(name) {
            None => Ok(&[]),
            Some(Value::Array(values)) => Ok(values),
            Some(_) => Err(self.error(name, "a list was expected")),
        }
    }

    fn read<T>(
        &self,
        name: &str,
        parse: impl FnOnce(&Value) -> Result<T, String>,
    ) -> Result<Option<T>, GenesisError> {
        self.get(name).map(parse).transpose().map_err(|problem| self.error(name, problem))
    }

    pub(crate) fn number(&self, name: &str) -> Result<Option<u64>, GenesisError> {
        self.read(name, |value| {
            u64::try_from(quantity(value)?).map_err(|_| "the number does not fit 64 bits".to_owned())
        })
    }

    pub(crate) fn quantity(&self, name: &str) -> Result<Option<U256>, GenesisError> {
        self.read(name, quantity)
    }

    pub(crate) fn flag(&self, name: &str) -> Result<Option<bool>, GenesisError> {
        self.read(name, |value| match value {
            Value::Bool(flag) => Ok(*flag),
            Value::String(text) if text.eq_ignore_ascii_case("true") => Ok(true),
            Value::String(text) if text.eq_ignore_ascii_case("false") => Ok(false),
            _ => Err("true or false was expected".into()),
        })
    }

    pub(crate) fn text(&self, name: &str) -> Result<Option<&str>, GenesisError> {
        match self.get(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(self.error(name, "a string was expected")),
        }
    }

    pub(crate) fn bytes(&self, name: &str) -> Result<Option<Bytes>, GenesisError> {
        self.read(name, |value| digits(value).and_then(bytes))
    }

    pub(crate) fn word(&self, name: &str) -> Result<Option<B256>, GenesisError> {
        self.read(name, |value| {
            let bytes = bytes(digits(value)?)?;
            if bytes.len() > 32 {
                return Err("at most 32 bytes were expected".into());
            }
            Ok(B256::left_padding_from(&bytes))
        })
    }

    pub(crate) fn address(&self, name: &str) -> Result<Option<Address>, GenesisError> {
        self.read(name, |value| match value {
            Value::String(text) => address(text),
            _ => Err("an address was expected".into()),
        })
    }
}

pub(crate) fn address(text: &str) -> Result<Address, String> {
    let bytes = bytes(text)?;
    <[u8; 20]>::try_from(bytes.as_ref())
        .map(Address::from)
        .map_err(|_| format!("an address has 20 bytes, this one {}", bytes.len()))
}

pub(crate) fn bytes(text: &str) -> Result<Bytes, String> {
    let digits = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")).unwrap_or(text);
    let decoded =
        if digits.len().is_multiple_of(2) { hex::decode(digits) } else { hex::decode(format!("0{digits}")) };
    decoded.map(Bytes::from).map_err(|error| format!("hexadecimal digits were expected: {error}"))
}

fn digits(value: &Value) -> Result<&str, String> {
    value.as_str().ok_or_else(|| "a string of hexadecimal digits was expected".into())
}

/// A number as `0x` with hexadecimal digits, as decimal digits or as a JSON number.
pub(crate) fn quantity(value: &Value) -> Result<U256, String> {
    match value {
        Value::Number(number) => number
            .as_u64()
            .map(U256::from)
            .ok_or_else(|| "a whole number was expected; write one above 64 bits as a string".into()),
        Value::String(text) => {
            // The Ethereum tests mark numbers that are meant to be too large.
            let text = text.trim().trim_start_matches("0x:bigint ");
            let parsed = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
                Some("") => return Ok(U256::ZERO),
                Some(digits) => U256::from_str_radix(digits, 16),
                None if text.is_empty() => return Err("a number was expected".into()),
                None => U256::from_str_radix(text, 10),
            };
            parsed.map_err(|_| {
                "a number of at most 256 bits was expected, hexadecimal after 0x or decimal".into()
            })
        }
        _ => Err("a number was expected".into()),
    }
}

/// A slot or its value: hexadecimal whether or not it says so.
pub(crate) fn word(text: &str) -> Result<U256, String> {
    let bytes = bytes(text)?;
    if bytes.len() > 32 {
        return Err("at most 32 bytes were expected".into());
    }
    Ok(U256::from_be_slice(&bytes))
}

/// The text without `//` and `/* */` comments, which Besu allows in its genesis files.
pub(super) fn without_comments(text: &str) -> Cow<'_, str> {
    if !text.contains("//") && !text.contains("/*") {
        return Cow::Borrowed(text);
    }
    let mut kept = String::with_capacity(text.len());
    let mut characters = text.chars().peekable();
    let mut quoted = false;
    while let Some(character) = characters.next() {
        match (quoted, character, characters.peek()) {
            (true, '\\', Some(_)) => {
                kept.push(character);
                kept.extend(characters.next());
            }
            (_, '"', _) => {
                quoted = !quoted;
                kept.push(character);
            }
            (false, '/', Some('/')) => {
                for skipped in characters.by_ref() {
                    if skipped == '\n' {
                        kept.push('\n');
                        break;
                    }
                }
            }
            (false, '/', Some('*')) => {
                let mut previous = ' ';
                characters.next();
                for skipped in characters.by_ref() {
                    if previous == '*' && skipped == '/' {
                        break;
                    }
                    if skipped == '\n' {
                        kept.push('\n');
                    }
                    previous = skipped;
                }
            }
            _ => kept.push(character),
        }
    }
    Cow::Owned(kept)
}
