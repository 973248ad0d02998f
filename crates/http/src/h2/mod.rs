//! What is HTTP/2's and needs neither a socket nor a codec: the price of frames, and its heads as the
//! lines of HTTP/1 (RFC 9113).
//!
//! The codec and its streams stand in the proxy, beside the sockets; here is what must hold before a byte
//! reaches the codec, and before a head that left it reaches anything else.
//!
//! [`flood_guard`] on the way to the codec; [`lines`] behind it, on the way in; [`composed`] on the way out.

pub mod frame;

mod block;
pub mod bucket;
pub mod flood;
pub mod flood_guard;
mod held;
mod hpack;
mod streams;

pub mod composed;
pub mod lines;
pub mod pseudo;

pub use composed::{ComposedRequest, ComposedResponse, split_request, split_response, split_trailers};
pub use flood::Flood;
pub use flood_guard::{Allow, FloodGuard, FloodLimits, Note, Sent, Stop};
pub use frame::{FrameHead, FrameReader, Piece};
pub use lines::{read_request, read_response, read_trailers};
pub use pseudo::Pseudo;
