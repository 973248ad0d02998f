//! The specification's examples, and headers that are made, cut and damaged.

use fastrand::Rng;

use super::*;

/// The one line of which §2.1 shows all bytes.
const EXAMPLE: &[u8] = b"PROXY TCP4 192.168.0.1 192.168.0.11 56324 443\r\n";
const FULL: &str = "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff";

fn addresses(source: &str, destination: &str) -> Option<Addresses> {
    Some(Addresses { source: source.parse().unwrap(), destination: destination.parse().unwrap() })
}

/// What a whole header without TLVs is read as.
fn plain(bytes: &[u8], addresses: Option<Addresses>) -> Read {
    Read::Header(Header { len: bytes.len(), addresses, ..Header::default() })
}

fn is_malformed(bytes: &[u8]) -> bool {
    matches!(read(bytes), Read::Malformed(_))
}

/// A header of version 2 with what follows the length, which is true.
fn block(command: u8, family: u8, rest: &[&[u8]]) -> Vec<u8> {
    let rest = rest.concat();
    let length = (rest.len() as u16).to_be_bytes();
    [BLOCK_START, &[command, family], &length, &rest].concat()
}

fn tlv(kind: u8, value: &[u8]) -> Vec<u8> {
    let mut bytes = vec![kind];
    bytes.extend_from_slice(&(value.len() as u16).to_be_bytes());
    bytes.extend_from_slice(value);
    bytes
}

/// 10.0.0.1:1024 to 10.0.0.2:443.
const IPV4: &[u8] = &[10, 0, 0, 1, 10, 0, 0, 2, 4, 0, 1, 187];

fn ipv4() -> Option<Addresses> {
    addresses("10.0.0.1:1024", "10.0.0.2:443")
}

/// A header over TCP and IPv4 with these TLVs.
fn with(tlvs: &[Vec<u8>]) -> Vec<u8> {
    block(PROXY, TCP_IPV4, &[IPV4, &tlvs.concat()])
}

/// The same with a right checksum before `tlvs`.
fn sealed(tlvs: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = with(&[&[tlv(CRC32C, &[0; 4])], tlvs].concat());
    let crc = crc32c([&bytes, &[], &[]]).to_be_bytes();
    let at = BLOCK_HEAD + IPV4.len() + 3;
    bytes[at..at + 4].copy_from_slice(&crc);
    bytes
}

/// Sound headers of every kind.
fn sound() -> Vec<Vec<u8>> {
    let names = [tlv(AUTHORITY, b"a.test"), tlv(ALPN, b"h2"), tlv(UNIQUE_ID, &[7; ID]), tlv(0x04, &[0; 9])];
    vec![
        EXAMPLE.to_vec(),
        format!("PROXY TCP6 {FULL} {FULL} 65535 65535\r\n").into_bytes(),
        b"PROXY UNKNOWN\r\n".to_vec(),
        format!("PROXY UNKNOWN {FULL} {FULL} 65535 65535\r\n").into_bytes(),
        block(LOCAL, 0, &[]),
        block(PROXY, 0, &[]),
        with(&[]),
        with(&names),
        sealed(&names),
        block(PROXY, TCP_IPV6, &[&[0xfe; 36]]),
        block(PROXY, UDP_IPV6, &[&[0xfe; 36], &tlv(0xea, &[1, 2, 3])]),
        block(PROXY, STREAM_UNIX, &[&[b'/'; UNIX], &names.concat()]),
    ]
}

