//! A set of client addresses, built from the networks that a route names.
//!
//! Kept as sorted ranges that do not overlap, so that a test costs a binary search however many
//! networks there are. An IPv4 address mapped into IPv6 (RFC 4291 §2.5.5.2), which a listener on `[::]`
//! reports, is the IPv4 address, in the networks as in the requests.

use std::net::{IpAddr, Ipv6Addr};

use ipnet::{IpNet, Ipv4Net};

/// Length of the prefix of mapped addresses, `::ffff:0:0/96`.
const MAPPED_PREFIX: u8 = 96;

/// A set of addresses.
#[derive(Debug, Default)]
pub(crate) struct AddressSet {
    v4: Box<[(u32, u32)]>,
    v6: Box<[(u128, u128)]>,
}

impl AddressSet {
    pub(crate) fn new(networks: &[IpNet]) -> Self {
        let mut v4 = Vec::new();
        let mut v6 = Vec::new();
        for network in IpNet::aggregate(&networks.iter().copied().map(unmapped).collect()) {
            match network {
                IpNet::V4(net) => v4.push((net.network().to_bits(), net.broadcast().to_bits())),
                IpNet::V6(net) => v6.push((net.network().to_bits(), net.broadcast().to_bits())),
            }
        }
        v4.sort_unstable();
        v6.sort_unstable();
        Self { v4: v4.into(), v6: v6.into() }
    }

    /// Whether no network was named.
    pub(crate) fn is_empty(&self) -> bool {
        self.v4.is_empty() && self.v6.is_empty()
    }

    pub(crate) fn contains(&self, address: IpAddr) -> bool {
        match address.to_canonical() {
            IpAddr::V4(address) => within(&self.v4, address.to_bits()),
            IpAddr::V6(address) => within(&self.v6, address.to_bits()),
        }
    }
}

fn within<T: Ord + Copy>(ranges: &[(T, T)], address: T) -> bool {
    let after = ranges.partition_point(|(first, _)| *first <= address);
    after > 0 && ranges[after - 1].1 >= address
}

/// An IPv4 network that is written as a part of IPv6 is the IPv4 network.
pub(crate) fn unmapped(network: IpNet) -> IpNet {
    if let IpNet::V6(net) = network
        && net.prefix_len() >= MAPPED_PREFIX
        && let Some(address) = Ipv6Addr::to_ipv4_mapped(&net.addr())
        && let Ok(net) = Ipv4Net::new(address, net.prefix_len() - MAPPED_PREFIX)
    {
        return IpNet::V4(net);
    }
    network
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(networks: &[&str]) -> AddressSet {
        AddressSet::new(&networks.iter().map(|text| text.parse().unwrap()).collect::<Vec<_>>())
    }

    #[test]
    fn holds_its_networks_and_nothing_else() {
        let set = set(&["10.1.0.0/16", "10.1.2.0/24", "192.0.2.7/32", "2001:db8::/32", "9.0.0.0/8"]);
        for inside in ["10.1.0.0", "10.1.255.255", "192.0.2.7", "2001:db8::1", "9.255.255.255"] {
            assert!(set.contains(inside.parse().unwrap()), "{inside}");
        }
        for outside in
            ["10.2.0.0", "10.0.255.255", "192.0.2.8", "2001:db9::", "::1", "255.255.255.255", "0.0.0.0"]
        {
            assert!(!set.contains(outside.parse().unwrap()), "{outside}");
        }
    }

    #[test]
    fn a_mapped_address_is_its_ipv4_address() {
        assert!(set(&["10.0.0.0/8"]).contains("::ffff:10.1.2.3".parse().unwrap()));
        assert!(set(&["::ffff:10.0.0.0/104"]).contains("10.1.2.3".parse().unwrap()));
    }

    #[test]
    fn whole_address_families_work() {
        assert!(set(&["0.0.0.0/0"]).contains("255.255.255.255".parse().unwrap()));
        assert!(!set(&["0.0.0.0/0"]).contains("2001:db8::".parse().unwrap()));
        assert!(set(&["::/0"]).contains("2001:db8::".parse().unwrap()));
    }
}
