//! The files of the audit log.
//!
//! Used by the log's own thread alone. The file is opened for each entry: changes are rare, and what
//! an operator moves away or removes comes back with the next one.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use serde_json::Value;

/// Name of the file in the state directory.
const NAME: &str = "audit.log";
/// Size at which a file is moved on, in bytes.
const SIZE: u64 = 10 * 1024 * 1024;
/// Files kept beside the present one.
const KEPT: usize = 5;
/// Most bytes of a file that are read for the newest entries.
const READ: u64 = SIZE + 1024 * 1024;

/// The present file and those before it.
#[derive(Debug)]
pub(super) struct AuditFile {
    folder: PathBuf,
    path: PathBuf,
    size: u64,
}

impl AuditFile {
    pub(super) fn new(folder: PathBuf) -> Self {
        Self { path: folder.join(NAME), folder, size: SIZE }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Appends a line with one write, so that a crash never leaves two halves of lines in one.
    pub(super) fn append(&self, mut line: Vec<u8>) -> io::Result<()> {
        line.push(b'\n');
        DirBuilder::new().recursive(true).mode(0o700).create(&self.folder)?;
        let mut file = self.open()?;
        let size = file.metadata()?.len();
        if size > 0 && size.saturating_add(line.len() as u64) > self.size {
            self.rotate()?;
            file = self.open()?;
        }
        file.write_all(&line)
    }

    fn open(&self) -> io::Result<File> {
        // A pipe in place of the file must not block the log's thread.
        OpenOptions::new().append(true).create(true).mode(0o600).custom_flags(at_once()).open(&self.path)
    }

    fn numbered(&self, number: usize) -> PathBuf {
        self.folder.join(format!("{NAME}.{number}"))
    }

    /// Moves each file on by one; the last one is replaced.
    fn rotate(&self) -> io::Result<()> {
        for number in (1..KEPT).rev() {
            match fs::rename(self.numbered(number), self.numbered(number + 1)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        fs::rename(&self.path, self.numbered(1))
    }

    /// The newest entries, oldest first, from the present file and the one before it. Lines that are
    /// no JSON (a disk that was full) are passed over.
    pub(super) fn last(&self, count: usize) -> io::Result<Vec<Value>> {
        let mut newest = Vec::new();
        for path in [self.path.clone(), self.numbered(1)] {
            let text = match tail(&path) {
                Ok(text) => text,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(error),
            };
            let lines = text.split(|byte| *byte == b'\n').rev().filter(|line| !line.is_empty());
            let entries = lines.filter_map(|line| serde_json::from_slice(line).ok());
            newest.extend(entries.take(count - newest.len()));
            if newest.len() == count {
                break;
            }
        }
        newest.reverse();
        Ok(newest)
    }
}

/// The flag that opens a pipe without waiting for its other end.
fn at_once() -> i32 {
    OFlags::NONBLOCK.bits().cast_signed()
}

fn tail(path: &Path) -> io::Result<Vec<u8>> {
    let mut file = OpenOptions::new().read(true).custom_flags(at_once()).open(path)?;
    let found = file.metadata()?;
    if !found.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    let size = found.len();
    file.seek(SeekFrom::Start(size.saturating_sub(READ)))?;
    let mut text = Vec::new();
    file.take(READ).read_to_end(&mut text)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;
    use crate::socket::tests::Folder;

    fn numbers(file: &AuditFile, count: usize) -> Vec<u64> {
        file.last(count).unwrap().iter().map(|entry| entry["n"].as_u64().unwrap()).collect()
    }

    #[test]
    fn appends_with_mode_0600_and_reads_the_newest() {
        let folder = Folder::new();
        let file = AuditFile::new(folder.0.join("a/b"));
        assert!(numbers(&file, 3).is_empty());
        for n in 0..5 {
            file.append(format!("{{\"n\":{n}}}").into_bytes()).unwrap();
        }
        assert_eq!(numbers(&file, 3), [2, 3, 4]);
        assert_eq!(numbers(&file, 9), [0, 1, 2, 3, 4]);
        assert_eq!(fs::metadata(file.path()).unwrap().permissions().mode() & 0o777, 0o600);
        // Half a line, as after a crash, costs itself and the line that follows on it, no more.
        fs::write(file.path(), "{\"n\":7}\n{\"n\":").unwrap();
        file.append(b"{\"n\":8}".to_vec()).unwrap();
        file.append(b"{\"n\":9}".to_vec()).unwrap();
        assert_eq!(numbers(&file, 9), [7, 9]);
    }

    #[test]
    fn moves_on_by_size_and_keeps_five() {
        let folder = Folder::new();
        // Two lines of 8 bytes fit.
        let file = AuditFile { size: 20, ..AuditFile::new(folder.0.clone()) };
        for n in 0..20 {
            file.append(format!("{{\"n\":{:1}}}", n % 10).into_bytes()).unwrap();
        }
        let mut names: Vec<_> = fs::read_dir(&folder.0)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        assert_eq!(
            names,
            ["audit.log", "audit.log.1", "audit.log.2", "audit.log.3", "audit.log.4", "audit.log.5"]
        );
        for name in names {
            assert_eq!(fs::metadata(folder.0.join(name)).unwrap().len(), 16);
        }
        assert_eq!(numbers(&file, 3), [7, 8, 9]);
        assert_eq!(numbers(&file, 100), [6, 7, 8, 9]);
    }

    #[test]
    fn a_line_over_the_size_has_a_file_of_its_own() {
        let folder = Folder::new();
        let file = AuditFile { size: 4, ..AuditFile::new(folder.0.clone()) };
        file.append(b"{\"n\":1}".to_vec()).unwrap();
        file.append(b"{\"n\":2}".to_vec()).unwrap();
        assert_eq!(numbers(&file, 5), [1, 2]);
    }
}
