//! The unix socket of the admin API: made, guarded, removed.
//!
//! Called by the server at start and at its end. Invariants: the socket is never visible with a mode
//! other than 0600; a socket that somebody answers is never replaced; what is removed at the end is
//! our own.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, FileTypeExt as _, MetadataExt as _, PermissionsExt as _};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use rustix::process::Pid;
use tokio::net::UnixStream;
use tokio::time::timeout;

use crate::client::CALL_TIME;

/// The process that listens at `path`, as far as it can be seen from here: not from another PID namespace.
pub fn process_at(path: &Path) -> io::Result<Option<Pid>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let stream = runtime.block_on(async { timeout(CALL_TIME, UnixStream::connect(path)).await? })?;
    let _inside = runtime.enter();
    Ok(stream.peer_cred()?.pid().and_then(Pid::from_raw))
}

/// Whether a process of user `peer` may use the socket of user `own`.
pub(crate) fn peer_allowed(peer: u32, own: u32) -> bool {
    peer == own || peer == 0
}

/// A bound socket, whose file is removed when this is dropped.
#[derive(Debug)]
pub(crate) struct SocketFile {
    path: PathBuf,
    identity: (u64, u64),
    /// Where it is until it takes its place.
    draft: Option<PathBuf>,
    /// The place is a successor's: nothing is removed. Its file may have the number that this one had, since a system
    /// gives the number of a closed socket again.
    is_passed_on: bool,
}

impl SocketFile {
    /// Leaves the place to the process that has taken it.
    pub(crate) fn pass_on(&mut self) {
        self.is_passed_on = true;
    }

    /// Puts the socket in its place, whosever socket is there.
    ///
    /// # Errors
    /// Of the file system.
    pub(crate) fn take_place(&mut self) -> io::Result<()> {
        let Some(draft) = &self.draft else { return Ok(()) };
        fs::rename(draft, &self.path)?;
        self.draft = None;
        Ok(())
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if self.is_passed_on {
            return;
        }
        // After an upgrade the path may already be our successor's.
        let path = self.draft.as_deref().unwrap_or(&self.path);
        if identity(path).is_ok_and(|identity| identity == self.identity) {
            let _ = fs::remove_file(path);
        }
    }
}

/// Device and inode.
fn identity(path: &Path) -> io::Result<(u64, u64)> {
    fs::symlink_metadata(path).map(|file| (file.dev(), file.ino()))
}

/// Binds the socket. Makes its directory (0700) if it is missing and replaces a socket file that
/// nobody answers. With `succeeds` it is that of a process which takes over: it takes its place when that is said.
///
/// # Errors
/// Another process answers there, something else than a socket is in the way, or the system refuses.
pub(crate) fn bind(path: &Path, succeeds: bool) -> io::Result<(UnixListener, SocketFile)> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(|error| {
        io::Error::new(error.kind(), format!("its directory {} cannot be made: {error}", folder.display()))
    })?;
    if !succeeds {
        check_free(path)?;
    }
    // Bound under another name, closed to others, then moved into place in one step.
    let draft = folder.join(format!(".{}", std::process::id()));
    let _ = fs::remove_file(&draft);
    let listener = UnixListener::bind(&draft)?;
    let placed = fs::set_permissions(&draft, fs::Permissions::from_mode(0o600))
        .and_then(|()| identity(&draft))
        .and_then(|identity| {
            let mut file =
                SocketFile { path: path.into(), identity, draft: Some(draft.clone()), is_passed_on: false };
            if !succeeds {
                file.take_place()?;
            }
            Ok(file)
        });
    match placed {
        Ok(file) => Ok((listener, file)),
        Err(error) => {
            let _ = fs::remove_file(&draft);
            Err(error)
        }
    }
}

