//! How much a file may ask of the reader.

/// Limits that are checked before anything is allocated in proportion to the file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Most bytes of a file. Default: 16 MiB.
    pub bytes: usize,
    /// Deepest nesting of elements, the outermost being 1. Default: 64.
    pub depth: usize,
    /// Most payments in one message. Default: 100,000.
    pub payments: usize,
    /// Most tags, comments, references and other pieces of markup, and most nodes of the tree made
    /// of them; bounds the memory that a file takes, at about 140 bytes each. Default: 2,500,000,
    /// more than 16 MiB of payments have.
    pub nodes: u32,
    /// Most attributes of one element, namespace declarations included. Default: 16.
    pub attributes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { bytes: 16 << 20, depth: 64, payments: 100_000, nodes: 2_500_000, attributes: 16 }
    }
}
