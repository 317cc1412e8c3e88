//! A file of sorted entries of one table, written once.
//!
//! Blocks, then one region that says where each begins and which keys can be in the file at all. The
//! manifest knows where that region lies, so a file that is not in the manifest means nothing.

use std::sync::Arc;

use super::block::{Block, BlockBuilder, common_prefix};
use super::cache::{BlockCache, Cached};
use super::directory::{Directory, StoreFile};
use super::filter::Filter;
use super::hash::hash;
use super::value::Found;
use super::{KEY_LIMIT, StoreError};

/// A block ends once it has this many bytes: about what one page of a disk has.
const BLOCK_BYTES: usize = 4096;
/// Blocks above this are read past the cache: one body of a block must not push out the accounts.
const CACHED_BLOCK_LIMIT: usize = 64 << 10;
const WRITE_BUFFER_BYTES: usize = 256 << 10;

/// What the manifest keeps of a segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SegmentInfo {
    pub(super) id: u64,
    pub(super) size: u64,
    pub(super) entries: u64,
    pub(super) directory_offset: u64,
    pub(super) directory_length: u32,
    pub(super) first_key: Vec<u8>,
    pub(super) last_key: Vec<u8>,
}

/// The file's name within the store's directory.
pub(super) fn file_name(id: u64) -> String {
    format!("{id:010}.segment")
}

/// Where the blocks of a segment are.
#[derive(Debug)]
pub(super) struct BlockDirectory {
    /// Above each key of the block before, not above any of its own; one after the other.
    separators: Vec<u8>,
    /// End of the separator, offset and length of the block.
    blocks: Vec<(u32, u64, u32)>,
    filter: Filter,
}

impl BlockDirectory {
    fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.size_bytes() + 16);
        out.extend_from_slice(&(self.blocks.len() as u32).to_le_bytes());
        for (end, offset, length) in &self.blocks {
            out.extend_from_slice(&end.to_le_bytes());
            out.extend_from_slice(&offset.to_le_bytes());
            out.extend_from_slice(&length.to_le_bytes());
        }
        out.extend_from_slice(&self.separators);
        self.filter.encode(&mut out);
        let checksum = crc32fast::hash(&out);
        out.extend_from_slice(&checksum.to_le_bytes());
        out
    }

    fn parse(bytes: &[u8], limit: u64) -> Option<Self> {
        let (body, checksum) = bytes.split_at_checked(bytes.len().checked_sub(4)?)?;
        if crc32fast::hash(body) != u32::from_le_bytes(checksum.try_into().ok()?) {
            return None;
        }
        let (count, rest) = body.split_at_checked(4)?;
        let count = u32::from_le_bytes(count.try_into().ok()?) as usize;
        let (table, rest) = rest.split_at_checked(count.checked_mul(16)?)?;
        let mut blocks = Vec::with_capacity(count);
        let mut last = 0;
        for entry in table.chunks_exact(16) {
            let end = u32::from_le_bytes(entry[0..4].try_into().ok()?);
            let offset = u64::from_le_bytes(entry[4..12].try_into().ok()?);
            let length = u32::from_le_bytes(entry[12..16].try_into().ok()?);
            if end < last || offset.checked_add(u64::from(length))? > limit {
                return None;
            }
            last = end;
            blocks.push((end, offset, length));
        }
        let (separators, filter) = rest.split_at_checked(last as usize)?;
        if blocks.is_empty() {
            return None;
        }
        Some(Self { separators: separators.to_vec(), blocks, filter: Filter::parse(filter)? })
    }

    pub(super) fn size_bytes(&self) -> usize {
        self.separators.len() + self.blocks.len() * 16 + self.filter.size_bytes()
    }

    pub(super) fn len(&self) -> usize {
        self.blocks.len()
    }

    fn separator(&self, position: usize) -> &[u8] {
        let start = position.checked_sub(1).map_or(0, |before| self.blocks[before].0);
        &self.separators[start as usize..self.blocks[position].0 as usize]
    }

    /// The only block that can hold `key`.
    fn block_of(&self, key: &[u8]) -> usize {
        let mut low = 0;
        let mut high = self.blocks.len();
        while high - low > 1 {
            let middle = low.midpoint(high);
            if self.separator(middle) <= key {
                low = middle;
            } else {
                high = middle;
            }
        }
        low
    }
}

/// An open segment.
#[derive(Debug)]
pub(super) struct Segment {
    pub(super) info: SegmentInfo,
    directory: Directory,
    file: StoreFile,
    cache: Arc<BlockCache>,
}

impl Segment {
    pub(super) fn open(
        directory: &Directory,
        info: SegmentInfo,
        cache: Arc<BlockCache>,
    ) -> Result<Self, StoreError> {
        let file = directory.open_file(&file_name(info.id), false)?;
        let length = file.length()?;
        if length != info.size {
            let what = format!("the file has {length} bytes instead of {}", info.size);
            return Err(StoreError::corrupt(file.path(), length, what));
        }
        Ok(Self { info, directory: directory.clone(), file, cache })
    }

    fn read(&self, offset: u64, length: usize) -> Result<Vec<u8>, StoreError> {
        let mut bytes = vec![0; length];
        self.file.read_exact_at(&mut bytes, offset)?;
        Ok(bytes)
    }

    pub(super) fn directory(&self) -> Result<Arc<BlockDirectory>, StoreError> {
        if let Some(Cached::Directory(directory)) = self.cache.get(self.info.id, u32::MAX) {
            return Ok(directory);
        }
        let offset = self.info.directory_offset;
        let bytes = self.read(offset, self.info.directory_length as usize)?;
        let directory = BlockDirectory::parse(&bytes, offset).ok_or_else(|| {
            StoreError::corrupt(self.file.path(), offset, "the list of blocks fails its checksum")
        })?;
        let directory = Arc::new(directory);
        self.cache.insert(self.info.id, u32::MAX, Cached::Directory(Arc::clone(&directory)));
        Ok(directory)
    }

