//! What is HTTP/2's and needs neither a socket nor a codec: the price of frames, and its heads as the
//! lines of HTTP/1 (RFC 9113).
//!
//! The codec and its streams stand in the proxy, beside the sockets; here is what must hold before a byte
//! reaches the codec, and before a head that left it reaches anything else.

pub mod frame;

pub mod bucket;
pub mod flood;
pub mod meter;
mod streams;

pub use flood::Flood;
pub use frame::{FrameHead, FrameReader, Piece};
pub use meter::{Allow, Meter, MeterLimits, Sent, Stop};
