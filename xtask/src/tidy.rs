//! `cargo xtask tidy`: the rules of the house that the compiler does not check.
//!
//! Reads `cargo metadata` and the sources, collects every finding, and fails when there is one. Each rule is
//! one function; the tables that they consult stand beside them.

mod cycles;
mod edges;
mod features;
mod fix;
mod folders;
mod licences;
mod manifests;
mod sources;
mod texts;

use anyhow::{Context, Result, bail};
use cargo_metadata::{Metadata, MetadataCommand};

use crate::command::root;

/// Third-party packages present in more than one version, each with the reason why that is borne.
const DUPLICATES: &[(&str, &str)] = &[
    ("base64", "0.22 serves instant-acme, 0.23 the certificates of rcgen; their own release cycles decide"),
    ("bit-vec", "0.8 serves the patterns of jsonschema, which only tests use, 0.9 certificates of rcgen"),
    ("block-buffer", "0.10 serves the hashes of cranelift-codegen, 0.12 all others"),
    ("cpufeatures", "0.2 serves the hashes of cranelift-codegen, 0.3 all others"),
    ("crypto-common", "0.1 serves the hashes of cranelift-codegen, 0.2 all others"),
    ("digest", "0.10 serves the hashes of cranelift-codegen, 0.11 all others"),
    (
        "embedded-io",
        "0.4 and 0.6 stand in the lock for postcard, which wasmtime uses, as one each of its options",
    ),
    ("getrandom", "0.2 stands in the lock for ring, an option of hickory-proto that is not built"),
    ("hashbrown", "0.16 serves gimli, which wasmtime uses, 0.17 all others"),
    ("rand", "0.9 serves opentelemetry-proto, which only tests use, 0.10 all others"),
    ("rand_core", "0.9 serves opentelemetry-proto, which only tests use, 0.10 all others"),
    ("sha2", "0.10 serves cranelift-codegen, 0.11 all others"),
    ("syn", "2 serves the macros of x509-parser, 3 all others; neither is part of the product"),
    ("synstructure", "0.13 serves the macros of x509-parser; no other is part of the product"),
    ("untrusted", "0.7 serves aws-lc-rs with the options that instant-acme asks for, 0.9 rustls-webpki"),
];

/// What `cargo xtask tidy` takes.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Print only which modules of each crate import each other in a circle
    #[arg(long)]
    cycles: bool,
    /// Mend what a machine can mend: wide comments, missing newlines, the format of code, generated pages
    #[arg(long, conflicts_with = "cycles")]
    fix: bool,
}

/// Checks, or reports what is asked for.
pub(crate) fn run(args: &Args) -> Result<()> {
    if args.cycles {
        return cycles::report();
    }
    if args.fix {
        fix::run()?;
    }
    check()
}

/// Checks every rule and prints each finding on a line of its own.
pub(crate) fn check() -> Result<()> {
    let metadata = MetadataCommand::new()
        .current_dir(root())
        // The product runs on Linux only: what other platforms would need is not shipped.
        .other_options(["--filter-platform".to_owned(), "x86_64-unknown-linux-gnu".to_owned()])
        .exec()
        .context("cargo metadata")?;
    let mut findings = Vec::new();
    edges::check(&metadata, &mut findings);
    features::check(&metadata, &mut findings);
    licences::check(&metadata, &mut findings);
    duplicates(&metadata, &mut findings);
    manifests::check(&metadata, &mut findings)?;
    sources::check(&metadata, &mut findings)?;
    folders::check(&mut findings)?;
    texts::check(&mut findings)?;
    if findings.is_empty() {
        println!("tidy: {} packages, no findings", metadata.packages.len());
        return Ok(());
    }
    findings.sort();
    for finding in &findings {
        println!("tidy: {finding}");
    }
    bail!(
        "{} findings\nhelp: `cargo xtask tidy --fix` mends widths of comments, formats and generated pages",
        findings.len()
    )
}

fn duplicates(metadata: &Metadata, findings: &mut Vec<String>) {
    let mut packages: Vec<_> = metadata.packages.iter().map(|p| (p.name.as_str(), &p.version)).collect();
    packages.sort();
    let is_double = |name: &str| packages.iter().filter(|(other, _)| *other == name).count() > 1;
    for pair in packages.windows(2).filter(|pair| pair[0].0 == pair[1].0) {
        let (name, first, second) = (pair[0].0, pair[0].1, pair[1].1);
        if !DUPLICATES.iter().any(|(known, _)| *known == name) {
            findings.push(format!(
                "{name} is here as {first} and {second}; help: align them, or add a line with the reason to \
                 DUPLICATES in xtask/src/tidy.rs"
            ));
        }
    }
    for (name, _) in DUPLICATES.iter().filter(|(name, _)| !is_double(name)) {
        findings.push(format!("{name} stands in DUPLICATES (xtask/src/tidy.rs) but has one version only"));
    }
}
