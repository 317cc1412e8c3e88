//! Configuration: one TOML file, overridden by the environment, overridden by flags.
//!
//! Later sources win: file, then environment, then flags, key by key. A file is laid out in sections:
//!
//! ```toml
//! [settlement]
//! approvers = 4
//! ```
//!
//! The same key is `TALLY_SETTLEMENT__APPROVERS=4` in the environment (sections and keys are joined by two
//! underscores, in capitals) and `settlement.approvers=4` as a flag. A variable that begins with `TALLY_` but
//! holds no double underscore is not configuration and is left alone.
//!
//! The value of an override is TOML (`4`, `true`, `["a", "b"]`); what is not TOML is taken as text, and so is
//! everything that overrides text in the file. Digits that are to be text where the file has nothing are
//! written in quotes: `node.name='"42"'`.
//!
//! Types derive `Deserialize` with `#[serde(deny_unknown_fields)]`, so that a misspelled key is an error.
//!
//! ```
//! #[derive(serde::Deserialize)]
//! #[serde(deny_unknown_fields)]
//! struct Config { settlement: Settlement }
//! #[derive(serde::Deserialize)]
//! #[serde(deny_unknown_fields)]
//! struct Settlement { approvers: u32 }
//!
//! let config: Config = tally_ops::config::Loader::new().flags(["settlement.approvers=4"]).load()?;
//! assert_eq!(config.settlement.approvers, 4);
//! # Ok::<(), tally_ops::config::ConfigError>(())
//! ```

mod error;
mod locate;

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use toml::{Table, Value};

pub use error::{ConfigError, Origin};

/// The largest configuration file that is read, in bytes, unless [`Loader::max_bytes`] says otherwise.
pub const DEFAULT_MAX_BYTES: u64 = 1024 * 1024;

/// The largest value of one override, in bytes.
pub const MAX_OVERRIDE_BYTES: usize = 64 * 1024;

/// What every configuration variable of the environment begins with.
pub const ENVIRONMENT_PREFIX: &str = "TALLY_";

/// Gathers the sources of a configuration and loads it.
#[derive(Debug, Clone)]
pub struct Loader {
    file: Option<PathBuf>,
    environment: Vec<(String, String)>,
    flags: Vec<String>,
    max_bytes: u64,
}

impl Default for Loader {
    fn default() -> Self {
        Self::new()
    }
}

/// One key set outside the file.
struct Override {
    path: Vec<String>,
    text: String,
    origin: Origin,
}

impl Loader {
    /// A loader without any source: it loads a type of which every key has a default.
    #[must_use]
    pub fn new() -> Self {
        Self { file: None, environment: Vec::new(), flags: Vec::new(), max_bytes: DEFAULT_MAX_BYTES }
    }

    /// Reads this file; that it cannot be read is an error.
    #[must_use]
    pub fn file(mut self, path: impl Into<PathBuf>) -> Self {
        self.file = Some(path.into());
        self
    }

    /// Takes overrides from these variables, usually `std::env::vars()`.
    ///
    /// Variables that are not configuration (see the module) are ignored.
    #[must_use]
    pub fn environment(mut self, variables: impl IntoIterator<Item = (String, String)>) -> Self {
        self.environment.extend(variables);
        // The order in which an operating system lists variables means nothing.
        self.environment.sort();
        self
    }

    /// Takes overrides from flags of the form `section.key=value`; of two for one key the later wins.
    #[must_use]
    pub fn flags<S: Into<String>>(mut self, flags: impl IntoIterator<Item = S>) -> Self {
        self.flags.extend(flags.into_iter().map(Into::into));
        self
    }

    /// Sets the largest file that is read, in bytes.
    #[must_use]
    pub fn max_bytes(mut self, bytes: u64) -> Self {
        self.max_bytes = bytes;
        self
    }

    /// Reads every source and returns the typed configuration.
    ///
    /// # Errors
    /// [`ConfigError`], which names the file with line and column, the variable or the flag, and the key.
    pub fn load<T: DeserializeOwned>(&self) -> Result<T, ConfigError> {
        let text = match &self.file {
            Some(path) => read_limited(path, self.max_bytes)?,
            None => String::new(),
        };
        let mut table = self.parse(&text)?;

        let overrides = self.overrides()?;
        for change in &overrides {
            set(&mut table, change)?;
        }
        serde_path_to_error::deserialize(Value::Table(table)).map_err(|error| {
            let path = locate::segments(error.path());
            let key = error.path().to_string();
            // The last override that lies on the path of the fault, else the place in the file.
            let origin = overrides
                .iter()
                .rev()
                .find(|change| path.names().starts_with(&change.path))
                .map(|change| change.origin.clone())
                .or_else(|| self.file.as_deref().map(|file| locate::in_file(file, &text, &path)))
                .unwrap_or(Origin::Defaults);
            ConfigError::Key { origin, key, message: error.inner().message().to_owned() }
        })
    }

