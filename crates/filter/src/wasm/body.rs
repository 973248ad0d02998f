//! Bodies that a module has changed, or changes on their way.

use crate::{BodyTransform, ENOUGH};
use std::rc::Rc;
use std::sync::Arc;
use thalweg_core::{Fault, FaultKind};
use thalweg_wasm::Context;

/// Another body in the place of the one that comes.
#[derive(Debug)]
pub(super) struct Replaced {
    body: Arc<[u8]>,
    sent: usize,
}

impl Replaced {
    pub(super) fn new(body: Arc<[u8]>) -> Self {
        Self { body, sent: 0 }
    }
}

impl BodyTransform for Replaced {
    fn push(&mut self, data: &mut &[u8], _out: &mut Vec<u8>) -> Result<(), Fault> {
        *data = &[];
        Ok(())
    }

    fn finish(&mut self, _trailers: &mut Vec<u8>, out: &mut Vec<u8>) -> Result<bool, Fault> {
        let rest = self.body.get(self.sent..).unwrap_or_default();
        let piece = rest.get(..ENOUGH).unwrap_or(rest);
        out.extend_from_slice(piece);
        self.sent += piece.len();
        Ok(self.sent == self.body.len())
    }
}

/// A body that a module is given piece by piece.
#[derive(Debug)]
pub(super) struct Pieces {
    context: Rc<Context>,
    is_over: bool,
}

/// What the module has kept back is gone with it: the rest alone would be another body.
const BROKEN: Fault = Fault::new(
    FaultKind::ProxyInternalError,
    "a module that the response goes through has failed in the middle of it",
);

impl Pieces {
    pub(super) fn new(context: Rc<Context>) -> Self {
        Self { context, is_over: false }
    }
}

impl BodyTransform for Pieces {
    fn push(&mut self, data: &mut &[u8], out: &mut Vec<u8>) -> Result<(), Fault> {
        let piece = std::mem::take(data);
        if !piece.is_empty() {
            out.extend(self.context.response_body(piece, false).map_err(|_| BROKEN)?);
        }
        Ok(())
    }

    fn finish(&mut self, _trailers: &mut Vec<u8>, out: &mut Vec<u8>) -> Result<bool, Fault> {
        if !std::mem::replace(&mut self.is_over, true) {
            out.extend(self.context.response_body(&[], true).map_err(|_| BROKEN)?);
        }
        Ok(true)
    }
}
