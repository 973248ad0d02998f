//! One client connection: its exchanges one after the other, or the one of a stream of HTTP/2.

pub(crate) mod serve;
pub(crate) mod stream;
