//! Evidence that two runs were the same.

/// A running hash over everything that happened, in order. Two runs of one seed must have equal traces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    hash: u64,
    events: u64,
}

/// FNV-1a, 64 bits (draft-eastlake-fnv): no protection against forgery is needed here.
const FNV_OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_PRIME: u64 = 0x0000_0100_0000_01b3;

impl Default for Trace {
    fn default() -> Self {
        Self { hash: FNV_OFFSET, events: 0 }
    }
}

impl Trace {
    /// A trace of nothing.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an event: what happened, and its details.
    pub fn record(&mut self, what: &str, details: &[u8]) {
        self.events += 1;
        // Lengths first, so that no two sequences of events run together into the same bytes.
        self.fold(&(what.len() as u64).to_le_bytes());
        self.fold(what.as_bytes());
        self.fold(&(details.len() as u64).to_le_bytes());
        self.fold(details);
    }

    /// Adds an event whose detail is a number.
    pub fn record_number(&mut self, what: &str, number: u64) {
        self.record(what, &number.to_le_bytes());
    }

    /// The hash of all events so far, in their order.
    #[must_use]
    pub fn hash(&self) -> u64 {
        self.hash
    }

    /// How many events there were.
    #[must_use]
    pub fn events(&self) -> u64 {
        self.events
    }

    fn fold(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.hash = (self.hash ^ u64::from(byte)).wrapping_mul(FNV_PRIME);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Trace;

    #[test]
    fn order_and_boundaries_matter() {
        let run = |events: &[(&str, &[u8])]| {
            let mut trace = Trace::new();
            events.iter().for_each(|(what, details)| trace.record(what, details));
            trace.hash()
        };
        assert_eq!(run(&[("a", b"1"), ("b", b"2")]), run(&[("a", b"1"), ("b", b"2")]));
        assert_ne!(run(&[("a", b"1"), ("b", b"2")]), run(&[("b", b"2"), ("a", b"1")]));
        assert_ne!(run(&[("ab", b"")]), run(&[("a", b"b")]));
        assert_ne!(run(&[("a", b""), ("b", b"")]), run(&[("a", b"")]));
    }
}
