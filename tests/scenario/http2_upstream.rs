//! Endpoints that speak HTTP/2.

mod attacks;
mod frames;
mod malformed;
mod pairings;
mod secure;
mod stalls;

use super::http2::h2c;
use super::{config, watchdog};

/// A configuration whose service is spoken with in HTTP/2 alone.
fn http2(text: &str) -> String {
    text.replace("services: { s: {", "services: { s: { protocol: http2,")
}
