//! The test vectors of `docs/reference/sealed-vectors.json`, which other implementations are held against.
//!
//! `UPDATE_GOLDENS=1` writes the file anew. Labels that are refused although their key is known are sealed here by
//! another implementation of AES-SIV.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "a test; clippy does not see that what it calls is one too")]

use std::fs;

use aes_siv::KeyInit as _;
use aes_siv::siv::Aes256Siv;
use serde_json::{Value, json};
use thalweg_sealed::{Destination, Key, Keyring, Minutes, Refusal, Secret, To, redacted};

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/sealed-vectors.json");
const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/sealed.md");
const ALPHABET: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";

/// Key id, domain, target, expiry in Unix seconds.
type Input = (u8, &'static str, &'static str, u64);

const INPUTS: &[Input] = &[
    (1, "svc.example.com", "http://192.0.2.10:8080", 1_767_225_600),
    (1, "svc.example.com", "https://192.0.2.10:8080", 1_767_225_600),
    (1, "svc.example.com", "http://192.0.2.10:8080", 1_767_225_660),
    (1, "svc.example.org", "http://192.0.2.10:8080", 1_767_225_600),
    (2, "svc.example.com", "http://192.0.2.10:8080", 1_767_225_600),
    (31, "svc.example.com", "https://255.255.255.254:65535", 2_742_322_500),
    (1, "svc.example.com", "http://[2001:db8::1]:80", 1_767_225_600),
    (2, "a.b-c.xn--bcher-kva.example", "https://[fd12:3456:789a:1:2:3:4:5]:1", 1_735_689_660),
    (1, "localhost", "http://127.0.0.1:3000", 1_893_456_000),
    (1, "svc.example.com", "service:checkout", 1_767_225_600),
    (2, "svc.example.com", "service:checkout", 1_767_225_600),
    (31, "svc.example.org", "service:Café №1", 1_767_225_600),
];

