//! The reference of the command line, from what the binary itself prints for `--help`.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

/// The page.
pub(crate) fn page() -> Result<String> {
    let binary = std::env::var_os("THALWEG_BIN").map(PathBuf::from);
    let binary = binary.context("THALWEG_BIN does not name the binary; help: run `cargo xtask gen`")?;
    let top = help(&binary, &[])?;
    let mut page = String::from("# Command line\n\n");
    page += &section("thalweg", &top);
    for verb in verbs(&top) {
        let text = help(&binary, &[verb]).with_context(|| format!("thalweg {verb} --help"))?;
        page += &section(&format!("thalweg {verb}"), &text);
    }
    Ok(page)
}

fn section(title: &str, help: &str) -> String {
    let lines: Vec<_> = help.trim_end().lines().map(str::trim_end).collect();
    format!("## `{title}`\n\n```text\n{}\n```\n\n", lines.join("\n"))
}

/// What the binary prints, at a fixed width and without what the environment could change.
fn help(binary: &Path, verb: &[&str]) -> Result<String> {
    let mut command = Command::new(binary);
    command.args(verb).arg("--help").env("COLUMNS", "100").env("NO_COLOR", "1");
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("THALWEG_")) {
        command.env_remove(name);
    }
    let output =
        command.stdin(Stdio::null()).output().with_context(|| format!("cannot run {}", binary.display()))?;
    if !output.status.success() {
        bail!("{} failed ({})", binary.display(), output.status);
    }
    Ok(String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
}

/// The verbs listed under `Commands:`, except `help`.
fn verbs(help: &str) -> Vec<&str> {
    let list = help.lines().skip_while(|line| line.trim() != "Commands:").skip(1);
    let entries = list.take_while(|line| !line.trim().is_empty());
    // A description may be wrapped: its further lines are indented deeper than a verb.
    let names = entries.filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    names.filter_map(|line| line.split_whitespace().next()).filter(|name| *name != "help").collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verbs_are_read_from_the_list_of_commands() {
        let help = "A proxy\n\nUsage: x\n\nCommands:\n  run    Runs\n         it all\n  check  Checks\n  \
                    help   Prints\n\nOptions:\n  -h  Help\n";
        assert_eq!(verbs(help), ["run", "check"]);
    }
}
