use std::collections::HashMap;
use std::fs;
use std::hash::BuildHasher;
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use argon2::password_hash::{PasswordHash, PasswordHasher, PasswordVerifier, SaltString};
use argon2::{Algorithm, Argon2, Params, Version};
use serde::{Deserialize, Serialize};

use crate::permissions::{Permission, Permissions, UnknownPermission};

/// The longest password, in bytes; longer ones are wrong without being hashed.
pub(crate) const PASSWORD_LIMIT: usize = 1024;
/// The longest user name, in bytes.
pub(crate) const NAME_LIMIT: usize = 128;
const FILE_LIMIT: u64 = 1 << 20;
/// More than this for one hash would let a login stall a small node: 256 MiB, 16 passes, 4 lanes.
const MOST_MEMORY_KIB: u32 = 256 * 1024;
const MOST_PASSES: u32 = 16;
const MOST_LANES: u32 = 4;

/// A users file or a user is not as it must be.
#[derive(Debug, thiserror::Error)]
pub enum UsersError {
    /// The file cannot be read or written.
    #[error("cannot {action} the users file {path}")]
    File {
        /// "read" or "write".
        action: &'static str,
        /// Which file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// Others than its owner may change the file.
    #[error(
        "the users file {path} may be changed by others than its owner (mode {mode:o}); run `chmod 600 {path}`"
    )]
    Writable {
        /// Which file.
        path: PathBuf,
        /// Its mode.
        mode: u32,
    },
    /// The file is longer than 1 MiB.
    #[error("the users file {path} is {length} bytes long; at most {FILE_LIMIT} are read")]
    TooLong {
        /// Which file.
        path: PathBuf,
        /// Its length.
        length: u64,
    },
    /// The text is no TOML of the right form.
    #[error("the users file {path} is not of the right form")]
    Form {
        /// Which file.
        path: PathBuf,
        /// Where and why.
        #[source]
        source: Box<toml::de::Error>,
    },
    /// A name is empty, too long or not printable.
    #[error("a user's name has 1 to {NAME_LIMIT} visible characters; `{0}` has not")]
    Name(String),
    /// Two users have one name.
    #[error("the user `{0}` is there twice")]
    Twice(String),
    /// A password hash is not one that can be checked.
    #[error("the password of user `{user}` is no argon2id hash that this node checks: {why}")]
    Hash {
        /// Whose.
        user: String,
        /// Why not.
        why: String,
    },
    /// A permission is unknown.
    #[error("user `{user}`")]
    Permission {
        /// Whose.
        user: String,
        /// Which.
        #[source]
        source: UnknownPermission,
    },
    /// A password is empty or too long.
    #[error("a password has 1 to {PASSWORD_LIMIT} bytes; this one has {0}")]
    Password(usize),
    /// A password cannot be hashed, for example for want of memory.
    #[error("cannot hash the password: {0}")]
    Hashing(argon2::password_hash::Error),
    /// The system gave no random bytes.
    #[error("the system gave no random bytes for a salt")]
    Random,
}

/// A user of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    name: Arc<str>,
    hash: String,
    permissions: Permissions,
}

impl User {
    /// A user with a password, which is hashed here (argon2id, 19 MiB, 2 passes, a fresh salt).
    pub fn new(name: &str, password: &str, permissions: Permissions) -> Result<Self, UsersError> {
        Self::with_hash(name, hash_password(password)?, permissions)
    }

    /// A user whose password was hashed before.
    pub fn with_hash(name: &str, hash: String, permissions: Permissions) -> Result<Self, UsersError> {
        if name.is_empty() || name.len() > NAME_LIMIT || name.chars().any(char::is_control) {
            return Err(UsersError::Name(name.chars().take(NAME_LIMIT).collect()));
        }
        check_hash(&hash).map_err(|why| UsersError::Hash { user: name.to_owned(), why })?;
        Ok(Self { name: name.into(), hash, permissions })
    }

    /// The user's name.
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// Whether the password, and its salt, are those of another user of this name.
    pub(crate) fn has_password_of(&self, other: &Self) -> bool {
        self.hash == other.hash
    }

    /// What the user may do.
    pub fn permissions(&self) -> &Permissions {
        &self.permissions
    }
}

/// The users of a node.
#[derive(Clone, Debug)]
pub struct Users {
    users: Vec<Arc<User>>,
    by_name: HashMap<Arc<str>, usize>,
}

impl Users {
    /// These users.
    pub fn new(users: impl IntoIterator<Item = User>) -> Result<Self, UsersError> {
        let mut all = Self { users: Vec::new(), by_name: HashMap::new() };
        for user in users {
            if all.by_name.insert(user.name.clone(), all.users.len()).is_some() {
                return Err(UsersError::Twice(user.name.to_string()));
            }
            all.users.push(Arc::new(user));
        }
        Ok(all)
    }

    /// Reads a users file: TOML with a table `[[user]]` for each, with `name`, `password` (an argon2id hash in PHC
    /// form) and `permissions` (`"all"` or a list).
    pub fn read(path: &Path) -> Result<Self, UsersError> {
        let failed = |source| UsersError::File { action: "read", path: path.to_owned(), source };
        let metadata = fs::metadata(path).map_err(failed)?;
        let mode = metadata.permissions().mode() & 0o777;
        if mode & 0o022 != 0 {
            return Err(UsersError::Writable { path: path.to_owned(), mode });
        }
        if metadata.len() > FILE_LIMIT {
            return Err(UsersError::TooLong { path: path.to_owned(), length: metadata.len() });
        }
        let text = fs::read_to_string(path).map_err(failed)?;
        Self::parse(&text, path)
    }