    fn parse(&self, text: &str) -> Result<Table, ConfigError> {
        text.parse::<Table>().map_err(|error| {
            let (line, column) = locate::position(text, error.span().map_or(0, |span| span.start));
            ConfigError::Syntax {
                path: self.file.clone().unwrap_or_default(),
                line,
                column,
                message: error.message().to_owned(),
            }
        })
    }

    fn overrides(&self) -> Result<Vec<Override>, ConfigError> {
        let mut found = Vec::new();
        for (variable, text) in &self.environment {
            let Some(name) = variable.strip_prefix(ENVIRONMENT_PREFIX).filter(|name| name.contains("__"))
            else {
                continue;
            };
            let path = name.split("__").map(str::to_ascii_lowercase).collect();
            let origin = Origin::Environment { variable: variable.clone() };
            found.push(Override::new(path, text, origin)?);
        }
        for flag in &self.flags {
            let origin = Origin::Flag { flag: flag.chars().take(80).collect() };
            let Some((key, text)) = flag.split_once('=') else {
                return Err(ConfigError::Override {
                    origin,
                    message: "expected section.key=value".to_owned(),
                });
            };
            let path = key.split('.').map(|part| part.trim().to_owned()).collect();
            found.push(Override::new(path, text, origin)?);
        }
        Ok(found)
    }
}

impl Override {
    fn new(path: Vec<String>, text: &str, origin: Origin) -> Result<Self, ConfigError> {
        if path.iter().any(String::is_empty) {
            let message = "a part of the key is empty".to_owned();
            return Err(ConfigError::Override { origin, message });
        }
        if text.len() > MAX_OVERRIDE_BYTES {
            let message =
                format!("the value has {} bytes, at most {MAX_OVERRIDE_BYTES} are read", text.len());
            return Err(ConfigError::Override { origin, message });
        }
        Ok(Self { path, text: text.to_owned(), origin })
    }
}

/// Sets one key, making the sections that lead to it.
fn set(table: &mut Table, change: &Override) -> Result<(), ConfigError> {
    let Some((last, sections)) = change.path.split_last() else {
        return Ok(());
    };
    let mut table = table;
    for section in sections {
        let entry = table.entry(section.clone()).or_insert_with(|| Value::Table(Table::new()));
        table = match entry {
            Value::Table(inner) => inner,
            other => {
                return Err(ConfigError::Override {
                    origin: change.origin.clone(),
                    message: format!("`{section}` is of type {} and has no keys", other.type_str()),
                });
            }
        };
    }
    let value = match table.get(last) {
        // What is text in the file stays text, so that a name of digits needs no quotes.
        Some(Value::String(_)) => text_value(&change.text),
        _ => toml_value(&change.text),
    };
    table.insert(last.clone(), value);
    Ok(())
}

/// Text, with or without the quotes that TOML would want.
fn text_value(text: &str) -> Value {
    match toml_value(text) {
        quoted @ Value::String(_) => quoted,
        _ => Value::String(text.to_owned()),
    }
}

fn toml_value(text: &str) -> Value {
    toml::de::ValueDeserializer::parse(text)
        .and_then(serde::Deserialize::deserialize)
        .unwrap_or_else(|_| Value::String(text.to_owned()))
}

fn read_limited(path: &Path, limit: u64) -> Result<String, ConfigError> {
    let failed = |source| ConfigError::Read { path: path.to_owned(), source };
    let file = File::open(path).map_err(failed)?;
    let mut text = String::new();
    // One byte more than allowed tells a file of exactly the limit from a longer one, and a pipe has no size.
    file.take(limit.saturating_add(1)).read_to_string(&mut text).map_err(failed)?;
    if text.len() as u64 > limit {
        return Err(ConfigError::TooLarge { path: path.to_owned(), limit });
    }
    Ok(text)
}

#[cfg(test)]
mod tests;
