//! Faults to come.

use std::io;

#[derive(Clone, Debug, Default)]
pub(super) struct Faults {
    pub(super) space_failures: u64,
    pub(super) capacity_bytes: Option<u64>,
    pub(super) sync_failure_after: Option<u64>,
    pub(super) short_writes: bool,
    pub(super) operations_left: Option<u64>,
}

impl Faults {
    pub(super) fn begin_operation(&mut self) -> io::Result<()> {
        self.check_power()?;
        if let Some(left) = &mut self.operations_left {
            *left -= 1;
        }
        Ok(())
    }

    pub(super) fn check_power(&self) -> io::Result<()> {
        match self.operations_left {
            Some(0) => Err(io::Error::other("the power is off")),
            _ => Ok(()),
        }
    }

    pub(super) fn take_space(&mut self, used: u64, grows: u64) -> io::Result<()> {
        if self.space_failures > 0 {
            self.space_failures -= 1;
            return Err(io::ErrorKind::StorageFull.into());
        }
        match self.capacity_bytes {
            Some(capacity) if grows > 0 && used + grows > capacity => Err(io::ErrorKind::StorageFull.into()),
            _ => Ok(()),
        }
    }

    pub(super) fn check_sync(&mut self) -> io::Result<()> {
        match self.sync_failure_after {
            Some(0) => {
                self.sync_failure_after = None;
                Err(io::Error::other("injected failure of a sync"))
            }
            Some(left) => {
                self.sync_failure_after = Some(left - 1);
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// The space that is missing stays missing; the rest was a matter of the run.
    pub(super) fn end_with_run(&mut self) {
        *self = Self { capacity_bytes: self.capacity_bytes, ..Self::default() };
    }
}
