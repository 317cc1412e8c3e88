//! Files of blocks: one RLP block after the other, as other clients import and export them.

use std::io::{self, Read, Write};
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::{Duration, Instant};

use alloy_rlp::Header as RlpHeader;
use tally_evm::{Block, BlockError};
use tally_state::Durability;

use crate::branch::Candidate;
use crate::chain::{Chain, Commit, Prepared};
use crate::error::{ChainError, ImportError};
use crate::sealed::Seals;

/// The longest block that is read from a file, in bytes.
const LARGEST_BLOCK: usize = 128 << 20;
/// Blocks that are prepared ahead of the one that is executed.
const AHEAD: usize = 32;
/// Blocks that are committed together.
const TOGETHER: usize = 256;
/// Bytes of blocks that are committed together.
const TOGETHER_BYTES: u64 = 2 << 20;
/// How often somebody who watches is told.
const REPORT: Duration = Duration::from_millis(500);

/// A file of blocks could not be imported or exported.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// Reading failed.
    #[error("the file cannot be read at byte {offset}")]
    Read {
        /// Where in the file.
        offset: u64,
        /// Why.
        source: io::Error,
    },
    /// Writing failed.
    #[error("the file cannot be written")]
    Write(#[source] io::Error),
    /// Not a list of RLP at this place, or one that is too long or cut off.
    #[error("there is no block at byte {offset} of the file: {reason}")]
    NoBlock {
        /// Where in the file.
        offset: u64,
        /// What is there.
        reason: String,
    },
    /// A block was not taken.
    #[error("the block at byte {offset} of the file was not taken")]
    Refused {
        /// Where in the file.
        offset: u64,
        /// Why.
        source: ImportError,
    },
    /// The chain could not be read or written.
    #[error(transparent)]
    Chain(#[from] ChainError),
}

/// What an import has done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Blocks that were executed.
    pub blocks: u64,
    /// Blocks that the chain had already.
    pub known: u64,
    /// Transactions that were executed.
    pub transactions: u64,
    /// Gas that they used.
    pub gas: u64,
    /// The newest block.
    pub head: u64,
}

/// Imports blocks, each executed and checked. What was imported before an error stays.
///
/// One thread reads and finds senders, with `threads` at it, while this one executes. `report` is told now and then.
///
/// # Errors
/// What is wrong with the file or the first block that is not taken.
pub fn import(
    chain: &Chain,
    file: impl Read + Send,
    threads: usize,
    report: &mut dyn FnMut(&Progress),
) -> Result<Progress, FileError> {
    std::thread::scope(|scope| {
        let (ready, blocks) = sync_channel(AHEAD);
        let reading = chain.clone();
        scope.spawn(move || {
            let mut reader = Reader { file, offset: 0 };
            loop {
                let next = reader.next(&reading, threads).transpose();
                let Some(next) = next else { break };
                let ends = next.is_err();
                // Nobody takes any more once a block was refused.
                if ready.send(next).is_err() || ends {
                    break;
                }
            }
        });
        execute_all(chain, &blocks, report)
    })
}

struct Ready {
    offset: u64,
    prepared: Prepared,
}

struct Reader<R> {
    file: R,
    offset: u64,
}

impl<R: Read> Reader<R> {
    /// The next block of the file; `None` at its end.
    fn next(&mut self, chain: &Chain, threads: usize) -> Result<Option<Ready>, FileError> {
        let offset = self.offset;
        let Some(bytes) = self.item()? else { return Ok(None) };
        let refused = |source| FileError::Refused { offset, source };
        let block = Block::decode(&bytes)
            .map_err(|error: BlockError| FileError::NoBlock { offset, reason: error.to_string() })?;
        let prepared = chain.prepare(block, bytes.len() as u64, &|_| None, threads).map_err(refused)?;
        Ok(Some(Ready { offset, prepared }))
    }

    /// The bytes of the next RLP list.
    fn item(&mut self) -> Result<Option<Vec<u8>>, FileError> {
        let offset = self.offset;
        let no_block = |reason: &str| FileError::NoBlock { offset, reason: reason.into() };
        let mut bytes = Vec::new();
        if self.read(&mut bytes, 1)? == 0 {
            return Ok(None);
        }
        let length_bytes = match bytes[0] {
            0xf8..=0xff => usize::from(bytes[0] - 0xf7),
            0xc0..=0xf7 => 0,
            _ => return Err(no_block("not a list")),
        };
        if self.read(&mut bytes, length_bytes)? < length_bytes {
            return Err(no_block("the file ends within it"));
        }
        // Decoding the header of a list wants its payload to be there, so the length is read here.
        let payload = match length_bytes {
            0 => usize::from(bytes[0] - 0xc0),
            _ => bytes[1..]
                .iter()
                .fold(0_usize, |length, byte| length.saturating_mul(256).saturating_add(usize::from(*byte))),
        };
        if payload > LARGEST_BLOCK {
            return Err(no_block(&format!("{payload} bytes, at most {LARGEST_BLOCK} are read")));
        }
        let header = RlpHeader { list: true, payload_length: payload };
        if header.length() != bytes.len() {
            return Err(no_block("its length is not written as RLP has it"));
        }
        if self.read(&mut bytes, payload)? < payload {
            return Err(no_block("the file ends within it"));
        }
        Ok(Some(bytes))
    }

