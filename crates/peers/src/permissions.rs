//! Which nodes may be peers and which accounts may send transactions: `permissions_config.toml` as
//! Besu's local permissioning documents it.
//!
//! ```toml
//! nodes-allowlist = ["enode://<128 hex digits>@127.0.0.1:30303"]
//! accounts-allowlist = ["0xfe3b557e8fb62b89f4916b721be55ceb828dbd73"]
//! ```
//!
//! A node is permitted by its key, which it proves; the address in the URL is where to reach it and
//! gives no right.

use crate::enode::{Enode, EnodeError};
use crate::key::NodeId;
use alloy_primitives::Address;
use std::collections::{HashMap, HashSet};
use std::fs;
use std::io::{self, Read};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

const NODES: &str = "nodes-allowlist";
const ACCOUNTS: &str = "accounts-allowlist";

/// The largest file that is read.
const LARGEST_FILE: u64 = 16 << 20;

/// The lists of one file; a list that is not there is `None`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Lists {
    /// The nodes that may be peers.
    pub nodes: Option<HashMap<NodeId, Enode>>,
    /// The accounts that may send transactions.
    pub accounts: Option<HashSet<Address>>,
}

impl Lists {
    /// Reads the contents of a permissions file.
    ///
    /// # Errors
    /// [`PermissionsFault`], with the line and the key.
    pub fn parse(text: &str) -> Result<Self, PermissionsFault> {
        let table = DeTable::parse(text).map_err(|error| {
            let line = error.span().map_or(1, |span| line(text, &span));
            PermissionsFault::Toml { line, message: error.message().to_owned() }
        })?;
        let mut lists = Self::default();
        for (key, value) in table.get_ref() {
            match key.get_ref().as_ref() {
                NODES => lists.nodes = Some(entries(text, NODES, value, node)?.into_iter().collect()),
                ACCOUNTS => {
                    lists.accounts = Some(entries(text, ACCOUNTS, value, account)?.into_iter().collect());
                }
                other => {
                    let line = line(text, &key.span());
                    return Err(PermissionsFault::Key { line, key: other.to_owned() });
                }
            }
        }
        Ok(lists)
    }
}

fn node(text: &str) -> Result<(NodeId, Enode), EntryFault> {
    let enode: Enode = text.parse()?;
    Ok((enode.id, enode))
}

fn account(text: &str) -> Result<Address, EntryFault> {
    let digits = text.strip_prefix("0x").unwrap_or(text);
    if digits.len() != 40 {
        return Err(EntryFault::Account);
    }
    digits.parse().map_err(|_| EntryFault::Account)
}

fn entries<T>(
    text: &str,
    key: &'static str,
    value: &Spanned<DeValue<'_>>,
    parse: impl Fn(&str) -> Result<T, EntryFault>,
) -> Result<Vec<T>, PermissionsFault> {
    let not_list = |value: &Spanned<DeValue<'_>>| PermissionsFault::NotList {
        line: line(text, &value.span()),
        key,
        found: value.get_ref().type_str(),
    };
    let list = value.get_ref().as_array().ok_or_else(|| not_list(value))?;
    let entry = |value: &Spanned<DeValue<'_>>| {
        let entry = value.get_ref().as_str().ok_or_else(|| not_list(value))?;
        parse(entry).map_err(|fault| PermissionsFault::Entry {
            line: line(text, &value.span()),
            key,
            entry: entry.chars().take(200).collect(),
            fault,
        })
    };
    list.iter().map(entry).collect()
}

/// The line, counted from 1, where a span begins.
fn line(text: &str, span: &Range<usize>) -> usize {
    let before = text.get(..span.start).unwrap_or(text);
    before.bytes().filter(|byte| *byte == b'\n').count() + 1
}

/// Both rules, for whoever has to ask, and the files behind them. Clones share their lists.
#[derive(Debug, Clone)]
pub struct Permissions {
    nodes_file: Option<PathBuf>,
    accounts_file: Option<PathBuf>,
    lists: Arc<RwLock<Arc<Lists>>>,
}

impl Permissions {
    /// Every node and every account is permitted.
    #[must_use]
    pub fn everyone() -> Self {
        Self::of(Lists::default())
    }

    /// By lists without files.
    #[must_use]
    pub fn of(lists: Lists) -> Self {
        Self { nodes_file: None, accounts_file: None, lists: Arc::new(RwLock::new(Arc::new(lists))) }
    }

    /// Reads the files of the rules that are switched on; both may be the same file. A file has its
    /// list, if only an empty one, which permits nobody.
    ///
    /// # Errors
    /// [`PermissionsError`], with the path, the line and the key.
    pub fn open(
        nodes_file: Option<PathBuf>,
        accounts_file: Option<PathBuf>,
    ) -> Result<Self, PermissionsError> {
        let permissions = Self { nodes_file, accounts_file, ..Self::everyone() };
        permissions.reload()?;
        Ok(permissions)
    }

