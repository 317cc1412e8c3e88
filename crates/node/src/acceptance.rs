//! The operator accepts the network's parameters: while those in force are not accepted, the node takes no new work.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use tally_identity::{NetworkMap, NetworkParameters, system_now};
use tally_ops::metrics::{Gauge, MetricError, Registry};

use crate::desk::{full_text, lock};

/// Why parameters were not accepted.
#[derive(Debug, thiserror::Error)]
pub enum AcceptError {
    /// None of that epoch are known.
    #[error("the network has no parameters of epoch {epoch}; in force are those of epoch {in_force}{}", announced_as(*announced))]
    Unknown {
        /// The epoch asked for.
        epoch: u32,
        /// The epoch in force.
        in_force: u32,
        /// The epoch that is announced.
        announced: Option<u32>,
    },
    /// The file of what was accepted.
    #[error("cannot {action} {}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What was tried.
        action: &'static str,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
    /// The file of what was accepted is damaged.
    #[error("{} does not say which parameters were accepted; remove it to accept those in force at the next start", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        #[source]
        source: serde_json::Error,
    },
    /// A meter's name.
    #[error(transparent)]
    Metrics(#[from] MetricError),
}

fn announced_as(epoch: Option<u32>) -> String {
    epoch.map(|epoch| format!(", announced are those of epoch {epoch}")).unwrap_or_default()
}

/// What the operator has accepted, in a file of the node, and how that stands to what the network map says.
pub(crate) struct Acceptance {
    file: PathBuf,
    map: Arc<NetworkMap>,
    /// Parameters that only name more notaries are accepted without the operator.
    extensions: bool,
    accepted: Mutex<Vec<NetworkParameters>>,
    /// What was logged last: that these are missing or announced.
    logged: Mutex<Option<String>>,
    gauge: Gauge,
}

impl Acceptance {
    /// Reads what was accepted. At its first start a node accepts what is in force.
    ///
    /// # Errors
    /// The file cannot be read or written, or is damaged.
    pub(crate) fn open(
        file: PathBuf,
        map: Arc<NetworkMap>,
        extensions: bool,
        registry: &Registry,
    ) -> Result<Self, AcceptError> {
        let gauge = registry.gauge(
            "tally_node_missing_parameters",
            "1 while the network's parameters in force are not accepted, and the node takes no new work.",
            &[],
        )?;
        let accepted = read(&file)?;
        let first = accepted.is_none();
        let accepted = Mutex::new(accepted.unwrap_or_default());
        let acceptance = Self { file, map, extensions, accepted, logged: Mutex::default(), gauge };
        if first {
            // A cache may be from before a change that is in force by now.
            if let Err(error) = acceptance.map.refresh(system_now()) {
                tracing::warn!(error = full_text(&error), "the network map was not read again");
            }
            acceptance.add(acceptance.map.parameters().as_ref().clone(), "the first start")?;
        }
        Ok(acceptance)
    }

    /// The parameters in force, and those that are announced.
    pub(crate) fn known(&self) -> (Arc<NetworkParameters>, Option<Arc<NetworkParameters>>) {
        let snapshot = self.map.snapshot();
        (snapshot.parameters().clone(), snapshot.announced().cloned())
    }

    /// The epochs that were accepted, in order.
    pub(crate) fn epochs(&self) -> Vec<u32> {
        let mut epochs: Vec<u32> = lock(&self.accepted).iter().map(|accepted| accepted.epoch).collect();
        epochs.sort_unstable();
        epochs
    }

    fn is_accepted(&self, parameters: &NetworkParameters) -> bool {
        lock(&self.accepted).contains(parameters)
    }

    /// Why the node takes no new work, if it does not.
    pub(crate) fn missing(&self) -> Option<String> {
        let (in_force, _) = self.known();
        (!self.is_accepted(&in_force)).then(|| {
            let epoch = in_force.epoch;
            format!(
                "the network's parameters of epoch {epoch} are in force and not accepted: `tally node parameters accept \
                 NODE {epoch}`"
            )
        })
    }

    /// What an operator is told beside `/ready`, in lines.
    pub(crate) fn lines(&self) -> String {
        self.pending().map(|text| format!("warning: {text}\n")).unwrap_or_default()
    }

