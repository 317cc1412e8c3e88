//! Threads for costly calls, with a bounded queue in front.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use super::registry::Place;

type Job = Box<dyn FnOnce(Place) + Send>;

/// The pool. Its threads end when it is dropped, after what they are at.
#[derive(Debug)]
pub struct Pool {
    shared: Arc<Shared>,
}

struct Shared {
    queue: Mutex<Queue>,
    ready: Condvar,
    capacity: usize,
}

#[derive(Default)]
struct Queue {
    jobs: VecDeque<Job>,
    idle: usize,
    closed: bool,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").field("capacity", &self.capacity).finish_non_exhaustive()
    }
}

impl Pool {
    /// `workers` threads (at least one) and room for `capacity` waiting jobs.
    ///
    /// # Errors
    /// When the system gives no threads.
    pub fn new(workers: usize, capacity: usize) -> std::io::Result<Self> {
        let shared = Arc::new(Shared { queue: Mutex::default(), ready: Condvar::new(), capacity });
        let pool = Self { shared };
        for index in 0..workers.max(1) {
            let shared = pool.shared.clone();
            std::thread::Builder::new()
                .name(format!("jsonrpc-call-{index}"))
                .stack_size(8 << 20)
                .spawn(move || work(&shared))?;
        }
        Ok(pool)
    }

    /// Runs `job` on a thread of the pool.
    ///
    /// # Errors
    /// Gives the job back when too many wait.
    pub fn submit<J: FnOnce(Place) + Send + 'static>(&self, job: J) -> Result<(), J> {
        let mut queue = self.shared.queue.lock().unwrap_or_else(PoisonError::into_inner);
        // A job for which a thread waits does not wait itself.
        if queue.closed || queue.jobs.len() >= self.shared.capacity + queue.idle {
            return Err(job);
        }
        queue.jobs.push_back(Box::new(job));
        drop(queue);
        self.shared.ready.notify_one();
        Ok(())
    }

    /// Jobs that wait.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.shared.queue.lock().unwrap_or_else(PoisonError::into_inner).jobs.len()
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        let mut queue = self.shared.queue.lock().unwrap_or_else(PoisonError::into_inner);
        queue.closed = true;
        queue.jobs.clear();
        drop(queue);
        self.shared.ready.notify_all();
    }
}

fn work(shared: &Shared) {
    loop {
        let mut queue = shared.queue.lock().unwrap_or_else(PoisonError::into_inner);
        let job = loop {
            if let Some(job) = queue.jobs.pop_front() {
                break job;
            }
            if queue.closed {
                return;
            }
            queue.idle += 1;
            queue = shared.ready.wait(queue).unwrap_or_else(PoisonError::into_inner);
            queue.idle -= 1;
        };
        drop(queue);
        // The call answers panics of methods itself; a thread must outlive what is left of them.
        if catch_unwind(AssertUnwindSafe(|| job(Place::Pool))).is_err() {
            tracing::error!("a costly call panicked");
        }
    }
}
