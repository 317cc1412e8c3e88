//! The simulated disk as a disk.

use super::{Disk, DiskFile};
use std::io;
use tally_sim::{SimDisk, SimFile};

impl Disk for SimDisk {
    fn create(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        Ok(Box::new(SimDisk::create(self, name)?))
    }

    fn open(&self, name: &str, _write: bool) -> io::Result<Box<dyn DiskFile>> {
        Ok(Box::new(SimDisk::open(self, name)?))
    }

    fn list(&self) -> io::Result<Vec<String>> {
        SimDisk::list(self)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        SimDisk::remove(self, name)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        SimDisk::rename(self, from, to)
    }

    fn sync_dir(&self) -> io::Result<()> {
        SimDisk::sync_dir(self)
    }

    fn try_lock(&self, name: &str) -> io::Result<Option<Box<dyn Send + Sync>>> {
        Ok(SimDisk::try_lock(self, name)?.map(|lock| Box::new(lock) as Box<dyn Send + Sync>))
    }

    fn describe(&self) -> String {
        "a simulated disk".to_owned()
    }
}

impl DiskFile for SimFile {
    fn read_at(&self, buffer: &mut [u8], position: u64) -> io::Result<usize> {
        SimFile::read_at(self, buffer, position)
    }

    fn write_at(&self, bytes: &[u8], position: u64) -> io::Result<usize> {
        SimFile::write_at(self, bytes, position)
    }

    fn sync_data(&self) -> io::Result<()> {
        SimFile::sync_data(self)
    }

    fn sync_all(&self) -> io::Result<()> {
        SimFile::sync_all(self)
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        SimFile::allocate(self, len)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        SimFile::set_len(self, len)
    }

    fn len(&self) -> io::Result<u64> {
        SimFile::len(self)
    }
}
