//! Times of certificates: whole seconds in X.509, milliseconds on the ledger.

use rustls::pki_types::UnixTime;
use std::fmt;
use std::time::{Duration, SystemTime};
use tally_contracts::Timestamp;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// The time by the operating system's clock; the epoch when the clock stands before it.
pub fn system_now() -> Timestamp {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_millis(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

/// `days` of 24 hours in milliseconds.
pub(crate) const fn days(days: u64) -> u64 {
    days * 24 * 60 * 60 * 1000
}

pub(crate) fn after(time: Timestamp, millis: u64) -> Timestamp {
    Timestamp::from_millis(time.as_millis().saturating_add(millis))
}

pub(crate) fn before(time: Timestamp, millis: u64) -> Timestamp {
    Timestamp::from_millis(time.as_millis().saturating_sub(millis))
}

/// The last second at which `time` had come; the last one of the year 9999 when it is later.
pub(crate) fn to_date(time: Timestamp) -> OffsetDateTime {
    const LAST: i64 = 253_402_300_799;
    let seconds = i64::try_from(time.as_millis() / 1000).unwrap_or(LAST).min(LAST);
    OffsetDateTime::from_unix_timestamp(seconds).unwrap_or(OffsetDateTime::UNIX_EPOCH)
}

/// Milliseconds of a time in seconds since the epoch, as X.509 has it; none before the epoch.
pub(crate) fn from_seconds(seconds: i64) -> Option<Timestamp> {
    u64::try_from(seconds).ok()?.checked_mul(1000).map(Timestamp::from_millis)
}

pub(crate) fn to_unix(time: Timestamp) -> UnixTime {
    UnixTime::since_unix_epoch(Duration::from_secs(time.as_millis() / 1000))
}

pub(crate) fn from_unix(time: UnixTime) -> Timestamp {
    Timestamp::from_millis(time.as_secs().saturating_mul(1000))
}

/// Shows a time as RFC 3339 with seconds, in UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Utc(pub(crate) Timestamp);

impl fmt::Display for Utc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&to_date(self.0).format(&Rfc3339).map_err(|_| fmt::Error)?)
    }
}
