//! Addresses that are never meant by a wide network: they have to be named.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};

use super::canonical::canonical;

/// What is special about an address. Where several hold, the first of this list is told.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Special {
    /// Services of clouds that hand out credentials to whoever asks from the machine.
    Metadata,
    /// `127.0.0.0/8`, `::1`.
    Loopback,
    /// `0.0.0.0/8`, `::`: a connection to these goes to the machine itself.
    Unspecified,
    /// `169.254.0.0/16`, `fe80::/10`.
    LinkLocal,
    /// `224.0.0.0/4`, `ff00::/8`.
    Multicast,
    /// `255.255.255.255`.
    Broadcast,
    /// `240.0.0.0/4`.
    Reserved,
    /// `64:ff9b:1::/48` where several IPv4 addresses may be meant (see [`canonical`]).
    Translated,
}

const fn v4(a: u8, b: u8, c: u8, d: u8, prefix: u8) -> IpNet {
    IpNet::V4(Ipv4Net::new_assert(Ipv4Addr::new(a, b, c, d), prefix))
}

const fn v6(first: [u16; 3], last: u16, prefix: u8) -> IpNet {
    let [a, b, c] = first;
    IpNet::V6(Ipv6Net::new_assert(Ipv6Addr::new(a, b, c, 0, 0, 0, 0, last), prefix))
}

/// The ranges, in the order in which they are told.
const RANGES: &[(Special, IpNet)] = &[
    // Most clouds.
    (Special::Metadata, v4(169, 254, 169, 254, 32)),
    (Special::Metadata, v6([0xfd00, 0xec2, 0], 0x254, 128)),
    (Special::Metadata, v6([0xfd20, 0xce, 0], 0x254, 128)),
    // Credentials of tasks and pods.
    (Special::Metadata, v4(169, 254, 170, 2, 32)),
    (Special::Metadata, v4(169, 254, 170, 23, 32)),
    (Special::Metadata, v6([0xfd00, 0xec2, 0], 0x23, 128)),
    // Alibaba Cloud, Oracle Cloud, Azure.
    (Special::Metadata, v4(100, 100, 100, 200, 32)),
    (Special::Metadata, v4(192, 0, 0, 192, 32)),
    (Special::Metadata, v4(168, 63, 129, 16, 32)),
    (Special::Loopback, v4(127, 0, 0, 0, 8)),
    (Special::Loopback, v6([0; 3], 1, 128)),
    (Special::Unspecified, v4(0, 0, 0, 0, 8)),
    (Special::Unspecified, v6([0; 3], 0, 128)),
    (Special::LinkLocal, v4(169, 254, 0, 0, 16)),
    (Special::LinkLocal, v6([0xfe80, 0, 0], 0, 10)),
    (Special::Multicast, v4(224, 0, 0, 0, 4)),
    (Special::Multicast, v6([0xff00, 0, 0], 0, 8)),
    (Special::Broadcast, v4(255, 255, 255, 255, 32)),
    (Special::Reserved, v4(240, 0, 0, 0, 4)),
    (Special::Translated, v6([0x64, 0xff9b, 1], 0, 48)),
];

impl Special {
    /// What is special about an address, which is [brought to its canonical form](canonical) first.
    pub fn of(ip: IpAddr) -> Option<Self> {
        range_of(canonical(ip)).map(|(special, _)| *special)
    }
}

/// The first range in which a canonical address lies.
pub(super) fn range_of(ip: IpAddr) -> Option<&'static (Special, IpNet)> {
    RANGES.iter().find(|(_, range)| range.contains(&ip))
}

impl fmt::Display for Special {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Metadata => "a metadata service",
            Self::Loopback => "a loopback address",
            Self::Unspecified => "an unspecified address",
            Self::LinkLocal => "a link-local address",
            Self::Multicast => "a multicast address",
            Self::Broadcast => "the broadcast address",
            Self::Reserved => "a reserved address",
            Self::Translated => "a translated address that can be read in several ways",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn special_addresses_are_told_apart_in_every_disguise() {
        use Special::*;
        for (text, special) in [
            ("127.0.0.1", Some(Loopback)),
            ("127.255.255.255", Some(Loopback)),
            ("::1", Some(Loopback)),
            ("::ffff:127.0.0.1", Some(Loopback)),
            ("::127.0.0.1", Some(Loopback)),
            ("64:ff9b::7f00:1", Some(Loopback)),
            ("2002:7f00:1::", Some(Loopback)),
            ("0.0.0.0", Some(Unspecified)),
            ("0.1.2.3", Some(Unspecified)),
            ("::", Some(Unspecified)),
            ("::ffff:0.0.0.0", Some(Unspecified)),
            ("169.254.1.1", Some(LinkLocal)),
            ("fe80::1", Some(LinkLocal)),
            ("febf::1", Some(LinkLocal)),
            ("fec0::1", None),
            ("169.254.169.254", Some(Metadata)),
            ("::ffff:169.254.169.254", Some(Metadata)),
            ("2001:0:1:2:3:4:5601:5601", Some(Metadata)),
            ("64:ff9b:1:a9fe:a9:fe00::", Some(Metadata)),
            ("fd00:ec2::254", Some(Metadata)),
            ("fd00:ec2::253", None),
            ("100.100.100.200", Some(Metadata)),
            ("192.0.0.192", Some(Metadata)),
            ("224.0.0.1", Some(Multicast)),
            ("ff02::1", Some(Multicast)),
            ("255.255.255.255", Some(Broadcast)),
            ("255.255.255.254", Some(Reserved)),
            ("240.0.0.1", Some(Reserved)),
            ("64:ff9b:1:2::7f00:1", Some(Translated)),
            ("10.0.0.1", None),
            ("192.0.2.1", None),
            ("2001:db8::1", None),
        ] {
            assert_eq!(Special::of(text.parse().unwrap()), special, "{text}");
        }
    }
}
