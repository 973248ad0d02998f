//! Bodies that change their form on the way: gRPC-Web towards browsers, gRPC towards endpoints (PROTOCOL-WEB of gRPC).
//!
//! Messages go by as they are. From a browser base64 is read, where it sends that; to a browser trailers become the last frame
//! of the body, and all of it base64 where it asked so. What is carried goes on as any payload does.

use super::{Flow, Stream};
use crate::buffers::chunk_queue::ChunkPool;
use std::rc::Rc;
use thalweg_core::Fault;
use thalweg_http::grpc::web::{BrokenText, TextReader, write_text, write_trailers};

/// What becomes of a body.
#[derive(Debug)]
pub(crate) enum Bridge {
    /// It comes in base64.
    FromText(TextReader),
    /// Its trailers become a frame.
    ToWeb,
    /// The same, and all goes in base64.
    ToText,
}

impl Flow {
    /// The body of the message that was started changes its form, where there is a bridge.
    pub(crate) fn set_bridge(&mut self, bridge: Option<Bridge>) {
        self.bridge = bridge;
    }

    /// Sends payload, in its form, behind what waits.
    pub(super) fn carry<S: Stream>(
        &mut self,
        payload: &[u8],
        to: Option<&S>,
        chunks: &Rc<ChunkPool>,
    ) -> Result<(), Fault> {
        let mut carried = Vec::new();
        match &mut self.bridge {
            None | Some(Bridge::ToWeb) => {
                self.put(payload, to, chunks);
                return Ok(());
            }
            Some(Bridge::FromText(reader)) => reader.read(payload, &mut carried).map_err(fault_of)?,
            Some(Bridge::ToText) => write_text(&mut carried, payload),
        }
        if !carried.is_empty() {
            self.put(&carried, to, chunks);
        }
        Ok(())
    }

    /// Nothing more comes: what stands at the end of the form is sent.
    pub(super) fn end_bridge(&mut self, chunks: &Rc<ChunkPool>) -> Result<(), Fault> {
        let mut frame = Vec::new();
        match &self.bridge {
            None => return Ok(()),
            Some(Bridge::FromText(reader)) => return reader.end().map_err(fault_of),
            Some(Bridge::ToWeb | Bridge::ToText) if self.last_trailers().is_empty() => return Ok(()),
            Some(Bridge::ToWeb | Bridge::ToText) => {
                write_trailers(&mut frame, &mut self.last_trailers().to_vec());
            }
        }
        if matches!(self.bridge, Some(Bridge::ToText)) {
            let plain = std::mem::take(&mut frame);
            write_text(&mut frame, &plain);
        }
        self.put::<thalweg_net::Socket>(&frame, None, chunks);
        Ok(())
    }

    /// The trailers that are sent as such.
    pub(super) fn sent_trailers(&self) -> &[u8] {
        match self.bridge {
            Some(Bridge::ToWeb | Bridge::ToText) => &[],
            _ => self.last_trailers(),
        }
    }
}

fn fault_of(broken: BrokenText) -> Fault {
    Fault::request(400, broken.0)
}
