//! Running on some of the cores only.

use std::io;

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;

use crate::flows::FlowsError;

const THIS_THREAD: Pid = Pid::from_raw(0);

/// While it lives, this thread runs on some cores only, and so does every thread and process that it starts.
#[derive(Debug)]
pub struct Pinned {
    before: CpuSet,
}

impl Pinned {
    /// To the first `cores` of those that this thread may use.
    ///
    /// # Errors
    /// When there are not so many, or the system refuses.
    pub fn to(cores: usize) -> Result<Self, FlowsError> {
        let failed = |errno: nix::Error| FlowsError::system("cannot choose cores")(errno.into());
        let before = sched_getaffinity(THIS_THREAD).map_err(failed)?;
        let mut chosen = CpuSet::new();
        let allowed = (0..CpuSet::count()).filter(|cpu| before.is_set(*cpu).unwrap_or(false));
        let mut found = 0;
        for cpu in allowed.take(cores) {
            chosen.set(cpu).map_err(failed)?;
            found += 1;
        }
        if found < cores || cores == 0 {
            let error = io::Error::other(format!("{cores} cores are asked for, and {found} are there"));
            return Err(FlowsError::system("cannot choose cores")(error));
        }
        sched_setaffinity(THIS_THREAD, &chosen).map_err(failed)?;
        Ok(Self { before })
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        // What was allowed before is allowed still.
        let _ = sched_setaffinity(THIS_THREAD, &self.before);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cores_are_chosen_and_given_back() {
        let cores = || std::thread::available_parallelism().unwrap().get();
        let before = cores();
        let pinned = Pinned::to(1).unwrap();
        assert_eq!(cores(), 1);
        assert_eq!(std::thread::spawn(cores).join().unwrap(), 1);
        drop(pinned);
        assert_eq!(cores(), before);
        assert!(Pinned::to(0).is_err() && Pinned::to(100_000).is_err());
    }
}
