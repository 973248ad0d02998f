//! Tests of the table, some of them against a plain list.

use super::*;
use std::hint::black_box;
use std::time::Instant;

fn table(networks: &[&str]) -> Networks {
    Networks::new(networks.iter().map(|text| network(text).unwrap()))
}

fn found(table: &Networks, address: &str) -> Option<String> {
    table.find(address.parse().unwrap()).map(|network| Written(network).to_string())
}

#[test]
fn addresses_are_found_in_networks_of_both_families() {
    let table = table(&["10.0.0.0/8", "192.0.2.7", "2001:db8::/32", "::1", "0.0.0.0/32"]);
    for (address, network) in [
        ("10.0.0.0", Some("10.0.0.0/8")),
        ("10.255.255.255", Some("10.0.0.0/8")),
        ("11.0.0.0", None),
        ("9.255.255.255", None),
        ("192.0.2.7", Some("192.0.2.7")),
        ("192.0.2.8", None),
        ("0.0.0.0", Some("0.0.0.0")),
        ("255.255.255.255", None),
        ("2001:db8:ffff::1", Some("2001:db8::/32")),
        ("2001:db9::", None),
        ("::1", Some("::1")),
        ("::", None),
    ] {
        assert_eq!(found(&table, address).as_deref(), network, "{address}");
        assert_eq!(table.contains(address.parse().unwrap()), network.is_some(), "{address}");
    }
    let last = self::table(&["255.255.255.255", "ffff:ffff:ffff:ffff::/64", "10.0.0.0/8"]);
    for (address, is_in) in [("255.255.255.255", true), ("255.255.255.254", false)] {
        assert_eq!(last.contains(address.parse().unwrap()), is_in, "{address}");
    }
    assert!(last.contains("ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff".parse().unwrap()));
    assert_eq!(Networks::default().find(IpAddr::V4(Ipv4Addr::LOCALHOST)), None);
    assert!(Networks::default().is_empty() && !table.is_empty());
}

#[test]
fn ipv4_within_ipv6_is_ipv4_on_both_sides() {
    let both = table(&["::ffff:10.0.0.0/104", "::ffff:192.0.2.7", "198.51.100.0/24"]);
    for address in ["10.1.2.3", "::ffff:10.1.2.3", "192.0.2.7", "::ffff:198.51.100.9"] {
        assert!(both.contains(address.parse().unwrap()), "{address}");
    }
    assert_eq!(found(&both, "::ffff:10.1.2.3").unwrap(), "10.0.0.0/8");
    // A network of IPv6 around them has nothing of IPv4.
    assert!(!table(&["::/0"]).contains("10.1.2.3".parse().unwrap()));
    assert!(table(&["0.0.0.0/0"]).contains("::ffff:10.1.2.3".parse().unwrap()));
}

#[test]
fn networks_within_others_add_nothing() {
    let table =
        table(&["10.1.0.0/16", "10.0.0.0/8", "10.0.0.0/9", "10.0.0.0/8", "10.255.255.255", "11.0.0.0/8"]);
    assert_eq!(table.len(), 2);
    assert_eq!(found(&table, "10.1.2.3").unwrap(), "10.0.0.0/8");
    let all = Networks::new(["0.0.0.0/0", "128.0.0.0/1"].map(|text| text.parse().unwrap()));
    assert_eq!((all.len(), found(&all, "200.0.0.1").unwrap().as_str()), (1, "0.0.0.0/0"));
}

#[test]
fn what_is_no_network_is_told_apart() {
    assert_eq!(network("10.0.0.1/8"), Err("has bits set behind its prefix"));
    for text in ["", "10.0.0.0/33", "10.0.0.0/", "10.0.0", "a", "::/129", "10.0.0.0/8 ", "10.0.0.0/-1"] {
        assert!(network(text).is_err(), "{text}");
    }
}

/// A generator of test data that is the same everywhere (xorshift64*).
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }
}

#[test]
fn finds_what_a_plain_list_finds() {
    let mut numbers = Numbers(7);
    let mut networks = Vec::new();
    for _ in 0..2000 {
        let number = numbers.next();
        // Few bits, so that networks contain each other and addresses meet them.
        let v4 = Ipv4Addr::from((number as u32) & 0x0fff_00ff);
        networks.push(IpNet::new(v4.into(), 8 + (number >> 40) as u8 % 25).unwrap().trunc());
        let v6 = Ipv6Addr::from(u128::from(number & 0x0fff_00ff_00ff_0003) << 64);
        networks.push(IpNet::new(v6.into(), 16 + (number >> 40) as u8 % 113).unwrap().trunc());
    }
    let table = Networks::new(networks.iter().copied());
    for _ in 0..2000 {
        let number = numbers.next();
        for address in [
            IpAddr::from(Ipv4Addr::from((number as u32) & 0x0fff_00ff)),
            Ipv6Addr::from(u128::from(number & 0x0fff_00ff_00ff_0003) << 64 | 1).into(),
        ] {
            let plain = networks.iter().filter(|network| network.contains(&address));
            let largest = plain.min_by_key(|network| network.prefix_len()).copied();
            assert_eq!(table.find(address), largest, "{address}");
        }
    }
}

/// What decision 0075 states: `cargo test --release -p thalweg-access -- --ignored --nocapture million`.
#[test]
#[ignore = "measures; run it with --release on a quiet machine"]
fn a_million_networks_are_searched_within_200_nanoseconds() {
    for (family, is_v6) in [("IPv4", false), ("IPv6", true)] {
        let mut numbers = Numbers(11);
        let mut address = || -> IpAddr {
            let number = numbers.next();
            match is_v6 {
                false => Ipv4Addr::from(number as u32).into(),
                true => Ipv6Addr::from(0x2000 << 112 | u128::from(number) << 60).into(),
            }
        };
        let lengths: [u8; 3] = if is_v6 { [32, 48, 64] } else { [24, 28, 32] };
        let networks = (0..1_000_000_usize).map(|at| IpNet::new(address(), lengths[at % 3]).unwrap());
        let networks: Vec<_> = networks.collect();
        let begun = Instant::now();
        let table = Networks::new(networks.iter().copied());
        let built = begun.elapsed();
        let asked: Vec<IpAddr> = (0..1 << 20)
            .map(|at| if at % 2 == 0 { networks[at % networks.len()].addr() } else { address() })
            .collect();
        let begun = Instant::now();
        let hits = asked.iter().filter(|address| black_box(&table).contains(black_box(**address))).count();
        let each = begun.elapsed() / asked.len() as u32;
        println!(
            "{family}: {} networks, {} bytes, built in {built:?}, {each:?} each, {hits} hits",
            table.len(),
            table.bytes()
        );
        assert!(each.as_nanos() <= 200, "{each:?}");
    }
}
