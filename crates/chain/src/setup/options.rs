//! Options of a TOML file: each is asked for by name, and what nobody asked for is an error.

use super::nearest::nearest;
use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::path::PathBuf;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// A configuration file that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("the configuration file {} cannot be used", path.display())]
pub struct SettingsError {
    /// The file.
    pub path: PathBuf,
    /// What is wrong with it.
    #[source]
    pub fault: SettingsFault,
}

/// What is wrong with a configuration file. Lines are counted from 1.
#[derive(Debug, thiserror::Error)]
pub enum SettingsFault {
    /// Not TOML.
    #[error("line {line}: this is not TOML: {message}")]
    Toml {
        /// Where.
        line: usize,
        /// What the parser says.
        message: String,
    },
    /// An option that does not exist.
    #[error("line {line}: there is no option {key}{}", suggestion(*nearest))]
    Unknown {
        /// Where.
        line: usize,
        /// The key.
        key: String,
        /// The option that was probably meant.
        nearest: Option<&'static str>,
    },
    /// A value of another type.
    #[error("line {line}: {key} is {expected}, here is a value of type {found}")]
    Type {
        /// Where.
        line: usize,
        /// The option.
        key: &'static str,
        /// What it takes.
        expected: &'static str,
        /// The type found.
        found: &'static str,
    },
    /// A value that the option does not take.
    #[error("line {line}: {key} is {expected}, not {found}")]
    Value {
        /// Where.
        line: usize,
        /// The option.
        key: &'static str,
        /// What it takes.
        expected: String,
        /// What is there.
        found: String,
    },
    /// An option that is needed.
    #[error("{key} is missing: {why}")]
    Missing {
        /// The option.
        key: &'static str,
        /// What it is needed for.
        why: &'static str,
    },
    /// Larger than any such file.
    #[error("the file is larger than {largest} bytes")]
    Large {
        /// Bytes that are read at most.
        largest: u64,
    },
    /// The file system refused, or the file is not UTF-8.
    #[error("the file cannot be read")]
    Io(#[source] io::Error),
}

fn suggestion(nearest: Option<&'static str>) -> String {
    nearest.map_or_else(String::new, |name| format!("; did you mean {name}?"))
}

/// The options of a file.
pub(super) struct Options<'a> {
    text: &'a str,
    left: BTreeMap<String, (Range<usize>, Spanned<DeValue<'a>>)>,
    asked: Vec<&'static str>,
}

/// A value that was found, with what is needed to say what is wrong with it.
pub(super) struct Found<'a> {
    line: usize,
    key: &'static str,
    value: DeValue<'a>,
}

impl<'a> Options<'a> {
    pub(super) fn parse(text: &'a str) -> Result<Self, SettingsFault> {
        let table = DeTable::parse(text).map_err(|error| SettingsFault::Toml {
            line: error.span().map_or(1, |span| line(text, &span)),
            message: error.message().to_owned(),
        })?;
        let entry = |(key, value): (Spanned<std::borrow::Cow<'a, str>>, _)| {
            (key.get_ref().to_string(), (key.span(), value))
        };
        Ok(Self { text, left: table.into_inner().into_iter().map(entry).collect(), asked: Vec::new() })
    }

