//! The shell around the stages: topics that join them, and workers that run whichever can go on.

pub mod executor;
pub mod feed;
pub mod shell;
pub mod topic;
pub mod under_way;

pub use executor::{Executor, Signal, Stage, StageError};
pub use feed::{Cursor, Feeds, Polled, RecordFault};
pub use topic::{Reader, Topic, TopicError};
