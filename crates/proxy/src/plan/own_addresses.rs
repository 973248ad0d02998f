//! The process's own addresses, and the check of endpoint addresses against them (decision 0105). An address is
//! *barred* if an endpoint may not use it; [`Barred`] is the reason.
//!
//! The file on disk may name any address. An endpoint from another origin (admin API, documents, sources) may name
//! none of the process's own addresses, no link-local address and no unix socket. No host name, wherever it is
//! written, may resolve to the admin API, the metrics or a link-local address. [`OwnAddresses::bars`] runs when an
//! endpoint arrives, [`OwnAddresses::bars_member`] when endpoint sets are built and host names are resolved,
//! [`OwnAddresses::bars_call`] when the control plane connects. None of them runs per exchange.

use crate::plan::Plan;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use thalweg_net::interfaces::is_machines;
use thalweg_sealed::reach::{Own, Special, canonical};
use thalweg_upstream::{Address, Endpoint, PeerAddress};

/// The listening addresses of the process.
#[derive(Clone, Debug, Default)]
pub struct OwnAddresses {
    /// Listeners that take connections.
    listeners: Arc<Own>,
    /// Listeners that take datagrams.
    datagrams: Arc<Own>,
    /// The admin API and the metrics.
    beside: Arc<Own>,
}

/// The reason why an endpoint may not use an address.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Barred {
    /// The admin API or the metrics of the process.
    Beside,
    /// A listener of the process.
    Listener,
    /// The metadata service of a cloud.
    Metadata,
    /// Another link-local address.
    LinkLocal,
    /// A unix socket.
    Unix,
}

impl Barred {
    /// A description of the address, as the end of a sentence.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Beside => "the admin API or the metrics",
            Self::Listener => "a listener of this proxy",
            Self::Metadata => "the metadata service of a cloud",
            Self::LinkLocal => "a link-local address",
            Self::Unix => "a unix socket",
        }
    }

    /// The reason for a special address; `None`: this kind is not barred.
    pub fn of(special: Special) -> Option<Self> {
        match special {
            Special::Metadata => Some(Self::Metadata),
            Special::LinkLocal => Some(Self::LinkLocal),
            _ => None,
        }
    }
}

impl fmt::Display for Barred {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl OwnAddresses {
    /// The bound addresses of listeners and UDP listeners, and those of the admin API and the metrics.
    pub fn new(listeners: Arc<Own>, datagrams: Arc<Own>, beside: Arc<Own>) -> Self {
        Self { listeners, datagrams, beside }
    }

    /// The addresses of a plan as written, without ports that the kernel chooses.
    pub fn written(plan: &Plan) -> Self {
        let tcp = plan.listeners.iter().filter_map(|listener| listener.address.tcp());
        let udp = plan.listeners.iter().filter_map(|listener| listener.address.udp());
        Self::new(Own::new(tcp).into(), Own::new(udp).into(), Own::new(plan.beside.iter().copied()).into())
    }

    /// Whether a connection to this address would reach the process itself.
    pub fn contains(&self, address: SocketAddr) -> bool {
        self.listeners.contains(address, is_machines) || self.is_beside(address)
    }

    /// Whether it would reach the admin API or the metrics.
    pub fn is_beside(&self, address: SocketAddr) -> bool {
        self.beside.contains(address, is_machines)
    }

    /// Why an endpoint with this written address may come only from the file. For the admin API and the metrics all
    /// loopback addresses count as one. Host names other than `localhost` are checked after resolution.
    pub fn bars(&self, address: &Address, takes_datagrams: bool) -> Option<Barred> {
        let loopback: [IpAddr; 2] = [Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()];
        let (ips, port) = match address {
            Address::Unix(_) => return Some(Barred::Unix),
            Address::Socket(address) => ([address.ip(); 2], address.port()),
            Address::Name { host, port } if is_localhost(host) => (loopback, *port),
            Address::Name { .. } => return None,
        };
        let is_beside = |ip: IpAddr| {
            let ip = canonical(ip);
            !takes_datagrams && (ip.is_loopback() || ip.is_unspecified()) && self.beside.is_on_loopback(port)
        };
        ips.into_iter().find_map(|ip| match is_beside(ip) {
            true => Some(Barred::Beside),
            false => self.bars_address(SocketAddr::new(ip, port), takes_datagrams),
        })
    }

