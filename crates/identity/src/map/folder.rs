//! The files of a network map.

use super::index::MAX_INDEX_BYTES;
use super::snapshot::Sources;
use super::{MapError, identities};
use crate::certificate::CertificatePath;
use crate::files::{self, Access, FileError};
use crate::info::{MAX_NODE_INFO_BYTES, SignedNodeInfo};
use crate::parameters::{MAX_PARAMETERS_BYTES, SignedParameters};
use crate::revocation::MAX_REVOCATION_LIST_BYTES;
use crate::{name, pem};
use std::path::{Path, PathBuf};
use tally_contracts::{Name, Party};
use tally_crypto::Hash;

const INFOS: &str = "node-infos";
const FORMER: &str = "former";
const MANAGERS: &str = "managers";
const ROOT_LIST: &str = "root.crl";
const INDEX: &str = "index";
const PARAMETERS: &str = "parameters";
const ANNOUNCED: &str = "announced";
pub(super) const MAX_MANAGER_BYTES: usize = 64 * 1024;
/// Most identity managers of a network.
pub(super) const MAX_MANAGERS: usize = 64;
/// Most node infos of a folder.
pub(super) const MAX_INFOS: usize = 100_000;

/// Most identities of the past; a name has 64 at most.
pub(super) const MAX_FORMER: usize = 400_000;
pub(super) const MAX_FORMER_BYTES: usize = 64 * 1024;

/// What the map holds of an identity manager, unverified.
#[derive(Debug)]
pub(super) struct ManagerFiles {
    /// Its certificate (PEM).
    pub(super) certificate: Vec<u8>,
    /// Its revocation list (DER).
    pub(super) list: Vec<u8>,
}

/// A node info, or the path of a former identity, on the way in.
pub(super) enum Candidate {
    /// Its bytes, or why they cannot be read.
    Bytes(Result<Vec<u8>, MapError>),
    /// The hash of one that is known already.
    Known(Hash),
}

/// A folder with the files of a network map (see [the module](super)).
#[derive(Debug, Clone)]
pub struct NetworkFolder {
    path: PathBuf,
}

