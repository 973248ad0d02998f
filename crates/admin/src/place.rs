//! Where the admin socket is: one rule, for `run` and for the verbs.
//!
//! Called by the binary at start and by every verb. Invariant: the rule names one place, and nobody tries a second one:
//! who answers there may be another proxy.

use std::env;
use std::ffi::OsString;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use rustix::process::geteuid;

/// The environment variable that names the admin socket, for `run` and for the verbs: a path, or `unix:` and a path.
pub const SOCKET_VARIABLE: &str = "THALWEG_ADMIN_SOCKET";
/// Where the socket of the system's own proxy is.
const SYSTEM: &str = "/run/thalweg/admin.sock";

/// Who says where the socket is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum PlaceReason {
    /// The command line.
    Argument,
    /// [`SOCKET_VARIABLE`].
    Variable,
    /// `$XDG_RUNTIME_DIR`.
    UserRuntime,
    /// The process is root's, or `/run/thalweg` belongs to its user.
    System,
    /// Nobody: a private directory below the temporary one.
    Temporary,
}

/// The one place of the admin socket.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct SocketPlace {
    /// The socket.
    pub path: PathBuf,
    /// Who says so.
    pub reason: PlaceReason,
}

/// What the rule looks at.
struct Surroundings {
    variable: Option<OsString>,
    user_runtime: Option<OsString>,
    temporary: PathBuf,
    user: u32,
    owns_system_folder: bool,
}

impl SocketPlace {
    /// A place that the command line names.
    pub fn argument(path: PathBuf) -> Self {
        Self { path, reason: PlaceReason::Argument }
    }

    /// The place when the command line says nothing: what [`SOCKET_VARIABLE`] names, else
    /// `$XDG_RUNTIME_DIR/thalweg/admin.sock`, else, for root and the owner of `/run/thalweg`,
    /// `/run/thalweg/admin.sock`, else `thalweg-UID/admin.sock` below the temporary directory.
    pub fn from_environment() -> Self {
        let user = geteuid().as_raw();
        let set = |name| env::var_os(name).filter(|value| !value.is_empty());
        let owner = Path::new(SYSTEM).parent().and_then(|folder| fs::metadata(folder).ok());
        choose(Surroundings {
            variable: set(SOCKET_VARIABLE),
            user_runtime: set("XDG_RUNTIME_DIR"),
            temporary: env::temp_dir(),
            user,
            owns_system_folder: owner.is_some_and(|folder| folder.uid() == user),
        })
    }

    /// Makes the private directory of a temporary place, if it is missing. Called before the socket is bound.
    ///
    /// # Errors
    /// It cannot be made, or others may reach into it.
    pub fn prepare(&self) -> io::Result<()> {
        let Some(folder) = self.private_folder() else { return Ok(()) };
        match DirBuilder::new().mode(0o700).create(folder) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
            _ => check_private(folder, geteuid().as_raw()),
        }
    }

    /// Whether the place can be trusted to be this user's: anybody can make a directory below the temporary one. Called
    /// before a socket there is asked.
    ///
    /// # Errors
    /// Others may reach into it. That nothing is there is no error.
    pub fn check(&self) -> io::Result<()> {
        let Some(folder) = self.private_folder() else { return Ok(()) };
        match check_private(folder, geteuid().as_raw()) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            checked => checked,
        }
    }

    /// What to do when nobody answers there.
    pub fn help(&self) -> String {
        let system = Path::new(SYSTEM);
        self.help_beside((self.path != system && system.exists()).then_some(system))
    }

    fn help_beside(&self, other: Option<&Path>) -> String {
        let from = match self.reason {
            PlaceReason::Argument => "the command line names this socket",
            PlaceReason::Variable => "`$THALWEG_ADMIN_SOCKET` names this socket",
            PlaceReason::UserRuntime => "`$XDG_RUNTIME_DIR` says where it is",
            PlaceReason::System => "it is where root and the owner of /run/thalweg have it",
            PlaceReason::Temporary => "it is where users without `$XDG_RUNTIME_DIR` have it",
        };
        let example = match other {
            Some(path) => format!("; there is one at `--admin unix:{}`", path.display()),
            None => String::new(),
        };
        format!("{from}; `--admin URL` or `${SOCKET_VARIABLE}` names another{example}")
    }

    fn private_folder(&self) -> Option<&Path> {
        self.path.parent().filter(|_| self.reason == PlaceReason::Temporary)
    }
}

