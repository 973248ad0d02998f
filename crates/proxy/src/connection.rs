//! One client connection: its exchanges one after the other, and what TLS says of its client.

pub(crate) mod client_cert_fields;
pub(crate) mod misdirected;
pub(crate) mod serve;
