//! The proxy's own addresses: a label that names one would let a request into the proxy from inside.

use std::collections::HashSet;
use std::net::{IpAddr, SocketAddr};

use super::canonical::canonical;
use super::special::Special;

/// Where the proxy itself listens, the admin API included, on a machine with known addresses.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Own {
    addresses: HashSet<(IpAddr, u16)>,
    /// Ports that are its own on every address of the machine.
    everywhere: HashSet<u16>,
    /// Ports that are its own on some loopback address: `0.0.0.0` reaches these too.
    loopback: HashSet<u16>,
    machine: HashSet<IpAddr>,
}

impl Own {
    /// Takes the addresses of listeners as they were bound and those of the machine's interfaces.
    ///
    /// A listener on `0.0.0.0` or `[::]` counts for every address of the machine and every loopback and unspecified
    /// one, of both families.
    pub fn new(
        listeners: impl IntoIterator<Item = SocketAddr>,
        machine: impl IntoIterator<Item = IpAddr>,
    ) -> Self {
        let mut own = Self { machine: machine.into_iter().map(canonical).collect(), ..Self::default() };
        for listener in listeners {
            let (ip, port) = (canonical(listener.ip()), listener.port());
            match Special::of(ip) {
                _ if ip.is_unspecified() => own.everywhere.insert(port),
                Some(Special::Loopback) => own.loopback.insert(port) | own.addresses.insert((ip, port)),
                _ => own.addresses.insert((ip, port)),
            };
        }
        own
    }

    /// Whether a connection to this address would end at the proxy itself.
    pub fn contains(&self, address: SocketAddr) -> bool {
        let (ip, port) = (canonical(address.ip()), address.port());
        let special = Special::of(ip);
        let here =
            matches!(special, Some(Special::Loopback | Special::Unspecified)) || self.machine.contains(&ip);
        self.addresses.contains(&(ip, port))
            || here && self.everywhere.contains(&port)
            || special == Some(Special::Unspecified) && self.loopback.contains(&port)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own(listeners: &[&str], machine: &[&str]) -> Own {
        let listeners = listeners.iter().map(|text| text.parse().unwrap());
        Own::new(listeners, machine.iter().map(|text| text.parse().unwrap()))
    }

    #[test]
    fn a_listener_on_every_address_counts_for_all_of_the_machine() {
        for listener in ["0.0.0.0:8080", "[::]:8080", "[::ffff:0.0.0.0]:8080"] {
            let own = own(&[listener], &["10.0.0.7", "2001:db8::7"]);
            for text in [
                "10.0.0.7:8080",
                "[2001:db8::7]:8080",
                "[::ffff:10.0.0.7]:8080",
                "127.0.0.1:8080",
                "127.1.2.3:8080",
                "[::1]:8080",
                "0.0.0.0:8080",
                "[::]:8080",
            ] {
                assert!(own.contains(text.parse().unwrap()), "{listener} {text}");
            }
            for text in ["10.0.0.8:8080", "10.0.0.7:8081", "[2001:db8::8]:8080", "127.0.0.1:80"] {
                assert!(!own.contains(text.parse().unwrap()), "{listener} {text}");
            }
        }
    }

    #[test]
    fn a_listener_on_one_address_counts_for_that_one() {
        let own = own(&["10.0.0.7:80", "127.0.0.1:9900"], &["10.0.0.7"]);
        for text in ["10.0.0.7:80", "127.0.0.1:9900", "[::ffff:127.0.0.1]:9900", "0.0.0.0:9900", "[::]:9900"]
        {
            assert!(own.contains(text.parse().unwrap()), "{text}");
        }
        for text in ["127.0.0.1:80", "0.0.0.0:80", "10.0.0.7:9900", "127.0.0.2:9900"] {
            assert!(!own.contains(text.parse().unwrap()), "{text}");
        }
        assert!(!Own::default().contains("127.0.0.1:80".parse().unwrap()));
    }
}
