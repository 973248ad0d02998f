//! The proxy's own addresses: a label that names one would let a request into the proxy from inside.

use std::collections::HashSet;
use std::net::{IpAddr, SocketAddr};

use super::canonical::canonical;
use super::special::Special;

/// Where the proxy itself listens, the admin API included.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Own {
    addresses: HashSet<(IpAddr, u16)>,
    /// Ports that are its own on every address of the machine.
    everywhere: HashSet<u16>,
    /// Ports that are its own on some loopback address: `0.0.0.0` reaches these too.
    loopback: HashSet<u16>,
}

impl Own {
    /// Takes the addresses of listeners as they were bound.
    ///
    /// A listener on `0.0.0.0` or `[::]` counts for every address of the machine and every loopback and unspecified
    /// one, of both families.
    pub fn new(listeners: impl IntoIterator<Item = SocketAddr>) -> Self {
        let mut own = Self::default();
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

    /// Whether one of them is reachable through any loopback address with this port.
    pub fn is_on_loopback(&self, port: u16) -> bool {
        self.everywhere.contains(&port) || self.loopback.contains(&port)
    }

    /// Whether a connection to this address would end at the proxy itself. `is_machines` tells whether an address is
    /// one of this machine's now; it is asked about few.
    pub fn contains(&self, address: SocketAddr, is_machines: impl FnOnce(IpAddr) -> bool) -> bool {
        let (ip, port) = (canonical(address.ip()), address.port());
        let special = Special::of(ip);
        let is_here = || matches!(special, Some(Special::Loopback | Special::Unspecified)) || is_machines(ip);
        self.addresses.contains(&(ip, port))
            || self.everywhere.contains(&port) && is_here()
            || special == Some(Special::Unspecified) && self.loopback.contains(&port)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own(listeners: &[&str]) -> Own {
        Own::new(listeners.iter().map(|text| text.parse().unwrap()))
    }

    fn holds(own: &Own, machine: &[&str], address: &str) -> bool {
        own.contains(address.parse().unwrap(), |ip| machine.contains(&&*ip.to_string()))
    }

    #[test]
    fn a_listener_on_every_address_counts_for_all_of_the_machine() {
        for listener in ["0.0.0.0:8080", "[::]:8080", "[::ffff:0.0.0.0]:8080"] {
            let (own, machine) = (own(&[listener]), ["10.0.0.7", "2001:db8::7"]);
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
                assert!(holds(&own, &machine, text), "{listener} {text}");
            }
            for text in ["10.0.0.8:8080", "10.0.0.7:8081", "[2001:db8::8]:8080", "127.0.0.1:80"] {
                assert!(!holds(&own, &machine, text), "{listener} {text}");
            }
        }
    }

    #[test]
    fn a_listener_on_one_address_counts_for_that_one() {
        let (own, machine) = (own(&["10.0.0.7:80", "127.0.0.1:9900"]), ["10.0.0.7"]);
        for text in ["10.0.0.7:80", "127.0.0.1:9900", "[::ffff:127.0.0.1]:9900", "0.0.0.0:9900", "[::]:9900"]
        {
            assert!(holds(&own, &machine, text), "{text}");
        }
        for text in ["127.0.0.1:80", "0.0.0.0:80", "10.0.0.7:9900", "127.0.0.2:9900"] {
            assert!(!holds(&own, &machine, text), "{text}");
        }
        assert!(!holds(&Own::default(), &machine, "127.0.0.1:80"));
        assert!(own.is_on_loopback(9900) && !own.is_on_loopback(80));
    }
}
