//! One life of the process: from opening the journal to a crash.

use std::path::Path;
use std::sync::Arc;
use tally_ledger::Timestamp;
use tally_log::{FileLog, Log, LogError};
use tally_settlement::engine::{Desk, EngineError, EngineOptions, RecoveryReport, assemble};
use tally_settlement::journal::JournalError;
use tally_settlement::runtime::Stage;
use tally_sim::SimDisk;

pub(crate) struct Life {
    pub(crate) stages: Vec<Box<dyn Stage>>,
    pub(crate) desk: Desk,
    pub(crate) log: Arc<FileLog>,
    pub(crate) report: RecoveryReport,
}

/// Why a process did not start.
pub(crate) enum NoStart {
    /// The disk failed it.
    Disk(LogError),
    /// The machine's clock is behind the journal.
    Clock { ahead_ms: u64 },
}

impl Life {
    /// Starts the process.
    ///
    /// # Errors
    /// When the disk fails or the clock is wrong; anything else is a defect.
    pub(crate) fn begin(options: &EngineOptions, disk: &SimDisk, now: Timestamp) -> Result<Self, NoStart> {
        let opened = FileLog::open_on(Arc::new(disk.clone()), options.journal.clone());
        let (log, opened) = opened.map_err(NoStart::Disk)?;
        let log = Arc::new(log);
        match assemble(options, &log, opened, now) {
            Ok(assembly) => {
                let (stages, desk, report) = (assembly.stages, assembly.desk, assembly.report);
                Ok(Self { stages, desk, log, report })
            }
            Err(EngineError::Log { source, .. }) => Err(NoStart::Disk(source)),
            Err(EngineError::Journal(JournalError::Log(source))) => Err(NoStart::Disk(source)),
            Err(EngineError::Clock { ahead_ms }) => Err(NoStart::Clock { ahead_ms }),
            Err(error) => panic!("the network does not start: {}", chain(&error)),
        }
    }

    /// Lets every stage run until nothing moves any more and everything is durable.
    pub(crate) fn drain(&mut self, now: Timestamp) {
        let mut idle = 0;
        for _ in 0..100_000 {
            let mut progress = false;
            for stage in self.stages.iter_mut().rev() {
                progress |= stage.poll(now).unwrap_or_else(|error| panic!("{}", chain(&error)));
            }
            self.log.sync().unwrap_or_else(|error| panic!("a disk without faults fails: {}", chain(&error)));
            idle = if progress { 0 } else { idle + 1 };
            if idle > 2 {
                assert!(self.desk.is_drained(), "nothing moves and not everything is decided");
                return;
            }
        }
        panic!("the stages never come to rest");
    }
}

/// An error with its causes.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

/// The snapshots of a directory, oldest first.
pub(crate) fn snapshots(directory: &Path) -> Vec<std::path::PathBuf> {
    let path = directory.join("snapshots");
    if !path.exists() {
        return Vec::new();
    }
    tally_settlement::snapshot::list(&path).expect("the directory of snapshots can be read")
}
