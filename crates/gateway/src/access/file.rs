//! `access.toml`: everybody who may come in.

use super::{AuditError, Quota, Role, Scope, Token, User};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;
use tally_crypto::Hash;
use tally_iso20022::Bic;
use tally_ledger::{Network, Timestamp};

/// The largest access file that is read, in bytes: ten thousand users fit.
const MAX_BYTES: u64 = 4 << 20;
/// The longest name of a user, in characters.
const MAX_NAME: usize = 64;

/// The file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum AccessError {
    /// It cannot be read or written.
    #[error("cannot {action} {path}")]
    File {
        /// `read` or `write`.
        action: &'static str,
        /// Which file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// Others than its owner may change it.
    #[error("{path} may be changed by others than its owner (mode {mode:o}); run `chmod 600 {path}`")]
    Writable {
        /// Which file.
        path: PathBuf,
        /// Its mode.
        mode: u32,
    },
    /// It is too large.
    #[error("{path} has {length} bytes; at most {MAX_BYTES} are read")]
    TooLong {
        /// Which file.
        path: PathBuf,
        /// How many it has.
        length: u64,
    },
    /// It says something that it should not.
    #[error("{path} cannot be understood")]
    Form {
        /// Which file.
        path: PathBuf,
        /// Where and why.
        #[source]
        source: Box<toml::de::Error>,
    },
    /// A name is empty, too long, or has other characters than letters, digits, `-`, `_`, `.` and `@`.
    #[error("user `{0}`: a name has 1 to {MAX_NAME} letters, digits, or `-_.@`")]
    Name(String),
    /// Two users have one name, token or certificate.
    #[error("user {0}: another has the same name, token or certificate")]
    Twice(String),
    /// A user without token and certificate.
    #[error("user {0}: a token or a certificate is wanted")]
    NoWayIn(String),
    /// A user without roles.
    #[error("user {0}: no roles; some of submit, approve, read, operate are wanted")]
    NoRoles(String),
    /// A user of an institution that is not there.
    #[error("user {user}: the network has no participant {institution}")]
    Institution {
        /// Who.
        user: String,
        /// The BIC.
        institution: Bic,
    },
    /// A role that only the operator of the network can have.
    #[error("user {0}: `operate` is for users of no institution: it shows all of them")]
    Operate(String),
    /// A quota of an institution that is not there.
    #[error("institution {0}: the network has no such participant")]
    NoInstitution(Bic),
    /// Two quotas of one institution.
    #[error("institution {0} is there twice")]
    InstitutionTwice(Bic),
    /// It cannot be recorded who may come in.
    #[error(transparent)]
    Audit(#[from] AuditError),
    /// An end that is no time.
    #[error("user {user}: expires: {text}: a time such as 2030-01-31T00:00:00Z is wanted")]
    Time {
        /// Who.
        user: String,
        /// What was there.
        text: String,
    },
}

/// The file.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AccessFile {
    /// Everybody.
    #[serde(default)]
    pub user: Vec<UserEntry>,
    /// How much all users of an institution may send together, where that was agreed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub institution: Vec<InstitutionEntry>,
}

/// What was agreed with an institution.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InstitutionEntry {
    /// Its BIC.
    #[serde(with = "bic")]
    pub bic: Bic,
    /// How much all its users may send together.
    pub quota: Quota,
}

/// One user as the file has it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UserEntry {
    /// What others call the user.
    pub name: String,
    /// BIC of the institution that the user acts for; none for the operator of the network.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "optional_bic")]
    pub institution: Option<Bic>,
    /// What the user may do.
    pub roles: BTreeSet<Role>,
    /// What is kept of the user's token, see [`Token::kept`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<Hash>,
    /// SHA-256 of the user's client certificate in DER form, in hexadecimal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificate: Option<Fingerprint>,
    /// When the access ends, ISO 8601.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<String>,
    /// How much the user may send.
    #[serde(default)]
    pub quota: Quota,
}

