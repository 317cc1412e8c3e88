//! How fast this machine copies memory, and updates rows that are not in its cache.

use super::meter::Meter;
use super::prefetch::prefetch;
use super::{Limit, LimitError};
use crate::statistics::{SplitMix, mix, scale};

pub(super) const COUNT: usize = 4;

/// A row: one cache line, as an account is.
type Row = [u64; 8];

/// Copied between two looks at the clock, in bytes.
const PIECE: usize = 1024 * 1024;
/// Rows updated between two looks at the clock.
const ROUND: usize = 4096;
/// Rows fetched ahead: more than a core has outstanding misses, few enough to stay in the first-level cache.
const GROUP: usize = 32;
const UPDATES: &str = "update/s";

pub(super) fn measure(
    meter: &Meter,
    cores: usize,
    bytes: usize,
    add: &mut impl FnMut(Limit),
) -> Result<(), LimitError> {
    let rows = bytes / size_of::<Row>();
    if rows < 2 * cores {
        return Err(LimitError::Options(
            "too little memory to measure: give two rows of 64 bytes for each core",
        ));
    }
    let mut table: Vec<Row> = Vec::new();
    table.try_reserve_exact(rows).map_err(|source| LimitError::Memory { bytes, source })?;
    // Not zero: pages of zeroes might all be one page until they are written.
    table.resize(rows, [1; 8]);
    let table = table.as_mut_slice();

    // One core and all cores share the table one after the other, which the closure that `Limit::rates` takes cannot
    // say of workers that borrow from it; hence by hand.
    for (suffix, n) in [("", 1), (super::ALL_CORES, cores)] {
        let rate = |name: &str, unit, rates| Limit::rate(format!("{name}{suffix}"), unit, n, rates);
        add(rate("memcpy", "B/s", meter.rates(copiers(table, n))));
        add(rate("update-dependent", UPDATES, meter.rates(parts(table, n).map(dependent).collect())));
        add(rate("update-independent", UPDATES, meter.rates(parts(table, n).map(independent).collect())));
        add(rate("update-prefetched", UPDATES, meter.rates(parts(table, n).map(prefetched).collect())));
    }
    Ok(())
}

/// The table in `n` equal parts.
fn parts(table: &mut [Row], n: usize) -> impl Iterator<Item = &mut [Row]> {
    let part = table.len() / n;
    table.chunks_exact_mut(part).take(n)
}

fn copiers(table: &mut [Row], n: usize) -> Vec<impl FnMut() -> u64 + Send> {
    parts(table, n)
        .map(|part| {
            let (from, to) = part.split_at_mut(part.len() / 2);
            let piece = (PIECE / size_of::<Row>()).min(from.len());
            let pieces = from.len() / piece;
            let mut next = 0;
            move || {
                let range = next * piece..(next + 1) * piece;
                to[range.clone()].copy_from_slice(&from[range]);
                next = (next + 1) % pieces;
                (piece * size_of::<Row>()) as u64
            }
        })
        .collect()
}

fn update(row: &mut Row) -> u64 {
    row[0] = row[0].wrapping_add(1);
    row[0]
}

fn dependent(rows: &mut [Row]) -> impl FnMut() -> u64 + Send {
    let mut at = 1_u64;
    move || {
        for _ in 0..ROUND {
            let value = update(&mut rows[scale(mix(at), rows.len())]);
            at = at.wrapping_add(value).wrapping_add(0x9e37_79b9_7f4a_7c15);
        }
        ROUND as u64
    }
}

fn independent(rows: &mut [Row]) -> impl FnMut() -> u64 + Send {
    let mut random = SplitMix::new(2);
    move || {
        for _ in 0..ROUND {
            update(&mut rows[random.below(rows.len())]);
        }
        ROUND as u64
    }
}

fn prefetched(rows: &mut [Row]) -> impl FnMut() -> u64 + Send {
    let mut random = SplitMix::new(3);
    let mut group = [0; GROUP];
    move || {
        for _ in 0..ROUND / GROUP {
            for at in &mut group {
                *at = random.below(rows.len());
                prefetch(&rows[*at]);
            }
            for at in group {
                update(&mut rows[at]);
            }
        }
        ROUND as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every way of updating does exactly as many updates as it says, and loses none.
    #[test]
    fn rounds_update_as_many_rows_as_they_say() {
        let mut table = vec![[1_u64; 8]; 1000];
        let mut done = 0;
        done += dependent(&mut table)();
        done += independent(&mut table)();
        done += prefetched(&mut table)();
        let updates: u64 = table.iter().map(|row| row[0] - 1).sum();
        assert_eq!((updates, done), (3 * ROUND as u64, 3 * ROUND as u64));
        assert!(table.iter().filter(|row| row[0] > 1).count() > 990, "updates are spread over the table");
    }

    #[test]
    fn copying_goes_through_the_whole_buffer() {
        let mut table: Vec<Row> = (0..4 * PIECE / 64).map(|row| [row as u64; 8]).collect();
        let half = table.len() / 2;
        {
            let mut copiers = copiers(&mut table, 1);
            assert_eq!(copiers[0]() + copiers[0](), 2 * PIECE as u64);
        }
        assert_eq!(table[..half], table[half..]);
        assert_eq!(parts(&mut table, 3).map(|part| part.len()).sum::<usize>(), 4 * PIECE / 64 / 3 * 3);
    }
}
