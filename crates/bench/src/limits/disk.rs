//! How fast the disk under a directory makes writes durable.

use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::path::Path;

use super::Limit;
use super::meter::Meter;
use crate::result::Better;

pub(super) const COUNT: usize = 6;

/// The size of a file that is overwritten.
const PREPARED_BYTES: u64 = 64 * 1024 * 1024;

#[derive(Clone, Copy, PartialEq)]
enum Mode {
    /// The file grows, as a log does that does not prepare its space.
    Append,
    /// The file was written before.
    Overwrite,
}

pub(super) fn measure(meter: &Meter, directory: &Path, add: &mut impl FnMut(Limit)) -> io::Result<()> {
    for (mode, suffix) in [(Mode::Append, ""), (Mode::Overwrite, "-overwrite")] {
        let mut target = Target::new(directory, mode)?;
        for (name, bytes) in [("write-256k", 256 * 1024), ("write-4m", 4 * 1024 * 1024)] {
            let samples = target.rates(meter, bytes)?;
            add(Limit::new(format!("{name}{suffix}"), "B/s", Better::Higher, samples));
        }
        const SMALL: usize = 4096;
        let micros = |rate: f64| 1e6 * SMALL as f64 / rate;
        let samples = target.rates(meter, SMALL)?.into_iter().map(micros).collect();
        add(Limit::new(format!("fdatasync-4k{suffix}"), "us", Better::Lower, samples));
    }
    Ok(())
}

struct Target {
    // Removes the file when the measurement ends, however it ends.
    file: tempfile::NamedTempFile,
    mode: Mode,
}

impl Target {
    fn new(directory: &Path, mode: Mode) -> io::Result<Self> {
        let mut file = tempfile::Builder::new().prefix(".tally-limits-").tempfile_in(directory)?;
        if mode == Mode::Overwrite {
            let block = vec![0x11; 1024 * 1024];
            for _ in 0..PREPARED_BYTES / block.len() as u64 {
                file.write_all(&block)?;
            }
        }
        // The entry in the directory and the size are durable before the first measurement.
        file.as_file().sync_all()?;
        Ok(Self { file, mode })
    }

    /// Durable bytes per second in blocks of this size, once for each repetition.
    fn rates(&mut self, meter: &Meter, bytes: usize) -> io::Result<Vec<f64>> {
        // Not compressible to nothing, where a file system or disk compresses.
        let mut random = crate::statistics::SplitMix::new(bytes as u64);
        let block: Vec<u8> = (0..bytes / 8).flat_map(|_| random.next().to_le_bytes()).collect();
        let mode = self.mode;
        let file = self.file.as_file_mut();
        (0..meter.repetitions)
            .map(|_| {
                if mode == Mode::Append {
                    file.set_len(0)?;
                    file.sync_all()?;
                }
                let mut at = file.seek(SeekFrom::Start(0))?;
                meter.rate(|| {
                    if mode == Mode::Overwrite && at + bytes as u64 > PREPARED_BYTES {
                        at = file.seek(SeekFrom::Start(0))?;
                    }
                    at += write_durably(file, &block)?;
                    Ok(bytes as u64)
                })
            })
            .collect()
    }
}

fn write_durably(file: &mut File, block: &[u8]) -> io::Result<u64> {
    file.write_all(block)?;
    file.sync_data()?;
    Ok(block.len() as u64)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn files_grow_or_keep_their_size_and_are_removed() {
        let directory = tempfile::tempdir().unwrap();
        let meter = Meter { repetition: Duration::ZERO, repetitions: 3 };
        for (mode, length) in [(Mode::Append, 4096), (Mode::Overwrite, PREPARED_BYTES)] {
            let mut target = Target::new(directory.path(), mode).unwrap();
            let rates = target.rates(&meter, 4096).unwrap();
            assert!(rates.len() == 3 && rates.iter().all(|rate| *rate > 0.0));
            assert_eq!(target.file.as_file().metadata().unwrap().len(), length);
        }
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
    }
}
