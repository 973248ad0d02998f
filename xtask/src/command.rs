//! Running other programs, and where things are. Called by every verb.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

/// The root of the workspace: of the one that cargo runs us for, and not of the one that we were built in, since two
/// checkouts may share what they build.
pub(crate) fn root() -> PathBuf {
    let of_the_run = std::env::var_os("CARGO_MANIFEST_DIR")
        .filter(|_| std::env::var_os("CARGO_PKG_NAME").is_some_and(|name| name == env!("CARGO_PKG_NAME")));
    let manifest = of_the_run.map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    manifest.parent().unwrap_or(&manifest).to_owned()
}

/// A cargo command in the root of the workspace, words separated by blanks.
pub(crate) fn cargo(words: &str) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(words.split_whitespace()).current_dir(root());
    command
}

/// Runs a command to its end, with its output on our terminal.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let line = shown(command);
    let status = command.status().with_context(|| format!("cannot run `{line}`"))?;
    if !status.success() {
        bail!("`{line}` failed ({status})");
    }
    Ok(())
}

/// Runs a command and returns both its outputs as text, standard output first.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let line = shown(command);
    let output = command.stdin(Stdio::null()).output().with_context(|| format!("cannot run `{line}`"))?;
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text).into_owned();
    if !output.status.success() {
        bail!("`{line}` failed ({}):\n{text}", output.status);
    }
    Ok(text)
}

/// What a command makes of some bytes.
pub(crate) fn filtered(command: &mut Command, bytes: &[u8]) -> Result<Vec<u8>> {
    let line = shown(command);
    let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
    let mut child = child.with_context(|| format!("cannot run `{line}`"))?;
    let input = child.stdin.take();
    let output = std::thread::scope(|scope| {
        // Beside the reading: it may not take all before it gives something.
        scope.spawn(move || input.map(|mut input| input.write_all(bytes)));
        child.wait_with_output()
    })?;
    if !output.status.success() {
        bail!("`{line}` failed ({})", output.status);
    }
    Ok(output.stdout)
}

/// Whether a program of this name can be found.
pub(crate) fn exists(program: &str) -> bool {
    locate(Path::new(program)).is_some()
}

/// The absolute path of a program: a name is looked for in the search path, what has a slash is taken as it is.
pub(crate) fn locate(program: &Path) -> Option<PathBuf> {
    if program.components().count() > 1 {
        return std::path::absolute(program).ok().filter(|path| path.is_file());
    }
    let paths = std::env::var_os("PATH").unwrap_or_default();
    // Debian keeps servers in sbin, which is not in everyone's search path.
    let sbin = [PathBuf::from("/usr/sbin"), PathBuf::from("/usr/local/sbin")];
    std::env::split_paths(&paths).chain(sbin).map(|folder| folder.join(program)).find(|path| path.is_file())
}

fn shown(command: &Command) -> String {
    let program = Path::new(command.get_program()).file_name().unwrap_or(command.get_program());
    let words = std::iter::once(program).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

/// Where cargo builds.
pub(crate) fn target() -> Result<PathBuf> {
    let metadata = cargo_metadata::MetadataCommand::new().current_dir(root()).no_deps().exec()?;
    Ok(metadata.target_directory.into_std_path_buf())
}

/// The path of a program of the workspace, as cargo's `dev` profile builds it.
pub(crate) fn built(program: &str) -> Result<PathBuf> {
    Ok(target()?.join("debug").join(program))
}