    /// One block, from the cache or the file. With `once` it is not kept: the reader passes through.
    pub(super) fn block(
        &self,
        directory: &BlockDirectory,
        position: usize,
        once: bool,
    ) -> Result<Block, StoreError> {
        if let Some(Cached::Block(block)) = self.cache.get(self.info.id, position as u32) {
            return Ok(block);
        }
        let (_, offset, length) = directory.blocks[position];
        let block = Block::parse(self.read(offset, length as usize)?)
            .ok_or_else(|| StoreError::corrupt(self.file.path(), offset, "a block fails its checksum"))?;
        if !once && length as usize <= CACHED_BLOCK_LIMIT {
            self.cache.insert(self.info.id, position as u32, Cached::Block(block.clone()));
        }
        Ok(block)
    }

    /// What the segment knows of `key`, whose hash is `hash`.
    pub(super) fn get(&self, key: &[u8], hash: u64) -> Result<Option<Found>, StoreError> {
        if key < &self.info.first_key[..] || key > &self.info.last_key[..] {
            return Ok(None);
        }
        let directory = self.directory()?;
        if !directory.filter.may_contain(hash) {
            return Ok(None);
        }
        let block = self.block(&directory, directory.block_of(key), false)?;
        let (position, exact) = block.lower_bound(key);
        Ok(exact.then(|| block.found(position)))
    }

    /// The block that can hold `key`, or the place where it would be.
    pub(super) fn block_of(&self, key: &[u8]) -> Result<(Arc<BlockDirectory>, usize), StoreError> {
        let directory = self.directory()?;
        let position = directory.block_of(key);
        Ok((directory, position))
    }

    /// Takes the name away; readers that have the file open go on.
    pub(super) fn remove(&self) {
        self.directory.discard(&file_name(self.info.id));
    }
}

/// Writes one segment, entries in key order. Dropped before it is finished, it leaves no file.
pub(super) struct SegmentWriter {
    id: u64,
    directory: Directory,
    file: StoreFile,
    finished: bool,
    buffer: Vec<u8>,
    written: u64,
    block: BlockBuilder,
    hashes: Vec<u64>,
    separators: Vec<u8>,
    blocks: Vec<(u32, u64, u32)>,
    first_key: Vec<u8>,
    last_key: Vec<u8>,
}

impl SegmentWriter {
    pub(super) fn create(directory: &Directory, id: u64) -> Result<Self, StoreError> {
        let file = directory.create(&file_name(id))?;
        Ok(Self {
            id,
            directory: directory.clone(),
            file,
            finished: false,
            buffer: Vec::with_capacity(WRITE_BUFFER_BYTES + BLOCK_BYTES),
            written: 0,
            block: BlockBuilder::default(),
            hashes: Vec::new(),
            separators: Vec::new(),
            blocks: Vec::new(),
            first_key: Vec::new(),
            last_key: Vec::new(),
        })
    }

    /// Bytes so far.
    pub(super) fn size_bytes(&self) -> u64 {
        self.written + self.buffer.len() as u64 + self.block.size_bytes() as u64
    }

    pub(super) fn add(&mut self, key: &[u8], value: Option<&[u8]>) -> Result<(), StoreError> {
        debug_assert!(key.len() <= KEY_LIMIT);
        if self.block.is_empty() {
            if self.hashes.is_empty() {
                self.first_key = key.to_vec();
            } else {
                let shared = common_prefix(&self.last_key, key);
                self.separators.extend_from_slice(&key[..shared + 1]);
            }
        }
        self.hashes.push(hash(key));
        self.block.add(key, value);
        if self.block.size_bytes() >= BLOCK_BYTES { self.end_block() } else { Ok(()) }
    }

    fn end_block(&mut self) -> Result<(), StoreError> {
        self.last_key = self.block.last_key().to_vec();
        let start = self.buffer.len();
        self.block.finish(&mut self.buffer);
        let length = (self.buffer.len() - start) as u32;
        self.blocks.push((self.separators.len() as u32, self.written + start as u64, length));
        if self.buffer.len() >= WRITE_BUFFER_BYTES { self.write_out() } else { Ok(()) }
    }

    fn write_out(&mut self) -> Result<(), StoreError> {
        self.file.write_all_at(&self.buffer, self.written)?;
        self.written += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }

    /// Makes the segment durable, all but its name in the directory. At least one entry was added.
    pub(super) fn finish(mut self) -> Result<SegmentInfo, StoreError> {
        if !self.block.is_empty() {
            self.end_block()?;
        }
        let directory = BlockDirectory {
            separators: std::mem::take(&mut self.separators),
            blocks: std::mem::take(&mut self.blocks),
            filter: Filter::new(&self.hashes),
        };
        let directory_offset = self.written + self.buffer.len() as u64;
        let encoded = directory.encode();
        self.buffer.extend_from_slice(&encoded);
        self.write_out()?;
        self.file.sync()?;
        self.finished = true;
        Ok(SegmentInfo {
            id: self.id,
            size: self.written,
            entries: self.hashes.len() as u64,
            directory_offset,
            directory_length: encoded.len() as u32,
            first_key: std::mem::take(&mut self.first_key),
            last_key: std::mem::take(&mut self.last_key),
        })
    }
}

impl Drop for SegmentWriter {
    fn drop(&mut self) {
        // On a full disk what cannot be finished must not take the room of the next attempt.
        if !self.finished {
            self.directory.discard(&file_name(self.id));
        }
    }
}