#[test]
fn reads_the_lines_of_the_specification() {
    let expected = addresses("192.168.0.1:56324", "192.168.0.11:443");
    assert_eq!(read(EXAMPLE), plain(EXAMPLE, expected));
    // What follows is not looked at.
    assert_eq!(read(&[EXAMPLE, b"GET / HTTP/1.1\r\n\r\n"].concat()), plain(EXAMPLE, expected));
    let full = format!("[{FULL}]:65535");
    for (line, length, expected) in [
        (
            "PROXY TCP4 255.255.255.255 255.255.255.255 65535 65535\r\n",
            56,
            addresses("255.255.255.255:65535", "255.255.255.255:65535"),
        ),
        (&format!("PROXY TCP6 {FULL} {FULL} 65535 65535\r\n"), 104, addresses(&full, &full)),
        ("PROXY UNKNOWN\r\n", 15, None),
        (&format!("PROXY UNKNOWN {FULL} {FULL} 65535 65535\r\n"), 107, None),
        ("PROXY UNKNOWN \0 any\u{e9}thing  \r\n", 30, None),
        ("PROXY TCP6 ::1 2001:DB8::ffff:1 0 1\r\n", 37, addresses("[::1]:0", "[2001:db8::ffff:1]:1")),
        ("PROXY TCP6 ::ffff:1.2.3.4 :: 1 2\r\n", 34, addresses("[::ffff:1.2.3.4]:1", "[::]:2")),
    ] {
        assert_eq!(line.len(), length, "{line}");
        assert_eq!(read(line.as_bytes()), plain(line.as_bytes(), expected), "{line}");
    }
}

#[test]
fn refuses_lines_that_are_nearly_right() {
    for line in [
        "PROXY \r\n",
        "PROXY  TCP4 1.2.3.4 5.6.7.8 1 2\r\n",
        "PROXY TCP4\r\n",
        "PROXY TCP4 1.2.3.4 5.6.7.8 1\r\n",
        "PROXY TCP4 1.2.3.4 5.6.7.8 1 2 \r\n",
        "PROXY TCP4 1.2.3.4 5.6.7.8 1 2 3\r\n",
        "PROXY TCP4 1.2.3.4  5.6.7.8 1 2\r\n",
        "PROXY TCP4 1.2.3.4\t5.6.7.8 1 2\r\n",
        "PROXY TCP4 1.2.3.4 5.6.7.8 01 2\r\n",
        "PROXY TCP4 1.2.3.4 5.6.7.8 00 2\r\n",
        "PROXY TCP4 1.2.3.4 5.6.7.8 +1 2\r\n",
        "PROXY TCP4 1.2.3.4 5.6.7.8 -0 2\r\n",
        "PROXY TCP4 1.2.3.4 5.6.7.8 65536 2\r\n",
        "PROXY TCP4 1.2.3.4 5.6.7.8  2\r\n",
        "PROXY TCP4 01.2.3.4 5.6.7.8 1 2\r\n",
        "PROXY TCP4 1.2.3 5.6.7.8 1 2\r\n",
        "PROXY TCP4 1.2.3.256 5.6.7.8 1 2\r\n",
        "PROXY TCP4 ::1 ::1 1 2\r\n",
        "PROXY TCP4 ::ffff:1.2.3.4 5.6.7.8 1 2\r\n",
        "PROXY TCP6 1.2.3.4 ::1 1 2\r\n",
        "PROXY TCP6 ::1 1.2.3.4 1 2\r\n",
        "PROXY TCP6 [::1] ::1 1 2\r\n",
        "PROXY TCP6 fe80::1%1 ::1 1 2\r\n",
        "PROXY TCP6 ::1:: ::1 1 2\r\n",
        "PROXY TCP5 ::1 ::1 1 2\r\n",
        "PROXY tcp4 1.2.3.4 5.6.7.8 1 2\r\n",
        "PROXY UDP4 1.2.3.4 5.6.7.8 1 2\r\n",
        "PROXY UNKNOWNS\r\n",
        "PROXY unknown\r\n",
        // Seen before the line is over.
        "PROXY TCP4 1.2.3.4\n",
        "PROXY TCP4 1.2.3.4\r ",
        "PROXY UNKNOWN\n",
        "PROXY UNKNOWN\r\r\n",
        "PROXY UNKNOWN a\rb\r\n",
        "PROXY UNKNOWN a\nb\r\n",
    ] {
        assert!(is_malformed(line.as_bytes()), "{line}: {:?}", read(line.as_bytes()));
    }
}

