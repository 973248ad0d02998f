//! gRPC over HTTP, as far as a proxy speaks it itself: deadlines, statuses and their messages, and
//! gRPC-Web's body.
//!
//! Messages are never looked at; they go by as any body does.

pub mod content_type;

pub mod timeout;

pub mod status;

pub mod web;

pub use content_type::Kind;
pub use status::Code;
