//! Which coins to spend.

/// Coins that cover an amount.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selection {
    /// Positions of the chosen coins among the candidates, ascending.
    pub chosen: Vec<usize>,
    /// What the chosen coins hold beyond the amount.
    pub change: u64,
}

/// All coins together do not cover the amount.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the coins hold {available} minor units, {wanted} are wanted")]
pub struct Insufficient {
    /// What they hold together.
    pub available: u128,
    /// The amount wanted.
    pub wanted: u64,
}

/// Chooses among coins of these quantities as few as possible to cover `wanted`, and among choices
/// of that many coins one with little change: for one coin and for two the least change there is,
/// for more a choice in which no single coin can be exchanged for another to lower the change.
///
/// Coins of nothing are never chosen; for `wanted` zero nothing is. Work is of order `n log n`
/// for `n` candidates.
///
/// # Errors
/// [`Insufficient`] when all coins together hold less than `wanted`.
pub fn select_coins(quantities: &[u64], wanted: u64) -> Result<Selection, Insufficient> {
    if wanted == 0 {
        return Ok(Selection { chosen: Vec::new(), change: 0 });
    }
    let mut coins: Vec<(u64, usize)> =
        quantities.iter().copied().zip(0..).filter(|(quantity, _)| *quantity > 0).collect();
    // By position among equals, so that the choice is the same everywhere.
    coins.sort_unstable();
    let mut missing = wanted;
    let count = coins.iter().rev().position(|(quantity, _)| {
        missing = missing.saturating_sub(*quantity);
        missing == 0
    });
    let Some(beyond_first) = count else {
        let available = quantities.iter().copied().map(u128::from).fold(0, u128::saturating_add);
        return Err(Insufficient { available, wanted });
    };
    let chosen = match beyond_first {
        0 => one(&coins, wanted),
        1 => two(&coins, wanted),
        _ => several(&coins, beyond_first.saturating_add(1), wanted),
    };
    let total = chosen.iter().map(|(quantity, _)| u128::from(*quantity)).fold(0, u128::saturating_add);
    let change = total.saturating_sub(u128::from(wanted));
    let mut chosen: Vec<_> = chosen.into_iter().map(|(_, position)| position).collect();
    chosen.sort_unstable();
    // Without any one of the coins the rest would not do, so the change is below every coin.
    Ok(Selection { chosen, change: u64::try_from(change).unwrap_or(u64::MAX) })
}

/// The smallest coin that covers `wanted`; `coins` are ascending.
fn one(coins: &[(u64, usize)], wanted: u64) -> Vec<(u64, usize)> {
    let at = coins.partition_point(|(quantity, _)| *quantity < wanted);
    coins.get(at).copied().into_iter().collect()
}

/// The pair of least sum that covers `wanted`, by two pointers from both ends.
fn two(coins: &[(u64, usize)], wanted: u64) -> Vec<(u64, usize)> {
    let mut best: Option<(u128, [(u64, usize); 2])> = None;
    let (mut low, mut high) = (0, coins.len().saturating_sub(1));
    while low < high {
        let (Some(a), Some(b)) = (coins.get(low), coins.get(high)) else { break };
        let sum = u128::from(a.0).saturating_add(u128::from(b.0));
        if sum < u128::from(wanted) {
            low = low.saturating_add(1);
        } else {
            if best.is_none_or(|(least, _)| sum < least) {
                best = Some((sum, [*a, *b]));
            }
            high = high.saturating_sub(1);
        }
    }
    best.map(|(_, pair)| pair.to_vec()).unwrap_or_default()
}

/// The `count` largest coins, then each in turn, from the largest, exchanged for the smallest free
/// coin that still leaves enough.
fn several(coins: &[(u64, usize)], count: usize, wanted: u64) -> Vec<(u64, usize)> {
    let (free, largest) = coins.split_at(coins.len().saturating_sub(count));
    let mut chosen = largest.to_vec();
    let sum = chosen.iter().map(|(quantity, _)| u128::from(*quantity)).fold(0, u128::saturating_add);
    let mut spare = sum.saturating_sub(u128::from(wanted));
    let mut taken = vec![false; free.len()];
    for coin in chosen.iter_mut().rev() {
        let least = u128::from(coin.0).saturating_sub(spare);
        let from = free.partition_point(|(quantity, _)| u128::from(*quantity) < least);
        let found = free.iter().zip(taken.iter_mut()).skip(from).find(|(_, taken)| !**taken);
        if let Some((better, taken)) = found {
            spare = spare.saturating_sub(u128::from(coin.0.saturating_sub(better.0)));
            *taken = true;
            *coin = *better;
        }
    }
    chosen
}

#[cfg(test)]
mod tests;