#[test]
fn refuses_lines_with_bytes_that_are_no_text() {
    for (before, after) in [("TCP4 ", "1.2.3.4 5.6.7.8 1 2"), ("TCP4 1.2.3.4 5.6.7.8 1 2", ""), ("", "")] {
        for byte in 0x80..=u8::MAX {
            for piece in [&[byte][..], &[b' ', byte], &[byte, b' ']] {
                let line = [LINE_START, before.as_bytes(), piece, after.as_bytes(), b"\r\n"].concat();
                assert!(is_malformed(&line), "{line:?}");
            }
        }
    }
}

#[test]
fn a_line_of_ipv4_has_one_form() {
    let mut rng = Rng::with_seed(3);
    let mut headers = 0;
    for _ in 0..50_000 {
        let mut line = EXAMPLE.to_vec();
        for _ in 0..rng.usize(1..4) {
            let at = rng.usize(LINE_START.len() + 4..line.len());
            let byte = if rng.bool() { b"0 .19\r\n"[rng.usize(..7)] } else { rng.u8(..) };
            match rng.bool() {
                true => line[at] = byte,
                false => line.insert(at, byte),
            }
        }
        if let Read::Header(Header { len, addresses: Some(Addresses { source, destination }), .. }) =
            read(&line)
        {
            headers += 1;
            let intro = Intro { source, destination, authority: None, alpn: None, unique_id: None };
            assert_eq!(v1(&intro).as_bytes(), &line[..len]);
        }
    }
    assert!(headers > 1000, "{headers}");
}

#[test]
fn lines_end_within_107_bytes() {
    let line = |length: usize| format!("PROXY UNKNOWN {}", "x".repeat(length - 14)).into_bytes();
    assert_eq!(read(&line(106)), Read::Incomplete);
    assert_eq!(read(&line(107)), Read::Malformed("no CRLF within 107 bytes"));
    for end in [&b"\r"[..], b"\r\n", b"\r\r", b"x"] {
        let bytes = [&line(106), end].concat();
        assert_eq!(read(&bytes), Read::Malformed("no CRLF within 107 bytes"), "{end:?}");
    }
    assert_eq!(read(&[&line(105)[..], b"\r"].concat()), Read::Incomplete);
    assert_eq!(read(&[&line(105)[..], b"\r\nx"].concat()), plain(&[0; 107], None));
}

#[test]
fn other_beginnings_are_absent_at_the_first_byte_that_differs() {
    assert_eq!(read(b""), Read::Incomplete);
    for start in [LINE_START, BLOCK_START] {
        for at in 0..start.len() {
            assert_eq!(read(&start[..at]), Read::Incomplete);
            for byte in (0..=u8::MAX).filter(|byte| *byte != start[at]) {
                let expected = match at {
                    0 if [b'P', b'\r'].contains(&byte) => Read::Incomplete,
                    _ => Read::Absent,
                };
                assert_eq!(read(&[&start[..at], &[byte]].concat()), expected, "{at} {byte}");
            }
        }
    }
    for bytes in
        [&b"GET / HTTP/1.1\r\n"[..], b"PROXYING / HTTP/1.1\r\n", b"\r\nGET /", b"\x16\x03\x01", b"POST"]
    {
        assert_eq!(read(bytes), Read::Absent);
    }
}

#[test]
fn every_prefix_of_a_header_is_incomplete() {
    for bytes in sound() {
        let whole = read(&bytes);
        assert!(matches!(&whole, Read::Header(header) if header.len == bytes.len()), "{whole:?}");
        for end in 0..bytes.len() {
            assert_eq!(read(&bytes[..end]), Read::Incomplete, "{bytes:?} {end}");
        }
        for after in [&b"\r\n"[..], b"\0", EXAMPLE, &[0xff; 300]] {
            assert_eq!(read(&[&bytes, after].concat()), whole);
        }
    }
}

