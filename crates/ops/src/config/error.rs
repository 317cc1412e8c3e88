//! What can be wrong with a configuration, and where it came from.

use std::fmt;
use std::io;
use std::path::PathBuf;

/// Where a setting came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// A place in the file; line and column count from 1, the column in characters.
    File {
        /// The file.
        path: PathBuf,
        /// Its line.
        line: usize,
        /// The character in the line.
        column: usize,
    },
    /// A variable of the environment.
    Environment {
        /// Its name.
        variable: String,
    },
    /// A flag of the command line.
    Flag {
        /// Its text, cut to 80 characters.
        flag: String,
    },
    /// No source set it: a key without a default is missing everywhere.
    Defaults,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { path, line, column } => write!(f, "{}:{line}:{column}", path.display()),
            Self::Environment { variable } => write!(f, "environment {variable}"),
            Self::Flag { flag } => write!(f, "flag {flag}"),
            Self::Defaults => f.write_str("configuration"),
        }
    }
}

/// Why a configuration was refused.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file could not be read, or is not UTF-8.
    #[error("{}: cannot read the configuration", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The file is longer than what is read.
    #[error("{}: longer than the {limit} bytes that a configuration may have", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// The limit in bytes.
        limit: u64,
    },
    /// The file is not TOML.
    #[error("{}:{line}:{column}: {message}", path.display())]
    Syntax {
        /// The file.
        path: PathBuf,
        /// Line, from 1.
        line: usize,
        /// Character in the line, from 1.
        column: usize,
        /// What was wrong.
        message: String,
    },
    /// A key is unknown, missing or of the wrong type.
    #[error("{origin}: {key}: {message}")]
    Key {
        /// Where the value, or the section that lacks it, stands.
        origin: Origin,
        /// The key with its sections; `.` is the whole file.
        key: String,
        /// What was wrong.
        message: String,
    },
    /// An override is not of the form that overrides have.
    #[error("{origin}: {message}")]
    Override {
        /// Which one.
        origin: Origin,
        /// What was wrong.
        message: String,
    },
}
