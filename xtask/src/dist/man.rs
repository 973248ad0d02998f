//! Man pages, from what the binary itself prints for `--help`: `thalweg(1)`, and one for each verb.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use super::oci::timestamp;
use crate::command::output;

/// Pages by their names.
pub(super) fn pages(binary: &Path, epoch: u64, version: &str) -> Result<Vec<(String, String)>> {
    let top = Help::parse(&help(binary, None)?);
    let verbs: Vec<String> = top.entries("Commands").iter().map(|(name, _)| name.clone()).collect();
    let date = timestamp(epoch);
    let date = date.get(..10).unwrap_or_default();
    let mut pages = Vec::new();
    let mut others: Vec<String> = verbs.iter().map(|verb| format!("thalweg-{verb}")).collect();
    pages.push(("thalweg".to_owned(), page("thalweg", &top, (date, version), &others)));
    others.insert(0, "thalweg".to_owned());
    for verb in &verbs {
        let name = format!("thalweg-{verb}");
        let help = Help::parse(
            &help(binary, Some(verb.as_str())).with_context(|| format!("thalweg {verb} --help"))?,
        );
        pages.push((name.clone(), page(&name, &help, (date, version), &others[..1])));
    }
    Ok(pages)
}

/// What the binary prints, without line breaks in the middle of a paragraph and without what the environment changes.
fn help(binary: &Path, verb: Option<&str>) -> Result<String> {
    let mut command = Command::new(binary);
    command.args(verb).arg("--help").env("COLUMNS", "100").env("NO_COLOR", "1");
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("THALWEG_")) {
        command.env_remove(name);
    }
    output(&mut command)
}

/// A help text in its parts.
#[derive(Debug, Default)]
struct Help {
    about: String,
    usage: Vec<String>,
    sections: Vec<(String, Vec<(String, String)>)>,
}

impl Help {
    fn parse(text: &str) -> Self {
        let mut help = Self::default();
        for line in text.lines() {
            let is_heading = |line: &str| line.ends_with(':') && !line.starts_with(' ');
            if let Some(usage) = line.strip_prefix("Usage: ") {
                help.usage.push(usage.to_owned());
            } else if is_heading(line) {
                help.sections.push((line.trim_end_matches(':').to_owned(), Vec::new()));
            } else if let Some((_, entries)) = help.sections.last_mut() {
                take(entries, line);
            } else if help.usage.is_empty() {
                // An empty line ends a paragraph.
                let separator = if line.is_empty() { "\n" } else { " " };
                help.about += &format!("{separator}{line}");
            } else if !line.is_empty() {
                help.usage.push(line.trim().to_owned());
            }
        }
        help.about = help.about.trim().to_owned();
        help
    }

    fn entries(&self, section: &str) -> &[(String, String)] {
        let found = self.sections.iter().find(|(name, _)| name == section);
        found.map_or(&[], |(_, entries)| entries)
    }
}

/// A line of a section: a name with its text, or more of the text. Names stand at most 6 columns in.
fn take(entries: &mut Vec<(String, String)>, line: &str) {
    let words = line.trim();
    let indent = line.len() - line.trim_start().len();
    if words.is_empty() {
        return;
    }
    let begins = indent <= 6 && (words.starts_with(['-', '[', '<']) || indent == 2);
    match (begins, entries.last_mut()) {
        (false, Some((_, text))) => *text = format!("{text} {words}").trim().to_owned(),
        _ => {
            let (name, text) = words.split_once("  ").unwrap_or((words, ""));
            entries.push((name.trim().to_owned(), text.trim().to_owned()));
        }
    }
}

fn page(name: &str, help: &Help, (date, version): (&str, &str), others: &[String]) -> String {
    let about = help.about.lines().next().unwrap_or_default();
    let mut out = format!(
        ".TH {} 1 {date} \"Thalweg {version}\" \"Thalweg\"\n.SH NAME\n{} \\- {}\n.SH SYNOPSIS\n",
        name.to_uppercase(),
        escaped(name),
        escaped(about)
    );
    for usage in &help.usage {
        out += &format!(".B {}\n.br\n", escaped(usage));
    }
    out += &format!(".SH DESCRIPTION\n{}\n", escaped(&help.about).replace('\n', "\n.PP\n"));
    for (section, entries) in &help.sections {
        out += &format!(".SH {}\n", escaped(&section.to_uppercase()));
        for (name, text) in entries {
            out += &format!(".TP\n.B {}\n{}\n", escaped(name), escaped(text));
        }
    }
    out += ".SH EXIT STATUS\n.TP\n.B 0\nThe verb did what was asked.\n.TP\n.B 1\nAn invalid configuration, a failed start, \
            or a verb that could not do what was asked.\n.TP\n.B 2\nWrong use of the command line.\n.TP\n.B 3\nA forced end \
            before the drain had finished.\n";
    out += ".SH FILES\n.TP\n.B /etc/thalweg/thalweg.yaml\nThe configuration of the system's service.\n.TP\n.B \
            /run/thalweg/admin.sock\nWhere its admin API listens.\n";
    let others: Vec<_> = others.iter().map(|other| format!(".BR {} (1)", escaped(other))).collect();
    out + &format!(".SH SEE ALSO\n{}\n", others.join(",\n"))
}

/// What is special to roff, taken as it is.
fn escaped(text: &str) -> String {
    let lines = text.lines().map(|line| {
        let line = line.replace('\\', "\\e").replace('-', "\\-").replace('\u{2026}', "...");
        if line.starts_with(['.', '\'']) { format!("\\&{line}") } else { line }
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    const HELP: &str = "Runs the proxy\n\nUsage: thalweg run [OPTIONS]\n\nOptions:\n  -c, --config <FILE>\n          \
        The configuration; default:\n          nothing\n\n      --watch  Reload it\n  -h, --help   Print help\n\n\
        Without a file:\n      --to <URL>  Where -- requests go\n";

    #[test]
    fn help_is_taken_apart() {
        let help = Help::parse(HELP);
        assert_eq!(
            (help.about.as_str(), help.usage.as_slice()),
            ("Runs the proxy", &["thalweg run [OPTIONS]".into()][..])
        );
        let entry = |name: &str, text: &str| (name.to_owned(), text.to_owned());
        assert_eq!(
            help.entries("Options"),
            [
                entry("-c, --config <FILE>", "The configuration; default: nothing"),
                entry("--watch", "Reload it"),
                entry("-h, --help", "Print help"),
            ]
        );
        assert_eq!(help.entries("Without a file"), [entry("--to <URL>", "Where -- requests go")]);
        let page = page("thalweg-run", &help, ("2026-11-26", "0.1.0"), &["thalweg".to_owned()]);
        assert!(
            page.contains(".TP\n.B \\-\\-watch\nReload it\n") && page.contains(".BR thalweg (1)"),
            "{page}"
        );
    }

    #[test]
    fn verbs_are_found_with_texts_of_several_lines() {
        let help =
            Help::parse("A\n\nUsage: x\n\nCommands:\n  run    Runs\n         it all\n  sign-url  Signs\n");
        let names: Vec<_> =
            help.entries("Commands").iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
        assert_eq!(names, [("run", "Runs it all"), ("sign-url", "Signs")]);
    }
}