    /// The value of an option, if it is set.
    pub(super) fn take(&mut self, key: &'static str) -> Option<Found<'a>> {
        self.asked.push(key);
        let (_, value) = self.left.remove(key)?;
        Some(Found { line: line(self.text, &value.span()), key, value: value.into_inner() })
    }

    pub(super) fn flag(&mut self, key: &'static str, default: bool) -> Result<bool, SettingsFault> {
        self.take(key).map_or(Ok(default), |found| match found.value {
            DeValue::Boolean(flag) => Ok(flag),
            _ => Err(found.not_a("true or false")),
        })
    }

    /// A number within these bounds.
    pub(super) fn number<N>(
        &mut self,
        key: &'static str,
        default: N,
        bounds: std::ops::RangeInclusive<N>,
    ) -> Result<N, SettingsFault>
    where
        N: TryFrom<u64> + PartialOrd + std::fmt::Display,
    {
        let Some(found) = self.take(key) else { return Ok(default) };
        let DeValue::Integer(written) = &found.value else { return Err(found.not_a("a number")) };
        let number = u64::from_str_radix(written.as_str(), written.radix()).ok();
        match number.and_then(|number| N::try_from(number).ok()).filter(|number| bounds.contains(number)) {
            Some(number) => Ok(number),
            None => {
                let expected = format!("a number from {} to {}", bounds.start(), bounds.end());
                let found_text = written.to_string();
                Err(SettingsFault::Value { line: found.line, key, expected, found: found_text })
            }
        }
    }

    pub(super) fn text(&mut self, key: &'static str) -> Result<Option<String>, SettingsFault> {
        self.take(key).map(|found| found.text().map(str::to_owned)).transpose()
    }

    /// A text that is understood by `parse`; `expected` says what it is.
    pub(super) fn parsed<T>(
        &mut self,
        key: &'static str,
        expected: &str,
        parse: impl Fn(&str) -> Option<T>,
    ) -> Result<Option<T>, SettingsFault> {
        let Some(found) = self.take(key) else { return Ok(None) };
        let text = found.text()?;
        match parse(text) {
            Some(value) => Ok(Some(value)),
            None => Err(found.refuse(expected.to_owned(), text)),
        }
    }

    /// A list of such texts; as with Besu, it may also be one text with commas.
    pub(super) fn list<T>(
        &mut self,
        key: &'static str,
        expected: &str,
        parse: impl Fn(&str) -> Option<T>,
    ) -> Result<Option<Vec<T>>, SettingsFault> {
        let Some(found) = self.take(key) else { return Ok(None) };
        let one = |line: usize, text: &str| {
            parse(text).ok_or_else(|| SettingsFault::Value {
                line,
                key,
                expected: format!("a list of {expected}"),
                found: format!("{text:?}"),
            })
        };
        match &found.value {
            DeValue::String(text) => {
                let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
                parts.map(|part| one(found.line, part)).collect::<Result<_, _>>().map(Some)
            }
            DeValue::Array(entries) => {
                let entry = |entry: &Spanned<DeValue<'_>>| {
                    let line = line(self.text, &entry.span());
                    let text = entry.get_ref().as_str().ok_or(SettingsFault::Type {
                        line,
                        key,
                        expected: "a list of texts",
                        found: entry.get_ref().type_str(),
                    })?;
                    one(line, text)
                };
                entries.iter().map(entry).collect::<Result<_, _>>().map(Some)
            }
            _ => Err(found.not_a("a list of texts")),
        }
    }

    /// The options that were asked for.
    pub(super) fn asked(&self) -> Vec<&'static str> {
        self.asked.clone()
    }

    /// Refuses what nobody asked for.
    pub(super) fn refuse_the_rest(&self) -> Result<(), SettingsFault> {
        // The first in the file, not in the alphabet.
        let first = self.left.iter().min_by_key(|(_, (span, _))| span.start);
        match first {
            None => Ok(()),
            Some((key, (span, _))) => Err(SettingsFault::Unknown {
                line: line(self.text, span),
                key: key.clone(),
                nearest: nearest(key, self.asked.iter().copied())
                    .and_then(|name| self.asked.iter().find(|asked| **asked == name).copied()),
            }),
        }
    }
}

impl Found<'_> {
    fn text(&self) -> Result<&str, SettingsFault> {
        self.value.as_str().ok_or_else(|| self.not_a("a text"))
    }

    fn not_a(&self, expected: &'static str) -> SettingsFault {
        SettingsFault::Type { line: self.line, key: self.key, expected, found: self.value.type_str() }
    }

    /// For an option that only says what holds anyway.
    pub(super) fn must_be_false(&self, expected: &str) -> Result<(), SettingsFault> {
        match self.value {
            DeValue::Boolean(false) => Ok(()),
            DeValue::Boolean(true) => Err(SettingsFault::Value {
                line: self.line,
                key: self.key,
                expected: expected.to_owned(),
                found: "true".to_owned(),
            }),
            _ => Err(self.not_a("true or false")),
        }
    }

    fn refuse(&self, expected: String, found: &str) -> SettingsFault {
        let found = format!("{found:?}");
        SettingsFault::Value { line: self.line, key: self.key, expected, found }
    }
}

/// The line, counted from 1, where a span begins.
fn line(text: &str, span: &Range<usize>) -> usize {
    let before = text.get(..span.start).unwrap_or(text);
    before.bytes().filter(|byte| *byte == b'\n').count() + 1
}
