//! Who comes after whom where everybody has a turn in each round.

/// The turns of a round of `count`: each round begins with another one, and every other goes the other way round, so
/// that nobody always finds what the same one has left behind.
pub(crate) fn order(round: usize, count: usize) -> impl Iterator<Item = usize> {
    (0..count).map(move |turn| match round % 2 {
        0 => (round + turn) % count,
        _ => (round + count - turn) % count,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everybody_has_a_turn_and_comes_after_both_neighbours() {
        for count in 1..6 {
            let mut pairs = vec![vec![false; count]; count];
            for round in 0..2 * count {
                let turns: Vec<_> = order(round, count).collect();
                let mut sorted = turns.clone();
                sorted.sort_unstable();
                assert!(sorted.iter().copied().eq(0..count), "{turns:?}");
                turns.windows(2).for_each(|pair| pairs[pair[0]][pair[1]] = true);
            }
            let neighbours = |a: usize, b: usize| (a + 1) % count == b || (b + 1) % count == a;
            let all = (0..count).all(|a| (0..count).all(|b| a == b || !neighbours(a, b) || pairs[a][b]));
            assert!(all, "{count}: {pairs:?}");
        }
    }
}
