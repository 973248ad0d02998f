//! Packages of Python that tests use: installed once by `pip`, into the target directory.

use std::collections::HashMap;
use std::env;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::program::{find_with_module, run};
use crate::tools;

/// How long an installation may take: it fetches.
const INSTALL: Duration = Duration::from_secs(200);

/// Python with these packages, each with its version (`name==1.2`); the interpreter's arguments are the caller's.
/// `None` where they cannot be installed, which is told, and in CI fails.
///
/// # Panics
/// When they cannot be installed and `CI=true`.
pub fn python_tool(packages: &[&str]) -> Option<Command> {
    static INSTALLED: Mutex<Option<HashMap<String, Option<Installed>>>> = Mutex::new(None);
    let mut installed = INSTALLED.lock().unwrap_or_else(PoisonError::into_inner);
    let known = installed.get_or_insert_default();
    let tool = known.entry(packages.join(" ")).or_insert_with(|| install(packages)).as_ref()?;
    let mut command = Command::new(&tool.python);
    // Its directory has what the packages need too; nothing of the user's is taken instead.
    command.env("PYTHONPATH", &tool.folder).env("PYTHONNOUSERSITE", "1");
    Some(command)
}

#[derive(Debug)]
struct Installed {
    python: PathBuf,
    folder: PathBuf,
}

fn install(packages: &[&str]) -> Option<Installed> {
    let python = find_with_module("python3", "pip")?;
    // What is compiled in a package fits one version of Python.
    let mut tag = Command::new(&python);
    let tag = run(tag.args(["-c", "import sys; print(sys.implementation.cache_tag)"]), INSTALL);
    let name = format!("{}-{}", packages.join("-").replace("==", "-"), tag.stdout.trim());
    // One process installs, others wait for it.
    let _turn = tools::turn("pip");
    let tools = tools::folder();
    let folder = tools.join(&name);
    if !folder.is_dir() {
        // Each run installs into a place of its own: two at once do each other no harm, and what is half done is not
        // found.
        let place = tools.join(format!("{name}.{}", std::process::id()));
        let mut command = Command::new(&python);
        command.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--target"]);
        let done = run(command.arg(&place).args(packages), INSTALL);
        if done.code != 0 {
            assert_ne!(env::var("CI").as_deref(), Ok("true"), "{packages:?} not installed: {}", done.stderr);
            eprintln!("skipped: {packages:?} not installed: {}", done.stderr);
            return None;
        }
        if fs::rename(&place, &folder).is_err() {
            // Another run was faster.
            let _ = fs::remove_dir_all(&place);
        }
    }
    Some(Installed { python, folder })
}
