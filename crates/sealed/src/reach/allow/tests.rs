use super::*;
use crate::reach::Own;

fn allow(entries: &[&str]) -> Allow {
    entries.iter().map(|text| text.parse::<Entry>().unwrap()).collect()
}

fn permits(entries: &[&str], address: &str) -> Result<(), NotAllowed> {
    allow(entries).permits(address.parse().unwrap(), |_| false)
}

#[test]
fn networks_and_ports_are_read_and_written() {
    for (text, written) in [
        ("10.0.0.0/8:1024-65535", "10.0.0.0/8:1024-65535"),
        ("192.0.2.10:443", "192.0.2.10/32:443"),
        ("192.0.2.10/32:443-443", "192.0.2.10/32:443"),
        ("0.0.0.0/0:1-65535", "0.0.0.0/0:1-65535"),
        ("[2001:db8::/32]:443", "[2001:db8::/32]:443"),
        ("[2001:DB8::1]:80-90", "[2001:db8::1/128]:80-90"),
        ("[::/0]:443", "[::/0]:443"),
        ("[::1]:3000", "[::1/128]:3000"),
        ("[64:ff9b:1:2::/96]:443", "[64:ff9b:1:2::/96]:443"),
    ] {
        assert_eq!(text.parse::<Entry>().unwrap().to_string(), written);
        assert_eq!(written.parse::<Entry>().unwrap().to_string(), written);
    }
}

#[test]
fn what_needs_a_guess_is_refused_with_a_remedy() {
    for (text, word) in [
        ("", "has no port"),
        ("10.0.0.0/8", "has no port"),
        ("2001:db8::/32", "has no port"),
        ("::1", "has no port"),
        ("[2001:db8::/32]", "has no port behind the brackets"),
        ("[2001:db8::]/32:443", "the prefix stands in the brackets too"),
        ("2001:db8::/32:443", "stands in brackets"),
        ("fe80::1:2:3:4:5:6:80", "stands in brackets"),
        ("[10.0.0.0/8]:443", "without brackets"),
        ("10.1.2.3/8:443", "write `10.0.0.0/8`"),
        ("10.0.0.0/33:443", "is not a network"),
        ("example.com:443", "is not a network"),
        (" 10.0.0.1:443", "is not a network"),
        ("10.0.0.0/8:", "are no ports"),
        ("10.0.0.0/8:0", "are no ports"),
        ("10.0.0.0/8:0-80", "are no ports"),
        ("10.0.0.0/8:+80", "are no ports"),
        ("10.0.0.0/8:65536", "are no ports"),
        ("10.0.0.0/8:*", "`1-65535`"),
        ("10.0.0.0/8:80-", "are no ports"),
        ("10.0.0.0/8:80-70", "write `70-80`"),
        ("[::ffff:10.0.0.0/104]:80", "write the IPv4 network"),
        ("[::/96]:80", "write the IPv4 network"),
        ("[::2]:80", "write the IPv4 network"),
        ("[64:ff9b::/96]:80", "write the IPv4 network"),
        ("[2002::/16]:80", "write the IPv4 network"),
        ("[2001::/32]:80", "write the IPv4 network"),
    ] {
        let error = text.parse::<Entry>().unwrap_err();
        assert!(error.contains(word), "{text}: {error}");
    }
}

#[test]
fn only_what_an_entry_holds_is_permitted() {
    let entries = ["10.0.0.0/8:1024-65535", "[2001:db8::/32]:443"];
    for good in ["10.0.0.1:1024", "10.255.255.255:65535", "[::ffff:10.0.0.1]:8080", "[2001:db8::1]:443"] {
        assert_eq!(permits(&entries, good), Ok(()), "{good}");
    }
    for bad in ["10.0.0.1:1023", "11.0.0.1:8080", "[2001:db9::1]:443", "[2001:db8::1]:444", "10.0.0.1:0"] {
        assert_eq!(permits(&entries, bad), Err(NotAllowed::NotListed), "{bad}");
    }
    assert_eq!(permits(&[], "10.0.0.1:80"), Err(NotAllowed::NotListed));
    assert_eq!(permits(&["[::/0]:1-65535"], "[2002:a00:1::]:80"), Err(NotAllowed::NotListed));
}

