//! `cargo xtask bench all`: every bench, one after the other, and one report of them all.
//!
//! Each part runs as a command of its own, so that it is measured as if it had been called alone. What it says goes to
//! the terminal; its report goes to a folder as Markdown and, table by table, as JSON ([`tables`]). A part whose report
//! is there already is not run again, so that a run which was interrupted goes on where it stopped. At the end
//! everything becomes one HTML file without references to others ([`page`], with [`chart`] for its pictures). A whole
//! run goes to `bench/results`, and can be held against an earlier one ([`compare`]).

mod chart;
mod compare;
mod page;
mod tables;

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail};

use super::contestant::built;
use super::frame::today;
use crate::command::{root, target};

#[derive(clap::Args)]
pub(crate) struct All {
    /// A trial of everything within ten minutes: few and short rounds, which say little
    #[arg(long)]
    quick: bool,
    /// Only these parts
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Run parts again whose report is there
    #[arg(long)]
    again: bool,
    /// The product's binary (default: built with the profile dist)
    #[arg(long)]
    thalweg: Option<PathBuf>,
    /// Where reports go, and are looked for (default: below target, one folder for quick runs and one for others)
    #[arg(long, value_name = "DIR")]
    to: Option<PathBuf>,
    /// The folder of an earlier run: how far the ratios of this one are from its
    #[arg(long, value_name = "DIR")]
    compare: Option<PathBuf>,
}

/// A bench with its arguments in a whole run and in a quick one; no quick one where it cannot be short.
struct Part {
    name: &'static str,
    whole: &'static str,
    quick: Option<&'static str>,
}

const PARTS: &[Part] = &[
    Part {
        name: "small",
        whole: "--rounds 9 --seconds 3",
        quick: Some("--rounds 1 --seconds 2 --connections 50 --idle 2000"),
    },
    Part { name: "latency", whole: "--rounds 9 --seconds 3", quick: Some("--rounds 1 --seconds 1") },
    Part { name: "balance", whole: "", quick: Some("") },
    Part {
        name: "tls",
        whole: "--seconds 2",
        quick: Some("--rounds 1 --seconds 1 --idle 500 --peers thalweg,nginx"),
    },
    Part { name: "compress", whole: "--rounds 3 --seconds 2", quick: Some("--rounds 1 --seconds 1") },
    Part { name: "cache", whole: "--rounds 3 --seconds 2", quick: Some("--quick") },
    Part {
        name: "connections",
        whole: "--rounds 5 --seconds 2",
        quick: Some("--rounds 1 --seconds 1 --requests 5000 --idle 1000 --bytes 5000000"),
    },
    Part {
        name: "ab",
        whole: "--layouts shared --concurrency 10,100,1000,5000,7500,9500",
        quick: Some("--rounds 1 --requests 5000 --concurrency 10,1000 --layouts shared --ways each"),
    },
    Part {
        name: "gateways",
        whole: "--rounds 3 --seconds 3 --requests 20000",
        quick: Some("--rounds 1 --seconds 2 --requests 5000 --peers thalweg,nginx,haproxy,go"),
    },
    Part {
        name: "ramp",
        whole: "--rounds 3 --seconds 5",
        quick: Some("--rounds 1 --seconds 4 --rates 300 --peers thalweg,nginx,go"),
    },
    Part {
        name: "stream",
        whole: "--rounds 3 --seconds 2",
        quick: Some("--rounds 1 --seconds 1 --only loopback"),
    },
    Part { name: "slow", whole: "--spans 6", quick: Some("--readers 1000 --spans 3") },
    Part {
        name: "sealed",
        whole: "--servers 50,125,200,275 --others 50 --sizes 1024",
        quick: Some("--rounds 1 --servers 50,275 --others 50 --sizes 1024 --modes raw --addresses 1000"),
    },
    Part {
        name: "costs",
        whole: "--rounds 3 --seconds 2",
        quick: Some("--rounds 1 --seconds 1 --peers thalweg,nginx"),
    },
    Part {
        name: "growth",
        whole: "--rounds 3 --sizes 10,1000,10000",
        quick: Some("--rounds 1 --seconds 1 --sizes 10,1000 --reloads 20 --peers thalweg,nginx"),
    },
    Part { name: "discovery", whole: "--rounds 3", quick: Some("--rounds 1 --seconds 1") },
    Part { name: "dashboard", whole: "--rounds 3 --round-seconds 8 --seconds 60", quick: None },
];

/// A part that has been measured.
struct Measured {
    name: &'static str,
    markdown: String,
}