/// BICs as text: of 8 or 11 characters where they are read, in their shortest form where they are written.
mod bic {
    use serde::{Deserialize, Deserializer, Serializer};
    use tally_iso20022::Bic;

    pub(super) fn serialize<S: Serializer>(bic: &Bic, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(bic)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Bic, D::Error> {
        let text = String::deserialize(deserializer)?;
        Bic::parse(&text).ok_or_else(|| {
            let shown: String = text.chars().take(64).collect();
            serde::de::Error::custom(format!("'{shown}' is not a BIC such as ALPHDEFF"))
        })
    }
}

/// As [`bic`], where there may be none.
mod optional_bic {
    use serde::{Deserializer, Serializer};
    use tally_iso20022::Bic;

    pub(super) fn serialize<S: Serializer>(bic: &Option<Bic>, serializer: S) -> Result<S::Ok, S::Error> {
        match bic {
            Some(bic) => super::bic::serialize(bic, serializer),
            None => serializer.serialize_none(),
        }
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Bic>, D::Error> {
        // What is not there is left to the default.
        super::bic::deserialize(deserializer).map(Some)
    }
}

/// SHA-256 of a certificate in DER form (RFC 5280).
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Fingerprint(pub [u8; 32]);

impl Serialize for Fingerprint {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&crate::codec::to_hex(&self.0))
    }
}

impl<'de> Deserialize<'de> for Fingerprint {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        // Tools print fingerprints with colons between the bytes.
        let digits = text.replace(':', "");
        let bytes = crate::codec::from_hex(digits.as_bytes()).map_err(serde::de::Error::custom)?;
        let bytes = bytes.try_into().map_err(|_| serde::de::Error::custom("32 bytes are wanted"))?;
        Ok(Self(bytes))
    }
}

impl AccessFile {
    /// Reads a file that only its owner can change.
    ///
    /// # Errors
    /// When it cannot be read, may be changed by others, or says something that does not fit.
    pub fn read(path: &Path) -> Result<Self, AccessError> {
        let failed = |source| AccessError::File { action: "read", path: path.to_owned(), source };
        let metadata = fs::metadata(path).map_err(failed)?;
        let mode = metadata.permissions().mode() & 0o777;
        if mode & 0o022 != 0 {
            return Err(AccessError::Writable { path: path.to_owned(), mode });
        }
        if metadata.len() > MAX_BYTES {
            return Err(AccessError::TooLong { path: path.to_owned(), length: metadata.len() });
        }
        Self::parse(&fs::read_to_string(path).map_err(failed)?, path)
    }

    /// Reads the text of a file; `path` is for errors.
    ///
    /// # Errors
    /// When it says something that does not fit.
    pub fn parse(text: &str, path: &Path) -> Result<Self, AccessError> {
        let file: Self = toml::from_str(text)
            .map_err(|source| AccessError::Form { path: path.to_owned(), source: Box::new(source) })?;
        file.check()?;
        Ok(file)
    }

    fn check(&self) -> Result<(), AccessError> {
        let (mut names, mut tokens, mut certificates) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        for user in &self.user {
            let name = || user.name.clone();
            let fits = |c: char| c.is_ascii_alphanumeric() || "-_.@".contains(c);
            if user.name.is_empty() || user.name.len() > MAX_NAME || !user.name.chars().all(fits) {
                return Err(AccessError::Name(user.name.chars().take(MAX_NAME).collect()));
            }
            let is_new = names.insert(&user.name)
                && user.token.is_none_or(|token| tokens.insert(*token.as_bytes()))
                && user.certificate.is_none_or(|certificate| certificates.insert(certificate));
            if !is_new {
                return Err(AccessError::Twice(name()));
            }
            if user.token.is_none() && user.certificate.is_none() {
                return Err(AccessError::NoWayIn(name()));
            }
            if user.roles.is_empty() {
                return Err(AccessError::NoRoles(name()));
            }
            if user.institution.is_some() && user.roles.contains(&Role::Operate) {
                return Err(AccessError::Operate(name()));
            }
            user.expires()?;
        }
        let mut institutions = BTreeSet::new();
        match self.institution.iter().find(|one| !institutions.insert(&one.bic)) {
            Some(one) => Err(AccessError::InstitutionTwice(one.bic)),
            None => Ok(()),
        }
    }

