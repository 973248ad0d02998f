//! Files and directories that the proxy writes to.

use super::{Subject, place};
use rustix::fs::{Access, access};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use thalweg_config::settings::{AccessLog, LogTarget};
use thalweg_config::{Class, SpecError};
use thalweg_net::machine::Identity;

pub(super) fn check(subject: &Subject<'_>) -> Vec<SpecError> {
    let (settings, places) = (&subject.loaded.settings, subject.places);
    let user = super::user::identity(settings).and_then(Result::ok).map_or(Who::Caller, Who::User);
    let mut found = Vec::new();
    if let Some(AccessLog { target: LogTarget::File(path), .. }) = &settings.access_log
        && let Some(why) = not_writable(path, user)
    {
        found.push((
            place(places.access_log),
            format!("the access log {} cannot be written", path.display()),
            why,
        ));
    } else if let Some(AccessLog { target: LogTarget::File(path), rotation: Some(_), .. }) =
        &settings.access_log
        && let Some(why) = not_movable(path, user)
    {
        let what = format!("the access log {} cannot be rotated", path.display());
        found.push((place(places.access_log), what, why));
    }
    // As root the proxy makes a missing directory and gives it to that user before it becomes it.
    let is_root = rustix::process::geteuid().is_root();
    let maker = |path: &Path| if is_root && !path.exists() { Who::Caller } else { user };
    if let Some(path) = &settings.state
        && let Some(why) = not_a_directory(path, maker(path))
    {
        found.push((place(places.state), format!("the state cannot be kept in {}", path.display()), why));
    }
    let disk = cache_disk(subject, maker);
    let help = match &settings.user {
        Some(user) => format!("the user `{}` writes it and needs the permission", user.user),
        None => "the user that runs the proxy needs the permission to write there".to_owned(),
    };
    let sure = settings.user.is_some();
    let report = |(span, what, why): (_, String, Cause)| match why {
        Cause::Missing(why) => {
            let error = SpecError::warning("files", span, format!("{what}: {why}")).class(Class::Invalid);
            error.help("`run` does not start like this; check with `--offline` where the file is for another machine")
        }
        Cause::Denied(why) => {
            let error = SpecError::warning("files", span, format!("{what}: {why}")).help(help.clone());
            if sure { error.class(Class::Invalid) } else { error }
        }
    };
    found.into_iter().map(report).chain(disk).collect()
}

/// The directory of the cache on a disk. Without it the proxy starts and works, from memory.
fn cache_disk(subject: &Subject<'_>, maker: impl Fn(&Path) -> Who) -> Option<SpecError> {
    let path = &subject.loaded.plan.cache.disk.as_ref()?.path;
    let who = maker(path);
    let why = match not_a_directory(path, who) {
        Some(Cause::Missing(why) | Cause::Denied(why)) => why,
        None if is_anothers(path, who) => "it belongs to another user",
        None => return None,
    };
    let message = format!("the cache cannot use the disk in {}: {why}", path.display());
    let error = SpecError::warning("files", place(subject.places.cache_disk), message);
    Some(
        error.help(
            "give the directory to the user that runs the proxy; until then nothing is stored on the disk",
        ),
    )
}

/// Whether a directory that exists belongs to somebody else.
fn is_anothers(path: &Path, who: Who) -> bool {
    let user = match who {
        Who::Caller => rustix::process::geteuid().as_raw(),
        Who::User(user) => user.uid,
    };
    path.metadata().is_ok_and(|metadata| metadata.uid() != user)
}

/// Who writes.
#[derive(Clone, Copy, Debug)]
enum Who {
    /// The user who checks.
    Caller,
    /// The user that the configuration names.
    User(Identity),
}

