//! Directories and the user of the process, before any thread starts.

use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, chown};
use std::path::{Path, PathBuf};
use thalweg_net::machine;

/// Where what must last is kept when the configuration does not say: `/var/lib/thalweg` for root,
/// else the XDG state directory.
pub(crate) fn default_state_directory() -> PathBuf {
    if rustix::process::geteuid().is_root() {
        return PathBuf::from("/var/lib/thalweg");
    }
    let set = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let state = set("XDG_STATE_HOME").or_else(|| set("HOME").map(|home| home.join(".local/state")));
    state.unwrap_or_else(|| PathBuf::from("/tmp")).join("thalweg")
}

/// Becomes `user` (`user` or `user:group`), who then owns `directories`, made if they are missing.
///
/// # Errors
/// A sentence that names the directory or the user.
pub(crate) fn become_user(user: &str, directories: &[&Path]) -> Result<(), String> {
    let identity = machine::identity(user).map_err(|error| error.to_string())?;
    for directory in directories {
        let made = make(directory).and_then(|()| chown(directory, Some(identity.uid), Some(identity.gid)));
        made.map_err(|error| format!("cannot prepare {}: {error}", directory.display()))?;
    }
    machine::assume(identity).map_err(|error| format!("cannot become `{user}`: {error}"))
}

fn make(directory: &Path) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)
}
