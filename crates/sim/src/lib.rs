//! A world that fails on purpose and always the same way: seeded randomness, scheduler, clock and disk.
//!
//! A simulation draws every decision from one [`Rng`], so that a seed replays the whole run; a [`Trace`]
//! shows that it did. Nothing here reads the system's clock, its random source or its files.

mod clock;
mod disk;
mod rng;
mod scheduler;
mod trace;

pub use clock::SimClock;
pub use disk::{DiskCounts, SECTOR_BYTES, SimDisk, SimFile, SimLock, Snapshot};
pub use rng::Rng;
pub use scheduler::Scheduler;
pub use trace::Trace;
