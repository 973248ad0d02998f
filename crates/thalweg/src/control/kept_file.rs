//! A file of JSON in the state directory: read at the start, replaced whole.
//!
//! Invariant: only regular files are read, never through a link, and only up to a bound. A pipe in place of a file
//! would block the start.

use rustix::fs::OFlags;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fs;
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

/// The largest file that is read, in bytes.
const LARGEST: u64 = 256 << 20;

/// Reads what was kept; nothing when there is none.
///
/// # Errors
/// Of the file system, and what is no object of this kind.
pub(crate) fn load<T: DeserializeOwned + Default>(path: &Path) -> io::Result<T> {
    match read(path, LARGEST) {
        Ok(bytes) => {
            // A list would be read as a struct without members.
            let value: serde_json::Map<String, serde_json::Value> = serde_json::from_slice(&bytes)?;
            Ok(serde_json::from_value(value.into())?)
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(T::default()),
        Err(error) => Err(error),
    }
}

/// Reads a regular file of at most this many bytes.
///
/// # Errors
/// The file system fails, or the file is a link, not a regular file, or too large.
pub(crate) fn read(path: &Path, largest: u64) -> io::Result<Vec<u8>> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    let file = match fs::OpenOptions::new().read(true).custom_flags(flags).open(path) {
        Err(error) if error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error()) => {
            return Err(io::Error::other("it is a link"));
        }
        opened => opened?,
    };
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    let mut bytes = Vec::new();
    file.take(largest.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > largest {
        return Err(io::Error::other(format!("it is larger than {} MiB", largest >> 20)));
    }
    Ok(bytes)
}

/// Makes a new file that only this user can read, replacing a leftover one.
///
/// # Errors
/// The file system fails.
pub(crate) fn create(path: &Path) -> io::Result<fs::File> {
    // A leftover may be a link, or have other permissions.
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
}

/// Keeps this: whole or not at all (a new file, synced, renamed), readable for this user alone.
///
/// # Errors
/// The file system fails.
pub(crate) fn store(path: &Path, kept: &impl Serialize) -> io::Result<()> {
    store_bytes(path, &serde_json::to_vec_pretty(kept)?)
}

/// The same of what is JSON already.
///
/// # Errors
/// The file system fails.
pub(crate) fn store_bytes(path: &Path, kept: &[u8]) -> io::Result<()> {
    if let Some(directory) = path.parent() {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    }
    let new = path.with_extension("json.new");
    let mut file = create(&new)?;
    file.write_all(kept)?;
    file.sync_all()?;
    fs::rename(&new, path)?;
    // The name is durable when the directory is.
    path.parent().map_or(Ok(()), |directory| fs::File::open(directory)?.sync_all())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{CWD, FileType, Mode, mknodat};
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::path::PathBuf;

    /// A directory of its own, removed in the end.
    struct Place(PathBuf);

    impl Place {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("thalweg-kept-{name}-{}", std::process::id()));
            fs::create_dir(&path).unwrap();
            Self(path)
        }
    }

    impl Drop for Place {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn only_a_regular_file_is_read_and_a_pipe_does_not_block() {
        let place = Place::new("read");
        let at = |name: &str| place.0.join(name);
        fs::write(at("file"), "12345").unwrap();
        symlink(at("file"), at("link")).unwrap();
        mknodat(CWD, at("pipe"), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        assert_eq!(read(&at("file"), 5).unwrap(), b"12345");
        let told = |name: &str, largest| read(&at(name), largest).unwrap_err().to_string();
        assert!(told("file", 4).contains("larger"));
        assert_eq!(told("link", 5), "it is a link");
        assert_eq!(told("pipe", 5), "it is not a regular file");
        assert!(read(&place.0, 5).is_err());
        assert!(load::<serde_json::Value>(&at("pipe")).is_err());
        assert_eq!(load::<serde_json::Value>(&at("missing")).unwrap(), serde_json::Value::Null);
    }

    #[test]
    fn nothing_is_written_through_a_link_that_was_left_for_it() {
        let place = Place::new("write");
        let (path, target) = (place.0.join("state/runtime.json"), place.0.join("target"));
        store(&path, &1).unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o600, 0o700));
        fs::write(&target, "precious").unwrap();
        symlink(&target, path.with_extension("json.new")).unwrap();
        store(&path, &2).unwrap();
        assert_eq!(
            (fs::read_to_string(&target).unwrap(), read(&path, 9).unwrap()),
            ("precious".into(), b"2".to_vec())
        );
    }
}
