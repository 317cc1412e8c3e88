//! Blocks that were read lately, bounded in bytes.

use std::sync::Arc;

use alloy_primitives::map::DefaultHashBuilder;
use quick_cache::sync::{Cache, DefaultLifecycle};
use quick_cache::{OptionsBuilder, Weighter};

use super::block::Block;
use super::segment::BlockDirectory;

#[derive(Clone, Debug)]
pub(super) enum Cached {
    Block(Block),
    Directory(Arc<BlockDirectory>),
}

#[derive(Clone)]
struct Bytes;

/// A segment, and a block in it or `u32::MAX` for its directory.
type Place = (u64, u32);

impl Weighter<Place, Cached> for Bytes {
    fn weight(&self, _: &Place, cached: &Cached) -> u64 {
        /// Of an entry besides its bytes.
        const OVERHEAD: usize = 128;
        let size = match cached {
            Cached::Block(block) => block.size_bytes(),
            Cached::Directory(directory) => directory.size_bytes(),
        };
        (size + OVERHEAD) as u64
    }
}

/// Shared by all segments of a store.
pub(super) struct BlockCache {
    cache: Cache<Place, Cached, Bytes, DefaultHashBuilder>,
}

impl BlockCache {
    pub(super) fn new(bytes: usize) -> Self {
        let options = OptionsBuilder::new()
            .weight_capacity(bytes as u64)
            .estimated_items_capacity((bytes / 4096).max(16))
            // Few shards: a directory of blocks must fit into one.
            .shards(4)
            .build()
            .expect("all required options are set");
        let cache =
            Cache::with_options(options, Bytes, DefaultHashBuilder::default(), DefaultLifecycle::default());
        Self { cache }
    }

    pub(super) fn get(&self, segment: u64, block: u32) -> Option<Cached> {
        self.cache.get(&(segment, block))
    }

    pub(super) fn insert(&self, segment: u64, block: u32, cached: Cached) {
        self.cache.insert((segment, block), cached);
    }

    /// Bytes held.
    pub(super) fn size_bytes(&self) -> u64 {
        self.cache.weight()
    }
}

impl std::fmt::Debug for BlockCache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BlockCache").field("bytes", &self.size_bytes()).finish()
    }
}
