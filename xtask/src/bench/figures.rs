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

/// The head of a table and the line below it.
pub(crate) fn head(text: &mut String, cells: &[impl AsRef<str>]) -> Result<()> {
    let cells: Vec<_> = cells.iter().map(AsRef::as_ref).collect();
    writeln!(text, "| {} |\n|{}", cells.join(" | "), "---|".repeat(cells.len()))?;
    Ok(())
}

/// A value of one as a multiple of the other's, round by round.
pub(crate) fn ratios<T>(of: &[T], to: &[T], value: impl Fn(&T) -> f64) -> Vec<f64> {
    of.iter().zip(to).map(|(a, b)| value(a) / value(b)).collect()
}

/// The median of [`ratios`].
pub(crate) fn median_ratio<T>(of: &[T], to: &[T], value: impl Fn(&T) -> f64) -> f64 {
    spread(&ratios(of, to, value)).1
}

/// Ratios as a cell of a table: the median, the least and the most.
pub(crate) fn ratio_cell(ratios: &[f64]) -> String {
    let (least, median, most) = spread(ratios);
    format!("**{median:.2}** ({least:.2}–{most:.2})")
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
    fn ratios_are_taken_round_by_round() {
        let (of, to) = ([1.0, 3.0, 4.0], [2.0, 2.0, 2.0]);
        assert_eq!(ratios(&of, &to, |value| *value), [0.5, 1.5, 2.0]);
        assert_eq!(median_ratio(&of, &to, |value| *value), 1.5);
        assert_eq!(ratio_cell(&[0.5, 1.5, 2.0]), "**1.50** (0.50–2.00)");
        let mut text = String::new();
        head(&mut text, &["", "a"]).unwrap();
        assert_eq!(text, "|  | a |\n|---|---|\n");
    }

    #[test]
    fn what_was_not_measured_is_missed() {
        let gate = |measured| Gate { name: String::new(), most: 1.0, measured }.passes();
        assert!(gate(Some(1.0)) && !gate(Some(1.01)) && !gate(None));
    }
}