    fn pending(&self) -> Option<String> {
        let (_, announced) = self.known();
        let next = announced.filter(|next| !self.is_accepted(next))?;
        let epoch = next.epoch;
        Some(format!(
            "the network's parameters of epoch {epoch} are not accepted and come into force at {}: `tally node \
             parameters accept NODE {epoch}`",
            next.in_force_from
        ))
    }

    /// Compares what is accepted with what is in force and announced; accepts by itself what it may. Tells `bar` why the
    /// node takes no new work, if so: one look after the other, so that the last one counts.
    ///
    /// # Errors
    /// What it accepts by itself cannot be kept.
    pub(crate) fn look(&self, bar: impl FnOnce(Option<&str>)) -> Result<(), AcceptError> {
        let mut logged = lock(&self.logged);
        let (in_force, announced) = self.known();
        if self.extensions {
            for next in [Some(in_force), announced].into_iter().flatten() {
                let extends = lock(&self.accepted).iter().any(|accepted| next.extends(accepted));
                if extends && !self.is_accepted(&next) {
                    self.add(next.as_ref().clone(), "[network] accept_extensions")?;
                }
            }
        }
        let missing = self.missing();
        self.gauge.set(i64::from(missing.is_some()));
        bar(missing.as_deref());
        let text = missing.clone().or_else(|| self.pending());
        if *logged != text {
            match (&missing, &text) {
                (Some(text), _) => tracing::error!("{text}; the node takes no new work"),
                (None, Some(text)) => tracing::warn!("{text}"),
                (None, None) => tracing::info!("the network's parameters are accepted"),
            }
            *logged = text;
        }
        Ok(())
    }

    /// Accepts the parameters of an epoch: those in force, or those that are announced.
    ///
    /// # Errors
    /// There are none of that epoch; the acceptance cannot be kept.
    pub(crate) fn accept(&self, epoch: u32, user: &str) -> Result<(), AcceptError> {
        let (in_force, announced) = self.known();
        let unknown = AcceptError::Unknown {
            epoch,
            in_force: in_force.epoch,
            announced: announced.as_ref().map(|next| next.epoch),
        };
        let mut known = [Some(in_force), announced].into_iter().flatten();
        let found = known.find(|known| known.epoch == epoch).ok_or(unknown)?;
        if self.is_accepted(&found) {
            return Ok(());
        }
        self.add(found.as_ref().clone(), user)
    }

    fn add(&self, parameters: NetworkParameters, by: &str) -> Result<(), AcceptError> {
        let mut accepted = lock(&self.accepted);
        let mut next = accepted.clone();
        let oldest = self.map.parameters().epoch;
        let epoch = parameters.epoch;
        // What was accepted last before those in force stays: later ones are compared with it.
        let last = next.iter().map(|known| known.epoch).filter(|known| *known < oldest).max();
        next.retain(|known| known.epoch >= last.unwrap_or(oldest) && known.epoch != epoch);
        next.push(parameters);
        write(&self.file, &next)?;
        *accepted = next;
        tracing::warn!(epoch, by, "the network's parameters were accepted");
        Ok(())
    }
}

fn read(file: &Path) -> Result<Option<Vec<NetworkParameters>>, AcceptError> {
    match std::fs::read(file) {
        Ok(bytes) => serde_json::from_slice(&bytes)
            .map(Some)
            .map_err(|source| AcceptError::Malformed { path: file.to_owned(), source }),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(AcceptError::File { path: file.to_owned(), action: "read", source }),
    }
}

/// Replaces the file as a whole, durably.
fn write(file: &Path, accepted: &[NetworkParameters]) -> Result<(), AcceptError> {
    let failed = |source| AcceptError::File { path: file.to_owned(), action: "write", source };
    let text = serde_json::to_vec_pretty(accepted).map_err(|error| failed(error.into()))?;
    let directory = file.parent().unwrap_or(Path::new("."));
    std::fs::create_dir_all(directory).map_err(failed)?;
    let next = file.with_extension("json.next");
    let mut written = std::fs::File::create(&next).map_err(failed)?;
    written.write_all(&text).and_then(|()| written.sync_all()).map_err(failed)?;
    std::fs::rename(&next, file).map_err(failed)?;
    std::fs::File::open(directory).and_then(|directory| directory.sync_all()).map_err(failed)
}
