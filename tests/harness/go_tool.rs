//! Programs written in Go that tests run beside the proxy: built once by `go`, into the target directory.

use std::collections::HashMap;
use std::env;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::program::{find_or_skip, run};

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

fn build(package: &str, version: &str) -> Option<PathBuf> {
    let go = find_or_skip("go")?;
    let name = package.rsplit('/').next().unwrap_or(package);
    // The test executable is <target>/<profile>/deps/black_box-<hash>.
    let test = env::current_exe().unwrap();
    let target = test.ancestors().nth(3).unwrap().join("tools").join(format!("{name}-{version}"));
    let program = target.join(name);
    if program.is_file() {
        return Some(program);
    }
    // Each run builds into a place of its own: two at once do each other no harm.
    let place = target.join(format!("build-{}", std::process::id()));
    let mut command = Command::new(go);
    command.args(["install", &format!("{package}@{version}")]).env("GOBIN", &place);
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
