//! Walks paths that another user may partly own, component by component with descriptors.
//!
//! Called where a process with more rights than that user writes, changes the owner of, or starts the file at a path:
//! the start (`control/privileges.rs` of `thalweg`), the supervisor, and sockets at paths (`listen`). A path that is
//! opened in one step may lead elsewhere a moment later; a descriptor keeps referring to the checked file. Invariant: a
//! symbolic link is followed only in a directory that no user but root and the user of this process can write.

use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{CWD, Dir, FileType, Mode, OFlags, Stat, fstat, mkdirat, openat, readlinkat};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::fmt::Display;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};

/// Most links in one path, as in the kernel.
const LINKS: u32 = 40;
/// Write permission of the group and of all others.
const WRITE_OF_OTHERS: u32 = 0o022;
/// Flags for a directory on the path, which is not read.
const PASS: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
/// Flags for a directory that is listed or changes its owner.
const LIST: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Opens the directory at a path.
///
/// # Errors
/// `NotFound`; `PermissionDenied` for a link in a directory that others can write.
pub fn open_directory(path: &Path) -> io::Result<OwnedFd> {
    walk(path, |_, _| Err(Errno::NOENT.into()))
}

/// Opens the directory at a path; missing directories are made with mode 0700, the outermost first, and `made` is
/// called with each of them.
///
/// # Errors
/// As [`open_directory`], and those of `made`.
pub fn make_directory(
    path: &Path,
    mut made: impl FnMut(BorrowedFd<'_>) -> io::Result<()>,
) -> io::Result<OwnedFd> {
    walk(path, |parent, name| {
        let is_ours = match mkdirat(parent, name, Mode::RWXU) {
            Ok(()) => true,
            // Another process made it first: the directory keeps its owner.
            Err(Errno::EXIST) => false,
            Err(error) => return Err(error.into()),
        };
        let directory = openat(parent, name, LIST, Mode::empty())?;
        if is_ours {
            check_new(&directory)?;
            made(directory.as_fd())?;
        }
        Ok(directory)
    })
}

/// The resolved path of a program, if only root and the user of this process can write the file and every directory
/// on the path. So only these two users can replace the file later.
///
/// # Errors
/// A sentence: which file or directory other users can write.
pub fn trusted_program(path: &Path) -> io::Result<PathBuf> {
    let resolved = path.canonicalize()?;
    let (mut at, mut shown) = (openat(CWD, "/", PASS, Mode::empty())?, PathBuf::from("/"));
    let mut names = normal(&resolved).peekable();
    while let Some(name) = names.next() {
        check_written_by_us(&fstat(&at)?, &shown)?;
        shown.push(&name);
        let flags = if names.peek().is_some() { PASS } else { PASS.difference(OFlags::DIRECTORY) };
        at = openat(&at, &name, flags, Mode::empty())?;
    }
    let stat = fstat(&at)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Err(denied(format_args!("{} is not a regular file", shown.display())));
    }
    check_written_by_us(&stat, &shown)?;
    Ok(shown)
}

/// Walks to a directory. `missing` makes a missing one in the directory reached so far.
fn walk(
    path: &Path,
    mut missing: impl FnMut(BorrowedFd<'_>, &OsStr) -> io::Result<OwnedFd>,
) -> io::Result<OwnedFd> {
    let begin = |path: &Path| if path.is_absolute() { "/" } else { "." };
    let mut at = openat(CWD, begin(path), PASS, Mode::empty())?;
    let mut rest: Vec<OsString> = components(path).rev().collect();
    let mut links = 0;
    while let Some(name) = rest.pop() {
        match openat(&at, &name, PASS, Mode::empty()) {
            Ok(next) => at = next,
            Err(Errno::NOENT) => at = missing(at.as_fd(), &name)?,
            // A link, or a file that is not a directory.
            Err(Errno::NOTDIR | Errno::LOOP) => {
                let target = match readlinkat(&at, &name, Vec::new()) {
                    Ok(target) => PathBuf::from(OsString::from_vec(target.into_bytes())),
                    Err(_) => return Err(Errno::NOTDIR.into()),
                };
                if !is_written_by_us(&fstat(&at)?) {
                    let name = name.display();
                    return Err(denied(format_args!(
                        "`{name}` in {} is a link, and others can write the directory that it is in",
                        path.display()
                    )));
                }
                links += 1;
                if links > LINKS {
                    return Err(Errno::LOOP.into());
                }
                if target.is_absolute() {
                    at = openat(CWD, "/", PASS, Mode::empty())?;
                }
                rest.extend(components(&target).rev());
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(at)
}

/// Whether only root and the user of this process can write a file.
fn is_written_by_us(stat: &Stat) -> bool {
    let is_ours = stat.st_uid == 0 || stat.st_uid == rustix::process::geteuid().as_raw();
    is_ours && stat.st_mode & WRITE_OF_OTHERS == 0
}

fn check_written_by_us(stat: &Stat, path: &Path) -> io::Result<()> {
    if is_written_by_us(stat) {
        return Ok(());
    }
    Err(denied(format_args!("{} can be written by other users than root", path.display())))
}

/// Checks that a directory opened by its name is the one made just before: the owner of its parent could have
/// replaced it.
fn check_new(directory: &OwnedFd) -> io::Result<()> {
    let stat = fstat(directory)?;
    let is_like_new = stat.st_uid == rustix::process::geteuid().as_raw() && stat.st_mode & 0o077 == 0;
    if is_like_new && is_empty(directory)? {
        return Ok(());
    }
    Err(denied("another directory was put in the place of the one that was made"))
}

fn is_empty(directory: &OwnedFd) -> io::Result<bool> {
    for entry in Dir::read_from(directory)? {
        if !matches!(entry?.file_name().to_bytes(), b"." | b"..") {
            return Ok(false);
        }
    }
    Ok(true)
}

fn components(path: &Path) -> impl DoubleEndedIterator<Item = OsString> {
    path.components().filter_map(|part| match part {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        Component::CurDir | Component::RootDir | Component::Prefix(_) => None,
    })
}

/// The components of a path as plain names.
fn normal(path: &Path) -> impl Iterator<Item = OsString> {
    path.components().filter_map(|part| match part {
        Component::Normal(name) => Some(name.to_owned()),
        _ => None,
    })
}

fn denied(text: impl Display) -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, text.to_string())
}

#[cfg(test)]
mod tests;
