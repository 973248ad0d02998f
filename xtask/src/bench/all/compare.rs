//! Two runs of the same benches: how far their ratios are from each other.
//!
//! Ratios are the figures that a report prints in bold with the least and the most of their rounds behind them, and
//! what its gates measured as a multiple (`×`) of something. They are paired by part, heading, row and column, and by
//! the column before where two have one name; what only one of the runs has is left out.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::tables::{Figure, figure, tables};
use crate::bench::figures::{head, row, spread};

/// How far the median of the differences may be from nothing.
const AGREES: f64 = 0.10;

/// A ratio of a report, by what it stands for.
type Ratio = (String, f64);

/// Where the report of a part is in a folder of reports.
pub(super) fn file(folder: &Path, name: &str) -> PathBuf {
    folder.join(format!("{name}.md"))
}

/// The report on these parts beside those of the same names in the folder of an earlier run.
pub(super) fn with(earlier: &Path, parts: &[(&str, &str)]) -> Result<String> {
    let pair = |(name, after): &(&str, &str)| {
        let file = file(earlier, name);
        let before = fs::read_to_string(&file).with_context(|| format!("no report {}", file.display()))?;
        Ok((name.to_string(), differences(&ratios(&before), &ratios(after))))
    };
    report(&parts.iter().map(pair).collect::<Result<Vec<_>>>()?)
}

fn report(parts: &[(String, Vec<Ratio>)]) -> Result<String> {
    let mut text =
        "# A second run\n\nHow far each ratio is from that of the earlier run, as a share of it.\n\n"
            .to_owned();
    head(&mut text, &["part", "ratios", "median", "nine of ten within", "most", "which"])?;
    for (name, found) in parts {
        line(&mut text, name, found)?;
    }
    let all: Vec<_> = parts.iter().flat_map(|(_, found)| found.clone()).collect();
    line(&mut text, "all", &all)?;
    let (median, most) = (median(&all) * 100.0, AGREES * 100.0);
    let word = if median <= most { "agree" } else { "do not agree" };
    writeln!(text, "\nThe two runs {word}: the median is {median:.1} % (at most {most:.0} %).")?;
    Ok(text)
}

/// What a report has in bold with a spread behind it, and the multiples of its gates.
fn ratios(markdown: &str) -> Vec<Ratio> {
    let mut found = Vec::new();
    for table in tables(markdown) {
        for cells in &table.rows {
            let is_multiple = table.heading == "Gates" && cells[0].contains('×');
            for (at, cell) in cells.iter().enumerate().skip(1) {
                let column = column(&table.columns, at);
                let is_ratio = |figure: &Figure| match is_multiple {
                    true => column == "measured",
                    false => cell.starts_with("**") && figure.range.is_some(),
                };
                let name = || format!("{}: {}, {column}", table.heading, cells[0]);
                found.extend(figure(cell).filter(is_ratio).map(|figure| (name(), figure.value)));
            }
        }
    }
    found
}

/// The name of a column; with that of the one before where another one has the same.
fn column(columns: &[String], at: usize) -> String {
    let Some(name) = columns.get(at) else { return String::new() };
    let is_alone = columns.iter().filter(|other| *other == name).count() == 1;
    match columns.get(at.wrapping_sub(1)) {
        Some(before) if !is_alone => format!("{name} of {before}"),
        _ => name.clone(),
    }
}

/// The ratios that both have, with the share by which the later one differs.
fn differences(before: &[Ratio], after: &[Ratio]) -> Vec<Ratio> {
    let earlier = |name: &str| before.iter().find(|(known, value)| known == name && *value > 0.0);
    let pairs = after.iter().filter_map(|(name, value)| Some((name, *value, earlier(name)?.1)));
    pairs.map(|(name, value, before)| (name.clone(), (value / before - 1.0).abs())).collect()
}

fn median(found: &[Ratio]) -> f64 {
    spread(&found.iter().map(|(_, share)| *share).collect::<Vec<_>>()).1
}

fn line(text: &mut String, name: &str, found: &[Ratio]) -> Result<()> {
    let mut sorted = found.to_vec();
    sorted.sort_by(|a, b| a.1.total_cmp(&b.1));
    let (within, most) = (sorted.get((sorted.len() * 9).div_ceil(10).saturating_sub(1)), sorted.last());
    let percent = |share: Option<f64>| share.map_or(String::new(), |share| format!("{:.1} %", share * 100.0));
    let cells = [
        sorted.len().to_string(),
        percent(most.map(|_| median(found))),
        percent(within.map(|it| it.1)),
        percent(most.map(|it| it.1)),
        most.map_or(String::new(), |it| it.0.clone()),
    ];
    row(text, name, cells.into_iter())
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: &str = "# A\n\n## 50\n\n| | nginx | busy |\n|---|---|---|\n| CPU | **0.80** (0.70–0.90) | 94 % |\n\
                         | p99 | **1.00** (0.9–1.1) | |\n\n## Gates\n\n| | |\n|---|---|\n| CPU | **missed** |\n";

    #[test]
    fn ratios_are_what_is_bold_and_has_a_spread() {
        assert_eq!(ratios(FIRST), [("50: CPU, nginx".to_owned(), 0.80), ("50: p99, nginx".to_owned(), 1.0)]);
    }

    #[test]
    fn columns_of_one_name_are_told_apart_and_gates_count_as_multiples() {
        let text = "## h2\n\n| | CPU | ratio | rate | ratio |\n|---|---|---|---|---|\n\
                    | nginx | 13 | **0.97** (0.9–1.0) | 72 | **1.04** (1.0–1.1) |\n\n## Gates\n\n\
                    | thalweg | at most | measured | |\n|---|---|---|---|\n\
                    | p99, × nginx's | 1.1 | 0.98 | met |\n| failed | 0 | 25 | **missed** |\n";
        let expected = [
            ("h2: nginx, ratio of CPU".to_owned(), 0.97),
            ("h2: nginx, ratio of rate".to_owned(), 1.04),
            ("Gates: p99, × nginx's, measured".to_owned(), 0.98),
        ];
        assert_eq!(ratios(text), expected);
    }

    #[test]
    fn runs_are_compared_ratio_by_ratio() {
        let after = |second: &str| {
            report(&[("small".to_owned(), differences(&ratios(FIRST), &ratios(second)))]).unwrap()
        };
        let text = after(&FIRST.replace("**0.80**", "**0.84**").replace("**1.00**", "**1.30**"));
        assert!(text.contains("| small | 2 | 17.5 % | 30.0 % | 30.0 % | 50: p99, nginx |"), "{text}");
        assert!(text.contains("do not agree: the median is 17.5 %"), "{text}");
        let text = after(FIRST);
        assert!(text.contains("The two runs agree: the median is 0.0 %"), "{text}");
        assert!(with(Path::new("/nowhere"), &[("small", FIRST)]).is_err());
    }
}
