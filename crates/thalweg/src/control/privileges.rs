//! Directories and the user of the process, before any thread starts.
//!
//! Called once, by the start, between binding the listeners and starting threads. Invariant: only a directory that was
//! made here changes its owner. One that exists may be shared (`/tmp`), and whoever owns it can take away and replace
//! everybody's files in it.

use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, fchown};
use std::path::{Path, PathBuf};

use rustix::fs::{Access, OFlags, access};
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

/// Becomes `user` (`user` or `user:group`). The directories that are missing are made before and given to that user; in
/// those that exist the user must be able to make files, but for one that is `optional`.
///
/// # Errors
/// A sentence that names the directory or the user.
pub(crate) fn become_user(user: &str, directories: &[&Path], optional: Option<&Path>) -> Result<(), String> {
    let identity = machine::identity(user).map_err(|error| error.to_string())?;
    if let Some(directory) = optional {
        // Whoever uses it says what is wrong with it.
        let _ = make(directory, |made| give(made, identity));
    }
    for directory in directories {
        make(directory, |made| give(made, identity))
            .map_err(|error| format!("cannot prepare {}: {error}", directory.display()))?;
    }
    let is_already = rustix::process::geteuid().as_raw() == identity.uid
        && rustix::process::getegid().as_raw() == identity.gid;
    // A successor is started by who has become it.
    let assumed = if is_already { Ok(()) } else { machine::assume(identity) };
    assumed.map_err(|error| format!("cannot become `{user}`: {error}"))?;
    let closed = |directory: &&&Path| access(**directory, Access::WRITE_OK | Access::EXEC_OK).is_err();
    match directories.iter().find(closed) {
        None => Ok(()),
        Some(directory) => {
            let directory = directory.display();
            Err(format!(
                "`{user}` cannot make files in {directory}\n  help: the directory exists, so it keeps its owner; `chown \
                 {user} {directory}` gives it to that user"
            ))
        }
    }
}

/// Makes a directory that the process can do without, and those above it that are missing, for the present user.
pub(crate) fn make_optional(directory: &Path) {
    // Whoever uses it says what is wrong with it.
    let _ = make(directory, |_| Ok(()));
}

/// Makes a directory and those above it that are missing; `made` is called with each of them, the outermost first.
fn make(directory: &Path, mut made: impl FnMut(&Path) -> io::Result<()>) -> io::Result<()> {
    let is_missing = |part: &&Path| !part.as_os_str().is_empty() && !part.exists();
    let missing: Vec<_> = directory.ancestors().take_while(is_missing).collect();
    for part in missing.into_iter().rev() {
        match fs::DirBuilder::new().mode(0o700).create(part) {
            Ok(()) => made(part)?,
            // Somebody was faster: it is theirs.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && part.is_dir() => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Gives a directory to a user. A link that has taken its place since is not followed.
fn give(directory: &Path, identity: machine::Identity) -> io::Result<()> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW;
    let flags = i32::try_from(flags.bits()).unwrap_or_default();
    let opened = fs::OpenOptions::new().read(true).custom_flags(flags).open(directory)?;
    fchown(opened, Some(identity.uid), Some(identity.gid))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_directories_that_were_missing_count_as_made() {
        let base = std::env::temp_dir().join(format!("thalweg-made-{}", std::process::id()));
        let inner = base.join("a/b");
        let made_of = |directory: &Path| {
            let mut all = Vec::new();
            make(directory, |made| {
                all.push(made.to_owned());
                Ok(())
            })
            .unwrap();
            all
        };
        assert_eq!(made_of(&inner), [base.clone(), base.join("a"), inner.clone()]);
        assert!(made_of(&inner).is_empty(), "the second time it is there");
        assert!(made_of(&std::env::temp_dir()).is_empty());
        fs::write(base.join("file"), "").unwrap();
        assert!(make(&base.join("file/below"), |_| Ok(())).is_err());
        fs::remove_dir_all(&base).unwrap();
    }

    #[test]
    fn a_link_in_the_place_of_a_directory_is_not_followed() {
        let base = std::env::temp_dir().join(format!("thalweg-given-{}", std::process::id()));
        fs::create_dir(&base).unwrap();
        std::os::unix::fs::symlink(std::env::temp_dir(), base.join("link")).unwrap();
        let ourselves = machine::Identity {
            uid: rustix::process::geteuid().as_raw(),
            gid: rustix::process::getegid().as_raw(),
        };
        assert!(give(&base.join("link"), ourselves).is_err());
        assert!(give(&base, ourselves).is_ok());
        fs::remove_dir_all(&base).unwrap();
    }
}