fn choose(from: Surroundings) -> SocketPlace {
    let place = |path, reason| SocketPlace { path, reason };
    if let Some(path) = from.variable {
        let path = path
            .to_str()
            .and_then(|text| text.strip_prefix("unix:"))
            .map(PathBuf::from)
            .unwrap_or(path.into());
        return place(path, PlaceReason::Variable);
    }
    if let Some(folder) = from.user_runtime {
        return place(PathBuf::from(folder).join("thalweg/admin.sock"), PlaceReason::UserRuntime);
    }
    if from.user == 0 || from.owns_system_folder {
        return place(SYSTEM.into(), PlaceReason::System);
    }
    place(from.temporary.join(format!("thalweg-{}/admin.sock", from.user)), PlaceReason::Temporary)
}

/// Whether `folder` is a directory of `user` that nobody else can use.
fn check_private(folder: &Path, user: u32) -> io::Result<()> {
    let found = fs::symlink_metadata(folder)?;
    if found.is_dir() && found.uid() == user && found.mode() & 0o077 == 0 {
        return Ok(());
    }
    let what = format!("{} must be a directory of this user with mode 0700, and is not", folder.display());
    Err(io::Error::new(io::ErrorKind::PermissionDenied, what))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;
    use crate::socket::tests::Folder;

    fn at(variable: &str, user_runtime: &str, user: u32, owns_system_folder: bool) -> (String, PlaceReason) {
        let set = |text: &str| (!text.is_empty()).then(|| OsString::from(text));
        let (variable, user_runtime) = (set(variable), set(user_runtime));
        let temporary = PathBuf::from("/tmp");
        let place = choose(Surroundings { variable, user_runtime, temporary, user, owns_system_folder });
        (place.path.display().to_string(), place.reason)
    }

    #[test]
    fn one_place_is_named_and_the_nearest_word_counts() {
        use PlaceReason::{System, Temporary, UserRuntime, Variable};
        for (from, path, reason) in [
            (("/a.sock", "/x", 0, true), "/a.sock", Variable),
            (("unix:/a.sock", "", 7, false), "/a.sock", Variable),
            (("", "/x", 0, true), "/x/thalweg/admin.sock", UserRuntime),
            (("", "/x", 7, false), "/x/thalweg/admin.sock", UserRuntime),
            (("", "", 0, false), "/run/thalweg/admin.sock", System),
            (("", "", 7, true), "/run/thalweg/admin.sock", System),
            (("", "", 7, false), "/tmp/thalweg-7/admin.sock", Temporary),
        ] {
            assert_eq!(at(from.0, from.1, from.2, from.3), (path.to_owned(), reason), "{from:?}");
        }
    }

    #[test]
    fn a_temporary_place_is_this_users_alone() {
        let folder = Folder::new();
        let path = folder.0.join("thalweg-1/admin.sock");
        let place = SocketPlace { path, reason: PlaceReason::Temporary };
        let inside = folder.0.join("thalweg-1");
        assert!(place.check().is_ok(), "nothing is there yet");
        place.prepare().unwrap();
        assert_eq!(fs::metadata(&inside).unwrap().mode() & 0o777, 0o700);
        assert!(place.prepare().is_ok() && place.check().is_ok());
        assert!(check_private(&inside, geteuid().as_raw() + 1).is_err(), "somebody else's");
        fs::set_permissions(&inside, fs::Permissions::from_mode(0o755)).unwrap();
        assert!(place.prepare().is_err() && place.check().is_err());
        fs::set_permissions(&inside, fs::Permissions::from_mode(0o700)).unwrap();
        fs::rename(&inside, folder.0.join("elsewhere")).unwrap();
        symlink(folder.0.join("elsewhere"), &inside).unwrap();
        assert!(place.prepare().is_err() && place.check().is_err());
    }

    #[test]
    fn help_names_the_other_socket_and_does_not_ask_it() {
        let place = SocketPlace { path: "/x/a.sock".into(), reason: PlaceReason::UserRuntime };
        assert!(place.help_beside(None).contains("`$THALWEG_ADMIN_SOCKET`"));
        assert!(
            place.help_beside(Some(Path::new(SYSTEM))).ends_with("`--admin unix:/run/thalweg/admin.sock`")
        );
    }
}
