//! Options of a configuration file, of the environment and of the command line.

use super::besu::{self, Standing};
use super::nearest::nearest;
use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// A configuration that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{}", refused(path.as_deref()))]
pub struct SettingsError {
    /// The configuration file, if there is one.
    pub path: Option<PathBuf>,
    /// All that is wrong.
    #[source]
    pub faults: SettingsFaults,
}

fn refused(path: Option<&Path>) -> String {
    match path {
        Some(path) => format!("the configuration file {} cannot be used", path.display()),
        None => "the options cannot be used".to_owned(),
    }
}

/// All that is wrong with a configuration: one fault at least, those of the file in its order.
#[derive(Debug)]
pub struct SettingsFaults(pub Vec<SettingsFault>);

impl std::error::Error for SettingsFaults {}

impl fmt::Display for SettingsFaults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [fault] = &self.0[..] {
            return fault.fmt(f);
        }
        write!(f, "{} faults", self.0.len())?;
        self.0.iter().try_for_each(|fault| write!(f, "\n  {fault}"))
    }
}

impl From<SettingsFault> for SettingsFaults {
    fn from(fault: SettingsFault) -> Self {
        Self(vec![fault])
    }
}

/// Where an option is set. An earlier place counts more than a later one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// On the command line.
    Arguments,
    /// In a variable of the environment.
    Environment,
    /// On this line of the configuration file, counted from 1.
    Line(usize),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Arguments => f.write_str("command line"),
            Self::Environment => f.write_str("environment"),
            Self::Line(line) => write!(f, "line {line}"),
        }
    }
}

/// An option of Besu's that changes nothing here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ineffective {
    /// Where it is set.
    pub place: Place,
    /// The option.
    pub key: &'static str,
    /// Why it changes nothing.
    pub why: &'static str,
}

/// What is wrong with a configuration.
#[derive(Debug, thiserror::Error)]
pub enum SettingsFault {
    /// Not TOML.
    #[error("line {line}: this is not TOML: {message}")]
    Toml {
        /// The line, counted from 1.
        line: usize,
        /// What the parser says.
        message: String,
    },
    /// An option that does not exist.
    #[error("{place}: there is no option {key}{}", suggestion(*nearest))]
    Unknown {
        /// Where.
        place: Place,
        /// The key.
        key: String,
        /// The option that was probably meant.
        nearest: Option<&'static str>,
    },
    /// A value of another type.
    #[error("{place}: {key} is {expected}, here is a value of type {found}")]
    Type {
        /// Where.
        place: Place,
        /// The option.
        key: &'static str,
        /// What it takes.
        expected: &'static str,
        /// The type found.
        found: &'static str,
    },
    /// A value that the option does not take.
    #[error("{place}: {key} is {expected}, not {found}")]
    Value {
        /// Where.
        place: Place,
        /// The option.
        key: &'static str,
        /// What it takes.
        expected: String,
        /// What is there.
        found: String,
    },
    /// An option of Besu's that asks for what this program does not do.
    #[error("{place}: {key} is not possible here: {why}")]
    Refused {
        /// Where.
        place: Place,
        /// The option.
        key: &'static str,
        /// Why not, and what does nearly the same.
        why: &'static str,
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

/// A value as it is written.
enum Value<'a> {
    Toml(DeValue<'a>),
    /// From the command line or the environment: all types are written as texts there, lists with commas.
    Text(String),
}

/// A value that is set, with its place.
struct Setting<'a> {
    place: Place,
    value: Value<'a>,
}

/// The options that are set: each is asked for by name, and what is not asked for in the end is a fault.
/// A fault is written down, and the default is given in the value's stead, so that all faults are found.
pub(super) struct Options<'a> {
    text: &'a str,
    base: &'a Path,
    left: BTreeMap<String, Setting<'a>>,
    asked: Vec<&'static str>,
    faults: Vec<SettingsFault>,
    ineffective: Vec<Ineffective>,
}

/// A value that was found, with what is needed to say what is wrong with it.
pub(super) struct Found<'a> {
    place: Place,
    key: &'static str,
    value: Value<'a>,
}

impl<'a> Options<'a> {
    /// No options.
    pub(super) fn none() -> Self {
        Self {
            text: "",
            base: Path::new(""),
            left: BTreeMap::new(),
            asked: Vec::new(),
            faults: Vec::new(),
            ineffective: Vec::new(),
        }
    }

    /// The options of a file, whose relative paths start from `base`.
    pub(super) fn parse(text: &'a str, base: &'a Path) -> Result<Self, SettingsFault> {
        let table = DeTable::parse(text).map_err(|error| SettingsFault::Toml {
            line: error.span().map_or(1, |span| line(text, &span)),
            message: error.message().to_owned(),
        })?;
        let mut left = BTreeMap::new();
        for (key, value) in table.into_inner() {
            let place = Place::Line(line(text, &key.span()));
            left.insert(key.get_ref().to_string(), Setting { place, value: Value::Toml(value.into_inner()) });
        }
        Ok(Self { text, base, left, ..Self::none() })
    }

