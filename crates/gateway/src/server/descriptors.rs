//! Files and connections share one limit of the system: connections leave enough for the journal.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// What a network opens besides connections: its journal's segments, snapshots, keys.
const OWN: u64 = 512;

/// How many connections there can be at once, of those that are wanted. The process may open as many files from now on as the
/// system lets it.
pub(super) fn connections(wanted: usize) -> usize {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    let current = match setrlimit(Resource::Nofile, raised) {
        Ok(()) => limit.maximum,
        Err(error) => {
            tracing::warn!(%error, "the limit of open files stays as it is");
            limit.current
        }
    };
    let most = possible(wanted, current);
    if most < wanted {
        tracing::warn!(
            wanted,
            most,
            "fewer connections are served at once than http.max_connections says: the system's limit of open files \
             (ulimit -n) is too low"
        );
    }
    most
}

/// So many of the wanted connections are possible when that many files can be open; at least half of them where even the
/// network's own files are too many.
fn possible(wanted: usize, files: Option<u64>) -> usize {
    let Some(files) = files else { return wanted };
    let most = files.saturating_sub(OWN).max(files / 2).max(1);
    wanted.min(usize::try_from(most).unwrap_or(usize::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_leave_room_for_files() {
        assert_eq!(possible(1024, None), 1024);
        assert_eq!(possible(1024, Some(1_048_576)), 1024);
        assert_eq!(possible(1024, Some(1024)), 512);
        assert_eq!(possible(1024, Some(256)), 128);
        assert_eq!(possible(1024, Some(0)), 1);
    }
}
