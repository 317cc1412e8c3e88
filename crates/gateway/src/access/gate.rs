//! The access file of a running gateway: what changes in it takes effect without a restart.

use super::quota::{Bucket, Buckets};
use super::{Access, AccessError, AccessFile, Act, AuditError, AuditLog, Denied, User};
use std::collections::{HashSet, VecDeque};
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};
use tally_ledger::{Network, TransactionId};

/// How soon a change of the file takes effect at the latest, while requests come.
const FRESH: Duration = Duration::from_millis(500);
/// Acts that are known to be recorded: those of the longest request fit.
const MAX_RECORDED: usize = 1 << 16;
/// How often it is looked for somebody who is not known.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// Lets users in as the file says now.
#[derive(Debug)]
pub struct Gate {
    path: PathBuf,
    audit: AuditLog,
    network: Network,
    current: RwLock<Arc<Access>>,
    seen: Mutex<Seen>,
    buckets: Buckets,
    recorded: Mutex<Recorded>,
}

/// Acts that were recorded last, by user and transaction: to send the same again is no other act.
#[derive(Debug, Default)]
struct Recorded {
    known: HashSet<(String, TransactionId)>,
    /// In the order in which they came.
    order: VecDeque<(String, TransactionId)>,
}

impl Recorded {
    fn add(&mut self, act: (String, TransactionId)) {
        if self.known.insert(act.clone()) {
            self.order.push_back(act);
        }
        if self.order.len() > MAX_RECORDED
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
    }
}

/// Which file was read, and when it was last looked at.
#[derive(Debug)]
struct Seen {
    stamp: Option<Stamp>,
    at: Instant,
}

/// A file that is replaced has another; one that is changed, another time or length.
type Stamp = (u64, i64, i64, u64);

impl Gate {
    /// Reads the file. Administrative acts are recorded in `audit`, that it was read among them.
    ///
    /// # Errors
    /// When it cannot be read, says something that does not fit the network, or nothing can be recorded.
    pub fn open(path: PathBuf, audit: AuditLog, network: Network) -> Result<Self, AccessError> {
        let stamp = stamp(&path);
        let access = Access::new(&AccessFile::read(&path)?, &network)?;
        audit.record_access_file(&path)?;
        Ok(Self {
            path,
            audit,
            network,
            current: RwLock::new(Arc::new(access)),
            seen: Mutex::new(Seen { stamp, at: Instant::now() }),
            buckets: Buckets::default(),
            recorded: Mutex::default(),
        })
    }

    /// Where administrative acts are recorded.
    pub fn audit(&self) -> &AuditLog {
        &self.audit
    }

    /// Records a user's acts before they are done, as [`AuditLog::record`] does, and none that was recorded before: whoever has to
    /// try an act again, because the network was busy or the answer was lost, tries the same one.
    ///
    /// # Errors
    /// As for that.
    pub fn record(&self, by: &str, acts: Vec<Act>) -> Result<(), AuditError> {
        // Held while it is written: who tries the same at the same time goes on when it is there.
        let mut recorded = self.recorded.lock().unwrap_or_else(PoisonError::into_inner);
        let identity = |act: &Act| act.transaction().map(|transaction| (by.to_owned(), transaction));
        let mut own = HashSet::new();
        let is_new =
            |act: &Act| identity(act).is_none_or(|act| !recorded.known.contains(&act) && own.insert(act));
        let new: Vec<Act> = acts.into_iter().filter(is_new).collect();
        if new.is_empty() {
            return Ok(());
        }
        let identities: Vec<_> = new.iter().filter_map(identity).collect();
        self.audit.record(by, new)?;
        identities.into_iter().for_each(|act| recorded.add(act));
        Ok(())
    }

    /// Everybody who may come in now. A file that cannot be used changes nothing, and is told in the log.
    pub fn current(&self) -> Arc<Access> {
        self.not_older_than(FRESH)
    }

    /// As [`Self::current`], for somebody whom the file did not know: it may have been changed a moment ago.
    pub fn latest(&self) -> Arc<Access> {
        self.not_older_than(LOOK_AGAIN)
    }

    fn not_older_than(&self, age: Duration) -> Arc<Access> {
        if self.has_changed(age) {
            match AccessFile::read(&self.path).and_then(|file| Access::new(&file, &self.network)) {
                Ok(access) => {
                    tracing::info!("the access file was read again");
                    // Who may come in no more must not, whether or not that can be recorded.
                    if let Err(error) = self.audit.record_access_file(&self.path) {
                        tracing::error!(%error, "it is not recorded that the access file was read");
                    }
                    *self.current.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(access);
                }
                Err(error) => {
                    tracing::error!(%error, "the access file was changed and cannot be used: it counts as it was");
                }
            }
        }
        Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Takes `cost` out of what the user may send, and out of what all users of its institution may send together.
    ///
    /// # Errors
    /// [`Denied::Quota`] when there is no room; nothing is taken then.
    pub fn charge(&self, user: &User, cost: u32, now: Instant) -> Result<(), Denied> {
        let of_user = (Bucket::User(user.name.clone()), user.quota);
        let shared = user.shared.iter().map(|(bic, quota)| (Bucket::Institution(*bic), *quota));
        let taken = self.buckets.take(std::iter::once(of_user).chain(shared), cost, now);
        taken.map_err(|(bucket, wait)| Denied::Quota { user: bucket.into_name(), wait })
    }

    fn has_changed(&self, age: Duration) -> bool {
        // One request looks; the others go on meanwhile.
        let Ok(mut seen) = self.seen.try_lock() else { return false };
        if seen.at.elapsed() < age {
            return false;
        }
        seen.at = Instant::now();
        let stamp = stamp(&self.path);
        let changed = stamp != seen.stamp;
        seen.stamp = stamp;
        changed
    }
}

fn stamp(path: &std::path::Path) -> Option<Stamp> {
    let metadata = fs::metadata(path).ok()?;
    Some((metadata.ino(), metadata.mtime(), metadata.mtime_nsec(), metadata.len()))
}