/// Whether the path is free or holds a socket that nobody answers.
fn check_free(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
        Ok(file) if !file.file_type().is_socket() => {
            let what = "something that is not a socket is in the way";
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, what));
        }
        Ok(_) => {}
    }
    // Non-blocking: a process whose queue is full is a running process too.
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let probe = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    match connect(&probe, &SocketAddrUnix::new(path)?) {
        Err(rustix::io::Errno::CONNREFUSED | rustix::io::Errno::NOENT) => Ok(()),
        Ok(()) | Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INPROGRESS) => {
            Err(io::Error::new(io::ErrorKind::AddrInUse, "another thalweg is running"))
        }
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::os::unix::net::UnixStream;
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    /// A directory that goes away with the test.
    pub(crate) struct Folder(pub(crate) PathBuf);

    impl Folder {
        pub(crate) fn new() -> Self {
            static NEXT: AtomicU32 = AtomicU32::new(0);
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let path = std::env::temp_dir().join(format!("thalweg-admin-{}-{number}", std::process::id()));
            fs::create_dir_all(&path).unwrap();
            Self(path)
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn is_closed_to_others_and_removed_at_the_end() {
        let folder = Folder::new();
        let path = folder.0.join("run/admin.sock");
        let (listener, file) = bind(&path, false).unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&path), mode(&folder.0.join("run"))), (0o600, 0o700));
        assert!(UnixStream::connect(&path).is_ok());
        assert_eq!(fs::read_dir(folder.0.join("run")).unwrap().count(), 1);
        drop((listener, file));
        assert!(!path.exists());
    }

    #[test]
    fn who_has_passed_its_place_on_removes_nothing_whatever_its_number() {
        let folder = Folder::new();
        let path = folder.0.join("admin.sock");
        let (_listener, mut file) = bind(&path, false).unwrap();
        file.pass_on();
        // The same number as that of a successor's socket.
        assert_eq!(file.identity, identity(&path).unwrap());
        drop(file);
        assert!(path.exists());
    }

    #[test]
    fn a_running_proxy_is_not_replaced() {
        let folder = Folder::new();
        let path = folder.0.join("admin.sock");
        let running = bind(&path, false).unwrap();
        let error = bind(&path, false).unwrap_err();
        assert_eq!(error.to_string(), "another thalweg is running");
        assert!(UnixStream::connect(&path).is_ok());
        drop(running);
    }

    #[test]
    fn a_dead_socket_is_replaced() {
        let folder = Folder::new();
        let path = folder.0.join("admin.sock");
        drop(UnixListener::bind(&path).unwrap());
        assert!(path.exists());
        let bound = bind(&path, false).unwrap();
        assert!(UnixStream::connect(&path).is_ok());
        drop(bound);
    }

    #[test]
    fn a_file_in_the_way_is_left_alone() {
        let folder = Folder::new();
        let path = folder.0.join("admin.sock");
        fs::write(&path, "precious").unwrap();
        assert!(bind(&path, false).unwrap_err().to_string().contains("not a socket"));
        assert_eq!(fs::read_to_string(&path).unwrap(), "precious");
    }

    #[test]
    fn a_file_where_its_directory_would_be_is_named() {
        let folder = Folder::new();
        fs::write(folder.0.join("run"), "precious").unwrap();
        let said = bind(&folder.0.join("run/admin.sock"), false).unwrap_err().to_string();
        let named = format!("its directory {} cannot be made: ", folder.0.join("run").display());
        assert!(said.starts_with(&named), "{said}");
    }

    #[test]
    fn a_successors_socket_is_left_alone() {
        let folder = Folder::new();
        let path = folder.0.join("admin.sock");
        let (listener, file) = bind(&path, false).unwrap();
        drop(listener);
        let successor = bind(&path, false).unwrap();
        drop(file);
        assert!(UnixStream::connect(&path).is_ok());
        drop(successor);
    }

    #[test]
    fn the_process_behind_a_socket_is_known() {
        let folder = Folder::new();
        let path = folder.0.join("admin.sock");
        assert!(process_at(&path).is_err());
        let _bound = bind(&path, false).unwrap();
        assert_eq!(process_at(&path).unwrap(), Some(rustix::process::getpid()));
    }

    #[test]
    fn our_own_user_and_root_are_allowed() {
        assert!(peer_allowed(1000, 1000) && peer_allowed(0, 1000) && peer_allowed(0, 0));
        assert!(!peer_allowed(1001, 1000) && !peer_allowed(1000, 0));
    }
}
