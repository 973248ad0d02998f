//! Who may order: one process at a time for each name, of all that share a state directory.
//!
//! A lock of the kernel on a file (`flock`), which ends with the process whatever happens to it. Today's way; an engine
//! that several machines share can take its place.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Held until it is dropped.
#[derive(Debug)]
pub(crate) struct Lease {
    _file: File,
}

impl Lease {
    /// Takes the lease; `None`: somebody else has it.
    pub(crate) fn take(path: &Path) -> io::Result<Option<Self>> {
        if let Some(directory) = path.parent() {
            crate::storage::make_directory(directory)?;
        }
        let file =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path)?;
        match file.try_lock() {
            Ok(()) => Ok(Some(Self { _file: file })),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_has_it_at_a_time() {
        let directory = std::env::temp_dir().join(format!("thalweg-lease-{}", std::process::id()));
        let path = directory.join("a").join("lock");
        let first = Lease::take(&path).unwrap();
        assert!(first.is_some() && Lease::take(&path).unwrap().is_none());
        drop(first);
        assert!(Lease::take(&path).unwrap().is_some());
        std::fs::remove_dir_all(directory).unwrap();
    }
}
