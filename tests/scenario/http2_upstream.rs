//! Endpoints that speak HTTP/2.

mod frames;
mod pairings;
mod secure;
mod stalls;

use super::{config, watchdog};

/// A configuration whose service is spoken with in HTTP/2 alone.
fn http2(text: &str) -> String {
    text.replace("services: { s: {", "services: { s: { protocol: http2,")
}

/// The same, whose listener takes HTTP/2 in the clear.
fn h2c(text: &str) -> String {
    text.replace("web: { address: \"127.0.0.1:0\"", "web: { address: \"127.0.0.1:0\", h2c: true")
}
