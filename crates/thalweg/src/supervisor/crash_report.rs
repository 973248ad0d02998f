//! Reports of crashes in the state directory.
//!
//! The supervisor writes them into a directory that the proxy's user owns, as root if the proxy has changed its user.
//! Invariant: no file outside of `crashes` is written or removed, even if that user has placed links: every step uses
//! a descriptor, links of other users are not followed, a report is a new file, and only files with the name of a
//! report are removed.

use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, mkdirat, openat, statat, unlinkat};
use rustix::io::Errno;
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;
use thalweg_net::path_walk::{make_directory, open_directory};

/// The directory in the state directory.
const DIRECTORY: &str = "crashes";
/// Reports that are kept.
const REPORTS: usize = 16;
/// Most directory entries that are examined.
const LOOKED_AT: usize = 10_000;

/// The name of a report: the time in milliseconds since the Unix epoch, and the process id.
type Name = (u64, u32);

/// Writes a report, and removes the oldest ones. With `makes`, a missing state directory is made. Returns the path.
///
/// # Errors
/// The file system fails.
pub(super) fn keep(state: &Path, pid: i32, text: &str, makes: bool) -> io::Result<PathBuf> {
    let parent = if makes { make_directory(state, |_| Ok(())) } else { open_directory(state) }?;
    match mkdirat(&parent, DIRECTORY, Mode::RWXU) {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(error) => return Err(error.into()),
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let directory = openat(&parent, DIRECTORY, flags, Mode::empty())?;
    let at = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_millis();
    let new = (u64::try_from(at).unwrap_or(u64::MAX), pid.unsigned_abs());
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = openat(&directory, written(new), flags, Mode::RUSR | Mode::WUSR)?;
    File::from(file).write_all(text.as_bytes())?;
    prune(&directory, new)?;
    Ok(state.join(DIRECTORY).join(written(new)))
}

/// Removes all but the newest reports, and never `new`.
fn prune(directory: &OwnedFd, new: Name) -> io::Result<()> {
    let mut newest = BTreeSet::from([new]);
    for entry in Dir::read_from(directory)?.take(LOOKED_AT) {
        let entry = entry?;
        let Some(name) = entry.file_name().to_str().ok().and_then(read) else { continue };
        newest.insert(name);
        if newest.len() > REPORTS
            && let Some(oldest) = newest.iter().find(|name| **name != new).copied()
        {
            newest.remove(&oldest);
            remove(directory, oldest)?;
        }
    }
    Ok(())
}

fn remove(directory: impl AsFd, name: Name) -> io::Result<()> {
    let stat = statat(&directory, written(name), AtFlags::SYMLINK_NOFOLLOW)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Ok(());
    }
    match unlinkat(&directory, written(name), AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

fn written((at, pid): Name) -> String {
    format!("{at}-{pid}.txt")
}

/// `None`: it is not the name of a report.
fn read(text: &str) -> Option<Name> {
    let (at, pid) = text.strip_suffix(".txt")?.split_once('-')?;
    let name = (at.parse().ok()?, pid.parse().ok()?);
    (written(name) == text).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    /// A state directory of its own, removed in the end.
    struct Place(PathBuf);

    impl Place {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("thalweg-crash-{name}-{}", std::process::id()));
            fs::create_dir(&path).unwrap();
            Self(path)
        }
    }

    impl Drop for Place {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn names(directory: &Path) -> Vec<String> {
        let mut names: Vec<_> = fs::read_dir(directory)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn the_newest_reports_are_kept_and_other_files_left_alone() {
        let place = Place::new("prune");
        let crashes = place.0.join(DIRECTORY);
        fs::create_dir(&crashes).unwrap();
        let old: Vec<_> = (1..=20).map(|at| format!("{at}-7.txt")).collect();
        let others = ["0-1.txt.bak", "a-1.txt", "01-7.txt", "notes.txt"];
        old.iter()
            .map(String::as_str)
            .chain(others)
            .for_each(|name| fs::write(crashes.join(name), "").unwrap());
        symlink("/etc/passwd", crashes.join("0-0.txt")).unwrap();
        fs::create_dir(crashes.join("0-2.txt")).unwrap();
        let report = keep(&place.0, 42, "SIGSEGV", false).unwrap();
        assert_eq!(fs::read_to_string(&report).unwrap(), "SIGSEGV");
        assert_eq!(fs::metadata(&report).unwrap().permissions().mode() & 0o777, 0o600);
        let left = names(&crashes);
        let reports = left.iter().filter(|name| old.contains(name)).count();
        assert_eq!(reports, REPORTS - 1, "{left:?}");
        let is_left = |name: &str| left.iter().any(|known| known == name);
        assert!(
            others.iter().all(|name| is_left(name)) && is_left("0-0.txt") && is_left("0-2.txt"),
            "{left:?}"
        );
        assert!(is_left("20-7.txt") && !is_left("1-7.txt"), "{left:?}");
    }

    #[test]
    fn a_report_is_not_put_where_a_link_of_another_user_leads() {
        let place = Place::new("link");
        let target = place.0.join("target");
        fs::create_dir(&target).unwrap();
        let old: Vec<_> = (1..=20).map(|at| format!("{at}-7.txt")).collect();
        old.iter().for_each(|name| fs::write(target.join(name), "").unwrap());
        let state = place.0.join("state");
        fs::create_dir(&state).unwrap();
        symlink(&target, state.join(DIRECTORY)).unwrap();
        assert!(keep(&state, 42, "SIGSEGV", false).is_err());
        assert_eq!(names(&target).len(), old.len());
        // The state directory itself is a link, in a directory that others can write.
        fs::set_permissions(&place.0, fs::Permissions::from_mode(0o777)).unwrap();
        symlink(&target, place.0.join("moved")).unwrap();
        assert!(keep(&place.0.join("moved"), 42, "SIGSEGV", true).is_err());
        assert_eq!(names(&target).len(), old.len());
    }

    #[test]
    fn a_state_directory_that_is_missing_is_made_for_the_same_user_only() {
        let place = Place::new("missing");
        assert!(keep(&place.0.join("state"), 42, "SIGSEGV", false).is_err());
        assert!(keep(&place.0.join("state"), 42, "SIGSEGV", true).is_ok());
    }
}
