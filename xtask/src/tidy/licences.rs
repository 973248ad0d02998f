//! Licences of everything that is built: SPDX expressions against a list of those that may be combined with
//! `Apache-2.0 OR MIT` in one binary.

use cargo_metadata::Metadata;

/// Licences without a copyleft on the whole and without a clause that a user would have to think about.
const ALLOWED: &[&str] = &[
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "ISC",
    "MIT",
    "MIT-0",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];

/// Reports packages that cannot be used under an allowed licence.
pub(crate) fn check(metadata: &Metadata, findings: &mut Vec<String>) {
    for package in &metadata.packages {
        let name = format!("{} {}", package.name, package.version);
        match package.license.as_deref() {
            None => findings.push(format!("{name} states no licence")),
            Some(text) if allows(text) => {}
            Some(text) => findings.push(format!("{name} has the licence `{text}`, which is not in the list")),
        }
    }
}

/// Whether an expression can be met with allowed licences; `/` is the old spelling of OR.
fn allows(expression: &str) -> bool {
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let mut words = spaced.split_whitespace().peekable();
    let met = any(&mut words);
    met && words.next().is_none()
}

type Words<'a> = std::iter::Peekable<std::str::SplitWhitespace<'a>>;

fn any(words: &mut Words<'_>) -> bool {
    let mut met = all(words);
    while words.next_if_eq(&"OR").is_some() {
        met |= all(words);
    }
    met
}

fn all(words: &mut Words<'_>) -> bool {
    let mut met = one(words);
    while words.next_if_eq(&"AND").is_some() {
        met &= one(words);
    }
    met
}

fn one(words: &mut Words<'_>) -> bool {
    if words.next_if_eq(&"(").is_some() {
        return any(words) & words.next_if_eq(&")").is_some();
    }
    let Some(mut name) = words.next().map(str::to_owned) else { return false };
    if words.next_if_eq(&"WITH").is_some() {
        name = format!("{name} WITH {}", words.next().unwrap_or_default());
    }
    ALLOWED.contains(&name.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_are_met_by_one_side_of_or_and_both_sides_of_and() {
        for good in [
            "MIT",
            "MIT-0",
            "MIT/Apache-2.0",
            "GPL-3.0 OR MIT",
            "(MIT OR GPL-2.0) AND Unicode-3.0",
            "Apache-2.0 WITH LLVM-exception OR GPL-2.0",
        ] {
            assert!(allows(good), "{good}");
        }
        for bad in ["GPL-3.0", "MIT AND GPL-3.0", "", "(MIT", "MIT)", "GPL-2.0 WITH LLVM-exception"] {
            assert!(!allows(bad), "{bad}");
        }
    }
}