    /// Reads up to `count` bytes more; fewer only at the end of the file.
    fn read(&mut self, bytes: &mut Vec<u8>, count: usize) -> Result<usize, FileError> {
        let offset = self.offset;
        let read = (&mut self.file)
            .take(count as u64)
            .read_to_end(bytes)
            .map_err(|source| FileError::Read { offset, source })?;
        self.offset += read as u64;
        Ok(read)
    }
}

fn execute_all(
    chain: &Chain,
    blocks: &Receiver<Result<Ready, FileError>>,
    report: &mut dyn FnMut(&Progress),
) -> Result<Progress, FileError> {
    let mut progress = Progress::default();
    let mut together = Together { chain, candidates: Vec::new(), bytes: 0 };
    let mut told = Instant::now();
    while let Ok(next) = blocks.recv() {
        let outcome = next.and_then(|ready| together.take(ready, &mut progress));
        if let Err(error) = outcome {
            // What came before the wrong block stays.
            together.commit()?;
            return Err(error);
        }
        if told.elapsed() >= REPORT {
            told = Instant::now();
            progress.head = together.head();
            report(&progress);
        }
    }
    together.commit()?;
    progress.head = chain.head().number();
    report(&progress);
    Ok(progress)
}

/// Blocks that were executed and are committed together.
struct Together<'a> {
    chain: &'a Chain,
    candidates: Vec<Candidate>,
    bytes: u64,
}

impl Together<'_> {
    fn head(&self) -> u64 {
        self.candidates
            .last()
            .map_or_else(|| self.chain.head().number(), |candidate| candidate.block.number())
    }

    fn take(&mut self, ready: Ready, progress: &mut Progress) -> Result<(), FileError> {
        let Ready { offset, prepared } = ready;
        let refused = |source| FileError::Refused { offset, source };
        let branch = match self.candidates.last() {
            Some(candidate) => candidate.branch.clone(),
            None => self.chain.head().branch.clone(),
        };
        let (number, parent) = (prepared.header().number, prepared.header().parent_hash);
        if parent != branch.hash() {
            self.commit()?;
            if number == self.chain.genesis().number && prepared.hash() == self.chain.genesis_hash() {
                progress.known += 1;
                return Ok(());
            }
            let (transactions, gas) = (prepared.transactions(), prepared.header().gas_used);
            match self.chain.import(prepared).map_err(refused)? {
                Commit::Known => progress.known += 1,
                Commit::Head | Commit::Branch | Commit::Reorganised { .. } => {
                    progress.blocks += 1;
                    progress.transactions += transactions;
                    progress.gas += gas;
                }
            }
            return Ok(());
        }
        let candidate = self.chain.execute(&branch, prepared, Seals::Quorum).map_err(refused)?;
        progress.blocks += 1;
        progress.transactions += candidate.block.transactions.len() as u64;
        progress.gas += candidate.block.sealed.header.gas_used;
        self.bytes += candidate.block.sealed.size;
        self.candidates.push(candidate);
        if self.candidates.len() >= TOGETHER || self.bytes >= TOGETHER_BYTES {
            self.commit()?;
        }
        Ok(())
    }

    fn commit(&mut self) -> Result<(), FileError> {
        let candidates = std::mem::take(&mut self.candidates);
        self.bytes = 0;
        let committed = self.chain.commit(&candidates, Durability::Synced, |_| ());
        committed.map(drop).map_err(|error| match error {
            ImportError::Chain(error) => FileError::Chain(error),
            source => FileError::Refused { offset: 0, source },
        })
    }
}

/// Writes blocks of a range, in order, and says how many.
///
/// # Errors
/// What failed.
pub fn export(
    chain: &Chain,
    range: std::ops::RangeInclusive<u64>,
    mut file: impl Write,
) -> Result<u64, FileError> {
    let reader = chain.reader();
    let mut count = 0;
    for number in range {
        let Some(block) = reader.rlp(number).map_err(ChainError::from)? else { break };
        file.write_all(&block).map_err(FileError::Write)?;
        count += 1;
    }
    file.flush().map_err(FileError::Write)?;
    Ok(count)
}
