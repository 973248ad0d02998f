//! The end of the log: an open file and what is done when it does not take the bytes.
//!
//! Used by the writer's thread only, so it may wait; everybody else only drops lines meanwhile.

use std::fs::File;
use std::io::{self, Write as _};
use std::sync::Arc;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use super::Destination;
use crate::meters::LogMeters;

/// How long one batch waits for a destination that is in non-blocking mode and full.
const PATIENCE: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };

/// An open destination.
#[derive(Debug)]
pub(super) struct Drain {
    destination: Destination,
    file: File,
    meters: Arc<LogMeters>,
    /// The last write ended in the middle of a line.
    torn: bool,
}

impl Drain {
    pub(super) fn new(destination: Destination, file: File, meters: Arc<LogMeters>) -> Self {
        Self { destination, file, meters, torn: false }
    }

    /// Opens the file anew. The old one is kept if that fails.
    pub(super) fn reopen(&mut self) {
        match self.destination.open() {
            Ok(file) => {
                self.file = file;
                self.torn = false;
            }
            Err(error) => {
                let text = format!("the access log {} cannot be opened again: {error}", self.destination);
                self.meters.error(text);
            }
        }
    }

    /// Writes a batch of whole lines. On an error the rest of it is lost and counted.
    pub(super) fn write(&mut self, batch: &[u8], lines: u64) {
        let mut rest = batch;
        let result = self.write_rest(&mut rest);
        if let Err(error) = result {
            let lost = rest.iter().filter(|byte| **byte == b'\n').count() as u64;
            debug_assert!(lost <= lines);
            self.meters.lost.add(lost);
            self.meters.error(format!("the access log {} cannot be written: {error}", self.destination));
            // A batch of which nothing was written leaves the end of the file as it was.
            if rest.len() < batch.len() {
                self.torn = batch.get(batch.len() - rest.len() - 1) != Some(&b'\n');
            }
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
