//! Request bodies in files without a name (`buffer`): how many a worker has, and how long they are together.

use rustix::fs::{Mode, OFlags, open};
use std::cell::Cell;
use std::env::temp_dir;
use std::fs::File;
use std::io;
use std::rc::Rc;

/// Files of a worker at once.
const FILES: usize = 256;
/// Bytes in them together.
const BYTES: u64 = 1024 * 1024 * 1024;

/// The files of a worker.
#[derive(Debug, Default)]
pub(crate) struct Spools {
    files: Cell<usize>,
    bytes: Cell<u64>,
}

/// One of them, until it is dropped.
#[derive(Debug)]
pub(crate) struct SpoolPlace {
    spools: Rc<Spools>,
    bytes: u64,
}

/// A whole body in its file.
#[derive(Debug)]
pub(crate) struct Spooled {
    pub(crate) file: Rc<File>,
    pub(crate) _place: SpoolPlace,
}

impl Spools {
    /// A place for one more file.
    pub(crate) fn place(self: &Rc<Self>) -> Option<SpoolPlace> {
        if self.files.get() >= FILES {
            return None;
        }
        self.files.set(self.files.get() + 1);
        Some(SpoolPlace { spools: self.clone(), bytes: 0 })
    }
}

impl SpoolPlace {
    /// A file for it, which is gone when it is closed.
    pub(crate) fn open(&self) -> io::Result<File> {
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::EXCL | OFlags::CLOEXEC;
        Ok(open(temp_dir(), flags, Mode::RUSR | Mode::WUSR)?.into())
    }

    /// Takes room for this many bytes more; `false`: there is not so much.
    pub(crate) fn take(&mut self, bytes: u64) -> bool {
        let all = self.spools.bytes.get() + bytes;
        if all > BYTES {
            return false;
        }
        self.spools.bytes.set(all);
        self.bytes += bytes;
        true
    }
}

impl Drop for SpoolPlace {
    fn drop(&mut self) {
        self.spools.files.set(self.spools.files.get() - 1);
        self.spools.bytes.set(self.spools.bytes.get() - self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::FileExt;

    #[test]
    fn files_and_bytes_are_bounded_and_come_back() {
        let spools = Rc::new(Spools::default());
        let mut places: Vec<_> = (0..FILES).map(|_| spools.place().unwrap()).collect();
        assert!(spools.place().is_none());
        assert!(places[0].take(BYTES) && !places[1].take(1));
        places.clear();
        assert_eq!((spools.files.get(), spools.bytes.get()), (0, 0));
    }

    #[test]
    fn a_file_has_no_name_and_holds_what_is_written() {
        let place = Rc::new(Spools::default()).place().unwrap();
        let file = place.open().unwrap();
        file.write_all_at(b"hello", 0).unwrap();
        let mut read = [0; 5];
        file.read_exact_at(&mut read, 0).unwrap();
        assert_eq!(&read, b"hello");
        assert_eq!(std::os::unix::fs::MetadataExt::nlink(&file.metadata().unwrap()), 0);
    }
}
