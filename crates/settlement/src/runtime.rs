//! The shell around the stages: topics that join them, and workers that run whichever can go on.

pub mod executor;
pub mod shell;
pub mod topic;

pub use executor::{Executor, Signal, Stage, StageError};
pub use topic::{Reader, Topic, TopicError};
