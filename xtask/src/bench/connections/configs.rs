//! What those that take part are told: one listener before small exchanges, one before large bodies, and nothing to
//! write.

use std::net::SocketAddr;

/// A listener and the backend behind it.
pub(super) type Way = (SocketAddr, SocketAddr);

/// Connections that HAProxy may have: more than are idle at once, and with pipes to splice through no more descriptors
/// than there are.
pub(super) const CONNECTIONS: usize = 6000;

/// The product.
pub(super) fn thalweg([small, large]: [Way; 2]) -> String {
    let listener = |name, (listen, backend): Way| {
        format!("  {name}: {{ address: \"{listen}\", protocol: tcp, to: [ \"tcp://{backend}\" ] }}\n")
    };
    format!("listeners:\n{}{}", listener("small", small), listener("large", large))
}

/// HAProxy; with `splice` its kernel may pass bytes on.
pub(super) fn haproxy([small, large]: [Way; 2], splice: bool) -> String {
    let listener = |name, (listen, backend): Way| {
        format!("listen {name}\n  bind {listen} backlog 4096\n  server one {backend}\n")
    };
    let splice = if splice { "  option splice-auto\n" } else { "" };
    format!(
        "global\n  nbthread 1\n  maxconn {CONNECTIONS}\ndefaults\n  mode tcp\n  no log\n{splice}  timeout connect 5s\n  \
         timeout client 1h\n  timeout server 1h\n{}{}",
        listener("small", small),
        listener("large", large)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_listener_and_backend_stands_once() {
        let [a, b, c, d] = [1, 2, 3, 4].map(|port| SocketAddr::from(([127, 0, 0, 1], port)));
        let ways = [(a, b), (c, d)];
        for text in [thalweg(ways), haproxy(ways, false), haproxy(ways, true)] {
            for address in [a, b, c, d] {
                assert_eq!(text.matches(&address.to_string()).count(), 1, "{text}");
            }
        }
        assert!(haproxy(ways, true).contains("splice") && !haproxy(ways, false).contains("splice"));
    }
}
