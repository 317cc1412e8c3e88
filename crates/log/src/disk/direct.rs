//! Files written past the page cache (`O_DIRECT`), where the file system can.
//!
//! A journal is written once and read back after a restart or by an audit: a copy in the page cache
//! costs more processor time than everything else about a write, and displaces what is of use. Writes
//! are rounded out to whole blocks: what is in a block before and behind the bytes written is known from
//! the last write, known to be zero, or read. Reads go through the page cache, which the system keeps
//! coherent with direct writes.

use super::{DiskFile, read_full_at};
use rustix::fs::OFlags;
use std::fs::{File, OpenOptions};
use std::io;
use std::ops::Range;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Mutex;

/// Positions, lengths and memory are aligned to this: the largest logical block of common devices.
const BLOCK: usize = 4096;
/// How much is written at once.
const STAGE: usize = 1 << 20;

/// A file whose writes bypass the page cache.
pub(super) struct DirectFile {
    cached: File,
    state: Mutex<State>,
}

struct State {
    /// None: the file system refused direct writes.
    direct: Option<File>,
    stage: Vec<u8>,
    /// The last block of the last write, and where it is.
    last: Option<(u64, Box<[u8]>)>,
    /// What is known to be zero.
    zero: Range<u64>,
}

impl DirectFile {
    /// For the file at `path`, open as `cached` for reading and writing; none where the file system has no
    /// direct writes.
    pub(super) fn open(path: &Path, cached: File) -> Result<Self, File> {
        let flags = OFlags::DIRECT.bits().cast_signed();
        match OpenOptions::new().write(true).custom_flags(flags).open(path) {
            Ok(direct) => {
                let state =
                    State { direct: Some(direct), stage: vec![0; STAGE + BLOCK], last: None, zero: 0..0 };
                Ok(Self { cached, state: Mutex::new(state) })
            }
            Err(_) => Err(cached),
        }
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().expect("a thread panicked while it wrote to a file")
    }
}

fn block_of(position: u64) -> u64 {
    position - position % BLOCK as u64
}

impl State {
    /// Brings the block at `at` into `block`.
    fn block(&mut self, cached: &File, at: u64, block: &mut [u8]) -> io::Result<()> {
        if let Some((known, bytes)) = &self.last
            && *known == at
        {
            block.copy_from_slice(bytes);
            return Ok(());
        }
        block.fill(0);
        if self.zero.start <= at && at + BLOCK as u64 <= self.zero.end {
            return Ok(());
        }
        // Reads ahead, so that a file of zeros is not read block by block.
        let mut ahead = vec![0; STAGE];
        let read = read_full_at(cached, &mut ahead, at)?;
        let here = read.min(BLOCK);
        block[..here].copy_from_slice(&ahead[..here]);
        let zeros = ahead.iter().skip(here).take(read - here).take_while(|byte| **byte == 0).count();
        self.zero = at + here as u64..at + (here + zeros) as u64;
        Ok(())
    }

    /// Writes what fits into the stage; how many of `bytes` that is.
    fn write(&mut self, cached: &File, bytes: &[u8], position: u64) -> io::Result<Option<usize>> {
        if self.direct.is_none() {
            return Ok(None);
        }
        let start = block_of(position);
        let head = usize::try_from(position - start).expect("a block is small");
        let count = bytes.len().min(STAGE - head);
        let length = (head + count).next_multiple_of(BLOCK);
        let mut stage = std::mem::take(&mut self.stage);
        let aligned = stage.as_ptr().align_offset(BLOCK);
        let written =
            self.fill_and_write(cached, &mut stage[aligned..aligned + length], start, head, &bytes[..count]);
        self.stage = stage;
        written
    }

