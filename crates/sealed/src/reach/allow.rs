//! The networks and ports that labels of a route may name.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::str::FromStr;

use ipnet::{IpNet, Ipv6Net};

use super::canonical::canonical;
use super::special::{Special, range_of};

/// A network and a range of ports: `10.0.0.0/8:1024-65535`, `192.0.2.10:443`, `[2001:db8::/32]:443`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Entry {
    network: IpNet,
    ports: RangeInclusive<u16>,
}

/// The networks and ports that labels of a route may name. An empty one allows nothing.
///
/// A wide network is not meant to hold the machine itself or its cloud's credentials. So an address that
/// is [`Special`] is refused unless an entry lies wholly inside that special range (`127.0.0.0/8:3000`), and one of the
/// proxy's [own](super::Own) unless an entry names that one address and port (`127.0.0.1:9900`).
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Allow(Box<[Entry]>);

/// Why an address may not be named.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum NotAllowed {
    /// No entry holds it.
    NotListed,
    /// Entries hold it, but none names it as what it is.
    Special(Special),
    /// It is the proxy's own, and no entry names exactly it.
    Own,
}

impl Allow {
    /// Decides about an address, which is [brought to its canonical form](canonical) first. Costs a look at each entry.
    /// `is_own` is [`Own::contains`](super::Own::contains).
    ///
    /// # Errors
    /// Why it may not be named.
    pub fn permits(
        &self,
        address: SocketAddr,
        is_own: impl FnOnce(SocketAddr) -> bool,
    ) -> Result<(), NotAllowed> {
        let ip = canonical(address.ip());
        let holding = || self.0.iter().filter(|entry| entry.holds(ip, address.port()));
        if holding().next().is_none() {
            return Err(NotAllowed::NotListed);
        }
        if let Some((special, range)) = range_of(ip)
            && !holding().any(|entry| range.contains(&entry.network))
        {
            return Err(NotAllowed::Special(*special));
        }
        if !holding().any(Entry::is_one) && is_own(address) {
            return Err(NotAllowed::Own);
        }
        Ok(())
    }

    /// What is allowed, in the order in which it was given.
    pub fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.0.iter()
    }

    /// Whether nothing is allowed.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl FromIterator<Entry> for Allow {
    fn from_iter<T: IntoIterator<Item = Entry>>(entries: T) -> Self {
        Self(entries.into_iter().collect())
    }
}

impl Entry {
    fn holds(&self, ip: IpAddr, port: u16) -> bool {
        self.network.contains(&ip) && self.ports.contains(&port)
    }

    /// Whether it names exactly one address and one port.
    fn is_one(&self) -> bool {
        self.one().is_some()
    }

    /// The address and port, if the entry names exactly one. Only such an entry can allow one of the proxy's own
    /// addresses.
    pub fn one(&self) -> Option<SocketAddr> {
        let is_one = self.network.prefix_len() == self.network.max_prefix_len()
            && self.ports.start() == self.ports.end();
        is_one.then(|| SocketAddr::new(self.network.addr(), *self.ports.start()))
    }

    /// The special range that contains the whole entry, if there is one.
    pub fn opens(&self) -> Option<Special> {
        let (special, range) = range_of(self.network.addr())?;
        range.contains(&self.network).then_some(*special)
    }
}

impl NotAllowed {
    /// In words, for logs.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NotListed => "no entry of `allow` holds the address",
            Self::Own => "the address is the proxy's own",
            Self::Special(Special::Metadata) => "the address is that of a cloud's metadata",
            Self::Special(Special::Loopback) => "the address is loopback",
            Self::Special(Special::Unspecified) => "the address is the machine itself",
            Self::Special(Special::LinkLocal) => "the address is link-local",
            Self::Special(Special::Multicast) => "the address is multicast",
            Self::Special(Special::Broadcast) => "the address is broadcast",
            Self::Special(Special::Reserved) => "the address is reserved",
            Self::Special(Special::Translated) => "the address is translated",
        }
    }
}

impl fmt::Display for NotAllowed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.network {
            IpNet::V4(network) => write!(f, "{network}:")?,
            IpNet::V6(network) => write!(f, "[{network}]:")?,
        }
        match (self.ports.start(), self.ports.end()) {
            (from, to) if from == to => write!(f, "{from}"),
            (from, to) => write!(f, "{from}-{to}"),
        }
    }
}

impl FromStr for Entry {
    type Err = String;

