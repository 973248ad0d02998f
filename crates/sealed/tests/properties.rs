//! Properties of labels, whatever they hold.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "a test; clippy does not see that what it calls is one too")]

use std::net::{IpAddr, SocketAddr};

use proptest::prelude::*;
use thalweg_sealed::{Destination, Key, Keyring, Label, Minutes, Refusal, Revoked, Secret, To, redacted};

const ALPHABET: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";

fn keyring(ids: &[u8], secret: u8, domain: &str) -> Keyring {
    let key = |id: &u8| Key { id: *id, secret: Secret::from([secret; 64]) };
    Keyring::new(ids.iter().map(key).collect(), domain).unwrap()
}

fn start() -> Minutes {
    Minutes::from_unix(0)
}

/// A target by its kind, with an address, a port and a name to make it of.
type Drawn = (u8, IpAddr, u16, String);

fn drawn() -> impl Strategy<Value = (Drawn, bool, u64)> {
    let ip = prop_oneof![any::<[u8; 4]>().prop_map(IpAddr::from), any::<[u8; 16]>().prop_map(IpAddr::from)];
    ((0u8..2, ip, 1u16.., "[a-z]{1,20}"), any::<bool>(), 1_735_689_660..2_742_322_500u64)
}

fn seal(keys: &Keyring, ((kind, ip, port, name), tls, until): &(Drawn, bool, u64)) -> (Destination, Label) {
    let to = match kind {
        0 => To::Address(SocketAddr::new(*ip, *port)),
        _ => To::Service(keys.service(name)),
    };
    let destination = Destination { to, tls: *tls && *kind == 0, expires: Minutes::from_unix(*until) };
    (destination, keys.seal(&destination).unwrap())
}

/// The text with one of its 315 bits turned over.
fn with_bit_flipped(label: &Label, bit: usize) -> [u8; 63] {
    let (mut text, at) = (*label.as_bytes(), bit / 5);
    let digit = ALPHABET.iter().position(|digit| *digit == text[at]).unwrap();
    text[at] = ALPHABET[digit ^ 16 >> (bit % 5)];
    text
}

proptest! {
    #[test]
    fn what_is_sealed_is_opened(drawn in drawn(), id in 1u8..32) {
        let keys = keyring(&[id], 7, "svc.example.com");
        let (mut destination, label) = seal(&keys, &drawn);
        let opened = keys.open(label.as_bytes(), start()).unwrap();
        if let To::Address(address) = &mut destination.to {
            address.set_ip(address.ip().to_canonical());
        }
        prop_assert_eq!(opened.destination(), &destination);
        prop_assert_eq!(opened.key(), id);
        prop_assert_eq!(keys.open(label.as_bytes(), destination.expires), Err(Refusal::Expired));
        prop_assert_eq!(keys.seal(&destination).unwrap(), label, "the same destination has the same label");
    }

    #[test]
    fn the_case_of_a_letter_changes_nothing(drawn in drawn(), upper: [bool; 32]) {
        let keys = keyring(&[1], 7, "svc.example.com");
        let (_, label) = seal(&keys, &drawn);
        let mut text = *label.as_bytes();
        for (byte, upper) in text.iter_mut().zip(upper.iter().cycle()) {
            if *upper { byte.make_ascii_uppercase() }
        }
        let (one, two) = (keys.open(label.as_bytes(), start()).unwrap(), keys.open(&text, start()).unwrap());
        prop_assert_eq!(one, two);
        prop_assert_eq!(redacted(&text), redacted(label.as_bytes()));
        let revoked = Revoked::parse(&[std::str::from_utf8(&text).unwrap()]).unwrap();
        prop_assert!(revoked.contains(one.siv()));
    }

    #[test]
    fn a_key_opens_its_own_labels_for_its_own_domain_alone(drawn in drawn()) {
        let keys = keyring(&[1], 7, "svc.example.com");
        let (_, label) = seal(&keys, &drawn);
        let open = |keys: Keyring| keys.open(label.as_bytes(), start()).map(|opened| opened.key());
        prop_assert_eq!(open(keyring(&[1], 7, "svc.example.com")), Ok(1));
        prop_assert_eq!(open(keyring(&[1], 8, "svc.example.com")), Err(Refusal::Forged));
        prop_assert_eq!(open(keyring(&[1], 7, "svc.example.org")), Err(Refusal::Forged));
        prop_assert_eq!(open(keyring(&[2], 7, "svc.example.com")), Err(Refusal::UnknownKey));
        // The same secret under another id seals other labels: the header is authenticated.
        let (_, other) = seal(&keyring(&[2], 7, "svc.example.com"), &drawn);
        prop_assert_ne!(&other.as_bytes()[2..], &label.as_bytes()[2..]);
    }

    #[test]
    fn any_text_at_all_is_refused(text in prop::collection::vec(any::<u8>(), 0..200), digits in "[a-zA-Z2-7]{63}") {
        let keys = keyring(&[1, 2, 3], 7, "svc.example.com");
        prop_assert!(keys.open(&text, start()).is_err());
        prop_assert!(keys.open(digits.as_bytes(), start()).is_err());
        prop_assert!(redacted(&text).to_string().starts_with("sealed:"));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn every_flipped_bit_is_refused(drawn in drawn()) {
        let all: Vec<u8> = (1..=31).collect();
        let keys = keyring(&all, 7, "svc.example.com");
        let (_, label) = seal(&keys, &drawn);
        for bit in 0..315 {
            let refusal = keys.open(&with_bit_flipped(&label, bit), start()).unwrap_err();
            let expected = match bit {
                0..3 => Refusal::Version,
                312.. => Refusal::SpareBits,
                _ => Refusal::Forged,
            };
            prop_assert_eq!(refusal, expected, "{}", bit);
        }
    }

    #[test]
    fn every_shorter_and_longer_text_is_refused(drawn in drawn(), more in "[a-z2-7]{1,20}") {
        let keys = keyring(&[1], 7, "svc.example.com");
        let (_, label) = seal(&keys, &drawn);
        for length in 0..63 {
            prop_assert_eq!(keys.open(&label.as_bytes()[..length], start()), Err(Refusal::Length));
            prop_assert_eq!(keys.open(&label.as_bytes()[63 - length..], start()), Err(Refusal::Length));
        }
        for length in 1..=more.len() {
            let (longer, before) = (format!("{label}{}", &more[..length]), format!("{}{label}", &more[..length]));
            prop_assert_eq!(keys.open(longer.as_bytes(), start()), Err(Refusal::Length));
            prop_assert_eq!(keys.open(before.as_bytes(), start()), Err(Refusal::Length));
        }
    }
}
