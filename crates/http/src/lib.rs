//! The HTTP message model and the HTTP/1 engine, without I/O; what surrounds an engine of HTTP/2; gRPC's own.
//!
//! Bytes go in; spans, decisions, bytes and faults come out. Nothing here holds a socket, reads a
//! clock or repairs a message: what two parsers could read differently is refused. The modules
//! stand in the order in which a request meets them.
//!
//! Invariant of the whole crate: no input makes it panic, and no input makes it do more work than
//! a small constant per byte.
#![forbid(unsafe_code)]

pub mod octet;
pub mod span;

pub mod field;
pub mod method;

pub mod h1;

pub mod h2;

pub mod grpc;

pub mod authority;
pub mod http_url;
pub mod rules;
pub mod target;

pub mod path_readings;

pub use authority::{Authority, parse_authority, write_normal_host};
pub use field::{Field, FieldId, FieldSet, is_alias};
pub use h1::body::{BodyReader, BodyStep};
pub use h1::framing::Framing;
pub use h1::request::RequestHead;
pub use h1::response::ResponseHead;
pub use h1::{HeadLimits, Progress};
pub use http_url::HttpUrl;
pub use method::{Method, Version};
pub use path_readings::{Doubts, PathReadings, decode_path, matched_form, prefix_len, write_readings};
pub use rules::{RequestRules, Upgrade};
pub use span::Span;
pub use target::{Escapes, Target, TargetForm, normalize_path, parse_target, path_is_normal, write_query};