#[test]
fn special_addresses_have_to_be_named() {
    let wide = ["0.0.0.0/0:1-65535", "[::/0]:1-65535"];
    for (address, special, naming) in [
        ("127.0.0.1:3000", Special::Loopback, "127.0.0.0/8:1-65535"),
        ("127.0.0.1:3000", Special::Loopback, "127.0.0.1:3000"),
        ("[::1]:3000", Special::Loopback, "[::1]:1-65535"),
        ("[::ffff:127.0.0.1]:3000", Special::Loopback, "127.0.0.1:3000"),
        ("[64:ff9b::7f00:1]:3000", Special::Loopback, "127.0.0.1:3000"),
        ("0.0.0.0:80", Special::Unspecified, "0.0.0.0:80"),
        ("[::]:80", Special::Unspecified, "[::]:80"),
        ("169.254.1.1:80", Special::LinkLocal, "169.254.0.0/16:80"),
        ("[fe80::1]:80", Special::LinkLocal, "[fe80::/10]:80"),
        ("169.254.169.254:80", Special::Metadata, "169.254.169.254:80"),
        ("[fd00:ec2::254]:80", Special::Metadata, "[fd00:ec2::254]:80"),
        ("100.100.100.200:80", Special::Metadata, "100.100.100.200:80"),
        ("224.0.0.1:80", Special::Multicast, "224.0.0.0/24:80"),
        ("255.255.255.255:80", Special::Broadcast, "255.255.255.255:80"),
        ("240.0.0.1:80", Special::Reserved, "240.0.0.0/4:80"),
        ("[64:ff9b:1:2::a00:1]:80", Special::Translated, "[64:ff9b:1:2::/96]:80"),
    ] {
        assert_eq!(permits(&wide, address), Err(NotAllowed::Special(special)), "{address}");
        assert_eq!(permits(&[wide[0], wide[1], naming], address), Ok(()), "{address} by {naming}");
    }
    // Networks that hold more than the special range name nothing.
    for (entry, address, special) in [
        ("126.0.0.0/7:80", "127.0.0.1:80", Special::Loopback),
        ("169.254.0.0/16:80", "169.254.169.254:80", Special::Metadata),
        ("240.0.0.0/4:80", "255.255.255.255:80", Special::Broadcast),
        ("[::/127]:80", "[::1]:80", Special::Loopback),
        ("100.64.0.0/10:80", "100.100.100.200:80", Special::Metadata),
        ("[fd00::/8]:80", "[fd00:ec2::254]:80", Special::Metadata),
    ] {
        assert_eq!(permits(&[entry], address), Err(NotAllowed::Special(special)), "{entry}");
    }
    // The entry that names it must hold the port, too.
    let entries = ["0.0.0.0/0:1-65535", "127.0.0.1:3000"];
    assert_eq!(permits(&entries, "127.0.0.1:3001"), Err(NotAllowed::Special(Special::Loopback)));
}

#[test]
fn own_addresses_have_to_be_named_one_by_one() {
    let listeners = ["0.0.0.0:8080", "127.0.0.1:9900"].map(|text| text.parse().unwrap());
    let own = Own::new(listeners);
    let is_machines = |ip: IpAddr| ip == IpAddr::from([10, 0, 0, 7]);
    let permits = |entry: &str, address: &str| {
        allow(&[entry]).permits(address.parse().unwrap(), |address| own.contains(address, is_machines))
    };
    for (entry, address) in [
        ("10.0.0.0/8:1-65535", "10.0.0.7:8080"),
        ("10.0.0.7:8080-8081", "10.0.0.7:8080"),
        ("10.0.0.6/31:8080", "10.0.0.7:8080"),
        ("10.0.0.0/8:1-65535", "[::ffff:10.0.0.7]:8080"),
        ("127.0.0.0/8:1-65535", "127.0.0.1:9900"),
        ("127.0.0.0/8:1-65535", "127.0.0.2:8080"),
        ("0.0.0.0/8:9900", "0.0.0.0:9900"),
    ] {
        assert_eq!(permits(entry, address), Err(NotAllowed::Own), "{entry} {address}");
    }
    assert_eq!(permits("10.0.0.7:8080", "10.0.0.7:8080"), Ok(()));
    assert_eq!(permits("127.0.0.1/32:9900", "127.0.0.1:9900"), Ok(()));
    assert_eq!(permits("10.0.0.0/8:1-65535", "10.0.0.7:8081"), Ok(()));
    assert_eq!(permits("10.0.0.0/8:1-65535", "10.0.0.8:8080"), Ok(()));
}

#[test]
fn an_entry_tells_what_it_opens() {
    let entry = |text: &str| text.parse::<Entry>().unwrap();
    assert_eq!(entry("127.0.0.1:9900").one(), Some("127.0.0.1:9900".parse().unwrap()));
    assert_eq!((entry("127.0.0.1:9900-9901").one(), entry("127.0.0.0/31:9900").one()), (None, None));
    for (text, special) in [
        ("169.254.0.0/16:80", Some(Special::LinkLocal)),
        ("169.254.169.254:1-65535", Some(Special::Metadata)),
        ("127.0.0.0/8:80", Some(Special::Loopback)),
        ("0.0.0.0/0:80", None),
        ("169.0.0.0/8:80", None),
    ] {
        assert_eq!(entry(text).opens(), special, "{text}");
    }
}
