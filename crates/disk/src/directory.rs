//! The directory of a store: who may use it, and the files in it.
//!
//! Everything goes through the descriptor of the directory, and no link is followed: what somebody puts into the place
//! of a file of ours is left alone. Files that are not ours are neither read nor removed.

use rustix::fs::{self, AtFlags, CWD, Dir, FileType, FlockOperation, Mode, OFlags, RenameFlags};
use rustix::io::Errno;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

/// Held while a store is in use; the kernel lets go of it when its process ends, however that is.
const LOCK: &str = "lock";
/// What the store is, and its bans.
pub(crate) const STATE: &str = "state";
/// The next state, before it takes the place of the old one.
pub(crate) const NEXT_STATE: &str = "state.next";
/// What the names of segments end with.
const SEGMENT: &str = ".segment";
/// What the names of files end with that are to become segments.
const GROWTH: &str = ".growth";
/// May be in the root of a file system.
const LOST: &[u8] = b"lost+found";

/// A directory cannot be used.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Refused {
    /// Another process uses it.
    InUse,
    /// Why not, as a sentence with its remedy.
    Unusable(String),
}

/// A directory that this process may use alone.
#[derive(Debug)]
pub(crate) struct Directory {
    dir: OwnedFd,
    /// Locked while it is open.
    lock: Mutex<Option<OwnedFd>>,
}

