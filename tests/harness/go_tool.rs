//! Programs written in Go that tests run beside the proxy: built once by `go`, into the target directory.

use std::collections::HashMap;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::program::{find_or_skip, run};
use crate::tools;

/// How long a build may take: it fetches and compiles.
const BUILD: Duration = Duration::from_secs(300);

/// The program of a package at a version (`v1.2.3`). `None` where it cannot be built, which is told, and in CI fails.
///
/// # Panics
/// When it cannot be built and `CI=true`.
pub fn go_tool(package: &str, version: &str) -> Option<PathBuf> {
    static BUILT: Mutex<Option<HashMap<String, Option<PathBuf>>>> = Mutex::new(None);
    let mut built = BUILT.lock().unwrap_or_else(PoisonError::into_inner);
    let known = built.get_or_insert_default();
    known.entry(format!("{package}@{version}")).or_insert_with(|| build(package, version)).clone()
}

/// The program of a module of the tests' own, a folder of `tests/programs`. `None` where it cannot be built, which is
/// told, and in CI fails.
///
/// # Panics
/// When it cannot be built and `CI=true`.
pub fn go_program(folder: &str) -> Option<PathBuf> {
    static BUILT: Mutex<Option<HashMap<String, Option<PathBuf>>>> = Mutex::new(None);
    let mut built = BUILT.lock().unwrap_or_else(PoisonError::into_inner);
    let known = built.get_or_insert_default();
    known.entry(folder.to_owned()).or_insert_with(|| build_folder(folder)).clone()
}

fn build_folder(folder: &str) -> Option<PathBuf> {
    let go = find_or_skip("go")?;
    let _turn = tools::turn(&format!("go-{folder}"));
    let source = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("programs").join(folder);
    let target = tools::folder().join(folder);
    // What has been built before may be of other sources; the compiler's own cache makes this quick.
    let place = target.join(format!("build-{}", std::process::id()));
    let mut command = Command::new(go);
    command
        .args(["build", "-o"])
        .arg(place.join(folder))
        .arg(".")
        .current_dir(source)
        .env("CGO_ENABLED", "0");
    finish(folder, (command, &place), target.join(folder))
}

fn build(package: &str, version: &str) -> Option<PathBuf> {
    let go = find_or_skip("go")?;
    let name = package.rsplit('/').next().unwrap_or(package);
    let _turn = tools::turn(&format!("go-{name}-{version}"));
    let target = tools::folder().join(format!("{name}-{version}"));
    let program = target.join(name);
    if program.is_file() {
        return Some(program);
    }
    // Each run builds into a place of its own: two at once do each other no harm.
    let place = target.join(format!("build-{}", std::process::id()));
    let mut command = Command::new(go);
    command.args(["install", &format!("{package}@{version}")]).env("GOBIN", &place);
    finish(name, (command, &place), program)
}

/// Runs a build into `place`, and moves the program from there.
fn finish(name: &str, (mut command, place): (Command, &Path), program: PathBuf) -> Option<PathBuf> {
    let built = run(&mut command, BUILD);
    if built.code != 0 {
        assert_ne!(env::var("CI").as_deref(), Ok("true"), "{name} is not built: {}", built.stderr);
        eprintln!("skipped: {name} is not built: {}", built.stderr);
        return None;
    }
    fs::rename(place.join(name), &program).unwrap();
    let _ = fs::remove_dir_all(place);
    Some(program)
}
