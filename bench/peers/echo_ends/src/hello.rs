//! The first message of a TLS 1.3 handshake (RFC 8446 §4.1.2), as far as a proxy looks at it: a whole and valid
//! ClientHello that names a server (RFC 6066 §3). No handshake follows.

/// Extensions beside the name of the server: their number and their content.
const EXTENSIONS: &[(u16, &[u8])] = &[
    // supported_groups: x25519.
    (10, &[0, 2, 0x00, 0x1d]),
    // signature_algorithms: ecdsa_secp256r1_sha256, rsa_pss_rsae_sha256, ed25519.
    (13, &[0, 6, 0x04, 0x03, 0x08, 0x04, 0x08, 0x07]),
    // supported_versions: TLS 1.3.
    (43, &[2, 0x03, 0x04]),
];
/// The number of the extension with the name of the server.
const SERVER_NAME: u16 = 0;
/// The number of the extension with keys, and the group of ours.
const KEY_SHARE: u16 = 51;
const X25519: u16 = 0x001d;
/// TLS_AES_128_GCM_SHA256, TLS_AES_256_GCM_SHA384, TLS_CHACHA20_POLY1305_SHA256.
const SUITES: &[u8] = &[0x13, 0x01, 0x13, 0x02, 0x13, 0x03];

/// The record with a ClientHello for `name`; `salt` makes it another one for each session.
pub(crate) fn client_hello(name: &str, salt: u32) -> Vec<u8> {
    let random: [u8; 32] = std::array::from_fn(|i| salt.to_be_bytes()[i % 4] ^ (i as u8).wrapping_mul(37));
    let mut extensions = Vec::new();
    // A list of one name of the type 0.
    let entry = [&[0], counted(name.as_bytes()).as_slice()].concat();
    extend(&mut extensions, SERVER_NAME, &counted(&entry));
    for (number, content) in EXTENSIONS {
        extend(&mut extensions, *number, content);
    }
    let share = [&X25519.to_be_bytes(), counted(&random).as_slice()].concat();
    extend(&mut extensions, KEY_SHARE, &counted(&share));
    // The version that all say here, random bytes, and a session of 32 bytes as in the mode for middleboxes.
    let mut hello = vec![0x03, 0x03];
    hello.extend_from_slice(&random);
    hello.push(random.len() as u8);
    hello.extend_from_slice(&random);
    hello.extend(counted(SUITES));
    // One way of compression: none.
    hello.extend([1, 0]);
    hello.extend(counted(&extensions));
    let message = [&[1, 0], counted(&hello).as_slice()].concat();
    [&[22, 0x03, 0x01], counted(&message).as_slice()].concat()
}

fn extend(extensions: &mut Vec<u8>, number: u16, content: &[u8]) {
    extensions.extend_from_slice(&number.to_be_bytes());
    extensions.extend(counted(content));
}

/// Bytes behind their number in two bytes. Nothing here comes near 64 KiB: a host name has at most 253.
fn counted(bytes: &[u8]) -> Vec<u8> {
    debug_assert!(bytes.len() < 1 << 16);
    [&(bytes.len() as u16).to_be_bytes(), bytes].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_lead_to_the_name_and_to_the_end() {
        let name = "label.svc.example.com";
        let hello = client_hello(name, 7);
        let two = |at: usize| usize::from(hello[at]) << 8 | usize::from(hello[at + 1]);
        assert_eq!((hello[0], two(3)), (22, hello.len() - 5));
        assert_eq!((hello[5], hello[6], two(7)), (1, 0, hello.len() - 9));
        // Version, random bytes, session; then suites, compression, extensions.
        let suites = 9 + 2 + 32 + 1 + 32;
        let extensions = suites + 2 + SUITES.len() + 2;
        assert_eq!((two(suites), two(extensions)), (SUITES.len(), hello.len() - extensions - 2));
        let first = extensions + 2;
        assert_eq!((two(first), two(first + 2), two(first + 4)), (0, name.len() + 5, name.len() + 3));
        assert_eq!((hello[first + 6], two(first + 7)), (0, name.len()));
        assert_eq!(&hello[first + 9..][..name.len()], name.as_bytes());
        let mut at = first;
        while at < hello.len() {
            at += 4 + two(at + 2);
        }
        assert_eq!(at, hello.len());
        assert_ne!(hello, client_hello(name, 8));
    }
}
