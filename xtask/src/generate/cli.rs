//! The reference of the command line, from what the binary itself prints for `--help`.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};
use cargo_metadata::MetadataCommand;

use crate::command::{cargo, output, root, run};

/// The page; `None` while the binary has no `--help`.
pub(crate) fn page() -> Result<Option<String>> {
    run(&mut cargo("build --quiet --package thalweg"))?;
    let metadata = MetadataCommand::new().current_dir(root()).no_deps().exec()?;
    let binary = metadata.target_directory.join("debug/thalweg");
    let top = help(binary.as_std_path(), &[])?;
    if top.trim().is_empty() {
        return Ok(None);
    }
    let mut page = String::from("# Command line\n\n");
    page += &section("thalweg", &top);
    for verb in verbs(&top) {
        let text = help(binary.as_std_path(), &[verb]).with_context(|| format!("thalweg {verb} --help"))?;
        page += &section(&format!("thalweg {verb}"), &text);
    }
    Ok(Some(page))
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
    output(&mut command)
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
