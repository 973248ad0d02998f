//! A body that was received before it goes on and is too long for memory: it is read from a file without a name.

use super::splice::TransferMode;
use super::{Flow, Pacer, RelayError};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::rc::Rc;
use std::time::Instant;
use thalweg_core::{Fault, FaultKind};

/// Where a flow stands in such a file.
#[derive(Debug)]
pub(super) struct Spool {
    file: Rc<File>,
    at: u64,
}

impl Flow {
    /// The body of the message that was started is read from the beginning of this file, and nothing from the sender.
    pub(crate) fn set_spool(&mut self, file: Rc<File>, now: Instant) {
        self.way = TransferMode::OnlyCopies;
        if self.pacer.is_none() {
            self.pacer = Pacer::unbounded(now);
        }
        if let Some(pacer) = &mut self.pacer {
            pacer.spool = Some(Spool { file, at: 0 });
        }
    }

    /// Whether the body comes from a file.
    #[inline]
    pub(super) fn is_spooled(&self) -> bool {
        self.pacer.as_ref().is_some_and(|pacer| pacer.spool.is_some())
    }

    /// The next bytes of the file, where there is one.
    #[inline]
    pub(super) fn take_spooled(&mut self, buffer: &mut [u8]) -> Result<Option<usize>, RelayError> {
        let Some(spool) = self.pacer.as_mut().and_then(|pacer| pacer.spool.as_mut()) else { return Ok(None) };
        match spool.file.read_at(buffer, spool.at) {
            Ok(n) if n > 0 => {
                spool.at += n as u64;
                Ok(Some(n))
            }
            // It has no name: nobody else can have made it shorter.
            _ => Err(RelayError::Sender(Fault::new(
                FaultKind::ProxyInternalError,
                "a request body that was buffered cannot be read again",
            ))),
        }
    }
}