#[test]
fn a_verdict_on_damaged_bytes_lasts() {
    for bytes in sound() {
        for at in 0..bytes.len() {
            for byte in 0..=u8::MAX {
                let mut damaged = bytes.clone();
                damaged[at] = byte;
                let verdict = read(&damaged);
                if let Read::Header(header) = &verdict {
                    assert!(header.len <= damaged.len());
                }
                // After what is Incomplete anything may come.
                if verdict != Read::Incomplete {
                    damaged.extend_from_slice(b"\r\n\0more");
                    assert_eq!(read(&damaged), verdict, "{damaged:?}");
                }
            }
        }
    }
}

#[test]
fn junk_after_a_signature_is_read_without_harm() {
    let mut rng = Rng::with_seed(2);
    let mut headers = 0;
    for _ in 0..20_000 {
        let mut junk = match rng.u8(..4) {
            0 => LINE_START.to_vec(),
            1 => with(&[]),
            _ => block(rng.u8(0x20..0x22), rng.u8(..0x33), &[]),
        };
        let length = rng.usize(..300);
        // Small numbers make types and lengths of TLVs.
        junk.extend((0..length).map(|_| if rng.bool() { rng.u8(..8) } else { rng.u8(..) }));
        if junk.starts_with(BLOCK_START) {
            junk[BLOCK_HEAD - 2..BLOCK_HEAD].copy_from_slice(&rng.u16(..300).to_be_bytes());
        }
        if let Read::Header(header) = read(&junk) {
            headers += 1;
            assert_eq!(read(&junk[..header.len - 1]), Read::Incomplete);
            assert_eq!(read(&junk[..header.len]), Read::Header(header));
        }
    }
    assert!(headers > 1000, "{headers}");
}

#[test]
fn reads_the_addresses_of_each_family() {
    let ipv6 = [&[0xfd; 16][..], &[0; 15], &[1, 0, 80, 0xff, 0xff]].concat();
    let of_ipv6 = addresses("[fdfd:fdfd:fdfd:fdfd:fdfd:fdfd:fdfd:fdfd]:80", "[::1]:65535");
    let unix = [b'/'; UNIX];
    for (family, block_of, expected) in [
        (TCP_IPV4, IPV4, ipv4()),
        (UDP_IPV4, IPV4, ipv4()),
        (TCP_IPV6, &ipv6, of_ipv6),
        (UDP_IPV6, &ipv6, of_ipv6),
        (STREAM_UNIX, &unix, None),
        (DATAGRAM_UNIX, &unix, None),
    ] {
        let bytes = block(PROXY, family, &[block_of]);
        assert_eq!(read(&bytes), plain(&bytes, expected), "{family:#x}");
        let names = block(PROXY, family, &[block_of, &tlv(AUTHORITY, b"a.test")]);
        let Read::Header(header) = read(&names) else { panic!("{family:#x}") };
        assert_eq!((header.addresses, header.authority.as_deref()), (expected, Some("a.test")));
        let short = block(PROXY, family, &[&block_of[1..]]);
        assert_eq!(read(&short), Read::Malformed("addresses that pass its end"), "{family:#x}");
    }
}

#[test]
fn skips_what_is_local_or_unspecified() {
    // No TLV, and one byte less than an address.
    for junk in [&[][..], &[0xff; 11], &[0xff; 500], &tlv(AUTHORITY, b"a.test")] {
        for family in 0..=u8::MAX {
            let bytes = block(LOCAL, family, &[junk]);
            assert_eq!(read(&bytes), plain(&bytes, None), "{family:#x}");
        }
        for family in [0x00, 0x01, 0x02, 0x10, 0x20, 0x30] {
            let bytes = block(PROXY, family, &[junk]);
            assert_eq!(read(&bytes), plain(&bytes, None), "{family:#x}");
        }
    }
}

