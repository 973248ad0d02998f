//! The first words of TLS (RFC 8446 §4.1.2), in however many records.
//!
//! Input: the first bytes of a connection. Asserts: no verdict comes before its bytes, and the first one lasts whatever
//! follows; names are names in lower case; what a proxy that passes connections on can read is no less than what one
//! that ends them can, and both read the same; and rustls, given the same bytes, reads the same name.

use std::io::Cursor;

use rustls::server::Acceptor;
use thalweg_core::limits::TLS_HELLO;
use thalweg_tls::hello::{Hello, Read, read, read_any};

/// Checks one input.
pub(super) fn fuzz(input: &[u8]) {
    let verdict = read_any(input);
    let first = (0..=input.len()).find(|end| read_any(&input[..*end]) != Read::Incomplete);
    match (&verdict, first) {
        (Read::Incomplete, None) => assert!(input.len() < 2 * TLS_HELLO),
        (_, Some(first)) => {
            assert_eq!(read_any(&input[..first]), verdict, "a verdict that does not last");
            let more = [input, b"\x16\x03\x01\x00\x05hello"].concat();
            assert_eq!(read_any(&more), verdict, "a verdict that does not last");
        }
        (_, None) => panic!("the verdict on all of it is {verdict:?}"),
    }
    match (read(input), &verdict) {
        (Read::Hello(ended), passed) => {
            assert_eq!(Read::Hello(ended.clone()), *passed);
            check(&ended, input);
        }
        (Read::Incomplete, passed) => assert_eq!(*passed, Read::Incomplete),
        // Of versions that are not spoken here there are hellos, too.
        (Read::Refused(_), Read::Refused(_) | Read::Hello(_)) => {}
        (Read::Refused(why), Read::Incomplete) => panic!("{why:?} before all of it is there"),
    }
}

/// Compares with what rustls reads.
fn check(hello: &Hello, input: &[u8]) {
    if let Some(name) = &hello.name {
        assert!(!name.is_empty() && name.len() <= 253 && !name.ends_with('.'), "{name}");
        assert!(!name.bytes().any(|byte| byte.is_ascii_uppercase()), "{name}");
    }
    assert!(hello.alpn.iter().all(|protocol| !protocol.is_empty() && protocol.len() <= 255));
    let (mut acceptor, mut bytes) = (Acceptor::default(), Cursor::new(input));
    while acceptor.read_tls(&mut bytes).is_ok_and(|count| count > 0) {
        match acceptor.accept() {
            Ok(Some(accepted)) => {
                let theirs = accepted.client_hello();
                let name = theirs.server_name().map(|name| name.trim_end_matches('.').to_ascii_lowercase());
                assert_eq!(name, hello.name);
                let protocols = theirs.alpn().into_iter().flatten().map(<[u8]>::to_vec);
                assert_eq!(protocols.collect::<Vec<_>>(), hello.alpn);
                return;
            }
            Ok(None) => {}
            // It wants more of a hello than names.
            Err(_) => return,
        }
    }
}
