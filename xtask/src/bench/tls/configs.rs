//! The configurations of those that take part: equal work for all.
//!
//! Each has two listeners: one with TLS, for HTTP/1.1 and HTTP/2, and one in the clear for HTTP/2. TLS is 1.3 with one
//! suite and one group; the fields added to the upstream request are those of [`crate::bench::configs`].

use std::net::SocketAddr;
use std::path::Path;

use super::certificate::Certificate;
use crate::bench::configs;

/// The version, suite and group of all handshakes, as [`SETTINGS`] has them too.
pub(super) const SUITE: &str = "TLS_AES_128_GCM_SHA256";
pub(super) const GROUP: &str = "X25519";
/// What OpenSSL reads for clients that cannot be told themselves.
pub(super) const SETTINGS: &str = "openssl_conf = all\n[all]\nssl_conf = ssl\n[ssl]\nsystem_default = tls\n\
    [tls]\nMinProtocol = TLSv1.3\nCiphersuites = TLS_AES_128_GCM_SHA256\nGroups = X25519\n";

/// Where somebody listens and forwards to.
pub(super) struct Addresses {
    /// With TLS.
    pub(super) secure: SocketAddr,
    /// In the clear, for HTTP/2.
    pub(super) clear: SocketAddr,
    pub(super) backend: SocketAddr,
    /// The one of HTTP/2, for what is asked below [`H2_PATH`].
    pub(super) h2_backend: SocketAddr,
}

/// What is forwarded in HTTP/2 by those that can.
pub(super) const H2_PATH: &str = "/h2/";

/// The backend of HTTP/2: nginx again, the same answer from memory.
pub(super) fn h2_backend(folder: &Path, address: SocketAddr) -> String {
    configs::nginx_backend_on(folder, &format!("{address} http2"))
}

/// The product.
pub(super) fn thalweg(addresses: &Addresses, certificate: &Certificate) -> String {
    let Addresses { secure, clear, backend, h2_backend } = addresses;
    let (chain, key) = (certificate.chain.display(), certificate.key.display());
    format!(
        "listeners:\n  secure:\n    address: \"{secure}\"\n    tls:\n      \
         certificates: [ {{ cert: \"{chain}\", key: \"{key}\" }} ]\n      \
         min_version: \"1.3\"\n      suites: [ {SUITE} ]\n      groups: [ {GROUP} ]\n  \
         clear: {{ address: \"{clear}\", h2c: true }}\n\
         services:\n  one: {{ endpoints: [ \"http://{backend}\" ] }}\n  \
         two: {{ endpoints: [ \"http://{h2_backend}\" ], protocol: http2 }}\n\
         routes:\n  - {{ match: {{ path: \"{H2_PATH}*\" }}, to: two }}\n  - to: one\n"
    )
}

/// nginx, which forwards everything in HTTP/1.1. `listen … http2` is deprecated since 1.25.1, but the one form that all
/// versions know.
pub(super) fn nginx(folder: &Path, addresses: &Addresses, certificate: &Certificate) -> String {
    let Addresses { secure, clear, backend, .. } = addresses;
    let (chain, key) = (certificate.chain.display(), certificate.key.display());
    let listen = format!(
        "    listen {secure} ssl http2 backlog=4096;\n    listen {clear} http2 backlog=4096;\n    \
         ssl_certificate {chain};\n    ssl_certificate_key {key};\n    ssl_protocols TLSv1.3;\n    \
         ssl_conf_command Ciphersuites {SUITE};\n    ssl_ecdh_curve {GROUP};\n"
    );
    configs::nginx_proxy_that(folder, &listen, &[*backend], configs::USUAL, "")
}