    /// Why a member's address may not be used. For an endpoint of the file, only an address that a host name resolved
    /// to is barred.
    pub fn bars_member(&self, endpoint: &Endpoint, to: &PeerAddress) -> Option<Barred> {
        let PeerAddress::Tcp(address) = to else { return endpoint.is_added.then_some(Barred::Unix) };
        if is_named_by_file(endpoint) {
            return None;
        }
        let barred = self.bars_address(*address, endpoint.takes_datagrams())?;
        (endpoint.is_added || barred != Barred::Listener).then_some(barred)
    }

    /// Why the control plane may not connect to an address. `is_named`: the address itself was written, not a host
    /// name.
    pub fn bars_call(&self, address: SocketAddr, is_named: bool) -> Option<Barred> {
        match self.is_beside(address) {
            true => Some(Barred::Beside),
            false => Special::of(address.ip()).and_then(Barred::of).filter(|_| !is_named),
        }
    }

    fn bars_address(&self, address: SocketAddr, takes_datagrams: bool) -> Option<Barred> {
        let listeners = if takes_datagrams { &self.datagrams } else { &self.listeners };
        match () {
            () if !takes_datagrams && self.is_beside(address) => Some(Barred::Beside),
            () if listeners.contains(address, is_machines) => Some(Barred::Listener),
            () => Special::of(address.ip()).and_then(Barred::of),
        }
    }
}

/// Whether the file names the address of this endpoint itself. `localhost` counts, as it is always the loopback.
pub(crate) fn is_named_by_file(endpoint: &Endpoint) -> bool {
    !endpoint.is_added
        && match &endpoint.address {
            Address::Socket(_) | Address::Unix(_) => true,
            Address::Name { host, .. } => is_localhost(host),
        }
}

/// Whether a host name, in lower case and without a trailing dot, is this machine: names of RFC 6761 §6.3, and usual
/// names of the loopback in `/etc/hosts`.
pub fn is_localhost(host: &str) -> bool {
    host == "localhost" || host.ends_with(".localhost") || LOCALHOST.contains(&host)
}

/// Usual names of the loopback in `/etc/hosts`.
const LOCALHOST: &[&str] = &[
    "ip6-localhost",
    "ip6-loopback",
    "localhost.localdomain",
    "localhost.localdomain4",
    "localhost.localdomain6",
    "localhost4",
    "localhost4.localdomain4",
    "localhost6",
    "localhost6.localdomain6",
];

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;
    use thalweg_upstream::{EndpointLimits, Labels, Mode};

    fn own(address: &str) -> Arc<Own> {
        Own::new([address.parse().unwrap()]).into()
    }

    /// Listeners on the unspecified address, also for UDP; the admin API on the loopback.
    fn here() -> OwnAddresses {
        OwnAddresses::new(own("[::]:8080"), own("127.0.0.1:53"), own("127.0.0.1:9900"))
    }

    fn endpoint(address: Address, is_added: bool, scheme: &str) -> Endpoint {
        Endpoint {
            url: format!("{scheme}://{address}").into(),
            address,
            weight: 1,
            tier: 0,
            mode: Mode::Ready,
            labels: Labels::default(),
            limits: EndpointLimits::default(),
            is_added,
        }
    }

    fn socket(text: &str) -> Address {
        Address::Socket(text.parse().unwrap())
    }

    fn name(host: &str, port: u16) -> Address {
        Address::Name { host: host.into(), port }
    }