/// Runs what is missing and writes the report.
pub(super) fn run(args: &All) -> Result<()> {
    if let Some(unknown) = args.only.iter().find(|only| PARTS.iter().all(|part| part.name != **only)) {
        let names: Vec<_> = PARTS.iter().map(|part| part.name).collect();
        bail!("no part is called `{unknown}`\nhelp: {}", names.join(", "));
    }
    let folder = match &args.to {
        Some(folder) => folder.clone(),
        None => target()?.join(if args.quick { "bench-quick" } else { "bench-all" }),
    };
    fs::create_dir_all(&folder)?;
    let binary = built("thalweg", args.thalweg.as_deref())?;
    let wanted = |part: &&Part| args.only.is_empty() || args.only.iter().any(|only| only == part.name);
    let (mut measured, mut failed) = (Vec::new(), Vec::new());
    let parts: Vec<_> = PARTS.iter().filter(wanted).collect();
    // Known before an hour of benches, not behind it.
    if let Some(earlier) = &args.compare {
        let runs = |part: &&Part| !args.quick || part.quick.is_some();
        let missing = |part: &&Part| runs(part) && !compare::file(earlier, part.name).is_file();
        let missing: Vec<_> = parts.iter().copied().filter(missing).map(|part| part.name).collect();
        if !missing.is_empty() {
            bail!("{} has no report of {}", earlier.display(), missing.join(", "));
        }
    }
    for (number, part) in (1..).zip(&parts) {
        let Some(words) = (if args.quick { part.quick } else { Some(part.whole) }) else { continue };
        println!("bench: part {number} of {}: {}", parts.len(), part.name);
        match one(part.name, words, (&binary, &folder), args.again) {
            Ok(markdown) => measured.push(Measured { name: part.name, markdown }),
            // The others can be measured all the same; what is missing is said, and an error at the end.
            Err(error) => {
                println!("bench: {}: {error:#}", part.name);
                failed.push(part.name);
            }
        }
    }
    write(args, &folder, &measured, &failed)?;
    if !failed.is_empty() {
        bail!("not measured: {}", failed.join(", "));
    }
    Ok(())
}

/// The report of one part: from its file, or measured now.
fn one(name: &str, words: &str, (binary, folder): (&Path, &Path), again: bool) -> Result<String> {
    let file = compare::file(folder, name);
    if !again && let Ok(markdown) = fs::read_to_string(&file) {
        println!("bench: {name} has been measured: {}", file.display());
        return Ok(markdown);
    }
    let begin = Instant::now();
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["bench", name]).args(words.split_whitespace());
    // The balancers are measured without the product.
    if name != "balance" {
        command.arg("--thalweg").arg(binary);
    }
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
    let mut said = String::new();
    for line in BufReader::new(child.stdout.take().context("no output")?).lines() {
        let line = line?;
        println!("{line}");
        said += &line;
        said.push('\n');
    }
    let status = child.wait()?;
    if !status.success() {
        bail!("it failed ({status})");
    }
    let markdown = report(&said).context("it has printed no report")?;
    fs::write(&file, &markdown)?;
    let tables = serde_json::to_string_pretty(&tables::json(&markdown))?;
    fs::write(folder.join(format!("{name}.json")), tables)?;
    println!("bench: {name} took {} s", begin.elapsed().as_secs());
    Ok(markdown)
}

/// The report in what a bench has printed: from its heading on, without what is said of files behind it, and without
/// pictures, which lie beside the results of a day.
fn report(said: &str) -> Option<String> {
    let lines = said.lines().skip_while(|line| !line.starts_with("# "));
    let lines = lines.take_while(|line| !line.starts_with("bench: "));
    let lines: Vec<_> = lines.filter(|line| !line.starts_with("![")).collect();
    (!lines.is_empty()).then(|| lines.join("\n") + "\n")
}

fn write(args: &All, folder: &Path, measured: &[Measured], failed: &[&str]) -> Result<()> {
    let mut parts: Vec<_> = measured.iter().map(|part| (part.name, part.markdown.as_str())).collect();
    let compared = args.compare.as_deref().map(|earlier| compare::with(earlier, &parts)).transpose()?;
    if let Some(compared) = &compared {
        println!("{compared}");
        fs::write(folder.join("second-run.md"), compared)?;
        parts.push(("second-run", compared));
    }
    let html = page::html(&parts, failed, args.quick)?;
    let file = folder.join("report.html");
    fs::write(&file, &html)?;
    println!("bench: the report is {}", file.display());
    // Only a whole run is a result.
    if !args.quick && args.only.is_empty() && failed.is_empty() {
        keep(folder, &format!("bench/results/all-{}", today()?))?;
    }
    Ok(())
}

/// Puts what is in the folder among the results, where it is not there already.
fn keep(folder: &Path, name: &str) -> Result<()> {
    let to = root().join(name);
    fs::create_dir_all(&to)?;
    if folder.canonicalize()? == to.canonicalize()? {
        return Ok(());
    }
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        fs::copy(entry.path(), to.join(entry.file_name()))?;
    }
    println!("bench: written to {name}");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_report_is_found_in_what_is_printed() {
        let said = "bench: round 1\n# Title\n![x](x.svg)\n\n| a |\n|---|\n| 1 |\nbench: written to x\n";
        assert_eq!(report(said).unwrap(), "# Title\n\n| a |\n|---|\n| 1 |\n");
        assert_eq!(report("bench: nothing\n"), None);
    }
}
