//! Hellos that rustls makes, cut and damaged. What rustls' own reader makes of them is the measure.

use fastrand::Rng;
use rustls::ClientConnection;
use rustls::server::Acceptor;
use std::sync::Arc;

use super::*;
use crate::testing::{Authority, far_client};

fn hello(name: &str, alpn: &[&str]) -> Vec<u8> {
    let mut config = far_client(&Authority::new("ca"));
    config.alpn_protocols = alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
    let name = ServerName::try_from(name.to_owned()).unwrap();
    let mut far = ClientConnection::new(Arc::new(config), name).unwrap();
    let mut bytes = Vec::new();
    far.write_tls(&mut bytes).unwrap();
    bytes
}

/// The same message in records with so much of it each.
fn in_records(hello: &[u8], length: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    for piece in hello[RECORD_HEADER..].chunks(length) {
        bytes.extend_from_slice(&[22, 3, 1]);
        bytes.extend_from_slice(&(piece.len() as u16).to_be_bytes());
        bytes.extend_from_slice(piece);
    }
    bytes
}

/// What rustls reads; `None`: more must come.
fn by_rustls(mut bytes: &[u8]) -> Option<Result<Hello, rustls::Error>> {
    let mut acceptor = Acceptor::default();
    while !bytes.is_empty() {
        acceptor.read_tls(&mut bytes).unwrap();
        match acceptor.accept() {
            Ok(Some(accepted)) => {
                let hello = accepted.client_hello();
                let name = hello.server_name().map(|name| name.trim_end_matches('.').to_owned());
                let alpn = hello.alpn().into_iter().flatten().map(<[u8]>::to_vec).collect();
                let is_grease = |suite: &u16| suite & 0x0f0f == 0x0a0a && suite >> 8 == suite & 0xff;
                let first =
                    hello.cipher_suites().iter().copied().map(u16::from).find(|suite| !is_grease(suite));
                let puts_chacha20_first =
                    first.is_some_and(|first| [0x1303, 0xcca8, 0xcca9].contains(&first));
                return Some(Ok(Hello { name, alpn, puts_chacha20_first }));
            }
            Ok(None) => {}
            Err((why, _)) => return Some(Err(why)),
        }
    }
    None
}

#[test]
fn reads_what_rustls_says() {
    for (name, alpn, expected) in [
        ("a.test", &["h2", "http/1.1"][..], Some("a.test")),
        ("A_b.TEST", &[], Some("a_b.test")),
        ("127.0.0.1", &[], None),
    ] {
        let bytes = hello(name, alpn);
        let alpn = alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
        let expected = Hello { name: expected.map(str::to_owned), alpn, ..Hello::default() };
        assert_eq!(read(&bytes), Read::Hello(expected.clone()));
        assert_eq!(by_rustls(&bytes), Some(Ok(expected.clone())));
        // What follows is not looked at.
        assert_eq!(read(&[bytes, vec![0; 100]].concat()), Read::Hello(expected));
    }
}

#[test]
fn is_incomplete_at_every_byte_and_in_records_of_every_size() {
    let whole = hello("a.test", &["h2"]);
    let Read::Hello(expected) = read(&whole) else { panic!() };
    for length in [10, 11, 100, 511, 5000] {
        let bytes = in_records(&whole, length);
        for end in 0..bytes.len() {
            assert_eq!(read(&bytes[..end]), Read::Incomplete, "{length} {end}");
        }
        assert_eq!(read(&bytes), Read::Hello(expected.clone()), "{length}");
    }
    // Records of one byte are more than there may be.
    assert_eq!(read(&in_records(&whole, 1)), Read::Refused(Refused::HelloTooLarge));
    assert_eq!(read(&in_records(&whole[..RECORD_HEADER + 200], 1)), Read::Incomplete);
}