    fn fill_and_write(
        &mut self,
        cached: &File,
        stage: &mut [u8],
        start: u64,
        head: usize,
        bytes: &[u8],
    ) -> io::Result<Option<usize>> {
        let end = head + bytes.len();
        let last = stage.len() - BLOCK;
        if head > 0 {
            self.block(cached, start, &mut stage[..BLOCK])?;
        }
        if !end.is_multiple_of(BLOCK) && (last > 0 || head == 0) {
            self.block(cached, start + last as u64, &mut stage[last..])?;
        }
        stage[head..end].copy_from_slice(bytes);
        self.last = None;
        let Some(direct) = &self.direct else { return Ok(None) };
        match FileExt::write_at(direct, stage, start) {
            Ok(written) if written == stage.len() => {
                self.last = Some((start + last as u64, stage[last..].into()));
                self.zero.start = self.zero.start.max(start + end as u64).min(self.zero.end);
                Ok(Some(bytes.len()))
            }
            // A short write, for want of space: the part of `bytes` that went through. Nothing is known of the rest.
            Ok(written) if written > head => {
                self.zero = 0..0;
                Ok(Some((written - head).min(bytes.len())))
            }
            Ok(_) => Err(io::ErrorKind::StorageFull.into()),
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
                // The file system takes direct opens and refuses direct writes.
                self.direct = None;
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }
}

impl DiskFile for DirectFile {
    fn read_at(&self, buffer: &mut [u8], position: u64) -> io::Result<usize> {
        FileExt::read_at(&self.cached, buffer, position)
    }

    fn write_at(&self, bytes: &[u8], position: u64) -> io::Result<usize> {
        if bytes.is_empty() {
            return Ok(0);
        }
        let mut state = self.state();
        match state.write(&self.cached, bytes, position)? {
            Some(written) => Ok(written),
            None => FileExt::write_at(&self.cached, bytes, position),
        }
    }

    fn sync_data(&self) -> io::Result<()> {
        DiskFile::sync_data(&self.cached)
    }

    fn sync_all(&self) -> io::Result<()> {
        DiskFile::sync_all(&self.cached)
    }

    fn allocate(&self, length: u64) -> io::Result<()> {
        let mut state = self.state();
        let before = DiskFile::len(&self.cached)?;
        self.cached.allocate(length)?;
        if before < length {
            state.zero = before..length;
        }
        Ok(())
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        let mut state = self.state();
        (state.last, state.zero) = (None, 0..0);
        DiskFile::set_len(&self.cached, length)
    }

    fn len(&self) -> io::Result<u64> {
        DiskFile::len(&self.cached)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn open(path: &Path) -> Option<DirectFile> {
        let cached =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path).unwrap();
        let file = DirectFile::open(path, cached).ok();
        if file.is_none() {
            eprintln!("not tested: the file system of the temporary directory has no direct writes");
        }
        file
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        /// Any writes at any positions, with the file reopened now and then, leave what they would leave in memory.
        #[test]
        fn agrees_with_memory(
            reserved in 0u64..40_000,
            writes in prop::collection::vec((0usize..3, 0u64..30_000, 1usize..9_000, any::<bool>()), 1..24),
        ) {
            let directory = tempfile::tempdir().unwrap();
            let path = directory.path().join("file");
            let Some(mut file) = open(&path) else { return Ok(()) };
            file.allocate(reserved).unwrap();
            let mut model = vec![0u8; usize::try_from(reserved).unwrap()];
            let mut end = 0;
            for (number, (way, position, length, reopen)) in (1u8..).zip(writes) {
                // Mostly one write after the other, as a journal does.
                let position = if way == 0 { position } else { end };
                let bytes: Vec<u8> = (0..length).map(|at| number ^ (at % 251) as u8).collect();
                crate::disk::write_all_at(&file, &bytes, position).unwrap();
                end = position + length as u64;
                let end = usize::try_from(end).unwrap();
                model.resize(model.len().max(end), 0);
                model[end - length..end].copy_from_slice(&bytes);
                if reopen {
                    file.sync_data().unwrap();
                    file = open(&path).unwrap();
                }
            }
            file.sync_all().unwrap();
            let mut found = std::fs::read(&path).unwrap();
            prop_assert!(found.len() >= model.len());
            model.resize(found.len(), 0);
            prop_assert!(found == model);
            file.set_len(end.min(model.len() as u64)).unwrap();
            found = std::fs::read(&path).unwrap();
            prop_assert_eq!(&found[..], &model[..usize::try_from(end).unwrap().min(model.len())]);
        }
    }

    #[test]
    fn writes_longer_than_the_stage_go_through() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        let Some(file) = open(&path) else { return };
        let bytes: Vec<u8> = (0..3 * STAGE + 77).map(|at| (at % 253) as u8).collect();
        crate::disk::write_all_at(&file, b"head", 0).unwrap();
        crate::disk::write_all_at(&file, &bytes, 4).unwrap();
        let found = std::fs::read(&path).unwrap();
        assert_eq!(&found[..4], b"head");
        assert_eq!(found[4..4 + bytes.len()], bytes);
        assert!(found[4 + bytes.len()..].iter().all(|byte| *byte == 0));
    }
}
