//! The limits that are kept: `bench/gate.txt`, a line for each case.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};

use super::SLACK;
use super::counts::Counts;
use crate::command::root;

/// A count so far below its limit that a regression of the size of the slack would be hidden.
const TOO_LOOSE: f64 = 0.85;

const HEAD: &str = "# What one exchange costs: instructions of the product, and its system calls. `cargo xtask gate` compares;\n\
                    # `cargo xtask gate --write` writes this file.\n";

/// Case and counts.
pub(super) struct Limits(BTreeMap<String, Counts>);

/// What becomes of a count.
pub(super) enum Verdict {
    Holds,
    /// So low that the limit should follow.
    Lower(String),
    Above(String),
}

fn path() -> PathBuf {
    root().join("bench/gate.txt")
}

impl Limits {
    pub(super) fn read() -> Result<Self> {
        let path = path();
        let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        Self::parse(&text)
    }

    fn parse(text: &str) -> Result<Self> {
        let mut limits = BTreeMap::new();
        for line in text.lines().filter(|line| !line.starts_with('#') && !line.is_empty()) {
            let words: Vec<&str> = line.split_whitespace().collect();
            let [name, instructions, calls] = words[..] else {
                bail!("bench/gate.txt: not three words: {line}")
            };
            let counts = Counts { instructions: instructions.parse()?, calls: calls.parse()? };
            limits.insert(name.to_owned(), counts);
        }
        Ok(Self(limits))
    }

    pub(super) fn write(measured: &[(String, Counts)]) -> Result<()> {
        let mut text = HEAD.to_owned();
        for (name, counts) in measured {
            writeln!(text, "{name:<13} {:>8.0} {:>6.2}", counts.instructions, counts.calls)?;
        }
        Ok(fs::write(path(), text)?)
    }

    /// Compares the counts of a case with its limits; a case without any is above them.
    pub(super) fn judge(&self, name: &str, counts: &Counts) -> Verdict {
        let Some(limit) = self.0.get(name) else { return Verdict::Above("it has no limit".to_owned()) };
        let pairs = [
            ("instructions", counts.instructions, limit.instructions),
            ("system calls", counts.calls, limit.calls),
        ];
        let told = |(what, count, limit): &(&str, f64, f64)| {
            format!("{count:.1} {what}, {:.2} of its limit {limit:.1}", count / limit)
        };
        if let Some(above) = pairs.iter().find(|(_, count, limit)| *count > limit * (1.0 + SLACK)) {
            return Verdict::Above(told(above));
        }
        match pairs.iter().find(|(_, count, limit)| *count < limit * TOO_LOOSE) {
            Some(lower) => Verdict::Lower(told(lower)),
            None => Verdict::Holds,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(instructions: f64, calls: f64) -> Verdict {
        let limits = Limits::parse("# words\nplain 10000 4.00\n").unwrap();
        limits.judge("plain", &Counts { instructions, calls })
    }

    #[test]
    fn a_count_above_its_limit_is_told() {
        assert!(matches!(verdict(10_400.0, 4.1), Verdict::Holds));
        assert!(matches!(verdict(10_600.0, 4.0), Verdict::Above(told) if told.contains("instructions")));
        assert!(matches!(verdict(10_000.0, 5.0), Verdict::Above(told) if told.contains("system calls")));
        assert!(matches!(verdict(5_000.0, 4.0), Verdict::Lower(_)));
    }

    #[test]
    fn a_case_without_a_limit_does_not_pass() {
        let limits = Limits::parse("").unwrap();
        assert!(matches!(limits.judge("new", &Counts { instructions: 1.0, calls: 1.0 }), Verdict::Above(_)));
    }
}