impl Directory {
    /// Makes the directory if it is not there, and locks it.
    pub(crate) fn open(path: &Path) -> Result<Self, Refused> {
        let unusable = |what: &str, errno: Errno| {
            Refused::Unusable(format!("{what} {}: {}", path.display(), text_of(errno)))
        };
        match fs::mkdirat(CWD, path, Mode::RWXU) {
            Ok(()) | Err(Errno::EXIST) => {}
            // On a read-only file system it may be there nevertheless.
            Err(_) if path.is_dir() => {}
            Err(errno) => return Err(unusable("cannot make the directory", errno)),
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let dir = fs::openat(CWD, path, flags, Mode::empty());
        let dir = dir.map_err(|errno| unusable("cannot open the directory", errno))?;
        check_owner(&dir, path)?;
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let lock = fs::openat(&dir, LOCK, flags, Mode::RUSR | Mode::WUSR);
        let lock = lock.map_err(|errno| unusable("cannot write in the directory", errno))?;
        match fs::flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Self { dir, lock: Mutex::new(Some(lock)) }),
            Err(Errno::WOULDBLOCK) => Err(Refused::InUse),
            Err(errno) => Err(unusable("cannot lock the directory", errno)),
        }
    }

    /// Lets others use it; nothing is written any more.
    pub(crate) fn release(&self) {
        drop(self.lock.lock().unwrap_or_else(PoisonError::into_inner).take());
    }

    /// The numbers of segments that are there, and their sizes.
    pub(crate) fn segments(&self) -> Result<Vec<(u32, u64)>, Errno> {
        let mut found = Vec::new();
        for entry in Dir::read_from(&self.dir)? {
            let entry = entry?;
            let Some(number) = entry.file_name().to_str().ok().and_then(number_of) else { continue };
            if let Ok(file) = self.open_ours(&name_of(number), OFlags::RDONLY) {
                found.push((number, fs::fstat(&file)?.st_size as u64));
            }
        }
        Ok(found)
    }

    /// Opens a segment.
    pub(crate) fn segment(&self, number: u32, may_write: bool) -> Result<File, Errno> {
        let flags = if may_write { OFlags::RDWR } else { OFlags::RDONLY };
        self.open_ours(&name_of(number), flags)
    }

    /// Makes a segment that is not there yet.
    pub(crate) fn create_segment(&self, number: u32) -> Result<File, Errno> {
        self.create(&name_of(number))
    }

    pub(crate) fn remove_segment(&self, number: u32) -> Result<(), Errno> {
        self.remove(&name_of(number))
    }

    /// Makes a file that is to become a segment.
    pub(crate) fn create_growth(&self, number: u32) -> Result<File, Errno> {
        self.create(&growth_name(number))
    }

    /// It becomes the segment with this number, whose place is free.
    pub(crate) fn finish_growth(&self, number: u32, segment: u32) -> Result<(), Errno> {
        let (from, to) = (growth_name(number), name_of(segment));
        match fs::renameat_with(&self.dir, &*from, &self.dir, &*to, RenameFlags::NOREPLACE) {
            // Some file systems cannot do it in one step.
            Err(Errno::INVAL | Errno::NOSYS) => {
                match fs::statat(&self.dir, &*to, AtFlags::SYMLINK_NOFOLLOW) {
                    Err(Errno::NOENT) => self.rename(&from, &to),
                    Ok(_) => Err(Errno::EXIST),
                    Err(errno) => Err(errno),
                }
            }
            done => done,
        }
    }

    pub(crate) fn remove_growth(&self, number: u32) -> Result<(), Errno> {
        self.remove(&growth_name(number))
    }

    /// Removes files that were to become segments when a process ended.
    pub(crate) fn remove_growths(&self) -> Result<(), Errno> {
        for entry in Dir::read_from(&self.dir)? {
            let entry = entry?;
            let number = entry.file_name().to_str().ok().and_then(|name| numbered(name, GROWTH));
            let Some(name) = number.map(growth_name) else { continue };
            if self.open_ours(&name, OFlags::RDONLY).is_ok() {
                self.remove(&name)?;
            }
        }
        Ok(())
    }

    pub(crate) fn create(&self, name: &str) -> Result<File, Errno> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        fs::openat(&self.dir, name, flags, Mode::RUSR | Mode::WUSR).map(File::from)
    }

    pub(crate) fn remove(&self, name: &str) -> Result<(), Errno> {
        match fs::unlinkat(&self.dir, name, AtFlags::empty()) {
            Err(Errno::NOENT) => Ok(()),
            done => done,
        }
    }

    pub(crate) fn rename(&self, from: &str, to: &str) -> Result<(), Errno> {
        fs::renameat(&self.dir, from, &self.dir, to)
    }

    /// The names that it has are on the disk.
    pub(crate) fn sync(&self) -> Result<(), Errno> {
        fs::fsync(&self.dir)
    }

    /// Opens a plain file that is ours, with no other name.
    pub(crate) fn open_ours(&self, name: &str, flags: OFlags) -> Result<File, Errno> {
        let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let file = fs::openat(&self.dir, name, flags, Mode::empty())?;
        let stat = fs::fstat(&file)?;
        let is_file = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
        let is_ours = is_file && stat.st_nlink == 1 && stat.st_uid == rustix::process::geteuid().as_raw();
        if is_ours { Ok(file.into()) } else { Err(Errno::PERM) }
    }
}

/// Whether the directory is ours, and nothing else is in it; nobody else may look into it from now on.
fn check_owner(dir: &OwnedFd, path: &Path) -> Result<(), Refused> {
    let path = path.display();
    let unusable = |errno: Errno| Refused::Unusable(format!("cannot look into {path}: {}", text_of(errno)));
    let stat = fs::fstat(dir).map_err(unusable)?;
    if stat.st_uid != rustix::process::geteuid().as_raw() {
        return Err(Refused::Unusable(format!(
            "{path} belongs to another user; help: give it to the one that the proxy runs as"
        )));
    }
    let (mut has_lock, mut stranger) = (false, None);
    for entry in Dir::read_from(dir).map_err(unusable)? {
        let entry = entry.map_err(unusable)?;
        let name = entry.file_name();
        match name.to_bytes() {
            b"." | b".." | LOST => {}
            name if name == LOCK.as_bytes() => has_lock = true,
            _ => stranger = Some(name.to_string_lossy().into_owned()),
        }
    }
    if let Some(stranger) = stranger.filter(|_| !has_lock) {
        return Err(Refused::Unusable(format!(
            "{path} has other files ({stranger}); help: give the cache a directory of its own"
        )));
    }
    if stat.st_mode & 0o077 != 0 {
        fs::fchmod(dir, Mode::RWXU).map_err(|errno| {
            Refused::Unusable(format!("cannot close {path} to other users: {}", text_of(errno)))
        })?;
    }
    Ok(())
}

