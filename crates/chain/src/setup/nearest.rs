//! The name that was probably meant.

/// The candidate that differs least from `name`, unless it differs by more than a third.
pub(super) fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let bound = (name.chars().count() / 3).max(2);
    candidates
        .into_iter()
        .map(|candidate| (distance(name, candidate), candidate))
        .filter(|(distance, _)| *distance <= bound)
        .min()
        .map(|(_, candidate)| candidate)
}

/// Letters to insert, delete or replace (Levenshtein 1966), at a cost of the product of the lengths, the
/// first of which is cut to what any option may have.
fn distance(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (i, a) in from.chars().take(100).enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, b) in to.iter().enumerate() {
            let replaced = diagonal + usize::from(a != *b);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_different_name_is_found() {
        let names = ["rpc-http-port", "rpc-ws-port", "p2p-port"];
        assert_eq!(nearest("rpc-htp-port", names), Some("rpc-http-port"));
        assert_eq!(nearest("rpc_ws_port", names), Some("rpc-ws-port"));
        assert_eq!(nearest("p2p-prot", names), Some("p2p-port"));
        assert_eq!(nearest("miner-coinbase", names), None);
        assert_eq!(distance("kitten", "sitting"), 3);
        assert_eq!(distance("", "abc"), 3);
    }
}