#[test]
fn refuses_versions_commands_and_families_that_there_are_not() {
    for command in (0..=u8::MAX).filter(|command| ![LOCAL, PROXY].contains(command)) {
        // Seen as soon as it is there.
        assert!(is_malformed(&[BLOCK_START, &[command]].concat()), "{command:#x}");
    }
    for family in (0..=u8::MAX).filter(|family| family >> 4 > 3 || family & 0x0f > 2) {
        assert!(is_malformed(&block(PROXY, family, &[&[0; UNIX]])), "{family:#x}");
    }
}

#[test]
fn a_header_has_4_kib_at_most() {
    let room = PROXY_HEADER - BLOCK_HEAD;
    let largest = with(&[tlv(0xee, &vec![0xee; room - IPV4.len() - 3])]);
    assert_eq!(largest.len(), PROXY_HEADER);
    assert_eq!(read(&largest), plain(&largest, ipv4()));
    assert_eq!(read(&largest[..PROXY_HEADER - 1]), Read::Incomplete);
    for command in [LOCAL, PROXY] {
        for length in [room + 1, usize::from(u16::MAX)] {
            let head = [BLOCK_START, &[command, TCP_IPV4], &(length as u16).to_be_bytes()].concat();
            assert_eq!(read(&head), Read::Malformed("more than 4 KiB"));
        }
    }
}

#[test]
fn reads_the_tlvs() {
    let bytes = with(&[
        tlv(0x04, &[]),
        tlv(ALPN, b"http/1.1"),
        tlv(0x20, &[1, 0, 0, 0, 0, AUTHORITY, 0xff, 0xff]),
        tlv(AUTHORITY, "b\u{fc}cher.test".as_bytes()),
        tlv(0x04, &[0xff; 20]),
        tlv(0x04, &[]),
        tlv(UNIQUE_ID, &[0xff; ID]),
        tlv(0xff, &[0]),
    ]);
    let expected = Header {
        len: bytes.len(),
        addresses: ipv4(),
        authority: Some("b\u{fc}cher.test".to_owned()),
        alpn: Some(b"http/1.1".to_vec()),
        unique_id: Some(vec![0xff; ID]),
    };
    assert_eq!(read(&bytes), Read::Header(expected));
}

#[test]
fn names_out_of_bounds_are_ignored_and_long_ids_refused() {
    for (kind, value) in [
        (AUTHORITY, vec![]),
        (AUTHORITY, vec![b'a'; NAME + 1]),
        (AUTHORITY, vec![b'a', 0xff]),
        (ALPN, vec![]),
        (ALPN, vec![b'a'; NAME + 1]),
    ] {
        let bytes = with(&[tlv(kind, &value)]);
        assert_eq!(read(&bytes), plain(&bytes, ipv4()), "{kind} {value:?}");
    }
    let bytes = with(&[tlv(AUTHORITY, &[b'a'; NAME]), tlv(ALPN, &[0xff; NAME]), tlv(UNIQUE_ID, &[])]);
    let Read::Header(header) = read(&bytes) else { panic!() };
    assert_eq!(header.authority, Some("a".repeat(NAME)));
    assert_eq!((header.alpn, header.unique_id), (Some(vec![0xff; NAME]), Some(vec![])));
    assert!(is_malformed(&with(&[tlv(UNIQUE_ID, &[0; ID + 1])])));
}

#[test]
fn refuses_known_tlvs_that_stand_twice() {
    for (kind, value) in [(ALPN, &b"h2"[..]), (AUTHORITY, b"a"), (AUTHORITY, b""), (UNIQUE_ID, b"")] {
        let bytes = with(&[tlv(kind, value), tlv(0x04, b""), tlv(kind, b"b")]);
        assert_eq!(read(&bytes), Read::Malformed("a TLV that stands twice"));
    }
    let twice = sealed(&[tlv(CRC32C, &[0; 4])]);
    assert_eq!(read(&twice), Read::Malformed("a TLV that stands twice"));
    // Its low bits are those of another type.
    for kind in [0x04, 0x21, 0x82, 0xff] {
        let bytes = with(&[tlv(kind, b"a"), tlv(kind, b"b")]);
        assert_eq!(read(&bytes), plain(&bytes, ipv4()));
    }
}

