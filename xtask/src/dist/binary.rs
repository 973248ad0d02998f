//! The binary: static, and without what only debuggers read.
//!
//! Its debug information goes into `thalweg.debug` beside it, which the binary names (`.gnu_debuglink`): debuggers,
//! `perf` and the backtraces of a panic read lines from there where the file is present. Without it they still name
//! functions, from the symbol table that stays.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::command::{cargo, output, root, run as run_command};

/// What is built for. The C library is part of the binary (`crt-static`), so that it runs on every Linux of x86-64; it
/// is glibc, since the standard library for musl does not come with the compiler.
pub(super) const TARGET: &str = "x86_64-unknown-linux-gnu";

/// Builds the sources in `from` within the folder `into`; the path of the binary.
pub(super) fn build(from: &Path, into: &Path, epoch: u64) -> Result<PathBuf> {
    let cargo_home = match std::env::var_os("CARGO_HOME") {
        Some(home) => PathBuf::from(home),
        None => PathBuf::from(std::env::var_os("HOME").context("HOME is not set")?).join(".cargo"),
    };
    let rust = output(Command::new("rustc").args(["--print", "sysroot"]).current_dir(from))?;
    // The last that fits counts: the sources may lie below another of them, and `into` mostly lies below the sources.
    let places = [
        (Path::new(rust.trim()), "/rust"),
        (cargo_home.as_path(), "/cargo"),
        (from, "/thalweg"),
        (into, "/build"),
    ];
    let mut rust_flags = vec!["-Ctarget-feature=+crt-static".to_owned()];
    let mut c_flags = Vec::new();
    for (place, name) in places {
        rust_flags.push(format!("--remap-path-prefix={}={name}", place.display()));
        c_flags.push(format!("-ffile-prefix-map={}={name}", place.display()));
    }
    // With a target named, the flags are not those of build scripts and macros, which cannot be static.
    let mut command = cargo("build --profile dist --package thalweg --locked");
    command.current_dir(from).args(["--target", TARGET, "--target-dir"]).arg(into);
    command.env("RUSTFLAGS", rust_flags.join(" ")).env("CFLAGS", c_flags.join(" "));
    command.env("CXXFLAGS", c_flags.join(" ")).env("SOURCE_DATE_EPOCH", epoch.to_string());
    run_command(&mut command)?;
    Ok(into.join(TARGET).join("dist/thalweg"))
}

/// Puts the binary and its debug information, apart, into a folder.
pub(super) fn split(binary: &Path, folder: &Path) -> Result<()> {
    let binary = std::path::absolute(binary)?;
    // In the folder: the link names the file as it is named here.
    let objcopy = |words: &[&str], to: &str| {
        run_command(Command::new("objcopy").args(words).arg(&binary).arg(to).current_dir(folder))
    };
    objcopy(&["--only-keep-debug"], "thalweg.debug")?;
    objcopy(&["--strip-debug", "--add-gnu-debuglink=thalweg.debug"], "thalweg")?;
    for name in ["thalweg", "thalweg.debug"] {
        let size = fs::metadata(folder.join(name))?.len();
        println!("dist: {} ({:.1} MB)", folder.join(name).display(), size as f64 / 1e6);
    }
    Ok(())
}

/// Builds, at the same time from a copy of what is committed at another path, and compares: most of a build is the last
/// step of the linker, which has one thread. Where they differ, both stay.
pub(super) fn build_twice(into: &Path, epoch: u64) -> Result<PathBuf> {
    let folder = std::env::temp_dir().join(format!("thalweg-dist-{}", std::process::id()));
    let again = || -> Result<PathBuf> {
        let sources = folder.join("elsewhere");
        fs::create_dir_all(&sources)?;
        let archive = folder.join("sources.tar");
        run_command(
            Command::new("git").args(["archive", "--output"]).arg(&archive).arg("HEAD").current_dir(root()),
        )?;
        run_command(Command::new("tar").arg("-xf").arg(&archive).arg("-C").arg(&sources))?;
        build(&sources, &folder.join("target"), epoch)
    };
    let (first, second) = std::thread::scope(|scope| {
        let second = scope.spawn(again);
        (build(&root(), into, epoch), second.join())
    });
    let second = second.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    if let (Ok(first), Ok(second)) = (&first, &second)
        && fs::read(first)? != fs::read(second)?
    {
        let both = format!("{} and {}", first.display(), second.display());
        bail!("two builds of the same sources differ (is everything committed?): {both}");
    }
    let _ = fs::remove_dir_all(&folder);
    let (first, _) = (first?, second?);
    println!("dist: two builds of the same sources have the same bytes");
    Ok(first)
}
