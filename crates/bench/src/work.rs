//! What a transaction needs at the very least, and how long this machine takes for that: the limit of a stage.
//!
//! A limit is arithmetic, not an estimate of what a good program would do: so many hashes at the rate of
//! [`crate::limits`], so many updates of rows in memory, so many signatures, so many bytes written, one after the
//! other on one core, and nothing else. Allocation, tables, queues, branches and the kernel are not in it.

use std::fmt;
use std::ops::{Add, AddAssign, Mul};

use crate::ceiling::Ceiling;
use crate::limits::{self, Limit};

/// What one transaction needs; a share of something where a batch needs it once.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Work {
    /// BLAKE3 compressions of 64 bytes.
    pub hashes: f64,
    /// Rows of a table in memory that are found and updated.
    pub updates: f64,
    /// Bytes written.
    pub bytes: f64,
    /// Ed25519 signatures verified in batches, each by another key.
    pub verified: f64,
}

impl Work {
    /// The limits of [`crate::limits`] that this is computed from.
    const LIMITS: [&'static str; 4] =
        ["blake3-64-many", "update-prefetched", "memcpy", "ed25519-verify-batch-4096"];

    fn parts(&self) -> [f64; 4] {
        [self.hashes, self.updates, self.bytes, self.verified]
    }

    /// Nanoseconds of processor time, from limits of one core; `None` when one that is needed was not measured.
    #[must_use]
    pub fn nanoseconds(&self, limits: &[Limit]) -> Option<f64> {
        let mut sum = 0.0;
        for (count, name) in self.parts().into_iter().zip(Self::LIMITS) {
            if count > 0.0 {
                sum += count * 1e9 / limits::find(limits, name)?.idle();
            }
        }
        Some(sum)
    }

    /// The most of it that one core does in a second of processor time, from limits of one core; `None` when one that is
    /// needed was not measured.
    #[must_use]
    pub fn ceiling(&self, limits: &[Limit]) -> Option<Ceiling> {
        Some(Ceiling { name: self.to_string(), rate: 1e9 / self.nanoseconds(limits)? })
    }
}

impl Add for Work {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self {
            hashes: self.hashes + other.hashes,
            updates: self.updates + other.updates,
            bytes: self.bytes + other.bytes,
            verified: self.verified + other.verified,
        }
    }
}

impl AddAssign for Work {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Mul<f64> for Work {
    type Output = Self;
    fn mul(self, times: f64) -> Self {
        Self {
            hashes: self.hashes * times,
            updates: self.updates * times,
            bytes: self.bytes * times,
            verified: self.verified * times,
        }
    }
}

impl fmt::Display for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = [("hash", "hashes"), ("update", "updates"), ("B", "B"), ("signature", "signatures")];
        let mut first = true;
        for (count, (one, many)) in self.parts().into_iter().zip(names) {
            if count <= 0.0 {
                continue;
            }
            let name = if count == 1.0 { one } else { many };
            let separator = if first { "" } else { " + " };
            let decimals = usize::from(count.fract() != 0.0);
            write!(f, "{separator}{count:.decimals$} {name}")?;
            first = false;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::Better;

    fn limit(name: &str, value: f64) -> Limit {
        Limit {
            name: name.into(),
            value,
            unit: "1/s",
            better: Better::Higher,
            cores: 1,
            samples: vec![value],
            processor_share: None,
        }
    }

    #[test]
    fn the_limit_is_the_sum_of_the_parts() {
        let limits = [limit("blake3-64-many", 1e8), limit("update-prefetched", 5e7), limit("memcpy", 1e10)];
        let work = Work { hashes: 6.0, updates: 1.0, bytes: 100.0, verified: 0.0 };
        assert_eq!(work.nanoseconds(&limits), Some(60.0 + 20.0 + 10.0));
        assert_eq!((work * 2.0 + work).nanoseconds(&limits), Some(270.0));
        assert_eq!(work.to_string(), "6 hashes + 1 update + 100 B");
        let ceiling = work.ceiling(&limits).unwrap();
        assert_eq!(
            (ceiling.name.clone(), ceiling.share(11_111_111.0).map(f64::round)),
            (work.to_string(), Some(1.0))
        );
        let signed = Work { verified: 0.5, ..Work::default() };
        assert_eq!(signed.nanoseconds(&limits), None, "a limit that was not measured is not guessed");
        assert_eq!(signed.to_string(), "0.5 signatures");
    }
}