#[test]
fn refuses_tlvs_that_pass_the_end() {
    let whole = [tlv(AUTHORITY, b"a.test"), tlv(0xe0, b"last")].concat();
    for end in 0..=whole.len() {
        let bytes = block(PROXY, TCP_IPV4, &[IPV4, &whole[..end]]);
        let is_cut = ![0, 9, whole.len()].contains(&end);
        assert_eq!(is_malformed(&bytes), is_cut, "{end}");
        // The bytes are there, but not in the header.
        assert_eq!(read(&[&bytes, &whole[end..]].concat()), read(&bytes));
    }
    for kind in 0..=u8::MAX {
        let bytes = block(PROXY, TCP_IPV4, &[IPV4, &[kind, 0xff, 0xff, 0]]);
        assert_eq!(read(&bytes), Read::Malformed("a TLV that passes its end"));
    }
}

#[test]
fn verifies_the_checksum() {
    // RFC 3720 §B.4, and the check value of CRC-32C.
    assert_eq!(crc32c([&[0; 32], &[], &[]]), 0x8a91_36aa);
    assert_eq!(crc32c([&[0xff; 30], &[0xff], &[0xff]]), 0x62a8_ab43);
    assert_eq!(crc32c([b"123", b"", b"456789"]), 0xe306_9283);

    for tlvs in [&[][..], &[tlv(AUTHORITY, b"a.test"), tlv(0xe0, &[0; 40])]] {
        let bytes = sealed(tlvs);
        let Read::Header(header) = read(&bytes) else { panic!("{:?}", read(&bytes)) };
        assert_eq!((header.len, header.addresses), (bytes.len(), ipv4()));
        for at in BLOCK_HEAD..bytes.len() {
            for bit in 0..8 {
                let mut damaged = bytes.clone();
                damaged[at] ^= 1 << bit;
                // The type of the checksum itself: it is another TLV then.
                let is_type = at == BLOCK_HEAD + IPV4.len();
                assert!(is_type || is_malformed(&damaged), "{at} {bit}");
            }
        }
    }
    for length in [0, 3, 5, 8] {
        assert_eq!(
            read(&with(&[tlv(CRC32C, &vec![0; length])])),
            Read::Malformed("a checksum that is not 4 bytes")
        );
    }
}

fn intro(source: &str, destination: &str) -> Intro<'static> {
    let Some(Addresses { source, destination }) = addresses(source, destination) else { panic!() };
    Intro { source, destination, authority: None, alpn: None, unique_id: None }
}

fn v1(intro: &Intro<'_>) -> String {
    let mut out = b"kept".to_vec();
    intro.write_v1(&mut out);
    String::from_utf8(out).unwrap().strip_prefix("kept").unwrap().to_owned()
}

fn v2(intro: &Intro<'_>) -> Vec<u8> {
    let mut out = b"kept".to_vec();
    intro.write_v2(&mut out);
    out.strip_prefix(b"kept").unwrap().to_vec()
}

#[test]
fn writes_lines_as_the_specification_has_them() {
    for (source, destination, expected) in [
        ("192.168.0.1:56324", "192.168.0.11:443", "TCP4 192.168.0.1 192.168.0.11 56324 443"),
        ("[::ffff:1.2.3.4]:1", "[::ffff:5.6.7.8]:2", "TCP4 1.2.3.4 5.6.7.8 1 2"),
        ("[::1]:0", "[2001:DB8::2]:65535", "TCP6 ::1 2001:db8::2 0 65535"),
        ("[::]:1", "[::1.2.3.4]:2", "TCP6 :: ::102:304 1 2"),
        ("1.2.3.4:1", "[::1]:2", "TCP6 ::ffff:102:304 ::1 1 2"),
        ("[fe80::1%7]:1", "[::ffff:0.0.0.0]:2", "TCP6 fe80::1 ::ffff:0:0 1 2"),
    ] {
        assert_eq!(v1(&intro(source, destination)), format!("PROXY {expected}\r\n"));
    }
    let full = format!("[{FULL}]:65535");
    assert_eq!(v1(&intro(&full, &full)).len(), 104);
}

