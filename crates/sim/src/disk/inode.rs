//! The content of one file: what is durable, and what was done since.

use super::SECTOR_BYTES;
use crate::Rng;

#[derive(Clone, Debug, Default)]
pub(super) struct Inode {
    /// What reads see.
    current: Vec<u8>,
    /// What every crash leaves.
    synced: Vec<u8>,
    /// What was done since, in order.
    unsynced: Vec<Change>,
}

#[derive(Clone, Debug)]
pub(super) enum Change {
    Write { position: u64, bytes: Vec<u8> },
    SetLen { len: u64 },
}

impl Change {
    fn apply(&self, content: &mut Vec<u8>) {
        match self {
            Self::Write { position, bytes } => write(content, index(*position), bytes),
            Self::SetLen { len } => content.resize(index(*len), 0),
        }
    }
}

impl Inode {
    pub(super) fn durable(content: Vec<u8>) -> Self {
        Self { current: content.clone(), synced: content, unsynced: Vec::new() }
    }

    pub(super) fn current(&self) -> &[u8] {
        &self.current
    }

    pub(super) fn read_at(&self, buffer: &mut [u8], position: u64) -> usize {
        let from = index(position).min(self.current.len());
        let len = buffer.len().min(self.current.len() - from);
        buffer[..len].copy_from_slice(&self.current[from..from + len]);
        len
    }

    pub(super) fn change(&mut self, change: Change) {
        change.apply(&mut self.current);
        self.unsynced.push(change);
    }

    pub(super) fn sync(&mut self) {
        for change in std::mem::take(&mut self.unsynced) {
            change.apply(&mut self.synced);
        }
    }

    /// Some of it reached the medium. The cache takes the rest for written: reads still see it, no later
    /// sync takes care of it.
    pub(super) fn fail_sync(&mut self, rng: &mut Rng) {
        for change in std::mem::take(&mut self.unsynced) {
            match (rng.below(3), &change) {
                (0, _) => {}
                (1, Change::Write { position, bytes }) => tear(&mut self.synced, *position, bytes, rng),
                _ => change.apply(&mut self.synced),
            }
        }
    }

    pub(super) fn crash(&mut self, rng: &mut Rng) {
        self.fail_sync(rng);
        self.current.clone_from(&self.synced);
    }

    pub(super) fn flip_bit(&mut self, bit: u64) -> bool {
        let (byte, mask) = (index(bit / 8), 1 << (bit % 8));
        for content in [&mut self.current, &mut self.synced] {
            if let Some(byte) = content.get_mut(byte) {
                *byte ^= mask;
            }
        }
        byte < self.current.len()
    }
}

/// Writes each sector of the write or not, by chance.
fn tear(content: &mut Vec<u8>, position: u64, bytes: &[u8], rng: &mut Rng) {
    let start = index(position);
    let mut at = start;
    while at < start + bytes.len() {
        let end = ((at / SECTOR_BYTES + 1) * SECTOR_BYTES).min(start + bytes.len());
        if rng.chance(1, 2) {
            write(content, at, &bytes[at - start..end - start]);
        }
        at = end;
    }
}

fn write(content: &mut Vec<u8>, at: usize, bytes: &[u8]) {
    let end = at + bytes.len();
    if content.len() < end {
        content.resize(end, 0);
    }
    content[at..end].copy_from_slice(bytes);
}

fn index(position: u64) -> usize {
    usize::try_from(position).expect("a simulated file fits into memory")
}
