//! How long rounds and blocks wait.

use super::{Config, Head, Period, Settings};

/// The request timeout of a round: doubled each round, up to a cap; short when the proposer is away.
pub(super) fn round_ms(config: &Config, settings: &Settings, round: u32, absent: bool) -> u64 {
    let base = settings.request_timeout_ms.max(1);
    if absent {
        let short = config.absent_timeout_ms.unwrap_or_else(|| (base / 8).max(50));
        return short.clamp(1, base);
    }
    let doubled = base.saturating_mul(1_u64.checked_shl(round).unwrap_or(u64::MAX));
    doubled.min(config.max_request_timeout_ms.max(base))
}

/// When the next block is due, in milliseconds since 1970. `anchor_ms` is when the last one was begun here.
pub(super) fn due_ms(head: &Head, anchor_ms: Option<u64>, now_ms: u64) -> u64 {
    match head.settings.period {
        Period::Seconds(_) => {
            head.timestamp_s.saturating_mul(1_000).saturating_add(head.settings.period_ms())
        }
        Period::Milliseconds(ms) => {
            // From beginning to beginning, so that the time that agreement takes does not add up. A clock
            // that was set back must not delay the block.
            let anchor_ms = anchor_ms.filter(|anchor| *anchor <= now_ms).unwrap_or(now_ms);
            anchor_ms.saturating_add(ms)
        }
    }
}

/// When a block without transactions is due.
pub(super) fn empty_due_ms(head: &Head) -> u64 {
    head.timestamp_s.saturating_add(head.settings.empty_period_s).saturating_mul(1_000)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Protocol, ValidatorSet};

    #[test]
    fn timeouts_double_up_to_the_cap() {
        let config = Config { max_request_timeout_ms: 10_000, ..Config::new(Protocol::QBFT) };
        let settings = Settings { request_timeout_ms: 2_000, ..Settings::default() };
        let timeouts: Vec<u64> = (0..5).map(|round| round_ms(&config, &settings, round, false)).collect();
        assert_eq!(timeouts, [2_000, 4_000, 8_000, 10_000, 10_000]);
        assert_eq!(round_ms(&config, &settings, u32::MAX, false), 10_000);
        assert_eq!(round_ms(&config, &settings, 3, true), 250);
        let config = Config { absent_timeout_ms: Some(9_000), ..config };
        assert_eq!(round_ms(&config, &settings, 0, true), 2_000, "never above the request timeout");
        // A cap below the timeout itself does not shorten round 0.
        let config = Config { max_request_timeout_ms: 1, ..config };
        assert_eq!(round_ms(&config, &settings, 7, false), 2_000);
    }

    #[test]
    fn periods_count_from_timestamp_or_beginning() {
        let mut head = Head::genesis(Default::default(), 100, ValidatorSet::default());
        head.settings.period = Period::Seconds(2);
        assert_eq!(due_ms(&head, Some(1), 100_500), 102_000);
        head.settings.period = Period::Milliseconds(250);
        assert_eq!(due_ms(&head, Some(100_400), 100_500), 100_650);
        assert_eq!(due_ms(&head, None, 100_500), 100_750);
        assert_eq!(due_ms(&head, Some(200_000), 100_500), 100_750);
    }
}
