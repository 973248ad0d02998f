//! Packages of JavaScript that tests use: installed once by `npm`, into the target directory.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::program::{find_or_skip, run};
use crate::tools;

/// How long an installation may take: it fetches.
const INSTALL: Duration = Duration::from_secs(200);

/// Node with a program of `tests/programs` that uses packages, each at a version (`name@1.2.3`); the program's
/// arguments are the caller's. `None` where that cannot be had, which is told, and in CI fails.
///
/// # Panics
/// When it cannot be had and `CI=true`.
pub fn npm_tool(packages: &[&str], program: &str) -> Option<Command> {
    let (node, npm) = (find_or_skip("node")?, find_or_skip("npm")?);
    // One process installs, others wait for it.
    let _turn = tools::turn("npm");
    let tools = tools::folder();
    let folder = tools.join(packages.join("-").replace(['/', '@'], "-"));
    if !folder.is_dir() && !install(&npm, packages, &tools, &folder) {
        return None;
    }
    // Packages are found beside the program. It is copied anew: it may have changed.
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("programs").join(program);
    let copy = folder.join(format!("{}-{program}", std::process::id()));
    fs::copy(source, &copy).unwrap();
    let mut command = Command::new(node);
    command.arg(copy);
    Some(command)
}

fn install(npm: &Path, packages: &[&str], tools: &Path, folder: &PathBuf) -> bool {
    // Each run installs into a place of its own, and what is half done is not found.
    let place = tools.join(format!("npm-{}", std::process::id()));
    fs::create_dir_all(&place).unwrap();
    fs::write(place.join("package.json"), "{\"private\": true, \"type\": \"module\"}").unwrap();
    let mut command = Command::new(npm);
    command.args(["install", "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error"]);
    let done = run(command.args(packages).current_dir(&place), INSTALL);
    if done.code != 0 {
        assert_ne!(env::var("CI").as_deref(), Ok("true"), "{packages:?} not installed: {}", done.stderr);
        eprintln!("skipped: {packages:?} not installed: {}", done.stderr);
        return false;
    }
    if fs::rename(&place, folder).is_err() {
        // Another run was faster.
        let _ = fs::remove_dir_all(&place);
    }
    true
}
