//! An open file of the simulated disk.

use super::inode::Change;
use super::{SimDisk, State};
use std::io;

/// An open file of a [`SimDisk`], readable and writable after its name was removed. Fails for ever after a crash
/// of its disk.
#[derive(Debug)]
pub struct SimFile {
    pub(super) disk: SimDisk,
    pub(super) inode: u64,
    pub(super) generation: u64,
}

impl SimFile {
    fn with<T>(&self, act: impl FnOnce(&mut State, u64) -> io::Result<T>) -> io::Result<T> {
        let mut state = self.disk.state();
        if state.generation != self.generation || !state.inodes.contains_key(&self.inode) {
            return Err(io::Error::other("the file was open before the crash"));
        }
        act(&mut state, self.inode)
    }

    /// Reads into `buffer` from `position`; fewer bytes only at the end of the file.
    ///
    /// # Errors
    /// If the disk crashed since the file was opened, or an injected fault.
    pub fn read_at(&self, buffer: &mut [u8], position: u64) -> io::Result<usize> {
        self.with(|state, inode| {
            state.faults.check_power()?;
            Ok(state.inodes[&inode].read_at(buffer, position))
        })
    }

    /// Writes the start of `bytes` at `position` and returns how much; all of it unless
    /// [`SimDisk::short_writes`] is on.
    ///
    /// # Errors
    /// If the disk crashed since the file was opened, or an injected fault.
    pub fn write_at(&self, bytes: &[u8], position: u64) -> io::Result<usize> {
        self.with(|state, inode| {
            state.counts.writes += 1;
            state.begin()?;
            let mut len = bytes.len();
            if state.faults.short_writes && len > 1 {
                len = 1 + state.rng.index(len);
            }
            let grows = (position + len as u64).saturating_sub(state.inodes[&inode].current().len() as u64);
            let used = state.used_bytes();
            state.faults.take_space(used, grows)?;
            state.change(inode, Change::Write { position, bytes: bytes[..len].to_vec() });
            Ok(len)
        })
    }

    /// Makes the content and length durable.
    ///
    /// # Errors
    /// If the disk crashed since the file was opened, or an injected fault; see [`SimDisk::fail_sync`].
    pub fn sync_data(&self) -> io::Result<()> {
        self.with(|state, inode| {
            state.counts.syncs += 1;
            state.begin()?;
            let result = state.faults.check_sync();
            let State { inodes, rng, .. } = state;
            let inode = inodes.get_mut(&inode).expect("an open file exists");
            match result {
                Ok(()) => inode.sync(),
                Err(_) => inode.fail_sync(rng),
            }
            result
        })
    }

    /// As [`sync_data`](Self::sync_data): this disk has no metadata besides the length.
    ///
    /// # Errors
    /// As [`sync_data`](Self::sync_data).
    pub fn sync_all(&self) -> io::Result<()> {
        self.sync_data()
    }

    /// Makes the file at least `len` bytes long, filled with zeros.
    ///
    /// # Errors
    /// If the disk crashed since the file was opened, or an injected fault.
    pub fn allocate(&self, len: u64) -> io::Result<()> {
        self.with(|state, inode| {
            state.begin()?;
            let grows = len.saturating_sub(state.inodes[&inode].current().len() as u64);
            let used = state.used_bytes();
            state.faults.take_space(used, grows)?;
            if grows > 0 {
                state.change(inode, Change::SetLen { len });
            }
            Ok(())
        })
    }

    /// Cuts the file off, or fills it up with zeros, to be `len` bytes long.
    ///
    /// # Errors
    /// If the disk crashed since the file was opened, or an injected fault.
    pub fn set_len(&self, len: u64) -> io::Result<()> {
        self.with(|state, inode| {
            state.begin()?;
            state.change(inode, Change::SetLen { len });
            Ok(())
        })
    }

    /// The length in bytes.
    ///
    /// # Errors
    /// If the disk crashed since the file was opened, or an injected fault.
    pub fn len(&self) -> io::Result<u64> {
        self.with(|state, inode| {
            state.faults.check_power()?;
            Ok(state.inodes[&inode].current().len() as u64)
        })
    }

    /// Whether the length is zero.
    ///
    /// # Errors
    /// As [`len`](Self::len).
    pub fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }
}

impl Drop for SimFile {
    fn drop(&mut self) {
        let mut state = self.disk.state();
        if state.generation == self.generation {
            state.closed(self.inode);
        }
    }
}
