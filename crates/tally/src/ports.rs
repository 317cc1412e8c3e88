//! Free ports for networks on one machine, where people may say which.

use anyhow::{Context, ensure};
use std::net::{Ipv4Addr, TcpListener};

/// That many different ports of the loopback interface that are free now: from `base` on, or [drawn](tally_ops::ports).
pub(crate) fn free(base: Option<u16>, count: usize) -> anyhow::Result<Vec<u16>> {
    let Some(base) = base else { return tally_ops::ports::free(count).context("give --base-port") };
    ensure!(base > 0, "--base-port: port 0 is no port to be reached at");
    // All are held until all are found, so that none is found twice.
    let mut held = Vec::with_capacity(count);
    for offset in 0..count {
        let port = u16::try_from(offset).ok().and_then(|offset| base.checked_add(offset));
        let port = port
            .with_context(|| format!("--base-port {base}: {count} ports from there on are beyond 65535"))?;
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port));
        held.push((port, listener.with_context(|| format!("--base-port {base}: port {port} is not free"))?));
    }
    Ok(held.into_iter().map(|(port, _)| port).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_from_a_base_on_are_free_or_refused() {
        let first = tally_ops::ports::free_run(12).unwrap();
        assert_eq!(free(Some(first), 12).unwrap(), (first..first + 12).collect::<Vec<_>>());
        let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let error = free(Some(taken.local_addr().unwrap().port()), 1).unwrap_err();
        assert!(error.to_string().contains("is not free"), "{error}");
        assert!(free(Some(65_530), 10).is_err());
        assert_eq!(free(None, 4).unwrap().len(), 4);
    }
}
