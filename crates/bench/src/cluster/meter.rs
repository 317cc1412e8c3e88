//! When a stage's process was at work, seen from its log: what it reads begins work, what it makes visible ends it, and so
//! does finding nothing more to read. What it says from time to time without having read anything, such as that it is
//! there, is not work.

use nix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// What a process has worked since it was told to begin.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Worked {
    /// From the beginning until something was read, in nanoseconds; 0 where nothing was.
    pub from_ns: u64,
    /// From the beginning to the end of the last work, in nanoseconds; 0 where there was none.
    pub until_ns: u64,
    /// Processor time of the process in that time, in nanoseconds, its client's threads included.
    pub cpu_ns: u64,
    /// From the beginning until the first work was visible, in nanoseconds; 0 where none was.
    pub first_ns: u64,
    /// Commits that made work visible.
    pub commits: u64,
    /// How long they took, in nanoseconds.
    pub commit_ns: u64,
}

/// A moment, counted from the beginning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct At {
    elapsed: Duration,
    cpu: Duration,
}

#[derive(Default)]
struct Marks {
    worked: Worked,
    /// Something was read that is not known to be visible.
    begun: bool,
    /// Something was read, and not yet the end.
    reading: bool,
}

impl Marks {
    fn read(&mut self, found: bool, at: impl FnOnce() -> At) {
        if found {
            (self.begun, self.reading) = (true, true);
            if self.worked.from_ns == 0 {
                self.worked.from_ns = nanoseconds(at().elapsed).max(1);
            }
        } else if std::mem::take(&mut self.reading) {
            self.until(at());
        }
    }

    fn synced(&mut self, took: Duration, at: impl FnOnce() -> At) {
        if !std::mem::take(&mut self.begun) {
            return;
        }
        let at = at();
        self.until(at);
        if self.worked.first_ns == 0 {
            self.worked.first_ns = nanoseconds(at.elapsed);
        }
        self.worked.commits += 1;
        self.worked.commit_ns += nanoseconds(took);
    }

    fn until(&mut self, at: At) {
        (self.worked.until_ns, self.worked.cpu_ns) = (nanoseconds(at.elapsed), nanoseconds(at.cpu));
    }
}

struct State {
    marks: Marks,
    began: Instant,
    cpu: Duration,
    /// How long logs took to open.
    opening: Duration,
}

/// Shared by all logs of a process.
pub(super) struct Meter(Mutex<State>);

impl Default for Meter {
    fn default() -> Self {
        let (began, cpu) = (Instant::now(), process_cpu());
        Self(Mutex::new(State { marks: Marks::default(), began, cpu, opening: Duration::ZERO }))
    }
}

impl Meter {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts from now on.
    pub(super) fn begin(&self) {
        let mut state = self.state();
        (state.marks, state.opening) = (Marks::default(), Duration::ZERO);
        (state.began, state.cpu) = (Instant::now(), process_cpu());
    }

    /// What was worked since.
    pub(super) fn worked(&self) -> Worked {
        self.state().marks.worked
    }

    /// How long it took since to open logs.
    pub(super) fn opening(&self) -> Duration {
        self.state().opening
    }

    pub(super) fn opened(&self, took: Duration) {
        self.state().opening += took;
    }

    pub(super) fn read(&self, found: bool) {
        let state = &mut *self.state();
        let (began, cpu) = (state.began, state.cpu);
        state.marks.read(found, || now(began, cpu));
    }

    pub(super) fn synced(&self, took: Duration) {
        let state = &mut *self.state();
        let (began, cpu) = (state.began, state.cpu);
        state.marks.synced(took, || now(began, cpu));
    }
}

fn now(began: Instant, cpu: Duration) -> At {
    At { elapsed: began.elapsed(), cpu: process_cpu().saturating_sub(cpu) }
}

/// Processor time of this process; zero where the system does not say.
fn process_cpu() -> Duration {
    clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID).map_or(Duration::ZERO, Duration::from)
}

pub(super) fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ns: u64) -> impl FnOnce() -> At {
        move || At { elapsed: Duration::from_nanos(ns), cpu: Duration::from_nanos(ns / 2) }
    }

    fn never() -> At {
        panic!("nobody asks for the time when there was no work")
    }

    #[test]
    fn work_ends_when_it_is_visible_and_a_word_without_work_is_none() {
        let mut marks = Marks::default();
        marks.read(false, never);
        marks.synced(Duration::from_nanos(3), never);
        assert_eq!(marks.worked, Worked::default(), "it only said that it is there");
        marks.read(true, at(20));
        marks.read(true, never);
        marks.read(false, at(100));
        assert_eq!((marks.worked.from_ns, marks.worked.until_ns, marks.worked.commits), (20, 100, 0));
        marks.synced(Duration::from_nanos(40), at(150));
        let once =
            Worked { from_ns: 20, until_ns: 150, cpu_ns: 75, first_ns: 150, commits: 1, commit_ns: 40 };
        assert_eq!(marks.worked, once);
        marks.read(false, never);
        marks.synced(Duration::from_nanos(9), never);
        assert_eq!(marks.worked, once, "a heartbeat moves nothing");
        marks.read(true, never);
        marks.synced(Duration::from_nanos(10), at(300));
        let twice =
            Worked { from_ns: 20, until_ns: 300, cpu_ns: 150, first_ns: 150, commits: 2, commit_ns: 50 };
        assert_eq!(marks.worked, twice);
    }

    #[test]
    fn who_appends_nothing_has_worked_until_there_was_nothing_more() {
        let mut marks = Marks::default();
        for end in [100, 200] {
            marks.read(true, at(end - 50));
            marks.read(false, at(end));
            marks.read(false, never);
        }
        assert_eq!((marks.worked.until_ns, marks.worked.commits, marks.worked.first_ns), (200, 0, 0));
    }

    #[test]
    fn the_processor_is_asked() {
        let before = process_cpu();
        let mut sum = 0u64;
        while process_cpu() < before + Duration::from_millis(2) {
            sum = std::hint::black_box(sum.wrapping_add(1));
        }
        assert!(sum > 0);
    }
}