/// Why something cannot be written.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Cause {
    /// Nobody could write it.
    Missing(&'static str),
    /// This user may not.
    Denied(&'static str),
}

/// Whether the user who checks may make files in a directory.
pub(super) fn may_write(directory: &Path) -> bool {
    Who::Caller.may_make_files_in(directory)
}

impl Who {
    fn may_make_files_in(self, directory: &Path) -> bool {
        match self {
            Self::Caller => access(directory, Access::WRITE_OK | Access::EXEC_OK).is_ok(),
            Self::User(user) => has_rights(directory, user, 0o3) && may_pass(directory, user),
        }
    }

    fn may_write_file(self, file: &Path) -> bool {
        match self {
            Self::Caller => access(file, Access::WRITE_OK).is_ok(),
            Self::User(user) => {
                has_rights(file, user, 0o2) && file.parent().is_none_or(|parent| may_pass(parent, user))
            }
        }
    }
}

/// Whether the mode of a file gives a user these rights (`rwx` of one digit). Access control lists are not looked at.
fn has_rights(path: &Path, user: Identity, rights: u32) -> bool {
    let Ok(metadata) = path.metadata() else { return false };
    let mode = match () {
        () if user.uid == 0 => return true,
        () if metadata.uid() == user.uid => metadata.mode() >> 6,
        () if metadata.gid() == user.gid => metadata.mode() >> 3,
        () => metadata.mode(),
    };
    mode & rights == rights
}

/// Whether a user may go through a directory and those above it.
fn may_pass(directory: &Path, user: Identity) -> bool {
    directory.ancestors().filter(|part| !part.as_os_str().is_empty()).all(|part| has_rights(part, user, 0o1))
}

/// Why a file could not be opened for writing; it is neither opened nor made.
fn not_writable(path: &Path, who: Who) -> Option<Cause> {
    if path.is_dir() {
        return Some(Cause::Missing("it is a directory"));
    }
    if path.exists() {
        return (!who.may_write_file(path)).then_some(Cause::Denied("permission denied"));
    }
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    match directory.is_dir() {
        false => Some(Cause::Missing("its directory does not exist")),
        true => (!who.may_make_files_in(directory))
            .then_some(Cause::Denied("permission denied for its directory")),
    }
}

/// Why a file could not move on to another name.
fn not_movable(path: &Path, who: Who) -> Option<Cause> {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let can = directory.is_dir() && who.may_make_files_in(directory);
    (!can).then_some(Cause::Denied("permission denied for its directory"))
}

/// Why a directory could not be used or made.
fn not_a_directory(path: &Path, who: Who) -> Option<Cause> {
    let existing = path.ancestors().find(|part| part.as_os_str().is_empty() || part.exists());
    let existing = existing.filter(|part| !part.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if !existing.is_dir() {
        return Some(Cause::Missing("a part of the path is a file"));
    }
    let cannot = if existing == path { "permission denied" } else { "it does not exist and cannot be made" };
    (!who.may_make_files_in(existing)).then_some(Cause::Denied(cannot))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn tells_why_something_cannot_be_written() {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml");
        let us = Who::Caller;
        let is_a_file = Some(Cause::Missing("a part of the path is a file"));
        assert_eq!(not_writable(&file, us), None);
        assert_eq!(not_writable(Path::new("/"), us), Some(Cause::Missing("it is a directory")));
        let nowhere = Some(Cause::Missing("its directory does not exist"));
        assert_eq!(not_writable(Path::new("/no/such/file"), us), nowhere);
        assert_eq!(not_a_directory(&file, us), is_a_file);
        assert_eq!(not_a_directory(&file.join("below"), us), is_a_file);
        assert_eq!(not_a_directory(&std::env::temp_dir().join("thalweg-nowhere/below"), us), None);
    }

    /// The user who will run the proxy, not the one who checks.
    #[test]
    fn the_user_of_the_configuration_needs_the_rights() {
        let directory = std::env::temp_dir().join(format!("thalweg-rights-{}", std::process::id()));
        std::fs::create_dir(&directory).unwrap();
        std::fs::set_permissions(&directory, std::fs::Permissions::from_mode(0o700)).unwrap();
        let log = directory.join("access.log");
        let other = Who::User(Identity { uid: 54321, gid: 54321 });
        assert_eq!(not_writable(&log, Who::Caller), None);
        assert_eq!(not_writable(&log, other), Some(Cause::Denied("permission denied for its directory")));
        assert_eq!(not_a_directory(&directory, other), Some(Cause::Denied("permission denied")));
        assert_eq!(not_writable(&log, Who::User(Identity { uid: 0, gid: 0 })), None);
        assert_eq!(not_movable(&log, Who::Caller), None);
        assert_eq!(not_movable(&log, other), Some(Cause::Denied("permission denied for its directory")));
        std::fs::set_permissions(&directory, std::fs::Permissions::from_mode(0o777)).unwrap();
        assert_eq!(not_writable(&log, other), None);
        std::fs::remove_dir(&directory).unwrap();
    }
}
