//! What may be sent: for each kind of message its lane and its limits, known before anything is read.

use std::fmt;

/// How urgently the messages of a kind are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Lane {
    /// Ahead of everything else (consensus). Those of at most one [chunk](crate::frame::CHUNK) also
    /// overtake longer ones. A peer that takes them in too slowly is disconnected.
    Urgent,
    /// After it (transactions, blocks, synchronisation). When a peer takes them in too slowly, the
    /// sender is told that there is no room.
    Bulk,
}

/// The rule of one kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rule {
    /// Sent without an answer, of at most so many bytes.
    Message { name: &'static str, lane: Lane, longest: u32 },
    /// Answered: the most bytes of the request and of the response.
    Request { name: &'static str, lane: Lane, longest: u32, longest_response: u32 },
}

impl Rule {
    pub(crate) const fn lane(&self) -> Lane {
        match self {
            Self::Message { lane, .. } | Self::Request { lane, .. } => *lane,
        }
    }

    pub(crate) const fn name(&self) -> &'static str {
        match self {
            Self::Message { name, .. } | Self::Request { name, .. } => name,
        }
    }
}

/// The kinds of message of a protocol, by their numbers. Both sides must have the same.
///
/// ```
/// use tally_peers::{Kinds, Lane};
/// let kinds = Kinds::new()
///     .message(0x12, "proposal", Lane::Urgent, 16 << 20)
///     .message(0x20, "transactions", Lane::Bulk, 1 << 20)
///     .request(0x30, "blocks", Lane::Bulk, 1 << 10, 16 << 20);
/// assert_eq!(kinds.name(0x12), Some("proposal"));
/// ```
#[derive(Clone)]
pub struct Kinds {
    rules: Box<[Option<Rule>; 256]>,
}

impl Kinds {
    /// No kinds.
    #[must_use]
    pub fn new() -> Self {
        Self { rules: Box::new([None; 256]) }
    }

    /// With a kind that is sent without an answer, of at most `longest` bytes.
    #[must_use]
    pub fn message(self, kind: u8, name: &'static str, lane: Lane, longest: u32) -> Self {
        self.with(kind, Rule::Message { name, lane, longest })
    }

    /// With a kind that is answered: at most so many bytes of request and of response.
    #[must_use]
    pub fn request(
        self,
        kind: u8,
        name: &'static str,
        lane: Lane,
        longest: u32,
        longest_response: u32,
    ) -> Self {
        self.with(kind, Rule::Request { name, lane, longest, longest_response })
    }

    fn with(mut self, kind: u8, rule: Rule) -> Self {
        self.rules[usize::from(kind)] = Some(rule);
        self
    }

    /// What a kind is called.
    #[must_use]
    pub fn name(&self, kind: u8) -> Option<&'static str> {
        self.rule(kind).map(Rule::name)
    }

    pub(crate) fn rule(&self, kind: u8) -> Option<&Rule> {
        self.rules[usize::from(kind)].as_ref()
    }
}

impl Default for Kinds {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Kinds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rules = self.rules.iter().enumerate().filter_map(|(kind, rule)| Some((kind, rule.as_ref()?)));
        f.debug_map().entries(rules).finish()
    }
}