    /// Adds a user, or gives the one of that name other rights.
    ///
    /// # Errors
    /// When the file would say something that does not fit; it is as it was then.
    pub fn grant(&mut self, entry: UserEntry) -> Result<(), AccessError> {
        let mut next = self.clone();
        match next.user.iter_mut().find(|user| user.name == entry.name) {
            Some(user) => *user = entry,
            None => next.user.push(entry),
        }
        next.check()?;
        *self = next;
        Ok(())
    }

    /// Says how much all users of an institution may send together; without a quota, as much as each of them may.
    pub fn limit(&mut self, bic: Bic, quota: Option<Quota>) {
        self.institution.retain(|one| one.bic != bic);
        self.institution.extend(quota.map(|quota| InstitutionEntry { bic, quota }));
    }

    /// Takes a user away; whether there was one.
    pub fn revoke(&mut self, name: &str) -> bool {
        let before = self.user.len();
        self.user.retain(|user| user.name != name);
        self.user.len() < before
    }

    /// Writes the file, readable by its owner only, in place of any there was; a crash leaves the old one or the new.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn write(&self, path: &Path) -> Result<(), AccessError> {
        let failed = |source| AccessError::File { action: "write", path: path.to_owned(), source };
        let text = toml::to_string(self).map_err(|error| failed(io::Error::other(error)))?;
        let draft = path.with_extension(format!("toml.{}.new", std::process::id()));
        let written = (|| {
            let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&draft)?;
            file.write_all(text.as_bytes())?;
            file.sync_all()?;
            fs::rename(&draft, path)?;
            sync_folder(path)
        })();
        written.map_err(|source| {
            // A draft that is left over would be in the way of the next attempt.
            let _ = fs::remove_file(&draft);
            failed(source)
        })
    }
}

/// Makes it durable that a file is in its folder.
pub(crate) fn sync_folder(path: &Path) -> io::Result<()> {
    let folder = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    fs::File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}

impl UserEntry {
    /// A user who comes in with this token.
    pub fn with_token(name: &str, institution: Option<Bic>, roles: &[Role], token: &Token) -> Self {
        Self {
            name: name.to_owned(),
            institution,
            roles: roles.iter().copied().collect(),
            token: Some(token.kept()),
            certificate: None,
            expires: None,
            quota: Quota::default(),
        }
    }

    fn expires(&self) -> Result<Option<Timestamp>, AccessError> {
        let Some(text) = &self.expires else { return Ok(None) };
        let failed = || AccessError::Time { user: self.name.clone(), text: text.clone() };
        let time = humantime::parse_rfc3339(text).map_err(|_| failed())?;
        let since = time.duration_since(UNIX_EPOCH).map_err(|_| failed())?;
        Ok(Some(Timestamp(u64::try_from(since.as_millis()).map_err(|_| failed())?)))
    }

    pub(super) fn user(&self, network: &Network) -> Result<User, AccessError> {
        let scope = match &self.institution {
            None => Scope::Network,
            Some(bic) => {
                let found = network
                    .participant(bic.as_str())
                    .ok_or_else(|| AccessError::Institution { user: self.name.clone(), institution: *bic })?;
                Scope::Institution(found.0)
            }
        };
        Ok(User {
            name: self.name.clone(),
            scope,
            roles: self.roles.clone(),
            quota: self.quota,
            shared: None,
            expires: self.expires()?,
        })
    }
}