    /// Sets an option in a place that counts more than those before.
    pub(super) fn set(&mut self, place: Place, key: &str, value: String) {
        self.left.insert(key.to_owned(), Setting { place, value: Value::Text(value) });
    }

    /// Takes an option's other name for the option itself.
    pub(super) fn rename(&mut self, other: &str, key: &'static str) {
        let Some(setting) = self.left.remove(other) else { return };
        let counts = self.left.get(key).is_none_or(|before| setting.place < before.place);
        if counts {
            self.left.insert(key.to_owned(), setting);
        }
    }

    /// The value of an option, if it is set.
    fn take(&mut self, key: &'static str) -> Option<Found<'a>> {
        self.asked.push(key);
        let Setting { place, value } = self.left.remove(key)?;
        Some(Found { place, key, value })
    }

    /// What `read` makes of the option's value; none where it is not set or faulty.
    fn read<T>(
        &mut self,
        key: &'static str,
        read: impl FnOnce(&Found<'a>) -> Result<T, SettingsFault>,
    ) -> Option<T> {
        let found = self.take(key)?;
        read(&found).map_err(|fault| self.faults.push(fault)).ok()
    }

    pub(super) fn flag(&mut self, key: &'static str, default: bool) -> bool {
        self.read(key, |found| match &found.value {
            Value::Toml(DeValue::Boolean(flag)) => Ok(*flag),
            Value::Toml(_) => Err(found.not_a("true or false")),
            Value::Text(text) if text.eq_ignore_ascii_case("true") => Ok(true),
            Value::Text(text) if text.eq_ignore_ascii_case("false") => Ok(false),
            Value::Text(text) => Err(found.refuse("true or false".to_owned(), text)),
        })
        .unwrap_or(default)
    }

    /// A number within these bounds.
    pub(super) fn number<N>(
        &mut self,
        key: &'static str,
        default: N,
        bounds: std::ops::RangeInclusive<N>,
    ) -> N
    where
        N: TryFrom<u64> + PartialOrd + std::fmt::Display,
    {
        self.read(key, |found| {
            let (number, written) = match &found.value {
                Value::Toml(DeValue::Integer(written)) => {
                    (u64::from_str_radix(written.as_str(), written.radix()).ok(), written.to_string())
                }
                Value::Toml(_) => return Err(found.not_a("a number")),
                Value::Text(text) => (unsigned(text), format!("{text:?}")),
            };
            match number.and_then(|number| N::try_from(number).ok()).filter(|number| bounds.contains(number))
            {
                Some(number) => Ok(number),
                None => {
                    let expected = format!("a number from {} to {}", bounds.start(), bounds.end());
                    Err(SettingsFault::Value { place: found.place, key, expected, found: written })
                }
            }
        })
        .unwrap_or(default)
    }

    /// A path. One of the file that is relative starts from the file's directory, others from the working directory.
    pub(super) fn path(&mut self, key: &'static str) -> Option<PathBuf> {
        let base = self.base;
        self.read(key, |found| {
            let text = found.text()?;
            Ok(match found.value {
                Value::Toml(_) => base.join(text),
                Value::Text(_) => PathBuf::from(text),
            })
        })
    }

    /// A text that is understood by `parse`; `expected` says what it is.
    pub(super) fn parsed<T>(
        &mut self,
        key: &'static str,
        expected: &str,
        parse: impl Fn(&str) -> Option<T>,
    ) -> Option<T> {
        self.read(key, |found| {
            let text = found.text()?;
            parse(text).ok_or_else(|| found.refuse(expected.to_owned(), text))
        })
    }

    /// A list of such texts; as with Besu, it may also be one text with commas. Entries of which `changes_nothing` holds
    /// are passed over, and `why` is written down.
    pub(super) fn list_without<T>(
        &mut self,
        key: &'static str,
        expected: &str,
        parse: impl Fn(&str) -> Option<T>,
        (changes_nothing, why): (impl Fn(&str) -> bool, &'static str),
    ) -> Option<Vec<T>> {
        let Some(place) = self.left.get(key).map(|setting| setting.place) else {
            self.asked.push(key);
            return None;
        };
        let parse = |text: &str| match changes_nothing(text) {
            true => Some(None),
            false => parse(text).map(Some),
        };
        let entries = self.list(key, expected, parse)?;
        if entries.iter().any(Option::is_none) {
            self.ineffective.push(Ineffective { place, key, why });
        }
        Some(entries.into_iter().flatten().collect())
    }

    /// A list of such texts; as with Besu, it may also be one text with commas.
    pub(super) fn list<T>(
        &mut self,
        key: &'static str,
        expected: &str,
        parse: impl Fn(&str) -> Option<T>,
    ) -> Option<Vec<T>> {
        let file = self.text;
        self.read(key, |found| {
            let one = |place: Place, text: &str| {
                parse(text).ok_or_else(|| SettingsFault::Value {
                    place,
                    key,
                    expected: format!("a list of {expected}"),
                    found: format!("{text:?}"),
                })
            };
            match &found.value {
                Value::Toml(DeValue::Array(entries)) => {
                    let entry = |entry: &Spanned<DeValue<'_>>| {
                        let place = Place::Line(line(file, &entry.span()));
                        let text = entry.get_ref().as_str().ok_or(SettingsFault::Type {
                            place,
                            key,
                            expected: "a list of texts",
                            found: entry.get_ref().type_str(),
                        })?;
                        one(place, text)
                    };
                    entries.iter().map(entry).collect()
                }
                _ => {
                    let text = found.text().map_err(|_| found.not_a("a list of texts"))?;
                    parts(text).map(|part| one(found.place, part)).collect()
                }
            }
        })
    }

    /// Writes a fault down.
    pub(super) fn fault(&mut self, fault: SettingsFault) {
        self.faults.push(fault);
    }

    /// The options that were asked for.
    pub(super) fn asked(&self) -> Vec<&'static str> {
        self.asked.clone()
    }

    /// Sorts out what was not asked for: options of Besu's that change nothing here are given; all else is a fault, and so
    /// is what was found before.
    pub(super) fn finish(mut self) -> Result<Vec<Ineffective>, SettingsFaults> {
        let mut ineffective = std::mem::take(&mut self.ineffective);
        for (name, Setting { place, value }) in std::mem::take(&mut self.left) {
            match besu::standing(&name) {
                Some((key, Standing::NoEffect(why))) => ineffective.push(Ineffective { place, key, why }),
                Some((key, Standing::Absent { off, why })) => {
                    if !value.is_off(off) {
                        self.faults.push(SettingsFault::Refused { place, key, why });
                    }
                }
                None => {
                    let names = || self.asked.iter().copied().chain(besu::names());
                    let nearest = nearest(&name, names()).and_then(|near| names().find(|name| *name == near));
                    self.faults.push(SettingsFault::Unknown { place, key: name, nearest });
                }
            }
        }
        if self.faults.is_empty() {
            ineffective.sort_by_key(|option| option.place);
            return Ok(ineffective);
        }
        // In the order of the file, not of the alphabet.
        self.faults.sort_by_key(SettingsFault::place);
        Err(SettingsFaults(self.faults))
    }
}

impl SettingsFault {
    fn place(&self) -> Option<Place> {
        match self {
            Self::Toml { line, .. } => Some(Place::Line(*line)),
            Self::Unknown { place, .. }
            | Self::Type { place, .. }
            | Self::Value { place, .. }
            | Self::Refused { place, .. } => Some(*place),
            Self::Missing { .. } | Self::Large { .. } | Self::Io(_) => None,
        }
    }
}

impl Value<'_> {
    /// Whether it switches off what it is about: false, nothing at all, "none", or the value `off`.
    fn is_off(&self, off: &str) -> bool {
        let is_off =
            |text: &str| ["", "false", "none", off].iter().any(|name| text.trim().eq_ignore_ascii_case(name));
        match self {
            Value::Toml(DeValue::Boolean(flag)) => !flag,
            Value::Toml(DeValue::String(text)) => parts(text).all(is_off),
            Value::Toml(DeValue::Array(entries)) => {
                entries.iter().all(|entry| entry.get_ref().as_str().is_some_and(is_off))
            }
            Value::Toml(_) => false,
            Value::Text(text) => parts(text).all(is_off),
        }
    }
}

impl Found<'_> {
    fn text(&self) -> Result<&str, SettingsFault> {
        match &self.value {
            Value::Toml(value) => value.as_str().ok_or_else(|| self.not_a("a text")),
            Value::Text(text) => Ok(text),
        }
    }

    fn not_a(&self, expected: &'static str) -> SettingsFault {
        let found = match &self.value {
            Value::Toml(value) => value.type_str(),
            Value::Text(_) => "string",
        };
        SettingsFault::Type { place: self.place, key: self.key, expected, found }
    }

    fn refuse(&self, expected: String, found: &str) -> SettingsFault {
        let found = format!("{found:?}");
        SettingsFault::Value { place: self.place, key: self.key, expected, found }
    }
}

/// What stands between commas.
fn parts(text: &str) -> impl Iterator<Item = &str> {
    text.split(',').map(str::trim).filter(|part| !part.is_empty())
}

/// A number with decimal or, after 0x, hexadecimal digits.
fn unsigned(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.replace('_', "").parse().ok(),
    }
}

/// The line, counted from 1, where a span begins.
fn line(text: &str, span: &Range<usize>) -> usize {
    let before = text.get(..span.start).unwrap_or(text);
    before.bytes().filter(|byte| *byte == b'\n').count() + 1
}
