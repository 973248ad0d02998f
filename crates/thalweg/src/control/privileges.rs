//! Directories and the user of the process, before any thread starts.
//!
//! Called once, by the start, between binding the listeners and starting threads. Invariant: only a directory made
//! here changes its owner. An existing one may be shared (`/tmp`), and a new owner could remove and replace the files
//! of others in it. So directories are made and their owner is changed through descriptors (`path_walk`): links in
//! directories that others can write are not followed.

use rustix::fd::BorrowedFd;
use rustix::fs::{Access, Gid, Uid, access, fchown};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use thalweg_net::machine;
use thalweg_net::path_walk::make_directory;

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
    let assumed = if is_already { Ok(()) } else { assume(identity) };
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

/// Whether this process may have that user. `expected`: the first user of a child of the supervisor, which stays the
/// only one. A configuration that the user of the proxy can write would otherwise give that user root at the next
/// start.
///
/// # Errors
/// A sentence: it is another user.
pub(super) fn may_become(uid: u32, expected: Option<u32>) -> Result<(), String> {
    match expected {
        Some(expected) if expected != uid => Err(format!(
            "the configuration names another user than before: {uid} in place of {expected}\n  help: restore `user`, or \
             end the supervisor, too, and start the proxy again"
        )),
        _ => Ok(()),
    }
}

/// Gives up root. A running thread would keep its rights, so no other thread may exist.
fn assume(identity: machine::Identity) -> io::Result<()> {
    // Without /proc this cannot be checked.
    if fs::read_dir("/proc/self/task").is_ok_and(|threads| threads.count() > 1) {
        return Err(io::Error::other("a thread runs already, and would keep the rights of this user"));
    }
    machine::assume(identity)
}

/// Makes a directory that the process can do without, and those above it that are missing, for the present user.
pub(crate) fn make_optional(directory: &Path) {
    // Whoever uses it says what is wrong with it.
    let _ = make(directory, |_| Ok(()));
}

/// Makes a directory and its missing parents; `made` is called with each of them, the outermost first. Existing
/// directories stay unchanged.
fn make(directory: &Path, made: impl FnMut(BorrowedFd<'_>) -> io::Result<()>) -> io::Result<()> {
    if directory.as_os_str().is_empty() || directory.is_dir() {
        return Ok(());
    }
    make_directory(directory, made).map(drop)
}

/// Changes the owner of a directory.
fn give(directory: BorrowedFd<'_>, identity: machine::Identity) -> io::Result<()> {
    let (uid, gid) = (Uid::from_raw(identity.uid), Gid::from_raw(identity.gid));
    Ok(fchown(directory, Some(uid), Some(gid))?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

    /// A user that owns nothing on this machine.
    const OTHER: machine::Identity = machine::Identity { uid: 54321, gid: 54322 };

    #[test]
    fn no_other_user_than_that_of_the_first_child_is_assumed() {
        assert!(may_become(0, None).is_ok() && may_become(OTHER.uid, Some(OTHER.uid)).is_ok());
        let refused = may_become(0, Some(OTHER.uid)).unwrap_err();
        assert!(refused.contains("0 in place of 54321") && refused.contains("\n  help: "), "{refused}");
    }

    #[test]
    fn only_directories_that_were_missing_change_their_owner() {
        if !rustix::process::geteuid().is_root() {
            println!("skipped: only root can give a directory away");
            return;
        }
        let base = std::env::temp_dir().join(format!("thalweg-given-{}", std::process::id()));
        fs::create_dir(&base).unwrap();
        let owner = |path: &Path| fs::metadata(path).map(|found| (found.uid(), found.gid())).unwrap();
        let before = owner(&base);
        let inner = base.join("a/b");
        make(&inner, |made| give(made, OTHER)).unwrap();
        assert_eq!((owner(&base.join("a")), owner(&inner)), ((OTHER.uid, OTHER.gid), (OTHER.uid, OTHER.gid)));
        assert_eq!(owner(&base), before);
        // The owner of a parent directory redirects the rest of the path into a directory of root.
        let (open, target) = (base.join("open"), base.join("target"));
        fs::create_dir(&open).unwrap();
        fs::create_dir(&target).unwrap();
        fs::set_permissions(&open, fs::Permissions::from_mode(0o777)).unwrap();
        symlink(&target, open.join("run")).unwrap();
        let told = make(&open.join("run/thalweg"), |made| give(made, OTHER)).unwrap_err().to_string();
        assert!(told.contains("`run`") && told.contains("is a link"), "{told}");
        assert_eq!((fs::read_dir(&target).unwrap().count(), owner(&target)), (0, before));
        fs::remove_dir_all(&base).unwrap();
    }

    #[test]
    fn a_directory_that_exists_may_be_reached_through_any_link() {
        let base = std::env::temp_dir().join(format!("thalweg-there-{}", std::process::id()));
        fs::create_dir(&base).unwrap();
        fs::create_dir(base.join("target")).unwrap();
        fs::set_permissions(&base, fs::Permissions::from_mode(0o777)).unwrap();
        symlink("target", base.join("link")).unwrap();
        make(&base.join("link"), |_| panic!("it is there")).unwrap();
        fs::remove_dir_all(&base).unwrap();
    }
}
