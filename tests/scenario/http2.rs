//! Clients that speak HTTP/2, before endpoints of HTTP/1.1.

mod bodies;
mod clients;
mod conformance;
mod ends;
mod malformed;
mod runtimes;
pub(super) mod websocket;

use super::scripted::House;
use super::{config, watchdog};

/// A configuration whose listener takes HTTP/2 without TLS.
pub(super) fn h2c(text: &str) -> String {
    text.replace("web: { address: \"127.0.0.1:0\"", "web: { address: \"127.0.0.1:0\", h2c: true")
}

/// A proxy before one endpoint that the test has in hand; `service` and `more` as for [`House::start`].
fn house(service: &str, more: &str) -> House {
    House::start_changed(1, (service, more), h2c)
}
