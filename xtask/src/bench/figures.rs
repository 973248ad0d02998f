//! Figures of a report: spreads over rounds, gates, rows of tables. Called by the reports of all benches.

use std::fmt::Write;

use anyhow::Result;

/// A bound and what was measured; `None` when it was not.
pub(crate) struct Gate {
    pub(crate) name: String,
    pub(crate) most: f64,
    pub(crate) measured: Option<f64>,
}

impl Gate {
    /// Whether it was measured and is met.
    pub(crate) fn passes(&self) -> bool {
        self.measured.is_some_and(|measured| measured <= self.most)
    }
}

/// The gates as a table under a heading of their own.
pub(crate) fn write_gates(gates: &[Gate], text: &mut String) -> Result<()> {
    writeln!(text, "\n## Gates\n\n| thalweg | at most | measured | |\n|---|---|---|---|")?;
    for gate in gates {
        let measured = gate.measured.map_or("not measured".to_owned(), |value| format!("{value:.2}"));
        let word = if gate.passes() { "met" } else { "**missed**" };
        writeln!(text, "| {} | {} | {measured} | {word} |", gate.name, gate.most)?;
    }
    Ok(())
}

/// A row of a table; nothing when there are no cells.
pub(crate) fn row(text: &mut String, name: &str, cells: impl Iterator<Item = String>) -> Result<()> {
    let cells: Vec<_> = cells.collect();
    if !cells.is_empty() {
        writeln!(text, "| {name} | {} |", cells.join(" | "))?;
    }
    Ok(())
}

/// Least, median and most; zeros when there is nothing.
pub(crate) fn spread(values: &[f64]) -> (f64, f64, f64) {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let (Some(&least), Some(&most)) = (sorted.first(), sorted.last()) else { return (0.0, 0.0, 0.0) };
    let middle = sorted.len() / 2;
    let median = if sorted.len() % 2 == 1 {
        sorted[middle]
    } else {
        f64::midpoint(sorted[middle - 1], sorted[middle])
    };
    (least, median, most)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_an_even_number_lies_between_the_middle_two() {
        assert_eq!(spread(&[4.0, 1.0, 2.0, 3.0]), (1.0, 2.5, 4.0));
        assert_eq!(spread(&[3.0, 1.0, 2.0]), (1.0, 2.0, 3.0));
        assert_eq!(spread(&[]), (0.0, 0.0, 0.0));
    }

    #[test]
    fn what_was_not_measured_is_missed() {
        let gate = |measured| Gate { name: String::new(), most: 1.0, measured }.passes();
        assert!(gate(Some(1.0)) && !gate(Some(1.01)) && !gate(None));
    }
}