    #[test]
    fn no_endpoint_arrives_that_is_the_process_or_link_local() {
        for (text, barred) in [
            ("127.0.0.1:9900", Some(Barred::Beside)),
            ("127.0.0.2:9900", Some(Barred::Beside)),
            ("0.0.0.0:9900", Some(Barred::Beside)),
            ("[::1]:9900", Some(Barred::Beside)),
            ("[::ffff:127.0.0.1]:9900", Some(Barred::Beside)),
            ("[64:ff9b::7f00:1]:9900", Some(Barred::Beside)),
            ("127.0.0.1:8080", Some(Barred::Listener)),
            ("[::ffff:127.9.9.9]:8080", Some(Barred::Listener)),
            ("169.254.169.254:80", Some(Barred::Metadata)),
            ("[::ffff:169.254.169.254]:80", Some(Barred::Metadata)),
            ("169.254.1.1:80", Some(Barred::LinkLocal)),
            ("[fe80::1]:80", Some(Barred::LinkLocal)),
            ("192.0.2.1:9900", None),
            ("192.0.2.1:8080", None),
            ("127.0.0.1:80", None),
            ("127.0.0.1:53", None),
        ] {
            assert_eq!(here().bars(&socket(text), false), barred, "{text}");
        }
        for (host, port, barred) in [
            ("localhost", 9900, Some(Barred::Beside)),
            ("a.localhost", 8080, Some(Barred::Listener)),
            ("ip6-localhost", 9900, Some(Barred::Beside)),
            ("localhost4", 9900, Some(Barred::Beside)),
            ("localhost6.localdomain6", 9900, Some(Barred::Beside)),
            ("localhost.localdomain", 8080, Some(Barred::Listener)),
            ("localhost", 80, None),
            ("localhost.test", 9900, None),
        ] {
            assert_eq!(here().bars(&name(host, port), false), barred, "{host}:{port}");
        }
        let path = Address::Unix(PathBuf::from("/run/thalweg/admin.sock").into());
        assert_eq!(here().bars(&path, false), Some(Barred::Unix));
    }

    #[test]
    fn datagrams_and_connections_have_ports_of_their_own() {
        assert_eq!(here().bars(&socket("127.0.0.1:53"), true), Some(Barred::Listener));
        assert_eq!(here().bars(&socket("127.0.0.1:8080"), true), None);
        assert_eq!(here().bars(&socket("127.0.0.1:9900"), true), None);
    }

    #[test]
    fn a_host_name_leads_to_neither_the_admin_api_nor_a_link_local_address_wherever_it_is_written() {
        let bars = |address: Address, is_added, to: &str| {
            let to = PeerAddress::Tcp(to.parse().unwrap());
            here().bars_member(&endpoint(address, is_added, "http"), &to)
        };
        for is_added in [false, true] {
            let told = |port: u16, to: &str| bars(name("app.test", port), is_added, to);
            assert_eq!(told(9900, "127.0.0.1:9900"), Some(Barred::Beside));
            assert_eq!(told(9900, "[::ffff:127.0.0.1]:9900"), Some(Barred::Beside));
            assert_eq!(told(80, "169.254.169.254:80"), Some(Barred::Metadata));
            assert_eq!(told(8080, "127.0.0.1:8080"), is_added.then_some(Barred::Listener));
            assert_eq!(told(80, "192.0.2.1:80"), None);
            // Another process listens there.
            assert_eq!(told(9900, "127.0.0.2:9900"), None);
        }
    }

    #[test]
    fn the_file_may_name_what_nothing_else_may() {
        for (address, to) in [
            (socket("127.0.0.1:9900"), "127.0.0.1:9900"),
            (socket("127.0.0.1:8080"), "127.0.0.1:8080"),
            (socket("169.254.169.254:80"), "169.254.169.254:80"),
            (name("localhost", 9900), "127.0.0.1:9900"),
        ] {
            let to = PeerAddress::Tcp(to.parse().unwrap());
            let bars = |is_added| here().bars_member(&endpoint(address.clone(), is_added, "http"), &to);
            assert_eq!(bars(false), None, "{address}");
            assert!(bars(true).is_some(), "{address}");
        }
        let path = Arc::new(PathBuf::from("/run/app.sock"));
        let bars = |is_added| {
            let endpoint = endpoint(Address::Unix(path.clone()), is_added, "unix");
            here().bars_member(&endpoint, &PeerAddress::Unix(path.clone()))
        };
        assert_eq!((bars(false), bars(true)), (None, Some(Barred::Unix)));
    }

    #[test]
    fn control_calls_no_own_address_and_no_name_that_stands_for_a_link_local_one() {
        let bars = |to: &str, is_named| here().bars_call(to.parse().unwrap(), is_named);
        for is_named in [false, true] {
            assert_eq!(bars("127.0.0.1:9900", is_named), Some(Barred::Beside));
            assert_eq!(bars("127.0.0.1:8080", is_named), None);
        }
        assert_eq!(bars("169.254.169.254:80", false), Some(Barred::Metadata));
        assert_eq!(bars("169.254.169.254:80", true), None);
    }
}
