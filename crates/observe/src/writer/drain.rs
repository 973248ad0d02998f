//! The end of the log: an open file and what is done when it does not take the bytes.
//!
//! Used by the writer's thread only, so it may wait; everybody else only drops lines meanwhile.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use super::rotation::Rotator;
use super::{Destination, Rotation};
use crate::meters::LogMeters;

/// How long one batch waits for a destination that is in non-blocking mode and full.
const PATIENCE: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };

/// An open destination.
#[derive(Debug)]
pub(super) struct Drain {
    destination: Destination,
    file: File,
    meters: Arc<LogMeters>,
    /// What there is ends in the middle of a line.
    torn: bool,
    rotator: Option<Rotator>,
}

impl Drain {
    pub(super) fn new(
        destination: Destination,
        file: File,
        rotation: Option<Rotation>,
        meters: Arc<LogMeters>,
    ) -> Self {
        let torn = destination.ends_torn();
        let rotator = match &destination {
            Destination::File(path) => rotation.map(|rotation| Rotator::new(rotation, path.clone())),
            _ => None,
        };
        Self { destination, file, meters, torn, rotator }
    }

    /// How long nothing has to be done by itself; `None`: for ever.
    pub(super) fn rests(&self) -> Option<Duration> {
        self.rotator.as_ref()?.rests()
    }

    /// Has the file move on where it is too old, or would be too large with so many more bytes.
    pub(super) fn rotate_if_due(&mut self, bytes: usize) {
        let Some(rotator) = &mut self.rotator else { return };
        if !rotator.is_due(bytes, (SystemTime::now(), Instant::now())) {
            return;
        }
        match rotator.rotate() {
            Ok(()) => self.reopen(),
            Err(error) => {
                let text = format!("the access log {} cannot be rotated: {error}", self.destination);
                self.meters.reopen_failed(text);
            }
        }
    }

    /// Opens the file anew. The old one is kept if that fails.
    pub(super) fn reopen(&mut self) {
        match self.destination.open() {
            Ok(file) => {
                self.file = file;
                // It may be the same one.
                self.torn = self.destination.ends_torn();
                if let Some(rotator) = &mut self.rotator {
                    rotator.look();
                }
            }
            Err(error) => {
                let text = format!("the access log {} cannot be opened again: {error}", self.destination);
                self.meters.reopen_failed(text);
            }
        }
    }

    /// Writes a batch of whole lines. On an error the rest of it is lost and counted, and a line that is there in part
    /// is cut off, or else ended before the next one.
    pub(super) fn write(&mut self, batch: &[u8], lines: u64) {
        self.rotate_if_due(batch.len());
        let mut rest = batch;
        let result = self.write_rest(&mut rest);
        if let Some(rotator) = &mut self.rotator {
            rotator.grew(batch.len() - rest.len());
        }
        let Err(error) = result else { return self.meters.written() };
        let lost = rest.iter().filter(|byte| **byte == b'\n').count() as u64;
        debug_assert!(lost <= lines);
        self.meters.lost.add(lost);
        self.meters.write_failed(format!("the access log {} cannot be written: {error}", self.destination));
        // A batch of which nothing was written leaves the end of the file as it was.
        let written = batch.get(..batch.len() - rest.len()).unwrap_or_default();
        let torn = written.iter().rev().take_while(|byte| **byte != b'\n').count();
        if !written.is_empty() {
            self.torn = torn > 0 && !self.cut_off(torn as u64).unwrap_or(false);
        }
    }

    /// Cuts the last bytes off, where they are the end of a regular file. Says whether they were.
    fn cut_off(&mut self, bytes: u64) -> io::Result<bool> {
        let metadata = self.file.metadata()?;
        // Standard output may be shared with others, and its next line need not come at the end of the file.
        if !matches!(self.destination, Destination::File(_)) || !metadata.is_file() {
            return Ok(false);
        }
        // Whoever else appends to it has not done so since, and nobody has made it shorter.
        let is_ours = self.file.stream_position()? == metadata.len();
        match metadata.len().checked_sub(bytes).filter(|_| is_ours) {
            Some(length) => self.file.set_len(length).map(|()| true),
            None => Ok(false),
        }
    }

    fn write_rest(&mut self, rest: &mut &[u8]) -> io::Result<()> {
        if self.torn {
            // End the broken line, so that the next one begins at the start of a line.
            self.write_some(b"\n")?;
            self.torn = false;
        }
        while !rest.is_empty() {
            let written = self.write_some(rest)?;
            *rest = rest.get(written..).unwrap_or_default();
        }
        Ok(())
    }

    /// One write that takes at least a byte.
    fn write_some(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut waited = false;
        loop {
            match self.file.write(bytes) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => return Ok(written),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock && !waited => {
                    match poll(&mut [PollFd::new(&self.file, PollFlags::OUT)], Some(&PATIENCE)) {
                        Ok(_) => waited = true,
                        // A signal is no reason to give the batch up.
                        Err(Errno::INTR) => {}
                        Err(error) => return Err(error.into()),
                    }
                }
                Err(error) => return Err(error),
            }
        }
    }
}

impl Destination {
    /// Whether it is a file whose last line has no end: its writer was killed, or the disk was full. Unknown where it
    /// cannot be read.
    fn ends_torn(&self) -> bool {
        let Self::File(path) = self else { return false };
        let last = || -> io::Result<[u8; 1]> {
            // Opening a FIFO would wait for its writer.
            if !std::fs::metadata(path)?.is_file() {
                return Ok(*b"\n");
            }
            let (mut file, mut last) = (File::open(path)?, [0]);
            file.seek(SeekFrom::End(-1))?;
            file.read_exact(&mut last)?;
            Ok(last)
        };
        last().is_ok_and(|last| last != *b"\n")
    }
}
