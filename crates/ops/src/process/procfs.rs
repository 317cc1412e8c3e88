//! Reading the files of proc(5).

use std::fs::File;
use std::io::Read;
use std::time::Duration;

use super::ProcessError;

/// More than any of the files read here has on a machine of a thousand processors.
const MAX_BYTES: u64 = 8 * 1024 * 1024;

pub(super) fn read(path: &str) -> Result<String, ProcessError> {
    let failed = |source| ProcessError::Read { path: path.to_owned(), source };
    let mut bytes = Vec::new();
    File::open(path).map_err(failed)?.take(MAX_BYTES).read_to_end(&mut bytes).map_err(failed)?;
    // A thread may be named with any bytes.
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// The value of `name: 123 kB`, in bytes.
pub(super) fn kib_field(text: &str, name: &str) -> Option<u64> {
    let value = field(text, name)?.strip_suffix("kB")?.trim();
    value.parse::<u64>().ok()?.checked_mul(1024)
}

/// The value of `name : value`.
pub(super) fn field<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    text.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim_end() == name).then(|| value.trim())
    })
}

/// The first number of a `schedstat`: nanoseconds spent on a processor.
pub(super) fn run_time(schedule: &str) -> Option<Duration> {
    schedule.split_whitespace().next()?.parse().ok().map(Duration::from_nanos)
}