/// The secrets of the vectors: bytes that count up from where the id says. Never use them.
fn secret(id: u8) -> [u8; 64] {
    std::array::from_fn(|at| (at as u8).wrapping_mul(3).wrapping_add(id.wrapping_mul(0x3d)))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Vec<u8> {
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
}

/// The 39 bytes of a label, by arithmetic that has nothing to do with the crate's.
fn bytes_of(label: &str) -> Vec<u8> {
    let value = |digit: u8| ALPHABET.iter().position(|other| *other == digit.to_ascii_lowercase()).unwrap();
    let bits = label.bytes().flat_map(|digit| (0..5).rev().map(move |bit| value(digit) >> bit & 1));
    let bits: Vec<_> = bits.collect();
    bits.chunks_exact(8).map(|byte| byte.iter().fold(0, |byte, bit| byte << 1 | *bit as u8)).collect()
}

fn text_of(bytes: &[u8]) -> String {
    let mut bits: Vec<_> =
        bytes.iter().flat_map(|byte| (0..8).rev().map(move |bit| byte >> bit & 1)).collect();
    bits.resize(315, 0);
    let digit = |digit: &[u8]| ALPHABET[digit.iter().fold(0, |value, bit| value << 1 | usize::from(*bit))];
    bits.chunks_exact(5).map(|bits| char::from(digit(bits))).collect()
}

/// Seals 22 bytes, whatever they say, with another implementation of AES-SIV.
fn seal_anything(header: u8, key: u8, domain: &str, plain: &[u8]) -> String {
    let associated = [&[header], domain.as_bytes()].concat();
    let sealed = Aes256Siv::new(&secret(key).into()).encrypt([associated], plain).unwrap();
    text_of(&[&[header], sealed.as_slice()].concat())
}

fn seal(&(id, domain, target, expires): &Input) -> Value {
    let secret = secret(id);
    let keys = Keyring::new(vec![Key { id, secret: Secret::from(secret) }], domain).unwrap();
    let (to, tls) = match (target.strip_prefix("http://"), target.strip_prefix("https://")) {
        (Some(address), _) => (To::Address(address.parse().unwrap()), false),
        (_, Some(address)) => (To::Address(address.parse().unwrap()), true),
        _ => (To::Service(keys.service(target.strip_prefix("service:").unwrap())), false),
    };
    let expires = Minutes::from_unix(expires);
    let label = keys.seal(&Destination { to, tls, expires }).unwrap();
    let bytes = bytes_of(label.as_str());
    let mut cipher = Aes256Siv::new(&secret.into());
    let plain = cipher.decrypt([[&bytes[..1], domain.as_bytes()].concat()], &bytes[1..]).unwrap();
    json!({
        "secret": hex(&secret), "key": id, "domain": domain, "target": target, "expires": expires.unix(),
        "plain": hex(&plain), "label": label.as_str(), "redacted": redacted(label.as_bytes()).to_string(),
    })
}

/// A label, what is to be told of it, when the first two keys look at it for `svc.example.com`.
fn refused(sealed: &[Value]) -> Vec<Value> {
    const DOMAIN: &str = "svc.example.com";
    let good = sealed[0]["label"].as_str().unwrap();
    let plain = unhex(sealed[0]["plain"].as_str().unwrap());
    let service = unhex(sealed[9]["plain"].as_str().unwrap());
    let with = |plain: &[u8], at: usize, byte: u8| {
        let mut plain = plain.to_vec();
        plain[at] = byte;
        seal_anything(0x21, 1, DOMAIN, &plain)
    };
    let no_port = [&plain[..17], &[0, 0], &plain[19..]].concat();
    let list = [
        (Refusal::Length, "one character is missing", good[..62].to_owned()),
        (Refusal::Length, "one character too many", format!("{good}a")),
        (Refusal::Alphabet, "0 is no digit", format!("{}0", &good[..62])),
        (Refusal::SpareBits, "the last spare bit is set", format!("{}b", &good[..62])),
        (Refusal::Version, "version 0", seal_anything(0x01, 1, DOMAIN, &plain)),
        (Refusal::Version, "version 2", seal_anything(0x41, 1, DOMAIN, &plain)),
        (Refusal::UnknownKey, "key 0", seal_anything(0x20, 1, DOMAIN, &plain)),
        (Refusal::UnknownKey, "key 3", seal_anything(0x23, 3, DOMAIN, &plain)),
        (Refusal::Forged, "another domain", sealed[3]["label"].as_str().unwrap().to_owned()),
        (Refusal::Forged, "the header says key 1, key 2 has sealed", seal_anything(0x21, 2, DOMAIN, &plain)),
        (Refusal::Forged, "all zero behind the header", text_of(&[&[0x21][..], &[0; 38]].concat())),
        (Refusal::Malformed, "kind 2", with(&plain, 0, 2)),
        (Refusal::Malformed, "kind 3", with(&service, 0, 3)),
        (Refusal::Malformed, "bit 3 of the flags", with(&plain, 0, 8)),
        (Refusal::Malformed, "bit 7 of the flags", with(&service, 0, 0x81)),
        (Refusal::Malformed, "an address with port 0", seal_anything(0x21, 1, DOMAIN, &no_port)),
        (Refusal::Malformed, "a service with TLS", with(&service, 0, 5)),
        (Refusal::Malformed, "a service with port 1", with(&service, 18, 1)),
        (Refusal::Expired, "expired when it was sealed", with(&plain[..], 19, 0)),
    ];
    let list = list.into_iter().map(|(refusal, why, label)| {
        json!({ "refusal": refusal.as_str(), "why": why, "label": label, "redacted": redacted(label.as_bytes()).to_string() })
    });
    list.collect()
}

/// The time at which the refused ones are looked at: 2025-12-31.
const NOW: u64 = 1_767_139_200;

fn file() -> Value {
    let text = fs::read_to_string(FILE).unwrap();
    serde_json::from_str(&text).unwrap()
}

#[test]
fn the_file_holds_what_is_sealed_here() {
    let sealed: Vec<_> = INPUTS.iter().map(seal).collect();
    let refused = json!({
        "keys": [1, 2], "domain": "svc.example.com", "now": NOW, "labels": refused(&sealed),
    });
    let whole = json!({ "sealed": sealed, "refused": refused });
    if std::env::var_os("UPDATE_GOLDENS").is_some() {
        fs::write(FILE, format!("{whole:#}\n")).unwrap();
    }
    assert!(file() == whole, "docs/reference/sealed-vectors.json is stale; run with UPDATE_GOLDENS=1");
}

#[test]
fn every_label_of_the_file_opens_to_what_it_says() {
    for vector in file()["sealed"].as_array().unwrap() {
        let text = |name: &str| vector[name].as_str().unwrap();
        let id = vector["key"].as_u64().unwrap() as u8;
        let key = Key { id, secret: Secret::from_hex(text("secret")).unwrap() };
        let keys = Keyring::new(vec![key], text("domain")).unwrap();
        let expires = vector["expires"].as_u64().unwrap();
        let opened = keys.open(text("label").as_bytes(), Minutes::from_unix(expires - 1)).unwrap();
        let destination = opened.destination();
        let said = match (destination.to, destination.tls) {
            (To::Address(address), false) => format!("http://{address}"),
            (To::Address(address), true) => format!("https://{address}"),
            (To::Service(_), tls) => {
                let name = text("target").strip_prefix("service:").unwrap();
                assert!(!tls && keys.services([name]).find(&opened) == Some(0));
                text("target").to_owned()
            }
        };
        assert_eq!(said, text("target"));
        assert_eq!(destination.expires.unix(), expires);
        assert_eq!(redacted(text("label").as_bytes()).to_string(), text("redacted"));
        assert_eq!(keys.open(text("label").as_bytes(), destination.expires), Err(Refusal::Expired));
    }
}

#[test]
fn every_refused_label_of_the_file_is_refused_for_its_reason() {
    let keys = [1, 2].map(|id| Key { id, secret: Secret::from(secret(id)) });
    let keys = Keyring::new(keys.into(), "svc.example.com").unwrap();
    for vector in file()["refused"]["labels"].as_array().unwrap() {
        let text = |name: &str| vector[name].as_str().unwrap();
        let refusal = keys.open(text("label").as_bytes(), Minutes::from_unix(NOW)).unwrap_err();
        assert_eq!(refusal.as_str(), text("refusal"), "{}", text("why"));
        assert_eq!(redacted(text("label").as_bytes()).to_string(), text("redacted"));
    }
}

#[test]
fn the_page_shows_every_vector() {
    let page = fs::read_to_string(PAGE).unwrap();
    for vector in file()["sealed"].as_array().unwrap() {
        let label = vector["label"].as_str().unwrap();
        let (key, expires) = (&vector["key"], &vector["expires"]);
        let (domain, target) = (vector["domain"].as_str().unwrap(), vector["target"].as_str().unwrap());
        let short = format!("`{}…{}`", &label[..10], &label[57..]);
        let line = format!("| {key} | `{domain}` | `{target}` | {expires} | {short} |");
        assert!(page.contains(&line), "docs/reference/sealed.md lacks\n{line}");
    }
}