    /// Reads the files again. Pass the rules to the sessions that stand with
    /// [`Network::apply_permissions`](crate::Network::apply_permissions).
    ///
    /// # Errors
    /// [`PermissionsError`]; both rules are then what they were.
    pub fn reload(&self) -> Result<(), PermissionsError> {
        let mut lists = Lists::default();
        if let Some(path) = &self.nodes_file {
            let nodes = read(path)?.nodes;
            lists.nodes = Some(nodes.ok_or_else(|| missing(path, NODES))?);
        }
        if let Some(path) = &self.accounts_file {
            let accounts = read(path)?.accounts;
            lists.accounts = Some(accounts.ok_or_else(|| missing(path, ACCOUNTS))?);
        }
        if self.nodes_file.is_some() || self.accounts_file.is_some() {
            self.replace(lists);
        }
        Ok(())
    }

    /// Puts other lists in the place of those there are.
    pub fn replace(&self, lists: Lists) {
        *self.lists.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(lists);
    }

    /// The lists as they are now.
    #[must_use]
    pub fn lists(&self) -> Arc<Lists> {
        Arc::clone(&self.lists.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Whether a node may be a peer.
    #[must_use]
    pub fn permits_node(&self, id: &NodeId) -> bool {
        self.lists().nodes.as_ref().is_none_or(|nodes| nodes.contains_key(id))
    }

    /// Whether a node is permitted by name, not only because everyone is.
    #[must_use]
    pub fn names_node(&self, id: &NodeId) -> bool {
        self.lists().nodes.as_ref().is_some_and(|nodes| nodes.contains_key(id))
    }

    /// Whether an account may send transactions.
    #[must_use]
    pub fn permits_account(&self, account: &Address) -> bool {
        self.lists().accounts.as_ref().is_none_or(|accounts| accounts.contains(account))
    }
}

fn missing(path: &Path, key: &'static str) -> PermissionsError {
    PermissionsError { path: path.to_owned(), fault: PermissionsFault::Missing { key } }
}

fn read(path: &Path) -> Result<Lists, PermissionsError> {
    let fail = |fault| PermissionsError { path: path.to_owned(), fault };
    let io = |error| fail(PermissionsFault::Io(error));
    let mut text = String::new();
    let file = fs::File::open(path).map_err(io)?;
    file.take(LARGEST_FILE + 1).read_to_string(&mut text).map_err(io)?;
    if text.len() as u64 > LARGEST_FILE {
        return Err(fail(PermissionsFault::Large));
    }
    Lists::parse(&text).map_err(fail)
}

/// A permissions file that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("the permissions file {} cannot be used", path.display())]
pub struct PermissionsError {
    /// The file.
    pub path: PathBuf,
    /// What is wrong with it.
    #[source]
    pub fault: PermissionsFault,
}

/// What is wrong with a permissions file. Lines are counted from 1.
#[derive(Debug, thiserror::Error)]
pub enum PermissionsFault {
    /// Not TOML.
    #[error("line {line}: this is not TOML: {message}")]
    Toml {
        /// Where.
        line: usize,
        /// What the parser says.
        message: String,
    },
    /// A key that means nothing.
    #[error("line {line}: {key} is not known here; the keys are {NODES} and {ACCOUNTS}")]
    Key {
        /// Where.
        line: usize,
        /// The key.
        key: String,
    },
    /// Not a list of texts.
    #[error("line {line}: {key} is a list of texts, here is a value of type {found}")]
    NotList {
        /// Where.
        line: usize,
        /// The key.
        key: &'static str,
        /// The type found.
        found: &'static str,
    },
    /// An entry that is not what the list holds.
    #[error("line {line}: the entry {entry:?} of {key} cannot be used")]
    Entry {
        /// Where.
        line: usize,
        /// The list.
        key: &'static str,
        /// The beginning of the entry.
        entry: String,
        /// What is wrong with it.
        #[source]
        fault: EntryFault,
    },
    /// The rule is switched on and its list is not in the file.
    #[error("{key} is missing; to permit nobody, write {key} = []")]
    Missing {
        /// The list.
        key: &'static str,
    },
    /// Larger than any such file.
    #[error("the file is larger than {LARGEST_FILE} bytes")]
    Large,
    /// The file system refused, or the file is not UTF-8.
    #[error("the file cannot be read")]
    Io(#[source] io::Error),
}

/// What is wrong with an entry.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EntryFault {
    /// Not an enode URL.
    #[error(transparent)]
    Enode(#[from] EnodeError),
    /// Not an account.
    #[error("an account is 40 hex digits, with or without 0x")]
    Account,
}

#[cfg(test)]
mod tests;
