//! Places, the goals of ways: services, endpoints, cache spaces and directories of files; and the spellings of one
//! address.
//!
//! Addresses are compared in canonical form. Loopback addresses, `localhost`, the unspecified addresses and those of
//! this machine's interfaces all reach a server that listens on every address. So one of these that a configuration
//! does not contain matches all of them that it contains with the same port. A directory that a configuration does not
//! contain matches the closest one above it and those below it; symbolic links are not followed.

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::hash::Hash;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::ops::Bound;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use thalweg_proxy::plan::{is_localhost, is_machines};
use thalweg_sealed::reach::canonical;
use thalweg_upstream::Address;

/// The goal of a way.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub(super) enum Place {
    /// A service, by its name.
    Service(Arc<str>),
    /// An endpoint at an address in canonical form.
    Socket(IpAddr, u16),
    /// An endpoint at a host name.
    Name(Arc<str>, u16),
    /// An endpoint at a unix socket.
    Unix(Arc<PathBuf>),
    /// Stored responses: a space of the cache.
    Space(Box<str>),
    /// The files below a directory, without `.` and `..` in its path.
    Files(Arc<Path>),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Service(name) => write!(f, "the service `{name}`"),
            Self::Socket(ip, port) => write!(f, "the endpoint {}", SocketAddr::new(*ip, *port)),
            Self::Name(host, port) => write!(f, "the endpoint {host}:{port}"),
            Self::Unix(path) => write!(f, "the endpoint unix:{}", path.display()),
            Self::Space(name) => write!(f, "the cache space `{}`", name.escape_debug()),
            Self::Files(root) => write!(f, "the files in {}", root.display()),
        }
    }
}

impl Place {
    pub(super) fn of(address: &Address) -> Self {
        match address {
            Address::Socket(address) => Self::Socket(canonical(address.ip()), address.port()),
            Address::Name { host, port } => match number(host) {
                Some(ip) => Self::Socket(ip.into(), *port),
                None => Self::Name(host.clone(), *port),
            },
            Address::Unix(path) => Self::Unix(path.clone()),
        }
    }

    /// The files below a directory.
    pub(super) fn files(root: &Path) -> Self {
        let mut plain = PathBuf::new();
        for part in root.components() {
            match part {
                Component::CurDir => {}
                Component::ParentDir => drop(plain.pop()),
                part => plain.push(part),
            }
        }
        Self::Files(plain.into())
    }

    /// The port, if the address is this machine's in any spelling.
    fn local_port(&self, is_machines: fn(IpAddr) -> bool) -> Option<u16> {
        match self {
            Self::Socket(ip, port) => {
                (ip.is_loopback() || ip.is_unspecified() || is_machines(*ip)).then_some(*port)
            }
            Self::Name(host, port) => is_localhost(host).then_some(*port),
            Self::Service(_) | Self::Unix(_) | Self::Space(_) | Self::Files(_) => None,
        }
    }

    /// Its socket addresses, as far as they are known without resolution.
    pub(super) fn sockets(&self) -> Vec<SocketAddr> {
        match self {
            Self::Socket(ip, port) => vec![SocketAddr::new(*ip, *port)],
            Self::Name(host, port) if is_localhost(host) => {
                [IpAddr::from(Ipv4Addr::LOCALHOST), std::net::Ipv6Addr::LOCALHOST.into()]
                    .map(|ip| SocketAddr::new(ip, *port))
                    .into()
            }
            _ => Vec::new(),
        }
    }
}

/// Parses an IPv4 address in the other forms of `inet_aton`, which resolvers accept: `0x7f000001`, `127.0.0x1`.
fn number(host: &str) -> Option<Ipv4Addr> {
    let part = |text: &str| match text.strip_prefix("0x") {
        Some("") => Some(0),
        Some(digits) => u32::from_str_radix(digits, 16).ok(),
        None if text.len() > 1 && text.starts_with('0') => u32::from_str_radix(text, 8).ok(),
        None => text.parse().ok(),
    };
    let parts: Option<Vec<u32>> = host.split('.').map(part).collect();
    let parts = parts?;
    let (last, first) = parts.split_last()?;
    let bits = 32 - 8 * u32::try_from(first.len()).ok().filter(|count| *count < 4)?;
    let fits = first.iter().all(|part| *part < 256) && u64::from(*last) < 1 << bits;
    let high = first.iter().fold(0_u64, |all, part| (all << 8) | u64::from(*part));
    fits.then(|| Ipv4Addr::from(((high << bits) | u64::from(*last)) as u32))
}

/// A map keyed by place.
#[derive(Clone, Debug)]
pub(super) struct ByPlace<T> {
    all: HashMap<Place, T>,
    /// Places on this machine, by port.
    local: HashMap<u16, BTreeSet<Place>>,
    /// Directories of files.
    roots: BTreeSet<Arc<Path>>,
    /// Whether an address is one of this machine.
    is_machines: fn(IpAddr) -> bool,
}

impl<T> Default for ByPlace<T> {
    fn default() -> Self {
        Self { all: HashMap::new(), local: HashMap::new(), roots: BTreeSet::new(), is_machines }
    }
}

impl<T> ByPlace<T> {
    pub(super) fn entry_or(&mut self, place: &Place, new: impl FnOnce() -> T) -> &mut T {
        if !self.all.contains_key(place) {
            if let Some(port) = place.local_port(self.is_machines) {
                self.local.entry(port).or_default().insert(place.clone());
            }
            if let Place::Files(root) = place {
                self.roots.insert(root.clone());
            }
        }
        self.all.entry(place.clone()).or_insert_with(new)
    }

    pub(super) fn get_exactly(&self, place: &Place) -> Option<&T> {
        self.all.get(place)
    }

