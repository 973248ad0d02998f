//! Text of any kind: no conflict marker of a merge in any file, no comment wider than a document.
//!
//! `rustfmt` breaks code but leaves comments alone.

use std::fs;

use anyhow::{Context, Result, bail};

use crate::command::root;

/// A line of a comment has at most this many characters, as a line of a document has.
pub(super) const WIDTH: usize = 120;
/// Ends of the names of files that end with a newline.
pub(super) const NEEDS_NEWLINE: &[&str] = &[".rs", ".md", ".toml"];
/// What stands at the begin of a line where a merge was not resolved. The line between the two sides has no letter and
/// is also how a title is underlined, so it is no sign by itself.
const MARKERS: &[&str] = &["<<<<<<< ", "||||||| ", ">>>>>>> "];

/// Reports findings in every text file that git knows.
pub(super) fn check(findings: &mut Vec<String>) -> Result<()> {
    for name in known_files()? {
        // What is not text, and what was removed but is still known, has no lines to look at.
        let Ok(text) = fs::read_to_string(root().join(&name)) else { continue };
        if NEEDS_NEWLINE.iter().any(|end| name.ends_with(end)) && !text.is_empty() && !text.ends_with('\n') {
            findings.push(format!("{name} does not end with a newline"));
        }
        let lines = (1..).zip(text.lines());
        findings.extend(
            lines.filter_map(|(at, line)| of_line(&name, line).map(|what| format!("{name}:{at}: {what}"))),
        );
    }
    Ok(())
}

fn of_line(name: &str, line: &str) -> Option<String> {
    if MARKERS.iter().any(|marker| line.starts_with(marker)) {
        return Some("a merge was not resolved here".into());
    }
    let is_comment = name.ends_with(".rs") && line.trim_start().starts_with("//");
    let width = if is_comment { line.chars().count() } else { 0 };
    (width > WIDTH).then(|| format!("a comment of {width} characters; {WIDTH} is the most"))
}

/// Files that git has or would add, from the root.
pub(super) fn known_files() -> Result<Vec<String>> {
    let mut git = std::process::Command::new("git");
    git.current_dir(root()).args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]);
    let output = git.output().context("cannot start git")?;
    if !output.status.success() {
        bail!("git ls-files: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    let names = String::from_utf8_lossy(&output.stdout);
    Ok(names.split('\0').filter(|name| !name.is_empty()).map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markers_of_a_merge_are_found_in_every_text() {
        for marker in MARKERS {
            assert!(of_line("docs/a.md", &format!("{marker}main")).is_some(), "{marker}");
        }
        assert_eq!(of_line("docs/a.md", "======="), None);
        assert_eq!(of_line("docs/a.md", " <<<<<<< main"), None);
    }

    #[test]
    fn wide_comments_are_found_and_wide_code_is_not() {
        let wide = "x".repeat(WIDTH);
        assert!(of_line("a.rs", &format!("    /// {wide}")).is_some());
        assert_eq!(of_line("a.rs", &wide), None);
        assert_eq!(of_line("a.rs", &format!("// {}", "\u{e9}".repeat(WIDTH - 3))), None);
        assert_eq!(of_line("a.md", &format!("// {wide}")), None);
    }
}