    /// Reads `network:port` or `network:from-to`. A network is an address with or without the length of its prefix;
    /// IPv6 stands in brackets, prefix included. Ports are from 1 to 65535.
    fn from_str(text: &str) -> Result<Self, String> {
        const FORMS: &str = "write for example `10.0.0.0/8:1024-65535` or `[2001:db8::/32]:443`";
        if text.parse::<IpNet>().is_ok() || text.parse::<IpAddr>().is_ok() {
            return Err(format!("`{text}` has no port; {FORMS}"));
        }
        let (network, ports, bracketed) = match text.strip_prefix('[') {
            Some(rest) => {
                let (network, ports) = rest.rsplit_once("]:").ok_or_else(|| match rest.split_once("]/") {
                    Some(_) => format!(
                        "`{text}`: the prefix stands in the brackets too, as in `[2001:db8::/32]:443`"
                    ),
                    None => format!("`{text}` has no port behind the brackets; {FORMS}"),
                })?;
                (network, ports, true)
            }
            None => {
                let (network, ports) =
                    text.rsplit_once(':').ok_or_else(|| format!("`{text}` has no port; {FORMS}"))?;
                (network, ports, false)
            }
        };
        Ok(Self { network: parse_network(text, network, bracketed)?, ports: parse_ports(text, ports)? })
    }
}

/// The network of the entry `text`.
fn parse_network(text: &str, network: &str, bracketed: bool) -> Result<IpNet, String> {
    let parsed = network.parse::<IpNet>().ok().or_else(|| network.parse::<IpAddr>().ok().map(IpNet::from));
    let Some(parsed) = parsed else {
        return Err(format!(
            "`{network}` is not a network (`{text}`); write for example `10.0.0.0/8` or `10.0.0.1`"
        ));
    };
    match (parsed, bracketed) {
        (IpNet::V6(_), false) => {
            return Err(format!("`{text}`: an IPv6 network stands in brackets; write `[{network}]:…`"));
        }
        (IpNet::V4(_), true) => {
            return Err(format!("`{text}`: an IPv4 network stands without brackets; write `{network}:…`"));
        }
        _ => {}
    }
    if parsed.trunc() != parsed {
        return Err(format!("`{text}`: the address has bits behind its prefix; write `{}`", parsed.trunc()));
    }
    if let IpNet::V6(v6) = parsed
        && let Some(holder) = holder(v6)
    {
        return Err(format!(
            "`{text}` would never hold: addresses of {holder} are looked at as the IPv4 addresses inside them; write \
             the IPv4 network"
        ));
    }
    Ok(parsed)
}

/// The range in which every address stands for an IPv4 address, if a network lies wholly in one (see [`canonical`]).
fn holder(network: Ipv6Net) -> Option<&'static str> {
    const HOLDERS: [(&str, u128, u8); 5] = [
        ("::ffff:0:0/96", 0xffff << 32, 96),
        ("::/96", 0, 96),
        ("64:ff9b::/96", 0x64_ff9b << 96, 96),
        ("2002::/16", 0x2002 << 112, 16),
        ("2001::/32", 0x2001_0000 << 96, 32),
    ];
    // `::` and `::1` are themselves.
    if network.prefix_len() >= 127 && network.network().to_bits() <= 1 {
        return None;
    }
    let inside = |bits: u128, prefix: u8| {
        network.prefix_len() >= prefix
            && network.network().to_bits() >> (128 - prefix) == bits >> (128 - prefix)
    };
    HOLDERS.into_iter().find(|(_, bits, prefix)| inside(*bits, *prefix)).map(|(name, ..)| name)
}

/// The ports of the entry `text`.
fn parse_ports(text: &str, ports: &str) -> Result<RangeInclusive<u16>, String> {
    let port = |port: &str| {
        let digits = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
        let port = digits.then(|| port.parse().ok()).flatten().filter(|port| *port != 0);
        port.ok_or_else(|| {
            format!(
                "`{ports}` are no ports (`{text}`); write one from 1 to 65535, or a range as in `1-65535`"
            )
        })
    };
    let (from, to) = ports.split_once('-').unwrap_or((ports, ports));
    let (from, to) = (port(from)?, port(to)?);
    if from > to {
        return Err(format!("`{text}`: the range of ports goes from large to small; write `{to}-{from}`"));
    }
    Ok(from..=to)
}

#[cfg(test)]
mod tests;
