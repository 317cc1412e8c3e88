//! Jobs that are done side by side, each of which may give more of them.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use super::Stop;

struct Queue<J> {
    state: Mutex<State<J>>,
    changed: Condvar,
}

struct State<J> {
    waiting: VecDeque<J>,
    busy: usize,
    stop: Option<Stop>,
    /// No further job is begun.
    is_closed: bool,
}

impl<J> Queue<J> {
    fn lock(&self) -> MutexGuard<'_, State<J>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next job, once there is one; none when all are done.
    fn next(&self) -> Option<J> {
        let mut state = self.lock();
        loop {
            if state.is_closed {
                return None;
            }
            if let Some(job) = state.waiting.pop_front() {
                state.busy += 1;
                return Some(job);
            }
            if state.busy == 0 {
                return None;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// A job is no longer under way, also when it panicked: then the others end as well.
struct Busy<'a, J>(&'a Queue<J>);

impl<J> Drop for Busy<'_, J> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.busy -= 1;
        state.is_closed |= std::thread::panicking();
        drop(state);
        self.0.changed.notify_all();
    }
}

/// Does all jobs and those that come of them, `threads` at a time. The first that stops ends it.
pub(super) fn run<J: Send>(
    jobs: Vec<J>,
    threads: usize,
    work: impl Fn(J) -> Result<Vec<J>, Stop> + Sync,
) -> Result<(), Stop> {
    let state = State { waiting: jobs.into(), busy: 0, stop: None, is_closed: false };
    let queue = Queue { state: Mutex::new(state), changed: Condvar::new() };
    std::thread::scope(|scope| {
        for _ in 0..threads.max(1) {
            scope.spawn(|| {
                while let Some(job) = queue.next() {
                    let busy = Busy(&queue);
                    let outcome = work(job);
                    let mut state = queue.lock();
                    match outcome {
                        Ok(more) => state.waiting.extend(more),
                        Err(stop) => {
                            state.is_closed = true;
                            state.stop.get_or_insert(stop);
                        }
                    }
                    drop(state);
                    drop(busy);
                }
            });
        }
    });
    let state = queue.state.into_inner().unwrap_or_else(PoisonError::into_inner);
    state.stop.map_or(Ok(()), Err)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    #[test]
    fn jobs_that_come_of_jobs_are_done_as_well() {
        let done = AtomicU64::new(0);
        let outcome = run(vec![10_u64, 3], 4, |job| {
            done.fetch_add(1, Ordering::Relaxed);
            Ok(if job == 0 { Vec::new() } else { vec![job - 1] })
        });
        assert!(outcome.is_ok());
        assert_eq!(done.into_inner(), 15);
    }

    #[test]
    fn the_first_that_stops_ends_it() {
        let outcome =
            run((0..1_000_u64).collect(), 3, |job| if job == 7 { Err(Stop::Gone) } else { Ok(vec![job]) });
        assert!(matches!(outcome, Err(Stop::Gone)));
    }
}
