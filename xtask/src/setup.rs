//! `cargo xtask setup`: makes git run `.githooks/pre-commit` before each commit of this clone.

use std::process::Command;

use anyhow::Result;

use crate::command::{root, run as run_command};

/// The folder with the hooks, from the root.
const HOOKS: &str = ".githooks";

/// Sets `core.hooksPath` of this clone.
pub(crate) fn run() -> Result<()> {
    let mut git = Command::new("git");
    run_command(git.current_dir(root()).args(["config", "core.hooksPath", HOOKS]))?;
    println!(
        "setup: {HOOKS}/pre-commit runs before each commit; `git config --unset core.hooksPath` ends it"
    );
    Ok(())
}
