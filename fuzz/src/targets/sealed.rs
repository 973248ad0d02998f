//! Labels of sealed destinations, lists of them, and the networks that they may name.
//!
//! Input: a byte that says what, and a text. Asserts: no text is opened by a key that has not sealed it; a label that
//! was sealed opens whatever the case of its letters, and not with one of its characters changed; what logs show never
//! holds the label; entries that are read are the same when they are written, and permit nothing special that they do
//! not lie in.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use thalweg_sealed::reach::{Allow, Entry, Special, canonical};
use thalweg_sealed::{Destination, Key, Keyring, Minutes, Redactor, Revoked, Secret, To};

const DOMAIN: &str = "svc.example.com";

/// Checks one input.
pub(super) fn fuzz(input: &[u8]) {
    let Some((kind, text)) = input.split_first() else { return };
    match kind % 4 {
        0 => {
            // With a key of its own: the fuzzer sees what the others seal.
            assert!(keyring(9).open(text, Minutes::from_unix(0)).is_err(), "nobody has sealed it");
            let _ = Revoked::parse(&[String::from_utf8_lossy(text)]);
        }
        1 => sealed(text),
        2 => entry(&String::from_utf8_lossy(text)),
        _ => redacted(text),
    }
}

fn keyring(secret: u8) -> Keyring {
    let keys = vec![Key { id: 1, secret: Secret::from([secret; 64]) }];
    Keyring::new(keys, DOMAIN).unwrap_or_else(|error| panic!("{error}"))
}

/// 19 bytes: an address, a port, a place; and a character to put there.
fn sealed(bytes: &[u8]) {
    let Some(([ip @ .., p, q, place, other], _)) = bytes.split_first_chunk::<20>() else { return };
    let mut address = [0; 16];
    address.copy_from_slice(&ip[..16]);
    let port = u16::from_be_bytes([*p, *q]).max(1);
    let to = To::Address(SocketAddr::new(IpAddr::V6(Ipv6Addr::from(address)), port));
    let destination = Destination { to, tls: place & 0x80 != 0, expires: Minutes::MAX };
    let keyring = keyring(7);
    let Ok(label) = keyring.seal(&destination) else { return };
    let now = Minutes::from_unix(0);
    let opened = keyring.open(label.as_bytes(), now).unwrap_or_else(|why| panic!("{why}"));
    assert_eq!(opened.destination().tls, destination.tls);
    let mut text = label.to_string().to_uppercase().into_bytes();
    assert!(keyring.open(&text, now).is_ok());
    let place = usize::from(place & 0x7f) % text.len();
    if !text[place].eq_ignore_ascii_case(other) {
        text[place] = *other;
        assert!(keyring.open(&text, now).is_err());
    }
}

fn entry(text: &str) {
    let Ok(entry) = text.parse::<Entry>() else { return };
    let written = entry.to_string();
    assert_eq!(written.parse::<Entry>().as_ref(), Ok(&entry), "{written}");
    let allow: Allow = [entry].into_iter().collect();
    for (address, range) in
        [("169.254.169.254:80", "169.254.169.254/32"), ("127.0.0.1:80", "127."), ("[::1]:80", "[::1")]
    {
        let address: SocketAddr = address.parse().unwrap_or_else(|error| panic!("{error}"));
        assert!(Special::of(canonical(address.ip())).is_some());
        if allow.permits(address, |_| false).is_ok() {
            assert!(written.starts_with(range), "{written} permits {address}");
        }
    }
}

fn redacted(text: &[u8]) {
    let redactor = Redactor::new([DOMAIN]);
    let shown = redactor.redact(text);
    // What may stand in a name, before the domain, is gone wherever it stands.
    let label = keyring(7).seal(&Destination {
        to: To::Address(SocketAddr::from(([192, 0, 2, 1], 80))),
        tls: false,
        expires: Minutes::MAX,
    });
    let Ok(label) = label else { return };
    let with = [text, label.as_bytes(), b".", DOMAIN.as_bytes(), text].concat();
    let shown_with = redactor.redact(&with);
    let holds = |haystack: &[u8]| haystack.windows(63).any(|part| part == label.as_bytes());
    assert!(holds(text) || !holds(&shown_with), "{:?}", String::from_utf8_lossy(&shown_with));
    assert!(shown.len() <= text.len() * 20 + 64);
}
