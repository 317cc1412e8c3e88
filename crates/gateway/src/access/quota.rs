//! How much a user may send: a bucket of tokens for each.

use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use tally_iso20022::Bic;

/// What was agreed with a user. A request costs one; each payment in it beyond the first costs one more.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Quota {
    /// Requests and payments a second, on average.
    pub per_second: u32,
    /// How many at once after a pause; also the most of one request.
    pub burst: u32,
}

impl Default for Quota {
    fn default() -> Self {
        Self { per_second: 100_000, burst: 200_000 }
    }
}

/// Whose bucket.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) enum Bucket {
    /// A user's, by name.
    User(String),
    /// That of all users of an institution.
    Institution(Bic),
}

impl Bucket {
    pub(super) fn into_name(self) -> String {
        match self {
            Self::User(name) => name,
            Self::Institution(bic) => bic.to_string(),
        }
    }
}

/// Parts of a request that a level counts: what one request a second gives in a nanosecond, so that nothing is rounded off
/// however often is asked.
const PARTS: u64 = 1_000_000_000;

#[derive(Debug)]
struct Level {
    /// In [`PARTS`] of a request.
    level: u64,
    filled: Instant,
}

impl Level {
    fn full(quota: Quota) -> u64 {
        u64::from(quota.burst) * PARTS
    }

    /// Fills it with what came in until `now`.
    fn fill(&mut self, quota: Quota, now: Instant) {
        let gained = now.saturating_duration_since(self.filled).as_nanos() * u128::from(quota.per_second);
        let level = self.level.saturating_add(u64::try_from(gained).unwrap_or(u64::MAX));
        self.level = level.min(Self::full(quota));
        self.filled = self.filled.max(now);
    }
}

/// The buckets of everybody.
#[derive(Debug, Default)]
pub(super) struct Buckets(Mutex<HashMap<Bucket, Level>>);

impl Buckets {
    /// Takes `cost` out of each of those buckets, or out of none, and says which has not enough and how long to wait for it.
    pub(super) fn take(
        &self,
        wanted: impl IntoIterator<Item = (Bucket, Quota)>,
        cost: u32,
        now: Instant,
    ) -> Result<(), (Bucket, Duration)> {
        let cost = u64::from(cost) * PARTS;
        let mut buckets = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut enough = Vec::new();
        for (bucket, quota) in wanted {
            let level =
                buckets.entry(bucket.clone()).or_insert(Level { level: Level::full(quota), filled: now });
            level.fill(quota, now);
            if let Some(missing) = cost.checked_sub(level.level).filter(|missing| *missing > 0) {
                return Err((
                    bucket,
                    Duration::from_nanos(missing.div_ceil(u64::from(quota.per_second.max(1)))),
                ));
            }
            enough.push(bucket);
        }
        for bucket in enough {
            buckets.entry(bucket).and_modify(|level| level.level -= cost);
        }
        Ok(())
    }
}
