//! Bodies between gRPC-Web towards browsers and gRPC towards endpoints (PROTOCOL-WEB of gRPC).
//!
//! Messages go by as they are. From a browser base64 is read, where it sends that; to a browser trailers become the
//! last frame of the body, and all of it base64 where it asked so.

use thalweg_core::Fault;
use thalweg_filter::BodyTransform;
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

impl BodyTransform for Bridge {
    fn push(&mut self, data: &mut &[u8], out: &mut Vec<u8>) -> Result<(), Fault> {
        let payload = std::mem::take(data);
        match self {
            Self::FromText(reader) => reader.read(payload, out).map_err(fault_of)?,
            Self::ToWeb => out.extend_from_slice(payload),
            Self::ToText => write_text(out, payload),
        }
        Ok(())
    }

    fn finish(&mut self, trailers: &mut Vec<u8>, out: &mut Vec<u8>) -> Result<bool, Fault> {
        let mut frame = Vec::new();
        match self {
            Self::FromText(reader) => return reader.end().map_err(fault_of).map(|()| true),
            Self::ToWeb | Self::ToText if trailers.is_empty() => return Ok(true),
            Self::ToWeb | Self::ToText => write_trailers(&mut frame, &mut std::mem::take(trailers)),
        }
        match self {
            Self::ToText => write_text(out, &frame),
            Self::ToWeb | Self::FromText(_) => out.extend_from_slice(&frame),
        }
        Ok(true)
    }
}

fn fault_of(broken: BrokenText) -> Fault {
    Fault::request(400, broken.0)
}