fn name_of(number: u32) -> String {
    format!("{number:08x}{SEGMENT}")
}

fn growth_name(number: u32) -> String {
    format!("{number:08x}{GROWTH}")
}

fn number_of(name: &str) -> Option<u32> {
    numbered(name, SEGMENT)
}

/// The number that a name with this end has.
fn numbered(name: &str, end: &str) -> Option<u32> {
    let digits = name.strip_suffix(end)?;
    let number = u32::from_str_radix(digits, 16).ok()?;
    (format!("{number:08x}") == digits).then_some(number)
}

/// What the operating system calls it.
pub(crate) fn text_of(errno: Errno) -> String {
    let text = std::io::Error::from(errno).to_string();
    text.split(" (os error").next().unwrap_or_default().to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Folder;
    use std::os::unix::fs::{PermissionsExt, symlink};

    fn unusable(path: &Path) -> String {
        match Directory::open(path) {
            Err(Refused::Unusable(why)) => why,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_directory_is_made_closed_and_used_once() {
        let folder = Folder::new();
        let path = folder.path().join("cache");
        let one = Directory::open(&path).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o700);
        assert_eq!(Directory::open(&path).unwrap_err(), Refused::InUse);
        drop(one);
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
        drop(Directory::open(&path).unwrap());
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o700);
    }

    #[test]
    fn what_is_not_ours_is_refused_and_left_alone() {
        let folder = Folder::new();
        let other = folder.path().join("other");
        std::fs::create_dir(&other).unwrap();
        std::fs::write(other.join("letter"), "dear").unwrap();
        assert!(unusable(&other).contains("other files (letter)"));
        symlink(&other, folder.path().join("link")).unwrap();
        assert!(unusable(&folder.path().join("link")).contains("cannot open"));
        assert!(unusable(&other.join("letter")).contains("cannot open"));
        assert!(unusable(&folder.path().join("not/there")).contains("cannot make"));
        let path = folder.path().join("cache");
        let directory = Directory::open(&path).unwrap();
        symlink(other.join("letter"), path.join("00000001.segment")).unwrap();
        std::fs::hard_link(other.join("letter"), path.join("00000002.segment")).unwrap();
        std::fs::create_dir(path.join("00000003.segment")).unwrap();
        std::fs::write(path.join("4.segment"), "x").unwrap();
        std::fs::write(path.join("00000005.segment"), "12345").unwrap();
        assert_eq!(directory.segments(), Ok(vec![(5, 5)]));
        assert!((1..4).all(|number| directory.segment(number, false).is_err()));
        assert_eq!(directory.create_segment(1).unwrap_err(), Errno::EXIST);
        assert_eq!(std::fs::read(other.join("letter")).unwrap(), b"dear");
    }

    #[test]
    fn what_is_unfinished_becomes_a_segment_or_goes() {
        let folder = Folder::new();
        let path = folder.path().join("cache");
        let directory = Directory::open(&path).unwrap();
        for number in [1, 2, 3] {
            drop(directory.create_growth(number).unwrap());
        }
        std::fs::write(path.join("4.growth"), "x").unwrap();
        symlink(folder.path().join("letter"), path.join("00000005.growth")).unwrap();
        directory.finish_growth(1, 7).unwrap();
        assert_eq!(directory.finish_growth(2, 7), Err(Errno::EXIST));
        assert_eq!(directory.segments(), Ok(vec![(7, 0)]));
        directory.remove_growths().unwrap();
        let mut left: Vec<_> =
            std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left, ["00000005.growth", "00000007.segment", "4.growth", "lock"]);
    }
}
