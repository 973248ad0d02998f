//! What the programs of the bench report: lines of a word and numbers. Called by all loads.

/// The numbers behind the first word of a line.
pub(crate) fn numbers(line: &str) -> Vec<u64> {
    line.split_whitespace().skip(1).map_while(|word| word.parse().ok()).collect()
}

/// The numbers of the line `RESULT …`, when there are as many as they have to be.
pub(crate) fn result<const N: usize>(text: &str) -> Option<[u64; N]> {
    let line = text.lines().find(|line| line.starts_with("RESULT "))?;
    numbers(line).try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_result_stands_between_other_lines() {
        assert_eq!(result("ends: broken\nRESULT 1 2\nmore\n"), Some([1, 2]));
        assert_eq!(result::<3>("RESULT 1 2\n"), None);
        assert_eq!(result::<1>("RESULTS 1\n"), None);
    }
}
