//! The RLP tests and the trie tests: the encodings under everything else.

use std::path::{Path, PathBuf};

use alloy_primitives::{B256, U512, keccak256};
use alloy_rlp::{Encodable, Header, PayloadView};
use serde_json::{Map, Value};
use tally_state::MemoryTrie;

use super::files::{find, spread, tests};
use super::{Options, TestResult, ToolError};
use crate::genesis::json;

/// Lists in lists, at most; nothing that Ethereum encodes comes near it.
const DEEPEST: usize = 1_024;

/// Runs the RLP tests under the paths: what is encoded is encoded as they say and read back, what is invalid is refused.
///
/// # Errors
/// A file that cannot be read.
pub fn rlp_tests(paths: &[PathBuf], options: &Options) -> Result<Vec<TestResult>, ToolError> {
    run(paths, options, |_, test| check_rlp(test))
}

/// Runs the trie tests under the paths. Keys are hashed first in files whose names say `secure`.
///
/// # Errors
/// A file that cannot be read.
pub fn trie_tests(paths: &[PathBuf], options: &Options) -> Result<Vec<TestResult>, ToolError> {
    run(paths, options, |path, test| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
        if test.contains_key("tests") {
            check_neighbours(test)
        } else {
            check_trie(test, name.contains("secure"))
        }
    })
}

fn run(
    paths: &[PathBuf],
    options: &Options,
    check: impl Fn(&Path, &Map<String, Value>) -> Result<(), String> + Sync,
) -> Result<Vec<TestResult>, ToolError> {
    let files = find(paths)?;
    let results = spread(&files, options.threads, |path| {
        let mut results = Vec::new();
        for (name, test) in tests(path)? {
            // They are the same under every fork.
            if options.takes(&name, options.fork.as_deref().unwrap_or_default()) {
                let outcome = test.as_object().ok_or_else(|| "no object".to_owned());
                results.push(TestResult::new(&name, "", None, outcome.and_then(|test| check(path, test))));
            }
        }
        Ok::<_, ToolError>(results)
    });
    Ok(results.into_iter().collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect())
}

/// What RLP encodes (yellow paper, appendix B).
#[derive(Debug, PartialEq, Eq)]
enum Item {
    Bytes(Vec<u8>),
    List(Vec<Self>),
}

impl Encodable for Item {
    fn encode(&self, out: &mut dyn alloy_rlp::BufMut) {
        match self {
            Self::Bytes(bytes) => bytes.as_slice().encode(out),
            Self::List(items) => alloy_rlp::encode_list::<Self, Self>(items, out),
        }
    }

    fn length(&self) -> usize {
        match self {
            Self::Bytes(bytes) => bytes.as_slice().length(),
            Self::List(items) => alloy_rlp::list_length::<Self, Self>(items),
        }
    }
}

impl Item {
    fn decode(mut encoded: &[u8]) -> Result<Self, String> {
        let item = Self::decode_first(&mut encoded, DEEPEST)?;
        if encoded.is_empty() { Ok(item) } else { Err(format!("{} bytes follow", encoded.len())) }
    }

    fn decode_first(encoded: &mut &[u8], deeper: usize) -> Result<Self, String> {
        match Header::decode_raw(encoded).map_err(|error| error.to_string())? {
            PayloadView::String(bytes) => Ok(Self::Bytes(bytes.to_vec())),
            PayloadView::List(items) => {
                let deeper = deeper.checked_sub(1).ok_or("too many lists in lists")?;
                let decode = |mut item: &[u8]| Self::decode_first(&mut item, deeper);
                items.into_iter().map(decode).collect::<Result<_, _>>().map(Self::List)
            }
        }
    }

    /// As the tests write it: text, a number, a large one as text after `#`, a list.
    fn from_value(value: &Value) -> Result<Self, String> {
        let number = |digits: &str| {
            let number = U512::from_str_radix(digits, 10).map_err(|error| error.to_string())?;
            Ok(Self::Bytes(number.to_be_bytes_trimmed_vec()))
        };
        match value {
            Value::String(text) => match text.strip_prefix('#') {
                Some(digits) => number(digits),
                None => Ok(Self::Bytes(text.as_bytes().to_vec())),
            },
            Value::Number(digits) => number(&digits.to_string()),
            Value::Array(items) => {
                items.iter().map(Self::from_value).collect::<Result<_, _>>().map(Self::List)
            }
            _ => Err("what is to be encoded is no text, number or list".into()),
        }
    }
}