#[test]
fn what_is_not_tls_is_refused_at_the_first_byte_that_shows_it() {
    for (bytes, refused) in [
        (&b"G"[..], Refused::PlainHttp),
        (b"\x80", Refused::NoTls),
        (b"\x17", Refused::NoTls),
        (b"\n", Refused::NoTls),
        (b"g", Refused::NoTls),
        (b"\x16\x02", Refused::NoTls),
        (b"\x16\x03\x01\x00\x00", Refused::HelloMalformed),
        (b"\x16\x03\x01\x40\x01", Refused::HelloMalformed),
        // Not a ClientHello.
        (b"\x16\x03\x01\x00\x10\x02", Refused::HelloMalformed),
        // 65,536 bytes or more.
        (b"\x16\x03\x01\x00\x10\x01\x01", Refused::HelloTooLarge),
        // Another kind of record in the middle.
        (b"\x16\x03\x01\x00\x01\x01\x17", Refused::HelloMalformed),
        (b"\x16\x03\x01\x00\x01\x01\x16\x02", Refused::HelloMalformed),
        // Empty body.
        (b"\x16\x03\x01\x00\x04\x01\x00\x00\x00", Refused::HelloMalformed),
    ] {
        assert_eq!(read(bytes), Read::Refused(refused), "{bytes:?}");
        assert_eq!(read(&bytes[..bytes.len() - 1]), Read::Incomplete, "{bytes:?}");
    }
}

#[test]
fn a_hello_is_bounded() {
    // 32,000 bytes of extensions, of which the last bytes never come.
    let mut bytes = Vec::new();
    for _ in 0..4 {
        bytes.extend_from_slice(&[22, 3, 1, 0x20, 0]);
        bytes.extend_from_slice(&[1; 0x2000]);
    }
    bytes[5..9].copy_from_slice(&[1, 0, 0x7f, 0xff]);
    for end in [100, 20_000, TLS_HELLO - 1] {
        assert_eq!(read(&bytes[..end]), Read::Incomplete);
    }
    let short = [&bytes[..], &[22, 3, 1]].concat();
    assert!(matches!(read(&short), Read::Refused(_)));
}

/// A hello with these extensions.
fn with_extensions(extensions: &[(u16, &[u8])]) -> Vec<u8> {
    with_suites(&[0x1301], extensions)
}

fn with_suites(suites: &[u16], extensions: &[(u16, &[u8])]) -> Vec<u8> {
    let long = |bytes: &[u8]| [&(bytes.len() as u16).to_be_bytes(), bytes].concat();
    let all: Vec<u8> = extensions
        .iter()
        .flat_map(|(kind, data)| [kind.to_be_bytes().to_vec(), long(data)].concat())
        .collect();
    let mut body = vec![3, 3];
    body.extend_from_slice(&[7; 32]);
    body.push(0);
    body.extend_from_slice(&long(&suites.iter().flat_map(|suite| suite.to_be_bytes()).collect::<Vec<_>>()));
    body.extend_from_slice(&[1, 0]);
    body.extend_from_slice(&long(&all));
    let message = [&[1, 0], &long(&body)[..]].concat();
    [&[22, 3, 1], &long(&message)[..]].concat()
}

#[test]
fn chacha20_is_first_where_nothing_but_reserved_values_stands_before_it() {
    for (suites, expected) in [
        (&[0x1303, 0x1301][..], true),
        (&[0x8a8a, 0x1303, 0x1301], true),
        (&[0x0a0a, 0xfafa, 0xcca9], true),
        (&[0xcca8], true),
        (&[0x1301, 0x1303], false),
        // Not reserved: its bytes differ.
        (&[0x0a1a, 0x1303], false),
        // A suite that nobody has.
        (&[0x1305, 0x1303], false),
        (&[0x8a8a], false),
    ] {
        let Read::Hello(hello) = read(&with_suites(suites, &[])) else { panic!("{suites:x?}") };
        assert_eq!(hello.puts_chacha20_first, expected, "{suites:x?}");
    }
}

