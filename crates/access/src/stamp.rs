//! Whether a file is another one than before.

use std::fs;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// What tells versions of a file apart without reading it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Stamp {
    device: u64,
    inode: u64,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Stamp {
    /// The file as it is now.
    ///
    /// # Errors
    /// It cannot be looked at, or is not a regular file.
    pub(crate) fn of(path: &Path) -> io::Result<Self> {
        let found = fs::metadata(path)?;
        if !found.is_file() {
            return Err(io::Error::other("it is not a regular file"));
        }
        Ok(Self {
            device: found.dev(),
            inode: found.ino(),
            size: found.size(),
            modified: (found.mtime(), found.mtime_nsec()),
            changed: (found.ctime(), found.ctime_nsec()),
        })
    }
}

/// Why a file cannot be read, in words.
pub(crate) fn unreadable(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => "there is no such file".to_owned(),
        io::ErrorKind::PermissionDenied => "the proxy's user may not read it".to_owned(),
        _ => error.to_string(),
    }
}

/// Reads a file of at most `limit` bytes. It is an error when it changes meanwhile.
///
/// # Errors
/// A sentence.
pub(crate) fn read(path: &Path, limit: u64) -> Result<(Vec<u8>, Stamp), String> {
    let failed = |error: io::Error| unreadable(&error);
    let before = Stamp::of(path).map_err(failed)?;
    if before.size > limit {
        return Err(format!("it is larger than {} MiB", limit >> 20));
    }
    let mut bytes = Vec::with_capacity(before.size as usize);
    let file = fs::File::open(path).map_err(failed)?;
    file.take(limit + 1).read_to_end(&mut bytes).map_err(failed)?;
    if Stamp::of(path).map_err(failed)? != before || bytes.len() as u64 != before.size {
        return Err("it changed while it was read".into());
    }
    Ok((bytes, before))
}

/// When a file that is looked at now and then is to be read again.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    /// What was read last, also where it was wrong.
    read: Option<Stamp>,
    /// What was there at the last look.
    seen: Option<Stamp>,
}

impl Watch {
    /// What has been read.
    pub(crate) fn has_read(&mut self, stamp: Stamp) {
        (self.read, self.seen) = (Some(stamp), Some(stamp));
    }

    /// Whether this was read already.
    pub(crate) fn knows(&self, stamp: Stamp) -> bool {
        self.read == Some(stamp)
    }

    /// Whether the file is another one, and has been for two looks: it is not being written.
    pub(crate) fn is_due(&mut self, now: Option<Stamp>) -> bool {
        let stays = self.seen == now;
        self.seen = now;
        stays && now.is_some() && now != self.read
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_again_when_it_has_stopped_changing() {
        let stamp = |size| Some(Stamp { device: 1, inode: 1, size, modified: (0, 0), changed: (0, 0) });
        let mut watch = Watch::default();
        watch.has_read(stamp(1).unwrap());
        assert!(!watch.is_due(stamp(1)), "nothing has changed");
        assert!(!watch.is_due(stamp(2)), "it may be in the middle of a change");
        assert!(!watch.is_due(stamp(3)), "it is");
        assert!(watch.is_due(stamp(3)));
        assert!(!watch.is_due(None) && !watch.is_due(None), "it is gone");
        watch.has_read(stamp(3).unwrap());
        assert!(!watch.is_due(stamp(3)));
    }
}
