//! Clients through TLS: what they see, what they may not do, and what certificates become in a reload; and endpoints.

mod admin;
mod attacks;
mod certificates;
mod client_auth;
mod clients;
mod handshakes;
mod hsts;
mod local;
mod misdirected;
mod redirects;
mod renewal;
mod scanners;
mod upstream;

use std::sync::Arc;

use thalweg_tests::{Directory, Identity, Proxy};

/// A configuration with TLS on `web`; `tls` is what stands in `tls: { … }`, `more` further top-level keys.
fn config(endpoints: &[&str], tls: &str, more: &str) -> String {
    let plain = "web: { address: \"127.0.0.1:0\"";
    super::config(endpoints, more).replace(plain, &format!("{plain}, tls: {{ {tls} }}"))
}

/// A proxy with TLS before these endpoints, and the tests' own certificate.
pub(super) fn proxy(endpoints: &[&str]) -> Proxy {
    with(endpoints, "")
}

/// The same with further keys of `tls`.
fn with(endpoints: &[&str], tls: &str) -> Proxy {
    let directory = Directory::new();
    let certificate = Identity::shared().write(&directory, "web");
    Proxy::start_in(directory, &config(endpoints, &format!("certificates: [ {certificate} ]{tls}"), ""))
}

/// A client's configuration that offers nothing but this version of TLS.
fn only(version: &'static rustls::SupportedProtocolVersion) -> Arc<rustls::ClientConfig> {
    Arc::new(Identity::shared().client_of(&[version]))
}
