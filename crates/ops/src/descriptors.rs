//! How many files and connections a process may have open.

use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// Raises the limit of open files as far as the system lets this process; answers the limit in force.
pub fn raise() -> usize {
    let Ok((current, most)) = getrlimit(Resource::RLIMIT_NOFILE) else { return 1024 };
    let limit = match setrlimit(Resource::RLIMIT_NOFILE, most, most) {
        Ok(()) => most,
        Err(error) => {
            tracing::warn!(%error, "the limit of open files stays as it is");
            current
        }
    };
    usize::try_from(limit).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_what_the_system_allows() {
        let limit = raise();
        let (current, most) = getrlimit(Resource::RLIMIT_NOFILE).expect("a limit");
        assert_eq!(current, most);
        assert_eq!(limit, usize::try_from(current).unwrap_or(usize::MAX));
    }
}