#[test]
fn writes_blocks_without_what_is_too_long() {
    let plain = intro("10.0.0.1:1024", "10.0.0.2:443");
    assert_eq!(v2(&plain), with(&[]));
    let long = "a".repeat(NAME + 1);
    let names = Intro { authority: Some(&long), alpn: Some(long.as_bytes()), ..plain };
    assert_eq!(v2(&Intro { unique_id: Some(&[0; ID + 1]), ..names }), with(&[]));
    assert_eq!(v2(&Intro { authority: Some(""), alpn: Some(&[]), ..plain }), with(&[]));
    let some = Intro { authority: Some("a.test"), alpn: Some(b"h2"), unique_id: Some(&[]), ..plain };
    let expected = with(&[tlv(ALPN, b"h2"), tlv(AUTHORITY, b"a.test"), tlv(UNIQUE_ID, &[])]);
    assert_eq!(v2(&some), expected);
    let longest = Intro {
        authority: Some(&long[1..]),
        alpn: Some(&long.as_bytes()[1..]),
        unique_id: Some(&[0; ID]),
        ..intro("[::1]:1", "[::1]:2")
    };
    assert_eq!(v2(&longest).len(), 699);
}

#[test]
fn what_is_written_is_read_again() {
    let mut rng = Rng::with_seed(1);
    for _ in 0..5000 {
        let mut address = || {
            let ip = match rng.u8(..3) {
                0 => IpAddr::from(rng.u32(..).to_be_bytes()),
                1 => IpAddr::V6(Ipv4Addr::from(rng.u32(..)).to_ipv6_mapped()),
                // Runs of zeros are what text shortens.
                _ => {
                    IpAddr::from(std::array::from_fn::<_, 8, _>(|_| if rng.bool() { 0 } else { rng.u16(..) }))
                }
            };
            SocketAddr::new(ip, rng.u16(..))
        };
        let (source, destination) = (address(), address());
        let authority: String = (0..rng.usize(1..=NAME)).map(|_| rng.lowercase()).collect();
        let alpn: Vec<u8> = (0..rng.usize(1..=NAME)).map(|_| rng.u8(..)).collect();
        let unique_id: Vec<u8> = (0..rng.usize(..=ID)).map(|_| rng.u8(..)).collect();
        let intro = Intro {
            source,
            destination,
            authority: rng.bool().then_some(&authority),
            alpn: rng.bool().then_some(&alpn),
            unique_id: rng.bool().then_some(&unique_id),
        };
        let canonical = |address: SocketAddr| (address.ip().to_canonical(), address.port());
        let (line, block) = (v1(&intro).into_bytes(), v2(&intro));
        let (Read::Header(of_line), Read::Header(of_block)) = (read(&line), read(&block)) else {
            panic!("{intro:?}")
        };
        assert_eq!((of_line.len, of_block.len), (line.len(), block.len()));
        assert_eq!(of_line.addresses, of_block.addresses);
        let read = of_block.addresses.unwrap();
        assert_eq!(read.source.is_ipv4(), read.destination.is_ipv4());
        assert_eq!(canonical(read.source), canonical(source));
        assert_eq!(canonical(read.destination), canonical(destination));
        assert_eq!(of_block.authority.as_deref(), intro.authority);
        assert_eq!(of_block.alpn.as_deref(), intro.alpn);
        assert_eq!(of_block.unique_id.as_deref(), intro.unique_id);
    }
}
