//! `thalweg import ORIGINAL FILE…`: the configuration of another proxy as Thalweg's, with a report of what was lost.

use super::{print_error, say_document, show};
use clap::Args;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::{env, fs};
use thalweg_config::check_text;
use thalweg_import::{FORMATS, Files, Imported};

/// Bytes that a file may have.
const FILE: u64 = 16 * 1024 * 1024;
/// The exit code where something was taken over with a difference, or not at all.
const LOSSES: u8 = 4;

/// What to take over.
///
/// Exit codes: 0, everything was taken over exactly; 4, the report names differences or losses; 1, a file cannot be
/// read or is no configuration of this kind, or the result cannot run on this machine as it is; 2, the command line is
/// wrong.
#[derive(Args, Debug)]
pub(crate) struct ImportArgs {
    /// Whose configuration it is
    #[arg(value_name = "ORIGINAL", value_parser = FORMATS.iter().map(|(name, ..)| *name).collect::<Vec<_>>())]
    original: String,
    /// Its files; those that they include are found by themselves
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// Where the configuration goes; default: stdout
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Where the report goes; default: stderr
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// The report as JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn import(args: &ImportArgs) -> ExitCode {
    let paths: Vec<String> = args.files.iter().map(|path| path.display().to_string()).collect();
    let Imported { configuration, report } = match thalweg_import::import(&args.original, &paths, &Disk) {
        Ok(imported) => imported,
        Err(error) => {
            print_error(format_args!("error: {error}"));
            return ExitCode::FAILURE;
        }
    };
    let told = if args.json { report.json() } else { report.text() };
    let written = put(args.output.as_deref(), &configuration, |text| say_document(text.trim_end()))
        .and_then(|()| put(args.report.as_deref(), &told, |text| print_error(text.trim_end())));
    if let Err(error) = written {
        print_error(format_args!("error: {error}"));
        return ExitCode::FAILURE;
    }
    let name = args.output.clone().unwrap_or_else(|| PathBuf::from("imported.yaml"));
    match check_text(&name.display().to_string(), &configuration, &|name| env::var(name).ok()) {
        Ok(_) if report.is_exact() => ExitCode::SUCCESS,
        Ok(_) => ExitCode::from(LOSSES),
        Err(problems) => {
            print_error("the configuration that was made does not run here as it is:");
            show(&problems, false);
            ExitCode::FAILURE
        }
    }
}

/// Writes a text to a file, or otherwise.
fn put(path: Option<&Path>, text: &str, otherwise: impl Fn(&str)) -> Result<(), String> {
    match path {
        Some(path) => {
            fs::write(path, text).map_err(|error| format!("cannot write {}: {error}", path.display()))
        }
        None => {
            otherwise(text);
            Ok(())
        }
    }
}

/// The files of this machine.
struct Disk;

impl Files for Disk {
    fn read(&self, path: &str) -> Result<String, String> {
        let told = |error: std::io::Error| format!("cannot read {path}: {error}");
        let mut text = String::new();
        fs::File::open(path).map_err(told)?.take(FILE + 1).read_to_string(&mut text).map_err(told)?;
        if text.len() as u64 > FILE {
            return Err(format!("{path} has more than 16 MiB"));
        }
        Ok(text)
    }

    fn glob(&self, pattern: &str) -> Result<Vec<String>, String> {
        if !pattern.contains(['*', '?', '[']) {
            return Ok(if Path::new(pattern).is_file() { vec![pattern.to_owned()] } else { Vec::new() });
        }
        let mut found = vec![PathBuf::from(if pattern.starts_with('/') { "/" } else { "" })];
        for part in pattern.split('/').filter(|part| !part.is_empty()) {
            found = found.iter().flat_map(|folder| matching(folder, part)).collect();
        }
        found.retain(|path| path.is_file());
        found.sort();
        Ok(found.iter().map(|path| path.display().to_string()).collect())
    }
}

/// What a part of a pattern names in a directory.
fn matching(folder: &Path, part: &str) -> Vec<PathBuf> {
    if !part.contains(['*', '?', '[']) {
        return vec![folder.join(part)];
    }
    let place = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let Ok(entries) = fs::read_dir(place) else { return Vec::new() };
    let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    names
        .filter(|name| !name.starts_with('.') && fits(part.as_bytes(), name.as_bytes()))
        .map(|name| folder.join(name))
        .collect()
}

/// Whether a name fits a pattern with `*`, `?` and `[…]`.
fn fits(pattern: &[u8], name: &[u8]) -> bool {
    match (pattern, name) {
        ([], []) => true,
        ([b'*', rest @ ..], _) => (0..=name.len()).any(|at| fits(rest, &name[at..])),
        ([b'?', rest @ ..], [_, behind @ ..]) => fits(rest, behind),
        ([b'[', rest @ ..], [first, behind @ ..]) => {
            let Some(end) = rest.iter().position(|byte| *byte == b']') else { return false };
            let (set, after) = (&rest[..end], &rest[end + 1..]);
            let is_in = set.contains(first)
                || set.windows(3).any(|range| range[1] == b'-' && (range[0]..=range[2]).contains(first));
            is_in && fits(after, behind)
        }
        ([first, rest @ ..], [byte, behind @ ..]) => first == byte && fits(rest, behind),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_fit_names() {
        for (pattern, name, expected) in [
            ("*.conf", "a.conf", true),
            ("*.conf", "a.bak", false),
            ("[a-c]?", "b1", true),
            ("[a-c]?", "d1", false),
        ] {
            assert_eq!(fits(pattern.as_bytes(), name.as_bytes()), expected, "{pattern} {name}");
        }
    }
}
