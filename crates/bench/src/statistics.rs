//! The few statistics that reports need, deterministic.

/// The median; `None` of nothing. Values are finite.
pub(crate) fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    median_in_place(&mut sorted)
}

/// As [`median`], reordering the values instead of copying them.
pub(crate) fn median_in_place(values: &mut [f64]) -> Option<f64> {
    if values.is_empty() {
        return None;
    }
    let middle = values.len() / 2;
    let odd = values.len() % 2 == 1;
    let (below, upper, _) = values.select_nth_unstable_by(middle, f64::total_cmp);
    if odd {
        return Some(*upper);
    }
    let lower = below.iter().copied().max_by(f64::total_cmp)?;
    Some(lower.midpoint(*upper))
}

/// The value that the share `quantile` (0 to 1) of all values does not exceed, one of them (nearest rank); `None` of nothing.
pub(crate) fn quantile(values: &[f64], quantile: f64) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let rank = (quantile.clamp(0.0, 1.0) * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.saturating_sub(1)).copied()
}

/// Pseudo-random numbers for resampling and for access patterns: SplitMix64 (Steele, Lea, Flood 2014).
#[derive(Debug, Clone)]
pub(crate) struct SplitMix(u64);

impl SplitMix {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    #[inline]
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// A number below `bound`, which is not zero.
    #[inline]
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        scale(self.next(), bound)
    }
}

/// Spreads the bits of a number (the output function of SplitMix64).
#[inline]
pub(crate) fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Maps 64 random bits to a number below `bound` by multiplication (Lemire 2019), without its rejection step: the
/// bias is below 2^-32 for any table that fits in memory.
#[inline]
pub(crate) fn scale(random: u64, bound: usize) -> usize {
    ((u128::from(random) * bound as u128) >> 64) as usize
}

/// How often [`ratio_interval`] draws again; the ends of a 95 % interval are then good to about a tenth of its width.
const DRAWS: usize = 2_000;
/// The most samples drawn of one run, so that comparing long runs stays quick; more would not move a median.
const MAX_DRAWN: usize = 2_000;

/// A 95 % interval of `median(b) / median(a)`: percentile bootstrap, runs first and samples within them second
/// (Davison and Hinkley, *Bootstrap Methods and their Application*, section 3.8).
///
/// `None` where the ratio has no meaning: a side without samples, or medians of zero.
pub(crate) fn ratio_interval(a: &[&[f64]], b: &[&[f64]], seed: u64) -> Option<(f64, f64)> {
    let mut random = SplitMix::new(seed);
    let mut drawn = Vec::new();
    let mut ratios = Vec::with_capacity(DRAWS);
    for _ in 0..DRAWS {
        let below = draw_median(a, &mut random, &mut drawn)?;
        let above = draw_median(b, &mut random, &mut drawn)?;
        let ratio = above / below;
        if !ratio.is_finite() {
            return None;
        }
        ratios.push(ratio);
    }
    ratios.sort_by(f64::total_cmp);
    Some((ratios[DRAWS / 40], ratios[DRAWS - 1 - DRAWS / 40]))
}

fn draw_median(runs: &[&[f64]], random: &mut SplitMix, drawn: &mut Vec<f64>) -> Option<f64> {
    drawn.clear();
    if runs.iter().all(|run| run.is_empty()) {
        return None;
    }
    for _ in runs {
        let run = runs[random.below(runs.len())];
        for _ in 0..run.len().min(MAX_DRAWN) {
            drawn.push(run[random.below(run.len())]);
        }
    }
    median_in_place(drawn)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0]), Some(3.0));
        assert_eq!(median(&[9.0, 1.0, 5.0]), Some(5.0));
        assert_eq!(median(&[9.0, 1.0, 5.0, 6.0]), Some(5.5));
    }

    #[test]
    fn quantiles_are_values_that_were_there() {
        let values: Vec<f64> = (1..=200).rev().map(f64::from).collect();
        let at = |q| quantile(&values, q).unwrap();
        assert_eq!((at(0.0), at(0.01), at(0.5), at(0.99), at(1.0)), (1.0, 2.0, 100.0, 198.0, 200.0));
        assert_eq!((quantile(&[], 0.5), quantile(&[7.0], 0.99)), (None, Some(7.0)));
    }

    #[test]
    fn random_numbers_are_the_published_sequence_and_stay_below_their_bound() {
        let mut random = SplitMix::new(0);
        assert_eq!(random.next(), 0xe220_a839_7b1d_cdaf);
        assert_eq!(random.next(), 0x6e78_9e6a_a1b9_65f4);
        let seen: std::collections::BTreeSet<_> = (0..200).map(|_| random.below(7)).collect();
        assert_eq!(seen.into_iter().collect::<Vec<_>>(), [0, 1, 2, 3, 4, 5, 6]);
        assert_eq!(scale(u64::MAX, 7), 6);
    }

    #[test]
    fn intervals_cover_the_truth_about_as_often_as_they_claim() {
        let mut random = SplitMix::new(1);
        let mut noise = || random.next() as f64 / u64::MAX as f64;
        let mut covered = 0;
        for round in 0..200 {
            let a: Vec<f64> = (0..40).map(|_| 100.0 + 20.0 * noise()).collect();
            let b: Vec<f64> = (0..40).map(|_| 150.0 + 30.0 * noise()).collect();
            let (low, high) = ratio_interval(&[&a], &[&b], round).unwrap();
            covered += usize::from(low <= 1.5 && 1.5 <= high);
        }
        assert!((180..=200).contains(&covered), "{covered} of 200");
    }

    #[test]
    fn intervals_without_meaning_are_not_given() {
        assert_eq!(ratio_interval(&[&[]], &[&[1.0]], 0), None);
        assert_eq!(ratio_interval(&[&[0.0]], &[&[1.0]], 0), None);
        assert_eq!(ratio_interval(&[], &[&[1.0]], 0), None);
        assert_eq!(ratio_interval(&[&[2.0]], &[&[1.0]], 0), Some((0.5, 0.5)));
    }
}