#[test]
fn a_client_of_tls_1_1_is_refused_for_its_version_and_for_nothing_else() {
    let versions: &[u8] = b"\x02\x03\x04";
    for (minor, extensions, expected) in [
        (0, &[][..], false),
        (2, &[(77, &b"x"[..])], false),
        (3, &[], true),
        (9, &[], true),
        (2, &[(43, versions)], true),
    ] {
        let mut bytes = with_extensions(extensions);
        bytes[RECORD_HEADER + HANDSHAKE_HEADER + 1] = minor;
        let hello = match expected {
            true => Read::Hello(Hello::default()),
            false => Read::Refused(Refused::Version),
        };
        assert_eq!(read(&bytes), hello, "{minor}");
    }
}

#[test]
fn extensions_that_two_readers_could_read_in_two_ways_are_malformed() {
    let name: &[u8] = b"\0\x09\0\0\x06a.test";
    let alpn: &[u8] = b"\0\x03\x02h2";
    assert_eq!(read(&with_extensions(&[])), Read::Hello(Hello::default()));
    let both = Hello { name: Some("a.test".to_owned()), alpn: vec![b"h2".to_vec()], ..Hello::default() };
    assert_eq!(read(&with_extensions(&[(0, name), (16, alpn), (77, b"x")])), Read::Hello(both));
    for bad in [
        &[(0, name), (0, name)][..],
        &[(16, alpn), (16, alpn)],
        &[(0, b"")],
        &[(0, b"\0\0")],
        &[(0, b"\0\x09\0\0\x06a.tes")],
        &[(0, b"\0\x09\0\0\x06a.test!")],
        &[(0, b"\0\x09\0\0\x06a.t\0st")],
        &[(0, b"\0\x09\0\0\x06a.t\xffst")],
        &[(0, b"\0\x09\0\0\x06a..tst")],
        &[(0, b"\0\x03\0\0\0")],
        &[(0, b"\0\x12\0\0\x06a.test\0\0\x06b.test")],
        &[(0, b"\0\x09\x01\0\x06a.test")],
        &[(16, b"\0\0")],
        &[(16, b"\0\x01\0")],
        &[(16, b"\0\x03\x03h2")],
        &[(16, b"\0\x03\x02h2!")],
    ] {
        assert_eq!(read(&with_extensions(bad)), Read::Refused(Refused::HelloMalformed), "{bad:?}");
    }
    // The dot of the root is no part of the name.
    let dotted = Read::Hello(Hello { name: Some("a.tes".to_owned()), ..Hello::default() });
    assert_eq!(read(&with_extensions(&[(0, b"\0\x09\0\0\x06a.tes.")])), dotted);
}

#[test]
fn garbage_ends_and_what_rustls_takes_is_read_as_rustls_reads_it() {
    let mut rng = Rng::with_seed(42);
    let good = hello("a.test", &["h2", "http/1.1"]);
    let mut both = 0;
    for _ in 0..20_000 {
        let mut bytes = in_records(&good, rng.usize(30..600));
        for _ in 0..rng.usize(1..4) {
            let at = rng.usize(..bytes.len());
            bytes[at] = if rng.bool() { rng.u8(..) } else { bytes[at] ^ 1 << rng.u8(..8) };
        }
        bytes.truncate(rng.usize(bytes.len() / 2..bytes.len() * 2).min(bytes.len()));
        let ours = read(&bytes);
        if let Some(Ok(theirs)) = by_rustls(&bytes) {
            both += 1;
            if ours == Read::Refused(Refused::Version) {
                // It says so later; the records are long enough for the version to stand in the first one.
                let at = RECORD_HEADER + HANDSHAKE_HEADER;
                assert!(bytes[at..at + 2] < [3, 3][..], "{bytes:x?}");
                continue;
            }
            assert_eq!(ours, Read::Hello(theirs));
        }
    }
    assert!(both > 1000, "{both}");
    for _ in 0..20_000 {
        let mut bytes: Vec<u8> = (0..rng.usize(..100)).map(|_| rng.u8(..)).collect();
        for (to, from) in bytes.iter_mut().zip(&good).take(rng.usize(..60)) {
            *to = *from;
        }
        let _ = read(&bytes);
    }
}