/// Envoy.
pub(super) fn envoy(addresses: &Addresses, certificate: &Certificate) -> String {
    let Addresses { secure, clear, backend, h2_backend } = addresses;
    let (chain, key) = (certificate.chain.display(), certificate.key.display());
    let tls = format!(
        "\n      transport_socket:\n        name: tls\n        typed_config:\n          \
         \"@type\": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext\n          \
         common_tls_context:\n            alpn_protocols: [ h2, http/1.1 ]\n            \
         tls_params: {{ tls_minimum_protocol_version: TLSv1_3, tls_maximum_protocol_version: TLSv1_3, \
         ecdh_curves: [ {GROUP} ] }}\n            tls_certificates:\n            \
         - certificate_chain: {{ filename: \"{chain}\" }}\n              \
         private_key: {{ filename: \"{key}\" }}"
    );
    let speaks_h2 = "    typed_extension_protocol_options:\n      \
        envoy.extensions.upstreams.http.v3.HttpProtocolOptions:\n        \
        \"@type\": type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions\n        \
        explicit_http_config: { http2_protocol_options: {} }\n";
    format!(
        "static_resources:\n  listeners:\n{}{}  clusters:\n{}{}",
        envoy_listener("secure", *secure, &tls),
        envoy_listener("clear", *clear, ""),
        envoy_cluster("one", *backend, ""),
        envoy_cluster("two", *h2_backend, speaks_h2),
    )
}

fn envoy_cluster(name: &str, backend: SocketAddr, more: &str) -> String {
    let bounds = "max_connections: 100000, max_pending_requests: 100000, max_requests: 100000";
    format!(
        "  - name: {name}\n    type: STATIC\n    connect_timeout: 5s\n    \
         circuit_breakers: {{ thresholds: [ {{ {bounds} }} ] }}\n{more}    \
         load_assignment:\n      cluster_name: {name}\n      endpoints:\n      - lb_endpoints:\n        \
         - endpoint: {{ address: {} }}\n",
        envoy_address(backend)
    )
}

fn envoy_listener(name: &str, listen: SocketAddr, tls: &str) -> String {
    format!(
        "  - name: {name}\n    address: {}\n    tcp_backlog_size: 4096\n    filter_chains:\n    \
         - filters:\n      - name: http\n        typed_config:\n          \
         \"@type\": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.\
         HttpConnectionManager\n          \
         stat_prefix: {name}\n          codec_type: AUTO\n          use_remote_address: true\n          \
         server_header_transformation: PASS_THROUGH\n          \
         route_config:\n            virtual_hosts:\n            - name: all\n              domains: [ \"*\" ]\n              \
         routes:\n              - {{ match: {{ prefix: \"{H2_PATH}\" }}, route: {{ cluster: two }} }}\n              \
         - {{ match: {{ prefix: \"/\" }}, route: {{ cluster: one }} }}\n              \
         request_headers_to_add:\n              \
         - header: {{ key: X-Forwarded-Host, value: \"%REQ(:AUTHORITY)%\" }}\n              \
         - header: {{ key: Via, value: 1.1 thalweg }}\n          \
         http_filters:\n          - name: router\n            typed_config:\n              \
         \"@type\": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router\n              \
         suppress_envoy_headers: true{tls}\n",
        envoy_address(listen)
    )
}

fn envoy_address(address: SocketAddr) -> String {
    format!("{{ socket_address: {{ address: {}, port_value: {} }} }}", address.ip(), address.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_agree_on_the_suite_and_the_group() {
        let [secure, clear, backend, h2_backend] =
            [1, 2, 3, 4].map(|port| SocketAddr::from(([127, 0, 0, 1], port)));
        let (addresses, folder) = (Addresses { secure, clear, backend, h2_backend }, Path::new("folder"));
        let certificate = Certificate { chain: "chain.pem".into(), key: "key.pem".into() };
        for text in
            [thalweg(&addresses, &certificate), nginx(folder, &addresses, &certificate), SETTINGS.to_owned()]
        {
            assert!(text.contains(SUITE) && text.contains(GROUP), "{text}");
        }
        // Envoy cannot be told a suite of TLS 1.3: the clients offer one alone.
        assert!(envoy(&addresses, &certificate).contains(GROUP));
    }
}
