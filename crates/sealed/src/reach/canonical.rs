//! The IPv4 address that stands inside an IPv6 address.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The address that packets come to in the end, as far as the address tells it: IPv4 for
///
/// - IPv4-mapped addresses (`::ffff:a.b.c.d`, RFC 4291 §2.5.5.2),
/// - IPv4-compatible ones (`::a.b.c.d`, RFC 4291 §2.5.5.1), but not `::` and `::1`,
/// - NAT64 (`64:ff9b::/96`, RFC 6052 §2.1),
/// - local NAT64 (`64:ff9b:1::/48`, RFC 8215) where one reading is left: 96 bits of prefix with zeros behind the first
///   48, or 48 bits of prefix with zeros behind the address (RFC 6052 §2.2); others stay and are
///   [`Special::Translated`](crate::reach::Special::Translated),
/// - 6to4 (`2002::/16`, RFC 3056 §2), and
/// - Teredo (`2001::/32`, RFC 4380 §4), where it is the address of the client.
///
/// All others stay as they are.
pub fn canonical(ip: IpAddr) -> IpAddr {
    match ip {
        IpAddr::V4(_) => ip,
        IpAddr::V6(v6) => embedded(v6).map_or(ip, IpAddr::V4),
    }
}

fn embedded(ip: Ipv6Addr) -> Option<Ipv4Addr> {
    let octets = ip.octets();
    let [.., a, b, c, d] = octets;
    let last = Some(Ipv4Addr::new(a, b, c, d));
    match ip.segments() {
        [0, 0, 0, 0, 0, 0, 0, 0 | 1] => None,
        [0, 0, 0, 0, 0, 0 | 0xffff, ..] | [0x64, 0xff9b, 0, 0, 0, 0, ..] => last,
        [0x64, 0xff9b, 1, 0, 0, 0, high, low] if (high, low) != (0, 0) => last,
        // Byte 8 is zero, the address stands around it.
        [0x64, 0xff9b, 1, ..] if octets[8] == 0 && octets[11..] == [0; 5] => {
            Some(Ipv4Addr::new(octets[6], octets[7], octets[9], octets[10]))
        }
        [0x2002, ..] => Some(Ipv4Addr::new(octets[2], octets[3], octets[4], octets[5])),
        [0x2001, 0, ..] => Some(Ipv4Addr::new(!a, !b, !c, !d)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_ipv4_address_inside() {
        for (text, inside) in [
            ("::ffff:192.0.2.33", "192.0.2.33"),
            ("::192.0.2.33", "192.0.2.33"),
            ("::2", "0.0.0.2"),
            ("64:ff9b::192.0.2.33", "192.0.2.33"),
            ("64:ff9b::", "0.0.0.0"),
            ("64:ff9b:1::192.0.2.33", "192.0.2.33"),
            ("64:ff9b:1:c000:2:2100::", "192.0.2.33"),
            ("64:ff9b:1::", "0.0.0.0"),
            ("2002:c000:221::1", "192.0.2.33"),
            ("2002:c000:221:ffff:ffff:ffff:ffff:ffff", "192.0.2.33"),
            // RFC 4380 §4: the client's address is written inverted.
            ("2001:0:4136:e378:8000:63bf:3fff:fdd2", "192.0.2.45"),
        ] {
            assert_eq!(canonical(text.parse().unwrap()), inside.parse::<IpAddr>().unwrap(), "{text}");
        }
    }

    #[test]
    fn leaves_all_others_alone() {
        for text in [
            "192.0.2.33",
            "::",
            "::1",
            "::1:0:0:1",
            "::fffe:192.0.2.33",
            "64:ff9b::1:192.0.2.33",
            "64:ff9b:1:2::192.0.2.33",
            "64:ff9b:1:a:0:1:0:1",
            "64:ff9b:2::192.0.2.33",
            "2001:db8::192.0.2.33",
            "2003::1",
            "fe80::1",
        ] {
            let ip = text.parse().unwrap();
            assert_eq!(canonical(ip), ip, "{text}");
        }
    }
}
