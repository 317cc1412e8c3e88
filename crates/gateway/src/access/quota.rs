//! How much a user may send: a bucket of tokens for each.

use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

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

#[derive(Debug)]
struct Bucket {
    /// In thousandths.
    level: u64,
    filled: Instant,
}

/// The buckets of all users, by name.
#[derive(Debug, Default)]
pub(super) struct Buckets(Mutex<HashMap<String, Bucket>>);

impl Buckets {
    /// Takes `cost` out of a user's bucket, or says how long to wait for that.
    pub(super) fn take(&self, user: &str, quota: Quota, cost: u32, now: Instant) -> Result<(), Duration> {
        let full = u64::from(quota.burst) * 1000;
        let mut buckets = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let bucket = match buckets.get_mut(user) {
            Some(bucket) => bucket,
            None => buckets.entry(user.to_owned()).or_insert(Bucket { level: full, filled: now }),
        };
        let gained = now.saturating_duration_since(bucket.filled).as_millis() * u128::from(quota.per_second);
        bucket.level = full.min(bucket.level.saturating_add(u64::try_from(gained).unwrap_or(u64::MAX)));
        bucket.filled = bucket.filled.max(now);
        let wanted = u64::from(cost) * 1000;
        match bucket.level.checked_sub(wanted) {
            Some(left) => {
                bucket.level = left;
                Ok(())
            }
            None => {
                let missing = wanted - bucket.level;
                Err(Duration::from_millis(missing / u64::from(quota.per_second.max(1)) + 1))
            }
        }
    }
}
