//! What those that take part are told: one domain and one key for all.

use std::net::SocketAddr;

/// The domain below which sealed host names lie.
pub(super) const DOMAIN: &str = "svc.example.com";
/// Half of the secret of key 1, in hex; it seals nothing but these sessions.
const HALF: &str = "3d404346494c4f5255585b5e6164676a6d707376797c7f8285888b8e91949797";

/// The secret of key 1: 128 hex digits.
pub(super) fn secret() -> String {
    let back: String = HALF.chars().rev().collect();
    format!("{HALF}{back}")
}

/// The product: HTTP on one listener, connections of TLS that are not opened on the other.
pub(super) fn thalweg(web: SocketAddr, raw: SocketAddr) -> String {
    let sealed = format!(
        "{{ sealed: {{ domain: \"*.{DOMAIN}\", keys: [ {{ id: 1, secret: \"{}\" }} ], \
         allow: [ \"127.0.0.0/8:1024-65535\" ] }} }}",
        secret()
    );
    format!(
        "listeners:\n  web: {{ address: \"{web}\" }}\n  \
         raw: {{ address: \"{raw}\", protocol: tls_passthrough, sni: {{ \"*.{DOMAIN}\": {sealed} }} }}\n\
         routes:\n  - match: {{ host: \"*.{DOMAIN}\" }}\n    to: {sealed}\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_secret_has_the_digits_of_a_key_and_stands_in_both_places() {
        let secret = secret();
        assert!(secret.len() == 128 && secret.chars().all(|digit| digit.is_ascii_hexdigit()));
        let [web, raw] = [1, 2].map(|port| SocketAddr::from(([127, 0, 0, 1], port)));
        let text = thalweg(web, raw);
        assert_eq!(text.matches(&secret).count(), 2);
        assert_eq!(text.matches('{').count(), text.matches('}').count());
    }
}
