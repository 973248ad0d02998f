//! Where sessions go: the servers, and the sealed host names that stand for them.

use std::env;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use thalweg_sealed::{Destination, Key, Keyring, Minutes, Secret, To};

/// The id of the key that seals.
const KEY: u8 = 1;
/// Time for which a label is valid.
const VALID: Duration = Duration::from_hours(24);
/// The first address that a server may have, and how many follow: 127.0.0.0/8 without its first and its last.
const FIRST: u32 = 0x7f00_0001;
const ADDRESSES: u32 = 0x00ff_fffe;

/// The servers.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Targets(Vec<SocketAddr>);

impl Targets {
    /// Reads `ports:PORT,PORT…` or `addresses:COUNT:PORT`.
    pub(crate) fn named(text: &str) -> Option<Self> {
        let servers: Vec<SocketAddr> = match text.split_once(':')? {
            ("ports", ports) => {
                let server = |port: &str| Some(SocketAddr::from((Ipv4Addr::LOCALHOST, port.parse().ok()?)));
                ports.split(',').map(server).collect::<Option<_>>()?
            }
            ("addresses", rest) => {
                let (count, port) = rest.split_once(':')?;
                let (count, port): (u32, u16) = (count.parse().ok()?, port.parse().ok()?);
                (0..count).map(|i| SocketAddr::from((spread(i, count), port))).collect()
            }
            _ => return None,
        };
        let reachable = servers.len() <= ADDRESSES as usize && servers.iter().all(|server| server.port() > 0);
        (reachable && !servers.is_empty()).then_some(Self(servers))
    }

    /// Seals each of them for a domain, with the key of the environment: host names in the same order.
    pub(crate) fn seal(&self, domain: &str) -> io::Result<Vec<String>> {
        let secret = env::var("SEAL_KEY").map_err(io::Error::other)?;
        let secret = Secret::from_hex(&secret).map_err(io::Error::other)?;
        let keyring = Keyring::new(vec![Key { id: KEY, secret }], domain)
            .map_err(|error| io::Error::other(format!("the domain or the key: {error:?}")))?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_err(io::Error::other)?;
        let expires = Minutes::after(now.as_secs(), VALID);
        let seal = |server: &SocketAddr| {
            let destination = Destination { to: To::Address(*server), tls: false, expires };
            let label = keyring.seal(&destination).map_err(io::Error::other)?;
            Ok(format!("{label}.{domain}"))
        };
        self.0.iter().map(seal).collect()
    }
}

/// One of `count` addresses that are spread evenly over 127.0.0.0/8.
fn spread(i: u32, count: u32) -> Ipv4Addr {
    let offset = u64::from(i) * u64::from(ADDRESSES) / u64::from(count);
    // Less than ADDRESSES.
    Ipv4Addr::from(FIRST + offset as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_and_addresses_are_read() {
        let ports = Targets::named("ports:4001,4002").unwrap();
        assert_eq!(ports.0, ["127.0.0.1:4001".parse().unwrap(), "127.0.0.1:4002".parse().unwrap()]);
        let addresses = Targets::named("addresses:2:4001").unwrap();
        assert_eq!(addresses.0, ["127.0.0.1:4001".parse().unwrap(), "127.128.0.0:4001".parse().unwrap()]);
        for wrong in
            ["", "ports:", "ports:0", "ports:1,x", "addresses:0:1", "addresses:1", "addresses:16777215:1"]
        {
            assert_eq!(Targets::named(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn fifty_thousand_addresses_are_all_different_and_loopback() {
        let all: Vec<_> = (0..50_000).map(|i| spread(i, 50_000)).collect();
        assert!(all.is_sorted_by(|a, b| a < b) && all.iter().all(Ipv4Addr::is_loopback));
        assert_eq!(spread(ADDRESSES - 1, ADDRESSES), Ipv4Addr::new(127, 255, 255, 254));
    }
}
