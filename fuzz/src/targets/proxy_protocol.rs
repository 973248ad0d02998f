//! Headers of the PROXY protocol, versions 1 and 2.
//!
//! Input: the first bytes of a connection. Asserts: the first verdict lasts whatever follows; a header is as long as
//! it says, within its bounds and at most as long as the limit; what waits for more is shorter than that; a header that
//! is written again, in either version, tells the same client, and a line of IPv4 is the same line.

use std::net::{IpAddr, SocketAddr};

use thalweg_core::limits::PROXY_HEADER;
use thalweg_net::proxy_protocol::{Addresses, Header, Intro, Read, read};

/// Checks one input.
pub(super) fn fuzz(input: &[u8]) {
    let verdict = read(input);
    // The bytes after which it was clear.
    let first = (0..=input.len()).find(|end| read(&input[..*end]) != Read::Incomplete);
    match (&verdict, first) {
        (Read::Incomplete, None) => assert!(input.len() < PROXY_HEADER),
        (_, Some(first)) => {
            for end in first..=input.len() {
                assert_eq!(read(&input[..end]), verdict, "a verdict that does not last");
            }
            let more = [input, b"\r\n\0PROXY "].concat();
            assert_eq!(read(&more), verdict, "a verdict that does not last");
        }
        (_, None) => panic!("the verdict on all of it is {verdict:?}"),
    }
    match verdict {
        Read::Header(header) => {
            assert_eq!(first, Some(header.len));
            check(&header, &input[..header.len]);
        }
        Read::Malformed(why) => assert!(!why.is_empty()),
        Read::Incomplete | Read::Absent => {}
    }
}

/// `bytes` are what the header was read from.
fn check(header: &Header, bytes: &[u8]) {
    assert!(header.len <= PROXY_HEADER);
    let lengths = [header.authority.as_ref().map(String::len), header.alpn.as_ref().map(Vec::len)];
    assert!(lengths.into_iter().flatten().all(|length| (1..=255).contains(&length)));
    assert!(header.unique_id.as_ref().is_none_or(|id| id.len() <= 128));
    let Some(Addresses { source, destination }) = header.addresses else { return };
    assert_eq!(source.is_ipv4(), destination.is_ipv4());
    let intro = Intro {
        source,
        destination,
        authority: header.authority.as_deref(),
        alpn: header.alpn.as_deref(),
        unique_id: header.unique_id.as_deref(),
    };
    let (mut line, mut block) = (Vec::new(), Vec::new());
    intro.write_v1(&mut line);
    intro.write_v2(&mut block);
    if bytes.starts_with(b"PROXY TCP4 ") {
        assert_eq!(line, bytes, "lines of IPv4 have one form");
    }
    let of_line = written(&line);
    let of_block = written(&block);
    assert_eq!(of_line.addresses, of_block.addresses);
    let again = of_block.addresses.expect("what is written has addresses");
    // IPv4 that was mapped into IPv6 is written as what it is where both addresses are.
    assert_eq!(canonical(again.source), canonical(source));
    assert_eq!(canonical(again.destination), canonical(destination));
    assert_eq!(of_block.authority, header.authority);
    assert_eq!(of_block.alpn, header.alpn);
    assert_eq!(of_block.unique_id, header.unique_id);
}

/// Reads what we wrote, all of which is the header.
fn written(bytes: &[u8]) -> Header {
    match read(bytes) {
        Read::Header(header) if header.len == bytes.len() => header,
        other => panic!("{bytes:?} was written and reads as {other:?}"),
    }
}

fn canonical(address: SocketAddr) -> (IpAddr, u16) {
    (address.ip().to_canonical(), address.port())
}