    /// Reads the text of a users file; `path` is for errors.
    pub fn parse(text: &str, path: &Path) -> Result<Self, UsersError> {
        let file: File = toml::from_str(text)
            .map_err(|source| UsersError::Form { path: path.to_owned(), source: Box::new(source) })?;
        let users = file.user.into_iter().map(|entry| {
            let permissions = match entry.permissions {
                Entries::All(All::All) => Permissions::All,
                Entries::Only(list) => Permissions::Only(
                    list.iter()
                        .map(|text| text.parse::<Permission>())
                        .collect::<Result<_, _>>()
                        .map_err(|source| UsersError::Permission { user: entry.name.clone(), source })?,
                ),
            };
            User::with_hash(&entry.name, entry.password, permissions)
        });
        Self::new(users.collect::<Result<Vec<_>, _>>()?)
    }

    /// Writes the users as a file that only its owner may read and write, in place of any there was; a crash leaves
    /// the old one or the new.
    pub fn write(&self, path: &Path) -> Result<(), UsersError> {
        let failed = |source| UsersError::File { action: "write", path: path.to_owned(), source };
        let user = self.users.iter().map(|user| Entry {
            name: user.name.to_string(),
            password: user.hash.clone(),
            permissions: match &user.permissions {
                Permissions::All => Entries::All(All::All),
                Permissions::Only(set) => Entries::Only(set.iter().map(Permission::to_string).collect()),
            },
        });
        let text = toml::to_string(&File { user: user.collect() })
            .map_err(|error| failed(io::Error::new(io::ErrorKind::InvalidData, error)))?;
        let mut name = path.file_name().unwrap_or_default().to_owned();
        name.push(format!(".{}.new", std::process::id()));
        let draft = path.with_file_name(name);
        let written = (|| {
            let mut options = fs::OpenOptions::new();
            let mut file = options.write(true).create_new(true).mode(0o600).open(&draft)?;
            file.write_all(text.as_bytes())?;
            file.sync_all()?;
            fs::rename(&draft, path)?;
            let folder = path.parent().filter(|parent| !parent.as_os_str().is_empty());
            fs::File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
        })();
        written.map_err(|source| {
            // A draft that is left over would be in the way of the next attempt.
            let _ = fs::remove_file(&draft);
            failed(source)
        })
    }

    /// The users, in the order of the file.
    pub fn iter(&self) -> impl Iterator<Item = &User> {
        self.users.iter().map(|user| &**user)
    }

    /// The user of this name.
    pub(crate) fn find(&self, name: &str) -> Option<&Arc<User>> {
        self.by_name.get(name).and_then(|&index| self.users.get(index))
    }

    /// The user with this password, if there is one. Takes tens of milliseconds and 19 MiB, the same for a wrong
    /// password and for an unknown name.
    pub(crate) fn verify(&self, name: &str, password: &str) -> Option<Arc<User>> {
        if password.len() > PASSWORD_LIMIT || name.len() > NAME_LIMIT {
            return None;
        }
        let known = self.by_name.get(name).map(|&index| &self.users[index]);
        // An unknown name costs what some known user's costs, always the same one's.
        let (hash, user) = match (known, self.users.len()) {
            (Some(user), _) => (user.hash.as_str(), Some(user)),
            (None, 0) => return None,
            (None, count) => {
                let pick = self.by_name.hasher().hash_one(name) % count as u64;
                (self.users[usize::try_from(pick).unwrap_or(0)].hash.as_str(), None)
            }
        };
        let parsed = PasswordHash::new(hash).ok()?;
        let right = argon2().verify_password(password.as_bytes(), &parsed).is_ok();
        user.filter(|_| right).cloned()
    }
}

/// The argon2id hash of a password in PHC form, with a fresh salt.
pub fn hash_password(password: &str) -> Result<String, UsersError> {
    if password.is_empty() || password.len() > PASSWORD_LIMIT {
        return Err(UsersError::Password(password.len()));
    }
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|_| UsersError::Random)?;
    SaltString::encode_b64(&bytes)
        .and_then(|salt| Ok(argon2().hash_password(password.as_bytes(), &salt)?.to_string()))
        .map_err(UsersError::Hashing)
}

/// The strength that OWASP's password storage guidance gives for argon2id: 19 MiB, 2 passes, 1 lane; also this
/// library's default.
fn argon2() -> Argon2<'static> {
    Argon2::new(Algorithm::Argon2id, Version::V0x13, Params::DEFAULT)
}

fn check_hash(hash: &str) -> Result<(), String> {
    let parsed = PasswordHash::new(hash).map_err(|error| error.to_string())?;
    let algorithm = Algorithm::try_from(parsed.algorithm).map_err(|error| error.to_string())?;
    if algorithm != Algorithm::Argon2id || parsed.hash.is_none() || parsed.salt.is_none() {
        return Err("it must begin with $argon2id$ and hold a salt and a hash".to_owned());
    }
    let params = Params::try_from(&parsed).map_err(|error| error.to_string())?;
    if params.m_cost() > MOST_MEMORY_KIB || params.t_cost() > MOST_PASSES || params.p_cost() > MOST_LANES {
        return Err(format!("at most m={MOST_MEMORY_KIB}, t={MOST_PASSES}, p={MOST_LANES} are taken"));
    }
    Ok(())
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    user: Vec<Entry>,
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    name: String,
    password: String,
    permissions: Entries,
}

#[derive(Deserialize, Serialize)]
#[serde(untagged, expecting = "`permissions` is \"all\" or a list of permissions")]
enum Entries {
    All(All),
    Only(Vec<String>),
}

#[derive(Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
enum All {
    All,
}

#[cfg(test)]
mod tests;