    /// The values of a place, or of the places that it may be.
    pub(super) fn get(&self, place: &Place) -> Vec<(&Place, &T)> {
        if let Some(known) = self.all.get_key_value(place) {
            return vec![known];
        }
        if let Place::Files(root) = place {
            return self.around(root);
        }
        if self.local.is_empty() {
            return Vec::new();
        }
        let port = place.local_port(self.is_machines);
        let others = port.and_then(|port| self.local.get(&port)).into_iter().flatten();
        others.filter_map(|place| self.all.get_key_value(place)).collect()
    }

    /// The values of the closest directory above another one, and of those below it.
    fn around(&self, root: &Path) -> Vec<(&Place, &T)> {
        let above = root.ancestors().skip(1).find_map(|above| self.roots.get(above));
        let from = (Bound::Included(root), Bound::Unbounded);
        let below = self.roots.range::<Path, _>(from).take_while(|known| known.starts_with(root));
        let found = above.into_iter().chain(below);
        found.filter_map(|known| self.all.get_key_value(&Place::Files(known.clone()))).collect()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&Place, &T)> {
        self.all.iter()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }
}

/// The same host at the port that health checks ask.
pub fn at_port(address: &Address, port: Option<u16>) -> Address {
    match (address, port) {
        (Address::Socket(address), Some(port)) => Address::Socket(SocketAddr::new(address.ip(), port)),
        (Address::Name { host, .. }, Some(port)) => Address::Name { host: host.clone(), port },
        (address, _) => address.clone(),
    }
}

/// Addresses that the endpoints of a service may not have, with the reasons.
#[derive(Clone, Debug, Default)]
pub struct KeptPlaces(ByPlace<String>);

impl KeptPlaces {
    /// Adds an address.
    pub fn add(&mut self, address: &Address, why: impl FnOnce() -> String) {
        self.0.entry_or(&Place::of(address), why);
    }

    /// Why an endpoint may not have this address, of which health checks may ask another port; `None`: it may.
    pub fn why(&self, address: &Address, checked: Option<u16>) -> Option<&str> {
        if self.0.is_empty() {
            return None;
        }
        let why = |address: &Address| self.0.get(&Place::of(address)).first().map(|(_, why)| &***why);
        why(address).or_else(|| checked.and_then(|_| why(&at_port(address, checked))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(host: &str) -> Place {
        let address = match host.parse() {
            Ok(ip) => Address::Socket(SocketAddr::new(ip, 80)),
            Err(_) => Address::Name { host: host.into(), port: 80 },
        };
        Place::of(&address)
    }

    #[test]
    fn one_address_in_other_words_is_the_same_place() {
        for text in
            ["::ffff:127.0.0.1", "0x7f000001", "127.0.0x1", "0x7f.0x1", "0177.0.0.0x1", "64:ff9b::127.0.0.1"]
        {
            assert_eq!(place(text), place("127.0.0.1"), "{text}");
        }
        assert_eq!(place("::ffff:10.0.0.1"), place("10.0.0.1"));
        for text in
            ["127.0.0.2", "::1", "localhost", "0xx", "a.0x1", "0x1ffffffff", "0x100.0x1", "1.2.3.4.0x5"]
        {
            assert_ne!(place(text), place("127.0.0.1"), "{text}");
        }
    }

    #[test]
    fn a_spelling_of_the_machine_that_is_unknown_stands_for_those_that_are_known() {
        let mut known = ByPlace::default();
        known.entry_or(&place("127.0.0.1"), || 1);
        known.entry_or(&place("10.0.0.1"), || 2);
        for text in
            ["127.0.0.1", "127.9.9.9", "::1", "::", "0.0.0.0", "localhost", "a.localhost", "ip6-localhost"]
        {
            let place = place(text);
            assert_eq!(known.get(&place).into_iter().map(|(_, it)| *it).collect::<Vec<_>>(), [1], "{text}");
        }
        assert!(known.get(&place("10.0.0.2")).is_empty());
        // An address of an interface reaches it, too; and the other way round.
        known.is_machines = |ip| ip == IpAddr::from([192, 0, 2, 7]);
        assert_eq!(known.get(&place("192.0.2.7"))[0].1, &1);
        assert!(known.get(&place("192.0.2.8")).is_empty());
        let mut of_interface = ByPlace { is_machines: known.is_machines, ..ByPlace::default() };
        of_interface.entry_or(&place("192.0.2.7"), || 1);
        for text in ["127.0.0.1", "::", "localhost", "::ffff:192.0.2.7"] {
            assert_eq!(of_interface.get(&place(text)).len(), 1, "{text}");
        }
        // A place that is known itself matches only itself.
        known.entry_or(&place("127.0.0.2"), || 3);
        assert_eq!(known.get(&place("127.0.0.2"))[0].1, &3);
        assert_eq!(known.get(&place("localhost")).len(), 2);
    }

    #[test]
    fn a_directory_stands_for_the_closest_one_above_it_and_for_those_below_it() {
        let mut known = ByPlace::default();
        for (root, number) in [("/srv", 1), ("/srv/www", 2), ("/srv/www/secret", 3), ("/srv/www2", 4)] {
            known.entry_or(&Place::files(Path::new(root)), || number);
        }
        for (root, numbers) in [
            ("/srv/www", &[2][..]),
            ("/srv/./www/../www/", &[2]),
            ("/srv/www/secret/a/b", &[3]),
            ("/srv/www/a", &[2]),
            ("/srv/w", &[1]),
            ("/", &[1, 2, 3, 4]),
            ("/home", &[]),
        ] {
            let found = known.get(&Place::files(Path::new(root)));
            assert_eq!(found.into_iter().map(|(_, it)| *it).collect::<Vec<_>>(), numbers, "{root}");
        }
    }
}