fn check_rlp(test: &Map<String, Value>) -> Result<(), String> {
    let encoded = json::bytes(text(test, "out")?)?;
    let decoded = Item::decode(&encoded);
    match test.get("in") {
        Some(Value::String(verdict)) if verdict == "INVALID" => match decoded {
            Ok(_) => Err("taken, expected to be refused".into()),
            Err(_) => Ok(()),
        },
        Some(Value::String(verdict)) if verdict == "VALID" => {
            let again = alloy_rlp::encode(decoded.map_err(|error| format!("refused: {error}"))?);
            if again == encoded { Ok(()) } else { Err("encoded again it is different".into()) }
        }
        Some(input) => {
            let item = Item::from_value(input)?;
            if alloy_rlp::encode(&item) != encoded {
                return Err("encoded differently".into());
            }
            match decoded {
                Ok(decoded) if decoded == item => Ok(()),
                Ok(_) => Err("decoded differently".into()),
                Err(error) => Err(format!("refused: {error}")),
            }
        }
        None => Err("`in` is missing".into()),
    }
}

fn check_trie(test: &Map<String, Value>, secure: bool) -> Result<(), String> {
    let expected = B256::left_padding_from(&json::bytes(text(test, "root")?)?);
    let input = test.get("in").unwrap_or(&Value::Null);
    let mut entries = entries(input)?;
    // The entries of a map come in any order.
    let orders = if input.is_object() { entries.len().max(1) } else { 1 };
    for _ in 0..orders {
        let mut trie = MemoryTrie::new();
        for (key, value) in &entries {
            let hash;
            let key = if secure {
                hash = keccak256(key);
                hash.as_slice()
            } else {
                key
            };
            trie.insert(key, value).map_err(|error| error.to_string())?;
        }
        let root = trie.root();
        if root != expected {
            return Err(format!("the root is {root}"));
        }
        if !entries.is_empty() {
            entries.rotate_left(1);
        }
    }
    Ok(())
}

/// Which keys come before and after another, for each of a list.
fn check_neighbours(test: &Map<String, Value>) -> Result<(), String> {
    let list =
        |name: &str| test.get(name).and_then(Value::as_array).ok_or_else(|| format!("`{name}` is no list"));
    let mut trie = MemoryTrie::new();
    for key in list("in")? {
        trie.insert(&data(key)?, b"x").map_err(|error| error.to_string())?;
    }
    let keys: Vec<Vec<u8>> = trie.entries().into_iter().map(|(key, _)| key).collect();
    for case in list("tests")? {
        let at = |place: usize| data(case.get(place).unwrap_or(&Value::Null));
        let (asked, before, after) = (at(0)?, at(1)?, at(2)?);
        let previous = keys.iter().rev().find(|key| **key < asked).cloned().unwrap_or_default();
        let next = keys.iter().find(|key| **key > asked).cloned().unwrap_or_default();
        if (previous, next) != (before, after) {
            return Err(format!("other keys are beside {case}"));
        }
    }
    Ok(())
}

/// A key and its value.
type Entry = (Vec<u8>, Vec<u8>);

/// Keys and values in order; an empty value for `null`, which deletes.
fn entries(input: &Value) -> Result<Vec<Entry>, String> {
    let value = |value: &Value| if value.is_null() { Ok(Vec::new()) } else { data(value) };
    match input {
        Value::Array(pairs) => pairs
            .iter()
            .map(|pair| {
                let at = |place: usize| pair.get(place).unwrap_or(&Value::Null);
                Ok((data(at(0))?, value(at(1))?))
            })
            .collect(),
        Value::Object(pairs) => {
            pairs.iter().map(|(key, it)| Ok((text_or_digits(key)?, value(it)?))).collect()
        }
        _ => Err("`in` is neither list nor map".into()),
    }
}

fn text<'a>(test: &'a Map<String, Value>, name: &str) -> Result<&'a str, String> {
    test.get(name).and_then(Value::as_str).ok_or_else(|| format!("`{name}` is missing"))
}

fn data(value: &Value) -> Result<Vec<u8>, String> {
    text_or_digits(value.as_str().ok_or("a key or value is no text")?)
}

/// Text that begins with `0x` stands for bytes.
fn text_or_digits(text: &str) -> Result<Vec<u8>, String> {
    if text.starts_with("0x") { Ok(json::bytes(text)?.to_vec()) } else { Ok(text.as_bytes().to_vec()) }
}