impl NetworkFolder {
    /// The folder at `path`, which need not exist yet.
    pub fn new(path: &Path) -> Self {
        Self { path: path.into() }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Makes the folder, if there is none.
    ///
    /// # Errors
    /// [`FileError`].
    pub fn create(&self) -> Result<(), FileError> {
        files::create_directory(&self.path.join(INFOS))?;
        files::create_directory(&self.path.join(FORMER))?;
        files::create_directory(&self.path.join(MANAGERS))
    }

    /// Puts a node's info in place of its older one. When that had another key, its certificates
    /// are kept among the former ones.
    ///
    /// # Errors
    /// [`FileError`].
    pub fn put_info(&self, info: &SignedNodeInfo) -> Result<(), FileError> {
        let party = &info.unverified().party;
        self.keep_former(&party.name, Some(party))?;
        files::replace(&self.info_path(&party.name), &info.encode(), Access::Public)
    }

    /// Puts new parameters in place.
    ///
    /// # Errors
    /// [`FileError`].
    pub fn put_parameters(&self, parameters: &SignedParameters) -> Result<(), FileError> {
        files::replace(&self.path.join(PARAMETERS), &parameters.encode(), Access::Public)
    }

    /// Announces parameters that come into force later, in place of any that were announced before.
    ///
    /// # Errors
    /// [`FileError`].
    pub fn put_announced(&self, parameters: &SignedParameters) -> Result<(), FileError> {
        files::replace(&self.path.join(ANNOUNCED), &parameters.encode(), Access::Public)
    }

    /// Puts the announced parameters in the place of those that were in force, once their time has come. Readers do so by
    /// themselves; the place is free for others then.
    ///
    /// # Errors
    /// [`FileError`].
    pub fn promote_announced(&self) -> Result<(), FileError> {
        if let Some(bytes) = self.announced()? {
            files::replace(&self.path.join(PARAMETERS), &bytes, Access::Public)?;
            self.remove_announced()?;
        }
        Ok(())
    }

    fn remove_announced(&self) -> Result<(), FileError> {
        let path = self.path.join(ANNOUNCED);
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(FileError::io(&path, "remove")(error))
            }
            _ => Ok(()),
        }
    }

    pub(super) fn announced(&self) -> Result<Option<Vec<u8>>, FileError> {
        match files::read(&self.path.join(ANNOUNCED), MAX_PARAMETERS_BYTES, Access::Public) {
            Err(error) if error.is_missing() => Ok(None),
            bytes => bytes.map(Some),
        }
    }

    /// Puts a new revocation list (DER) in place, with the certificate of the manager that signed it.
    /// Those of other managers stay.
    ///
    /// # Errors
    /// [`FileError`].
    pub fn put_revocations(&self, list: &[u8], manager: &CertificatePath) -> Result<(), FileError> {
        self.put_manager(manager.subject(), pem::encode_path(manager).as_bytes(), list)
    }

    fn put_manager(&self, name: &Name, certificate: &[u8], list: &[u8]) -> Result<(), FileError> {
        let directory = self.path.join(MANAGERS);
        files::create_directory(&directory)?;
        let label = label(name);
        // The list last: a manager without one is none.
        for (kind, bytes) in [("pem", certificate), ("crl", list)] {
            Self::keep(&directory.join(format!("{label}.{kind}")), bytes)?;
        }
        Ok(())
    }

    /// Puts a new revocation list (DER) of the root in place.
    ///
    /// # Errors
    /// [`FileError`].
    pub fn put_root_revocations(&self, list: &[u8]) -> Result<(), FileError> {
        files::replace(&self.path.join(ROOT_LIST), list, Access::Public)
    }

    /// Keeps the certificates of an identity that is not on the map any more.
    ///
    /// # Errors
    /// [`FileError`].
    pub fn put_former(&self, path: &CertificatePath) -> Result<(), FileError> {
        let file = self.path.join(FORMER).join(format!("{}.pem", identities::hash(path)));
        if file.exists() {
            return Ok(());
        }
        files::create_directory(&self.path.join(FORMER))?;
        files::replace(&file, pem::encode_path(path).as_bytes(), Access::Public)
    }

    /// Keeps the certificates of the info of `name` before it goes, unless they are of `next`.
    fn keep_former(&self, name: &Name, next: Option<&Party>) -> Result<(), FileError> {
        let before = match self.info(name) {
            Ok(bytes) => SignedNodeInfo::decode(&bytes),
            Err(error) if error.is_missing() => return Ok(()),
            Err(error) => return Err(error),
        };
        match before {
            Ok(before) if next != Some(&before.unverified().party) => {
                self.put_former(&before.unverified().path)
            }
            // What cannot be read was never on the map.
            _ => Ok(()),
        }
    }

    /// Removes a node's info, if there is one; its certificates are kept among the former ones.
    ///
    /// # Errors
    /// [`FileError`].
    pub fn remove_info(&self, name: &Name) -> Result<(), FileError> {
        self.keep_former(name, None)?;
        let path = self.info_path(name);
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(FileError::io(&path, "remove")(error))
            }
            _ => Ok(()),
        }
    }

    pub(super) fn info_path(&self, name: &Name) -> PathBuf {
        self.path.join(INFOS).join(format!("{}.info", label(name)))
    }

    /// Every identity manager that has a list.
    pub(super) fn managers(&self) -> Result<Vec<ManagerFiles>, FileError> {
        let directory = self.path.join(MANAGERS);
        list(&directory, ".crl", MAX_MANAGERS)?
            .into_iter()
            .map(|name| {
                let certificate = directory.join(&name).with_extension("pem");
                let certificate = files::read(&certificate, MAX_MANAGER_BYTES, Access::Public)?;
                let list = files::read(&directory.join(&name), MAX_REVOCATION_LIST_BYTES, Access::Public)?;
                Ok(ManagerFiles { certificate, list })
            })
            .collect()
    }

    pub(super) fn root_list(&self) -> Result<Vec<u8>, FileError> {
        files::read(&self.path.join(ROOT_LIST), MAX_REVOCATION_LIST_BYTES, Access::Public)
    }

    /// The index that came from a service last; none where the folder is no cache of one.
    pub(super) fn index(&self) -> Result<Option<Vec<u8>>, FileError> {
        match files::read(&self.path.join(INDEX), MAX_INDEX_BYTES, Access::Public) {
            Err(error) if error.is_missing() => Ok(None),
            bytes => bytes.map(Some),
        }
    }

    pub(super) fn parameters(&self) -> Result<Vec<u8>, FileError> {
        files::read(&self.path.join(PARAMETERS), MAX_PARAMETERS_BYTES, Access::Public)
    }

    pub(super) fn info(&self, name: &Name) -> Result<Vec<u8>, FileError> {
        files::read(&self.info_path(name), MAX_NODE_INFO_BYTES, Access::Public)
    }

    /// Every `*.info`, in the order of their names.
    pub(super) fn infos(&self) -> Result<Vec<(String, Candidate)>, FileError> {
        let directory = self.path.join(INFOS);
        let names = list(&directory, ".info", MAX_INFOS)?;
        let mut infos = Vec::with_capacity(names.len());
        for name in names {
            match files::read(&directory.join(&name), MAX_NODE_INFO_BYTES, Access::Public) {
                // Gone since the directory was listed.
                Err(error) if error.is_missing() => {}
                bytes => infos.push((name, Candidate::Bytes(bytes.map_err(MapError::from)))),
            }
        }
        Ok(infos)
    }

    /// Every path of a former identity that is not `known` yet; a file is named by its hash.
    pub(super) fn former(
        &self,
        known: impl Fn(&Hash) -> bool,
    ) -> Result<Vec<(String, Candidate)>, FileError> {
        let directory = self.path.join(FORMER);
        let names = match list(&directory, ".pem", MAX_FORMER) {
            Err(error) if error.is_missing() => return Ok(Vec::new()),
            names => names?,
        };
        let mut former = Vec::new();
        for name in names {
            let hash = name.strip_suffix(".pem").and_then(|hash| hash.parse().ok());
            if !hash.is_some_and(|hash| known(&hash)) {
                let bytes = files::read(&directory.join(&name), MAX_FORMER_BYTES, Access::Public);
                former.push((format!("{FORMER}/{name}"), Candidate::Bytes(bytes.map_err(MapError::from))));
            }
        }
        Ok(former)
    }

    /// Writes what a service said. The index comes last: its number stands for the rest.
    pub(super) fn keep_all(&self, sources: &Sources, index: &[u8]) -> Result<(), FileError> {
        for (name, ManagerFiles { certificate, list }) in &sources.managers {
            self.put_manager(name, certificate, list)?;
        }
        Self::keep(&self.path.join(ROOT_LIST), &sources.root_list)?;
        Self::keep(&self.path.join(PARAMETERS), &sources.parameters)?;
        match &sources.announced {
            Some(announced) => Self::keep(&self.path.join(ANNOUNCED), announced)?,
            None => self.remove_announced()?,
        }
        Self::keep(&self.path.join(INDEX), index)
    }

    /// Writes a file where it differs from what is there.
    fn keep(path: &Path, bytes: &[u8]) -> Result<(), FileError> {
        if files::read(path, bytes.len(), Access::Public).is_ok_and(|have| have == bytes) {
            return Ok(());
        }
        files::replace(path, bytes, Access::Public)
    }
}

/// The name of a node's or manager's files.
fn label(name: &Name) -> String {
    let host = name::host(name);
    host.split('.').next().unwrap_or_default().to_owned()
}

/// The files of `directory` whose names end in `suffix`, in order.
fn list(directory: &Path, suffix: &str, most: usize) -> Result<Vec<String>, FileError> {
    let listed = || FileError::io(directory, "list");
    let mut names = Vec::new();
    for entry in std::fs::read_dir(directory).map_err(listed())? {
        let name = entry.map_err(listed())?.file_name();
        // Files that are being written begin with a dot.
        if let Some(name) = name.to_str()
            && name.ends_with(suffix)
            && !name.starts_with('.')
        {
            names.push(name.to_owned());
        }
        if names.len() > most {
            return Err(FileError::TooLarge { path: directory.into(), limit: most });
        }
    }
    names.sort_unstable();
    Ok(names)
}
