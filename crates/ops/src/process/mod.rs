//! Processor time and memory of this process, and the machine it runs on: what a benchmark record needs so that
//! its figures can be judged.

mod machine;
mod procfs;

use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeVal;

pub use machine::{Machine, machine};

/// Why the system could not be asked.
#[derive(Debug, thiserror::Error)]
pub enum ProcessError {
    /// A file of the process file system could not be read.
    #[error("cannot read {path}")]
    Read {
        /// The file.
        path: String,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// A file of the process file system has another form than proc(5) says.
    #[error("{path} has no readable {field}")]
    Form {
        /// The file.
        path: String,
        /// What was looked for.
        field: &'static str,
    },
    /// The system call getrusage(2) failed.
    #[error("getrusage failed")]
    Usage(#[source] io::Error),
}

/// What this process has used since it began.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Usage {
    /// Processor time in the program, all threads.
    pub cpu_user: Duration,
    /// Processor time in the kernel on behalf of the program, all threads.
    pub cpu_system: Duration,
    /// Resident memory now, in bytes.
    pub resident_bytes: u64,
    /// The most resident memory so far, in bytes.
    pub peak_resident_bytes: u64,
}

impl Usage {
    /// Processor time used since an earlier reading, as (user, system).
    #[must_use]
    pub fn cpu_since(&self, earlier: &Self) -> (Duration, Duration) {
        (self.cpu_user.saturating_sub(earlier.cpu_user), self.cpu_system.saturating_sub(earlier.cpu_system))
    }
}

/// Reads what this process has used.
///
/// # Errors
/// [`ProcessError`] where the system has no readable `/proc/self/status`.
pub fn usage() -> Result<Usage, ProcessError> {
    let times = getrusage(UsageWho::RUSAGE_SELF).map_err(|errno| ProcessError::Usage(errno.into()))?;
    let path = "/proc/self/status";
    let status = procfs::read(path)?;
    let memory = |field| procfs::kib_field(&status, field).ok_or(form(path, field));
    Ok(Usage {
        cpu_user: duration(times.user_time()),
        cpu_system: duration(times.system_time()),
        resident_bytes: memory("VmRSS")?,
        peak_resident_bytes: memory("VmHWM")?,
    })
}

/// Processor time of the calling thread so far, user and system together.
///
/// # Errors
/// [`ProcessError::Usage`] when the system does not say.
pub fn thread_cpu() -> Result<Duration, ProcessError> {
    let times = getrusage(UsageWho::RUSAGE_THREAD).map_err(|errno| ProcessError::Usage(errno.into()))?;
    Ok(duration(times.user_time()) + duration(times.system_time()))
}

/// Processor time of the threads of one name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ThreadCpu {
    /// The name, of which the kernel keeps 15 bytes.
    pub name: String,
    /// How many living threads have it.
    pub threads: usize,
    /// Their processor time, user and system together.
    pub cpu: Duration,
}

/// Processor time of the living threads, summed by name, in order of name.
///
/// A thread that has ended is not listed; [`usage`] has its time.
///
/// # Errors
/// [`ProcessError`] when the list of threads cannot be read. A thread that ends meanwhile is left out.
pub fn threads() -> Result<Vec<ThreadCpu>, ProcessError> {
    let tasks = "/proc/self/task";
    let failed = |source| ProcessError::Read { path: tasks.to_owned(), source };
    let mut by_name: BTreeMap<String, (usize, Duration)> = BTreeMap::new();
    for entry in std::fs::read_dir(tasks).map_err(failed)? {
        let directory = entry.map_err(failed)?.path();
        let read = |file: &str| procfs::read(&directory.join(file).to_string_lossy());
        let (Ok(name), Ok(schedule)) = (read("comm"), read("schedstat")) else { continue };
        let Some(cpu) = procfs::run_time(&schedule) else { continue };
        let sum = by_name.entry(name.trim_end().to_owned()).or_default();
        sum.0 += 1;
        sum.1 += cpu;
    }
    Ok(by_name.into_iter().map(|(name, (threads, cpu))| ThreadCpu { name, threads, cpu }).collect())
}

fn form(path: &str, field: &'static str) -> ProcessError {
    ProcessError::Form { path: path.to_owned(), field }
}

fn duration(time: TimeVal) -> Duration {
    let seconds = u64::try_from(time.tv_sec()).unwrap_or(0);
    let micros = u64::try_from(time.tv_usec()).unwrap_or(0);
    Duration::from_secs(seconds) + Duration::from_micros(micros)
}

#[cfg(test)]
mod tests;
