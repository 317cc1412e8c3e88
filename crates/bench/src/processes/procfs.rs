//! One reading of a process from proc(5).

use std::io;
use std::sync::OnceLock;
use std::time::Duration;

use super::Watched;

/// Why a process cannot be watched.
#[derive(Debug, thiserror::Error)]
pub enum WatchError {
    /// A file of the process file system cannot be read: the process has ended, or belongs to somebody else.
    #[error("cannot read {path}")]
    Read {
        /// The file.
        path: String,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// A file of another form than proc(5) says.
    #[error("{path} is not of the form that proc(5) describes")]
    Form {
        /// The file.
        path: String,
    },
    /// There is no thread for it.
    #[error("cannot start the thread that watches processes")]
    Thread(#[source] io::Error),
}

/// What a process has used so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Reading {
    /// Processor time in the program.
    pub user: Duration,
    /// Processor time in the kernel.
    pub system: Duration,
    /// Resident memory now, in bytes.
    pub resident_bytes: u64,
    /// The most there has been, in bytes.
    pub peak_bytes: u64,
    /// Bytes read from storage; 0 where the kernel does not say.
    pub read_bytes: u64,
    /// Bytes written to storage; 0 where the kernel does not say.
    pub written_bytes: u64,
}

impl Reading {
    /// Processor time used since an earlier reading, as (user, system).
    #[must_use]
    pub fn cpu_since(&self, earlier: &Self) -> (Duration, Duration) {
        (self.user.saturating_sub(earlier.user), self.system.saturating_sub(earlier.system))
    }

    fn add(&mut self, other: &Self) {
        self.user += other.user;
        self.system += other.system;
        self.resident_bytes += other.resident_bytes;
        self.peak_bytes += other.peak_bytes;
        self.read_bytes += other.read_bytes;
        self.written_bytes += other.written_bytes;
    }
}

fn text(path: &str) -> Result<String, WatchError> {
    std::fs::read(path)
        // A process may be named with any bytes.
        .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
        .map_err(|source| WatchError::Read { path: path.to_owned(), source })
}

/// What a process has used so far, with its children if they count.
///
/// # Errors
/// [`WatchError`]; for instance when it has ended.
pub fn read(watched: &Watched) -> Result<Reading, WatchError> {
    let mut sum = one(watched.pid)?;
    if watched.with_children {
        // A child that ends meanwhile is left out.
        for child in children(watched.pid) {
            if let Ok(reading) = one(child) {
                sum.add(&reading);
            }
        }
    }
    Ok(sum)
}

fn one(pid: u32) -> Result<Reading, WatchError> {
    let path = format!("/proc/{pid}/stat");
    let (user, system, _) = times(&text(&path)?).ok_or(WatchError::Form { path })?;
    let path = format!("/proc/{pid}/status");
    let status = text(&path)?;
    let memory = |name: &str| value(&status, name).unwrap_or(0) * 1024;
    // Other users' processes keep this to themselves.
    let io = text(&format!("/proc/{pid}/io")).unwrap_or_default();
    Ok(Reading {
        user,
        system,
        resident_bytes: memory("VmRSS:"),
        peak_bytes: memory("VmHWM:"),
        read_bytes: value(&io, "read_bytes:").unwrap_or(0),
        written_bytes: value(&io, "write_bytes:").unwrap_or(0),
    })
}

fn children(parent: u32) -> Vec<u32> {
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
    pids.filter(|pid| {
        let stat = text(&format!("/proc/{pid}/stat")).ok();
        stat.and_then(|stat| times(&stat)).is_some_and(|(_, _, of)| of == parent)
    })
    .collect()
}

/// User time, system time and the parent's id of a line of `stat`.
pub(super) fn times(line: &str) -> Option<(Duration, Duration, u32)> {
    // The name, in parentheses, may have blanks and parentheses of its own.
    let (_, rest) = line.rsplit_once(')')?;
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    let ticks = |at: usize| fields.get(at)?.parse::<u64>().ok();
    let time = |ticks: u64| Duration::from_secs_f64(ticks as f64 / ticks_per_second());
    Some((time(ticks(11)?), time(ticks(12)?), fields.get(1)?.parse().ok()?))
}

fn ticks_per_second() -> f64 {
    static TICKS: OnceLock<f64> = OnceLock::new();
    *TICKS.get_or_init(|| {
        let ticks = nix::unistd::sysconf(nix::unistd::SysconfVar::CLK_TCK);
        ticks.ok().flatten().filter(|ticks| *ticks > 0).map_or(100.0, |ticks| ticks as f64)
    })
}

/// The number behind a name that starts a line.
pub(super) fn value(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_ascii_whitespace().next()?.parse().ok()
}
